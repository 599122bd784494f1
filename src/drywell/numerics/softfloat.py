"""IEEE arithmetic on bit patterns of f16, bf16, f32 and f64, as PTX defines it.

Operands and results are unsigned integer arrays of any (broadcastable) shape. `rounding` is rn, rz, rm or rp;
`ftz` flushes subnormal inputs and results to the zero of their sign; `sat` clamps the result to [+0, 1], NaN
to +0. NaN results are canonical (`FORMATS[fmt].canonical_nan`); those of f64 keep an operand's NaN,
made quiet. Round-to-nearest uses the machine's floats where a proof says the bits are the same; all else goes
through integers (`exact_arithmetic.py`).
Source: PTX ISA, "Floating Point Instructions" and "Half Precision Floating Point Instructions".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.base.record import record
from drywell.numerics.conversion import clamp_unit, clear_negative, flush_subnormals, propagate_nan
from drywell.numerics.exact_arithmetic import exact_add, exact_div, exact_fma, exact_mul, exact_sqrt
from drywell.numerics.formats import CONSTANTS, FORMATS, BoolArray, UIntArray, as_codes, to_float64
from drywell.numerics.rounding import Rounding

ARITHMETIC_FORMATS = ("f16", "bf16", "f32", "f64")
"""The formats that have arithmetic."""

_FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_SAFE_IN_F32 = (np.add, np.subtract, np.sqrt)


@record
class _Operation:
    """How one operation is done: rounded to nearest by the machine, and any other way in integers.

    `nan_order`: for f64, the operands in the order in which their NaNs are looked for.
    """

    native: Callable[..., UIntArray]
    exact: Callable[..., UIntArray]
    nan_order: tuple[int, ...]


def add(
    fmt: str, a: ArrayLike, b: ArrayLike, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
) -> UIntArray:
    """Return a + b.

    >>> hex(add("f32", np.uint32(0x3F800000), np.uint32(0x3F800000)))
    '0x40000000'
    """
    return _run(_ADD, fmt, (a, b), rounding, ftz, sat)


def sub(
    fmt: str, a: ArrayLike, b: ArrayLike, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
) -> UIntArray:
    """Return a - b."""
    return _run(_SUB, fmt, (a, b), rounding, ftz, sat)


def mul(
    fmt: str, a: ArrayLike, b: ArrayLike, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
) -> UIntArray:
    """Return a * b."""
    return _run(_MUL, fmt, (a, b), rounding, ftz, sat)


def div(
    fmt: str, a: ArrayLike, b: ArrayLike, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
) -> UIntArray:
    """Return a / b; a finite non-zero a over zero is Inf, 0/0 is NaN."""
    return _run(_DIV, fmt, (a, b), rounding, ftz, sat)


def rcp(fmt: str, a: ArrayLike, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> UIntArray:
    """Return 1 / a."""
    return _run(_DIV, fmt, (CONSTANTS[fmt].one, a), rounding, ftz, sat)


def sqrt(
    fmt: str, a: ArrayLike, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
) -> UIntArray:
    """Return the square root of a; NaN below -0."""
    return _run(_SQRT, fmt, (a,), rounding, ftz, sat)


def fma(
    fmt: str,
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    rounding: Rounding = "rn",
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
) -> UIntArray:
    """Return a * b + c, rounded once; `relu` turns negative results into +0 (f16, bf16)."""
    result = _run(_FMA, fmt, (a, b, c), rounding, ftz, sat)
    return clear_negative(fmt, result) if relu else result


def _run(
    operation: _Operation,
    fmt: str,
    operands: tuple[ArrayLike, ...],
    rounding: Rounding,
    ftz: bool,
    sat: bool,
) -> UIntArray:
    """Apply an operation to codes, with what comes before and after it."""
    codes = [as_codes(fmt, x) for x in operands]
    if all(x.ndim == 0 for x in codes):
        single = tuple(x.reshape(1) for x in codes)
        return _run(operation, fmt, single, rounding, ftz, sat).reshape(())
    if ftz:
        codes = [flush_subnormals(fmt, x) for x in codes]
    if rounding != "rn":
        result = operation.exact(fmt, *codes, rounding, ftz)
    else:
        result = operation.native(fmt, *codes)
        if ftz:
            result = _flush_result(operation, fmt, codes, result)
    if fmt == "f64":
        result = propagate_nan(result, *(codes[i] for i in operation.nan_order))
    return clamp_unit(fmt, result) if sat else result


def _flush_result(operation: _Operation, fmt: str, codes: list[UIntArray], result: UIntArray) -> UIntArray:
    """Flush what was tiny before its exponent was bounded: see `rounding.is_tiny`.

    Only a result that is the smallest normal number can hide a value that was still below it.
    """
    c = CONSTANTS[fmt]
    edge = (result & c.magnitude) == c.smallest
    if edge.any():
        parts = (x[edge] for x in np.broadcast_arrays(*codes))
        result[edge] = operation.exact(fmt, *parts, "rn", True)
    return flush_subnormals(fmt, result)


def _native(operation: Callable[..., Any], fmt: str, *operands: UIntArray) -> UIntArray:
    """Apply a correctly rounded NumPy operation and make NaNs canonical.

    f32, f64: IEEE 754 itself. f16: NumPy computes in f32 and rounds again; 24 >= 2*11 + 2 bits make
    the second rounding harmless for + - * / and sqrt (S. Figueroa, "When is double rounding
    innocuous?", 1995), and f32 has range to spare. bf16: the same, through f32 where a subnormal
    result is exact or cannot be (sums, roots), through f64 otherwise.
    """
    with np.errstate(all="ignore"):
        if fmt == "bf16" and operation in _SAFE_IN_F32:
            singles = ((x.astype(np.uint32) << np.uint32(16)).view(np.float32) for x in operands)
            value = np.asarray(operation(*singles))
            return _bf16_from_word(value.view(np.uint32), value != value)
        if fmt == "bf16":
            return _bf16_from_float64(operation(*(to_float64("bf16", x) for x in operands)))
        dtype = _FLOATS[fmt]
        value = np.asarray(operation(*[x.view(dtype) for x in operands]))
        result: UIntArray = value.view(FORMATS[fmt].dtype)
        np.copyto(result, CONSTANTS[fmt].nan, where=value != value)
    return result


def _native_fma(fmt: str, a: UIntArray, b: UIntArray, c: UIntArray) -> UIntArray:
    """Return a * b + c, rounded to nearest even; f64 by the C library, narrower formats as follows.

    The product is exact in f64 (at most 48 bits, exponents within range); the sum is rounded to odd, which
    makes the final rounding of at most 24 bits correct (Boldo and Melquiond, 2008: 53 >= 24 + 2).
    """
    if fmt == "f64":
        return _fma_f64(a, b, c)
    with np.errstate(all="ignore"):
        if fmt == "f32":
            x, y, z = (v.view(np.float32).astype(np.float64) for v in (a, b, c))
        else:
            x, y, z = (to_float64(fmt, v) for v in (a, b, c))
        total = _add_to_odd(x * y, z)
        if fmt == "bf16":
            return _bf16_from_float64(total)
        value = np.asarray(total.astype(_FLOATS[fmt]))
        result: UIntArray = value.view(FORMATS[fmt].dtype)
        np.copyto(result, CONSTANTS[fmt].nan, where=value != value)
    return result


def _add_to_odd(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x + y rounded to odd: an inexact sum gets the neighbour whose last bit is 1.

    The error of the nearest sum is exact (Knuth's TwoSum); it says on which side the true sum lies.
    Finite sums may not overflow.
    """
    total = np.asarray(x + y)
    part = total - x
    error = np.asarray((x - (total - part)) + (y - part))
    bits = total.view(np.int64)
    # +1 moves away from zero, -1 toward it; a NaN error (an infinite sum) compares false and moves nothing.
    inexact = np.abs(error) > 0
    step = ((bits ^ error.view(np.int64)) >> 63) | 1
    step *= inexact & ((bits & 1) == 0)
    return np.asarray(bits + step).view(np.float64)


def _bf16_from_float64(value: NDArray[np.float64]) -> UIntArray:
    """Round f64 to bf16, nearest even, by way of an f32 rounded to odd."""
    value = np.asarray(value)
    single = np.asarray(value.astype(np.float32))
    bits = single.view(np.int32)
    back = single.astype(np.float64)
    # An overflow to Inf is one of these: it comes back to the largest f32, which rounds to Inf again.
    toward_zero = np.abs(back) > np.abs(value)
    step = np.where(toward_zero, np.int32(-1), np.int32(1))
    step *= (back != value) & ((bits & 1) == 0) & (value == value)
    return _bf16_from_word(np.asarray(bits + step).view(np.uint32), value != value)


def _bf16_from_word(word: UIntArray, nan: BoolArray) -> UIntArray:
    """Round f32 codes to bf16, nearest even; canonical NaN where `nan`."""
    odd = (word >> np.uint32(16)) & np.uint32(1)
    result = np.asarray(((word + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16))
    np.copyto(result, CONSTANTS["bf16"].nan, where=nan)
    return result


def _load_fma() -> Callable[[float, float, float], float] | None:
    """Find the C library's fma in this process; None where it cannot be had."""
    try:
        function = ctypes.CDLL(None).fma
    except (AttributeError, OSError, TypeError):
        return None
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double] * 3
    return function


_LIBM_FMA = _load_fma()


def _fma_f64(a: UIntArray, b: UIntArray, c: UIntArray) -> UIntArray:
    """Return a * b + c of f64, by the C library element by element, or in integers."""
    if _LIBM_FMA is None:
        return exact_fma("f64", a, b, c, "rn")
    x, y, z = np.broadcast_arrays(a, b, c)
    values = (v.view(np.float64).ravel().tolist() for v in (x, y, z))
    value = np.array(list(map(_LIBM_FMA, *values)), np.float64).reshape(x.shape)
    result = value.view(np.uint64)
    np.copyto(result, CONSTANTS["f64"].nan, where=value != value)
    return result


def _exact_sub(fmt: str, a: UIntArray, b: UIntArray, rounding: Rounding, flush: bool) -> UIntArray:
    """Return a - b in integers."""
    return exact_add(fmt, a, b ^ CONSTANTS[fmt].sign, rounding, flush)


# MEASURED: the order of NaNs, H200, all pairs of 36 special values. ASSUMED for the B200: ptxas
# 13.0 emits the same instructions (DADD, DFMA) for sm_90 and sm_100a.
_ADD = _Operation(partial(_native, np.add), exact_add, (1, 0))
_SUB = _Operation(partial(_native, np.subtract), _exact_sub, (1, 0))
_MUL = _Operation(partial(_native, np.multiply), exact_mul, (1, 0))
_DIV = _Operation(partial(_native, np.divide), exact_div, (0, 1))
_SQRT = _Operation(partial(_native, np.sqrt), exact_sqrt, (0,))
_FMA = _Operation(_native_fma, exact_fma, (1, 2, 0))
