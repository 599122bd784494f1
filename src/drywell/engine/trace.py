"""A log of a run that can be followed backwards: steps with the lanes that took them, accesses, operations.

A trace is given to `run`; without one no step pays anything. Steps and accesses stand in one order. Values
of registers are kept where a lane instruction, or one by which lanes exchange values, reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Access, Event, Issued
from drywell.engine.threaded import Step, Threaded
from drywell.machine.lanes import FULL
from drywell.machine.queue import AsyncOp
from drywell.program.link import Executable

_KEEPS_VALUES = ("alu", "fma", "mufu", "warp")
"""Units whose instructions' sources are kept."""


@dataclass(slots=True)
class WarpLog:
    """The steps of one warp: for each its place in the order, its moment, its place in the code, its lanes as
    bits, and the values its registers had (None: not kept).
    """

    warp: Any
    orders: list[int] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    pcs: list[int] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    values: list[dict[int, NDArray[Any]] | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Noted:
    """One access, its place in the order, and the step (of any warp) in or before which it was made."""

    order: int
    moment: int
    access: Access


class Trace:
    """Logs a run; an observer too. Of the CTAs in `ctas` (None: of all) everything is kept, of others only
    what they write to global memory.

    `moment` counts steps of all warps from 1, `order` steps and accesses together; `clocks` says at which
    cycle of a timed run each of these was.
    """

    def __init__(self, ctas: Collection[int] | None = None) -> None:
        self.ctas = ctas
        self.order = 0
        self.moment = 0
        self.warps: dict[tuple[int, int], WarpLog] = {}
        self.accesses: list[Noted] = []
        self.operations: dict[int, AsyncOp] = {}
        self.issued: dict[int, list[AsyncOp]] = {}
        self.grid: Any = None
        self.executable: Executable | None = None
        self.addresses: dict[str, int] = {}
        self.clocks: list[int] = [0]
        self._clock: Callable[[], int] | None = None

    def begin(self, clock: Callable[[], int]) -> None:
        """Take the clock of a timed run."""
        self._clock = clock

    def clock_at(self, order: int) -> int:
        """Return the cycle of a step or access, -1 when the run was not timed."""
        return self.clocks[order] if self._clock is not None else -1

    def _next(self) -> None:
        self.order += 1
        if self._clock is not None:
            self.clocks.append(self._clock())

    def wants(self, cta: int) -> bool:
        """Say whether everything of a CTA is kept."""
        return self.ctas is None or cta in self.ctas

    def attach(
        self, grid: Any, executable: Executable, addresses: dict[str, int], threaded: Threaded
    ) -> None:
        """Wrap the steps of a run that is about to begin."""
        self.grid, self.executable, self.addresses = grid, executable, addresses
        threaded.steps[:] = [self._wrapped(pc, threaded) for pc in range(len(threaded.steps))]

    def _wrapped(self, pc: int, threaded: Threaded) -> Step:
        step, guard, declaration = threaded.steps[pc], threaded.guards[pc], threaded.declarations[pc]
        has_values = declaration is not None and declaration.unit in _KEEPS_VALUES
        kept = tuple(sorted(threaded.sources[pc])) if has_values else None

        def traced(w: Any) -> Any:
            self.moment += 1
            self._next()
            if self.wants(w.cta.linear):
                self._note(w, pc, guard, kept)
            return step(w)

        return traced

    def _note(self, w: Any, pc: int, guard: tuple[int, bool] | None, kept: tuple[int, ...] | None) -> None:
        mask = w.mask if guard is None else w.mask & (w.values[guard[0]] ^ guard[1])
        key = (w.cta.linear, w.index)
        log = self.warps.get(key)
        if log is None:
            log = self.warps[key] = WarpLog(w)
        log.orders.append(self.order)
        log.moments.append(self.moment)
        log.pcs.append(pc)
        log.masks.append(0xFFFF_FFFF if mask is FULL else _bits(mask))
        log.values.append(None if kept is None else {k: w.values[k].copy() for k in kept})

    def on(self, event: Event) -> None:
        """Keep accesses and what operations are issued."""
        if isinstance(event, Access):
            is_result = event.space == "global" and event.is_write
            if is_result or self.wants(event.agent.cta) or self.wants(event.home):
                self._next()
                self.accesses.append(Noted(self.order, self.moment, event))
        elif isinstance(event, Issued) and self.wants(event.agent.cta):
            number = event.agent.operation
            op = next(op for op in self.grid.pending if op.number == number)
            self.operations[number] = op
            self.issued.setdefault(self.moment, []).append(op)


def _bits(mask: NDArray[np.bool_]) -> int:
    return int(np.packbits(mask, bitorder="little").view("<u4")[0])
