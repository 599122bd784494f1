"""Threaded code: every bound instruction of an executable becomes one Python callable `step(w)` over a warp.

A step returns None when the warp simply goes on, or an outcome (`Wait`, `Jump`, ...). How it reads and writes
operands: `threaded_operands`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.dtypes import TYPES
from drywell.base.span import NOWHERE, Span
from drywell.engine.compiled_layout import chunk_starts
from drywell.engine.numpy_ops import NumpyOps
from drywell.engine.threaded_operands import Operands, Read, Write
from drywell.machine.outcome import Call, Deferred, Exit, Jump, Return, Wait
from drywell.program import operands as ops
from drywell.program.link import Executable, Linked
from drywell.program.module import Parameter

if TYPE_CHECKING:
    from drywell.base.options import Options
    from drywell.engine.activity import Activity
    from drywell.engine.native.learn import Tables

Step = Callable[[Any], Any]

OUTCOMES = (Wait, Deferred, Jump, Call, Return, Exit)

ALIGNED, UNIT, CLOCK = 1, 2, 4
"""Flags of a place: all lanes of the warp execute it together; it acts on the machine; it reads the time."""

CLOCKS = ("%clock", "%globaltimer")


PASSED = object()
"""What a step returns when its guard is false in every lane: it was issued and did nothing."""


@dataclass(frozen=True, slots=True)
class Held:
    """An outcome with what the engine needs to finish it: how to write the result, which registers it
    busies, whose lanes it is.

    `mask` None means all lanes that were active.
    """

    outcome: Any
    write: Write | None
    registers: tuple[int, ...]
    mask: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Callee:
    """A function as its callers see it: where it starts, and the (frame offset, bytes) of its parameters
    and results.
    """

    pc: int
    params: tuple[tuple[int, int], ...]
    returns: tuple[tuple[int, int], ...]


class Registers(dict[int, frozenset[int]]):
    """Sets of register indices by place, each made when it is first asked for."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], frozenset[int]]) -> None:
        self._make = make

    def __missing__(self, pc: int) -> frozenset[int]:
        found = self[pc] = self._make(pc)
        return found


@dataclass(slots=True, weakref_slot=True)
class Threaded:
    """The callables of an executable with, per place, its span, the registers it touches, reads and writes,
    its declaration (None at a function's end), its flags, and its guard (register index, whether negated).
    At the places `watched` an observer does more than the instruction; before those of `turn_ends` a turn may
    end. `learnt` is what native code has been told, under which options, since it was made, `activity` says
    what warps did.
    """

    steps: list[Step]
    spans: list[Span]
    touched: Registers
    sources: Registers
    results: Registers
    declarations: list[Any]
    flags: list[int]
    guards: list[tuple[int, bool] | None]
    frame_bytes: int
    entry_pc: int
    callees: dict[str, Callee]
    watched: set[int] = field(default_factory=set)
    turn_ends: list[bool] = field(default_factory=list)
    learnt: tuple[Options, Tables] | None = None
    activity: Activity | None = None

    @property
    def clocks(self) -> tuple[int, ...]:
        """Return the places that read the time."""
        return tuple(pc for pc, flags in enumerate(self.flags) if flags & CLOCK)


@dataclass(slots=True)
class Compiler:
    """Makes the callables of one linked function's instructions."""

    operands: Operands

    # ---------------------------------------------------------------- steps
    def step(self, instruction: ops.Bound) -> Step:
        """Return the callable of one instruction, guard included."""
        inner = (
            self.lane_step(instruction)
            if instruction.declaration.is_lane
            else self._machine_step(instruction)
        )
        return self._guarded(instruction, inner) if instruction.guard is not None else inner

    def lane_step(self, instruction: ops.Bound) -> Step:
        """Return the callable of a lane instruction, guard left out."""
        declaration = instruction.declaration
        chosen = instruction.mods.get("type")
        o = NumpyOps(instruction.mods, TYPES.get(chosen or ""))
        semantics = declaration.semantics
        readers = self.operands.source_readers(instruction)
        write = self.operands.destination_writer(instruction)
        if declaration.unit == "mem":
            return _memory_step(o, semantics, readers, write)
        if write is None:
            return lambda w: None
        if len(readers) == 2 and len(instruction.destinations) == 1:
            first, second = readers
            return lambda w: write(w, semantics(o, first(w), second(w)))
        if len(readers) == 1 and len(instruction.destinations) == 1:
            only = readers[0]
            return lambda w: write(w, semantics(o, only(w)))
        return lambda w: write(w, semantics(o, *[read(w) for read in readers]))

    def _machine_step(self, instruction: ops.Bound) -> Step:
        semantics, mods = instruction.declaration.semantics, instruction.mods
        readers = self.operands.source_readers(instruction)
        write = self.operands.destination_writer(instruction)
        touched = self.results(instruction)

        def step(w: Any) -> Any:
            result = semantics(w, mods, *[read(w) for read in readers])
            if result is None:
                return None
            if isinstance(result, OUTCOMES):
                return Held(result, write, touched)
            if write is not None:
                write(w, result)
            return None

        return step

    def _guarded(self, instruction: ops.Bound, inner: Step) -> Step:
        assert instruction.guard is not None
        index = self.operands.index_of(instruction.guard)
        negated = instruction.is_guard_negated

        def step(w: Any) -> Any:
            before = w.mask
            guard = ~w.values[index] if negated else w.values[index]
            mask = guard & before
            active = np.count_nonzero(mask)
            if active == 0:
                return PASSED
            if active == np.count_nonzero(before):
                return inner(w)
            w.mask = mask
            outcome = inner(w)
            w.mask = before
            return None if outcome is None else Held(outcome.outcome, outcome.write, outcome.registers, mask)

        return step

    # ---------------------------------------------------------------- facts
    def _registers(self, operand: ops.Nested) -> set[int]:
        return {self.operands.index_of(register) for register in ops.registers(operand)}

    def results(self, instruction: ops.Bound) -> tuple[int, ...]:
        """Return the register indices an instruction writes, in the order of its operands."""
        parts = [part for d in instruction.destinations for part in getattr(d, "elements", (d,))]
        return tuple(dict.fromkeys(k for part in parts for k in sorted(self._registers(part))))

    def touched(self, instruction: ops.Bound) -> frozenset[int]:
        """Return the register indices an instruction reads or writes."""
        return self.sources(instruction) | self._registers(instruction.destinations)

    def sources(self, instruction: ops.Bound) -> frozenset[int]:
        """Return the register indices an instruction reads, its guard among them."""
        guard = self._registers(instruction.guard) if instruction.guard else set()
        return frozenset(self._registers(instruction.sources) | guard)

    def guard(self, instruction: ops.Bound) -> tuple[int, bool] | None:
        """Return the register index of an instruction's guard and whether it is negated."""
        if instruction.guard is None:
            return None
        return self.operands.index_of(instruction.guard), instruction.is_guard_negated


