"""One party of a hand-over: an access or the accesses of one operation, as the shadow memory remembers
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from drywell.base.events import WEAK, Agent, Order, Proxy, Role, Space, Work
from drywell.base.span import NOWHERE, Span
from drywell.observe.hazards.clock import EMPTY, LANES, Clock, Known


@dataclass(slots=True, eq=False)
class Record:
    """Who touched memory. (`component`, `value`) is when it is over; with `is_by_lane` each lane has a
    component of its own, `component + 1 + lane`, beside that of all of them.

    `warp` is the first component of the issuing warp and `time` its time at issue, so that one can tell
    whether somebody knows of the issue; `lanes` are who issued it. `unit`, `what` and `work` are those of
    an asynchronous operation. `retired_at` is the time of the warp at which each issuing lane had waited
    for it, from when on it counts as the lane's own access (0: not, or not each). `clock` is what its
    party knew, `moment` when it was issued, `replaced` the write whose value a write replaces; with
    `is_settled` it knows of a read of that value that is over. `wait` is where its thread waited for it.
    """

    number: int
    agent: Agent
    span: Span
    space: Space
    is_write: bool
    proxy: Proxy
    component: int
    value: int
    warp: int
    time: int
    lanes: tuple[int, ...] = ()
    is_by_lane: bool = False
    order: Order = WEAK
    is_atomic: bool = False
    unit: str = ""
    what: str = ""
    work: Work = field(default_factory=Work)
    home: int = -1
    retired_at: int = 0
    is_slot: bool = False
    layout: str = ""
    clock: Clock = EMPTY
    moment: int = 0
    replaced: Record | None = None
    is_settled: bool = False
    wait: Span | None = None

    @property
    def role(self) -> Role:
        """Return what kind of operation it belongs to, '' for a thread's own access."""
        return self.work.role

    @property
    def is_operation(self) -> bool:
        """Say whether an asynchronous operation made it."""
        return self.agent.operation != 0

    def is_over_for(self, known: Known, lane: int = LANES) -> bool:
        """Say whether who knows `known` knows it to be over (that of `lane`, for a record by lanes)."""
        value = self.value
        if known.get(self.component, 0) >= value:
            return True
        if self.is_by_lane and self._knows_lane(known, self.component, value, lane):
            return True
        if self.retired_at and (
            known.get(self.warp, 0) >= self.retired_at
            or self._knows_lane(known, self.warp, self.retired_at, lane)
        ):
            return True
        return bool(self.agent.operation) and -self.agent.operation in known

    def _knows_lane(self, known: Known, component: int, value: int, lane: int) -> bool:
        """Say whether the lane (any, of an access that lanes made together) is known up to `value`."""
        if lane < LANES:
            return known.get(component + 1 + lane, 0) >= value
        if self.lanes and not self.is_together:
            return all(known.get(component + 1 + k, 0) >= value for k in self.lanes)
        return any(known.get(component + 1 + k, 0) >= value for k in self.lanes or range(LANES))

    @property
    def is_together(self) -> bool:
        """Say whether its lanes acted as one, so that knowing of any is knowing of all."""
        return not self.lanes

    @property
    def is_threads(self) -> bool:
        """Say whether it counts as what lanes did themselves, in their program order."""
        return not self.agent.operation or self.retired_at > 0

    def is_issued_for(self, known: Known) -> bool:
        """Say whether who knows `known` knows that it was issued."""
        if known.get(self.warp, 0) >= self.time:
            return True
        return any(known.get(self.warp + 1 + lane, 0) >= self.time for lane in self.lanes)


NOBODY = Record(0, Agent(-1, -1), NOWHERE, "global", False, "generic", 0, 0, 0, 0)
"""The record of memory that nobody has touched."""
