"""Allocations of Tensor Memory that nothing frees, or that a way out of the kernel leaves taken.

Source: PTX ISA 9.7.16.7.1: all allocated columns must be freed before the kernel ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from drywell.base.record import record
from drywell.base.span import Span
from drywell.isa.abstract import allocates, frees, is_data, traps
from drywell.program import operands as ops
from drywell.program.flow import ends, successors, targets
from drywell.program.module import Function
from drywell.program.reaching import Definitions

_CALCULATES: Final = ("alu", "fma", "mufu")


@record
class Kept:
    """An allocation at `alloc`; `skips` is the branch or exit by which lanes leave before any dealloc, None
    when there is no way to one at all.
    """

    alloc: Span
    skips: Span | None


def kept_columns(reached: Sequence[Function]) -> Iterator[Kept]:
    """Yield the allocations of an entry, the first of the functions that it reaches, that can stay taken.

    A branch counts when data decide it, parameters or global memory: one that goes by who a thread is may
    let others free the columns.
    """
    freeing = {f.name for f in reached if any(_frees(one) for one in f.code)}
    ways: _Ways | None = None
    for place, one in enumerate(reached[0].code):
        if isinstance(one, ops.Bound) and allocates(one.declaration):
            ways = ways or _Ways(reached[0], freeing)
            held = ways.behind(place)
            if not held & ways.frees:
                yield Kept(one.span, None)
            elif skips := next(ways.skips(place, held), None):
                yield Kept(one.span, skips)


class _Ways:
    """The ways through a function that may free columns itself or by a call of `freeing`: from where a
    dealloc can be reached, and from where an end can without one.
    """

    def __init__(self, function: Function, freeing: set[str]) -> None:
        self.code = code = function.code
        self.definitions = Definitions(function)
        self.frees = {p for p, one in enumerate(code) if _frees(one) or _calls(one, freeing)}
        ends_at = {p for p, one in enumerate(code) if _leaves(one) or len(code) in successors(code, p)}
        self.frees_from = self._before(self.frees, set())
        self.leaves_from = self._before(ends_at - self.frees, self.frees)

    def _before(self, goals: set[int], walls: set[int]) -> set[int]:
        """Return the places from which a goal can be reached without passing a wall."""
        seen = set(goals)
        work = list(goals)
        while work:
            new = [p for p in self.definitions.before(work.pop()) if p not in seen and p not in walls]
            seen.update(new)
            work += new
        return seen

    def behind(self, place: int) -> set[int]:
        """Return the places that a lane can get to from one, no further than to a dealloc."""
        seen: set[int] = set()
        work = list(successors(self.code, place))
        while work:
            at = work.pop()
            if at < len(self.code) and at not in seen:
                seen.add(at)
                if at not in self.frees:
                    work += successors(self.code, at)
        return seen

    def skips(self, alloc: int, held: set[int]) -> Iterator[Span]:
        """Yield the places in `held`, behind an allocation, where data decide that lanes leave without a
        dealloc which others come to.
        """
        before = self._decided(alloc)
        for place in sorted(held - self.frees):
            branch = self.code[place]
            if not isinstance(branch, ops.Bound) or branch.guard is None:
                continue
            ways = [way for way in successors(self.code, place) if way < len(self.code)]
            keeps = [way for way in ways if way not in self.frees_from]
            leaves = _leaves(branch) or any(way in self.leaves_from for way in keeps)
            if leaves and len(keeps) < len(ways):
                roots = _roots(self.definitions, place, branch.guard)
                if roots and not roots & before:
                    yield branch.span

    def _decided(self, alloc: int) -> set[str]:
        """Return the data that decide branches before an allocation: lanes that come to it are not any
        lanes.
        """
        out: set[str] = set()
        for place, one in enumerate(self.code[:alloc]):
            if isinstance(one, ops.Bound) and one.guard is not None and (targets(one) or ends(one)):
                out |= _roots(self.definitions, place, one.guard)
        return out


def _leaves(instruction: ops.Code) -> bool:
    """Say whether an instruction ends its lanes, and not the kernel as a fault."""
    return ends(instruction) and isinstance(instruction, ops.Bound) and not traps(instruction.declaration)


def _roots(definitions: Definitions, place: int, register: ops.Register) -> set[str]:
    """Return the parameters and the loads from global memory that a register is computed from, by name or
    line; nothing when something else goes into it, such as who the thread is.
    """
    roots: set[str] = set()
    seen = {(place, register.index)}
    work = list(seen)
    while work:
        for defined, one in definitions.reaching(*work.pop()):
            leaves = [leaf for source in one.sources for leaf in ops.leaves(source)]
            if is_data(one.declaration, one.mods):
                named = {leaf.name for leaf in leaves if isinstance(leaf, ops.Symbol)}
                roots |= named or {f"line {one.span.line}"}
                continue
            if one.declaration.unit not in _CALCULATES or any(isinstance(x, ops.Special) for x in leaves):
                return set()
            further = {(defined, leaf.index) for leaf in leaves if isinstance(leaf, ops.Register)}
            work += further - seen
            seen |= further
    return roots


def _frees(instruction: ops.Code) -> bool:
    """Say whether an instruction frees columns, or may: of one that is not known nothing is."""
    return isinstance(instruction, ops.Unknown) or frees(instruction.declaration)


def _calls(instruction: ops.Code, names: set[str]) -> bool:
    return isinstance(instruction, ops.Bound) and any(
        isinstance(source, ops.FunctionRef) and source.name in names for source in instruction.sources
    )
