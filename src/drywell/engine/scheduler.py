"""The schedule: which warp runs next and when asynchronous operations take effect.

`eager` performs every operation at once, and a cluster keeps the machine while its rounds of turns change
something, so that what it does depends on no other cluster that it does not meet. `lazy` performs one only
when nobody could go on without it, the most recently issued first, so that an operation which nothing orders
comes as late as it legally may; a load or store of Tensor Memory yields to what has no cell in common with
it. `seeded` picks warps, turns, operations and time-outs at random, the same for the same seed. It
also hangs on the schedule which lane is elected (`isa.warp.election_of`).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import BudgetError, DrywellError
from drywell.base.options import Options
from drywell.engine.activity import Done, Ended, activity_of
from drywell.engine.compiled_layout import CHUNK
from drywell.engine.compiled_run import Native
from drywell.engine.interpreter import Interpreter
from drywell.engine.splits import Split, WarpState
from drywell.engine.stall import stalled
from drywell.engine.threaded import Threaded
from drywell.machine.queue import AsyncOp
from drywell.program.arrivals import Arrival

if TYPE_CHECKING:
    from drywell.engine.compiled_rounds import Rounds

TURN = 2_000
"""Instructions a warp executes before the next one's turn comes."""

QUIET = 20_000
"""Instructions per running warp without any change of shared state, after which a look is taken whether
the warps only repeat themselves (at once when all seem to stand still); twice as many before the next look.
"""

STRETCH = 64
"""Rounds of turns after which, under the eager schedule, the next cluster has the machine if it may notice
this one.
"""

SPIN_LOOK = 4_000
"""Instructions of one warp that such a look executes at most."""

REMEMBERED = 256
"""Warps that have ended and keep what they held, for whoever looks: those of a long grid would not fit. Where
rounds run in compiled code none do: an error that tells of them is told by a run without.
"""

FORGOTTEN_AT_ONCE = 32
"""How many more may be kept, so that this is looked at now and then."""

IMPATIENCE = 1 / 16
"""How often, per turn of the seeded schedule, a wait that may time out does."""

_TMEM_ACCESS = ("tmem_ld", "tmem_st")


def _may_time_out(split: Split) -> bool:
    return split.held is not None and split.held.outcome.reason.may_time_out


def _latest(pending: Iterable[AsyncOp], runnable: list[AsyncOp]) -> AsyncOp:
    """Return what the lazy schedule performs next: the operation issued last, or what is before it in its
    queue.

    A load or store of Tensor Memory yields to operations with which it has no cell in common. What they lead
    to, the next MMA say, is then issued while it is in flight, and overwrites what nothing guards.
    """
    newest = {op.queue: op.number for op in pending if op.queue is not None}
    last = max(runnable, key=lambda op: newest.get(op.queue, op.number))
    if last.unit not in _TMEM_ACCESS:
        return last
    return next((op for op in reversed(runnable) if _goes_before(op, last)), last)


def _goes_before(op: AsyncOp, access: AsyncOp) -> bool:
    """Tell whether the lazy schedule lets `op` pass a load or store of Tensor Memory.

    Not what reads shared memory first and then stores: that comes late itself.
    """
    if op.unit in _TMEM_ACCESS or (len(op.stages) > 1 and op.unit != "tensor"):
        return False
    first, end = max(op.columns.start, access.columns.start), min(op.columns.stop, access.columns.stop)
    return op.warp.cta.sm is not access.warp.cta.sm or first >= end


class Gang:
    """The warps of one cluster that have not ended, of its `ctas`; their states are made when first asked
    for. `team` is what compiled code knows of them together; where it runs them before anybody asks, `join`
    lets their states be what it has made of them.
    """

    def __init__(self, ctas: tuple[Any, ...], begin: Callable[[Any], WarpState]) -> None:
        self.team: Any = None
        self.join: Callable[[list[WarpState]], None] | None = None
        self.ctas = ctas
        self._begin = begin
        self._states: list[WarpState] | None = None

    @property
    def states(self) -> list[WarpState]:
        """Return the states of its warps, in order."""
        if self._states is None:
            self._states = [self._begin(warp) for cta in self.ctas for warp in cta.warps]
            if self.join is not None:
                self.join(self._states)
                self.join = None
        return self._states

    @property
    def is_seen(self) -> bool:
        """Say whether somebody has asked for the states."""
        return self._states is not None

    def see(self) -> None:
        """Have the states, which somebody needs from now on."""
        if self._states is None:
            _ = self.states

    @property
    def has_ended(self) -> bool:
        """Say whether all of them have ended."""
        return self._states is not None and not self._states

    def end_unseen(self) -> bool:
        """Let go of all warps if they have ended, as compiled code says, and nobody has asked for them; say
        whether it is so.
        """
        if self.join is None or self.team.num_left:
            return False
        self._states, self.join = [], None
        return True

    def drop_ended(self) -> list[WarpState]:
        """Let go of warps that have ended, and return them."""
        if self.join is not None and self.team.num_left == len(self.ctas) * self.ctas[0].grid.num_warps:
            return []
        done = [state for state in self.states if state.has_ended]
        if done:
            self._states = [state for state in self.states if not state.has_ended]
        for state in done:
            state.splits, state.turns = [], None
        return done


