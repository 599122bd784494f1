"""Rounds of turns of a cluster in compiled code: what is handed over to `native.turns`, what is taken back,
and how the interpreter takes the steps in between.

While a warp is handed over, the words are the state of its splits; `WarpState.splits` takes it back.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.engine.compiled_jumps import digest
from drywell.engine.compiled_layout import CHUNK, GOES_ON
from drywell.engine.compiled_run import FUEL, IS_EXACT, MAY_WAIT, PATIENCE, PENDING
from drywell.engine.native import turn_words
from drywell.engine.native.turn_words import GANG, SPLIT, WARP
from drywell.engine.native.turns import ROUNDS
from drywell.engine.splits import JUMPS_BEFORE_YIELD, Frame, Mask, Split
from drywell.engine.threaded import Held
from drywell.machine.barrier import BARRIER_WORDS, Meeting
from drywell.machine.mbarrier import WORD_BYTES
from drywell.machine.outcome import Wait

if TYPE_CHECKING:
    from drywell.engine.compiled_context import WarpContext
    from drywell.engine.compiled_run import Native
    from drywell.engine.interpreter import Interpreter
    from drywell.engine.scheduler import Gang
    from drywell.engine.splits import WarpState
    from drywell.engine.threaded import Threaded
    from drywell.machine.warp import Warp

WORK = 30_000
"""Instructions after which rounds give control back, so that Python hears of signals."""

_NO_RESULT = _NEVER = -1


@dataclass(frozen=True, slots=True)
class NativeHeld(Held):
    """What a split waits for that began to wait in compiled code, with the words that say so there."""

    words: tuple[int, ...] = ()


@lru_cache(maxsize=1024)
def _mask(lanes: int) -> Mask:
    mask = np.unpackbits(np.array([lanes], "<u4").view("u1"), bitorder="little").view(np.bool_)
    mask.setflags(write=False)
    return mask


@lru_cache(maxsize=1024)
def _bits(flags: bytes) -> int:
    mask = np.frombuffer(flags, np.bool_)
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _lanes(mask: Mask) -> int:
    return _bits(mask.tobytes())


def _view(words: NDArray[np.int64]) -> Any:
    """Return a way to read and write words fast."""
    return memoryview(words).cast("B").cast("q")  # type: ignore[arg-type]


class TurnWords:
    """The words of one warp (`turn_words.WARP`, `SPLIT`); `is_away` while they are the state."""

    __slots__ = ("_held", "_is_apart", "_live", "_stacks", "_threaded", "at", "is_away")

    def __init__(self, state: WarpState, threaded: Threaded, at: Any) -> None:
        self.at = at
        self.at[WARP["context"]] = state.context.address
        self.at[WARP["registers"]] = state.warp.registers.ctypes.data
        self.is_away = False
        self._threaded = threaded
        self._held: list[Held] = []
        self._stacks: list[tuple[Frame, ...]] = [()]

    @property
    def count(self) -> int:
        """Return how many splits there are."""
        number: int = self.at[WARP["num_splits"]]
        return number

    # ---------------------------------------------------------------- handing over
    def begin(self, warp: Warp) -> None:
        """Let the words be the state of a warp whose one split is written but for its lanes."""
        self._held.clear()
        del self._stacks[1:]
        self._live = self.at[len(WARP) + SPLIT["lanes"]] = _lanes(warp.live)
        self.is_away = True

    def hand_over(self, state: WarpState, looked: int) -> None:
        """Let the words be the state; its waits that Python knows were looked at after `looked` changes."""
        at, splits = self.at, state.splits
        at[WARP["num_splits"]], at[WARP["rounds"]] = len(splits), state.rounds
        at[WARP["is_still"]] = state.is_still
        at[WARP["looked"]] = looked
        self._live = _lanes(state.warp.live)
        self._held.clear()
        del self._stacks[1:]
        self._is_apart = any(s.held is not None and not isinstance(s.held, NativeHeld) for s in splits)
        size = len(SPLIT)
        for k, split in enumerate(splits):
            first = len(WARP) + k * size
            at[first : first + size] = array("q", self._words(state, split))
        self.is_away = True

    def _words(self, state: WarpState, split: Split) -> Sequence[int]:
        return (
            split.pc,
            _lanes(split.mask),
            len(split.stack),
            self._stack(split.stack),
            *self._wait(state, split.held),
            split.is_parked,
            split.back_jumps,
            split.has_yielded,
            split.is_still,
            split.seen,
        )

    def _stack(self, stack: tuple[Frame, ...]) -> int:
        if stack not in self._stacks:
            self._stacks.append(stack)
        return self._stacks.index(stack)

    def _wait(self, state: WarpState, held: Held | None) -> tuple[int, ...]:
        """Return the words of a wait. Lanes that meet do so either all in compiled code or all in Python."""
        if held is None:
            return turn_words.RUNS, 0, 0, 0, _NO_RESULT
        if isinstance(held, NativeHeld) and held.words[0] == turn_words.MEETING:
            if held.outcome.ready():
                return turn_words.MET, 0, 0, 0, _NO_RESULT
            if not self._is_apart:
                state.warp.meetings.pop((None, held.words[3]), None)
                return held.words
        elif isinstance(held, NativeHeld):
            return held.words
        self._held.append(held)
        is_for_lanes = held.outcome.reason.kind == "warp_barrier" and not held.outcome.ready()
        kind = turn_words.LANES_ONLY if is_for_lanes else turn_words.PYTHON
        return kind, 0, 0, len(self._held) - 1, _NO_RESULT

    # ---------------------------------------------------------------- taking back
    def note_exits(self, warp: Warp) -> None:
        """Let a warp know which of its lanes have not exited."""
        at, size = self.at, len(SPLIT)
        first, end = len(WARP) + SPLIT["lanes"], len(WARP) + at[WARP["num_splits"]] * size
        lanes = 0
        for k in range(first, end, size):
            lanes |= at[k]
        if lanes != self._live:
            self._live = lanes
            warp.live = _mask(lanes)

    def take_back(self, state: WarpState) -> None:
        """Let the splits be the state again."""
        at, size = self.at, len(SPLIT)
        self.is_away = False
        state.rounds, state.is_still = at[WARP["rounds"]], bool(at[WARP["is_still"]])
        end = len(WARP) + at[WARP["num_splits"]] * size
        words = at[len(WARP) : end].tolist()
        state.splits = [self._split(state, words[k : k + size]) for k in range(0, len(words), size)]

    def _split(self, state: WarpState, words: list[int]) -> Split:
        pc, lanes, _, stack, kind, place, live, value, result, *rest = words
        is_parked, back_jumps, has_yielded, is_still, seen = rest
        held = None
        if kind in (turn_words.PYTHON, turn_words.LANES_ONLY):
            held = self._held[value]
        elif kind != turn_words.RUNS:
            held = self._native_held(state, pc, lanes, (kind, place, live, value, result))
        return Split(
            pc,
            _mask(lanes),
            self._stacks[stack],
            held,
            bool(is_parked),
            back_jumps,
            bool(has_yielded),
            bool(is_still),
            seen,
        )

    def _native_held(self, state: WarpState, pc: int, lanes: int, words: tuple[int, ...]) -> NativeHeld:
        warp, (kind, place, _, value, _) = state.warp, words
        cta = warp.cta
        if kind in (turn_words.MEETING, turn_words.MET):
            return NativeHeld(_meeting(warp, value, lanes, kind == turn_words.MET), None, (), None, words)
        if kind == turn_words.BARRIER:
            number = (place - cta.barriers.words.ctypes.data) // (8 * BARRIER_WORDS)
            return NativeHeld(cta.barriers.waiting(warp, number, value), None, (), None, words)
        offset = (place - cta.smem.words.ctypes.data) // 8 * WORD_BYTES
        wait = warp.mbarrier(cta.smem.base | offset).wait(value, may_time_out=True)
        registers = tuple(self._threaded.results[pc])
        return NativeHeld(wait, _writer(registers), registers, None, words)


def _meeting(warp: Warp, members: int, lanes: int, is_over: bool) -> Wait:
    """Return how lanes wait that came to a meeting in compiled code."""
    meeting = None if is_over else warp.meetings.get((None, members))
    if meeting is None:
        meeting = Meeting(warp, None, members)
        if not is_over:
            warp.meetings[None, members] = meeting
    meeting.arrived |= _mask(lanes)
    meeting.is_complete = is_over
    return Wait(lambda: meeting.is_complete, lambda: None, meeting.reason())


def _writer(registers: tuple[int, ...]) -> Callable[[Any, Any], None] | None:
    """Return what stores the result of a wait in the lanes that execute."""
    if not registers:
        return None
    (register,) = registers

    def write(warp: Any, value: Any) -> None:
        np.copyto(warp.values[register], value, where=warp.mask)

    return write


@lru_cache(maxsize=1)
def _rounds() -> Any:
    """Return the function `i64 rounds(gang)` as a Python callable; it keeps Python's lock."""
    from drywell.engine.native import runtime

    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(runtime.find(ROUNDS))


