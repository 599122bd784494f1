"""How the code of an executable is cut for compilation: chunks of a few instructions, units of chunks.

A *chunk* is a straight line of lane instructions and perhaps one instruction at its end that may leave
compiled code or jump. Compiled code is entered and left at the beginning of chunks (and left at the last
instruction, or at an access that cannot be made), so a turn that ends inside one ends by the interpreter.
A *unit* is what is compiled at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.dtypes import TYPES
from drywell.engine import llvm_memory
from drywell.machine.special import special_type
from drywell.program import operands as ops
from drywell.program.flow import targets
from drywell.program.link import Executable, Linked

CHUNK = 16
"""Lane instructions of a chunk at most."""

SHORT_CHUNK = 4
"""The same in a timed run, where a chunk is left to the interpreter when one register of it is waited for."""

UNIT = 160
"""Instructions after which a unit is full."""

LANES, BRANCH, NATIVE, LEAVE = "lanes", "branch", "native", "leave"
"""What an instruction is to compiled code: one that it computes, a branch, a machine instruction that it
has a form of, one that it leaves for unless its guard lets it pass."""

UNIT_NAME = "drywell.unit"
"""The function that a unit is."""

STATUSES = 8
LEFT, MISSED, GOES_ON, JUMPED, WAITS, DIVIDES, YIELDS, EXITS = range(STATUSES)
"""Why compiled code returned: the instruction at the place is to be interpreted; so it is, for its access
could not be made, and what is behind it in its chunk has been counted; execution goes on at the place; it
has jumped there, and the warp's other splits may come first; the instruction at the place has been executed
and waits (only where `native.turns` drives); the branch there, not yet executed, divides the lanes, or makes
the split give way; the instruction there, not yet executed, ends lanes.
"""

_MOVING_SPECIALS = ("%clock", "%globaltimer", "%pm")

Forms = Callable[[ops.Bound], Any]
"""Gives the native form of a machine instruction, None when there is none."""


def no_form(instruction: ops.Bound) -> None:
    """Say that a machine instruction has no native form: the interpreter executes it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Instructions from place `start` on: `code` lane instructions, then `last`, which is of kind `end`
    (`lanes`: there is none, the chunk runs on into the next).
    """

    linked: Linked
    start: int
    code: tuple[ops.Bound, ...]
    end: str
    last: ops.Bound | None

    @property
    def end_pc(self) -> int:
        """Return the place of the last instruction, or behind the lane instructions when there is none."""
        return self.start + len(self.code)

    @property
    def next_pc(self) -> int:
        """Return the place where execution goes on behind the chunk."""
        return self.end_pc + (self.last is not None)

    @property
    def is_entered(self) -> bool:
        """Say whether compiled code is entered here: it can do something, if only pass a guard."""
        is_guarded = self.last is not None and self.last.guard is not None
        return bool(self.code) or self.end in (BRANCH, NATIVE) or is_guarded


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The chunks of an executable by place, the units they are in, and what the engine asks of a place.

    `unit_of` gives the unit that a place enters (-1: none), `chunk_of` the place where the chunk around a
    place begins, `lanes_end` where the lane instructions of its chunk end, `counted_at` the place at which
    executions of an instruction are counted. `specials` are the special registers that compiled code reads.
    The text of every unit follows from `identity` ('' where that is not known).

    With `is_told` compiled code tells what clusters do (`compiled_told`): that a chunk is begun at
    `told_starts`, and what is lost at `divisions`.
    """

    executable: Executable
    addresses: Mapping[str, int]
    forms: Forms
    units: tuple[tuple[Chunk, ...], ...]
    unit_of: list[int]
    chunk_of: list[int]
    lanes_end: list[int]
    counted_at: NDArray[np.int64]
    specials: tuple[str, ...]
    identity: str = ""
    is_told: bool = False
    told_starts: frozenset[int] = frozenset()
    divisions: Mapping[int, int] = field(default_factory=dict)

    @property
    def has_forms(self) -> bool:
        """Say whether compiled code executes machine instructions."""
        return any(chunk.end == NATIVE for unit in self.units for chunk in unit)

    @property
    def num_places(self) -> int:
        """Return how many places the code has."""
        return len(self.unit_of)


def lay_out(
    executable: Executable,
    addresses: Mapping[str, int],
    forms: Forms,
    watched: frozenset[int] = frozenset(),
    is_observed: bool = False,
    identity: str = "",
    divisions: Mapping[int, int] | None = None,
    is_timed: bool = False,
) -> Layout:
    """Cut an executable whose global and const variables lie at `addresses`. What stands at the places
    `watched` is left to the interpreter, and when the run is observed, so are accesses. With `divisions` what
    clusters do is told. When the run is timed, what can be noticed outside of its warp begins a chunk. All of
    these follow from `identity`, where it is given.
    """
    cut = _Cut(forms, watched, is_observed, is_timed)
    chunks = [c for linked in executable.functions for c in cut.chunks(linked)]
    units = tuple(_units(chunks))
    last = executable.functions[-1]
    places = last.pc_base + len(last.function.code) + 1
    unit_of, chunk_of, lanes_end = [-1] * places, list(range(places)), [0] * places
    counted_at = np.arange(places)
    for number, unit in enumerate(units):
        for chunk in unit:
            if chunk.is_entered:
                unit_of[chunk.start] = number
            for pc in range(chunk.start, chunk.next_pc):
                chunk_of[pc], lanes_end[pc] = chunk.start, chunk.end_pc
            counted_at[chunk.start : chunk.end_pc] = chunk.start
    specials = sorted({name for chunk in chunks for i in chunk.code for name in ops.specials(i)})
    native = {name for chunk in chunks if chunk.last is not None for name in ops.specials(chunk.last)}
    names = tuple(dict.fromkeys((*specials, *sorted(n for n in native if not _is_moving(n)))))
    cutting = executable, addresses, forms, units, unit_of, chunk_of, lanes_end, counted_at, names, identity
    if divisions is None:
        return Layout(*cutting)
    return Layout(*cutting, True, chunk_starts(executable), divisions)


