"""Smaller and smaller trees of a PTX module: statements by their numbers, what is left without some of them,
and which arithmetic nobody needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from drywell.program import operands as ops
from drywell.program.module import Program
from drywell.ptx.tree import (
    Block,
    BranchTargets,
    Directive,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    Operand,
    Statement,
    Variable,
)

_ARITHMETIC = ("alu", "fma", "mufu")
_PLACES_OF_THE_AUTHOR = ("loc", "file")


@dataclass(frozen=True, slots=True)
class Numbered:
    """A module whose items and statements are counted, those of a block behind the block itself."""

    module: Module
    entry: str

    def statements(self) -> Iterator[tuple[int, Variable | Function | Statement]]:
        """Yield every item and statement with its number."""
        number = count()

        def walk(block: Block) -> Iterator[tuple[int, Statement]]:
            for statement in block.statements:
                yield next(number), statement
                if isinstance(statement, Block):
                    yield from walk(statement)

        for item in self.module.items:
            yield next(number), item
            if isinstance(item, Function) and item.body is not None:
                yield from walk(item.body)

    def removable(self) -> list[int]:
        """Return the numbers of what may be left out: not the entry, and labels go by themselves."""
        return [
            number
            for number, what in self.statements()
            if not isinstance(what, Label) and not (isinstance(what, Function) and what.name == self.entry)
        ]

    def alike(self, num_words: int) -> list[frozenset[int]]:
        """Return the numbers of instructions whose first words are the same, the most frequent ones first."""
        groups: dict[tuple[str, ...], set[int]] = {}
        for number, what in self.statements():
            if isinstance(what, Instruction):
                words = tuple(word.text for word in what.words[:num_words])
                groups.setdefault(words, set()).add(number)
        return [frozenset(group) for group in sorted(groups.values(), key=len, reverse=True)]

    def remarks(self) -> frozenset[int]:
        """Return the numbers of directives that only name places in the author's text."""
        return frozenset(
            number
            for number, what in self.statements()
            if isinstance(what, Directive) and what.name in _PLACES_OF_THE_AUTHOR
        )

    def without(self, gone: frozenset[int]) -> Module:
        """Return the module without what is gone, without labels that nothing names, and empty blocks."""
        number = count()

        def shrunk(block: Block) -> Block:
            kept: list[Statement] = []
            for statement in block.statements:
                is_kept = next(number) not in gone
                if isinstance(statement, Block):
                    inner = shrunk(statement)
                    if is_kept and inner.statements:
                        kept.append(inner)
                elif is_kept:
                    kept.append(statement)
            return replace(block, statements=tuple(kept))

        items = []
        for item in self.module.items:
            is_kept = next(number) not in gone
            if isinstance(item, Function) and item.body is not None:
                body = shrunk(item.body)
                item = replace(item, body=_without_labels(body, set(_names(body))))
            if is_kept:
                items.append(item)
        return replace(self.module, items=tuple(items))

    def touching(self, program: Program, gone: frozenset[int]) -> list[frozenset[int]]:
        """Return, for each variable, the numbers of all instructions that work on it: an mbarrier goes with
        its waits and arrivals or not at all.
        """
        at = self._places(gone)
        out = []
        for function in program.functions.values():
            code = [one for one in function.code if isinstance(one, ops.Bound)]
            for name in sorted({name for one in code for name in symbols(one.sources)}):
                reached = _reached(code, name)
                out.append(frozenset(at[one.span.line, one.span.col] for one in reached))
        return sorted(out, key=len)

    def _places(self, gone: frozenset[int]) -> dict[tuple[int, int], int]:
        return {
            (what.span.line, what.span.col): number
            for number, what in self.statements()
            if isinstance(what, Instruction) and number not in gone
        }

    def idle(self, program: Program, gone: frozenset[int]) -> frozenset[int]:
        """Return the numbers of arithmetic whose results nothing reads, what only it reads among it."""
        at = self._places(gone)
        found: set[int] = set()
        for function in program.functions.values():
            code = [one for one in function.code if isinstance(one, ops.Bound)]
            while idle := {(one.span.line, one.span.col) for one in _unread(code)}:
                found |= {at[place] for place in idle}
                code = [one for one in code if (one.span.line, one.span.col) not in idle]
        return frozenset(found)


def _reached(code: Sequence[ops.Bound], name: str) -> list[ops.Bound]:
    """Return the instructions that name a variable, or use an address computed from its own."""
    found: list[ops.Bound] = []
    made: set[int] = set()
    taken: set[int] = set()
    is_new = True
    while is_new:
        is_new = False
        for one in code:
            if id(one) in taken or not (_registers(one.sources) & made or name in symbols(one.sources)):
                continue
            found.append(one)
            taken.add(id(one))
            is_new = True
            if one.declaration.unit in _ARITHMETIC:
                made |= _registers(one.destinations)
    return found


def symbols(operand: ops.Nested) -> set[str]:
    """Return the names of the variables in an operand, or in a tuple of them."""
    return {leaf.name for leaf in ops.leaves(operand) if isinstance(leaf, ops.Symbol)}


def _unread(code: list[ops.Bound]) -> list[ops.Bound]:
    read: set[int] = set()
    for one in code:
        read |= _registers((*one.sources, one.guard))
        if one.declaration.unit not in _ARITHMETIC:
            read |= _registers(one.destinations)
    return [
        one
        for one in code
        if one.declaration.unit in _ARITHMETIC
        and one.destinations
        and not _registers(one.destinations) & read
    ]


def _registers(operand: ops.Nested) -> set[int]:
    return {register.index for register in ops.registers(operand)}


def _without_labels(block: Block, named: set[str]) -> Block:
    kept: list[Statement] = []
    for statement in block.statements:
        if isinstance(statement, Block):
            kept.append(_without_labels(statement, named))
        elif not (isinstance(statement, Label) and statement.name not in named):
            kept.append(statement)
    return replace(block, statements=tuple(kept))


def _names(block: Block) -> Iterator[str]:
    for statement in block.statements:
        if isinstance(statement, Block):
            yield from _names(statement)
        elif isinstance(statement, Instruction):
            yield from _named(statement.operands)
        elif isinstance(statement, BranchTargets):
            yield from _named(statement.targets)


def _named(operands: Iterable[Operand]) -> Iterator[str]:
    return (operand.text for operand in operands if isinstance(operand, Name))