class Team:
    """A cluster's warps in compiled code: the words of the gang and of each warp. Another cluster with the
    same arrays can have it.
    """

    def __init__(self, states: Sequence[WarpState], words: array[int], threaded: Threaded) -> None:
        count, size = len(states), turn_words.WARP_WORDS
        self._words = np.zeros(len(GANG) + count * (size + 1), np.int64)
        at = _view(self._words)
        self.address: int = self._words.ctypes.data
        self.at, self._table = at[: len(GANG)], at[len(GANG) : len(GANG) + count]
        self.at[:] = words
        self.at[GANG["warps"]] = self.address + 8 * len(GANG)
        first = len(GANG) + count
        self._turns = [
            TurnWords(state, threaded, at[first + k * size : first + (k + 1) * size])
            for k, state in enumerate(states)
        ]
        self._addresses = [self.address + 8 * (first + k * size) for k in range(count)]
        rows = self._words[first:].reshape(-1, size)
        rows[:, WARP["num_splits"]], rows[:, WARP["looked"]] = 1, _NEVER
        rows[:, len(WARP) + SPLIT["pc"]] = threaded.entry_pc
        rows[:, len(WARP) + SPLIT["result"]] = _NO_RESULT
        self._table[:] = array("q", self._addresses)
        self._first = self._words.copy()
        self.take(states)

    def take(self, states: Sequence[WarpState]) -> None:
        """Let it be of these warps, none of whose words are their state."""
        self._words[:] = self._first
        for state, turns in zip(states, self._turns, strict=True):
            state.turns = turns
            turns.is_away = False
        self._places = {id(state): address for state, address in zip(states, self._addresses, strict=True)}
        self.version = -1
        self.states = self.unstarted = list(states)
        self.at[GANG["num_warps"]] = len(states)

    def begin(self) -> None:
        """Let the words be the state of warps that have executed nothing: one split each, at the entry."""
        for state in self.states:
            state.turns.begin(state.warp)

    def set_states(self, states: Sequence[WarpState]) -> None:
        """Let the gang be of these warps."""
        self.states = list(states)
        self.unstarted = [state for state in self.unstarted if state in self.states]
        self.at[GANG["num_warps"]] = len(states)
        for k, state in enumerate(states):
            self._table[k] = self._places[id(state)]


