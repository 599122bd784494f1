"""What a timed run did, cycle by cycle: who ran and waited, how full units were, what was critical.

All times are SM cycles from the start of the launch. docs/design/clock.md says what the clock models.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path

from drywell.base.interval import Interval
from drywell.base.pictured import Pictured
from drywell.base.record import record
from drywell.observe.tiles import Tiles
from drywell.observe.trace_events import trace_json

Span = tuple[float, float]

UNITS = ("tensor", "tma", "tmem_read", "tmem_write", "issue")
"""The units whose use is told. A Tensor Memory port has four parts, as the instruction issue has."""

_PARTS = {"tmem_read": 4, "tmem_write": 4, "issue": 4}


@record
class StallSum:
    """How often a warp waited for one thing, for how many cycles in all, and at which lines of the PTX."""

    cta: int
    warp: int
    kind: str
    reason: str
    count: int
    cycles: float
    lines: tuple[int, ...]


@record
class Phases:
    """An SM from the start of the launch: `fill` ends when `unit`, its tensor pipe (without one, its busiest
    unit), first works, `steady` when it last does, `drain` when its last warp ends. Cycles. Where no unit
    works, `unit` is empty and all is steady.
    """

    unit: str
    fill: Span
    steady: Span
    drain: Span


@record
class Step:
    """One piece of the critical path: `who` (a warp or a unit) did `what` from `begin` to `end`, cycles."""

    who: str
    what: str
    begin: float
    end: float


class Timeline(Pictured):
    """Collects the intervals of a timed run. `ghz` is the SM clock that turns cycles into ns."""

    def __init__(self, ghz: float) -> None:
        self.ghz = ghz
        self._told: list[Interval] = []

    def on(self, interval: Interval) -> None:
        """Take an interval in."""
        self._told.append(interval)

    # ---------------------------------------------------------------- what there is
    @cached_property
    def events(self) -> tuple[Interval, ...]:
        """Every interval, by begin."""
        return tuple(sorted(self._told, key=lambda i: (i.begin, i.sm, i.cta, i.warp, i.end)))

    @cached_property
    def cycles(self) -> float:
        """The cycles from the start of the launch to the end of its last work."""
        return max((max(i.end, i.done) for i in self.events), default=0.0)

    @property
    def ns(self) -> float:
        """The same in nanoseconds at the SM clock."""
        return self.cycles / self.ghz

    @cached_property
    def sms(self) -> tuple[int, ...]:
        """The SMs that did something."""
        return tuple(sorted({i.sm for i in self.events}))

    def busy(self, unit: str, sm: int | None = None) -> Iterator[Interval]:
        """Give the work of a unit, of one SM or of all."""
        return (i for i in self.events if i.doing == "busy" and i.unit == unit and sm in (None, i.sm))

    def utilisation(self, unit: str, sm: int | None = None, between: Span | None = None) -> float:
        """Return the share of time that a unit works, 0 to 1: of one SM or the mean of those that ran, within
        `between` (default: the whole run). `issue` counts warp instructions against four a cycle.
        """
        first, last = between or (0.0, self.cycles)
        parts = _PARTS.get(unit, 1) * (len(self.sms) if sm is None else 1)
        if last <= first or not parts:
            return 0.0
        if unit == "issue":
            runs = (i for i in self.events if i.doing == "run" and sm in (None, i.sm))
            used = sum(i.count * _within(i, first, last) / i.cycles for i in runs if i.cycles)
        else:
            used = sum(_within(i, first, last) for i in self.busy(unit, sm))
        return used / parts / (last - first)

    def stalls(self, cta: int | None = None) -> tuple[StallSum, ...]:
        """Return what each warp waited for, the longest first."""
        waits: dict[tuple[int, int, str, str], list[Interval]] = defaultdict(list)
        for i in self.events:
            if i.doing == "stall" and cta in (None, i.cta):
                waits[i.cta, i.warp, i.kind, i.awaited].append(i)
        found = (
            StallSum(*key, len(of), sum(i.cycles for i in of), tuple(sorted({i.span.line for i in of})))
            for key, of in waits.items()
        )
        return tuple(sorted(found, key=lambda s: (-s.cycles, s.cta, s.warp, s.reason)))

    def phases(self, sm: int | None = None) -> Phases:
        """Return fill, steady state and drain of an SM (default: the first)."""
        sm = self.sms[0] if sm is None and self.sms else sm
        mine = [i for i in self.events if i.sm == sm]
        end = max((max(i.end, i.done) for i in mine), default=0.0)
        units = ["tensor", *sorted(UNITS[1:4], key=lambda u: -self.utilisation(u, sm))]
        unit, work = next(((u, found) for u in units if (found := list(self.busy(u, sm)))), ("", []))
        begin = min((i.begin for i in work), default=0.0)
        last = max((i.end for i in work), default=end)
        return Phases(unit, (0.0, begin), (begin, last), (last, end))

    # ---------------------------------------------------------------- tiles
    def tiles(self, cta: int) -> Tiles:
        """Return who had the accumulators of a CTA when: main loops, epilogues, their overlap."""
        return Tiles(self.events, cta, self.cycles)

    # ---------------------------------------------------------------- what was critical
    def critical_path(self) -> tuple[Step, ...]:
        """Return, from the start to the end of the launch, what each moment waited for: from the last warp's
        end, or that of its stores, backwards, through what ended each wait to who issued it.
        """
        stalls: dict[tuple[int, int], list[Interval]] = defaultdict(list)
        for i in self.events:
            if i.doing == "stall":
                stalls[i.cta, i.warp].append(i)
        warps = (i for i in self.events if i.unit == "warp")
        last = max(warps, key=lambda i: max(i.end, i.done), default=None)
        if last is None:
            return ()
        who, at, out = (last.cta, last.warp), last.end, list[Step]()
        if last.done > at:
            out.append(Step(_warp(who), "stores reach L2", at, last.done))
        while at > 0:
            stall = next((s for s in reversed(stalls[who]) if s.end <= at and s.begin < at), None)
            ran_from = 0.0 if stall is None else stall.end
            if at > ran_from:
                out.append(Step(_warp(who), "runs", ran_from, at))
            if stall is None:
                break
            step, who, at = _before(stall, who, stalls)
            out.append(step)
        return tuple(reversed(out))

    # ---------------------------------------------------------------- out
    def __repr__(self) -> str:
        return f"Timeline({self.cycles:,.0f} cycles at {self.ghz:g} GHz, SMs: {len(self.sms)})"

    def __str__(self) -> str:
        """Return what the first SM did, as `drywell run --timeline` shows it."""
        text: str = import_module("drywell.report.timeline").timeline_text(self)
        return text

    def perfetto(self, path: str | Path) -> None:
        """Write it in the Chrome trace event format, which ui.perfetto.dev opens; 1 unit is 1 microsecond."""
        Path(path).write_text(trace_json(self.events, self.ghz), encoding="utf-8")


def _before(
    stall: Interval, who: tuple[int, int], stalls: Mapping[tuple[int, int], Sequence[Interval]]
) -> tuple[Step, tuple[int, int], float]:
    """Return what ended a wait, who is to be looked at before it, and when."""
    cause = stall.cause
    if isinstance(cause, Interval):
        step = Step(cause.unit, f"{cause.what} for {_warp(who)}", cause.issued, stall.end)
        return step, (cause.cta, cause.warp), cause.issued
    if cause is None or cause == who:
        return Step(_warp(who), f"waits for {stall.reason}", stall.begin, stall.end), who, stall.begin
    own = (s.begin for s in stalls[cause] if s.begin < stall.end <= s.end)  # it arrived and waits since
    arrived = next(own, stall.end)
    return Step(_warp(cause), f"wakes {_warp(who)}: {stall.kind}", arrived, stall.end), cause, arrived


def _within(i: Interval, first: float, last: float) -> float:
    return max(0.0, min(i.end, last) - max(i.begin, first))


def _warp(who: tuple[int, int]) -> str:
    return f"CTA {who[0]} warp {who[1]}"
