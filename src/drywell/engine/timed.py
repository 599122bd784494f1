"""The timed schedule: an event-driven clock over the instruction stream.

Each warp has a time of its own; what is due first happens first: a warp issues one instruction, or a stage
of an asynchronous operation performs. Queues keep their order, so that every order is a legal one. Equal
times are taken in the order in which they were planned: one launch, one run.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from drywell.arch.timing import timing
from drywell.base.errors import BudgetError, DrywellError
from drywell.base.interval import Interval
from drywell.engine.compiled_code import driver
from drywell.engine.compiled_layout import STATUSES
from drywell.engine.compiled_run import BACK_JUMPS, SEEN, Native, is_first_until_it_meets
from drywell.engine.native.clock import FOLLOW, PLAN, RUN, SETTLE
from drywell.engine.native.clock_words import (
    BY_HAND,
    CHOOSE,
    CLOCK,
    COMPILED,
    DUE,
    ENDED,
    EXECUTE,
    IDLE,
    LINE_BYTES,
    LOOK,
    NOBODY,
    ONE_CHUNK,
    OPERATIONS,
    PERFORM,
    TRACK,
)
from drywell.engine.scheduler import SPIN_LOOK, Gang, Scheduler
from drywell.engine.splits import JUMPS_BEFORE_YIELD, Split, WarpState
from drywell.engine.timed_table import places
from drywell.engine.timed_track import Track
from drywell.engine.timed_units import Flight, Units
from drywell.machine.queue import AsyncOp
from drywell.program.link import Executable

Tell = Callable[[Interval], None]
Cause = Interval | tuple[int, int] | None

LOOK_AFTER, LOOK_AFTER_EACH = 100_000, 1_000
"""Instructions without any change of shared state, and nothing in flight, after which a look is taken
whether the warps only repeat themselves, and those for every warp besides: what a warp does for a look takes
no time.
"""

WORK = 1_000_000
"""Instructions after which compiled code gives control back, so that Python hears of signals."""

_NOW, _END, _SIZE, _QUIET = (CLOCK[name] for name in ("now", "end", "size", "quiet"))
_EXECUTED, _HAS_CHANGED, _WHO = (CLOCK[name] for name in ("executed", "has_changed", "who"))
_PC, _RUNS, _LANES, _LEFT = (TRACK[name] for name in ("pc", "runs", "lanes", "left"))
_AHEAD = COMPILED, ONE_CHUNK
_LOOK_AFTER = CLOCK["look_after"]
_COUNT, _RESULT, _BEGUN, _DRAINED = (TRACK[name] for name in ("count", "result", "begun", "drained"))


@lru_cache(maxsize=1)
def _functions() -> tuple[Any, ...]:
    """Return RUN, PLAN, SETTLE and FOLLOW of `native.clock` as Python callables; they keep Python's lock."""
    from drywell.engine.native import runtime

    word, time, place = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    types: dict[str, tuple[Any, ...]] = {
        RUN: (word, place),
        PLAN: (None, place, time, word),
        SETTLE: (None, place, place, word, time),
        FOLLOW: (None, place, place, word, time),
    }
    return tuple(ctypes.PYFUNCTYPE(*given)(runtime.find(name)) for name, given in types.items())


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
        native: Native | None = None,
    ) -> None:
        super().__init__(threaded, grid, options, sites, native)
        self.t = timing(options.gpu)
        self.ghz = grid.gpu.boost_clock_mhz / 1000
        self.units = units or Units(self.t, self.ghz)
        self.units.cover(grid.gmem.buffer.data.size)
        self.places = places(executable, options.gpu, threaded)
        self.tell = tell
        self.now = self._drained = 0.0
        self.fresh: list[AsyncOp] = []
        grid.pending.fresh = self.fresh
        self.tracks: dict[WarpState, Track] = {}
        self._numbered: list[Track | None] = []
        self._unused: list[int] = []
        self._operations: dict[int, AsyncOp] = {}
        self._waiting: dict[int, list[Track]] = defaultdict(list)
        self._gang_of: dict[int, Gang] = {}
        self._flights: dict[AsyncOp, tuple[Flight, float]] = {}
        self._run, self._plan_due, self._settle, self._plan_next = _functions()
        self._words = words = np.zeros(len(CLOCK), np.int64)
        self._at: Any = words.data
        self._times: Any = words.view(np.float64).data
        self._address: int = words.ctypes.data
        self._heap, self._addresses = (np.zeros(0, np.int64) for _ in range(2))
        drive = driver()
        values = {
            "places": self.places.words.ctypes.data,
            "registers": self.places.registers.ctypes.data,
            "num_lines": self._num_lines(),
            "memory": self.units.words.ctypes.data,
            "drive": ctypes.cast(drive, ctypes.c_void_p).value or 0,
            "budget": options.max_instructions,
        }
        for name, value in values.items():
            self._at[CLOCK[name]] = value

    def _num_lines(self) -> int:
        """Return how many lines L1 has: what the shared memory of as many CTAs as fit leaves of it."""
        sm = self.grid.sms[0]
        return max((int(self.t.l1_bytes) - sm.cta_smem_bytes * sm.capacity()) // LINE_BYTES, 1)

    # ---------------------------------------------------------------- the loop
    def run(self) -> None:
        """Run until every CTA has ended and every operation is done; the errors are `Scheduler`'s."""
        try:
            self._admit()
            while self.gangs or len(self.grid.pending):
                while self._go_on():
                    pass
                if (self.gangs or len(self.grid.pending)) and not self._unblock():
                    raise self._stalled()
            self.now = max(self.now, self._drained)
        except DrywellError:
            self._take_back()
            self._tell_open()
            raise

    def _go_on(self, end: float = inf) -> bool:
        """Let happen what is due up to what Python must do, and that; say whether anything was due before
        `end`.
        """
        at, grid, interpreter = self._at, self.grid, self.interpreter
        at[_EXECUTED], at[CLOCK["pending"]], at[CLOCK["work"]] = interpreter.executed, len(grid.pending), WORK
        self._times[_END] = end
        why = self._run(self._address)
        self.now = self._times[_NOW]
        grid.clock, interpreter.executed = int(self.now), at[_EXECUTED]
        if at[_HAS_CHANGED]:
            at[_HAS_CHANGED] = 0
            grid.version += 1
        if why in (EXECUTE, CHOOSE):
            track = self._numbered[at[_WHO]]
            assert track is not None
            self._execute(track) if why == EXECUTE else self._choose_next(track)
        elif why == PERFORM:
            self._perform(self._operations[at[_WHO] - OPERATIONS])
        elif why == LOOK:
            self._look()
        return why not in (IDLE, ENDED)

    def _unblock(self) -> bool:
        """Go on although nothing is due: a wait gives up by itself, or a cluster finds room."""
        version = self.grid.version
        is_given_up = self._time_out()
        self._admit()
        for cluster in list(self._waiting):
            self._wake(cluster, None)
        return is_given_up or self.grid.version != version or bool(self._at[_SIZE])

    def _plan(self, at: float, who: int) -> None:
        """Plan something."""
        self._make_room()
        self._plan_due(self._address, at, who)

    def _make_room(self) -> None:
        """Let there be room for one more thing that is due."""
        if self._at[_SIZE] * len(DUE) >= len(self._heap):
            self._heap = np.concatenate((self._heap, np.zeros(len(self._heap) + 64 * len(DUE), np.int64)))
            self._at[CLOCK["heap"]] = self._heap.ctypes.data

    def _admit(self) -> bool:
        """Let clusters start: with the launch, or a gap after those whose room they take."""
        known = len(self.gangs)
        begun = super()._admit()
        start = self.now + (self.t.cta_gap_ns * self.ghz if self._at[CLOCK["planned"]] else 0.0)
        for gang in self.gangs[known:]:
            for state in gang.states:
                track = self._track(state, start)
                self.tracks[state] = track
                self._gang_of[id(state.warp.cluster)] = gang
                self._enter(track, state.kept[0])
                self._plan(start, track.number)
        self._at[_LOOK_AFTER] = LOOK_AFTER + LOOK_AFTER_EACH * len(self.tracks)
        return begun

    def _track(self, state: WarpState, since: float) -> Track:
        """Return the time of a warp that begins."""
        if not self._unused:
            count = len(self._numbered)
            self._unused = list(range(count, 2 * count + 64))
            self._numbered += [None] * len(self._unused)
            self._addresses = np.concatenate((self._addresses, np.zeros(len(self._unused), np.int64)))
            self._at[CLOCK["tracks"]] = self._addresses.ctypes.data
        number = self._unused.pop()
        track = Track(state, number, self.units.sm(state.warp.sm.index), since)
        self._numbered[number], self._addresses[number] = track, track.address
        return track

    # ---------------------------------------------------------------- a warp issues
    def _execute(self, track: Track) -> None:
        """Execute the instruction that a warp has the ports for."""
        state, version, at = track.state, self.grid.version, self._at
        if self.interpreter.executed >= self.options.max_instructions:
            self._take_back()
            raise BudgetError(self._budget_report())
        self._leave(track)
        if track.at[_RUNS] == NOBODY:
            self._follow(track, self.now)
            return
        pc = track.at[_PC]
        cost = self.places.costs[pc]
        latency = self._times[CLOCK["latency"]]
        ran = self.interpreter.turn(state, 1, is_by_hand=True)
        track.at[_COUNT] += ran
        at[_QUIET] = 0 if self.grid.version != version else at[_QUIET] + 1
        if self.fresh:
            self._take_off()
        after = self.now
        if ran:
            after += cost.blocks + (cost.leaps if track.split.pc != pc + 1 else 0.0)
            self._settle(self._address, track.address, pc, latency)
            if cost.block:
                track.times[_BEGUN] = after
        self._follow(track, after)
        if self.grid.version != version and cost.may_release:
            self._wake_others(state.warp, cost.frees)
        self._look()

    def _follow(self, track: Track, after: float) -> None:
        """Plan what a warp does next, `after` what was before: it issues, waits, or has ended."""
        state = track.state
        if state.has_ended:
            self._end(track)
            return
        split = state.choose()
        if split is None:
            self._block(track)
            return
        self._enter(track, split)
        self._make_room()
        self._plan_next(self._address, track.address, track.number, after)

    def _enter(self, track: Track, split: Split) -> None:
        """Say where a warp stands, and let compiled code go on with it if it can."""
        at, state, native = track.at, track.state, self.interpreter.native
        at[_PC], at[_RUNS], at[_LEFT], track.split = split.pc, BY_HAND, 0, split
        if track.lanes is not split.mask:
            track.lanes = split.mask
            at[_LANES] = int.from_bytes(np.packbits(split.mask, bitorder="little").tobytes(), "little")
        if native is None or native.layout.unit_of[split.pc] < 0:
            return
        self.interpreter.select(state, split)
        if not (native.is_ready(state.warp, split.pc) and is_first_until_it_meets(state, split)):
            return
        is_alone, is_watched = len(state.kept) == 1, bool(state.busy or state.fresh or state.unwritten)
        if is_watched and not native.touches_none(state, split.pc):
            return
        if track.begun is not split.mask or not is_alone:
            native.begin(state, split, state.meets(split), JUMPS_BEFORE_YIELD, False)
            track.begun = split.mask if is_alone else None
            at[TRACK["context"]] = state.context.address
        state.context.at[BACK_JUMPS], state.context.at[SEEN] = split.back_jumps, split.seen
        at[_RUNS] = ONE_CHUNK if is_watched else COMPILED

    def _choose_next(self, track: Track) -> None:
        """Say who goes on of a warp that has executed a chunk."""
        self._stand(track)
        track.state.merge()
        self._follow(track, self._times[CLOCK["after"]])
        self._look()

    def _leave(self, track: Track) -> None:
        """Take a warp back from compiled code, which could not go on."""
        at, state, native = track.at, track.state, self.interpreter.native
        if at[_RUNS] in _AHEAD and native is not None:
            self._stand(track)
            native.account(state, *divmod(at[_RESULT], STATUSES))

    def _stand(self, track: Track) -> None:
        """Let the split of a warp in compiled code stand where it is."""
        split, context = track.split, track.state.context
        split.pc = track.at[TRACK["next"]] if track.at[_LEFT] else track.at[_PC]
        split.back_jumps, split.seen = context.at[BACK_JUMPS], context.at[SEEN]

    def _take_back(self) -> None:
        """Take all warps back from compiled code, as if it had executed only what has been issued."""
        for track in self.tracks.values():
            at, state = track.at, track.state
            if at[_RUNS] in _AHEAD:
                self._stand(track)
                for pc in range(at[_PC], at[_PC] + at[_LEFT]):
                    state.counts[pc] -= not self._is_passed(track, pc)
                track.split.pc = at[_PC]
                at[_RUNS], at[_LEFT] = BY_HAND, 0

    def _is_passed(self, track: Track, pc: int) -> bool:
        """Say whether the guard of an instruction is false in all lanes."""
        guard, values = self.threaded.guards[pc], track.state.warp.values
        return guard is not None and not ((values[guard[0]] ^ guard[1]) & track.split.mask).any()

    def _end(self, track: Track) -> None:
        """Take a warp that has ended off the machine; what it has stored is on its way to L2."""
        drained = track.times[_DRAINED]
        self._told_run(track, drained)
        self._drained = max(self._drained, drained)
        cluster = track.state.warp.cluster
        del self.tracks[track.state]
        self._numbered[track.number] = None
        self._unused.append(track.number)
        self._reap([self._gang_of[id(cluster)]])
        self._wake_others(track.state.warp, frees=True)

    def _wake_others(self, who: Any, frees: bool) -> None:
        """Let go on whoever waited for what a warp has done; where that `frees` what clusters of an SM share,
        those of its SMs.
        """
        own, cause = id(who.cluster), (who.cta.linear, who.index)
        if not frees:
            self._wake(own, cause)
            return
        sms = self._sms(own)
        for cluster in list(self._waiting):
            if not sms.isdisjoint(self._sms(cluster)):
                self._wake(cluster, cause)

    def _sms(self, cluster: int) -> set[int]:
        """Return the SMs of a cluster, where clusters may wait for each other's Tensor Memory."""
        return {cta.sm.index for cta in self._gang_of[cluster].ctas}

    def _look(self) -> None:
        """End a run whose warps only repeat themselves, if much went by without any change."""
        if self._at[_QUIET] <= self._at[_LOOK_AFTER] or len(self.grid.pending):
            return
        self._at[_QUIET] = 0
        running = [state for state in self.states if any(s.is_runnable for s in state.splits)]
        if running and self._all_repeat(running) and not self._time_out():
            raise self._stalled()

    def _only_repeats(self, state: WarpState) -> bool:
        """Look whether a warp only repeats itself, from what has been issued on; its time stands still."""
        track = self.tracks[state]
        at, ahead = track.at, 0
        if at[_RUNS] in _AHEAD:
            self._stand(track)
            ahead, at[_LEFT] = at[_LEFT], 0
            self.interpreter.executed += ahead
        repeats = self.interpreter.only_repeats(state, SPIN_LOOK - ahead)
        split, track.begun = state.choose(), None
        if split is None:
            at[_RUNS] = NOBODY
        else:
            self._enter(track, split)
        return repeats

    # ---------------------------------------------------------------- waiting
    def _block(self, track: Track) -> None:
        self._told_run(track)
        held = (split.held.outcome.reason for split in track.state.splits if split.held is not None)
        track.waits = next(held, None)
        self._waiting[id(track.state.warp.cluster)].append(track)

    def _wake(self, cluster: int, cause: Cause) -> None:
        """Let go on whoever of a cluster waited for what has happened; each resumes after its wake-up."""
        waiting = self._waiting.get(cluster)
        if not waiting:
            return
        left = []
        for track in waiting:
            over = self.interpreter.wake(track.state)
            if track.state.choose() is None:
                left.append(track)
                continue
            resumed = self.now + (0.0 if over is None else self.places.costs[over[1]].wakes)
            if over is not None:
                track.waits = over[0].outcome.reason
            self._told_stall(track, resumed, cause)
            track.since = track.times[_BEGUN] = resumed
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
            self._operations[op.number] = op
            self._plan(flight.moments[0], OPERATIONS + op.number)

    def _perform(self, op: AsyncOp) -> None:
        """Let an operation take its next stage, when its queue and what it waits for let it."""
        pending = self.grid.pending
        if not pending.may_advance(op):
            self._plan(self.now + 1.0, OPERATIONS + op.number)
            return
        flight, issued = self._flights[op]
        is_done = pending.advance(op)
        cause = self._work(op, flight, issued)
        if is_done:
            del self._flights[op], self._operations[op.number]
            if cause is not None:
                self._told_work(op, cause)
        else:
            self._plan(max(flight.moments[op.stage], self.now), OPERATIONS + op.number)
        if self.fresh:
            self._take_off()
        self._at[_QUIET] = 0
        self._wake(id(op.warp.cluster), cause)

    # ---------------------------------------------------------------- telling
    def _told_run(self, track: Track, done: float = 0.0) -> None:
        who = track.state.warp
        if self.tell is not None and self.now > track.since:
            count = track.at[_COUNT]
            at, text = (who.sm.index, who.cta.linear, who.index), f"{count} instructions"
            self.tell(Interval("run", "warp", track.since, self.now, *at, text, count=count, done=done))
        track.at[_COUNT], track.since = 0, self.now

    def _tell_open(self) -> None:
        """Tell of runs and waits that the end of the launch has cut short."""
        for track in self.tracks.values():
            if track.waits is None:
                self._told_run(track)
            else:
                self._told_stall(track, self.now, None)

    def _told_stall(self, track: Track, end: float, cause: Cause) -> None:
        reason, track.waits = track.waits, None
        if self.tell is None or reason is None:
            return
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