class Rounds:
    """Runs rounds of turns in compiled code, `fuel` instructions a turn; `turn` gives a warp one by hand."""

    def __init__(
        self,
        native: Native,
        interpreter: Interpreter,
        fuel: int,
        budget: int,
        turn: Callable[[WarpState], int],
    ) -> None:
        self.native = native
        self.interpreter = interpreter
        self.grid = native.grid
        self.fuel = fuel
        self.last_room = budget - fuel - CHUNK - 1
        self.turn = turn
        self._go = _rounds()
        self._ends = np.array(native.threaded.turn_ends, np.uint8)
        self._chunks = np.array(native.layout.chunk_of, np.int64)
        self._words = self._gang_words()

    def _gang_words(self) -> array[int]:
        native = self.native
        words = array("q", bytes(8 * len(GANG)))
        values = {
            "turn": self.fuel,
            "ends": self._ends.ctypes.data,
            "chunks": self._chunks.ctypes.data,
            "full": native.code.full.address,
            "masked": native.code.masked.address,
            "digest": ctypes.cast(digest(), ctypes.c_void_p).value or 0,
            "register_bytes": self.grid.kernel.registers.nbytes,
        }
        for name, value in values.items():
            words[GANG[name]] = value
        return words

    def _team(self, gang: Gang) -> Team:
        """Return the team of a gang's warps that have not ended."""
        states, team = gang.states, gang.team
        if team is None:
            team = gang.team = self._new_team(gang, states)
        elif len(team.states) != len(states):
            team.set_states(states)
        found: Team = team
        return found

    def _new_team(self, gang: Gang, states: list[WarpState]) -> Team:
        """Return the team of warps that have none, that of an earlier cluster where there is such."""
        if any(state.context is not None or state.counts for state in states):
            for state in states:
                self._prepare(self.native.context(state))
            return Team(states, self._words, self.native.threaded)
        for state in states:
            self._prepare(self.native.context(state))
        berth = gang.ctas[0].cluster.berth
        team: Team | None = berth.team
        if team is None:
            team = berth.team = Team(states, self._words, self.native.threaded)
        else:
            team.take(states)
        team.begin()
        return team

    # ---------------------------------------------------------------- rounds
    def run(self, gang: Gang, limit: int) -> tuple[int, bool]:
        """Run rounds until one changes nothing, a warp has ended, or there were `limit`; return how many
        there were and whether the last changed something.
        """
        team = self._team(gang)
        at = team.at
        for state in team.states:
            if not state.turns.is_away:
                self._hand_over(state, _NEVER)
        at[GANG["rounds"]] = limit
        for name in ("next", "is_within", "has_changed", "has_ended"):
            at[GANG[name]] = 0
        while (why := self._enter(team)) not in (turn_words.QUIET, turn_words.ENDED):
            if why != turn_words.PAUSED:
                self._by_hand(team, why)
            if len(self.grid.pending):
                return self._finish_round(team, limit)
        return limit - at[GANG["rounds"]], bool(at[GANG["has_changed"]])

    def _hand_over(self, state: WarpState, looked: int) -> None:
        self._prepare(state.context)
        state.turns.hand_over(state, looked)

    def _prepare(self, context: WarpContext) -> None:
        """Tell compiled code that it is driven by turns."""
        at = context.at
        at[PATIENCE], at[IS_EXACT], at[MAY_WAIT], at[PENDING] = JUMPS_BEFORE_YIELD, 0, 1, 0

    def _enter(self, team: Team) -> int:
        """Run compiled code, and account for what it did; return why it came back."""
        at, grid, interpreter = team.at, self.grid, self.interpreter
        if team.version != grid.version:
            at[GANG["changes"]] += 1
        before = at[GANG["changes"]]
        at[GANG["room"]], at[GANG["work"]] = self.last_room - interpreter.executed, WORK
        why: int = self._go(team.address)
        executed = at[GANG["executed"]]
        at[GANG["executed"]] = 0
        interpreter.executed += executed
        grid.clock += executed
        if at[GANG["changes"]] != before:
            grid.version += 1
        team.version = grid.version
        if team.unstarted:
            self._start(team)
        if at[GANG["exits"]]:
            at[GANG["exits"]] = 0
            self._note_exits(team)
        return why

    def _start(self, team: Team) -> None:
        """Note which warps have come to an instruction."""
        spans, left = self.native.threaded.spans, []
        for state in team.unstarted:
            words = state.turns.at
            if not words[WARP["has_run"]]:
                left.append(state)
            elif not state.warp.span.line:
                state.warp.span = spans[words[len(WARP) + SPLIT["pc"]]]
        team.unstarted = left

    def _note_exits(self, team: Team) -> None:
        """Note which lanes have exited, and which CTAs have ended with the last of them."""
        for state in team.states:
            state.turns.note_exits(state.warp)
        if team.at[GANG["has_ended"]]:
            for cta in {id(state.warp.cta): state.warp.cta for state in team.states}.values():
                cta.warp_ended()

    def _finish_round(self, team: Team, limit: int) -> tuple[int, bool]:
        """Give the warps that are left in a round their turns by hand."""
        at, version = team.at, self.grid.version
        for state in team.states[at[GANG["next"]] :]:
            self.turn(state)
        has_changed = bool(at[GANG["has_changed"]]) or self.grid.version != version
        return limit - at[GANG["rounds"]] + 1, has_changed

    # ---------------------------------------------------------------- one warp by hand
    def _by_hand(self, team: Team, why: int) -> None:
        """Take the steps of a turn that compiled code cannot."""
        at, version = team.at, self.grid.version
        state = team.states[at[GANG["next"]]]
        split = None
        if why == turn_words.SHORT:
            self.turn(state)
        else:
            split = self._go_on(state, why)
        if split is None:
            at[GANG["next"]] += 1
        at[GANG["is_within"]] = int(split is not None)
        if self.grid.version != version:
            at[GANG["has_changed"]] = 1
        if state.has_ended:
            at[GANG["has_ended"]] = 1
        if split is not None:
            state.turns.at[WARP["chosen"]] = next(k for k, s in enumerate(state.splits) if s is split)
        self._hand_over(state, self._looked(team, state))

    def _looked(self, team: Team, state: WarpState) -> int:
        """Return the number of changes after which the waits of a warp were looked at."""
        version = self.grid.version
        if any(split.held is not None and split.checked_at != version for split in state.splits):
            return _NEVER
        changes: int = team.at[GANG["changes"]]
        return changes + (team.version != version)

    def _go_on(self, state: WarpState, why: int) -> Split | None:
        """Go on with a turn that compiled code has left; return the split that it can go on with, None when
        the turn is over.
        """
        interpreter, words, at = self.interpreter, state.turns.at, state.context.at
        status, split = None, None
        if why >= turn_words.STEPS:
            split, status = state.splits[words[WARP["chosen"]]], why - turn_words.STEPS
            if self.native.account(state, split.pc, status):
                status = GOES_ON
        else:
            interpreter.wake(state)
            split = state.choose()
        if why == turn_words.LOOKS:
            words[WARP["before"]] = state.rounds
        split, left = interpreter.go_on(state, split, at[FUEL], words[WARP["before"]], self.fuel, status)
        at[FUEL] = left
        return split
