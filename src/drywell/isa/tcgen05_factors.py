"""What `tcgen05.mma` reads from TMEM beside A and D: scale factors and the metadata of a sparse A.

Each 32-lane partition of the data path reads the copy of the scale factors in its own lanes, so a copy that
is missing spoils the rows of that partition. SPEC: Source: PTX ISA 9.7.16.10.7 "Scale factors" and
9.7.16.10.8 "Sparse matrices".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drywell.base.record import record
from drywell.layout.accumulator import AccumulatorLayout
from drywell.layout.scale import metadata_cells, scale_cells
from drywell.layout.tmem import NUM_LANES, PARTITION_LANES, decode
from drywell.numerics.sparsity import Selection, select

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

SCALE_ADDRESS_MASK = 0x3FFF_FFFF
"""Bits of a scale factor address that count: CUTLASS keeps the byte position in bits 30 and 31 as well."""

METADATA_COLS = 2
"""Columns of metadata that an instruction takes. SPEC: the run-time check of ptxas 13.0 has this figure."""


@record
class Factors:
    """The scale factors of one operand: `taddr` of the first, `num_rows` rows of `num_blocks` scales, the
    first of them in byte `scale_id` of its column.
    """

    taddr: int
    num_rows: int
    num_blocks: int
    scale_id: int

    @property
    def num_cols(self) -> int:
        """Columns from the first to the last that is read."""
        return int(scale_cells(self.num_rows, self.num_blocks, self.scale_id).col.max()) + 1

    def read(self, m: Warp) -> NDArray[np.uint8]:
        """Return the codes that each partition sees: [4, num_rows, num_blocks]."""
        cells = scale_cells(self.num_rows, self.num_blocks, self.scale_id)
        lane, col = decode(self.taddr)
        image = m.sm.tmem.block(m, 0, NUM_LANES, col, self.num_cols)
        words = image[lane + cells.lane, cells.col[None]]
        shift = (8 * cells.byte).astype(np.uint32)[None]
        return (words >> shift).astype(np.uint8)


def checked_cols(factors: Factors, is_a: bool, cta_group: int, M: int) -> int:
    """Return the columns that must be allocated, those read at least.

    SPEC: SFA 4 columns (2 for M = 128 in a pair), SFB 2 for each 64 columns of B: the run-time checks of
    ptxas 13.0.
    """
    if is_a:
        return max(factors.num_cols, 2 if cta_group == 2 and M == 128 else 4)
    return max(factors.num_cols, 2 * -(-factors.num_rows // 64))


def partitions(layout: AccumulatorLayout, split: int) -> tuple[int, ...]:
    """Return the partition of each run of 32 rows of D, for one part of its columns."""
    first = split * layout.split_lanes // PARTITION_LANES
    return tuple(first + i for i in range(layout.num_rows // PARTITION_LANES))


def selection(
    m: Warp, layout: AccumulatorLayout, kind: str, taddr: int, selector: int, split: int
) -> Selection:
    """Return which elements of K the rows of A in the CTA of `m` have; fault SPARSE-CODE for a code that
    means nothing.
    """
    where = metadata_cells(layout.name, kind, selector)
    lane, col = decode(taddr)
    rows = np.s_[split, : layout.num_rows]
    lanes, cols = lane + where.cells.lane[rows], col + where.cells.col[rows]
    words = m.sm.tmem.read(m, lanes, cols)
    codes = words >> (4 * where.nibble[: layout.num_rows]).astype(np.uint32) & np.uint32(15)
    chosen = select(kind, codes)
    if chosen.illegal:
        first = chosen.illegal[0]
        at = first.row, first.chunk
        m.fault(
            "SPARSE-CODE",
            f"tcgen05.mma.sp: the metadata of row {first.row}, chunk {first.chunk} (Tensor Memory lane"
            f" {int(lanes[at])}, column {int(cols[at])}) is 0x{first.code:x}, which selects nothing"
            f" ({len(chosen.illegal)} codes are undefined)",
            hint="kind::tf32 has 0x4 and 0xE, the other kinds 4, 6, 8, 9, C, D and E",
        )
    return chosen
