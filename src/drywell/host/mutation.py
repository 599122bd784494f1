"""Mutants of a kernel: one synchronisation dropped, weakened or moved, or one of its numbers changed.

A mutant is an edit of the PTX text. What may be edited follows from the declarations: an instruction that
`synchronises` can be dropped, moved and weakened, and operands that have a meaning by their name (`count`,
`parity`, `tx`, `taddr`, `sdesc`, `idesc`, ...) can be shifted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from drywell.base.span import Source, Span
from drywell.program.module import Program
from drywell.program.operands import Bound, registers
from drywell.ptx import parse
from drywell.ptx.tree import Address, Block, Function, Instruction, Integer, Label, Module, Name, Operand

_GUARD = re.compile(r"@!?[%\w$.]+\s*$")
_WEAKER = {"release": "relaxed", "acquire": "relaxed", "acq_rel": "relaxed", "sc": "relaxed"}
_NARROWER = {"cluster": "cta", "gpu": "cta", "sys": "cta"}
_LONG_LIST: Final = re.compile(r"\{\s*([%\w]+)(?:\s*,\s*[%\w]+){3,}\s*,\s*([%\w]+)\s*\}")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit: `kind` is what was done (drop, weaken, move-up, count, parity, ...), `span` the
    instruction, `text` the whole edited module.
    """

    number: int
    kind: str
    span: Span
    before: str
    after: str
    text: str

    @property
    def title(self) -> str:
        """Return it in one line, of a long list of registers the first and the last."""
        edit = self.before + (f" -> {self.after}" if self.after else "")
        short = _LONG_LIST.sub(r"{\1, ..., \2}", edit)
        return f"line {self.span.line}: {self.kind}: {short}"


@dataclass(frozen=True, slots=True)
class _Site:
    """An instruction with its declaration, its extent in the text and its neighbours in the block."""

    bound: Bound
    tree: Instruction
    start: int
    end: int
    previous: Instruction | None
    following: Instruction | None


@dataclass(frozen=True, slots=True)
class _Edit:
    kind: str
    site: _Site
    after: str
    text: str


class _Text:
    """The text with places turned into offsets."""

    def __init__(self, source: Source) -> None:
        self.text = source.text
        self._lines = [0]
        for line in source.text.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)

    def at(self, span: Span) -> int:
        """Return the offset of a place."""
        return self._lines[span.line - 1] + span.col - 1

    def of(self, span: Span) -> str:
        """Return what stands at a place."""
        return self.text[self.at(span) : self.at(span) + span.length]

    def extent(self, tree: Instruction) -> tuple[int, int]:
        """Return where a statement begins, with its guard, and where it ends, behind its semicolon."""
        start = self.at(tree.span)
        if tree.guard is not None:
            found = _GUARD.search(self.text[:start].rsplit(";", 1)[-1].rsplit("\n", 4)[-1])
            start -= len(found.group(0)) if found else 0
        return start, self.text.index(";", self.at(tree.span)) + 1

    def replaced(self, start: int, end: int, new: str) -> str:
        """Return the text with a stretch replaced."""
        return self.text[:start] + new + self.text[end:]


def mutants(program: Program, entry: str) -> tuple[Mutant, ...]:
    """Return every mutant of an entry, in order of the text; no two have the same text.

    >>> from drywell.host.module import load
    >>> text = '''.version 8.6
    ... .target sm_100a
    ... .address_size 64
    ... .visible .entry k() { bar.sync 0; ret; }'''
    >>> [m.kind for m in mutants(load(text).program, "k")]
    ['drop']
    """
    text = _Text(program.source)
    seen = {text.text}
    out: list[Mutant] = []
    for site in _sites(program, entry, text):
        for edit in _edits(site, text):
            if edit.text not in seen:
                seen.add(edit.text)
                before = " ".join(text.text[site.start : site.end].split())
                out.append(Mutant(len(out), edit.kind, site.bound.span, before, edit.after, edit.text))
    return tuple(out)


