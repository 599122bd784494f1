"""The warps of a cluster in compiled code: their words, how they are handed over and how they are taken back.

While a warp is handed over, the words are the state of its splits; `WarpState.splits` takes it back. Of most
clusters of a long grid nobody asks for the warps: the words are all there is of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native import turn_words
from drywell.engine.native.turn_words import GANG, SPLIT, WARP
from drywell.engine.splits import Frame, Mask, Split
from drywell.engine.threaded import Held
from drywell.machine.barrier import BARRIER_WORDS, Meeting
from drywell.machine.mbarrier import WORD_BYTES
from drywell.machine.outcome import Wait

if TYPE_CHECKING:
    from drywell.engine.splits import WarpState
    from drywell.engine.threaded import Threaded
    from drywell.machine.grid import Cta
    from drywell.machine.warp import Warp

NEVER = -1
"""The number of changes after which nothing has been looked at."""

_NO_RESULT = -1


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


def _view(words: NDArray[np.int64]) -> memoryview:
    """Return a way to read and write words fast."""
    return words.data.cast("B").cast("q")


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
    def begin(self, lanes: int) -> None:
        """Let the words be the state of a warp with one split, at the entry, of its `lanes`."""
        self._held.clear()
        del self._stacks[1:]
        self._live = lanes
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


class Team:
    """A cluster's warps in compiled code: the words of the gang and of each warp. Another cluster with the
    same arrays can have it. There are `states` where somebody has asked for its warps.
    """

    def __init__(self, states: Sequence[WarpState], words: array[int], threaded: Threaded) -> None:
        count, size = len(states), turn_words.WARP_WORDS
        self.ctas: Sequence[Cta] = ()
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
        rows[:, WARP["num_splits"]], rows[:, WARP["looked"]] = 1, NEVER
        rows[:, len(WARP) + SPLIT["pc"]] = threaded.entry_pc
        rows[:, len(WARP) + SPLIT["result"]] = _NO_RESULT
        self._live = [_lanes(state.warp.live) for state in states]
        rows[:, len(WARP) + SPLIT["lanes"]] = self._live
        self._counts_at = range(first + WARP["num_splits"], len(at), size)
        self._all = at
        self._table[:] = array("q", self._addresses)
        self.at[GANG["num_warps"]] = count
        self._first = self._words.copy()
        self.take(states)

    def renew(self) -> None:
        """Let it be of the warps of another cluster, of whom there are only words: they have executed
        nothing, and have one split each, at the entry.
        """
        self._words[:] = self._first
        self.version = -1
        self.states: list[WarpState] = []
        self.unstarted: list[WarpState] = []

    def take(self, states: Sequence[WarpState]) -> None:
        """Let it be of these warps, none of whose words are their state."""
        self.renew()
        self._join(states)
        for turns in self._turns:
            turns.is_away = False

    def join(self, states: Sequence[WarpState]) -> None:
        """Let these be the states of warps of which there were only words."""
        self._join(states)
        for turns, lanes in zip(self._turns, self._live, strict=True):
            turns.begin(lanes)

    def _join(self, states: Sequence[WarpState]) -> None:
        for state, turns in zip(states, self._turns, strict=True):
            state.turns = turns
        self._places = {id(state): address for state, address in zip(states, self._addresses, strict=True)}
        self.states = self.unstarted = list(states)

    @property
    def num_left(self) -> int:
        """Return how many warps have not ended, by the words."""
        at = self._all
        return sum([at[k] != 0 for k in self._counts_at])

    def set_states(self, states: Sequence[WarpState]) -> None:
        """Let the gang be of these warps."""
        self.states = list(states)
        self.unstarted = [state for state in self.unstarted if state in self.states]
        self.at[GANG["num_warps"]] = len(states)
        for k, state in enumerate(states):
            self._table[k] = self._places[id(state)]
