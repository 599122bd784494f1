"""The arithmetic of `mma.sync` for one instruction.

ASSUMED: f16, bf16, tf32 and 8-bit floats go through the window that tcgen05.mma has, over the K of the
instruction and the old D; no public source measured the warp-level product on Blackwell.
ASSUMED: f64 is a chain of fused multiply-adds, k ascending, from C on. Integers are exact, wrapped or
clamped once (SPEC).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.numerics.dot import mma_f16, mma_f32
from drywell.numerics.integer_dot import mma_i8
from drywell.numerics.rounding import Rounding
from drywell.numerics.softfloat import fma

INTEGERS = {"s8": True, "u8": False, "s4": True, "u4": False}
"""Integer elements -> signed."""


def warp_mma(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    formats: tuple[str, str, str],
    *,
    rounding: Rounding = "rn",
    saturate: bool = False,
    zero_products_in_window: bool = False,
) -> NDArray[Any]:
    """Return A * B^T + C as codes [M, N] of D's format; `a` is [M, K], `b` [N, K], `c` [M, N], all codes.

    `formats` are those of A, B and D, which C shares. `rounding` counts for f64, `saturate` for integers.

    >>> ones = np.full((8, 4), 0x3FF0000000000000, np.uint64)
    >>> hex(warp_mma(ones, ones, np.zeros((8, 8), np.uint64), ("f64", "f64", "f64"))[0, 0])
    '0x4010000000000000'
    """
    a_fmt, b_fmt, d_fmt = formats
    if a_fmt in INTEGERS:
        left, right = _bytes(a, a_fmt), _bytes(b, b_fmt)
        return mma_i8(left, right, c, INTEGERS[a_fmt], INTEGERS[b_fmt], saturate)
    if a_fmt == "f64":
        out = c
        for k in range(a.shape[1]):
            out = fma("f64", a[:, k, None], b[None, :, k], out, rounding)
        return out
    product = mma_f32 if d_fmt == "f32" else mma_f16
    return product(a, b, c, a_fmt, b_fmt, zero_products_in_window=zero_products_in_window)


def _bytes(codes: NDArray[Any], fmt: str) -> NDArray[np.uint8]:
    """Return integers as bytes, nibbles extended by their sign or by zeros."""
    values = codes.astype(np.uint8)
    return ((values ^ 8) - 8).astype(np.uint8) if fmt == "s4" else values
