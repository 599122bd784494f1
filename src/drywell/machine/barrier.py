"""Barriers of threads: meetings of a warp's lanes, the CTA's sixteen named barriers, the cluster barrier.

None of them waits for asynchronous operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import ACQUIRE, RELEASE, Order, Remarked, Sync
from drywell.base.span import Span
from drywell.machine.lanes import LANES, Mask, lane_list, named_lanes
from drywell.machine.outcome import Wait, WaitReason
from drywell.machine.registers import LaneValues

if TYPE_CHECKING:
    from drywell.machine.grid import Cluster, Cta
    from drywell.machine.warp import Warp

NUM_BARRIERS = 16
MAX_WARPS = 32
"""Warps of a CTA at most."""
Reduction = Literal["popc", "and", "or"]


class Meeting:
    """The lanes of `members` (a 32-bit mask) of one warp coming together, each bringing its values."""

    __slots__ = ("arrived", "is_complete", "key", "member_mask", "members", "use", "values", "warp")

    def __init__(self, warp: Warp, key: Any, members: int) -> None:
        self.warp = warp
        self.key = key
        self.members = members
        self.member_mask: Mask = (np.uint32(members) >> np.arange(LANES, dtype=np.uint32) & 1).astype(
            np.bool_
        )
        self.arrived: Mask = np.zeros(LANES, np.bool_)
        self.values: tuple[LaneValues, ...] = ()
        self.is_complete = False
        self.use = 0
        if key is None and warp.grid.observers:
            self.use = warp.num_meetings = warp.num_meetings + 1

    @property
    def sync(self) -> Sync:
        """Return what events call it."""
        return Sync("warp", self.warp.cta.linear, self.warp.index)

    def leave(self, lanes: tuple[int, ...]) -> None:
        """Let lanes go on; only a meeting for its own sake (`bar.warp.sync`) orders memory."""
        if self.key is None and self.warp.grid.observers:
            mask = np.zeros(LANES, np.bool_)
            mask[list(lanes)] = True
            self.warp.passed(self.sync, self.use, ACQUIRE, mask)

    def join(self, mask: Mask, values: tuple[LaneValues, ...]) -> Meeting:
        """Let the lanes of `mask` arrive with their rows of `values`; fault WARP-MASK for a lane that is
        no member.
        """
        outside = mask & ~self.member_mask
        if outside.any():
            lanes = lane_list(outside)
            self.warp.meetings.pop((self.key, self.members), None)
            self.warp.fault(
                "WARP-MASK",
                f"lane {lanes[0]} executes it but is not in its membermask 0x{self.members:08x}",
                lanes=lanes,
            )
        if not self.values:
            self.values = tuple(v.copy() for v in values)
        else:
            for mine, new in zip(self.values, values, strict=True):
                mine[mask] = new[mask]
        self.arrived |= mask
        if self.key is None:
            self.warp.arrived(self.sync, self.use, RELEASE, mask)
        self.settle()
        return self

    def settle(self) -> None:
        """Complete when every member that has not exited has come."""
        if not (self.member_mask & self.warp.live & ~self.arrived).any():
            self.is_complete = True
            self.warp.meetings.pop((self.key, self.members), None)
            self.warp.changed()

    def reason(self) -> WaitReason:
        """Return why its lanes are blocked."""
        return WaitReason("warp_barrier", self._text)

    def _text(self) -> str:
        missing = lane_list(self.member_mask & self.warp.live & ~self.arrived)
        return f"{named_lanes(missing)} of the warp (membermask 0x{self.members:08x})"


Words = NDArray[np.int64]

BARRIER_WORDS = 5
COMPLETED, THREADS, ARRIVED, THERE, IS_FOR_ALL = range(BARRIER_WORDS)
"""The words of a named barrier, which compiled code knows too: how often it has completed, and of the round
that is open the threads that it needs (0: none is open), which warps have come with some lanes and which with
all, as bits, and whether it is for all warps that have not ended."""

RED_THREADS = -1
"""What stands for the threads of a `red`, which compiled code leaves alone."""


def _bits(mask: Mask) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


class _Round:
    """One use of a named barrier, from its first arrival to its completion."""

    __slots__ = ("count", "is_red", "places", "popc", "popc_all", "use", "words")

    def __init__(self, count: int | None, is_red: bool, words: Words) -> None:
        self.words = words
        self.use = int(words[COMPLETED])
        self.count = count
        self.is_red = is_red
        self.places: dict[int, Span] = {}
        self.popc = 0
        self.popc_all = 0

    @property
    def is_complete(self) -> bool:
        """Say whether it is over, which compiled code may have brought about."""
        return bool(self.words[COMPLETED] > self.use)

    def result(self, op: Reduction) -> int | bool:
        """Return what a `red` gives all its threads."""
        return {"popc": self.popc, "and": self.popc == self.popc_all, "or": self.popc > 0}[op]


class NamedBarriers:
    """The sixteen barriers of a CTA. A warp counts as 32 threads once all its lanes that have not exited
    are there.

    `words` are the barriers' own, `arrivals` which lanes of each warp have come to the round that is open,
    `ended` which warps have ended, all as bits.
    SPEC: ids 0..15; counts are multiples of 32; without a count all threads of the CTA take part; exited
    threads are not waited for. Source: PTX ISA, barrier{.cta}. Misuse is the fault NBAR-MISUSE.
    """

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self._open: dict[int, _Round] = {}
        self._all: Words = np.zeros((NUM_BARRIERS, BARRIER_WORDS + MAX_WARPS // 2 + 1), np.int64)
        flat, count = self._all.reshape(-1), NUM_BARRIERS * BARRIER_WORDS
        self.words: Words = flat[:count].reshape(NUM_BARRIERS, BARRIER_WORDS)
        self.ended: Words = flat[-1:]
        self._ended = self.ended.data
        arrivals = flat[count : count + NUM_BARRIERS * MAX_WARPS // 2].view(np.uint32)
        self.arrivals: NDArray[np.uint32] = arrivals.reshape(NUM_BARRIERS, MAX_WARPS)

    def renew(self, cta: Cta) -> None:
        """Make them as new ones are, for another CTA."""
        self.cta = cta
        self._open.clear()
        self._all.fill(0)

    @property
    def have_all_ended(self) -> bool:
        """Say whether all warps have ended."""
        return self._ended[0] == (1 << self.cta.grid.num_warps) - 1

    @property
    def completed(self) -> Words:
        """Return how often each barrier has completed."""
        return self.words[:, COMPLETED]

    def sync(
        self, warp: Warp, number: int, count: int | None = None, is_aligned: bool = False
    ) -> Wait | None:
        """Arrive with the warp's active lanes and wait; None when that completes the barrier."""
        turn = self._arrive(warp, number, count or None, False, None)
        if is_aligned:
            self._look_for_halves(warp, number, turn)
        if turn.is_complete:
            self._leave(warp, number, turn)
            return None
        return self._wait(warp, number, turn)

    def arrive(self, warp: Warp, number: int, count: int) -> None:
        """Arrive with the warp's active lanes and go on."""
        if not count:
            warp.fault("NBAR-MISUSE", f"barrier.arrive on barrier {number} needs a thread count above 0")
        self._arrive(warp, number, count, False, None)

    def red(
        self, warp: Warp, number: int, count: int | None, op: Reduction, predicate: Mask
    ) -> Wait | int | bool:
        """Arrive and wait; the result is the reduction of all threads' predicates (popc an int, else a
        bool).
        """
        turn = self._arrive(warp, number, count or None, True, predicate)

        def result() -> int | bool:
            self._leave(warp, number, turn)
            return turn.result(op)

        if turn.is_complete:
            return result()
        return Wait(lambda: turn.is_complete, result, self._reason(number, turn))

    def _leave(self, warp: Warp, number: int, turn: _Round) -> None:
        """Let the active lanes go on behind a barrier that is complete."""
        if warp.grid.observers:
            warp.passed(Sync("named", self.cta.linear, number), turn.use)

    def _arrive(
        self, warp: Warp, number: int, count: int | None, is_red: bool, predicate: Mask | None
    ) -> _Round:
        self._check(warp, number, count)
        turn = self._current(number)
        if turn is None:
            turn = self._open[number] = _Round(count, is_red, self.words[number])
        if turn.is_red != is_red:
            warp.fault(
                "NBAR-MISUSE", f"barrier {number} is used by red and by sync or arrive at the same time"
            )
        if self._threads(turn.count) != self._threads(count):
            warp.fault(
                "NBAR-MISUSE",
                f"barrier {number} is used with {self._threads(count)} threads while others gave"
                f" {self._threads(turn.count)}",
            )
        mask = warp.mask
        lanes, before = _bits(mask), int(self.arrivals[number, warp.index])
        if before & lanes:
            warp.fault(
                "NBAR-MISUSE", f"warp {warp.index} arrives at barrier {number} again before it completed"
            )
        self.arrivals[number, warp.index] = before | lanes
        self._note(number, turn, warp.index)
        if predicate is not None:
            turn.popc += int(np.count_nonzero(predicate & mask))
            turn.popc_all += int(np.count_nonzero(mask))
        warp.changed()
        if warp.grid.observers:
            warp.arrived(Sync("named", self.cta.linear, number), turn.use)
        self._settle(number, turn)
        return turn

    def _current(self, number: int) -> _Round | None:
        """Return the round that is open at a barrier, perhaps in compiled code; None when none is."""
        words = self.words[number]
        if not words[THREADS]:
            return None
        turn = self._open.get(number)
        if turn is None or turn.is_complete:
            count = None if words[IS_FOR_ALL] else int(words[THREADS])
            turn = self._open[number] = _Round(count, False, words)
        return turn

    def waiting(self, warp: Warp, number: int, use: int) -> Wait:
        """Return how a warp waits that came to use `use` of a barrier in compiled code."""
        turn = self._current(number)
        if turn is None or turn.use != use:
            turn = _Round(None, False, self.words[number])
            turn.use = use
        return self._wait(warp, number, turn)

    def _wait(self, warp: Warp, number: int, turn: _Round) -> Wait:
        return Wait(
            lambda: turn.is_complete, lambda: self._leave(warp, number, turn), self._reason(number, turn)
        )

    def _note(self, number: int, turn: _Round, index: int) -> None:
        """Write down that a warp has come."""
        _, _, arrived, there, _ = turn.words.tolist()
        there |= self._is_there(number, index) << index
        threads = RED_THREADS if turn.is_red else self._threads(turn.count)
        turn.words[:] = (turn.use, threads, arrived | 1 << index, there, turn.count is None)

    def _look_for_halves(self, warp: Warp, number: int, turn: _Round) -> None:
        """Remark on a warp that reaches one use of a barrier at two places, though as a warp it should at
        one.
        """
        if not warp.grid.observers:
            return
        here = warp.place()
        first = turn.places.setdefault(warp.index, here)
        if first != here:
            upper, lower = sorted((first, here), key=lambda span: span.line)
            detail = (
                f"a part of warp {warp.index} comes to barrier {number} here, the rest at line {lower.line}:"
                " all lanes of a warp have to execute one and the same bar.sync"
            )
            hint = (
                f"write barrier.sync (without .aligned) at lines {upper.line} and {lower.line}, or one"
                " barrier behind both branches"
            )
            warp.grid.emit(Remarked(warp.agent(), "ALIGNED-DIVERGENT", detail, hint, upper, lower))

    def _check(self, warp: Warp, number: int, count: int | None) -> None:
        if not 0 <= number < NUM_BARRIERS:
            warp.fault(
                "NBAR-MISUSE", f"there is no barrier {number}: a CTA has barriers 0 to {NUM_BARRIERS - 1}"
            )
        if count is not None and (count < 0 or count % LANES):
            warp.fault(
                "NBAR-MISUSE", f"barrier {number} with a thread count of {count}: it must be a multiple of 32"
            )

    def _threads(self, count: int | None) -> int:
        return len(self.cta.warps) * LANES if count is None else count

    def _is_there(self, number: int, index: int) -> bool:
        arrived = int(self.arrivals[number, index])
        return arrived != 0 and not _bits(self.cta.warps[index].live) & ~arrived

    def _is_over(self, turn: _Round) -> bool:
        """Say whether all participants are there."""
        there = int(turn.words[THERE])
        if turn.count is None:
            return bool(there | int(self.ended[0]) == (1 << len(self.cta.warps)) - 1)
        return there.bit_count() * LANES >= turn.count

    def _settle(self, number: int, turn: _Round) -> None:
        if self._is_over(turn):
            turn.words[:] = (turn.use + 1, 0, 0, 0, 0)
            self.arrivals[number] = 0
            del self._open[number]
            self.cta.grid.version += 1

    def settle(self) -> None:
        """Look again at every open barrier (lanes have exited)."""
        for number in np.flatnonzero(self.words[:, THREADS]).tolist():
            turn = self._current(number)
            if turn is not None:
                for index in np.flatnonzero(self.arrivals[number]).tolist():
                    self._note(number, turn, index)
                self._settle(number, turn)

    def _reason(self, number: int, turn: _Round) -> WaitReason:
        return WaitReason("named_barrier", lambda: self._text(number, turn))

    def _text(self, number: int, turn: _Round) -> str:
        here = [i for i in range(len(self.cta.warps)) if self._is_there(number, i)]
        need = self._threads(turn.count)
        away = [w.index for w in self.cta.warps if w.index not in here and not w.is_done]
        return (
            f"barrier {number} (use {turn.use}): {len(here) * LANES} of {need}"
            f" threads are there (warps {here}); warps {away} have not come"
        )


