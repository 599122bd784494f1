"""The tensor core's integer dot product: exact, wrapped or clamped once.

MEASURED: exact sum of all products of the instruction and the old D, then one clamp or the low 32 bits; B200,
by sf-tensor/tcgen05 (MODEL.md, section 6).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.numerics.formats import BoolArray
from drywell.numerics.window import check_shapes

_LIMITS = (-(1 << 31), (1 << 31) - 1)


def mma_i8(
    a_codes: ArrayLike,
    b_codes: ArrayLike,
    d_bits: ArrayLike | None,
    a_signed: bool,
    b_signed: bool,
    saturate: bool = False,
    *,
    live: BoolArray | None = None,
) -> NDArray[np.uint32]:
    """Return D = A * B^T + D as s32 words [M, N], clamped with `saturate`, else modulo 2^32.

    `a_codes` is [M, K], `b_codes` [N, K], bytes; s8 where signed, else u8. `d_bits` are s32 words [M, N], or
    None when D is not read. `live` [M, K] says which elements of a sparse A take part (`sparsity.expand`).

    >>> ones = np.full((1, 32), 255, np.uint8)
    >>> hex(mma_i8(ones, ones, [[0x7FFFFFF0]], False, False, saturate=True)[0, 0])
    '0x7fffffff'
    """
    a, b = _integers("A", a_codes, a_signed), _integers("B", b_codes, b_signed)
    check_shapes(a, b, d_bits, live)
    if live is not None:
        a = a * live
    # |sum| stays below 2^31 up to K = 33,000, far above any instruction's.
    total = np.einsum("km,kn->mn", np.ascontiguousarray(a.T), np.ascontiguousarray(b.T))
    if d_bits is None:
        return np.asarray(total).view(np.uint32)
    words = np.asarray(d_bits).astype(np.uint32, copy=False)
    if not saturate:
        return np.asarray(total.view(np.uint32) + words)
    wide = total.astype(np.int64) + words.view(np.int32)
    return np.asarray(np.clip(wide, *_LIMITS).astype(np.int32)).view(np.uint32)


def _integers(name: str, codes: ArrayLike, signed: bool) -> NDArray[np.int32]:
    """Return bytes as integers, as a matrix."""
    matrix = np.asarray(codes).astype(np.uint8, copy=False)
    if matrix.ndim != 2:
        raise ValueError(f"{name} has {matrix.ndim} dimensions, needed are 2: rows and K")
    return matrix.view(np.int8).astype(np.int32) if signed else matrix.astype(np.int32)