def _sites(program: Program, entry: str, text: _Text) -> Iterator[_Site]:
    code = program.functions[entry].code
    bound = {(b.span.line, b.span.col): b for b in code if isinstance(b, Bound)}

    def of(tree: Instruction) -> Bound | None:
        return bound.get((tree.span.line, tree.span.col))

    flat = _instructions(parse(program.source)[0], entry)
    for k, tree in enumerate(flat):
        if isinstance(tree, Instruction) and (found := of(tree)) is not None:
            up = _neighbour(flat[k - 1 :: -1] if k else [], found, of)
            down = _neighbour(flat[k + 1 :], found, of)
            yield _Site(found, tree, *text.extent(tree), up, down)


def _neighbour(
    others: list[Instruction | Label], site: Bound, of: Callable[[Instruction], Bound | None]
) -> Instruction | None:
    """Return the first of `others` that is more than arithmetic, None when a label, a branch or a
    register of `site` that is made in between is in the way.
    """
    own = _registers(site)
    for other in others:
        tree = other if isinstance(other, Instruction) else None
        bound = None if tree is None else of(tree)
        if bound is None or bound.declaration.unit == "control":
            return None
        if bound.declaration.unit not in _ARITHMETIC:
            return None if _registers(bound) & own and bound.declaration.is_lane else tree
        if _registers(bound) & own:
            return None
    return None


_ARITHMETIC = ("alu", "fma", "mufu")


def _registers(one: Bound) -> set[int]:
    """Return the registers that an instruction names."""
    return {register.index for register in registers((*one.sources, *one.destinations, one.guard))}


def _instructions(module: Module, entry: str) -> list[Instruction | Label]:
    """Return the instructions and labels of an entry in order, those of nested blocks among them."""
    flat: list[Instruction | Label] = []

    def walk(block: Block) -> None:
        for statement in block.statements:
            if isinstance(statement, Block):
                walk(statement)
            elif isinstance(statement, (Instruction, Label)):
                flat.append(statement)

    for item in module.items:
        if isinstance(item, Function) and item.name == entry and item.body is not None:
            walk(item.body)
    return flat


def _edits(site: _Site, text: _Text) -> Iterator[_Edit]:
    if site.bound.declaration.synchronises:
        yield from _dropped(site, text)
        yield from _weakened(site, text)
        yield from _moved(site, text)
    yield from _shifted(site, text)


def _dropped(site: _Site, text: _Text) -> Iterator[_Edit]:
    """Leave it out; one that tells whether something has come says yes at once."""
    result = site.bound.declaration.writes
    if not result:
        yield _Edit("drop", site, "", text.replaced(site.start, site.end, ""))
    elif result == ("p",):
        target = _operand_text(site.tree.operands[0], text)
        guard = _guard_text(site, text)
        new = f"{guard}setp.eq.u32 {target}, 0, 0;"
        yield _Edit("drop-wait", site, new, text.replaced(site.start, site.end, new))
    elif _operand_text(site.tree.operands[0], text) == "_":
        yield _Edit("drop", site, "", text.replaced(site.start, site.end, ""))


def _weakened(site: _Site, text: _Text) -> Iterator[_Edit]:
    words = site.tree.words
    for table, kind in ((_WEAKER, "weaken-sem"), (_NARROWER, "narrow-scope")):
        for word in words[1:]:
            if word.text in table:
                start = text.at(word.span)
                new = table[word.text]
                yield _Edit(kind, site, f".{new}", text.replaced(start, start + len(word.text), new))
    for name, value in _named(site):
        if name == "n" and isinstance(value, Integer):
            yield _number("wait-for-fewer", site, text, value, value.value + 1)
    read = next((w for w in words if w.text == "wait_group"), None)
    if read is not None and all(w.text != "read" for w in words) and any(w.text == "bulk" for w in words):
        end = text.at(read.span) + len("wait_group")
        yield _Edit("weaken-read", site, ".read", text.replaced(end, end, ".read"))


def _moved(site: _Site, text: _Text) -> Iterator[_Edit]:
    """Exchange it with the nearest instruction before it, and behind it, that is more than arithmetic."""
    own = text.text[site.start : site.end]
    if site.bound.declaration.writes and site.bound.declaration.writes != ("state",):
        return
    for other, kind in ((site.previous, "move-up"), (site.following, "move-down")):
        if other is None:
            continue
        start, end = text.extent(other)
        theirs = text.text[start:end]
        first, second = sorted(((site.start, site.end, theirs), (start, end, own)))
        new = text.text[: first[0]] + first[2] + text.text[first[1] : second[0]] + second[2]
        after = " ".join(theirs.split())
        yield _Edit(kind, site, f"exchanged with: {after}", new + text.text[second[1] :])


