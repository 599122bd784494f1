"""Run one warp: step its splits through threaded code until it must wait, has had its turn, or is
through.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from drywell.base.errors import KernelFault, UnsupportedError
from drywell.base.events import RegisterOverwritten, Retired
from drywell.engine.compiled_code import NEVER
from drywell.engine.compiled_layout import GOES_ON, JUMPED
from drywell.engine.compiled_run import Native
from drywell.engine.splits import JUMPS_BEFORE_YIELD, Frame, Mask, Split, WarpState
from drywell.engine.threaded import ALIGNED, CLOCK, PASSED, Held, Threaded
from drywell.engine.unwritten import follow_unwritten, keep_unwritten
from drywell.isa.system import EXTERNS
from drywell.machine.lanes import FULL, LANES, lane_list
from drywell.machine.outcome import Call, Deferred, Exit, Jump, Return, Wait, WaitReason
from drywell.machine.queue import AsyncOp, locate

_AS_BEFORE = Jump(-1)
"""The outcome of a wait for registers: the instruction at which the split stands is still to be executed."""


class Interpreter:
    """Executes splits.

    `drain`, when set, performs asynchronous operations as soon as they are issued (the eager schedule).
    `executed` counts instructions; the grid's clock runs with it. `native` is the compiled code, if there
    is any: it goes on instruction by instruction as a split here does, to where it cannot.
    """

    def __init__(self, threaded: Threaded, grid: Any, native: Native | None = None) -> None:
        self.threaded = threaded
        self.grid = grid
        self.executed = 0
        self.drain: Callable[[], None] | None = None
        self.patience = JUMPS_BEFORE_YIELD
        self.clocks = threaded.clocks
        self.clock_at_end = 0
        self.native = native
        self.gives_back = False
        self._cold = [NEVER] * len(threaded.steps)
        self._everywhere = [True] * len(threaded.steps)
        self.turn_ends = self._everywhere

    # ---------------------------------------------------------------- turns
    def turn(self, state: WarpState, fuel: int, is_exact: bool = True, is_by_hand: bool = False) -> int:
        """Run a warp for at most `fuel` instructions, or until all its splits have yielded; return how many
        it executed. A turn that is not exact goes on to where the next chunk begins; of one by hand compiled
        code does not execute the first instruction.
        """
        left = self._start(fuel, is_exact)
        self.wake(state)
        split = state.choose()
        rounds = state.rounds
        while left > 0 and split is not None and state.rounds == rounds:
            left = self._run(state, split, left, is_by_hand)
            self.wake(state)
            split = state.choose()
        return self._stop(fuel, left)

    def go_on(
        self, state: WarpState, split: Split | None, left: int, rounds: int, fuel: int, status: int | None
    ) -> tuple[Split | None, int]:
        """Go on with a turn of `fuel` instructions that began when the warp's `rounds` were so many and has
        `left` of them, until it is over or compiled code can go on; return the split that it can go on with,
        None when the turn is over, and what is left.

        `status` says why compiled code has left `split`, None that it stands between two runs of splits.
        """
        self._start(fuel, is_exact=False)
        self.gives_back = True
        is_left = status is not None and status != GOES_ON
        while split is not None and (status is not None or (left > 0 and state.rounds == rounds)):
            left = self._run(state, split, left, is_left)
            if not self.gives_back:
                self.grid.clock = self.clock_at_end - fuel
                return split, left
            status, is_left = None, False
            self.wake(state)
            split = state.choose()
        self.gives_back = False
        self._stop(fuel, left)
        return None, left

    def only_repeats(self, state: WarpState, fuel: int) -> bool:
        """Run a warp for about `fuel` instructions and tell whether it would go on like this for ever.

        It would when, with nothing shared changed, it is in a state in which it was before, all its
        running splits having jumped backwards in between; or when all it does is wait. A warp that reads
        the time is never twice in one state.
        """
        version, rounds, left = self.grid.version, state.rounds, self._start(fuel, is_exact=False)
        seen: set[Hashable] = set()
        is_again = False
        self.patience = 0
        while left > 0 and not is_again and self.grid.version == version:
            split = state.choose()
            if split is None:
                is_again = True
            else:
                if state.rounds != rounds:
                    rounds, situation = state.rounds, self._situation(state)
                    is_again = situation in seen
                    seen.add(situation)
                left = self._run(state, split, left)
        self.patience = JUMPS_BEFORE_YIELD
        self._stop(fuel, left)
        return is_again and self.grid.version == version

    def _situation(self, state: WarpState) -> Hashable:
        warp = state.warp
        memory = (warp.registers, warp.local.rows, warp.call_params.rows, warp.carry)
        splits = frozenset((s.pc, s.mask.tobytes(), s.stack, s.is_runnable) for s in state.splits)
        times = tuple(state.counts[pc] for pc in self.clocks)
        return splits, tuple(hash(part.tobytes()) for part in memory), times

    def _start(self, fuel: int, is_exact: bool) -> int:
        self.turn_ends = self._everywhere if is_exact else self.threaded.turn_ends
        self.clock_at_end = self.grid.clock + fuel
        return fuel

    def _stop(self, fuel: int, left: int) -> int:
        self.grid.clock = self.clock_at_end - left
        self.executed += fuel - left
        return fuel - left

    def wake(self, state: WarpState) -> tuple[Held, int] | None:
        """Let go on every split whose wait is over; look again only when something has changed since the
        last look. Return for what the first of them has waited, and where.
        """
        version, first = self.grid.version, None
        for split in list(state.splits):
            held = split.held
            if held is not None and split.checked_at != version:
                split.checked_at = version
                state.warp.span = self.threaded.spans[split.pc]
                if held.outcome.ready():
                    first = first or (held, split.pc)
                    self.resume(state, split)
        if first is not None and len(state.splits) > 1:
            state.merge()
        return first

    def resume(self, state: WarpState, split: Split) -> None:
        """Finish a wait: its result is written and the split goes on (or waits again)."""
        held = split.held
        assert held is not None
        split.held = None
        self._finish(state, split, held, split.mask)

    def time_out(self, state: WarpState, split: Split) -> None:
        """Let a wait that may time out do so: its `then` sees that nothing has come."""
        held = split.held
        assert held is not None
        split.held = None
        state.num_given_up += 1
        state.given_up = held.outcome.reason
        outcome = self._then(state, split, held.outcome)
        self._finish(state, split, Held(outcome, held.write, held.registers), split.mask)
        state.merge()

    # ---------------------------------------------------------------- one split
    def select(self, state: WarpState, split: Split) -> None:
        """Let the lanes of a split be those that execute."""
        if split.mask is not FULL and np.count_nonzero(split.mask) == LANES:
            split.mask = FULL
        state.warp.mask = split.mask

    def _run(self, state: WarpState, split: Split, fuel: int, is_left: bool = False) -> int:
        threaded, warp, counts = self.threaded, state.warp, state.counts
        steps, spans, touched, flags = threaded.steps, threaded.spans, threaded.touched, threaded.flags
        is_alone = len(state.splits) == 1
        meet = state.meets(split)
        self.select(state, split)
        busy, fresh, drain, pending = state.busy, state.fresh, self.drain, self.grid.pending
        unwritten = state.unwritten
        pc = split.pc
        native, heat, is_begun, ends = self.native, self._heat(warp), False, self.turn_ends
        try:
            while fuel > 0 or not ends[pc]:
                if heat[pc] >= 0 and native is not None and pc not in meet and not is_left:
                    if self.gives_back and not heat[pc] and not busy and not len(pending):
                        self.gives_back = False
                        break
                    if not is_begun:
                        native.begin(state, split, meet, self.patience, ends is self._everywhere)
                        is_begun = True
                    pc, fuel, status = native.run(state, split, heat, pc, fuel)
                    if status == GOES_ON and pc not in meet:
                        continue
                    if status == JUMPED or pc in meet:
                        split.pc = pc
                        state.merge()
                        return fuel
                    if fuel <= 0 and ends[pc]:
                        break
                if busy and not touched[pc].isdisjoint(busy):
                    split.pc = pc
                    self._await_registers(state, split)
                    return fuel
                flag = flags[pc]
                if flag:
                    if flag & ALIGNED and not is_alone and self._parks(state, split, pc):
                        return fuel
                    if flag & CLOCK:
                        self.grid.clock = self.clock_at_end - fuel
                fuel -= 1
                warp.span = spans[pc]
                if fresh and not touched[pc].isdisjoint(fresh):
                    self._tell_of_registers(state, pc)
                if unwritten and not touched[pc].isdisjoint(unwritten):
                    follow_unwritten(threaded, state, pc)
                counts[pc] += 1
                held = steps[pc](warp)
                is_begun = is_begun and is_alone  # it may have let lanes go on that waited
                is_left = False
                if held is PASSED:
                    counts[pc] -= 1
                    held = None
                elif flag and drain is not None and len(pending):
                    drain()
                if held is None:
                    pc += 1
                    if pc in meet:
                        split.pc = pc
                        state.merge()
                        return fuel
                    continue
                split.pc = pc
                if not self._follow(state, split, held):
                    return fuel
                pc = split.pc
        except KernelFault as fault:
            locate(fault, warp, spans[pc], lane_list(warp.mask))
            raise
        split.pc = pc
        return fuel

    def _heat(self, warp: Any) -> list[int]:
        """Return where compiled code may be entered by the lanes of a warp's mask (`compiled_code.NEVER`)."""
        if self.native is None:
            return self._cold
        return self.native.heat(warp.mask is FULL)

    def _parks(self, state: WarpState, split: Split, pc: int) -> bool:
        """Park a split at a warp-collective instruction that it executes and other lanes must still
        reach.
        """
        warp, guard = state.warp, self.threaded.guards[pc]
        if np.count_nonzero(split.mask) == np.count_nonzero(warp.live):
            return False
        if guard is not None and not ((warp.values[guard[0]] ^ guard[1]) & split.mask).any():
            return False
        split.pc, split.is_parked = pc, True
        return True

    def _tell_of_registers(self, state: WarpState, pc: int) -> None:
        """Tell the observers that an instruction reads or overwrites what loads brought that nobody
        waited for.
        """
        warp, fresh = state.warp, state.fresh
        found = {
            fresh[k]: k in self.threaded.sources[pc] for k in sorted(self.threaded.touched[pc] & set(fresh))
        }
        for op, is_read in found.items():
            if op in warp.unwaited and is_read:
                event = Retired(warp.agent(), warp.lanes(), (op.number,), warp.span, is_register=True)
                self.grid.emit(event)
            elif op in warp.unwaited:
                self.grid.emit(RegisterOverwritten(warp.agent(), warp.lanes(), op.number, warp.span))
            for k in [k for k, other in fresh.items() if other is op]:
                del fresh[k]

    def _await_registers(self, state: WarpState, split: Split) -> None:
        pending = tuple(
            {id(op): op for k in self.threaded.touched[split.pc] if (op := state.busy.get(k))}.values()
        )
        names = ", ".join(f"{op.what} of line {op.span.line}" for op in pending)
        reason = WaitReason("registers", lambda: f"the registers that {names} will write")
        wait = Wait(lambda: all(op.done for op in pending), lambda: _AS_BEFORE, reason)
        split.held, split.checked_at = Held(wait, None, ()), -1

    def _follow(self, state: WarpState, split: Split, held: Held) -> bool:
        """Carry out an outcome; return True when `split` as a whole simply goes on at its `pc`."""
        lanes = split.mask if held.mask is None else held.mask
        if (
            isinstance(held.outcome, Jump)
            and held.mask is None
            and isinstance(held.outcome.targets, (int, np.integer))
        ):
            return self._jump(state, split, int(held.outcome.targets))
        if held.mask is not None and (rest := split.mask & ~lanes).any():
            state.divide(split, rest, split.pc + 1)
        self._finish(state, split, held, lanes)
        state.merge()
        return False

    def _jump(self, state: WarpState, split: Split, target: int) -> bool:
        if target <= split.pc:
            self._count(state, split, target)
        split.pc = target
        if len(state.splits) > 1:
            state.merge()
            return False
        return not split.has_yielded

    def _count(self, state: WarpState, split: Split, target: int) -> None:
        """Count a backward jump; a split that has made many, or jumps as before, gives way to others.

        Its registers are looked at after 1, 2, 3, 4, 5, 8, 9, 16, 17, ... jumps.
        """
        split.back_jumps += 1
        count = split.back_jumps
        if count & (count - 1) == 0 or (count - 1) & (count - 2) == 0:
            before, split.seen = split.seen, self._digest(state.warp, target)
            split.is_still = before == split.seen
        split.has_yielded = split.has_yielded or split.is_still or count > self.patience

    def _digest(self, warp: Any, target: int) -> int:
        """Return a digest of a jump's target and the registers, that of compiled code where there is such."""
        if self.native is None:
            return hash((target, warp.registers.tobytes()))
        return self.native.digest(warp, target)

    # ---------------------------------------------------------------- outcomes
    def _finish(self, state: WarpState, split: Split, held: Held, lanes: Mask) -> None:
        outcome = held.outcome
        while isinstance(outcome, Wait):
            if not outcome.ready():
                split.held, split.checked_at = Held(outcome, held.write, held.registers), self.grid.version
                return
            outcome = self._then(state, split, outcome)
        match outcome:
            case Jump():
                if outcome is not _AS_BEFORE:
                    self._go(state, split, outcome)
            case Exit():
                state.leave(split, lanes)
            case Return():
                self._return(state, split, lanes)
            case Call():
                self._call(state, split, outcome)
            case Deferred():
                self._defer(state, split, outcome.op, held)
                split.pc += 1
            case _:
                if held.write is not None and outcome is not None:
                    held.write(state.warp, outcome)
                split.pc += 1

    def _then(self, state: WarpState, split: Split, wait: Wait) -> Any:
        self.select(state, split)
        state.warp.span = self.threaded.spans[split.pc]
        try:
            return wait.then()
        except KernelFault as fault:
            locate(fault, state.warp, self.threaded.spans[split.pc], lane_list(split.mask))
            raise

    def _go(self, state: WarpState, split: Split, jump: Jump) -> None:
        targets = np.broadcast_to(np.asarray(jump.targets), split.mask.shape)
        place, *others = np.unique(targets[split.mask]).tolist()
        for other in others:
            if other <= split.pc:
                self._count(state, split, other)
            divided = state.divide(split, split.mask & (targets == other), other)
            divided.back_jumps, divided.has_yielded = split.back_jumps, split.has_yielded
        self._jump(state, split, place)

    def _return(self, state: WarpState, split: Split, lanes: Mask) -> None:
        if not split.stack:
            state.leave(split, lanes)
            return
        frame = split.stack[-1]
        _copy_frame(state, lanes, frame.results)
        split.pc, split.stack = frame.pc, split.stack[:-1]

    def _call(self, state: WarpState, split: Split, call: Call) -> None:
        extern = EXTERNS.get(call.function)
        callee = self.threaded.callees.get(call.function)
        if callee is not None:
            arguments = zip(call.arguments, callee.params, strict=True)
            _copy_frame(state, split.mask, tuple((at, to, size) for at, (to, size) in arguments))
            results = zip(callee.returns, call.results, strict=True)
            frame = Frame(split.pc + 1, tuple((at, to, size) for (at, size), to in results))
            split.pc, split.stack = callee.pc, (*split.stack, frame)
        elif extern is not None:
            self.select(state, split)
            extern(state.warp, call.arguments, call.results)
            split.pc += 1
        else:
            place = self.threaded.spans[split.pc]
            raise UnsupportedError(f"'{call.function}' is external and Drywell does not provide it", place)

    def _defer(self, state: WarpState, split: Split, op: AsyncOp, held: Held) -> None:
        mask, write = split.mask.copy(), held.write
        if self.grid.observers:
            state.fresh.update(dict.fromkeys(held.registers, op))

        def deliver(done: AsyncOp) -> None:
            warp = state.warp
            before = warp.mask
            warp.mask = FULL if mask.all() else mask
            if write is not None:
                write(warp, done.result)
            warp.mask = before
            if done.unwritten is not None or done.halves is not None:
                keep_unwritten(state.unwritten, done, held.registers, mask)
            for k in held.registers:
                if state.busy.get(k) is done:
                    del state.busy[k]

        if op.done:
            deliver(op)
            return
        for k in held.registers:
            state.busy[k] = op
        op.on_done.append(deliver)


def _copy_frame(state: WarpState, lanes: Mask, moves: tuple[tuple[int, int, int], ...]) -> None:
    """Copy bytes of the call parameters of some lanes: each move is (from, to, size)."""
    rows = state.warp.call_params.rows
    for at, to, size in moves:
        rows[lanes, to : to + size] = rows[lanes, at : at + size]
