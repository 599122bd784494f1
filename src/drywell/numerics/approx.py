"""The approximate functions of PTX (`.approx`, `div.full`): computed in float64 and rounded once.

ASSUMED: every f32 result is the nearest to a float64 evaluation. PTX only bounds the hardware's
error; its bits come from tables that are not public. MEASURED, H200, 6,000 arguments each: special
values equal; at most 2 ulp away for ex2, rcp, rsqrt, sqrt, div (7 to 21 % of results differ), 2^-22
absolute for lg2 near 1, 2^-21 absolute for sin and cos, 2^-16 relative for tanh; 1 unit in the last
place for f16 and bf16.
Source: PTX ISA, "Floating Point Instructions": rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh, div.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.numerics.conversion import convert, flush_subnormals, from_float64
from drywell.numerics.formats import CONSTANTS, UIntArray, as_codes, to_float64

Values = NDArray[np.float64]

_F64_HIGH = np.uint64(0xFFFFFFFF00000000)
_F32_IN_F64 = np.uint64(0xFFFFFFFFE0000000)  # the bits of an f64 that a normal f32 has
_TURNS_PER_RADIAN = float(np.uint32(0x3E22F983).view(np.float32))
_DIV_LIMIT = 2.0**126


def ex2(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return 2^a; f32, f16 or bf16. -Inf gives +0.

    >>> hex(ex2("f32", np.array([0x40400000], np.uint32))[0])   # 2^3
    '0x41000000'
    """
    return _unary(fmt, np.exp2, a, ftz)


def lg2(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return log2(a); -Inf for zeros of either sign, NaN below."""
    return _unary(fmt, lambda x: np.log2(np.where(x == 0, 0.0, x)), a, ftz)


def rcp_approx(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return 1 / a; f32, or f64 in its `.approx.ftz` form (see `_coarse`)."""
    return _coarse(np.reciprocal, a) if fmt == "f64" else _unary(fmt, np.reciprocal, a, ftz)


def rsqrt(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return 1 / sqrt(a); Inf of its sign for zeros, NaN below; f32, or f64 in its `.approx.ftz` form."""
    return _coarse(_rsqrt, a) if fmt == "f64" else _unary(fmt, _rsqrt, a, ftz)


def sqrt_approx(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return the square root of a; -0 for -0, NaN below."""
    return _unary(fmt, np.sqrt, a, ftz)


def sin(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return the sine of a in radians; NaN for infinities; poor for large a, see `_turns`."""
    return _unary(fmt, lambda x: np.sin(2.0 * np.pi * _turns(x)), a, ftz)


def cos(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return the cosine of a in radians; NaN for infinities; poor for large a, see `_turns`."""
    return _unary(fmt, lambda x: np.cos(2.0 * np.pi * _turns(x)), a, ftz)


def tanh(fmt: str, a: ArrayLike) -> UIntArray:
    """Return the hyperbolic tangent of a; f32, f16 or bf16. Subnormals are kept."""
    return _unary(fmt, np.tanh, a, False)


def div_approx(a: ArrayLike, b: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return a / b of f32 as `div.approx`: for 2^126 < |b| < Inf a signed 0, or NaN if a is infinite."""
    return _quotient(a, b, ftz, limited=True)


def div_full(a: ArrayLike, b: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return a / b of f32 as `div.full`: the whole range of b."""
    return _quotient(a, b, ftz, limited=False)


def _rsqrt(x: Values) -> Values:
    """Return 1 / sqrt(x) keeping the sign of a zero: sqrt(-0) is -0."""
    return np.asarray(1.0 / np.sqrt(x))


def _turns(x: Values) -> Values:
    """Return the fraction of a turn, -1/2 to 1/2, that the sine unit sees for f32 angles in radians.

    MEASURED: ptxas 13.0 (sm_90 and sm_100a) multiplies by the f32 next to 1/(2 pi), rounding toward
    zero, first; with that, results agree with an H200 to 2^-21 at any size of angle.
    """
    product = np.asarray(x * _TURNS_PER_RADIAN)  # at most 48 bits: exact
    turns = (product.view(np.uint64) & _F32_IN_F64).view(np.float64)
    whole = np.rint(turns)
    return np.where(whole == 0, turns, turns - whole)


def _unary(fmt: str, function: Callable[[Values], Any], a: ArrayLike, ftz: bool) -> UIntArray:
    """Apply `function` in float64 and round once."""
    codes = as_codes(fmt, a)
    if ftz:
        codes = flush_subnormals(fmt, codes)
    with np.errstate(all="ignore"):
        result = _rounded(fmt, function(to_float64(fmt, codes)))
    return flush_subnormals(fmt, result) if ftz else result


def _rounded(fmt: str, values: ArrayLike) -> UIntArray:
    """Round float64 to f32, NaN canonical; f16 and bf16 are cut from that f32.

    MEASURED: ex2 and tanh of f16 and bf16 are truncated, H200 (98 % of ex2.f16 and 99.8 % of
    ex2.bf16 agree so, 63 % and 89 % when rounded to nearest).
    """
    value = np.asarray(values, np.float64)
    if fmt == "f16":  # MEASURED: beyond the range of f16 ex2 is infinite, not the largest number (H200)
        value = np.where(np.abs(value) >= 65536.0, np.copysign(np.inf, value), value)
    result = np.where(value != value, CONSTANTS["f32"].nan, from_float64("f32", value))
    return result if fmt == "f32" else convert(result, "f32", fmt, "rz")


def _coarse(function: Callable[[Values], Any], a: ArrayLike) -> UIntArray:
    """Apply `function` to the upper halves of f64 codes; subnormals flush, the result's lower half is 0.

    SPEC: PTX ISA, "rcp.approx.ftz.f64" and "rsqrt.approx.ftz.f64": only the upper 32 bits are read and made.
    MEASURED: truncating the float64 result gives the H200's word for 95 % of rcp and 98 % of rsqrt,
    others are one unit off; NaNs are 0x7fffffff00000000.
    """
    codes = flush_subnormals("f64", as_codes("f64", a) & _F64_HIGH)
    with np.errstate(all="ignore"):
        value = np.asarray(function(codes.view(np.float64)), np.float64)
    result = flush_subnormals("f64", value.view(np.uint64) & _F64_HIGH)
    return np.where(value != value, np.uint64(0x7FFFFFFF00000000), result)


def _quotient(a: ArrayLike, b: ArrayLike, ftz: bool, limited: bool) -> UIntArray:
    """Divide f32 codes in float64 and round once."""
    x, y = as_codes("f32", a), as_codes("f32", b)
    if ftz:
        x, y = flush_subnormals("f32", x), flush_subnormals("f32", y)
    with np.errstate(all="ignore"):
        p, q = to_float64("f32", x), to_float64("f32", y)
        value = np.asarray(p / q)
        if limited:
            beyond = (np.abs(q) > _DIV_LIMIT) & np.isfinite(q)
            value = np.where(beyond, p * np.copysign(0.0, q), value)
    result = _rounded("f32", value)
    return flush_subnormals("f32", result) if ftz else result
