"""The rows: every spelling of a declaration, allowed or not, and near misses; all made from the declaration
alone.

A row is one instruction as text. Which rows a declaration gets is deterministic, so that a stored verdict
stays good as long as the declaration does.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Declaration, Mods, Op, Operand, Slot
from drywell.isa.decode import problems
from oracle.ptxas.quirks import is_quirk
from oracle.ptxas.scaffold import BIT_REGISTERS, TARGET, TYPED_REGISTERS

FULL_PRODUCT = 2000
"""A product of options larger than this is covered pairwise."""

Head = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction: whose form it is (see `form_of`), its text, and how it was made."""

    form: str
    text: str
    origin: str


def form_of(declaration: Declaration) -> str:
    """Name a declaration: its syntax line and the options of its slots, for several may share a line."""
    options = "; ".join(f"{s.name}: {' '.join(s.options)}" for s in declaration.slots if not s.is_literal)
    return f"{declaration.syntax} :: {options}"


def rows_of(declaration: Declaration) -> tuple[Row, ...]:
    """Return the rows of one declaration, each text once."""
    form = form_of(declaration)
    seen: dict[str, Row] = {}
    for text, origin in _texts(declaration):
        if not is_quirk(text):
            seen.setdefault(text, Row(form, text, origin))
    return tuple(seen.values())


def _texts(declaration: Declaration) -> Iterator[tuple[str, str]]:
    rng = random.Random(zlib.crc32(form_of(declaration).encode()))
    heads = list(_heads(declaration, rng))
    for k, head in enumerate(heads):
        yield _spelt(declaration, head, _operands(declaration, head, k)), "product"
    legal = [head for head in heads if is_legal(declaration, head)] or heads
    chosen = legal[:1] + rng.sample(legal[1:], min(2, len(legal) - 1))
    for k, head in enumerate(chosen):
        yield from _operand_forms(declaration, head, everything=k == 0)
        yield from _word_misses(declaration, head, 19 if k == 0 else 3, rng)
        yield from _operand_misses(declaration, head, 14 if k == 0 else 3, rng)


# heads


def choices_of(slot: Slot) -> tuple[str | None, ...]:
    """Return what may stand in a slot; None for nothing."""
    return (*slot.options, None) if slot.is_optional else slot.options


def _mods(declaration: Declaration, head: Head) -> Mods:
    return Mods({slot.name: word for slot, word in zip(declaration.slots, head, strict=True)})


def is_legal(declaration: Declaration, head: Head) -> bool:
    """Say whether a head is a spelling that the declaration allows."""
    lone = any(
        slot.group is not None
        and word is None
        and any(o.group == slot.group and w for o, w in zip(declaration.slots, head, strict=True))
        for slot, word in zip(declaration.slots, head, strict=True)
    )
    return not lone and not problems(declaration, _mods(declaration, head))


def _heads(declaration: Declaration, rng: random.Random) -> Iterable[Head]:
    """Return the whole product, or a pairwise cover and a walk through the allowed part of it."""
    choices = [choices_of(slot) for slot in declaration.slots]
    if math.prod(map(len, choices)) <= FULL_PRODUCT:
        return list(itertools.product(*choices))
    found = dict.fromkeys(_pairwise(choices, rng))
    found.update(dict.fromkeys(_allowed_walk(declaration, choices, rng)))
    return found


def _pairwise(choices: list[tuple[str | None, ...]], rng: random.Random) -> Iterator[Head]:
    """Yield heads that together hold every pair of options of every two slots (greedy, as AETG does)."""
    n = len(choices)
    left = {
        (a, x, b, y)
        for a, b in itertools.combinations(range(n), 2)
        for x in range(len(choices[a]))
        for y in range(len(choices[b]))
        if len(choices[a]) > 1 or len(choices[b]) > 1
    }
    while left:
        a, x, b, y = min(left)
        row: dict[int, int] = {a: x, b: y}
        rest = [s for s in range(n) if s not in row]
        rng.shuffle(rest)
        for slot in rest:
            gains = [
                sum(
                    (min(slot, o), row[o] if o < slot else v, max(slot, o), v if o < slot else row[o]) in left
                    for o in row
                )
                for v in range(len(choices[slot]))
            ]
            best = max(gains)
            row[slot] = rng.choice([v for v, gain in enumerate(gains) if gain == best])
        left -= {(i, row[i], j, row[j]) for i, j in itertools.combinations(range(n), 2)}
        yield tuple(choices[s][row[s]] for s in range(n))


