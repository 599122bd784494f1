"""How an instruction is declared: the manual's own syntax line, the options of its slots, the types of its
operands, its checks, its meaning.

@instruction("shl.type d, a, b;", type="b16 b32 b64", types={"b": "u32"}, unit="alu",
ref="logic-and-shift-instructions-shl")
    def shl(o, a, b): ...

Syntax lines. The head is dot-separated words; a word given as a keyword is a slot with those options, any
other word is literal. `{.x}` is optional; `{.sem.scope}` are two slots written together or not at all.
Operands: `d` a value, `[a]` an address, `[map, {coords}]` an address of two parts, `p|q` a pair and `p{|q}`
one whose second half may be left out, `a/[a]` a value or an address, `{, c}` an operand that may be left
out.

Types. By default every value operand has the type of slot `type`. `types` overrides by operand name with a
slot's name, a PTX type, an `Op`, or a function of the modifiers that returns one of these (None = the
operand is not there with these modifiers). `writes` names the destinations (default: `d` when there is
one).

Meaning. A *lane* instruction (`lane=True`, the default for unit "alu", "fma", "mufu", "mem") is called
`f(o, *sources)` once for all lanes of a warp and returns the destinations: one value, a tuple in order, or
a list for a vector. A *machine* instruction (lane=False) is called `f(m, i, *sources)` with the executing
warp `m` and the modifiers `i`; it may return an outcome of `drywell.machine.outcome`. Sources come in
operand order without the destinations; an absent optional operand is None; a vector is a tuple; an address
of two parts is a tuple of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from drywell.base.dtypes import TYPES
from drywell.base.record import record


class DeclarationError(TypeError):
    """A declaration that contradicts itself or another one: a bug of ours, raised at import."""


@record
class Slot:
    """One word position of the head: literal (one option, its own text), or a choice; `group` ties words
    written together.
    """

    name: str
    options: tuple[str, ...]
    is_optional: bool = False
    is_literal: bool = False
    group: int | None = None


@record
class Op:
    """What an operand must be. `count` None = a single value, n = a brace list of n; `accepts` holds letters:

    r register, i immediate, s symbol address, _ sink, p predicate negation (`!p`), v special register,
    q a predicate register in place of the typed one, negated or not (it reaches the semantics as bools).
    `range` bounds an immediate, `multiple_of` its grain, `one_of` lists the only values it may have.
    `is_relaxed` lets the register be wider than the type (ld, st, cvt). Besides PTX types, `type` may be
    one of NON_VALUE_TYPES: label, targets (of brx), function, params (a parenthesised list, which may
    always be left out), prototype; and for addresses addr (a 32- or 64-bit register or a symbol), addr32,
    addr32b (a `.b32` register, no other type), addr64, addri (addr, or an immediate address); an address
    that `accepts` only "r" takes no symbol. An address operand without a type rule is `addr`. `spaces` are
    the state spaces a symbol in an address may be of (none: any). Address sources reach the semantics as one
    value with the offset added: uint32 or uint64 lanes, as wide as the register (64 for symbols of global,
    const and param space, else 32).
    """

    type: str
    count: int | None = None
    accepts: str = "ri"
    range: tuple[int, int] | None = None
    multiple_of: int = 1
    is_relaxed: bool = False
    one_of: tuple[int, ...] = ()
    spaces: tuple[str, ...] = ()


NON_VALUE_TYPES = (
    "label",
    "targets",
    "function",
    "params",
    "prototype",
    "addr",
    "addr32",
    "addr32b",
    "addr64",
    "addri",
)

TypeRule = str | Op | Callable[["Mods"], "str | Op | None"]


@record
class Operand:
    """One operand of the syntax line: `kind` is value, address, pair or either; `parts` are the names
    inside (two for a pair or tensor address).
    """

    kind: str
    parts: tuple[str, ...]
    is_optional: bool = False
    is_second_optional: bool = False


@record
class Problem:
    """What a check found: the message, the slot or operand it is about ('' = the whole instruction), remark
    under the caret, hint.
    """

    message: str
    slot: str = ""
    at: str = ""
    hint: str = ""
    code: str = "E0312"


class Mods(Mapping[str, "str | None"]):
    """The modifiers of one bound instruction: `i.type`, `i["pack::16b"]`; an absent optional slot is None,
    a present literal its own text.
    """

    __slots__ = ("_words",)

    def __init__(self, words: Mapping[str, str | None]) -> None:
        self._words = dict(words)

    def __getattr__(self, name: str) -> str | None:
        try:
            return self._words[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> str | None:
        return self._words[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)

    def __repr__(self) -> str:
        return "Mods(" + ", ".join(f"{k}={v}" for k, v in self._words.items() if v) + ")"


Check = Callable[[Mods], "Problem | str | None"]


@record
class Declaration:
    """One declared instruction; made by `instruction`, held by `REGISTRY` under its first word."""

    name: str
    syntax: str
    slots: tuple[Slot, ...]
    operands: tuple[Operand, ...]
    types: Mapping[str, TypeRule]
    writes: tuple[str, ...]
    semantics: Callable[..., Any]
    is_lane: bool
    unit: str
    ref: str
    doc: str
    checks: tuple[Check, ...] = ()
    targets: tuple[str, ...] = ()
    since: tuple[int, int] = (1, 0)
    is_order_free: bool = False
    converged: str = ""
    proxy: str = "generic"
    completes_by: str = ""
    arrives: bool = False
    waits: bool = False
    cycles: int | None = None
    unsupported: Callable[[Mods], str | None] | None = None
    family: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def address_parts(self) -> tuple[str, ...]:
        """Return the names of the operands in brackets (the first part of each)."""
        return tuple(o.parts[0] for o in self.operands if o.kind == "address")

    @property
    def synchronises(self) -> bool:
        """Say whether it only orders others' work: fences, barriers, waits, commits, mbarrier operations."""
        is_signal = self.arrives and not self.completes_by
        return self.waits or is_signal or self.unit in ("fence", "sync", "barrier", "mbarrier")

    @property
    def opcode(self) -> str:
        """Return the fixed words its spellings begin with: `tcgen05.commit`, `mbarrier.arrive.expect_tx`."""
        words = []
        for slot in self.slots:
            if not slot.is_literal or slot.is_optional:
                break
            words.append(slot.name)
        return ".".join(words)

    @property
    def root(self) -> str:
        """Return the first word of the spelling."""
        return self.slots[0].name

    def operand_type(self, name: str, mods: Mods) -> Op | None:
        """Return what operand `name` must be under these modifiers; None when it is not there."""
        rule: Any = self.types.get(name, "addr" if name in self.address_parts else "type")
        if callable(rule):
            rule = rule(mods)
        if isinstance(rule, str):
            if rule in mods:
                chosen = mods[rule]
                rule = None if chosen is None else Op(chosen)
            else:
                rule = Op(rule)
        if rule is not None and name in self.writes:
            rule = replace(rule, accepts=rule.accepts.replace("i", ""))
        if rule is None or rule.type in TYPES or rule.type in NON_VALUE_TYPES:
            return rule
        raise DeclarationError(
            f"{self.syntax!r}: operand {name!r} has type {rule.type!r}, which PTX does not know"
        )


