"""From the words of an opcode to its declaration and modifiers, or to the best message about what is wrong
with them.
"""

from __future__ import annotations

import difflib

from drywell.base.dtypes import TYPES
from drywell.base.record import record
from drywell.isa.declare import REGISTRY, Declaration, Mods, Problem, Slot


@record
class Mismatch:
    """Why a spelling matches no declaration: the index of the offending word (len(words) = the end),
    message, remark, hint, code.
    """

    index: int
    message: str
    at: str = ""
    hint: str = ""
    code: str = "E0301"


def _fill_in_order(
    slots: tuple[Slot, ...], words: tuple[str, ...]
) -> tuple[dict[str, str | None] | None, int, Slot | None]:
    """Match words against slots left to right; return (modifiers or None, index of the first word not
    placed, the slot it failed at).
    """
    got: dict[str, str | None] = {}
    k = 0
    for slot in slots:
        if k < len(words) and words[k] in slot.options:
            got[slot.name] = words[k]
            k += 1
        elif slot.is_optional:
            got[slot.name] = None
        else:
            return None, k, slot
    return (got, k, None) if k == len(words) else (None, k, None)


_SPACES = ("const", "global", "local", "param", "shared", "shared::cta", "shared::cluster")
_OTHER_TYPES = ("b8x16", "b6x16_p32", "b4x16_p64", "s4", "u4")
_KINDS = {
    **dict.fromkeys(_SPACES, "space"),
    **dict.fromkeys((*TYPES, *_OTHER_TYPES), "type"),
    "row": "layout",
    "col": "layout",
}


def _kind(word: str) -> str:
    """Return what keeps `word` in order among its like: spaces, types, layouts do, others stand anywhere."""
    return _KINDS.get(word, word)


def opcode_length(declaration: Declaration) -> int:
    """Return how many of its first words are literal: the opcode, as `ptxas` reads it."""
    slots = declaration.slots
    return next((k for k, s in enumerate(slots) if s.is_optional or not s.is_literal), len(slots))


def _fill_any_order(
    slots: tuple[Slot, ...], words: tuple[str, ...]
) -> tuple[dict[str, str | None] | None, int, Slot | None]:
    """Match as `ptxas` does: leading literal words are the opcode and stay in front, modifiers change places.

    State spaces stay in order among themselves, and so do types and matrix layouts: `.global.shared::cta`
    is not `.shared::cta.global`. Source: tried with ptxas 13.0.88.
    """
    num_opcode = next((k for k, s in enumerate(slots) if s.is_optional or not s.is_literal), len(slots))
    for k, slot in enumerate(slots[:num_opcode]):
        if k >= len(words) or words[k] != slot.name:
            return None, k, slot
    got: dict[str, str | None] = {slot.name: slot.name for slot in slots[:num_opcode]}
    reached: dict[str, int] = {}
    for k, word in enumerate(words[num_opcode:], num_opcode):
        first = reached.get(_kind(word), num_opcode)
        fits = (n for n, s in enumerate(slots) if n >= first and s.name not in got and word in s.options)
        n = next(fits, None)
        if n is None:
            return None, k, next((s for s in slots if s.name not in got and not s.is_optional), None)
        got[slots[n].name] = word
        reached[_kind(word)] = n + 1
    missing = next((s for s in slots if s.name not in got and not s.is_optional), None)
    if missing is not None:
        return None, len(words), missing
    return {s.name: got.get(s.name) for s in slots}, len(words), None


def _fill(
    declaration: Declaration, words: tuple[str, ...]
) -> tuple[dict[str, str | None] | None, int, Slot | None]:
    fill = _fill_any_order if declaration.is_order_free else _fill_in_order
    return fill(declaration.slots, words)


def _ungrouped(declaration: Declaration, got: dict[str, str | None]) -> Slot | None:
    for slot in declaration.slots:
        partners = [s for s in declaration.slots if s.group == slot.group is not None]
        if got[slot.name] is None and any(got[s.name] is not None for s in partners):
            return slot
    return None


def _mismatch(words: tuple[str, ...], best: tuple[int, Declaration, Slot | None]) -> Mismatch:
    index, declaration, slot = best
    hint = ""
    if slot is not None:
        hint = "expected " + " or ".join("." + o for o in slot.options[:12])
    if index < len(words):
        close = difflib.get_close_matches(words[index], [o for s in declaration.slots for o in s.options], 1)
        hint = f"did you mean '.{close[0]}'?" if close and close[0] != words[index] else hint
        opcode = ".".join(words[: max(1, min(index, opcode_length(declaration)))])
        message = f"'.{words[index]}' is not a modifier of '{opcode}' here"
    else:
        message = f"'{'.'.join(words)}' lacks a modifier"
    return Mismatch(index, message, f"the form is {declaration.syntax}", hint)


def decode(words: tuple[str, ...]) -> tuple[Declaration, Mods] | Mismatch:
    """Return the declaration that the words spell and their modifiers, or why there is none."""
    candidates = REGISTRY.get(words[0])
    if not candidates:
        close = difflib.get_close_matches(words[0], REGISTRY, 1)
        return Mismatch(
            0,
            f"'{words[0]}' is not an instruction Drywell knows",
            hint=f"did you mean '{close[0]}'?" if close else "",
            code="E0300",
        )
    best: tuple[int, Declaration, Slot | None] | None = None
    for declaration in candidates:
        got, index, slot = _fill(declaration, words)
        if got is not None:
            lone = _ungrouped(declaration, got)
            if lone is None:
                return declaration, Mods(got)
            slot, index = lone, len(words)
        if best is None or index > best[0]:
            best = (index, declaration, slot)
    assert best is not None
    return _mismatch(words, best)


def problems(declaration: Declaration, mods: Mods) -> tuple[Problem, ...]:
    """Return what the declaration's checks say against these modifiers."""
    found = []
    for check in declaration.checks:
        verdict = check(mods)
        if verdict is not None:
            found.append(Problem(verdict) if isinstance(verdict, str) else verdict)
    return tuple(found)
