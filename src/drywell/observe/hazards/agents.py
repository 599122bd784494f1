"""Who the checker follows: the lanes of warps, asynchronous operations, and what two of them disagree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from drywell.base.events import Agent, Proxy, Work
from drywell.base.span import Span
from drywell.observe.hazards.clock import EMPTY, LANES, Clock, Known, joined
from drywell.observe.hazards.record import Record
from drywell.observe.hazards.shadow import WHOLE

Why = Literal["unordered", "proxy", "fence_after", "fence_before"]
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses of `count` common places, the first of them `address` of CTA `home`, of which the
    later does not know the earlier to be over; `why` says what is missing. `clock` is what the later one
    knew.
    """

    earlier: Record
    later: Record
    why: Why
    address: int
    home: int
    count: int
    clock: Clock
    earlier_lane: int = WHOLE
    later_lane: int = WHOLE


@dataclass(slots=True)
class WarpClocks:
    """What the lanes of one warp know. `base` is its component, `base + 1 + lane` that of a lane; `time`
    counts what it has published. Per lane, `fences` and `near_fences` are what its last memory fence of a
    scope beyond the CTA, and of any scope, lets strong writes after it publish; `pending` is what strong
    reads have seen and the next fence takes in.
    """

    agent: Agent
    base: int
    live: set[int]
    clocks: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    time: int = 1
    fences: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    near_fences: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    pending: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    has_strong: bool = False

    def own(self, lanes: tuple[int, ...]) -> Known:
        """Return the components that say: what `lanes` have done up to now."""
        if len(lanes) >= len(self.live):
            return {self.base: self.time}
        return {self.base + 1 + lane: self.time for lane in lanes}

    def known(self, lanes: tuple[int, ...]) -> Clock:
        """Return what `lanes` know together, without their own accesses."""
        clock = self.clocks[lanes[0]] if lanes else EMPTY
        for lane in lanes[1:]:
            other = self.clocks[lane]
            if other is not clock:
                joint = clock.join(other)
                clock = joint if joint.after is other.after else _with_after(joint, other.after)
        return clock

    def message(self, lanes: tuple[int, ...]) -> Clock:
        """Return what `lanes` know, their own accesses among it."""
        return self.known(lanes).knowing(self.own(lanes))

    def fenced(self, lanes: tuple[int, ...]) -> Clock:
        """Return what memory fences let `lanes` publish together."""
        clock = EMPTY
        for near in {id(self.near_fences[k]): self.near_fences[k] for k in lanes}.values():
            clock = clock.join(near)
        return clock

    def change(self, lanes: tuple[int, ...], act: Callable[[Clock], Clock]) -> None:
        """Replace the clocks of `lanes`; lanes that share one go on sharing."""
        made: dict[int, Clock] = {}
        for lane in lanes:
            old = self.clocks[lane]
            new = made.get(id(old))
            if new is None:
                new = made[id(old)] = act(old)
            self.clocks[lane] = new


def _with_after(clock: Clock, after: Known) -> Clock:
    return Clock(
        clock.seen,
        clock.control,
        clock.shared,
        clock.global_,
        clock.maps,
        clock.before,
        joined(clock.after, after),
    )


@dataclass(slots=True)
class Operation:
    """An asynchronous operation in flight or over: what its issuer knew, and its records by place."""

    number: int
    agent: Agent
    lanes: tuple[int, ...]
    warp: WarpClocks
    time: int
    unit: str
    what: str
    work: Work
    clock: Clock
    span: Span
    carries: Clock = EMPTY
    moment: int = 0
    records: dict[tuple[Place, bool, str, Proxy], Record] = field(default_factory=dict)


def is_own(earlier: Record, lane: int, later: Record, by: int) -> bool:
    """Say whether both are one thread's own accesses (or a whole warp's), in its program order."""
    if earlier.warp != later.warp or not earlier.is_threads:
        return False
    return lane == by and (lane != WHOLE or not later.is_operation)


def is_same_accumulator(earlier: Record, later: Record) -> bool:
    """Say whether two mma have one accumulator, shape and kind, so that they keep their order."""
    a, b = earlier.work, later.work
    return (a.accumulator, a.shape[:2], a.kind) == (b.accumulator, b.shape[:2], b.kind)