REGISTRY: dict[str, list[Declaration]] = {}

_LANE_UNITS = ("alu", "fma", "mufu", "mem")
_OPTIONAL_PAIR = re.compile(r"([\w-]+)\{\|([\w-]+)\}")
_HEAD_WORD = re.compile(r"\{((?:\.[\w:]+)+)\}|\.?([\w:]+)")


def _split_head(syntax: str) -> tuple[str, str]:
    body = syntax.strip().rstrip(";").strip()
    head, _, rest = body.partition(" ")
    return head, rest.strip()


def _parse_head(syntax: str, head: str, options: Mapping[str, str]) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    group = 0
    for match in _HEAD_WORD.finditer(head):
        words = match.group(1)[1:].split(".") if match.group(1) else [match.group(2)]
        tied = None
        if len(words) > 1:
            group, tied = group + 1, group + 1
        for word in words:
            is_slot = word in options
            choices = tuple(options[word].split()) if is_slot else (word,)
            if not choices:
                raise DeclarationError(f"{syntax!r}: slot {word!r} has no options")
            slots.append(Slot(word, choices, bool(match.group(1)), not is_slot, tied))
    unused = set(options) - {s.name for s in slots}
    if unused:
        raise DeclarationError(
            f"{syntax!r}: options given for {sorted(unused)}, which the syntax line does not name"
        )
    names = [s.name for s in slots]
    if len(set(names)) != len(names):
        raise DeclarationError(f"{syntax!r}: a slot name stands twice")
    return tuple(slots)


def _split_commas(text: str) -> list[str]:
    out, depth, start = [], 0, 0
    for k, char in enumerate(text):
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            out.append(text[start:k])
            start = k + 1
    out.append(text[start:])
    return [part.strip() for part in out if part.strip()]


def _operand(text: str, is_optional: bool) -> Operand:
    if "/[" in text:
        return Operand("either", (text.split("/")[0],), is_optional)
    if text.startswith("["):
        inner = text[1:-1].replace("{", "").replace("}", "")
        return Operand("address", tuple(p.strip() for p in inner.split(",")), is_optional)
    pair = _OPTIONAL_PAIR.fullmatch(text)
    if pair:
        return Operand("pair", (pair.group(1), pair.group(2)), is_optional, True)
    if "|" in text:
        first, second = text.split("|")
        return Operand("pair", (first.strip(), second.strip()), is_optional)
    return Operand("value", (text,), is_optional)


