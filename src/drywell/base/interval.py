"""What the clock tells of a timed run: who did what from when to when. Times are SM cycles from launch."""

from __future__ import annotations

from typing import Literal

from drywell.base.record import record
from drywell.base.span import NOWHERE, Span

Doing = Literal["run", "stall", "busy"]
"""A warp executes (`run`) or waits (`stall`); a unit works (`busy`)."""


@record
class Interval:
    """One stretch of time, `begin` to `end` in SM cycles, of a warp or of a unit of an SM.

    `unit` is warp, tensor, commit, tma, tmem_read or tmem_write. A run has issued `count` warp instructions.
    A stall's `reason` says what was waited for, `kind` in one word (mbarrier, named_barrier, ...).
    Of asynchronous work `what` says it in words, `issued` is when it was issued and `done` when it took
    effect (of the last run of a warp: when all it has stored is in L2); `columns` are those of Tensor Memory
    that it writes or reads, first and end. The mma of a pair is told for both SMs, with the CTA and the warp
    that issued it. `cause` is what ended a stall: the work that was done, or the (cta, warp) that arrived.
    """

    doing: Doing
    unit: str
    begin: float
    end: float
    sm: int
    cta: int
    warp: int
    what: str = ""
    kind: str = ""
    reason: str = ""
    span: Span = NOWHERE
    count: int = 0
    issued: float = 0.0
    done: float = 0.0
    columns: tuple[int, int] = (0, 0)
    cause: Interval | tuple[int, int] | None = None

    @property
    def awaited(self) -> str:
        """Return what a stall waits for, without the number of an mbarrier's phase."""
        return self.reason.partition(" of ")[2] or self.reason if self.kind == "mbarrier" else self.reason

    @property
    def cycles(self) -> float:
        """Return how long it is, in cycles."""
        return self.end - self.begin