_WALK_STEPS = 1500
_WALK_HEADS = 250


def _allowed_walk(
    declaration: Declaration, choices: list[tuple[str | None, ...]], rng: random.Random
) -> Iterator[Head]:
    """Yield heads that the declaration's checks allow, by changing one or two slots of such a head at a
    time.
    """
    plain = [c[-1] if c[-1] is None else c[0] for c in choices]
    starts = [plain, *([rng.choice(c) for c in choices] for _ in range(_WALK_STEPS))]
    here = next((list(s) for s in starts if is_legal(declaration, tuple(s))), None)
    if here is None:
        return
    found: set[Head] = set()
    for _ in range(_WALK_STEPS):
        there = list(here)
        for slot in rng.sample(range(len(choices)), min(len(choices), rng.choice((1, 1, 2, 3)))):
            there[slot] = rng.choice(choices[slot])
        if is_legal(declaration, tuple(there)):
            here = there
            if tuple(here) not in found:
                found.add(tuple(here))
                yield tuple(here)
            if len(found) >= _WALK_HEADS:
                return


# operands


@dataclass(slots=True)
class _Counter:
    """Numbers registers so that no two operands of a row share one (within what the scaffold declares)."""

    used: dict[str, int]

    def register(self, prefix: str) -> str:
        limit = {"%r": 270, "%d": 20, "%h": 20, "%p": 9, "%f": 9, "%fd": 9}.get(prefix, 6)
        number = self.used.get(prefix, 0) + 1
        self.used[prefix] = number
        return f"{prefix}{(number - 1) % (limit - 1) + 1}"


def _register(op: Op, counter: _Counter, typed: bool = False) -> str:
    kind = TYPES[op.type]
    if typed and kind.name in TYPED_REGISTERS:
        return counter.register(TYPED_REGISTERS[kind.name])
    return counter.register(BIT_REGISTERS[max(16, kind.bits) if kind.bits > 1 else 1])


