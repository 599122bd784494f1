"""The arithmetic of `mma.sync` for one instruction.

MEASURED (H200, 200,000 words in every shape; ASSUMED the same on a B200): f16, bf16 and tf32 go through the
window that tcgen05.mma has, over the K of the instruction and the old D; f64 is a chain of fused
multiply-adds, k ascending, from C on; 8-bit floats and m8n8k4 are made of other instructions, see there.
Integers are exact, wrapped or clamped once (SPEC).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.numerics.conversion import convert
from drywell.numerics.dot import mma_f16, mma_f32
from drywell.numerics.formats import BoolArray
from drywell.numerics.integer_dot import mma_i8
from drywell.numerics.rounding import Rounding
from drywell.numerics.softfloat import add, fma, mul

ZERO_C_EXPONENT = -133
"""Exponent that a zero C has in the window: nothing finer than 2^-158 is kept. MEASURED (H200; a zero product
has none)."""

_BYTES = ("e4m3", "e5m2")

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
    live: BoolArray | None = None,
) -> NDArray[Any]:
    """Return A * B^T + C as codes [M, N] of D's format; `a` is [M, K], `b` [N, K], `c` [M, N], all codes.

    `formats` are those of A, B and D, which C shares. `rounding` counts for f64, `saturate` for integers.
    A sparse A comes expanded, with its mask `live` [M, K] (`sparsity.expand`).

    >>> ones = np.full((8, 4), 0x3FF0000000000000, np.uint64)
    >>> hex(warp_mma(ones, ones, np.zeros((8, 8), np.uint64), ("f64", "f64", "f64"))[0, 0])
    '0x4010000000000000'
    """
    a_fmt, b_fmt, d_fmt = formats
    if a_fmt in INTEGERS:
        left, right = _bytes(a, a_fmt), _bytes(b, b_fmt)
        return mma_i8(left, right, c, INTEGERS[a_fmt], INTEGERS[b_fmt], saturate, live=live)
    if a_fmt == "f64":
        out = c
        for k in range(a.shape[1]):
            out = fma("f64", a[:, k, None], b[None, :, k], out, rounding)
        return out
    if a_fmt in _BYTES:
        return _of_bytes(a, b, c, formats, live, zero_products_in_window)
    counts_zeros = zero_products_in_window
    if d_fmt == "f16":
        return mma_f16(a, b, c, a_fmt, b_fmt, zero_products_in_window=counts_zeros, live=live)
    zero_d = None if counts_zeros else ZERO_C_EXPONENT
    return mma_f32(
        a,
        b,
        c,
        a_fmt,
        b_fmt,
        zero_products_in_window=counts_zeros,
        live=live,
        zero_d_exponent=zero_d,
    )


def _bytes(codes: NDArray[Any], fmt: str) -> NDArray[np.uint8]:
    """Return integers as bytes, nibbles extended by their sign or by zeros."""
    values = codes.astype(np.uint8)
    return ((values ^ 8) - 8).astype(np.uint8) if fmt == "s4" else values


def _of_bytes(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    formats: tuple[str, str, str],
    live: BoolArray | None,
    zero_products_in_window: bool,
) -> NDArray[Any]:
    """Return the product of 8-bit floats: two of f16, one after the other from zero on, to which C is added.

    MEASURED (H200, 56,000 words): the first takes the lower half of every register, two neighbours of four
    along k (of a sparse A every other chunk). ptxas 13.0 makes the same instructions for sm_90a and sm_100a.
    """
    a_fmt, b_fmt, d_fmt = formats
    left, right = convert(a, a_fmt, "f16"), convert(b, b_fmt, "f16")
    is_lower = np.arange(a.shape[1]) // (2 if live is None else 4) % 2 == 0
    product: Any = mma_f32 if d_fmt == "f32" else mma_f16
    total: Any = None
    for half in (is_lower, ~is_lower):
        total = product(
            left[:, half],
            right[:, half],
            total,
            "f16",
            "f16",
            zero_products_in_window=zero_products_in_window,
            live=None if live is None else live[:, half],
        )
    return add(d_fmt, c, total)


def quad_pair_mma(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], d_fmt: str) -> NDArray[Any]:
    """Return A * B^T + C of the m8n8k4 shape of f16, as codes of `d_fmt` (f16 or f32), which C has too.

    MEASURED (H200, 25,000 words): for an f32 D fused multiply-adds in f32, k ascending from +0, to which C is
    added; for an f16 D C plus the sum of each two products, in f32, rounded to f16 at the end. ptxas 13.0
    makes the same instructions for sm_90a and sm_100a.

    >>> one = np.full((8, 4), 0x3C00, np.uint16)
    >>> hex(quad_pair_mma(one, one, np.zeros((8, 8), np.uint32), "f32")[0, 0])
    '0x40800000'
    """
    left, right = convert(a, "f16", "f32")[:, None], convert(b, "f16", "f32")[None]
    if d_fmt == "f32":
        total = np.zeros(c.shape, np.uint32)
        for k in range(4):
            total = fma("f32", left[..., k], right[..., k], total)
        return add("f32", c, total)
    total = convert(c, "f16", "f32")
    for k in (0, 2):
        first = mul("f32", left[..., k], right[..., k])
        total = add("f32", total, fma("f32", left[..., k + 1], right[..., k + 1], first))
    return convert(total, "f32", "f16")
