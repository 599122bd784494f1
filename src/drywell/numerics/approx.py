"""The approximate functions of PTX (`.approx`, `div.full`): computed in float64 and rounded once.

ASSUMED: the hardware's own bits are not public; PTX only bounds their error (2 ulp or so). Here every result is
the nearest one (ties to even) to a float64 evaluation, which is inside those bounds; special values are PTX's.
Source: PTX ISA, "Floating Point Instructions": rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh, div.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.numerics.convert import flush_subnormals, from_float64
from drywell.numerics.formats import CONSTANTS, UIntArray, as_codes, to_float64

Values = NDArray[np.float64]

_F64_HIGH = np.uint64(0xFFFFFFFF00000000)
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
    """Return the sine of a in radians; NaN for infinities. ASSUMED: exact argument reduction."""
    return _unary(fmt, np.sin, a, ftz)


def cos(fmt: str, a: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return the cosine of a in radians; NaN for infinities. ASSUMED: exact argument reduction."""
    return _unary(fmt, np.cos, a, ftz)


def tanh(fmt: str, a: ArrayLike) -> UIntArray:
    """Return the hyperbolic tangent of a; f32, f16 or bf16. Subnormals are kept."""
    return _unary(fmt, np.tanh, a, False)


def div_approx(a: ArrayLike, b: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return a / b of f32 as `div.approx`: for 2^126 < |b| < Inf, 0 of the quotient's sign, or NaN if a is infinite."""
    return _quotient(a, b, ftz, limited=True)


def div_full(a: ArrayLike, b: ArrayLike, ftz: bool = False) -> UIntArray:
    """Return a / b of f32 as `div.full`: the whole range of b."""
    return _quotient(a, b, ftz, limited=False)


def _rsqrt(x: Values) -> Values:
    """Return 1 / sqrt(x) keeping the sign of a zero: sqrt(-0) is -0."""
    return np.asarray(1.0 / np.sqrt(x))


def _unary(fmt: str, function: Callable[[Values], Any], a: ArrayLike, ftz: bool) -> UIntArray:
    """Apply `function` in float64 and round once."""
    codes = as_codes(fmt, a)
    if ftz:
        codes = flush_subnormals(fmt, codes)
    with np.errstate(all="ignore"):
        result = _rounded(fmt, function(to_float64(fmt, codes)))
    return flush_subnormals(fmt, result) if ftz else result


def _rounded(fmt: str, values: ArrayLike) -> UIntArray:
    """Round float64 once to `fmt`, NaN canonical."""
    value = np.asarray(values, np.float64)
    return np.where(value != value, CONSTANTS[fmt].nan, from_float64(fmt, value))


def _coarse(function: Callable[[Values], Any], a: ArrayLike) -> UIntArray:
    """Apply `function` to the upper halves of f64 codes; subnormals flush, the result's lower half is 0.

    SPEC: PTX ISA, "rcp.approx.ftz.f64" and "rsqrt.approx.ftz.f64": only the upper 32 bits are read and made.
    ASSUMED: the upper half is the truncated float64 result.
    """
    codes = flush_subnormals("f64", as_codes("f64", a) & _F64_HIGH)
    with np.errstate(all="ignore"):
        value = np.asarray(function(codes.view(np.float64)), np.float64)
    result = flush_subnormals("f64", value.view(np.uint64) & _F64_HIGH)
    return np.where(value != value, CONSTANTS["f64"].nan, result)


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
