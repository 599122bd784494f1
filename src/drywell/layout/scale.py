"""Where scale factors lie: in TMEM as the block-scaled `tcgen05.mma` reads them, and in memory as
cuBLAS and CUTLASS store them; and where sparsity metadata lies.

SPEC where not said otherwise. Source: PTX ISA 9.7.16.10.7 "Scale factors", 9.7.16.10.8 "Sparse
matrices"; public CUTLASS `Sm1xxBlockScaledConfig`, `tmem_sf_frg`, `tmem_e_frg`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drywell.base.record import record
from drywell.layout.accumulator import LAYOUTS, Cells
from drywell.layout.arrays import IntArray, frozen
from drywell.layout.error import LayoutError
from drywell.layout.tmem import NUM_PARTITIONS, PARTITION_LANES

SCALE_VECS: dict[tuple[str, str], str] = {
    ("mxf8f6f4", ""): "1X",
    ("mxf8f6f4", "1X"): "1X",
    ("mxf8f6f4", "block32"): "1X",
    ("mxf4", ""): "2X",
    ("mxf4", "2X"): "2X",
    ("mxf4", "block32"): "2X",
    ("mxf4nvf4", "2X"): "2X",
    ("mxf4nvf4", "block32"): "2X",
    ("mxf4nvf4", "4X"): "4X",
    ("mxf4nvf4", "block16"): "4X",
}
"""(kind, qualifier; '' for none) to the scale vector it means; pairs that are absent do not
exist.
"""

BLOCK_BYTES = 512
BLOCK_ROWS = 128
BLOCK_SCALES = 4


def num_scale_blocks(scale_vec: str, is_k96: bool = False) -> int:
    """Return the scales per row of one instruction: 1, 2 or 4; 3 (block32) or 6 (block16) at K =
    96.

    >>> num_scale_blocks("2X"), num_scale_blocks("4X", is_k96=True)
    (2, 6)
    """
    if is_k96:
        return {"2X": 3, "4X": 6}[scale_vec]
    return {"1X": 1, "2X": 2, "4X": 4}[scale_vec]


def scale_block_k(K: int, scale_vec: str, is_k96: bool = False) -> int:
    """Return how many consecutive logical k share a scale; a sparse K is the doubled one, and so is
    the block.

    >>> scale_block_k(64, "4X"), scale_block_k(64, "1X"), scale_block_k(96, "2X", is_k96=True)
    (16, 64, 32)
    """
    return K // num_scale_blocks(scale_vec, is_k96)


@record(eq=False)
class ScaleCells:
    """Where scales lie, relative to the operand's base: lane [copies, rows, blocks], col and byte
    [rows, blocks].

    All copies must hold the same bytes.
    """

    lane: IntArray
    col: IntArray
    byte: IntArray


@lru_cache(maxsize=256)
def scale_cells(num_rows: int, num_blocks: int, scale_id: int) -> ScaleCells:
    """Return where the scales of `num_rows` rows of A (or columns of B) lie, replicated over the
    four partitions.

    Bytes beyond the fourth go to a further word 4 columns per 128 rows on. ASSUMED for that word (K
    = 96 only).

    >>> c = scale_cells(128, 2, 2)
    >>> c.lane[:, 77, 1].tolist(), int(c.col[77, 1]), int(c.byte[77, 1])
    ([13, 45, 77, 109], 2, 3)
    """
    return _scale_cells(np.arange(num_rows), num_rows, num_blocks, scale_id, NUM_PARTITIONS, 0)


@lru_cache(maxsize=64)
def split_scale_cells(N: int, num_blocks: int, scale_id: int) -> ScaleCells:
    """Return where SFB lies for M = 128 with cta_group::2: split as the columns of D are, each half
    twofold.

    Columns of the lower half are in lanes 0..63, of the upper in 64..127. ASSUMED.
    Source: public CUTLASS `ScaleFactorDuplicated2by2`.

    >>> split_scale_cells(256, 1, 0).lane[:, 130, 0].tolist()
    [66, 98]
    """
    half = N // 2
    n = np.arange(N)
    return _scale_cells(n % half, half, num_blocks, scale_id, 2, 64 * (n // half))


def _scale_cells(
    row: IntArray, num_rows: int, num_blocks: int, scale_id: int, copies: int, lane_base: IntArray | int
) -> ScaleCells:
    position = scale_id + np.arange(num_blocks)[None, :]
    word, byte = position // BLOCK_SCALES, position % BLOCK_SCALES
    word_cols = 4 * -(-num_rows // BLOCK_ROWS)
    col = (row // PARTITION_LANES)[:, None] + word * word_cols
    lane = (row % PARTITION_LANES + lane_base)[None, :, None] + PARTITION_LANES * np.arange(copies)[
        :, None, None
    ]
    shape = (row.size, num_blocks)
    return ScaleCells(
        frozen(np.broadcast_to(lane, (copies, *shape))),
        frozen(np.broadcast_to(col, shape)),
        frozen(np.broadcast_to(byte, shape)),
    )


def scale_offset(row: int, scale: int, num_scales: int) -> int:
    """Return the byte offset of scale (row, `scale`) of a matrix with `num_scales` scales per row,
    in memory.

    Blocks of 128 rows x 4 scales take 512 bytes, K-first. Source: public CUTLASS
    `Sm1xxBlockScaledConfig`; cuBLAS documentation "1D block scaling factors layout".

    >>> scale_offset(77, 6, 8), scale_offset(200, 1, 8)
    (730, 1161)
    """
    blocks_per_row = -(-num_scales // BLOCK_SCALES)
    block = (row // BLOCK_ROWS) * blocks_per_row + scale // BLOCK_SCALES
    within = (row % 32) * 16 + ((row % BLOCK_ROWS) // 32) * 4 + scale % BLOCK_SCALES
    return block * BLOCK_BYTES + within


def scale_offsets(num_rows: int, num_scales: int) -> IntArray:
    """Return `scale_offset` for a whole matrix of scales, [num_rows, num_scales]."""
    row = np.arange(num_rows, dtype=np.int64)[:, None]
    scale = np.arange(num_scales, dtype=np.int64)[None, :]
    blocks_per_row = -(-num_scales // BLOCK_SCALES)
    block = (row // BLOCK_ROWS) * blocks_per_row + scale // BLOCK_SCALES
    return block * BLOCK_BYTES + (row % 32) * 16 + ((row % BLOCK_ROWS) // 32) * 4 + scale % BLOCK_SCALES


@record(eq=False)
class MetadataCells:
    """Where sparsity codes lie: `cells` of shape [copies, M, codes], and the nibble (4 bits, low
    first) in the cell.
    """

    cells: Cells
    nibble: IntArray


def num_codes(kind: str) -> int:
    """Return the 4-bit codes per row of one sparse instruction: 8 for f16 and tf32, 16 for the
    others.
    """
    return 8 if kind in ("f16", "tf32") else 16


@lru_cache(maxsize=64)
def metadata_cells(layout: str, kind: str, selector: int = 0) -> MetadataCells:
    """Return where the codes of a sparse A lie, for accumulator layout A..G; `selector` is idesc
    bits 0-1.

    Lanes and columns are relative to the metadata address, which has the same lane alignment as D.
    LayoutError E0434 for layout B, which is a dense one. ASSUMED for selectors 2 and 3, and for the
    copies of `.ws`.

    >>> m = metadata_cells("D", "f16", selector=1)
    >>> int(m.cells.lane[0, 27, 6]), int(m.cells.col[0, 27, 6]), int(m.nibble[27, 6])
    (27, 1, 6)
    """
    if layout == "B":
        raise LayoutError(
            "E0434", "layout B belongs to dense instructions", hint="sparse M = 128 pairs use layout C"
        )
    acc = LAYOUTS[layout]
    cta, lanes = acc.a_lanes()
    row = np.arange(acc.M)[:, None] % acc.num_rows
    code = np.arange(num_codes(kind))[None, :]
    if num_codes(kind) == 8:
        slab = (32 if acc.has_half_slabs else 16) * (row // 16)
        first = slab + row % 8 + 8 * (code // 4)
        col = np.full_like(code, selector)
        nibble = 4 * ((row % 16) // 8) + code % 4
    else:
        first = lanes[0][:, None]
        col, nibble = code // 8, code % 8
    shape = (acc.M, code.size)
    copies = np.arange(acc.num_splits)[:, None, None] * acc.split_lanes
    full = (acc.num_splits, *shape)
    cells = Cells(
        frozen(np.broadcast_to(cta[None, :, None], full)),
        frozen(np.broadcast_to(np.broadcast_to(first, shape)[None] + copies, full)),
        frozen(np.broadcast_to(col, full)),
    )
    return MetadataCells(cells, frozen(np.broadcast_to(nibble, shape)))
