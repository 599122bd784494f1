"""Where every element of an operand tile lies in SMEM, for all swizzles, K- and MN-major.

One instruction's tile is a walk of 16-byte chunks: along K when K-major, along M or N when
MN-major. Addresses are absolute shared-window byte addresses; the sum is made first and swizzled
once.

The walk depends on the start only through its low 10 bits (the longest swizzle period is 1024
bytes), so patterns are cached relative to the start rounded down to 1024 and shifted into place.
Source: PTX ISA 9.7.16.4 "Matrix descriptors" and its canonical layouts; public CUTLASS and DeepGEMM
descriptor code.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drywell.base.errors import UnsupportedError
from drywell.layout.arrays import ByteArray, IntArray, frozen
from drywell.layout.descriptor import SmemDescriptor
from drywell.layout.error import LayoutError
from drywell.layout.swizzle import DESCRIPTOR_MODES

CHUNK_BYTES = 16
_PERIOD = 1024
_ATOM_ROWS = 8


def chunk_addresses(
    desc: SmemDescriptor, num_rows: int, num_k: int, element_bytes: int, is_mn_major: bool = False
) -> IntArray:
    """Return the byte address of every 16-byte chunk of a tile of `num_rows` rows (of A, or columns
    of B) x `num_k`.

    K-major: [num_rows, num_k * element_bytes / 16], a chunk holding consecutive k of one row.
    MN-major: [ceil(num_rows * element_bytes / 16), num_k], a chunk holding consecutive rows at one
    k. Packed and padded types count as bytes (`element_bytes` 1, `num_k` the bytes of a row).
    LayoutError for an impossible swizzle or a row that is not whole chunks; UnsupportedError for a
    base offset other than 0 with a swizzle. ASSUMED: without one it means nothing, as in Triton's
    descriptors of scale factors.

    >>> d = SmemDescriptor(start=0x400, lbo_bytes=0, sbo_bytes=1024, swizzle=2)
    >>> [hex(a) for a in chunk_addresses(d, 8, 16, 2)[5].tolist()]
    ['0x6d0', '0x6c0']
    """
    mode = desc.mode
    if desc.base_offset and desc.swizzle:
        raise UnsupportedError(
            f"SMEM descriptor with base offset {desc.base_offset}: its part in the swizzle is undocumented"
        )
    base = desc.start & ~(_PERIOD - 1)
    low = desc.start - base
    if is_mn_major:
        pattern = _mn_major(low, desc.swizzle, desc.lbo_bytes, desc.sbo_bytes, num_rows, num_k, element_bytes)
        return pattern + base
    row_bytes = num_k * element_bytes
    if row_bytes % CHUNK_BYTES:
        raise LayoutError(
            "E0422", f"rows of {row_bytes} bytes", hint=f"K-major rows are whole {CHUNK_BYTES}-byte chunks"
        )
    num_chunks = row_bytes // CHUNK_BYTES
    if desc.lbo_is_absolute:
        return (
            _absolute(low, desc.lbo_bytes - base, desc.swizzle, desc.sbo_bytes, num_rows, num_chunks) + base
        )
    if mode.name != "none":
        return _k_major(low, desc.swizzle, 0, desc.sbo_bytes, num_rows, num_chunks) + base
    return _k_major(low, 0, desc.lbo_bytes, desc.sbo_bytes, num_rows, num_chunks) + base


def smem_offsets(
    desc: SmemDescriptor, num_rows: int, num_k: int, element_bytes: int, is_mn_major: bool = False
) -> IntArray:
    """Return the byte address of the first byte of every element, [num_rows, num_k].

    Arguments and errors as `chunk_addresses`.

    >>> d = SmemDescriptor(start=0x400, lbo_bytes=0, sbo_bytes=1024, swizzle=2)
    >>> hex(smem_offsets(d, 16, 16, 2)[5, 3])
    '0x6d6'
    """
    chunks = chunk_addresses(desc, num_rows, num_k, element_bytes, is_mn_major)
    within = np.arange(0, CHUNK_BYTES, element_bytes, dtype=np.int64)
    if is_mn_major:
        rows = chunks[:, None, :] + within[None, :, None]
        return np.ascontiguousarray(rows.reshape(-1, num_k)[:num_rows])
    return (chunks[:, :, None] + within[None, None, :]).reshape(num_rows, num_k)


def gather_rows(
    smem: ByteArray,
    desc: SmemDescriptor,
    num_rows: int,
    num_k: int,
    element_bytes: int,
    is_mn_major: bool = False,
) -> ByteArray:
    """Read the tile out of a SMEM image (whole 16-byte chunks, uint8): [num_rows, num_k *
    element_bytes] bytes.

    IndexError when a chunk lies outside the image. Fast: whole chunks are taken at once.
    """
    chunks = chunk_addresses(desc, num_rows, num_k, element_bytes, is_mn_major)
    taken = np.take(smem.reshape(-1, CHUNK_BYTES), chunks >> 4, axis=0)
    if not is_mn_major:
        return taken.reshape(num_rows, num_k * element_bytes)
    per_chunk = CHUNK_BYTES // element_bytes
    elements = taken.reshape(-1, num_k, per_chunk, element_bytes).transpose(0, 2, 1, 3)
    return elements.reshape(-1, num_k * element_bytes)[:num_rows]


def overrun(
    desc: SmemDescriptor, num_rows: int, num_k: int, element_bytes: int, is_mn_major: bool = False
) -> str | None:
    """Say how a tile runs over the end of its swizzle atom, or None when it stays inside.

    ASSUMED: the plain sum then walks into the next row of the pattern; nobody documents what the
    hardware does.

    >>> overrun(SmemDescriptor(0x20, 0, 256, swizzle=6), 8, 16, 2) is None
    True
    >>> overrun(SmemDescriptor(0x70, 0, 1024, swizzle=2), 8, 16, 2)
    'rows of 32 bytes starting 112 bytes into a 128-byte swizzle atom end 16 bytes past it'
    """
    mode = desc.mode
    if mode.name == "none" or desc.lbo_is_absolute:
        return None
    inner = min(num_rows * element_bytes, mode.span_bytes) if is_mn_major else num_k * element_bytes
    first = desc.start % mode.span_bytes
    past = first + inner - mode.span_bytes
    if past <= 0:
        return None
    return (
        f"rows of {inner} bytes starting {first} bytes into a {mode.span_bytes}-byte swizzle atom "
        f"end {past} bytes past it"
    )


@lru_cache(maxsize=4096)
def _k_major(low: int, code: int, lbo: int, sbo: int, num_rows: int, num_chunks: int) -> IntArray:
    """Chunk pattern of a K-major tile; `lbo` is used only without swizzle (pass 0 otherwise)."""
    mode = DESCRIPTOR_MODES[code]
    row = np.arange(num_rows, dtype=np.int64)[:, None]
    chunk = np.arange(num_chunks, dtype=np.int64)[None, :]
    chunk_step = CHUNK_BYTES if code else lbo
    linear = low + (row % _ATOM_ROWS) * mode.span_bytes + (row // _ATOM_ROWS) * sbo + chunk * chunk_step
    return frozen(mode.apply(linear))


@lru_cache(maxsize=1024)
def _absolute(low: int, second: int, code: int, sbo: int, num_rows: int, num_chunks: int) -> IntArray:
    """Chunk pattern of a K-major tile whose rows may go on in a second buffer, at `second` from the
    rounded start.

    SPEC: sm_103a, rows of 48 bytes. Source: public CUTLASS `mma_unpack` for K = 96.
    """
    mode = DESCRIPTOR_MODES[code]
    row = np.arange(num_rows, dtype=np.int64)[:, None]
    chunk = np.arange(num_chunks, dtype=np.int64)[None, :] * CHUNK_BYTES
    rows = (row % _ATOM_ROWS) * mode.span_bytes + (row // _ATOM_ROWS) * sbo
    in_row = low % mode.span_bytes + chunk
    here = low + rows + chunk
    there = second + rows + in_row - mode.span_bytes
    return frozen(mode.apply(np.where(in_row < mode.span_bytes, here, there)))


@lru_cache(maxsize=4096)
def _mn_major(
    low: int, code: int, lbo: int, sbo: int, num_rows: int, num_k: int, element_bytes: int
) -> IntArray:
    """Chunk pattern of an MN-major tile. Without swizzle SBO steps M/N and LBO steps K; with it the
    other way round.
    """
    mode = DESCRIPTOR_MODES[code]
    num_chunks = -(-num_rows * element_bytes // CHUNK_BYTES)
    along = np.arange(num_chunks, dtype=np.int64)[:, None] * CHUNK_BYTES
    k = np.arange(num_k, dtype=np.int64)[None, :]
    if code == 0:
        linear = low + (along // CHUNK_BYTES) * sbo + (k % _ATOM_ROWS) * CHUNK_BYTES + (k // _ATOM_ROWS) * lbo
        return frozen(linear)
    k_rows = 4 if mode.atom_bytes == 32 else _ATOM_ROWS
    span = mode.span_bytes
    linear = low + along % span + (along // span) * lbo + (k % k_rows) * span + (k // k_rows) * sbo
    return frozen(mode.apply(linear))


def packed_position(k: int, element_bits: int, has_slots: bool) -> tuple[int, int]:
    """Return (byte, bit) of element `k` within its row in SMEM, low bits first.

    `has_slots` is true for 4- and 6-bit types of kinds f8f6f4 and mxf8f6f4, where 16 elements take
    a 16-byte slot and the rest of it is padding; the packed kinds mxf4 and mxf4nvf4 and whole-byte
    types have none.
    Source: PTX ISA 9.7.16.10.3 "Packing formats".

    >>> packed_position(17, 6, has_slots=True), packed_position(17, 4, has_slots=False)
    ((16, 6), (8, 4))
    """
    slot, index = divmod(k, CHUNK_BYTES) if has_slots else (0, k)
    byte, bit = divmod(index * element_bits, 8)
    return slot * CHUNK_BYTES + byte, bit
