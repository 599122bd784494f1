"""The timed schedule: an event-driven clock over the instruction stream.

Each warp has a time of its own; what is due first happens first: a warp issues one instruction, or a stage
of an asynchronous operation performs. Queues keep their order, so that every order is a legal one. Equal
times are taken in the order in which they were planned: one launch, one run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from drywell.arch.timing import timing
from drywell.base.errors import BudgetError
from drywell.base.interval import Interval
from drywell.engine.scheduler import Gang, Scheduler
from drywell.engine.splits import WarpState
from drywell.engine.threaded import CLOCK
from drywell.engine.timed_costs import Cost, Costs, wavefronts
from drywell.engine.timed_units import SUB_PARTITIONS, Flight, Units
from drywell.machine.queue import AsyncOp
from drywell.program.link import Executable

Tell = Callable[[Interval], None]
Cause = Interval | tuple[int, int] | None

LOOK_AFTER = 100_000
"""Instructions without any change of shared state, and nothing in flight, after which a look is taken
whether the warps only repeat themselves.
"""


class Track:
    """The time of one warp: when its registers can be read, when all it has stored was there to be stored
    (`settled`), since when it runs or waits, how much it has issued since.
    """

    __slots__ = ("count", "lane", "readable", "settled", "since", "state", "unit")

    def __init__(self, state: WarpState, unit: Any, since: float) -> None:
        self.state = state
        self.unit = unit
        self.lane = state.warp.index % SUB_PARTITIONS
        self.readable: dict[int, float] = {}
        self.settled = 0.0
        self.since = since
        self.count = 0


class TimedScheduler(Scheduler):
    """Drives a grid by the clock. `tell` is told of every interval (None: nobody asks)."""

    def __init__(
        self,
        threaded: Any,
        grid: Any,
        options: Any,
        sites: Any,
        executable: Executable,
        tell: Tell | None,
        units: Units | None = None,
    ) -> None:
        super().__init__(threaded, grid, options, sites)
        self.t = timing(options.gpu)
        self.ghz = grid.gpu.boost_clock_mhz / 1000
        self.units = units or Units(self.t, self.ghz)
        self.costs = Costs(executable, self.t)
        self.tell = tell
        self.now = 0.0
        self.fresh: list[AsyncOp] = []
        grid.pending.fresh = self.fresh
        self.tracks: dict[WarpState, Track] = {}
        self._due: list[tuple[float, int, Any]] = []
        self._planned = 0
        self._waiting: dict[int, list[Track]] = defaultdict(list)
        self._gang_of: dict[int, Gang] = {}
        self._flights: dict[AsyncOp, tuple[Flight, float]] = {}

    # ---------------------------------------------------------------- the loop
    def run(self) -> None:
        """Run until every CTA has ended and every operation is done; the errors are `Scheduler`'s."""
        self._admit()
        while self.gangs or len(self.grid.pending):
            while self._due:
                self._go_on()
            if (self.gangs or len(self.grid.pending)) and not self._unblock():
                raise self._stalled()

    def _go_on(self) -> None:
        """Let happen what is due next."""
        at, _, what = heappop(self._due)
        self.now = max(at, self.now)
        self.grid.clock = int(self.now)
        if isinstance(what, AsyncOp):
            self._perform(what)
        else:
            self._issue(what)

    def _unblock(self) -> bool:
        """Go on although nothing is due: a wait gives up by itself, or a cluster finds room."""
        version = self.grid.version
        is_given_up = self._time_out()
        self._admit()
        for cluster in list(self._waiting):
            self._wake(cluster, None)
        return is_given_up or self.grid.version != version or bool(self._due)

    def _plan(self, at: float, what: Any) -> None:
        self._planned += 1
        heappush(self._due, (at, self._planned, what))

    def _admit(self) -> bool:
        """Let clusters start: with the launch, or a gap after those whose room they take."""
        known = len(self.gangs)
        begun = super()._admit()
        start = self.now + (self.t.cta_gap_ns * self.ghz if self._planned else 0.0)
        for gang in self.gangs[known:]:
            for state in gang.states:
                track = Track(state, self.units.sm(state.warp.sm.index), start)
                self.tracks[state] = track
                self._gang_of[id(state.warp.cluster)] = gang
                self._plan(start, track)
        return begun

    # ---------------------------------------------------------------- a warp issues
    def _issue(self, track: Track) -> None:
        """Let a warp issue one instruction, when the ports it needs are free."""
        state = track.state
        split = state.choose()
        if split is None:
            self._block(track)
            return
        pc, cost = split.pc, self.costs.of(split.pc)
        slot = track.unit.issue[track.lane]
        pipe = track.unit.pipe(cost.pipe, track.lane) if cost.pipe and cost.pipe != "smem" else None
        free = max(slot.free, 0.0 if pipe is None else pipe.free)
        if free > self.now:
            self._plan(free, track)
            return
        slot.take(self.now, 1.0)
        latency = cost.latency
        if pipe is not None:
            pipe.take(self.now, cost.cycles)
        elif cost.pipe == "smem":
            latency += self._shared(track, split, cost)
        self._execute(track, pc, cost, latency)

    def _shared(self, track: Track, split: Any, cost: Cost) -> float:
        """Put an access on the port of shared memory; return how long it queues and is served."""
        lanes = 1
        if cost.address is not None:
            lanes = wavefronts(cost.address(track.state.warp)[split.mask], cost.size)
        begin = track.unit.smem.take(self.now, float(lanes))
        return begin - self.now + lanes - 1

    def _execute(self, track: Track, pc: int, cost: Cost, latency: float) -> None:
        state, version = track.state, self.grid.version
        if self.interpreter.executed >= self.options.max_instructions:
            raise BudgetError(self._budget_report())
        ran = self.interpreter.turn(state, 1)
        track.count += ran
        self.quiet = 0 if self.grid.version != version else self.quiet + 1
        if self.fresh:
            self._take_off()
        after = self.now + (cost.blocks if ran else 0.0)
        if ran:
            self._settle(track, pc, latency)
        self._follow(track, after)
        if self.grid.version != version and cost.may_release:
            who = state.warp
            self._wake(id(who.cluster), (who.cta.linear, who.index))
        if self.quiet > LOOK_AFTER and not len(self.grid.pending):
            self._look()

    def _settle(self, track: Track, pc: int, latency: float) -> None:
        """Note when the results of an instruction can be read: after its operands, which it need not have
        waited for where it stands, as ptxas moves it behind others.
        """
        readable, there = track.readable, self.now
        if readable:
            for k in self.threaded.sources[pc]:
                there = max(there, readable.get(k, 0.0))
        results = self.threaded.results[pc]
        for k in results:
            readable[k] = there + latency
        if not results:
            track.settled = max(track.settled, there)

    def _follow(self, track: Track, after: float) -> None:
        """Plan what a warp does next: it issues (a jump or machine instruction when its operands are there,
        what orders memory when all before it is), waits, or has ended.
        """
        state = track.state
        if state.has_ended:
            self._end(track)
            return
        split = state.choose()
        if split is None:
            self._block(track)
            return
        readable, due, cost = track.readable, after, self.costs.of(split.pc)
        if cost.settles:
            due = max(due, track.settled)
        if readable and self.threaded.flags[split.pc] & CLOCK:
            due = max(due, *readable.values())
        if readable and (cost.settles or not cost.pipe):
            for k in self.threaded.touched[split.pc]:
                due = max(due, readable.get(k, 0.0))
            if len(readable) > 64:
                track.readable = {k: at for k, at in readable.items() if at > after}
        self._plan(due, track)

    def _end(self, track: Track) -> None:
        """Take a warp that has ended off the machine."""
        self._told_run(track)
        cluster = track.state.warp.cluster
        del self.tracks[track.state]
        self._reap([self._gang_of[id(cluster)]])
        who = track.state.warp
        for other in list(self._waiting):
            self._wake(other, (who.cta.linear, who.index))

    def _look(self) -> None:
        """End a run whose warps only repeat themselves."""
        self.quiet = 0
        running = [state for state in self.states if any(s.is_runnable for s in state.splits)]
        if running and self._all_repeat(running) and not self._time_out():
            raise self._stalled()

    # ---------------------------------------------------------------- waiting
    def _block(self, track: Track) -> None:
        self._told_run(track)
        self._waiting[id(track.state.warp.cluster)].append(track)

    def _wake(self, cluster: int, cause: Cause) -> None:
        """Let go on whoever of a cluster waited for what has happened; each resumes after its wake-up."""
        waiting = self._waiting.get(cluster)
        if not waiting:
            return
        left = []
        for track in waiting:
            state = track.state
            waits = [(split, split.held, split.pc) for split in state.splits if split.held is not None]
            self.interpreter.wake(state)
            if state.choose() is None:
                left.append(track)
                continue
            over = next(((held, pc) for split, held, pc in waits if split.held is not held), None)
            resumed = self.now + (0.0 if over is None else self.costs.of(over[1]).wakes)
            if self.tell is not None and over is not None:
                self._told_stall(track, over[0].outcome.reason, resumed, cause)
            track.since = resumed
            self._follow(track, resumed)
        if left:
            self._waiting[cluster] = left
        else:
            del self._waiting[cluster]

    # ---------------------------------------------------------------- asynchronous operations
    def _take_off(self) -> None:
        """Plan when the operations that have just been issued take effect."""
        ops, self.fresh[:] = list(self.fresh), []
        for op in ops:
            flight = self.units.fly(op, self.now)
            self._flights[op] = flight, self.now
            self._plan(flight.moments[0], op)

    def _perform(self, op: AsyncOp) -> None:
        """Let an operation take its next stage, when its queue and what it waits for let it."""
        pending = self.grid.pending
        if not pending.may_advance(op):
            self._plan(self.now + 1.0, op)
            return
        flight, issued = self._flights[op]
        is_done = pending.advance(op)
        cause = self._work(op, flight, issued)
        if is_done:
            del self._flights[op]
            if cause is not None:
                self._told_work(op, cause)
        else:
            self._plan(max(flight.moments[op.stage], self.now), op)
        if self.fresh:
            self._take_off()
        self.quiet = 0
        self._wake(id(op.warp.cluster), cause)

    # ---------------------------------------------------------------- telling
    def _told_run(self, track: Track) -> None:
        who = track.state.warp
        if self.tell is not None and self.now > track.since:
            text = f"{track.count} instructions"
            at = who.sm.index, who.cta.linear, who.index
            self.tell(Interval("run", "warp", track.since, self.now, *at, text, count=track.count))
        track.count, track.since = 0, self.now

    def _told_stall(self, track: Track, reason: Any, end: float, cause: Cause) -> None:
        assert self.tell is not None
        who = track.state.warp
        stall = Interval(
            "stall", "warp", track.since, end, who.sm.index, who.cta.linear, who.index,
            kind=reason.kind, reason=_first_words(reason.describe()), span=who.span, cause=cause,
        )  # fmt: skip
        self.tell(stall)

    def _told_work(self, op: AsyncOp, work: Interval) -> None:
        """Tell of an operation that is done, for every SM that it has kept busy."""
        assert self.tell is not None
        self.tell(work)
        peer = op.warp.cta.peer
        if op.unit == "tensor" and op.work.role != "commit" and op.work.cta_group == 2 and peer is not None:
            self.tell(replace(work, sm=peer.sm.index))

    def _work(self, op: AsyncOp, flight: Flight, issued: float) -> Interval | None:
        """Return what an operation has done so far, when somebody asks."""
        if self.tell is None:
            return None
        who = op.warp
        return Interval(
            "busy", flight.unit, flight.begin, flight.end, who.sm.index, who.cta.linear, who.index,
            what=op.what, kind=op.work.role, span=op.span, issued=issued, done=self.now,
            columns=(op.columns.start, op.columns.stop),
        )  # fmt: skip


def _first_words(text: str) -> str:
    """Return the first clause of what is waited for."""
    return text.partition("\n")[0].partition(": ")[0].partition(";")[0]