def _parse_operands(rest: str) -> tuple[Operand, ...]:
    operands: list[Operand] = []
    position = 0
    for match in re.finditer(r"\{,\s*((?:[^{}]|\{[^{}]*\})*)\}", rest):
        operands += [_operand(t, False) for t in _split_commas(rest[position : match.start()])]
        operands += [_operand(t, True) for t in _split_commas(match.group(1))]
        position = match.end()
    operands += [_operand(t, False) for t in _split_commas(rest[position:])]
    return tuple(operands)


def overlap(one: Declaration, two: Declaration) -> tuple[str, ...] | None:
    """Return a spelling that both declarations accept by their slots alone, or None."""
    a, b = one.slots, two.slots
    for mine, other in zip(a, b, strict=False):  # most differ in a word that both must have
        if mine.is_optional or other.is_optional:
            break
        if not set(mine.options).intersection(other.options):
            return None
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]
    while stack:
        i, j, words = stack.pop()
        if (i, j) in seen:
            continue
        seen.add((i, j))
        if i == len(a) and j == len(b):
            return words
        if i < len(a) and a[i].is_optional:
            stack.append((i + 1, j, words))
        if j < len(b) and b[j].is_optional:
            stack.append((i, j + 1, words))
        if i < len(a) and j < len(b):
            common = next((w for w in a[i].options if w in b[j].options), None)
            if common is not None:
                stack.append((i + 1, j + 1, (*words, common)))
    return None


def _register(declaration: Declaration) -> None:
    for other in REGISTRY.get(declaration.root, ()):
        words = overlap(declaration, other)
        if words is not None:
            raise DeclarationError(
                f"{declaration.syntax!r} overlaps {other.syntax!r}: both accept '{'.'.join(words)}'"
            )
    REGISTRY.setdefault(declaration.root, []).append(declaration)


def _parts(syntax: str, options: Mapping[str, str]) -> tuple[tuple[Slot, ...], tuple[Operand, ...]]:
    """Return the slots and operands of a syntax line."""
    head, rest = _split_head(syntax)
    return _parse_head(syntax, head, options), _parse_operands(rest)


def _typed_names(
    syntax: str, slots: tuple[Slot, ...], operands: tuple[Operand, ...], types: Mapping[str, TypeRule]
) -> list[str]:
    """Return the names of the operands; DeclarationError unless each has a type, and each type an operand."""
    names = [p for operand in operands for p in operand.parts]
    for name in types:
        if name not in names:
            raise DeclarationError(f"{syntax!r}: a type is given for {name!r}, which is no operand of it")
    has_type_slot = any(s.name == "type" for s in slots)
    addresses = [o.parts[0] for o in operands if o.kind == "address"]
    for name in names:
        if name not in types and not has_type_slot and name not in addresses:
            raise DeclarationError(f"{syntax!r}: operand {name!r} has no type")
    return names


def instruction(
    syntax: str,
    *,
    unit: str,
    ref: str,
    types: Mapping[str, TypeRule] | None = None,
    writes: str | None = None,
    lane: bool | None = None,
    checks: tuple[Check, ...] | list[Check] = (),
    targets: tuple[str, ...] = (),
    since: tuple[int, int] = (1, 0),
    order_free: bool = False,
    converged: str = "",
    proxy: str = "generic",
    completes_by: str = "",
    arrives: bool = False,
    waits: bool = False,
    cycles: int | None = None,
    unsupported: Callable[[Mods], str | None] | None = None,
    notes: tuple[str, ...] = (),
    slot_options: Mapping[str, str] | None = None,
    **options: str,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare an instruction; see the module's text. Slot names that are no Python words go through
    `**{"pack::16b": "pack::16b"}`.

    `unit` is the pipe it runs on; `ref` the manual's anchor; `targets` the targets that have it when not
    all do; `since` the `.version`; `converged` is "warp" for `.sync.aligned`; `arrives`/`waits` mark
    who signals and who blocks; `unsupported(mods)` says why a spelling that binds cannot be executed yet.
    Stacked decorators declare several syntax lines with one meaning.
    """
    slots, operands = _parts(syntax, {**options, **(slot_options or {})})
    typed = dict(types or {})
    names = _typed_names(syntax, slots, operands, typed)
    written = tuple(writes.split()) if writes is not None else (("d",) if "d" in names else ())
    for name in written:
        if name not in names:
            raise DeclarationError(f"{syntax!r}: writes {name!r}, which is no operand of it")

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        _register(
            Declaration(
                name=function.__name__.rstrip("_"),
                syntax=syntax,
                slots=slots,
                operands=operands,
                types=typed,
                writes=written,
                semantics=function,
                is_lane=unit in _LANE_UNITS if lane is None else lane,
                unit=unit,
                ref=ref,
                doc=(function.__doc__ or "").strip(),
                checks=tuple(checks),
                targets=targets,
                since=since,
                is_order_free=order_free,
                converged=converged,
                proxy=proxy,
                completes_by=completes_by,
                arrives=arrives,
                waits=waits,
                cycles=cycles,
                unsupported=unsupported,
                family=function.__module__.rsplit(".", 1)[-1],
                notes=notes,
            )
        )
        return function

    return declare