# numbers

_STEPS: dict[str, tuple[tuple[str, int], ...]] = {
    "count": (("count", 1), ("count", -1)),
    "b": (("thread-count", 32), ("thread-count", -32)),
    "tx": (("expect-bytes", 16), ("expect-bytes", -16)),
    "size": (("copy-bytes", -16),),
}
"""What is added to operands of these names in instructions that synchronise (`size`: in bulk copies)."""

_FLIPS: dict[str, tuple[tuple[str, str, str, int], ...]] = {
    "parity": (("parity", "b32", "xor", 1),),
    "taddr": (("lane-window", "u32", "add", 32 << 16), ("column", "u32", "add", 4)),
    "d": (("column", "u32", "add", 16),),
    "sdesc": (("swizzle", "b64", "xor", 2 << 61), ("descriptor-start", "u64", "add", 2)),
    "a": (("swizzle", "b64", "xor", 2 << 61), ("descriptor-start", "u64", "add", 2)),
    "b": (("swizzle", "b64", "xor", 2 << 61),),
    "idesc": (("scale-id", "b32", "xor", 1 << 29), ("scale-id", "b32", "xor", 1 << 4)),
    "sfa": (("column", "u32", "add", 4),),
    "sfb": (("column", "u32", "add", 4),),
}
"""What is done to operands of these names in tcgen05 instructions and mbarrier waits: type, operation,
number.
"""


def _named(site: _Site) -> Iterator[tuple[str, Operand]]:
    """Yield the operands by the names that the declaration gives them, those in brackets among them."""
    given = list(site.tree.operands)
    for declared in site.bound.declaration.operands:
        if not given:
            return
        if declared.is_optional and len(given) < 1:
            continue
        operand = given.pop(0)
        if isinstance(operand, Address):
            yield declared.parts[0], operand.parts[0]
        else:
            yield declared.parts[0], operand


def _shifted(site: _Site, text: _Text) -> Iterator[_Edit]:
    declaration = site.bound.declaration
    is_tensor = declaration.unit in ("tensor", "tmem_ld", "tmem_st")
    for name, operand in _named(site):
        is_counted = (declaration.synchronises and not is_tensor) or (
            name == "size" and declaration.unit == "async"
        )
        if is_counted:
            for kind, step in _STEPS.get(name, ()):
                if isinstance(operand, Integer):
                    yield _number(kind, site, text, operand, operand.value + step)
                elif isinstance(operand, Name):
                    yield _computed(kind, site, text, operand, ("u32", "add", step))
        is_scaled = any("sfa" in o.parts for o in declaration.operands)
        if name == "idesc" and not is_scaled:
            continue
        if is_tensor or (declaration.waits and name == "parity"):
            for kind, type_, op, number in _FLIPS.get(name, ()):
                if isinstance(operand, Name):
                    yield _computed(kind, site, text, operand, (type_, op, number))
                elif isinstance(operand, Integer) and op == "xor":
                    yield _number(kind, site, text, operand, operand.value ^ number)


def _number(kind: str, site: _Site, text: _Text, operand: Integer, value: int) -> _Edit:
    start = text.at(operand.span)
    return _Edit(kind, site, str(value), text.replaced(start, start + operand.span.length, str(value)))


def _computed(kind: str, site: _Site, text: _Text, operand: Name, how: tuple[str, str, int]) -> _Edit:
    """Put a changed copy of a register in an operand's place, in a scope of its own."""
    type_, op, number = how
    bits = "b64" if type_.endswith("64") else "b32"
    at = text.at(operand.span) - site.start
    own = text.text[site.start : site.end]
    changed = own[:at] + "%mutant" + own[at + len(operand.text) :]
    guard_free = f"{op}.{type_} %mutant, {operand.text}, {number & (1 << int(bits[1:])) - 1};"
    new = f"{{ .reg .{bits} %mutant; {guard_free} {changed} }}"
    return _Edit(kind, site, f"{operand.text} {op} {number:#x}", text.replaced(site.start, site.end, new))


def _operand_text(operand: Operand, text: _Text) -> str:
    return text.of(operand.span)


def _guard_text(site: _Site, text: _Text) -> str:
    return text.text[site.start : text.at(site.tree.span)]
