"""Who has an accumulator when: the main loop that fills it, the warps that read it, and how far the two lie
under each other.

A tile's epilogue is, for one warp, from its first tcgen05.ld of the tile's accumulator until it comes to wait
for the next tile: its last store has been issued then. It holds the accumulator until its last tcgen05.ld has
brought its registers; what follows, packing and storing, may run beside the next tile even where there is
only one accumulator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from drywell.base.interval import Interval
from drywell.base.record import record

Span = tuple[float, float]


@record
class Epilogue:
    """One tile in one warp, in cycles: `begin` to `end`; the accumulator is held until `released`."""

    begin: float
    released: float
    end: float


@record
class Overlap:
    """The steady epilogues of a CTA, those of all its tiles but the last: how many, the mean cycles of one,
    and those for which it holds its accumulator; which share of either lies under the main loop of another
    tile, and which share of the whole under multiplications themselves. Shares are 0 to 1.
    """

    count: int
    cycles: float
    held_cycles: float
    under_loop: float
    held_under_loop: float
    under_mma: float


class Tiles:
    """The accumulators of one CTA in the intervals of a timed run, `end` cycles long.

    An accumulator are the columns that an mma writes; a new tile begins with the first mma after it was read.
    """

    def __init__(self, events: Sequence[Interval], cta: int, end: float) -> None:
        self._end = end
        mine = [i for i in events if i.cta == cta]
        sm = next((i.sm for i in mine if i.unit == "warp"), -1)
        others = {i.cta for i in events if i.unit == "warp" and i.sm == sm and i.cta != cta}
        mmas = (i for i in events if i.unit == "tensor" and i.kind == "mma" and i.sm == sm)
        self._work = sorted((i for i in mmas if i.cta not in others), key=_issued)
        self._reads = sorted((i for i in mine if i.unit == "tmem_read"), key=_issued)
        self._waits = [i for i in mine if i.doing == "stall" and i.kind == "mbarrier"]
        self._runs = [i for i in mine if i.unit == "warp" and i.doing == "run"]
        readers = {(i.cta, i.warp) for i in events if i.unit == "tmem_read"}  # those of a pair's peer too
        stalls = (i for i in events if i.doing == "stall" and i.cause in readers)
        self._freed = sorted(i.end for i in stalls)
        self._tiles = self._found()

    def _found(self) -> list[tuple[list[Interval], list[Interval]]]:
        """Return the multiplications and the reads of each tile, by its first mma."""
        last: dict[tuple[int, int], tuple[list[Interval], list[Interval]]] = {}
        out = []
        happened = [(i.issued, False, i) for i in self._work] + [(i.issued, True, i) for i in self._reads]
        for _, is_read, i in sorted(happened, key=lambda one: one[:2]):
            if is_read:
                for (first, stop), (_, reads) in last.items():
                    if first < i.columns[1] and i.columns[0] < stop:
                        reads.append(i)
                continue
            if i.columns not in last or last[i.columns][1]:
                last[i.columns] = ([], [])
                out.append(last[i.columns])
            last[i.columns][0].append(i)
        return out

    def loops(self) -> tuple[Span, ...]:
        """Return the main loop of each tile: from when its accumulator was free, or the loop before over, to
        the end of its last mma.
        """
        out, since = list[Span](), 0.0
        for work, _ in self._tiles:
            begun, done = work[0].begin, max(i.done for i in work)
            free = max((end for end in self._freed if since < end <= begun), default=since)
            out.append((free or begun, done))
            since = max(since, work[-1].issued)
        return tuple(out)

    def epilogues(self) -> tuple[tuple[Epilogue, ...], ...]:
        """Return the epilogues of each warp that reads accumulators, by warp and time."""
        by_warp: dict[int, list[Span]] = defaultdict(list)
        for _, reads in self._tiles:
            for warp in {i.warp for i in reads}:
                of_warp = [i for i in reads if i.warp == warp]
                by_warp[warp].append((of_warp[0].issued, max(i.done for i in of_warp)))
        return tuple(
            tuple(
                Epilogue(begin, released, self._until(warp, released, stop))
                for (begin, released), (stop, _) in pairwise([*sorted(held), (self._end, self._end)])
            )
            for warp, held in sorted(by_warp.items())
        )

    def _until(self, warp: int, released: float, stop: float) -> float:
        """Return when a warp waits for an mbarrier after `released`, or issues its last, before `stop`."""
        waits = (i.begin for i in self._waits if i.warp == warp and released <= i.begin <= stop)
        ran = (i.end for i in self._runs if i.warp == warp and released <= i.end)
        return min(next(waits, stop), max(ran, default=stop), stop)

    def overlap(self) -> Overlap:
        """Return how far the steady epilogues lie under other tiles."""
        steady = [one for warp in self.epilogues() for one in warp[:-1]]
        whole = [(one.begin, one.end) for one in steady]
        held = [(one.begin, one.released) for one in steady]
        loops = self.loops()
        count = max(len(steady), 1)
        return Overlap(
            count=len(steady),
            cycles=_length(whole) / count,
            held_cycles=_length(held) / count,
            under_loop=_share(whole, loops),
            held_under_loop=_share(held, loops),
            under_mma=_share(whole, union((i.begin, i.end) for i in self._work)),
        )


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


def _issued(i: Interval) -> float:
    return i.issued


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def _share(spans: Sequence[Span], cover: Iterable[Span]) -> float:
    """Return which share of `spans` lies under `cover`."""
    disjoint = union(cover)
    under = sum(max(0.0, min(end, d) - max(begin, c)) for begin, end in spans for c, d in disjoint)
    total = _length(spans)
    return under / total if total else 0.0
