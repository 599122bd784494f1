"""Run one warp: step its splits through threaded code until it must wait, has had its turn, or is through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drywell.base.errors import KernelFault, UnsupportedError
from drywell.engine.splits import JUMPS_BEFORE_YIELD, Frame, Mask, Split, WarpState
from drywell.engine.threaded import Held, Threaded
from drywell.isa.system import EXTERNS
from drywell.machine.lanes import FULL, lane_list
from drywell.machine.outcome import Call, Deferred, Exit, Jump, Return, Wait, WaitReason
from drywell.machine.queue import AsyncOp, locate


class Interpreter:
    """Executes splits.

    `drain`, when set, performs asynchronous operations as soon as they are issued (the eager schedule).
    `watch`, when set, collects the states at backward jumps, to find out whether a warp only repeats
    itself; `repeats` then becomes True.
    """

    def __init__(self, threaded: Threaded, grid: Any) -> None:
        self.threaded = threaded
        self.grid = grid
        self.executed = 0
        self.drain: Callable[[], None] | None = None
        self.watch: set[tuple[int, bytes, int]] | None = None
        self.repeats = False

    # ---------------------------------------------------------------- turns
    def turn(self, state: WarpState, fuel: int) -> int:
        """Run a warp for at most `fuel` instructions; return how many it executed."""
        self.wake(state)
        begun = fuel
        while fuel > 0 and state.splits:
            runnable = state.runnable()
            if not runnable:
                break
            fuel = self._run(state, runnable[0], fuel)
            if self.repeats:
                break
            self.wake(state)
        self.executed += begun - fuel
        self.grid.clock += begun - fuel
        return begun - fuel

    def wake(self, state: WarpState) -> None:
        """Let go on every split whose wait is over; look again only when something has changed since the
        last look.
        """
        version = self.grid.version
        for split in list(state.splits):
            if split.held is not None and split.checked_at != version:
                split.checked_at = version
                if split.held.outcome.ready():
                    self.resume(state, split)

    def resume(self, state: WarpState, split: Split) -> None:
        """Finish a wait: its result is written and the split goes on (or waits again)."""
        held = split.held
        assert held is not None
        self._select(state, split)
        split.held = None
        state.warp.span = self.threaded.spans[split.pc]
        self._finish(state, split, held, split.mask)

    # ---------------------------------------------------------------- one split
    def _select(self, state: WarpState, split: Split) -> None:
        state.warp.mask = FULL if split.mask.all() else split.mask

    def _run(self, state: WarpState, split: Split, fuel: int) -> int:
        threaded, warp, counts = self.threaded, state.warp, state.counts
        steps, spans, touched, converged = (
            threaded.steps,
            threaded.spans,
            threaded.touched,
            threaded.converged,
        )
        others = [s for s in state.splits if s is not split]
        meet = {s.pc for s in others if s.held is None and s.stack == split.stack}
        self._select(state, split)
        busy, is_machine, drain, pending = state.busy, threaded.is_machine, self.drain, self.grid.pending
        pc = split.pc
        try:
            while fuel > 0:
                if busy and not touched[pc].isdisjoint(busy):
                    split.pc = pc
                    self._await_registers(state, split)
                    return fuel
                if others and converged[pc] and np.count_nonzero(split.mask) != np.count_nonzero(warp.live):
                    split.pc, split.is_parked = pc, True
                    return fuel
                fuel -= 1
                warp.span = spans[pc]
                counts[pc] += 1
                held = steps[pc](warp)
                if drain is not None and is_machine[pc] and len(pending):
                    drain()
                if held is None:
                    pc += 1
                    if pc in meet:
                        split.pc = pc
                        state.merge()
                        return fuel
                    continue
                split.pc = pc
                if self._follow(state, split, held) and not others and len(state.splits) == 1:
                    pc = split.pc
                    if not self.repeats:
                        continue
                return fuel
        except KernelFault as fault:
            locate(fault, warp, spans[pc], lane_list(warp.mask))
            raise
        split.pc = pc
        return fuel

    def _await_registers(self, state: WarpState, split: Split) -> None:
        pending = tuple(
            {id(op): op for k in self.threaded.touched[split.pc] if (op := state.busy.get(k))}.values()
        )
        names = ", ".join(f"{op.what} of line {op.span.line}" for op in pending)
        reason = WaitReason("registers", lambda: f"the registers that {names} will write")
        wait = Wait(lambda: all(op.done for op in pending), lambda: Jump(split.pc), reason)
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
        rest = split.mask & ~lanes
        if rest.any():
            state.divide(split, rest, split.pc + 1)
        self._finish(state, split, held, lanes)
        state.merge()
        return False

    def _jump(self, state: WarpState, split: Split, target: int) -> bool:
        if target <= split.pc:
            if self.watch is not None:
                key = (target, split.mask.tobytes(), hash(state.warp.registers.tobytes()))
                self.repeats = key in self.watch
                self.watch.add(key)
            split.back_jumps += 1
            if split.back_jumps > JUMPS_BEFORE_YIELD and len(state.splits) > 1:
                split.has_yielded = True
        split.pc = target
        if len(state.splits) > 1:
            state.merge()
            return False
        return True

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
                self._go(state, split, outcome)
            case Exit():
                self._exit(state, split, lanes)
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
        self._select(state, split)
        try:
            return wait.then()
        except KernelFault as fault:
            locate(fault, state.warp, self.threaded.spans[split.pc], lane_list(split.mask))
            raise

    def time_out(self, state: WarpState, split: Split) -> None:
        """Let a wait that may time out do so: its `then` sees that nothing has come."""
        held = split.held
        assert held is not None
        self._select(state, split)
        split.held = None
        outcome = self._then(state, split, held.outcome)
        self._finish(state, split, Held(outcome, held.write, held.registers), split.mask)

    def _go(self, state: WarpState, split: Split, jump: Jump) -> None:
        if isinstance(jump.targets, (int, np.integer)):
            self._jump(state, split, int(jump.targets))
            return
        targets = np.asarray(jump.targets)
        places = np.unique(targets[split.mask])
        for place in places[1:]:
            state.divide(split, split.mask & (targets == place), int(place))
        split.pc = int(places[0])

    def _exit(self, state: WarpState, split: Split, lanes: Mask) -> None:
        state.leave(split, lanes)

    def _return(self, state: WarpState, split: Split, lanes: Mask) -> None:
        if not split.stack:
            self._exit(state, split, lanes)
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
            self._select(state, split)
            extern(state.warp, call.arguments, call.results)
            split.pc += 1
        else:
            place = self.threaded.spans[split.pc]
            raise UnsupportedError(f"'{call.function}' is external and Drywell does not provide it", place)

    def _defer(self, state: WarpState, split: Split, op: AsyncOp, held: Held) -> None:
        mask, write = split.mask.copy(), held.write

        def deliver(done: AsyncOp) -> None:
            warp = state.warp
            before = warp.mask
            warp.mask = FULL if mask.all() else mask
            if write is not None:
                write(warp, done.result)
            warp.mask = before
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