class Scheduler:
    """Drives a grid from its first instruction to its last. `sites` gives the places that arrive on
    mbarriers, `are_apart` says that its clusters cannot notice each other.
    """

    def __init__(
        self,
        threaded: Threaded,
        grid: Any,
        options: Options,
        sites: Callable[[], tuple[Arrival, ...]] = tuple,
        native: Native | None = None,
        are_apart: Callable[[], bool] = lambda: False,
    ) -> None:
        self.threaded = threaded
        self._are_apart = are_apart
        self.sites = sites
        self.grid = grid
        self.options = options
        self.interpreter = Interpreter(threaded, grid, native)
        self.activity = activity_of(threaded)
        self.random = random.Random(options.seed)
        self.gangs: list[Gang] = []
        self.finished: list[WarpState] = []
        self.early: list[WarpState] = []
        self.ended: list[Ended] = []
        self.timed_out: set[tuple[int, ...]] = set()
        self.quiet = 0
        self.look_after = QUIET
        self.rounds: Rounds | None = None
        if options.schedule == "eager":
            self.interpreter.drain = self._drain
            if native is not None and native.is_quiet:
                from drywell.engine.compiled_rounds import Rounds

                self.rounds = Rounds(native, self.interpreter, TURN, options.max_instructions, self._turn)

    # ---------------------------------------------------------------- the loop
    def run(self) -> None:
        """Run until every CTA has ended and every operation is done.

        Raises KernelFault, DeadlockError (nobody can go on), BudgetError (`max_instructions` executed).
        """
        self._admit()
        while self.gangs or len(self.grid.pending):
            version = self.grid.version
            ran = self._give_turns()
            if self.grid.version != version:
                self.timed_out.clear()
                self.quiet, self.look_after = 0, QUIET
            elif not self._goes_on(ran) and not self._time_out():
                raise self._stalled()

    @property
    def states(self) -> list[WarpState]:
        """Return the states of the warps that are resident and have not ended."""
        return [state for gang in self.gangs for state in gang.states]

    def counts(self, state: WarpState) -> NDArray[np.int64]:
        """Return how often a warp has executed each place."""
        native, num_places = self.interpreter.native, len(self.threaded.steps)
        counts = np.zeros(num_places, np.int64) if native is None else native.counts(state)
        for pc, count in state.counts.items():
            counts[pc] += count
        return counts

    def _did(self, state: WarpState) -> Done:
        return self.activity.of(self.counts(state).tobytes())

    def told(self) -> tuple[Ended, ...]:
        """Say what each warp did."""
        states = (*self.early, *self.finished, *self.states)
        return (*self.ended, *(self._ended(state) for state in states))

    def close(self) -> None:
        """Let what it drove go when others let go of it, not when garbage is collected."""
        self.interpreter.drain = self.rounds = None

    def _ended(self, state: WarpState) -> Ended:
        cta, done = state.warp.cta, state.done or self._did(state)
        return cta.linear, state.warp.index, cta.index, done

    def _goes_on(self, ran: int) -> bool:
        """Tell whether a round in which nothing shared changed leads anywhere: somebody computes, or an
        operation can be performed, or a CTA can start.
        """
        if ran:
            self.quiet += ran
            running = [state for state in self.states if any(s.is_runnable for s in state.splits)]
            is_long = self.quiet >= self.look_after * len(running)
            if is_long:
                self.quiet, self.look_after = 0, self.look_after * 2
            if not (is_long or all(s.is_still for s in running)) or not self._all_repeat(running):
                return True
        return self._perform_one() or self._admit()

    def _stalled(self) -> DrywellError:
        finished = [*self.early, *self.finished]
        for state in (*self.states, *finished):
            if state.done is None:
                state.counts = defaultdict(int, enumerate(self.counts(state).tolist()))
            if state.context is not None:
                state.context.forget_counts()
        return stalled(self.threaded, self.sites(), self.states, finished)

    def _give_turns(self) -> int:
        """Give every warp a turn, or under the eager schedule every cluster as many as it may have; return
        how many instructions were executed.
        """
        if self.options.schedule == "eager":
            return sum(self._stretch(gang) for gang in list(self.gangs))
        chosen = self.states
        if self.options.schedule == "seeded":
            self.random.shuffle(chosen)
        ran = sum(map(self._turn, chosen))
        self._reap(self.gangs)
        return ran

    def _stretch(self, gang: Gang) -> int:
        """Run rounds of turns of a cluster until one changes nothing, all its warps have ended, or, where
        clusters can notice each other, it had `STRETCH`; return how many instructions were executed.
        """
        before, left = self.interpreter.executed, STRETCH
        while left > 0 and not gang.has_ended:
            used, has_changed = self._rounds(gang, left)
            left -= used
            self._reap([gang])
            if not has_changed:
                break
            if left <= 0 and self.are_apart:
                left = STRETCH
        return self.interpreter.executed - before

    @cached_property
    def are_apart(self) -> bool:
        """Say whether no cluster can notice another, so that none waits for another to have a turn."""
        return self._are_apart()

    def _rounds(self, gang: Gang, limit: int) -> tuple[int, bool]:
        """Run a round of turns of a cluster, in compiled code up to `limit` as long as they change something
        and nobody ends; return how many there were, and whether the last has changed something.
        """
        if self.rounds is not None and not len(self.grid.pending):
            return self.rounds.run(gang, limit)
        version = self.grid.version
        for state in gang.states:
            self._turn(state)
        return 1, self.grid.version != version

    def _turn(self, state: WarpState) -> int:
        budget = self.options.max_instructions - self.interpreter.executed
        fuel, is_exact = min(TURN, budget), budget < TURN + CHUNK + 1
        if fuel <= 0:
            raise BudgetError(self._budget_report())
        if self.options.schedule == "seeded":
            is_exact = True
            fuel = min(fuel, self.random.choice((1, 3, 17, 200, TURN)))
            while len(self.grid.pending) and self.random.random() < 0.3:
                if not self._perform_one():
                    break
            if self.random.random() < IMPATIENCE:
                self._give_up(state)
        return self.interpreter.turn(state, fuel, is_exact)

    def _admit(self) -> bool:
        ctas = self.grid.admit()
        for _, members in groupby(ctas, lambda cta: cta.cluster):
            self.gangs.append(Gang(tuple(members), self._begin))
        return bool(ctas)

    def _begin(self, warp: Any) -> WarpState:
        if self.threaded.frame_bytes:
            warp.call_params.grow(self.threaded.frame_bytes)
        return WarpState(warp, [Split(self.threaded.entry_pc, warp.live)], defaultdict(int))

    def _reap(self, gangs: list[Gang]) -> None:
        """Take warps that have ended off the machine, which is a change, and let clusters start in their
        place.
        """
        unseen = [gang for gang in gangs if gang.end_unseen()]
        done = [state for gang in gangs for state in gang.drop_ended()]
        if done or unseen:
            self.grid.version += 1
            for gang in [gang for gang in gangs if gang.has_ended]:
                self.gangs.remove(gang)
            for gang in unseen:
                self._retire_unseen(gang)
            self.finished += done
            if not len(self.grid.pending):
                if self.rounds is None:
                    self._forget()
                elif self.finished:
                    self._retire()
            self._admit()

    def _retire(self) -> None:
        """Let go of clusters that have ended."""
        left, clusters = [], set()
        for cta, members in groupby(self.finished, lambda state: state.warp.cta):
            states = list(members)
            if not all(other.has_exited for other in cta.cluster.ctas):
                left += states
                continue
            for state, done in zip(states, self._done(states), strict=True):
                self.ended.append((cta.linear, state.warp.index, cta.index, done))
            clusters.add(cta.cluster)
        self.finished = left
        for cluster in clusters:
            self.grid.let_go(cluster)

    def _retire_unseen(self, gang: Gang) -> None:
        """Let go of a cluster that has ended and whose warps nobody has asked for."""
        native = self.interpreter.native
        assert native is not None
        for cta in gang.ctas:
            contexts = cta.bank.contexts
            done = self._alike(contexts.executed, map(native.counted, contexts.contexts))
            self.ended += [(cta.linear, warp, cta.index, what) for warp, what in enumerate(done)]
        self.grid.let_go(gang.ctas[0].cluster)

    def _done(self, states: list[WarpState]) -> list[Done]:
        """Return what warps of one CTA did: as a rule all of it, and what those of another CTA did."""
        native, contexts = self.interpreter.native, states[0].warp.cta.bank.contexts
        is_whole = native is not None and contexts is not None and len(states) == len(contexts.contexts)
        if not is_whole or any(state.counts for state in states):
            return [self._did(state) for state in states]
        return self._alike(contexts.executed, map(self.counts, states))

    def _alike(self, executed: NDArray[np.int64], counts: Iterable[NDArray[np.int64]]) -> list[Done]:
        """Return what the warps of a CTA did that compiled code has counted, each by its `counts` if it is
        not as with another CTA.
        """
        found = self.activity.alike(executed)
        if found is None:
            found = [self.activity.of(of_warp.tobytes()) for of_warp in counts]
            self.activity.note(executed, found)
        return found

    def _forget(self) -> None:
        """Let go of what warps held that ended long ago, and of those whose whole cluster has ended."""
        last = len(self.finished) - REMEMBERED
        if last < FORGOTTEN_AT_ONCE:
            return
        clusters: dict[Any, list[WarpState]] = {}
        for state in (*self.early, *self.finished[:last]):
            clusters.setdefault(state.warp.cluster, []).append(state)
        del self.finished[:last]
        self.early = []
        for cluster, states in clusters.items():
            has_ended = all(cta.has_exited for cta in cluster.ctas)
            for state in states:
                self._let_go(state)
            if has_ended:
                self.ended += map(self._ended, states)
            else:
                self.early += states

    def _let_go(self, state: WarpState) -> None:
        """Let go of what a warp held."""
        if state.done is None:
            state.done = self._did(state)
            state.counts = state.done.executed
            state.context = state.turns = None
            state.warp.forget()

    # ---------------------------------------------------------------- asynchronous operations
    def _drain(self) -> None:
        pending = self.grid.pending
        while len(pending):
            runnable = pending.runnable()
            if not runnable:
                return
            for op in runnable:
                while not op.done and (op.ready is None or op.ready()):
                    pending.advance(op)

    def _perform_one(self) -> bool:
        pending = self.grid.pending
        runnable = pending.runnable()
        if not runnable:
            return False
        pending.advance(self._choose(runnable))
        return True

    def _choose(self, runnable: list[AsyncOp]) -> AsyncOp:
        if self.options.schedule == "seeded":
            return self.random.choice(runnable)
        return _latest(self.grid.pending, runnable) if self.options.schedule == "lazy" else runnable[0]

    # ---------------------------------------------------------------- when nothing changes
    def _all_repeat(self, running: list[WarpState]) -> bool:
        """Tell whether every warp that can run only repeats states it was in, so that nothing will change."""
        for state in running:
            if not self._only_repeats(state):
                state.is_still = False
                return False
        return True

    def _only_repeats(self, state: WarpState) -> bool:
        """Tell whether a warp only repeats states it was in."""
        return self.interpreter.only_repeats(state, SPIN_LOOK)

    def _time_out(self) -> bool:
        """Let every wait that hardware gives up by itself give up, unless that was tried in this very state
        already.
        """
        waiting = [state for state in self.states if any(_may_time_out(s) for s in state.splits)]
        key = tuple(
            hash((id(state), tuple(s.pc for s in state.splits), state.warp.registers.tobytes()))
            for state in waiting
        )
        if not waiting or key in self.timed_out:
            return False
        self.timed_out.add(key)
        for state in waiting:
            self._give_up(state)
        return True

    def _give_up(self, state: WarpState) -> None:
        """Let the waits of a warp that may time out do so."""
        for split in list(state.splits):
            if _may_time_out(split):
                self.interpreter.time_out(state, split)

    def _budget_report(self) -> str:
        limit = f"{self.options.max_instructions:,}"
        lines = [f"the budget of {limit} warp instructions is spent; what each warp was doing:"]
        for state in self.states[:32]:
            who = f"CTA {','.join(map(str, state.warp.cta.index))} warp {state.warp.index}"
            for split in state.splits:
                does = f"waits for {split.held.outcome.reason.describe()}" if split.held else "runs"
                place = self.threaded.spans[split.pc]
                lines.append(f"  {who} at {place}{_loc(place.loc)} {does}")
            if state.given_up is not None:
                times, reason = state.num_given_up, state.given_up.describe()
                lines.append(f"  {who} gave up waiting {times} times, last for {reason}")
        if len(self.states) > 32:
            lines.append(f"  and {len(self.states) - 32} more warps")
        lines.append("  hint: raise max_instructions if it is only slow")
        return "\n".join(lines)


def _loc(loc: str) -> str:
    return f" ({loc})" if loc else ""
