"""Shadow memory: for each byte (or cell of Tensor Memory) who wrote it last and who has read it since.

Per place there are five numbers: the last writer's record and lane, the latest reader's record and lane,
and the number of a set of further readers that the latest one is not ordered behind. A lane of 32 means a
whole operation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WHOLE = 32
"""The lane of an access that an operation makes as a whole."""

Index = NDArray[np.int64]
Reader = tuple[int, int]


class Group(NamedTuple):
    """Places of one access that have the same party in them: the party's record and lane, how many
    places, the first of them, and the lane of the accessor (or `WHOLE`).
    """

    record: int
    lane: int
    num_places: int
    first: int
    by: int


class Shadow:
    """The shadow of a memory of `size` places."""

    __slots__ = ("_numbers", "more", "reader", "reader_lane", "sets", "size", "writer", "writer_lane")

    def __init__(self, size: int) -> None:
        self.size = size
        self.writer = np.zeros(size, np.uint32)
        self.writer_lane = np.zeros(size, np.uint8)
        self.reader = np.zeros(size, np.uint32)
        self.reader_lane = np.zeros(size, np.uint8)
        self.more = np.zeros(size, np.uint32)
        self.sets: list[frozenset[Reader]] = [frozenset()]
        self._numbers: dict[frozenset[Reader], int] = {frozenset(): 0}

    def grow(self, size: int) -> None:
        """Make room for `size` places."""
        if size <= self.size:
            return
        for name in ("writer", "writer_lane", "reader", "reader_lane", "more"):
            old = getattr(self, name)
            new = np.zeros(size, old.dtype)
            new[: old.size] = old
            setattr(self, name, new)
        self.size = size

    def clear(self, where: Any) -> None:
        """Forget what was in places."""
        for column in (self.writer, self.writer_lane, self.reader, self.reader_lane, self.more):
            column[where] = 0

    def writers(self, where: Index, by: NDArray[np.uint8]) -> list[Group]:
        """Return the last writers of places; `by` is the accessor's lane at each."""
        return _groups(self.writer[where], self.writer_lane[where], by, where)

    def readers(self, where: Index, by: NDArray[np.uint8]) -> list[Group]:
        """Return the latest readers of places."""
        return _groups(self.reader[where], self.reader_lane[where], by, where)

    def further_readers(self, where: Index, by: NDArray[np.uint8]) -> list[Group]:
        """Return the readers beside the latest ones."""
        out: list[Group] = []
        more = self.more[where]
        if not more.any():
            return out
        for number, _, count, first, lane in _groups(more, np.zeros(more.size, np.uint8), by, where):
            out += [Group(record, at, count, first, lane) for record, at in self.sets[number]]
        return out

    def wrote(self, where: Index, record: int, by: NDArray[np.uint8]) -> None:
        """Take note of a write; the readers before it are settled."""
        self.writer[where] = record
        self.writer_lane[where] = by
        self.reader[where] = 0
        self.more[where] = 0

    def read(self, where: Index, record: int, by: NDArray[np.uint8], keep: frozenset[int]) -> None:
        """Take note of a read; readers whose record is in `keep` are not ordered before it and stay."""
        if keep:
            self._keep(where, record, by, keep)
        self.reader[where] = record
        self.reader_lane[where] = by

    def _keep(self, where: Index, record: int, by: NDArray[np.uint8], keep: frozenset[int]) -> None:
        old, lanes, more = self.reader[where], self.reader_lane[where], self.more[where]
        stays = np.isin(old, list(keep)) & ((old != record) | (lanes != by)) | (more != 0)
        if not stays.any():
            return
        key = old[stays].astype(np.uint64) << np.uint64(38) | more[stays].astype(np.uint64) << np.uint64(6)
        key |= lanes[stays].astype(np.uint64)
        values, inverse = np.unique(key, return_inverse=True)
        numbers = np.zeros(values.size, np.uint32)
        for k, value in enumerate(values.tolist()):
            reader, lane = value >> 38, value & 63
            before = self.sets[value >> 6 & 0xFFFF_FFFF]
            kept = {r for r in before if r[0] in keep}
            if reader in keep:
                kept.add((reader, lane))
            numbers[k] = self._number(frozenset(kept))
        target = where[stays]
        self.more[target] = numbers[inverse]

    def _number(self, readers: frozenset[Reader]) -> int:
        number = self._numbers.get(readers)
        if number is None:
            number = self._numbers[readers] = len(self.sets)
            self.sets.append(readers)
        return number


def _groups(records: Any, lanes: Any, by: Any, where: Index) -> list[Group]:
    """Fold places with one party and one accessor's lane; places that nobody touched are left out."""
    if not records.size:
        return []
    first = int(records[0])
    if (records == first).all():
        if not first:
            return []
        if (lanes == lanes[0]).all() and (by == by[0]).all():
            return [Group(first, int(lanes[0]), records.size, int(where[0]), int(by[0]))]
    key = records.astype(np.uint64) << np.uint64(12) | lanes.astype(np.uint64) << np.uint64(6)
    key |= by.astype(np.uint64)
    values, at, counts = np.unique(key, return_index=True, return_counts=True)
    return [
        Group(value >> 12, value >> 6 & 63, int(count), int(where[k]), value & 63)
        for value, k, count in zip(values.tolist(), at.tolist(), counts.tolist(), strict=True)
        if value >> 12
    ]
