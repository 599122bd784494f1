"""Asynchronous operations: what was issued and has not yet taken effect, and in which order it may.

The schedule (in the engine) picks one of `Pending.runnable()` and lets `Pending.advance` run its next
stage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import KernelFault
from drywell.base.events import NO_WORK, Agent, Performed, Work
from drywell.base.record import record
from drywell.base.span import Span
from drywell.machine.flow import Flow

if TYPE_CHECKING:
    from drywell.machine.warp import Warp


Spans = tuple[NDArray[np.int64], int]
"""Addresses in global memory, and how many bytes from each on."""


@record
class Traffic:
    """What a copy moves: rows, the bytes of each, a name of its data in global memory (None: nobody asks),
    and where that lies.
    """

    rows: int
    row_bytes: int
    key: Hashable = None
    spans: Callable[[], Spans] = lambda: (np.zeros(0, np.int64), 0)


@dataclass(slots=True, eq=False)
class AsyncOp:
    """One asynchronous operation of `warp`, issued at `span`.

    `unit` is tma, tensor, tmem_ld, tmem_st, bulk, cp_async or clc; `what` says it in words for reports.
    `stages` run in order, each at a moment of its own; the last one's return value becomes `result`.
    Operations of one `queue` key perform in issue order; None is free. `ready` holds it back until true.
    `columns` are those of Tensor Memory that it reads or writes; `work` says to observers what it is.
    `lanes` are the lanes that issued it. `number` is given at issue, from 1. `on_done` callables run with
    the operation when its last stage has run. `unwritten` says of a load from TMEM, for each of its registers
    and lanes, whether it read a cell that nobody has written, `halves` whether one that holds 16 bits only
    (None: no such). `flows` say where what it wrote came from. They are made only when somebody listens.
    `traffic` says what a copy moves.
    """

    unit: str
    what: str
    warp: Warp
    span: Span
    stages: tuple[Callable[[], Any], ...]
    queue: Hashable | None = None
    lanes: tuple[int, ...] = ()
    ready: Callable[[], bool] | None = None
    number: int = 0
    stage: int = 0
    result: Any = None
    on_done: list[Callable[[AsyncOp], None]] = field(default_factory=list)
    columns: range = range(0)
    work: Work = NO_WORK
    flows: tuple[Flow, ...] = ()
    unwritten: Any = None
    halves: Any = None
    traffic: Callable[[], Traffic] | None = None

    @property
    def done(self) -> bool:
        """Say whether the last stage has run."""
        return self.stage >= len(self.stages)

    @property
    def is_read(self) -> bool:
        """Say whether the sources have been read, which the first stage does."""
        return self.stage >= 1

    @property
    def agent(self) -> Agent:
        """Return who acts, as events name it."""
        return Agent(self.warp.cta.linear, self.warp.index, self.number)

    def __repr__(self) -> str:
        return f"<{self.unit} {self.what} #{self.number} of warp {self.warp.index}, {self.span}>"


class Pending:
    """The operations in flight, in issue order; `performing` is the one whose stage is running, if any.
    `fresh` are those that the clock has not looked at yet (None: there is no clock).
    """

    def __init__(self) -> None:
        self.performing: AsyncOp | None = None
        self.fresh: list[AsyncOp] | None = None
        self._free: dict[int, AsyncOp] = {}
        self._queues: dict[Hashable, deque[AsyncOp]] = {}
        self._issued = 0
        self._in_flight = 0

    def add(self, op: AsyncOp) -> AsyncOp:
        """Number `op` and take it in."""
        self._issued += 1
        self._in_flight += 1
        op.number = self._issued
        if self.fresh is not None:
            self.fresh.append(op)
        if op.queue is None:
            self._free[op.number] = op
        else:
            self._queues.setdefault(op.queue, deque()).append(op)
        return op

    def runnable(self) -> list[AsyncOp]:
        """Return those that may take their next stage now, oldest first: free ones and the heads of
        queues.
        """
        heads = [queue[0] for queue in self._queues.values()]
        ops = [op for op in (*self._free.values(), *heads) if op.ready is None or op.ready()]
        if heads:
            ops.sort(key=lambda op: op.number)
        return ops

    def may_advance(self, op: AsyncOp) -> bool:
        """Say whether `op` may take its next stage now."""
        is_first = op.queue is None or self._queues[op.queue][0] is op
        return is_first and (op.ready is None or op.ready())

    def advance(self, op: AsyncOp) -> bool:
        """Run the next stage of `op` and say whether that was the last; a fault gets the operation's
        place.
        """
        outer, self.performing = self.performing, op
        try:
            op.result = op.stages[op.stage]()
        except KernelFault as fault:
            locate(fault, op.warp, op.span, op.lanes)
            raise
        finally:
            self.performing = outer
        op.stage += 1
        grid = op.warp.grid
        grid.version += 1
        if not op.done:
            return False
        self._remove(op)
        if grid.observers:
            grid.emit(Performed(op.agent, op.unit, op.what, op.span))
        for call in op.on_done:
            call(op)
        return True

    def _remove(self, op: AsyncOp) -> None:
        """Forget a finished operation."""
        self._in_flight -= 1
        if op.queue is None:
            del self._free[op.number]
            return
        queue = self._queues[op.queue]
        queue.remove(op)
        if not queue:
            del self._queues[op.queue]

    def __len__(self) -> int:
        return self._in_flight

    def __iter__(self) -> Iterator[AsyncOp]:
        ops = [*self._free.values(), *(op for queue in self._queues.values() for op in queue)]
        return iter(sorted(ops, key=lambda op: op.number))


def locate(fault: KernelFault, warp: Warp, span: Span, lanes: tuple[int, ...]) -> None:
    """Fill in what a fault does not say yet: its place, CTA, warp and lanes."""
    if not fault.span.line:
        fault.span = span
    if fault.cta is None:
        fault.cta = warp.cta.index
        fault.warp = warp.index
    if not fault.lanes:
        fault.lanes = lanes
