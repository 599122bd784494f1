"""A flat byte buffer read and written by 32 lanes at once, at checked and aligned offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

LANES = 32
FULL = np.ones(LANES, np.bool_)
FULL.setflags(write=False)
LANE_IDS = np.arange(LANES, dtype=np.int64)
LANE_IDS.setflags(write=False)

Bytes: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]
Offsets: TypeAlias = NDArray[np.int64]

_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}
_SHIFTS = {1: 0, 2: 1, 4: 2, 8: 3}
_STEPS = {count: np.arange(count, dtype=np.int64) for count in (2, 4, 8, 16, 32)}


def lane_list(mask: Mask) -> tuple[int, ...]:
    """Return the ids of the lanes in `mask`, lowest first."""
    return tuple(np.flatnonzero(mask).tolist())


def named_lanes(lanes: Sequence[int]) -> str:
    """Name ascending lanes, runs folded.

    >>> named_lanes((0, 1, 2, 8))
    'lanes 0-2,8'
    """
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    folded = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    return f"lane{'s' if len(lanes) != 1 else ''} {folded}"


def active_values(values: NDArray[Any], mask: Mask) -> list[int]:
    """Return the values of the lanes in `mask` as Python integers."""
    out: list[int] = (values if mask is FULL else values[mask]).tolist()
    return out


class LaneBuffer:
    """Bytes with typed views over them. `data` is padded by the owner to a multiple of 8 bytes."""

    __slots__ = ("_views", "data")

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._views: dict[int, NDArray[Any]] = {}

    def _view(self, size: int) -> NDArray[Any]:
        """Return the data as words of so many bytes."""
        view = self._views.get(size)
        if view is None:
            whole = self.data[: self.data.size // size * size]
            view = self._views[size] = whole.view(_WORDS[size])
        return view

    def gather(self, offsets: Offsets, mask: Mask, size: int, align: int) -> Bytes:
        """Return uint8[32, size] from each lane's offset, zero for lanes outside `mask`.

        Offsets of lanes in `mask` must be in bounds and multiples of `align`; `size` is a power of two.
        """
        is_full = mask is FULL or np.count_nonzero(mask) == LANES
        if not is_full:
            offsets = np.where(mask, offsets, 0)
        word = min(size, align, 8)
        index = offsets >> _SHIFTS[word]
        if word != size:
            index = index[:, None] + _STEPS[size // word]
        out = self._view(word).take(index).view(np.uint8).reshape(LANES, size)
        if not is_full:
            out[~mask] = 0
        return out

    def scatter(self, offsets: Offsets, mask: Mask, data: Bytes, align: int) -> None:
        """Write each lane's row of `data` (uint8[32, size]); of lanes at one offset the highest wins.

        SPEC: which lane's plain store to a common address wins is undefined. Source: PTX ISA, memory
        consistency.
        """
        size = data.shape[1]
        word = min(size, align, 8)
        values = np.ascontiguousarray(data).view(_WORDS[word])
        index = offsets >> _SHIFTS[word]
        if mask is not FULL and np.count_nonzero(mask) != LANES:
            index, values = index[mask], values[mask]
        if word == size:
            self._view(word)[index] = values[:, 0]
        else:
            self._view(word)[index[:, None] + _STEPS[size // word]] = values
