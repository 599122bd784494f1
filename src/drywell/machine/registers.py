"""The registers of a warp: one flat buffer, its layout, and a typed view per register.

A register of width w takes 32 lanes of w bits, lane 0 first; a predicate takes 32 bytes of 0 or 1.
Registers of one width lie together, widest first, so that every view is aligned to its own type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

LANES = 32
WIDTHS = (128, 64, 32, 16, 8, 1)

B128 = np.dtype([("lo", "<u8"), ("hi", "<u8")])
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype("<u1"),
    16: np.dtype("<u2"),
    32: np.dtype("<u4"),
    64: np.dtype("<u8"),
    128: B128,
}

LaneValues: TypeAlias = NDArray[Any]
"""One value per lane: an array of 32 of bool, uint8/16/32/64 or B128."""


def lane_dtype(width: int) -> np.dtype[Any]:
    """Return the array type of a register `width` bits wide (1 = predicate); KeyError for a width PTX has
    not.

    >>> lane_dtype(16)
    dtype('uint16')
    """
    return _DTYPES[width]


class RegisterViews(dict[int, LaneValues]):
    """The typed view of each register of a buffer, by register number; made when it is first asked for."""

    __slots__ = ("_buffer", "_layout")

    def __init__(self, layout: RegisterLayout, buffer: NDArray[np.uint8]) -> None:
        self._layout = layout
        self._buffer = buffer

    def __missing__(self, k: int) -> LaneValues:
        dtype, start = _DTYPES[self._layout.widths[k]], self._layout.offsets[k]
        view = self[k] = self._buffer[start : start + LANES * dtype.itemsize].view(dtype)
        return view

    def all(self) -> list[LaneValues]:
        """Return the views of all registers, in order."""
        return [self[k] for k in range(len(self._layout.widths))]


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """Where each register lies: `widths[i]` is register i's width in bits (1, 8, 16, 32, 64 or 128).

    >>> layout = RegisterLayout((32, 1, 64))
    >>> layout.offsets, layout.nbytes
    ((256, 384, 0), 416)
    """

    widths: tuple[int, ...]
    offsets: tuple[int, ...] = field(init=False)
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        offsets = [0] * len(self.widths)
        position = 0
        for width in WIDTHS:
            for i in (i for i, w in enumerate(self.widths) if w == width):
                offsets[i] = position
                position += LANES * _DTYPES[width].itemsize
        odd = sorted(set(self.widths) - set(WIDTHS))
        if odd:
            raise ValueError(f"registers of {odd} bits: a register has 1, 8, 16, 32, 64 or 128 bits")
        object.__setattr__(self, "offsets", tuple(offsets))
        object.__setattr__(self, "nbytes", position)

    def views(self, buffer: NDArray[np.uint8]) -> RegisterViews:
        """Return the typed view of each register of `buffer`, by register number."""
        return RegisterViews(self, buffer)
