"""Which bytes of a tensor and of shared memory belong together in a tensor copy, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drywell.layout.swizzle import SWIZZLE_MODES
from drywell.machine.flow import Part, merged
from drywell.machine.im2col import pixels
from drywell.machine.tensor_map import TensorMap
from drywell.machine.tma import CHUNK, PADDED, Box, box_of

_ROW_MODES = ("tile::gather4", "tile::scatter4")


@dataclass(frozen=True)
class BoxFlow:
    """One box of a tensor copy: `base` is where it lies in the shared memory of CTA `home`, an offset in its
    window (which every swizzle's period divides); map and coordinates are as they are walked, those of an
    interleaved tensor sliced.
    """

    tmap: TensorMap
    coords: tuple[int, ...]
    home: int
    base: int
    mode: str = "tile"
    offsets: tuple[int, ...] = ()
    is_reduction: bool = False

    @cached_property
    def box(self) -> Box:
        """The box of the copy."""
        return box_of(self.tmap, self.mode, self.offsets)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The coordinates of each row of the box in dimensions 1 and up: [rows, rank - 1]."""
        if self.mode in _ROW_MODES:
            return np.array(self.coords[1:], np.int64)[:, None]
        if self.mode != "tile":
            return np.asarray(pixels(self.tmap, self.coords, self.mode, self.offsets), np.int64)
        number = np.arange(self.box.rows, dtype=np.int64)
        out = []
        for i, count in enumerate(self.box.counts, 1):
            out.append(self.coords[i] + number % count * self.tmap.element_stride[i])
            number = number // count
        return np.stack(out, 1) if out else np.zeros((self.box.rows, 0), np.int64)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The address of the tensor's element 0 of each row; -1 for rows outside the tensor."""
        dims = np.array(self.tmap.global_dim[1 : 1 + self.rows.shape[1]], np.int64)
        strides = np.array(self.tmap.global_stride[: self.rows.shape[1]], np.int64)
        inside = ((self.rows >= 0) & (self.rows < dims)).all(1)
        return np.where(inside, self.tmap.global_address + self.rows @ strides, -1)

    @property
    def _first_byte(self) -> int:
        return self.coords[0] * self.tmap.element.bits // 8

    def loaded(self, part: Part) -> tuple[Part, ...] | None:
        """Return the bytes of the tensor that a load put at a place in shared memory."""
        low, high = self.base, self.base + self.box.footprint
        if part.space != "shared" or part.home != self.home or not low <= part.address < high:
            return None
        return merged([piece for at, size in self._pieces(part) for piece in self._source(at, size)])

    def _pieces(self, part: Part) -> Iterator[tuple[int, int]]:
        """Yield (address, bytes) of the stretches of a part that stay together under the swizzle."""
        atom = min(SWIZZLE_MODES[self.tmap.swizzle].atom_bytes, CHUNK)
        at, end = part.address, part.address + part.size
        while at < end:
            stop = min(end, (at // atom + 1) * atom)
            yield at, stop - at
            at = stop

    def _source(self, at: int, size: int) -> list[Part]:
        """Return where `size` bytes at a shared address come from; nothing for padding."""
        row, col = divmod(int(SWIZZLE_MODES[self.tmap.swizzle].apply(at)) - self.base, self.box.pitch)
        if col >= self.box.smem_row_bytes or not 0 <= row < self.box.rows:
            return []
        slot, within = divmod(col, CHUNK)
        data = self.box.slot_bytes
        if self.tmap.elemtype in PADDED:
            size = max(0, min(size, data - within))
        if size == 0:
            return []
        begin = self._first_byte + slot * data + within
        end = self.tmap.global_dim[0] * self.tmap.element.bits // 8
        start = int(self.starts[row])
        if start < 0 or begin < 0 or begin >= end:
            return [Part("filled", -1, 0, size, role="the box reaches over the edge of the tensor there")]
        return [Part("global", -1, start + begin, min(size, end - begin))]

    def stored(self, part: Part) -> tuple[Part, ...] | None:
        """Return the bytes of shared memory that a store put at a place in the tensor, and for a reduction
        what was there before.
        """
        if part.space != "global":
            return None
        found = self._row_of(part.address)
        if found is None:
            return None
        row, col = found
        out = []
        for at in range(part.address, part.address + part.size):
            byte = col + at - part.address
            where = self.base + row * self.box.pitch + byte // self.box.slot_bytes * CHUNK
            where += byte % self.box.slot_bytes
            out.append(Part("shared", self.home, int(SWIZZLE_MODES[self.tmap.swizzle].apply(where))))
        before = (Part("global", -1, part.address, part.size, role="what was there"),)
        return (*merged(out), *(before if self.is_reduction else ()))

    def _row_of(self, address: int) -> tuple[int, int] | None:
        """Return the last row of the box that holds a byte of the tensor, and the byte in it."""
        col = address - self.starts - self._first_byte
        rows = np.flatnonzero((self.starts >= 0) & (col >= 0) & (col < self.box.row_bytes))
        return (int(rows[-1]), int(col[rows[-1]])) if rows.size else None
