"""Minimum, maximum, comparison, sign and class of floating-point bit patterns, as PTX defines them.

Source: PTX ISA, "min", "max", "setp", "neg", "abs", "copysign", "testp".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.numerics.conversion import flush_subnormals, propagate_nan
from drywell.numerics.formats import CONSTANTS, FORMATS, BoolArray, UIntArray, as_codes, is_nan


def minimum(
    fmt: str, a: ArrayLike, b: ArrayLike, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> UIntArray:
    """Return the smaller of a and b, -0 below +0.

    One NaN gives the other operand, two give the canonical NaN (f64: b made quiet); with `nan` (PTX
    `.NaN`) one is enough. `xorsign_abs` compares magnitudes and gives the result the exclusive or
    of the two signs.

    >>> hex(minimum("f32", np.uint32(0x00000000), np.uint32(0x80000000)))
    '0x80000000'
    """
    return _select(fmt, a, b, np.minimum if nan else _fmin, np.bitwise_or, ftz, xorsign_abs)


def maximum(
    fmt: str, a: ArrayLike, b: ArrayLike, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> UIntArray:
    """Return the larger of a and b; see `minimum`."""
    return _select(fmt, a, b, np.maximum if nan else _fmax, np.bitwise_and, ftz, xorsign_abs)


def _fmin(p: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
    """Return the smaller; of a NaN and a number the number. NumPy's own `fmin` may give a NaN where one is
    signalling, by where in the array it stands.
    """
    return np.where(p != p, q, np.where(q != q, p, np.minimum(p, q)))


def _fmax(p: NDArray[Any], q: NDArray[Any]) -> NDArray[Any]:
    """Return the larger; see `_fmin`."""
    return np.where(p != p, q, np.where(q != q, p, np.maximum(p, q)))


def _select(
    fmt: str,
    a: ArrayLike,
    b: ArrayLike,
    choose: Callable[..., Any],
    merge: Callable[..., Any],
    ftz: bool,
    xorsign_abs: bool,
) -> UIntArray:
    """Return `choose` of the values; equal values are the same code or zeros, whose signs `merge` settles."""
    x, y = as_codes(fmt, a), as_codes(fmt, b)
    c = CONSTANTS[fmt]
    if ftz:
        x, y = flush_subnormals(fmt, x), flush_subnormals(fmt, y)
    sign: Any = None
    if xorsign_abs:
        sign = (x ^ y) & c.sign
        x, y = x & c.magnitude, y & c.magnitude
    p, q = _values(fmt, x), _values(fmt, y)
    with np.errstate(invalid="ignore"):
        value = np.asarray(choose(p, q))
        bad = value != value
        equal = p == q
    result = _codes(fmt, value)
    np.copyto(result, merge(x, y), where=equal)
    if sign is not None:
        result = result | sign
    np.copyto(result, c.nan, where=bad)
    return propagate_nan(result, y, x) if fmt == "f64" else result


_FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}

_ORDERED: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

COMPARISONS = (*_ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
"""Comparison operators of `setp` on floats: the first six are false on NaN, those in -u are true."""


def compare(fmt: str, operator: str, a: ArrayLike, b: ArrayLike, *, ftz: bool = False) -> BoolArray:
    """Return the truth of `a operator b`, an operator of COMPARISONS; -0 equals +0.

    >>> bool(compare("f32", "neu", np.uint32(0x7FC00000), np.uint32(0)))
    True
    """
    x, y = as_codes(fmt, a), as_codes(fmt, b)
    if ftz:
        x, y = flush_subnormals(fmt, x), flush_subnormals(fmt, y)
    if operator in ("num", "nan"):
        unordered = is_nan(fmt, x) | is_nan(fmt, y)
        return np.asarray(unordered if operator == "nan" else ~unordered)
    if operator not in COMPARISONS:
        raise ValueError(f"comparison {operator!r} is not known; use one of {', '.join(COMPARISONS)}")
    p, q = _values(fmt, x), _values(fmt, y)
    with np.errstate(invalid="ignore"):
        truth = _ORDERED[operator[:2]](p, q)
        if operator == "ne":
            truth = truth & (p == p) & (q == q)
        elif len(operator) == 3:
            truth = truth | (p != p) | (q != q)
    return np.asarray(truth)


def _values(fmt: str, codes: UIntArray) -> NDArray[Any]:
    """Return codes as NumPy floats, exactly."""
    if fmt == "bf16":
        return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return codes.view(_FLOATS[fmt])


def _codes(fmt: str, values: NDArray[Any]) -> UIntArray:
    """Return the codes of what `_values` gave."""
    if fmt == "bf16":
        return np.asarray((values.view(np.uint32) >> np.uint32(16)).astype(np.uint16))
    return values.view(FORMATS[fmt].dtype)


def negate(fmt: str, a: ArrayLike, *, ftz: bool = False) -> UIntArray:
    """Flip the sign; a NaN becomes canonical, or for f64 quiet with its sign.

    MEASURED: NaN results, H200; `neg` and `abs` are subtractions from zero there. ASSUMED for the
    B200: ptxas 13.0 emits the same instructions for sm_90 and sm_100a.
    """
    x = as_codes(fmt, a)
    return _with_nan(fmt, x, (flush_subnormals(fmt, x) if ftz else x) ^ CONSTANTS[fmt].sign)


def absolute(fmt: str, a: ArrayLike, *, ftz: bool = False) -> UIntArray:
    """Clear the sign; NaNs as in `negate`."""
    x = as_codes(fmt, a)
    return _with_nan(fmt, x, (flush_subnormals(fmt, x) if ftz else x) & CONSTANTS[fmt].magnitude)


def _with_nan(fmt: str, source: UIntArray, result: UIntArray) -> UIntArray:
    """Put what the NaNs of `source` become into `result`."""
    if fmt == "f64":
        return propagate_nan(result, source)
    return np.where(is_nan(fmt, source), CONSTANTS[fmt].nan, result)


def copy_sign(fmt: str, a: ArrayLike, b: ArrayLike) -> UIntArray:
    """Return b with the sign of a: the operand order of PTX `copysign`."""
    f = FORMATS[fmt]
    sign, magnitude = f.dtype(f.sign_mask), f.dtype(f.magnitude_mask)
    return np.asarray((as_codes(fmt, a) & sign) | (as_codes(fmt, b) & magnitude))


def has_property(fmt: str, operator: str, a: ArrayLike) -> BoolArray:
    """Return `testp.operator`: finite, infinite, number, notanumber, normal (zero too) or subnormal."""
    f = FORMATS[fmt]
    magnitude = as_codes(fmt, a) & f.dtype(f.magnitude_mask)
    infinity, smallest = f.dtype(f.infinity), f.dtype(1 << f.mantissa_bits)
    tests: dict[str, Callable[[], Any]] = {
        "finite": lambda: magnitude < infinity,
        "infinite": lambda: magnitude == infinity,
        "number": lambda: magnitude <= infinity,
        "notanumber": lambda: magnitude > infinity,
        "normal": lambda: (magnitude < infinity) & ((magnitude >= smallest) | (magnitude == 0)),
        "subnormal": lambda: (magnitude < smallest) & (magnitude != 0),
    }
    if operator not in tests:
        raise ValueError(f"property {operator!r} is not known; use one of {', '.join(tests)}")
    return np.asarray(tests[operator]())
