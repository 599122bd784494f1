"""`tcgen05.cp` and `tcgen05.shift`: where each copied row lands, where it is read from, how chunks
are decompressed.

SPEC: Source: PTX ISA 9.7.16.9 "Tensor Memory Data Movement"; public CUTLASS UTCCP traits;
destination maps asserted on a B200 by Apache TVM's `test_tcgen05_cp.py`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drywell.base.errors import UnsupportedError
from drywell.base.record import record
from drywell.layout.arrays import ByteArray, IntArray, frozen
from drywell.layout.descriptor import SmemDescriptor
from drywell.layout.error import LayoutError
from drywell.layout.operand import CHUNK_BYTES, chunk_addresses

SHIFT_LANES = 31
SHIFT_COLS = 8


@record
class CpShape:
    """One legal (shape, multicast) pair of `tcgen05.cp`.

    Row i goes to lane `inner_step * (i % inner) + outer_step * (i // inner)`, and again at each of
    `replicas` lanes further on. A row is `num_cols` columns, that is `num_cols / 4` chunks of 16
    bytes.
    """

    shape: str
    multicast: str
    num_rows: int
    num_cols: int
    inner: int
    inner_step: int
    outer_step: int
    replicas: tuple[int, ...]

    @property
    def num_chunks(self) -> int:
        """16-byte chunks per row."""
        return self.num_cols // 4

    @property
    def span_lanes(self) -> int:
        """Lanes from the base to the last one written, inclusive."""
        last = self.inner_step * (self.inner - 1) + self.outer_step * (self.num_rows // self.inner - 1)
        return last + max(self.replicas) + 1


CP_SHAPES: dict[tuple[str, str], CpShape] = {
    (cp.shape, cp.multicast): cp
    for cp in (
        CpShape("128x256b", "", 128, 8, 128, 1, 0, (0,)),
        CpShape("128x128b", "", 128, 4, 128, 1, 0, (0,)),
        CpShape("4x256b", "", 4, 8, 4, 32, 0, (0,)),
        CpShape("64x128b", "warpx2::02_13", 64, 4, 64, 1, 0, (0, 64)),
        CpShape("64x128b", "warpx2::01_23", 64, 4, 32, 1, 64, (0, 32)),
        CpShape("32x128b", "warpx4", 32, 4, 32, 1, 0, (0, 32, 64, 96)),
    )
}
"""(shape, multicast; '' for none) to its maps; other pairs do not exist."""


def cp_shape(shape: str, multicast: str = "") -> CpShape:
    """Return the maps of a pair; LayoutError E0440 when the two do not go together.

    >>> cp_shape("32x128b", "warpx4").num_rows
    32
    """
    found = CP_SHAPES.get((shape, multicast))
    if found is None:
        allowed = [m or "no multicast" for s, m in CP_SHAPES if s == shape]
        hint = (
            f"'.{shape}' goes with {' or '.join(allowed)}"
            if allowed
            else "one of " + ", ".join(dict.fromkeys(s for s, _ in CP_SHAPES))
        )
        raise LayoutError("E0440", f"no tcgen05.cp '.{shape}' with {multicast or 'no multicast'}", hint=hint)
    return found


@lru_cache(maxsize=16)
def destination_lanes(shape: str, multicast: str = "") -> IntArray:
    """Return the lanes each source row is written to, relative to the address's lane: [copies,
    rows].

    Word w of the row goes to column w, byte b to byte b % 4 of column b // 4.

    >>> destination_lanes("64x128b", "warpx2::01_23")[:, 40].tolist()
    [72, 104]
    """
    cp = cp_shape(shape, multicast)
    row = np.arange(cp.num_rows)
    lane = cp.inner_step * (row % cp.inner) + cp.outer_step * (row // cp.inner)
    return frozen(np.array(cp.replicas)[:, None] + lane[None, :])


def source_chunks(desc: SmemDescriptor, shape: str, multicast: str = "") -> IntArray:
    """Return the SMEM byte address of every 16-byte chunk read: [rows, chunks per row].

    The source is K-major with 8-row groups. UnsupportedError for what no source describes: a base
    offset, the mode with 32-byte atoms, an absolute leading offset. ASSUMED: these three are
    refused.

    >>> d = SmemDescriptor(start=0, lbo_bytes=0, sbo_bytes=1024, swizzle=2)
    >>> source_chunks(d, "128x256b")[3].tolist()
    [432, 416]
    """
    cp = cp_shape(shape, multicast)
    if desc.swizzle == 1 or desc.lbo_is_absolute:
        what = "an absolute leading offset" if desc.lbo_is_absolute else "32-byte swizzle atoms"
        raise UnsupportedError(f"tcgen05.cp from a SMEM descriptor with {what}")
    return chunk_addresses(desc, cp.num_rows, cp.num_chunks * CHUNK_BYTES, 1)


@record
class SourceFormat:
    """A decompressing source format: 16 codes of `bits`, packed low first in a 16-byte chunk, each
    going to one byte at bit `shift`; the other bits of the byte are 0.
    """

    name: str
    bits: int
    shift: int


SOURCE_FORMATS: dict[str, SourceFormat] = {
    # ASSUMED: the shifts come from one vendor example (CuTe DSL cp_narrow_a_to_tmem_mma); the element
    # order is the natural one of the packers in it. Warp-level mma and ldmatrix place them differently.
    "b4x16_p64": SourceFormat("b4x16_p64", 4, 2),
    "b6x16_p32": SourceFormat("b6x16_p32", 6, 1),
}


def decompress(chunks: ByteArray, source_format: str) -> ByteArray:
    """Expand packed chunks: uint8 [..., 16] in and out, padding ignored.

    >>> decompress(np.frombuffer(bytes([0x21, 0x43] + [0] * 14), dtype=np.uint8), "b4x16_p64")[:4].tolist()
    [4, 8, 12, 16]
    """
    form = SOURCE_FORMATS[source_format]
    bits = np.unpackbits(chunks, axis=-1, bitorder="little")[..., : CHUNK_BYTES * form.bits]
    codes = bits.reshape(*chunks.shape[:-1], CHUNK_BYTES, form.bits)
    placed = np.zeros((*codes.shape[:-1], 8), dtype=np.uint8)
    placed[..., form.shift : form.shift + form.bits] = codes
    return np.packbits(placed, axis=-1, bitorder="little")[..., 0]


def shift_source_lane(lane: int) -> int:
    """Return which lane's old value `tcgen05.shift.down` puts into `lane`: the next one, the last
    of 32 its own.

    ASSUMED: direction inferred from the vendor's formula for `.ashift`.

    >>> shift_source_lane(32), shift_source_lane(63)
    (33, 63)
    """
    return lane if lane % (SHIFT_LANES + 1) == SHIFT_LANES else lane + 1
