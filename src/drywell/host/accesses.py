"""The accesses of a traced run, looked up by place: who wrote these bytes last before a moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Access
from drywell.engine.trace import Noted
from drywell.machine.flow import Part
from drywell.machine.windows import OFFSET_MASK

_LOCAL_MASK = 0xFFFF_FFFF
Key = tuple[str, int]
Thread = tuple[int, int, int]
"""A CTA's number, a warp of it, a lane."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes (or cells) of one access: `entry` numbers the address of the access that covers them, `offset`
    is how far in they begin. `noted` None: nobody wrote them.
    """

    part: Part
    noted: Noted | None
    entry: int = 0
    offset: int = 0

    @property
    def lane(self) -> int:
        """Return the lane that made it, -1 for an operation or a warp as a whole."""
        lanes = () if self.noted is None else self.noted.access.lanes
        return lanes[self.entry] if len(lanes) > self.entry else -1


def places_of(access: Access) -> NDArray[np.int64]:
    """Return where an access begins, as a `Part` has it: shared memory by offset in the window."""
    where = np.atleast_1d(np.asarray(access.addresses)).reshape(-1).astype(np.int64)
    if access.space == "shared":
        return where & OFFSET_MASK
    return where & _LOCAL_MASK if access.space == "local" else where


@dataclass(slots=True)
class _Timeline:
    """The writes of one memory in order, each with the first and the last place that it covers."""

    notes: list[Noted] = field(default_factory=list)
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    _bounds: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def add(self, noted: Noted) -> None:
        where = places_of(noted.access)
        self.notes.append(noted)
        self.low.append(int(where.min()))
        self.high.append(int(where.max()) + noted.access.size)

    def before(self, part: Part, order: int) -> Iterator[Noted]:
        """Yield the writes before `order` that may cover some of a part, the last first."""
        if self._bounds is None:
            self._bounds = np.array(self.low, np.int64), np.array(self.high, np.int64)
        end = bisect_left(self.notes, order, key=lambda n: n.order)
        low, high = self._bounds
        near = (low[:end] < part.address + part.size) & (high[:end] > part.address)
        for k in np.flatnonzero(near)[::-1].tolist():
            yield self.notes[k]


class Accesses:
    """All accesses of a trace by memory, by operation and by moment."""

    def __init__(self, notes: Sequence[Noted]) -> None:
        self.notes = notes
        self.writes: dict[Key, _Timeline] = {}
        self.reads: dict[int, list[Noted]] = {}
        for noted in notes:
            access = noted.access
            if np.size(access.addresses) == 0:
                continue
            if access.is_write:
                self.writes.setdefault(_key(access), _Timeline()).add(noted)
            elif access.agent.operation:
                self.reads.setdefault(access.agent.operation, []).append(noted)

    def last_writes(self, part: Part, order: int, thread: Thread | None = None) -> list[Piece]:
        """Return who wrote each stretch of a part last before `order`; of memory that every thread has for
        itself, `thread` says whose it is.
        """
        line = self.writes.get((part.space, part.home))
        open_parts, out = [part], []
        for noted in () if line is None else line.before(part, order):
            agent = noted.access.agent
            if thread is not None and (agent.cta, agent.warp) != thread[:2]:
                continue
            left: list[Part] = []
            for one in open_parts:
                pieces, rest = _covered(one, noted, thread)
                out += pieces
                left += rest
            open_parts = left
            if not open_parts:
                break
        out += [Piece(rest, None) for rest in open_parts]
        return sorted(out, key=lambda piece: piece.part.address)

    def of_step(self, moment: int, order: int, is_write: bool) -> list[Noted]:
        """Return the accesses that a step (at `order`) made itself, not an operation."""
        out = []
        for k in range(bisect_left(self.notes, order, key=lambda n: n.order), len(self.notes)):
            noted = self.notes[k]
            if noted.moment != moment:
                break
            if not noted.access.agent.operation and noted.access.is_write == is_write:
                out.append(noted)
        return out


def _key(access: Access) -> Key:
    return access.space, access.home


def _covered(part: Part, noted: Noted, thread: Thread | None) -> tuple[list[Piece], list[Part]]:
    """Split a part into what an access covers and what it does not; of several lanes the last one wins."""
    access = noted.access
    where, size = places_of(access), access.size
    mine = np.ones(where.size, np.bool_)
    if thread is not None and access.lanes:
        mine = np.array(access.lanes) == thread[2]
    pieces, rest, at, end = [], [], part.address, part.address + part.size
    while at < end:
        hits = np.flatnonzero((where <= at) & (where + size > at) & mine)
        if hits.size:
            entry = int(hits[-1])
            stop = min(end, int(where[entry]) + size)
            pieces.append(Piece(_cut(part, at, stop), noted, entry, at - int(where[entry])))
        else:
            later = where[(where > at) & (where < end) & mine]
            stop = int(later.min()) if later.size else end
            rest.append(_cut(part, at, stop))
        at = stop
    return pieces, rest


def _cut(part: Part, low: int, high: int) -> Part:
    return Part(part.space, part.home, low, high - low, part.mask, part.role)


def address_of(access: Access, lane: int) -> int | None:
    """Return where a lane's part of an access begins; None when the lane has none."""
    if lane not in access.lanes:
        return None
    return int(places_of(access)[access.lanes.index(lane)])


def byte_of_lane(reads: list[Access], lane: int, k: int, size: int) -> Part:
    """Return where byte `k` of the `size` bytes that a lane copied came from: one read of all of them, or
    one of every byte; what was not read is zero.
    """
    starts = [(r, a) for r in reads if (a := address_of(r, lane)) is not None]
    for access, start in starts:
        if access.size == size:
            return Part(access.space, access.home, start + k)
    single = sorted(((start, access) for access, start in starts if access.size == 1), key=lambda s: s[0])
    if k < len(single):
        start, access = single[k]
        return Part(access.space, access.home, start)
    return Part("filled", -1, 0, role="bytes from the source size on are zero")