def _units(chunks: list[Chunk]) -> Iterator[tuple[Chunk, ...]]:
    """Join neighbouring chunks of one function until there are enough instructions."""
    unit: list[Chunk] = []
    size = 0
    for chunk in chunks:
        if unit and (size >= UNIT or chunk.linked is not unit[0].linked):
            yield tuple(unit)
            unit, size = [], 0
        unit.append(chunk)
        size += chunk.next_pc - chunk.start
    if unit:
        yield tuple(unit)


@dataclass(frozen=True, slots=True)
class _Cut:
    """How functions are cut into chunks."""

    forms: Forms
    watched: frozenset[int]
    is_observed: bool
    is_timed: bool

    def chunks(self, linked: Linked) -> Iterator[Chunk]:
        """Cut one function; the place behind its code is in none."""
        code, base = linked.function.code, linked.pc_base
        starts = function_starts(linked)
        start, lanes = base, list[ops.Bound]()
        for pc, instruction in enumerate(code, base):
            kind = self.kind(instruction, pc)
            if lanes and (pc in starts or (self.is_timed and _begins(instruction, kind, len(lanes)))):
                yield Chunk(linked, start, tuple(lanes), LANES, None)
                start, lanes = pc, []
            if kind == LANES and isinstance(instruction, ops.Bound):
                lanes.append(instruction)
            else:
                if isinstance(instruction, ops.Bound):
                    yield Chunk(linked, start, tuple(lanes), kind, instruction)
                elif lanes:  # behind them is what cannot be executed, and no lane gets there
                    yield Chunk(linked, start, tuple(lanes), LANES, None)
                start, lanes = pc + 1, []
        if lanes:
            yield Chunk(linked, start, tuple(lanes), LANES, None)

    def kind(self, instruction: ops.Code, pc: int) -> str:
        """Say what the instruction at a place is to compiled code."""
        if not isinstance(instruction, ops.Bound) or pc in self.watched:
            return LEAVE
        declaration = instruction.declaration
        if declaration.name == "bra" and isinstance(instruction.sources[0], ops.Target):
            return BRANCH
        if declaration.name == "brx_idx":
            return BRANCH
        if not _has_plain_operands(instruction):
            return LEAVE
        if not declaration.is_lane:
            return LEAVE if self.forms(instruction) is None else NATIVE
        is_access = _is_access(instruction)
        return LEAVE if is_access and (self.is_observed or not _is_reached(instruction)) else LANES


def _begins(instruction: ops.Code, kind: str, behind: int) -> bool:
    """Say whether, in a timed run, a chunk begins at an instruction that has so many of one before it."""
    return behind == SHORT_CHUNK or kind == NATIVE or _is_access(instruction)


def _is_access(instruction: ops.Code) -> bool:
    """Say whether an instruction reads or writes memory as lanes do."""
    return isinstance(instruction, ops.Bound) and instruction.declaration.unit == "mem"


def chunk_starts(executable: Executable) -> frozenset[int]:
    """Return the places at which chunks begin, whatever of the code is compiled; turns end there."""
    return frozenset().union(*map(function_starts, executable.functions))


def function_starts(linked: Linked) -> set[int]:
    """Return the places of one function at which chunks begin: where branches go, behind every instruction
    that is no lane instruction, and in between so that chunks stay short.
    """
    code, base = linked.function.code, linked.pc_base
    starts = {target + base for instruction in code for target in targets(instruction)}
    size = CHUNK
    for pc, instruction in enumerate(code, base):
        if size == CHUNK or pc in starts:
            starts.add(pc)
            size = 0
        is_lane = isinstance(instruction, ops.Bound) and instruction.declaration.is_lane
        size = size + 1 if is_lane else CHUNK
    starts.add(base + len(code))
    return starts


def _is_reached(instruction: ops.Bound) -> bool:
    """Say whether compiled code reaches the memory that a lane instruction accesses."""
    space = str(instruction.mods["space"] or "") if "space" in instruction.mods else ""
    return llvm_memory.is_reachable(space.removesuffix("::entry").removesuffix("::func"))


_PLAIN = frozenset({ops.Register, ops.Immediate, ops.Negated, ops.Discard, type(None)})


def _has_plain_operands(instruction: ops.Bound) -> bool:
    """Say whether all operands are values of one moment."""
    for operand in (*instruction.sources, *instruction.destinations):
        if type(operand) not in _PLAIN:
            for leaf in ops.leaves(operand):
                if isinstance(leaf, (ops.FunctionRef, ops.Target, ops.Targets)):
                    return False
                if isinstance(leaf, ops.Special) and _is_moving(leaf.name):
                    return False
    return True


def _is_moving(special: str) -> bool:
    """Say whether a special register changes while code runs, or is no single value."""
    return special_type(special) not in TYPES or special.startswith(_MOVING_SPECIALS)
