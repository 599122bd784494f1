"""The multiplication of `numerics="fast"`: float32 in the host's BLAS; approximate. Kinds f16, tf32, f8f6f4.

Not the hardware's bits: no window, no truncation, sums in any order. The error is at most about K * 2^-24
of the sum of the terms' magnitudes. An f16 D is the caller's to round.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.numerics.formats import as_codes, to_float64
from drywell.numerics.window import check_shapes

Float32Array = NDArray[np.float32]


def mma_fast(
    a: Float32Array,
    b: Float32Array,
    d: Float32Array | None,
    *,
    negate: bool = False,
    scale_d_shift: int = 0,
    out: Float32Array | None = None,
) -> Float32Array:
    """Return about A * B^T + D * 2^-scale_d_shift in float32: `a` [M, K], `b` [N, K], `d` [M, N] or None.

    K may be that of many instructions. `negate` turns the sign of the product; `out` takes the result and
    may be `d`. NaN and Inf come out as IEEE arithmetic has them.

    >>> mma_fast(np.full((1, 16), 1.5, np.float32), np.full((1, 16), 2, np.float32), None)
    array([[48.]], dtype=float32)
    """
    check_shapes(a, b, d, None)
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.matmul(a, b.T, out=None if out is d else out)
        if negate:
            np.negative(product, out=product)
        if d is None:
            return product
        old = d if not scale_d_shift else np.ldexp(d, -scale_d_shift)
        return np.add(product, old, out=product if out is None else out)


def float32_of(fmt: str, codes: ArrayLike) -> Float32Array:
    """Return codes of any format of A, B or D as float32; every one of them is exact.

    >>> float32_of("e4m3", [0x7E, 0x01])
    array([4.480000e+02, 1.953125e-03], dtype=float32)
    """
    code = as_codes(fmt, codes)
    if code.dtype == np.uint8:
        return np.asarray(_small_values(fmt)[code])
    if fmt == "f16":
        with np.errstate(invalid="ignore"):
            return code.view(np.float16).astype(np.float32)
    if fmt == "bf16":
        code = code.astype(np.uint32) << np.uint32(16)
    elif fmt == "tf32":
        code = code & np.uint32(0xFFFFE000)
    return code.view(np.float32)


@cache
def _small_values(fmt: str) -> Float32Array:
    """Return the values of the 256 codes of an 8-bit container."""
    return to_float64(fmt, np.arange(256, dtype=np.uint8)).astype(np.float32)