class ClusterBarrier:
    """The barrier of all threads of a cluster; arrive and wait are separate. Misuse is the fault
    CBAR-MISUSE.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.generation = 0

    @property
    def has_arrivals(self) -> Words:
        """Return one word: whether lanes have arrived at the generation that is open."""
        return self.cluster.berth.arrivals

    @property
    def sync(self) -> Sync:
        """Return what events call it."""
        return Sync("cluster", self.cluster.ctas[0].linear, 0)

    def arrive(self, warp: Warp, order: Order = RELEASE) -> None:
        """Arrive with the warp's active lanes."""
        arrived, generations = warp.cluster_arrivals
        again = warp.mask & arrived
        if again.any():
            warp.fault(
                "CBAR-MISUSE",
                f"lane {lane_list(again)[0]} arrives at the cluster barrier again without a wait between",
                lanes=lane_list(again),
            )
        arrived |= warp.mask
        generations[warp.mask] = self.generation
        self.has_arrivals[0] = 1
        warp.changed()
        warp.arrived(self.sync, self.generation, order)
        self.settle()

    def wait(self, warp: Warp) -> Wait | None:
        """Wait with the warp's active lanes for the generation they arrived at."""
        mask = warp.mask.copy()
        arrived, generations = warp.cluster_arrivals
        missing = mask & ~arrived
        if missing.any():
            warp.fault(
                "CBAR-MISUSE",
                f"lane {lane_list(missing)[0]} waits at the cluster barrier without having arrived",
                lanes=lane_list(missing),
            )
        generation = int(generations[mask].max())

        def leave() -> None:
            arrived[mask] = False
            warp.passed(self.sync, generation, ACQUIRE, mask)

        if self.generation > generation:
            leave()
            return None
        return Wait(lambda: self.generation > generation, leave, WaitReason("cluster_barrier", self._text))

    def settle(self) -> None:
        """Complete the generation when every lane of the cluster that has not exited has arrived."""
        if not self.has_arrivals[0]:
            return
        warps = [w for cta in self.cluster.ctas for w in cta.warps]
        if warps and not any(self._missing(w).any() for w in warps) and any(not w.is_done for w in warps):
            self.generation += 1
            self.has_arrivals[0] = 0
            self.cluster.grid.version += 1

    def _missing(self, warp: Warp) -> Mask:
        arrived, generations = warp.cluster_arrivals
        missing: Mask = warp.live & ~(arrived & (generations == self.generation))
        return missing

    def _text(self) -> str:
        away = [
            f"rank {cta.rank} warp {w.index}"
            for cta in self.cluster.ctas
            for w in cta.warps
            if self._missing(w).any()
        ]
        return f"the cluster barrier (generation {self.generation}), which {', '.join(away)} must reach"
