"""The schedule: which warp runs next and when asynchronous operations take effect.

`eager` performs every operation at once. `lazy` performs one only when nobody could go on without it, the
most recently issued first, so that an operation which nothing orders comes as late as it legally may; a load
or store of Tensor Memory yields to what has no cell in common with it. `seeded` picks warps, turns,
operations and time-outs at random, the same for the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import BudgetError, DrywellError
from drywell.base.options import Options
from drywell.engine.compiled_layout import CHUNK
from drywell.engine.compiled_run import Native
from drywell.engine.interpreter import Interpreter
from drywell.engine.splits import Split, WarpState
from drywell.engine.stall import stalled
from drywell.engine.threaded import Threaded
from drywell.machine.queue import AsyncOp
from drywell.program.arrivals import Arrival

TURN = 2_000
"""Instructions a warp executes before the next one's turn comes."""

QUIET = 20_000
"""Instructions per running warp without any change of shared state, after which a look is taken whether
the warps only repeat themselves (at once when all seem to stand still); twice as many before the next look.
"""

SPIN_LOOK = 4_000
"""Instructions of one warp that such a look executes at most."""

REMEMBERED = 256
"""Warps that have ended and keep what they held, for whoever looks: those of a long grid would not fit."""

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


class Scheduler:
    """Drives a grid from its first instruction to its last."""

    def __init__(
        self,
        threaded: Threaded,
        grid: Any,
        options: Options,
        sites: Callable[[], tuple[Arrival, ...]] = tuple,
        native: Native | None = None,
    ) -> None:
        self.threaded = threaded
        self.sites = sites
        self.grid = grid
        self.options = options
        self.interpreter = Interpreter(threaded, grid, native)
        self.random = random.Random(options.seed)
        self.states: list[WarpState] = []
        self.finished: list[WarpState] = []
        self.num_forgotten = 0
        self.timed_out: set[tuple[int, ...]] = set()
        self.quiet = 0
        self.look_after = QUIET
        if options.schedule == "eager":
            self.interpreter.drain = self._drain

    # ---------------------------------------------------------------- the loop
    def run(self) -> None:
        """Run until every CTA has ended and every operation is done.

        Raises KernelFault, DeadlockError (nobody can go on), BudgetError (`max_instructions` executed).
        """
        self._admit()
        while self.states or len(self.grid.pending):
            version = self.grid.version
            ran = sum(self._turn(state) for state in self._order())
            if self._reap() or self.grid.version != version:
                self.timed_out.clear()
                self.quiet, self.look_after = 0, QUIET
            elif not self._goes_on(ran) and not self._time_out():
                raise self._stalled()

    def counts(self, state: WarpState) -> NDArray[np.int64]:
        """Return how often a warp has executed each place."""
        counts = np.array(state.counts, np.int64)
        native = self.interpreter.native
        return counts if native is None else counts + native.counts(state)

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
        for state in (*self.states, *self.finished):
            state.counts[:] = self.counts(state).tolist()
            if state.context is not None:
                state.context.forget_counts()
        return stalled(self.threaded, self.sites(), self.states, self.finished)

    def _order(self) -> list[WarpState]:
        if self.options.schedule != "seeded":
            return list(self.states)
        chosen = list(self.states)
        self.random.shuffle(chosen)
        return chosen

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
        for cta in ctas:
            for warp in cta.warps:
                warp.call_params.grow(self.threaded.frame_bytes)
                split = Split(self.threaded.entry_pc, warp.live.copy())
                self.states.append(WarpState(warp, [split], [0] * len(self.threaded.steps)))
        return bool(ctas)

    def _reap(self) -> bool:
        done = [s for s in self.states if not s.splits]
        if done:
            self.states = [s for s in self.states if s.splits]
            self.finished += done
            self._forget()
            self._admit()
        return bool(done)

    def _forget(self) -> None:
        """Let go of what warps held that ended long ago."""
        last = len(self.finished) - REMEMBERED
        if last > self.num_forgotten and not len(self.grid.pending):
            for state in self.finished[self.num_forgotten : last]:
                state.counts[:] = self.counts(state).tolist()
                state.context = None
                state.warp.forget()
            self.num_forgotten = last

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
        if not len(pending):
            return False
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
            if not self.interpreter.only_repeats(state, SPIN_LOOK):
                state.is_still = False
                return False
        return True

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