def _flags(instruction: ops.Bound) -> int:
    declaration = instruction.declaration
    aligned = ALIGNED if declaration.converged == "warp" else 0
    unit = 0 if declaration.is_lane else UNIT
    reads_clock = any(name.startswith(CLOCKS) for name in ops.specials(instruction))
    return aligned | unit | (CLOCK if reads_clock else 0)


def _memory_step(
    o: NumpyOps, semantics: Callable[..., Any], readers: list[Read], write: Write | None
) -> Step:
    def step(w: Any) -> Any:
        o.m = w
        try:
            result = semantics(o, *[read(w) for read in readers])
        finally:
            o.m = None  # threaded code outlives the run
        if write is not None:
            write(w, result)
        return None

    return step


def _callee(executable: Executable, linked: Linked) -> Callee:
    def slots(parameters: tuple[Parameter, ...]) -> tuple[tuple[int, int], ...]:
        found = [(executable.places.get(("frame", p.storage.name)), p.storage.size) for p in parameters]
        return tuple((place, size) for place, size in found if place is not None)

    return Callee(linked.pc_base, slots(linked.function.params), slots(linked.function.returns))


def _end(outcome: Exit | Return) -> Step:
    held = Held(outcome, None, ())
    return lambda w: held


@dataclass(slots=True)
class _Steps:
    """Makes the step of a place when it is first taken; it stands in its own place from then on."""

    threaded: weakref.ref[Threaded]
    places: list[tuple[Compiler, ops.Bound] | None]
    made: dict[int, Step] = field(default_factory=dict)

    def first(self, pc: int, w: Any) -> Any:
        """Take the step at a place for the first time."""
        step = self.made.get(pc)
        if step is None:
            at = self.places[pc]
            assert at is not None
            step = self.made[pc] = at[0].step(at[1])
            threaded = self.threaded()
            before: Any = None if threaded is None else threaded.steps[pc]
            if threaded is not None and isinstance(before, partial) and before.func == self.first:
                threaded.steps[pc] = step
        return step(w)


def compile_executable(executable: Executable, addresses: dict[str, int]) -> Threaded:
    """Turn an executable into threaded code; `addresses` are those of its global and const variables."""
    places: list[tuple[Compiler, ops.Bound] | None] = []

    def registers(of: Callable[[Compiler, ops.Bound], Iterable[int]]) -> Registers:
        return Registers(lambda pc: frozenset() if (at := places[pc]) is None else frozenset(of(*at)))

    threaded = Threaded(
        [],
        [],
        registers(Compiler.touched),
        registers(Compiler.sources),
        registers(Compiler.results),
        [],
        [],
        [],
        executable.frame_bytes,
        executable.linked(executable.entry.name).pc_base,
        {},
    )
    later = _Steps(weakref.ref(threaded), places)
    for linked in executable.functions:
        threaded.callees[linked.function.name] = _callee(executable, linked)
        _add_function(threaded, later, Compiler(Operands(executable, addresses, linked)))
    starts = chunk_starts(executable)
    threaded.turn_ends = [pc in starts for pc in range(len(threaded.steps))]
    return threaded


def _add_function(threaded: Threaded, later: _Steps, compiler: Compiler) -> None:
    """Append the places of a function, the one behind its code among them."""
    function = compiler.operands.linked.function
    for instruction in function.code:
        threaded.spans.append(instruction.span)
        if isinstance(instruction, ops.Unknown):  # no lane gets here: link refuses one that it can reach
            later.places.append(None)
            threaded.steps.append(_end(Exit()))
            threaded.declarations.append(None)
            threaded.flags.append(0)
            threaded.guards.append(None)
            continue
        threaded.steps.append(partial(later.first, len(later.places)))
        later.places.append((compiler, instruction))
        threaded.declarations.append(instruction.declaration)
        threaded.flags.append(_flags(instruction))
        threaded.guards.append(compiler.guard(instruction))
    later.places.append(None)
    threaded.spans.append(threaded.spans[-1] if function.code else NOWHERE)
    threaded.steps.append(_end(Exit() if function.is_entry else Return()))
    threaded.declarations.append(None)
    threaded.flags.append(0)
    threaded.guards.append(None)
