"""TMEM geometry and the 32-bit TMEM address.

SPEC: 128 lanes x 512 columns of 32-bit cells per CTA view; an address is `lane << 16 | column`;
warp `w` of a warpgroup reaches lanes `32*(w % 4) .. +31` with `tcgen05.ld/st`.
Source: PTX ISA 9.7.16.1 "Tensor Memory", 9.7.16.1.1 "Tensor Memory Addressing", 9.7.16.8.1 "Access
restrictions".
"""

from __future__ import annotations

from typing import NewType

from drywell.layout.error import LayoutError

TmemAddr = NewType("TmemAddr", int)

NUM_LANES = 128
NUM_COLS = 512
CELL_BYTES = 4
PARTITION_LANES = 32
NUM_PARTITIONS = NUM_LANES // PARTITION_LANES
GRANULE_COLS = 32
ALLOC_COLS = (32, 64, 128, 256, 512)


def encode(lane: int, col: int) -> TmemAddr:
    """Build the address of cell (`lane`, `col`); LayoutError E0410 when there is no such cell.

    >>> hex(encode(37, 300))
    '0x25012c'
    """
    if not (0 <= lane < NUM_LANES and 0 <= col < NUM_COLS):
        raise LayoutError(
            "E0410",
            f"no TMEM cell at lane {lane}, column {col}",
            hint=f"lanes are 0..{NUM_LANES - 1} and columns 0..{NUM_COLS - 1}",
        )
    return TmemAddr(lane << 16 | col)


def decode(taddr: int) -> tuple[int, int]:
    """Split an address word into its (lane, column) fields, 16 bits each, whether or not such a
    cell exists.

    >>> decode(0x0025012C)
    (37, 300)
    """
    return (taddr >> 16) & 0xFFFF, taddr & 0xFFFF


def advance(taddr: int, offset: int) -> TmemAddr:
    """Add `offset` the way the hardware does: a plain 32-bit add, columns carrying into lanes.

    >>> decode(advance(encode(0, 8), 16 << 16))
    (16, 8)
    """
    return TmemAddr((taddr + offset) & 0xFFFFFFFF)


def cell_exists(lane: int, col: int) -> bool:
    """Say whether (`lane`, `col`) names one of the 128 x 512 cells."""
    return 0 <= lane < NUM_LANES and 0 <= col < NUM_COLS


def cols_exist(col: int, num_cols: int) -> bool:
    """Say whether columns `col .. col+num_cols-1` all exist; TMEM does not wrap.

    >>> cols_exist(508, 4), cols_exist(510, 4)
    (True, False)
    """
    return num_cols > 0 and 0 <= col and col + num_cols <= NUM_COLS


def granules(col: int, num_cols: int) -> range:
    """Return the allocation granules (32 columns each) that columns `col .. col+num_cols-1` touch.

    >>> granules(60, 8)
    range(1, 3)
    """
    return range(col // GRANULE_COLS, (col + num_cols - 1) // GRANULE_COLS + 1)


def num_cols_is_allocatable(num_cols: int) -> bool:
    """Say whether `tcgen05.alloc` may ask for `num_cols`: 32, 64, 128, 256 or 512 and nothing
    between.
    """
    return num_cols in ALLOC_COLS


def warp_lanes(warp_id: int) -> range:
    """Return the lanes that warp `warp_id` (linear thread id / 32) may touch with ld and st.

    >>> warp_lanes(6)
    range(64, 96)
    """
    first = PARTITION_LANES * (warp_id % NUM_PARTITIONS)
    return range(first, first + PARTITION_LANES)


def partition_of(taddr: int) -> int:
    """Return the 32-lane partition (0..3) an address points into, from bits 22..21 as the
    hardware's own guard does.
    """
    return (taddr >> 21) & (NUM_PARTITIONS - 1)


def in_warp_window(taddr: int, warp_id: int) -> bool:
    """Say whether the address lies in the lane window of warp `warp_id`."""
    return decode(taddr)[0] in warp_lanes(warp_id)


def local_lane(taddr: int, warp_id: int) -> int:
    """Return the lane the lenient reading gives: the address's low five lane bits inside the warp's
    own window.

    ASSUMED: two readings of an address outside the window exist (trap, or local index); the strict
    one is the default.

    >>> local_lane(encode(0, 0), 2)
    64
    """
    return warp_lanes(warp_id).start + (decode(taddr)[0] & (PARTITION_LANES - 1))


def hardware_col(element: int, element_bits: int) -> tuple[int, int]:
    """Return (32-bit column, position within it) of TCol coordinate `element`, which counts
    elements, not columns.

    >>> hardware_col(5, 16)
    (2, 1)
    """
    return divmod(element, 32 // element_bits)
