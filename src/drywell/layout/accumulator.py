"""Where D and a TMEM-resident A lie: the accumulator layouts A..G as unions of rectangles.

SPEC: (m, n) to (cta, lane, column), columns and lanes relative to the operand's base address, one
32-bit column per element of D whatever its type. Source: PTX ISA 9.7.16.10.5 "Data path layout
organization"; public CUTLASS `mma_traits_sm100_frag.hpp`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drywell.base.record import record
from drywell.layout.arrays import IntArray, frozen
from drywell.layout.error import LayoutError
from drywell.layout.tmem import NUM_LANES

HALF_SLAB_LANES = 16


@record
class Rectangle:
    """A block of D that lies as a block in TMEM: element (`m`+i, `n`+j) is in CTA `cta` at lane
    `lane`+i, column `col`+j.
    """

    cta: int
    m: int
    n: int
    num_rows: int
    num_cols: int
    lane: int
    col: int


@record(eq=False)
class Cells:
    """Where each element lies: `cta`, `lane`, `col`, arrays of one shape."""

    cta: IntArray
    lane: IntArray
    col: IntArray


@record
class AccumulatorLayout:
    """One of the layouts A..G.

    Every CTA holds `num_rows` rows of D; `slabs` are runs of rows as (first row, first lane,
    length). With `num_splits` > 1 the columns fall into that many equal parts, part i lying
    `split_lanes * i` lanes further on. `has_half_slabs` says that the base lane may also be 16
    (modulo 32).
    """

    name: str
    num_ctas: int
    num_rows: int
    slabs: tuple[tuple[int, int, int], ...]
    num_splits: int = 1
    split_lanes: int = 0

    @property
    def M(self) -> int:
        """M of the whole instruction."""
        return self.num_ctas * self.num_rows

    @property
    def has_half_slabs(self) -> bool:
        """Whether base lane 16 is legal too: layouts C and F, which use half of the lanes."""
        return len(self.slabs) > 1

    def num_cols(self, N: int) -> int:
        """Return the TMEM columns D takes in each CTA."""
        return N // self.num_splits

    def rectangles(self, N: int) -> tuple[Rectangle, ...]:
        """Return the blocks of an M x N accumulator; together they hold each element once.

        >>> LAYOUTS["B"].rectangles(128)[1]
        Rectangle(cta=0, m=0, n=64, num_rows=64, num_cols=64, lane=64, col=0)
        """
        width = self.num_cols(N)
        return tuple(
            Rectangle(
                cta,
                cta * self.num_rows + row,
                split * width,
                length,
                width,
                lane + split * self.split_lanes,
                0,
            )
            for cta in range(self.num_ctas)
            for split in range(self.num_splits)
            for row, lane, length in self.slabs
        )

    def cells(self, N: int) -> Cells:
        """Return (cta, lane, col) of every element, each [M, N].

        >>> c = LAYOUTS["F"].cells(64)
        >>> int(c.lane[40, 3]), int(c.col[40, 3])
        (72, 3)
        """
        return _cells(self.name, N)

    def elements(self, N: int) -> tuple[IntArray, IntArray]:
        """Return which element lies in each cell: (m, n), each [num_ctas, 128, num_cols(N)]; -1
        where there is none.
        """
        return _elements(self.name, N)

    def a_lanes(self) -> tuple[IntArray, IntArray]:
        """Return where the rows of a TMEM-resident A lie: cta [M] and lane [copies, M].

        Rows lie as those of D; where the columns of D are split over lanes, A is present once per
        part. Copy i feeds part i. ASSUMED for `.ws` (layouts E and G); for B from public CUTLASS
        `TmemAllocMode::Duplicated`.
        """
        return _a_lanes(self.name)

    def named(self, N: int) -> str:
        """Return the layout of one CTA's part in named-axis notation, over the logical shape (rows,
        N).

        >>> LAYOUTS["G"].named(64)
        'S[(32, 4, 16) : (1@TLane, 32@TLane, 1@TCol)]'
        """
        from drywell.layout.places import layout_of  # the notation is for messages: it is not needed to run

        cells = self.cells(N)
        return str(layout_of({"TLane": cells.lane[: self.num_rows], "TCol": cells.col[: self.num_rows]}))


_WHOLE, _LOWER, _FIRST = ((0, 0, 128),), ((0, 0, 64),), ((0, 0, 32),)
_HALF_SLABS = tuple((16 * i, 32 * i, 16) for i in range(4))

LAYOUTS: dict[str, AccumulatorLayout] = {
    layout.name: layout
    for layout in (
        AccumulatorLayout("A", 2, 128, _WHOLE),
        AccumulatorLayout("B", 2, 64, _LOWER, num_splits=2, split_lanes=64),
        AccumulatorLayout("C", 2, 64, _HALF_SLABS),
        AccumulatorLayout("D", 1, 128, _WHOLE),
        # ASSUMED: the manual prints "2x3" for E where every other source has the 2x2 of B.
        AccumulatorLayout("E", 1, 64, _LOWER, num_splits=2, split_lanes=64),
        AccumulatorLayout("F", 1, 64, _HALF_SLABS),
        AccumulatorLayout("G", 1, 32, _FIRST, num_splits=4, split_lanes=32),
    )
}

_CHOICE: dict[tuple[int, int, bool, bool], str] = {
    **{(256, 2, sparse, False): "A" for sparse in (False, True)},
    (128, 2, False, False): "B",
    (128, 2, True, False): "C",
    **{(128, 1, sparse, ws): "D" for sparse in (False, True) for ws in (False, True)},
    **{(64, 1, sparse, True): "E" for sparse in (False, True)},
    **{(64, 1, sparse, False): "F" for sparse in (False, True)},
    **{(32, 1, sparse, True): "G" for sparse in (False, True)},
}


def accumulator_layout(
    M: int, cta_group: int, is_sparse: bool = False, is_ws: bool = False
) -> AccumulatorLayout:
    """Return the layout of D for a form; LayoutError E0433 when no form has that M.

    >>> accumulator_layout(64, 1).name, accumulator_layout(128, 2, is_sparse=True).name
    ('F', 'C')
    """
    name = _CHOICE.get((M, cta_group, is_sparse, is_ws))
    if name is None:
        ws = " .ws" if is_ws else ""
        taken = sorted({m for m, group, _, w in _CHOICE if group == cta_group and w == is_ws})
        raise LayoutError(
            "E0433",
            f"no accumulator layout for M = {M} with cta_group::{cta_group}{ws}",
            hint=f"M is {' or '.join(map(str, taken))} there" if taken else ".ws goes with cta_group::1 only",
        )
    return LAYOUTS[name]


@lru_cache(maxsize=256)
def _cells(name: str, N: int) -> Cells:
    layout = LAYOUTS[name]
    cta, lane, col = (np.empty((layout.M, N), dtype=np.int64) for _ in range(3))
    for r in layout.rectangles(N):
        block = np.s_[r.m : r.m + r.num_rows, r.n : r.n + r.num_cols]
        cta[block] = r.cta
        lane[block] = r.lane + np.arange(r.num_rows)[:, None]
        col[block] = r.col + np.arange(r.num_cols)[None, :]
    return Cells(frozen(cta), frozen(lane), frozen(col))


@lru_cache(maxsize=64)
def _elements(name: str, N: int) -> tuple[IntArray, IntArray]:
    layout = LAYOUTS[name]
    cells = layout.cells(N)
    m = np.full((layout.num_ctas, NUM_LANES, layout.num_cols(N)), -1, dtype=np.int64)
    n = m.copy()
    rows, cols = np.indices((layout.M, N))
    m[cells.cta, cells.lane, cells.col] = rows
    n[cells.cta, cells.lane, cells.col] = cols
    return frozen(m), frozen(n)


@lru_cache(maxsize=16)
def _a_lanes(name: str) -> tuple[IntArray, IntArray]:
    layout = LAYOUTS[name]
    cta = np.repeat(np.arange(layout.num_ctas), layout.num_rows)
    one = np.concatenate([lane + np.arange(length) for _, lane, length in layout.slabs])
    rows = np.tile(one, layout.num_ctas)
    copies = np.arange(layout.num_splits)[:, None] * layout.split_lanes
    return frozen(cta), frozen(rows[None, :] + copies)


def a_position(k: int, container_bits: int) -> tuple[int, int]:
    """Return (column, bit) of stored element `k` of a TMEM-resident row of A, packed little-endian
    into 32-bit words.

    `container_bits` is 32 for tf32, 16, 8 for every type of f8f6f4 and mxf8f6f4 (4- and 6-bit ones
    sit in byte containers), 4 for the packed kinds. Source: PTX ISA 9.7.16.10.4.

    >>> a_position(5, 16), a_position(9, 4)
    ((2, 16), (1, 4))
    """
    col, index = divmod(k, 32 // container_bits)
    return col, index * container_bits


def a_cols(num_k: int, container_bits: int) -> int:
    """Return the columns that a row of `num_k` stored elements takes.

    >>> a_cols(16, 16), a_cols(96, 4)
    (8, 12)
    """
    return num_k * container_bits // 32
