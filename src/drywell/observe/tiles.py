"""Who has an accumulator when: the main loop that fills it, the warps that read it, and how far the two lie
under each other.

A tile's epilogue is, for one warp, from the moment that it knows its accumulator to be done until it comes to
wait for the next one: its last store has been issued then. It holds the accumulator until its last
tcgen05.ld has brought its registers; what follows, packing and storing, may run beside the next tile even
where there is only one accumulator.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

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
    """The steady epilogues of a CTA, those of all its tiles but the last: how many, the mean cycles of one
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

    A warp that finds its accumulator done does not wait, and what it does belongs to the epilogue before.
    """

    def __init__(self, events: Sequence[Interval], cta: int, end: float) -> None:
        self._end = end
        reads = [i for i in events if i.unit == "tmem_read"]
        readers: set[object] = {(i.cta, i.warp) for i in reads}  # those of the other CTA of a pair too
        self._reads: dict[int, list[float]] = defaultdict(list)
        for read in reads:
            if read.cta == cta:
                self._reads[read.warp].append(read.done)
        self._waits: dict[int, list[tuple[Interval, Interval]]] = defaultdict(list)
        for i in events:
            is_reader = i.doing == "stall" and i.cta == cta and i.warp in self._reads
            if is_reader and isinstance(i.cause, Interval) and i.cause.unit == "commit":
                self._waits[i.warp].append((i, i.cause))
        self._commits = self._unique_commits()
        issuer = (self._commits[0].cta, self._commits[0].warp) if self._commits else (-1, -1)
        mine = [i for i in events if (i.cta, i.warp) == issuer]
        self._work = sorted(
            (i for i in mine if i.unit == "tensor" and i.kind == "mma"), key=lambda i: i.issued
        )
        self._freed = [i.end for i in mine if i.doing == "stall" and i.cause in readers]

    def _unique_commits(self) -> list[Interval]:
        """Return the commits that end waits of readers, each once, by when they were done."""
        found = {id(commit): commit for waits in self._waits.values() for _, commit in waits}
        return sorted(found.values(), key=lambda commit: commit.done)

    def loops(self) -> tuple[Span, ...]:
        """Return the main loop of each tile: from when its accumulator was free, or the loop before over,
        to its commit.
        """
        issued = [i.issued for i in self._work]
        out, first, since = list[Span](), 0, 0.0
        for commit in self._commits:
            last = bisect_right(issued, commit.issued)
            if last > first:
                begun = self._work[first].begin
                free = max((end for end in self._freed if since <= end <= begun), default=since)
                out.append((free or begun, commit.done))
            first, since = last, commit.issued
        return tuple(out)

    def epilogues(self) -> tuple[tuple[Epilogue, ...], ...]:
        """Return the epilogues of each warp that reads accumulators, by warp and time."""
        out = []
        for warp, waits in sorted(self._waits.items()):
            stops = [*(stall.begin for stall, _ in waits[1:]), self._end]
            mine = []
            for (stall, _), stop in zip(waits, stops, strict=True):
                within = (done for done in self._reads[warp] if stall.end < done <= stop)
                mine.append(Epilogue(stall.end, max(within, default=stall.end), stop))
            out.append(tuple(mine))
        return tuple(out)

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


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def _share(spans: Sequence[Span], cover: Iterable[Span]) -> float:
    """Return which share of `spans` lies under `cover`."""
    disjoint = union(cover)
    under = sum(max(0.0, min(end, d) - max(begin, c)) for begin, end in spans for c, d in disjoint)
    total = _length(spans)
    return under / total if total else 0.0
