"""What a timed run did, cycle by cycle: who ran and waited, how full units were, what was critical.

All times are SM cycles from the start of the launch. docs/design/clock.md says what the clock models.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from drywell.base.interval import Interval
from drywell.base.record import record
from drywell.observe.trace_events import trace_json

Span = tuple[float, float]

UNITS = ("tensor", "tma", "tmem_read", "tmem_write", "issue")
"""The units whose use is told. A Tensor Memory port has four parts, as the instruction issue has."""

_PARTS = {"tmem_read": 4, "tmem_write": 4, "issue": 4}


@record
class StallSum:
    """How often a warp waited for one thing, and for how many cycles in all."""

    cta: int
    warp: int
    kind: str
    reason: str
    count: int
    cycles: float


@record
class Phases:
    """An SM from the start of the launch: `fill` ends when its tensor pipe (without one, its busiest unit)
    first works, `steady` when it last does, `drain` when its last warp ends. Cycles.
    """

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


class Timeline:
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
        sums: dict[tuple[int, int, str, str], list[float]] = defaultdict(lambda: [0, 0.0])
        for i in self.events:
            if i.doing == "stall" and cta in (None, i.cta):
                entry = sums[i.cta, i.warp, i.kind, _what_for(i)]
                entry[0] += 1
                entry[1] += i.cycles
        found = (StallSum(*key, int(count), cycles) for key, (count, cycles) in sums.items())
        return tuple(sorted(found, key=lambda s: (-s.cycles, s.cta, s.warp, s.reason)))

    def phases(self, sm: int | None = None) -> Phases:
        """Return fill, steady state and drain of an SM (default: the first)."""
        sm = self.sms[0] if sm is None and self.sms else sm
        mine = [i for i in self.events if i.sm == sm]
        end = max((max(i.end, i.done) for i in mine), default=0.0)
        units = ["tensor", *sorted(UNITS[1:4], key=lambda u: -self.utilisation(u, sm))]
        work = next((found for unit in units if (found := list(self.busy(unit, sm)))), [])
        begin = min((i.begin for i in work), default=0.0)
        last = max((i.end for i in work), default=end)
        return Phases((0.0, begin), (begin, last), (last, end))

    # ---------------------------------------------------------------- tiles
    def tiles(self, cta: int) -> tuple[Span, ...]:
        """Return when the tensor pipe had each accumulator of a CTA: from when its readers had let go of it,
        or the pipe of the one before, to when they know that it is done.
        """
        handed = sorted({id(c): c for _, c in self._handovers(cta)}.values(), key=lambda c: c.done)
        if not handed:
            return ()
        issuer = handed[0].cta, handed[0].warp
        work = sorted(
            (i for i in self.busy("tensor") if (i.cta, i.warp) == issuer and i.kind == "mma"),
            key=lambda i: i.issued,
        )
        issued = [i.issued for i in work]
        readers: set[object] = set(self._readers(cta))
        freed = [
            i.end
            for i in self.events
            if i.doing == "stall" and (i.cta, i.warp) == issuer and i.cause in readers
        ]
        out, first, since = [], 0, 0.0
        for commit in handed:
            last = bisect_right(issued, commit.issued)
            if last > first:
                begun = max((end for end in freed if since <= end <= work[first].begin), default=since)
                out.append((begun or work[first].begin, commit.done))
            first, since = last, commit.issued
        return tuple(out)

    def epilogues(self, cta: int) -> tuple[tuple[Span, ...], ...]:
        """Return, for each warp that reads accumulators, when it had each of them: from when it knew that it
        was done until its last load of it had brought its registers.
        """
        by_warp: dict[int, list[Interval]] = defaultdict(list)
        for stall, _ in self._handovers(cta):
            by_warp[stall.warp].append(stall)
        out = []
        for warp, stalls in sorted(by_warp.items()):
            reads = [i.done for i in self.busy("tmem_read") if (i.cta, i.warp) == (cta, warp)]
            stops = [*(stall.begin for stall in stalls[1:]), self.cycles]
            out.append(
                tuple(
                    (stall.end, max((done for done in reads if done <= stop), default=stall.end))
                    for stall, stop in zip(stalls, stops, strict=True)
                )
            )
        return tuple(out)

    def epilogue_under_tensor(self, cta: int) -> float:
        """Return the share of the steady epilogue time, that of all tiles but the last, during which the
        tensor pipe has another accumulator.
        """
        tiles = self.tiles(cta)
        steady = [span for warp in self.epilogues(cta) for span in warp[:-1]]
        total = sum(end - begin for begin, end in steady)
        under = sum(max(0.0, min(e, te) - max(b, tb)) for b, e in steady for tb, te in tiles)
        return under / total if total else 0.0

    def _handovers(self, cta: int) -> list[tuple[Interval, Interval]]:
        """Return the waits of warps that read Tensor Memory for the tensor pipe, and the commits that ended
        them.
        """
        readers = self._readers(cta)
        return [
            (i, i.cause)
            for i in self.events
            if i.doing == "stall" and (i.cta, i.warp) in readers
            and isinstance(i.cause, Interval) and i.cause.unit == "commit"
        ]  # fmt: skip

    def _readers(self, cta: int) -> set[tuple[int, int]]:
        """Return the warps of a CTA that read Tensor Memory."""
        return {(i.cta, i.warp) for i in self.busy("tmem_read") if i.cta == cta}

    # ---------------------------------------------------------------- what was critical
    def critical_path(self) -> tuple[Step, ...]:
        """Return, from the start to the end of the launch, what each moment waited for: from the last warp's
        end backwards, through what ended each wait to who issued it.
        """
        by_warp: dict[tuple[int, int], list[Interval]] = defaultdict(list)
        for i in self.events:
            if i.doing == "stall":
                by_warp[i.cta, i.warp].append(i)
        last = max((i for i in self.events if i.unit == "warp"), key=lambda i: i.end, default=None)
        if last is None:
            return ()
        who, at, out = (last.cta, last.warp), last.end, list[Step]()
        while at > 0:
            stall = next((s for s in reversed(by_warp[who]) if s.end <= at and s.begin < at), None)
            ran_from = 0.0 if stall is None else stall.end
            if at > ran_from:
                out.append(Step(_warp(who), "runs", ran_from, at))
            if stall is None:
                break
            who, at = self._before(stall, who, out)
        return tuple(reversed(out))

    def _before(
        self, stall: Interval, who: tuple[int, int], out: list[Step]
    ) -> tuple[tuple[int, int], float]:
        """Add what ended a wait, and return who to look at before it, and when."""
        cause = stall.cause
        if isinstance(cause, Interval):
            out.append(Step(cause.unit, f"{cause.what} for {_warp(who)}", cause.issued, stall.end))
            return (cause.cta, cause.warp), cause.issued
        if cause is None or cause == who:
            out.append(Step(_warp(who), f"waits for {stall.reason}", stall.begin, stall.end))
            return who, stall.begin
        out.append(Step(_warp(cause), f"wakes {_warp(who)}: {stall.kind}", stall.begin, stall.end))
        return cause, stall.begin

    # ---------------------------------------------------------------- out
    def perfetto(self, path: str | Path) -> None:
        """Write it in the Chrome trace event format, which ui.perfetto.dev opens; 1 unit is 1 microsecond."""
        Path(path).write_text(trace_json(self.events, self.ghz), encoding="utf-8")


def union(spans: Iterable[Span]) -> list[Span]:
    """Return disjoint spans that cover the same.

    >>> union([(0, 2), (5, 6), (1, 3)])
    [(0, 3), (5, 6)]
    """
    out: list[Span] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def _within(i: Interval, first: float, last: float) -> float:
    return max(0.0, min(i.end, last) - max(i.begin, first))


def _what_for(i: Interval) -> str:
    """Return what a stall waited for, without the number of the phase."""
    return i.reason.partition(" of ")[2] or i.reason if i.kind == "mbarrier" else i.reason


def _warp(who: tuple[int, int]) -> str:
    return f"CTA {who[0]} warp {who[1]}"