def _constant(op: Op) -> str:
    if TYPES[op.type].kind == "float":
        return "0d3FF0000000000000" if TYPES[op.type].bits == 64 else "0f3F800000"
    if op.one_of:
        return str(op.one_of[0])
    low = op.range[0] if op.range else 1
    return str(-(-low // op.multiple_of) * op.multiple_of or (op.multiple_of if op.multiple_of > 1 else low))


_OTHER = {"label": "L2", "targets": "tab", "function": "nothing", "params": "", "prototype": ""}


def _value(op: Op, counter: _Counter, typed: bool = False) -> str:
    """Write an operand that fits `op`; '' for one that is left out."""
    if op.type in _OTHER:
        return _OTHER[op.type]
    if op.type.startswith("addr"):
        return counter.register("%r" if op.type in ("addr32", "addr32b") else "%d")
    if op.count is not None:
        return "{" + ", ".join(_scalar(op, counter, typed) for _ in range(op.count)) + "}"
    return _scalar(op, counter, typed)


def _scalar(op: Op, counter: _Counter, typed: bool) -> str:
    return _register(op, counter, typed) if "r" in op.accepts else _constant(op)


def _address(parts: list[str]) -> str:
    head, *rest = [p for p in parts if p]
    return f"[{head}" + "".join(f", {p}" for p in rest) + "]"


def _given(
    declaration: Declaration,
    shape: Operand,
    mods: Mods,
    counter: _Counter,
    typed: bool = False,
    bare: bool = False,
) -> str | None:
    """Write one operand, None when it is not there with these modifiers; `bare` leaves an optional second
    half out.
    """
    ops = [declaration.operand_type(name, mods) for name in shape.parts]
    if ops[0] is None:
        return None
    texts = [_value(op, counter, typed) if op is not None else "" for op in ops]
    if shape.kind == "pair":
        return texts[0] if (bare and shape.is_second_optional) or not texts[1] else "|".join(texts)
    if shape.kind == "address":
        tuple_text = [texts[0], *texts[1:]]
        return _address(tuple_text)
    return texts[0] or None


def _operands(declaration: Declaration, head: Head, k: int = 0) -> list[str]:
    """Write the operands of a head; which optional ones are there, and how registers are typed, goes by
    turns with `k`.
    """
    mods, counter = _mods(declaration, head), _Counter({})
    present = {
        o: (k >> (n % 3)) % 2 == 0 for n, o in enumerate(o for o in declaration.operands if o.is_optional)
    }
    given = (
        _given(declaration, shape, mods, counter, typed=k % 4 == 3, bare=k % 2 == 1)
        for shape in declaration.operands
        if present.get(shape, True)
    )
    return [text for text in given if text is not None]


def _words(declaration: Declaration, head: Head) -> list[str]:
    return [word for word in head if word is not None]


def _text(words: Iterable[str], operands: Iterable[str]) -> str:
    rest = ", ".join(operands)
    return ".".join(words) + (f" {rest}" if rest else "") + ";"


def _spelt(declaration: Declaration, head: Head, operands: Iterable[str]) -> str:
    return _text(_words(declaration, head), operands)


def _all_given(declaration: Declaration, head: Head, with_optional: bool) -> list[tuple[Operand, str]]:
    mods, counter = _mods(declaration, head), _Counter({})
    out = []
    for shape in declaration.operands:
        if shape.is_optional and not with_optional:
            continue
        text = _given(declaration, shape, mods, counter)
        if text is not None:
            out.append((shape, text))
    return out


def _operand_forms(declaration: Declaration, head: Head, everything: bool) -> Iterator[tuple[str, str]]:
    """Yield the other ways an operand may be written, as its declaration has it; one operand changed at a
    time.
    """
    mods = _mods(declaration, head)
    words = _words(declaration, head)
    for with_optional in (False, True) if everything else (True,):
        given = _all_given(declaration, head, with_optional)
        yield _text(words, [text for _, text in given]), "forms"
        for k, (shape, _) in enumerate(given):
            if with_optional and everything and not shape.is_optional:
                continue
            for form in _forms(declaration, shape, mods):
                yield _text(words, [form if n == k else text for n, (_, text) in enumerate(given)]), "forms"
    for k in range(4):
        yield _spelt(declaration, head, _operands(declaration, head, k)), "forms"


def _forms(declaration: Declaration, shape: Operand, mods: Mods) -> Iterator[str]:
    op = declaration.operand_type(shape.parts[0], mods)
    if op is None or op.type in _OTHER:
        return
    if shape.kind in ("address", "either"):
        register = "%d19" if op.type in ("addr", "addri", "addr64") else "%r200"
        rest = _given(declaration, shape, mods, _Counter({}))
        tail = rest[rest.index(",") :] if rest and rest.startswith("[") and "," in rest else "]"
        for base in (f"{register}+16", f"{register}+-16", "svar", "svar+16", "16", "%d19", "%r200"):
            yield f"[{base}{tail}"
        if shape.kind == "address":
            return
    if op.count is not None:
        if op.count > 1 and "i" in op.accepts:
            yield "{" + ", ".join(["%r200"] + ["1"] * (op.count - 1)) + "}"
        return
    counter = _Counter({})
    yield _register(op, counter, typed=True) if not op.type.startswith("addr") else "%r200"
    if "i" in op.accepts:
        yield from _constants(op)
    if "p" in op.accepts:
        yield f"!{_register(op, counter)}"
    if "_" in op.accepts:
        yield "_"
    if "v" in op.accepts:
        yield from ("%tid.x", "%clock64")
    if "s" in op.accepts:
        yield from ("gvar", "gvar+4", "svar")


def _constants(op: Op) -> Iterator[str]:
    """Yield constants inside and outside of what the operand takes."""
    yield _constant(op)
    if TYPES[op.type].kind != "float":
        for value in op.one_of:
            yield str(value)
        low, high = op.range or (0, 1)
        for value in (low, high, low - 1, high + 1, low + 1, 0, -1, op.multiple_of * 2, op.multiple_of + 1):
            yield str(value)


# near misses

_FOREIGN_TYPES = (
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "u8",
    "u16",
    "u32",
    "u64",
    "s8",
    "s16",
    "s32",
    "s64",
    "f16",
    "bf16",
    "f16x2",
    "f32",
    "f64",
    "pred",
)
_FOREIGN_WORDS = (
    "sync",
    "aligned",
    "ftz",
    "sat",
    "rn",
    "rz",
    "wide",
    "volatile",
    "global",
    "shared",
    "v2",
    "uni",
    "approx",
    "x2",
    "cta_group::1",
)


def _word_misses(
    declaration: Declaration, head: Head, most: int, rng: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield heads with a word left out, doubled, put in another's place, or one too many."""
    words = _words(declaration, head)
    operands = [text for _, text in _all_given(declaration, head, False)]
    position = 0
    for slot, word in zip(declaration.slots, head, strict=True):
        if word is None:
            continue
        if position:
            yield _text(words[:position] + words[position + 1 :], operands), "word missing"
            if not slot.is_literal:
                yield _text(words[: position + 1] + words[position:], operands), "word doubled"
            foreign = _FOREIGN_TYPES if word in TYPES else _FOREIGN_WORDS
            for other in rng.sample(foreign, min(most, len(foreign) if word in TYPES else 2)):
                if other not in slot.options:
                    retyped = _retyped(declaration, head, slot, other) if word in TYPES else operands
                    yield _text([*words[:position], other, *words[position + 1 :]], retyped), "foreign word"
        position += 1
    for other in rng.sample(_FOREIGN_WORDS, min(most, len(_FOREIGN_WORDS))):
        if other not in words:
            yield _text([*words, other], operands), "word too many"


def _retyped(declaration: Declaration, head: Head, slot: Slot, other: str) -> list[str]:
    """Write the operands as a foreign type would have them, as far as the declaration can say."""
    changed = tuple(other if s.name == slot.name else w for s, w in zip(declaration.slots, head, strict=True))
    try:
        return [text for _, text in _all_given(declaration, changed, False)]
    except (KeyError, TypeError, ValueError, AttributeError):
        return [text for _, text in _all_given(declaration, head, False)]


_WRONG = (
    "%p8",
    "%h19",
    "%r201",
    "%d18",
    "%q5",
    "%uh5",
    "%sh5",
    "%fh5",
    "%ur5",
    "%sr5",
    "%f8",
    "%ud5",
    "%sd5",
    "%fd8",
    "1",
    "-1",
    "0f3F800000",
    "0d3FF0000000000000",
    "_",
    "[%d18]",
    "[%r201]",
    "{%r201}",
    "{%r201, %r202}",
    "{%r201, %r202, %r203, %r204}",
    "svar",
    "gvar",
    "%tid.x",
    "L2",
    "%absent",
    "!%p8",
)
"""What is put where it may not belong; some of it fits some operands.

No f16x2 register is among them: `ptxas` 13.0 takes one for any 32-bit integer, and even for a predicate.
"""


def _operand_misses(
    declaration: Declaration, head: Head, most: int, rng: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield rows with one operand of a wrong type, width, count or kind, one left out, or one too many."""
    words = _words(declaration, head)
    given = _all_given(declaration, head, True)
    texts = [text for _, text in given]
    is_bulk = "bulk" in words  # in these ptxas 13.0 takes anything at all for an address
    for k, (_, text) in enumerate(given):
        for other in (*rng.sample(_WRONG, most), *_miscounted(text)):
            if text.startswith("[") and ("%p" in other or (is_bulk and not other.startswith("["))):
                continue  # a predicate for an address makes ptxas 13.0 run away
            yield _text(words, [*texts[:k], other, *texts[k + 1 :]]), "operand"
        yield _text(words, texts[:k] + texts[k + 1 :]), "operand missing"
        if text.startswith("[") and not is_bulk:
            yield _text(words, [*texts[:k], text[1:-1], *texts[k + 1 :]]), "brackets missing"
    for extra in ("%r201", "%d18", "%p8", "1", "[%d18]"):
        yield _text(words, [*texts, extra]), "operand too many"
    if len(texts) > 1:
        yield _text(words, texts[::-1]), "operands reversed"


def _miscounted(text: str) -> Iterator[str]:
    """Yield a brace list with one element more, one less, a constant, a sink, and the bare element."""
    if not text.startswith("{"):
        return
    elements = text[1:-1].split(", ")
    yield "{" + ", ".join([*elements, "%r203"]) + "}"
    yield "{" + ", ".join(elements[:-1]) + "}" if len(elements) > 1 else "{%r203, %r204}"
    yield "{" + ", ".join([*elements[:-1], "_"]) + "}"
    yield elements[0]


def is_here(declaration: Declaration) -> bool:
    """Say whether the oracle's target has the declaration at all."""
    return not declaration.targets or TARGET in declaration.targets
