"""The multifunction unit (MUFU): rcp, rsq, sqrt, lg2, ex2, sin, cos and tanh of f32, to the bit.

A table of segments and a quadratic in what is left of the argument (mufu_tables.py); the square of the 17
low bits xl is a sum of partial products without those below column 19; what comes out is cut to 24 bits.
f32 arguments that are subnormal count as zeros and subnormal results are flushed, except by tanh.
MEASURED: an H200, driver 580.159.04: no difference over all 2^32 arguments of each function.
ASSUMED for Blackwell: `ptxas` 13.0 emits the same instructions for sm_90a and sm_100a (DEVIATIONS.md, P1).
Source for the structure: S. F. Oberman and M. Y. Siu, "A High-Performance Area-Efficient Multifunction
Interpolator", ARITH 2005.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.numerics import mufu_tables
from drywell.numerics.formats import UIntArray

Words = NDArray[np.uint32]
Sums = NDArray[np.int64]

_XL_BITS = 17
_FIRST_COLUMN = 19  # of the square's partial products
_ULP = 17  # sums are in units of 2^-17 of the last place
_MANTISSA = 0x7FFFFF
_HIDDEN = 0x800000
_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_NAN = 0x7FFFFFFF
_ONE = 0x3F800000
_SIGN = 0x80000000
_HIDDEN64 = 1 << 20  # of the upper word of f64
_INFINITY64 = 0x7FF00000


EX2_LIMIT = 0x43000000
"""The code of 128: from there on 2^x is infinite, and 2^-x is 0 already."""


# ---------------------------------------------------------------- the interpolator


@cache
def square_table() -> NDArray[np.int64]:
    """Return the unit's square of every 17-bit number, in units of 2^17.

    The square of a number with leading bit i is that of the rest, plus 2^(2 i), plus the rest times
    2^(i + 1): a row of partial products, of which columns below 19 are left out.
    """
    table = np.zeros(1 << _XL_BITS, np.int64)
    for i in range(_XL_BITS):
        rest = np.arange(1 << i, dtype=np.int64)
        dropped = max(0, _FIRST_COLUMN - 1 - i)
        own = 1 << 2 * i if 2 * i >= _FIRST_COLUMN else 0
        table[1 << i : 2 << i] = table[: 1 << i] + own + ((rest >> dropped << dropped) << i + 1)
    return table >> _ULP


class Segments:
    """A function's table: `C0 << shift + bias`, C1 and C2 of its segments."""

    def __init__(self, rows: mufu_tables.Rows, shift: int = 15, bias: int = 0) -> None:
        columns = np.array(rows, np.int64).T
        self.c0 = (columns[0] << shift) + bias
        self.c1, self.c2 = np.ascontiguousarray(columns[1]), np.ascontiguousarray(columns[2])

    def at(self, segment: Any, xl: Any) -> Sums:
        """Return the sums at `xl` (17 bits) of `segment`."""
        total: Sums = self.c1[segment]
        total *= xl
        total += self.c0[segment]
        total += self.c2[segment] * square_table()[xl]
        return total


# The biases make up for what the unit leaves out; what fits besides is less than 2^-15 of a last place away.
SEGMENTS: Mapping[str, Segments] = MappingProxyType(
    {
        "rcp": Segments(mufu_tables.RCP, bias=8094),
        "rsq": Segments(mufu_tables.RSQ, bias=-2),
        "sqrt": Segments(mufu_tables.SQRT, shift=16, bias=-2),
        "lg2": Segments(mufu_tables.LG2, shift=14, bias=3348),
        "ex2": Segments(mufu_tables.EX2, bias=24458),
        "sin": Segments(mufu_tables.SIN),
        "tanh": Segments(mufu_tables.TANH),
    }
)
"""The tables of the functions; the cosine has the sine's."""


def _float(sums: Sums, last_place: int) -> Sums:
    """Return `sums`, in units of 2^last_place, as f32 codes: 24 bits, the rest cut; all below 2^53."""
    wide = sums.astype(np.float64).view(np.int64)
    cut = (wide >> 29) + (last_place - 1023 + 127 << 23)
    return np.where(sums == 0, 0, cut)


# ---------------------------------------------------------------- functions of positive normal numbers
# Codes come as int64; what they give for other codes is replaced by the caller.


def _rcp(code: Sums) -> Sums:
    cut = SEGMENTS["rcp"].at(code >> 16 & 0x7F, (code & 0xFFFF) << 1) >> _ULP
    result = (253 << 23) - (code & _INFINITY) + (cut - _HIDDEN)
    return np.where(result < _HIDDEN, 0, result)


def _rsq(code: Sums) -> Sums:
    """Halve the exponent; powers of four are exact."""
    cut = SEGMENTS["rsq"].at(code >> 17 & 0x7F, code & 0x1FFFF) >> _ULP
    cut = np.where((code & 0xFFFFFF) == _HIDDEN, 2 * _HIDDEN, cut)
    half = (code + _HIDDEN >> 24) - 64  # floor((exponent - 127) / 2)
    return (126 - half << 23) + (cut - _HIDDEN)


def _sqrt(code: Sums) -> Sums:
    cut = SEGMENTS["sqrt"].at(code >> 17 & 0x7F, code & 0x1FFFF) >> _ULP + 1
    half = (code + _HIDDEN >> 24) - 64
    return (127 + half << 23) + (cut - _HIDDEN)


def _lg2(code: Sums) -> Sums:
    """Add the exponent in fixed point; 36 bits of fraction count, negative sums are complemented."""
    total = SEGMENTS["lg2"].at(code >> 17 & 0x3F, code & 0x1FFFF) + ((code >> 23) - 127 << 23 + _ULP)
    magnitude = np.where(total < 0, ~total, total) >> 4 << 4
    sign = np.where(total < 0, _SIGN, 0)
    return np.where(code == _ONE, 0, _float(magnitude, -23 - _ULP) | sign)


def _fixed(code: Sums, at_most: int, fraction_bits: int) -> Sums:
    """Return the numbers of `code`, none above that of `at_most`, cut to so many bits of fraction."""
    numbers = np.minimum(code, at_most).astype(np.uint32).view(np.float32)
    return (numbers * np.float64(1 << fraction_bits)).astype(np.int64)


def _ex2(code: Sums, is_negative: Any) -> Sums:
    """Cut the argument to 23 bits of fraction; a negative one is complemented, unless it is whole."""
    fixed = _fixed(code, EX2_LIMIT, 23)
    fixed = np.where(is_negative, ~fixed + (fixed & _MANTISSA == 0), fixed)
    cut = SEGMENTS["ex2"].at(fixed >> 17 & 0x3F, fixed & 0x1FFFF) >> _ULP
    result = ((fixed >> 23) + 126 << 23) + cut
    return np.where(result < _HIDDEN, 0, result)


def _sine(code: Sums, quarters: int) -> Sums:
    """Return the sine of `code` turns and `quarters` of a turn; of the argument 25 bits of fraction count."""
    fixed = _fixed(code, 0x4B800000, 25)  # whole turns from 2^24 on
    quarter = (fixed >> 23) + quarters
    rest = (fixed ^ -(quarter & 1)) & _MANTISSA  # in odd quarters what is left, less one
    return _float(SEGMENTS["sin"].at(rest >> 17, rest & 0x1FFFF), -24 - _ULP) | (quarter & 2) << 30


TANH_FIRST = np.array([0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43])
"""The first segment of tanh in each power of two, 2^-8 to 4."""

TANH_CUT = np.array([6, 6, 6, 5, 5, 4, 4, 4, 3, 2, 3])
"""How many low bits of the argument of tanh are left out there."""


def _tanh(code: Sums) -> Sums:
    """Return what is small unchanged, and 1 from 8 on."""
    power = np.minimum(np.maximum((code >> 23) - 119, 0), 10)
    argument = (code & _MANTISSA) >> TANH_CUT[power]
    total = SEGMENTS["tanh"].at(TANH_FIRST[power] + (argument >> _XL_BITS), argument & 0x1FFFF)
    result = np.where(code < 0x3B800000, code, _float(total, -24 - _ULP))
    return np.where(code >= 0x41000000, _ONE, result)


# ---------------------------------------------------------------- whole functions


def _split(codes: Any, smallest: int = _HIDDEN) -> tuple[Sums, Any]:
    """Return the magnitudes, those below `smallest` flushed, and where the sign is set."""
    wide = np.asarray(codes, np.uint32).astype(np.int64)
    magnitude = wide & _MAGNITUDE
    return np.where(magnitude < smallest, 0, magnitude), wide >= _SIGN


def _finished(result: Any, magnitude: Sums, is_nan: Any = False) -> Words:
    return np.where(is_nan | (magnitude > _INFINITY), _NAN, result).astype(np.uint32)


def rcp(codes: Any) -> Words:
    """Return 1 / x; Inf for zeros, zeros for Inf, of x's sign.

    >>> hex(rcp(np.uint32(0x40400000)))
    '0x3eaaaaab'
    """
    x, negative = _split(codes)
    result = np.where(x == 0, _INFINITY, np.where(x == _INFINITY, 0, _rcp(x)))
    return _finished(result | np.where(negative, _SIGN, 0), x)


def rsq(codes: Any) -> Words:
    """Return 1 / sqrt(x); Inf of x's sign for zeros, NaN below."""
    x, negative = _split(codes)
    result = np.where(x == 0, np.where(negative, _INFINITY | _SIGN, _INFINITY), _rsq(x))
    return _finished(np.where(x == _INFINITY, 0, result), x, negative & (x > 0))


def sqrt(codes: Any) -> Words:
    """Return the square root of x; -0 for -0, NaN below."""
    x, negative = _split(codes)
    result = np.where(x == 0, np.where(negative, _SIGN, 0), _sqrt(x))
    return _finished(np.where(x == _INFINITY, _INFINITY, result), x, negative & (x > 0))


def lg2(codes: Any) -> Words:
    """Return log2(x); -Inf for zeros of either sign, NaN below."""
    x, negative = _split(codes)
    result = np.where(x == 0, _INFINITY | _SIGN, _lg2(x))
    return _finished(np.where(x == _INFINITY, _INFINITY, result), x, negative & (x > 0))


def ex2(codes: Any) -> Words:
    """Return 2^x; 0 below 2^-126."""
    x, negative = _split(codes)
    return _finished(_ex2(x, negative), x)


def sin(codes: Any) -> Words:
    """Return the sine of x turns; NaN for infinities."""
    x, negative = _split(codes)
    return _finished(_sine(x, 0) ^ np.where(negative, _SIGN, 0), x, x == _INFINITY)


def cos(codes: Any) -> Words:
    """Return the cosine of x turns; NaN for infinities."""
    x, _ = _split(codes)
    return _finished(_sine(x, 1), x, x == _INFINITY)


def tanh(codes: Any) -> Words:
    """Return the hyperbolic tangent of x; subnormals are kept."""
    wide = np.asarray(codes, np.uint32).astype(np.int64)
    magnitude = wide & _MAGNITUDE
    return _finished(_tanh(magnitude) | wide & _SIGN, magnitude)


def rcp64h(codes: Any) -> Words:
    """Return the upper words of 1 / x from the upper words x of f64; 20 bits of mantissa, the rest cut."""
    x, negative = _split(codes, _HIDDEN64)
    cut = SEGMENTS["rcp"].at(x >> 13 & 0x7F, (x & 0x1FFF) << 4) >> _ULP + 3
    result = (2045 << 20) - (x & _INFINITY64) + (cut - _HIDDEN64)
    result = np.where((result < _HIDDEN64) | (x == _INFINITY64), 0, result)
    result = np.where(x == 0, _INFINITY64, result) | np.where(negative, _SIGN, 0)
    return np.where(x > _INFINITY64, _NAN, result).astype(np.uint32)


def rsq64h(codes: Any) -> Words:
    """Return the upper words of 1 / sqrt(x) from the upper words x of f64, likewise."""
    x, negative = _split(codes, _HIDDEN64)
    cut = SEGMENTS["rsq"].at(x >> 14 & 0x7F, (x & 0x3FFF) << 3) >> _ULP + 3
    cut = np.where(x & 0x1FFFFF == _HIDDEN64, 2 * _HIDDEN64, cut)
    half = (x + _HIDDEN64 >> 21) - 512
    result = np.where(x == _INFINITY64, 0, (1022 - half << 20) + (cut - _HIDDEN64))
    result = np.where(x == 0, np.where(negative, _INFINITY64 | _SIGN, _INFINITY64), result)
    return np.where((x > _INFINITY64) | negative & (x > 0), _NAN, result).astype(np.uint32)


FUNCTIONS: Mapping[str, Callable[[Any], Words]] = MappingProxyType(
    {"rcp": rcp, "rsq": rsq, "sqrt": sqrt, "lg2": lg2, "ex2": ex2, "sin": sin, "cos": cos, "tanh": tanh}
)
"""The unit's functions of f32 codes, by their names in machine code."""

UPPER_FUNCTIONS: Mapping[str, Callable[[Any], Words]] = MappingProxyType({"rcp": rcp64h, "rsq": rsq64h})
"""Those of upper words of f64."""


def _bf16(function: Callable[[Any], Words], codes: Any) -> UIntArray:
    """Apply `function` to bf16 codes; the result is cut."""
    wide = np.asarray(codes).astype(np.uint32) << np.uint32(16)
    return (function(wide) >> np.uint32(16)).astype(np.uint16)


def _f16(function: Callable[[Any], Words], codes: Any) -> UIntArray:
    """Apply `function` to f16 codes; the result is cut, and infinite from 2^16 on."""
    wide = np.asarray(codes, np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    result = function(wide).astype(np.int64)
    magnitude = result & _MAGNITUDE
    normal = magnitude - (112 << 23) >> 13
    subnormal = (magnitude & _MANTISSA | _HIDDEN) >> np.minimum(np.maximum(126 - (magnitude >> 23), 0), 63)
    cut = np.where(magnitude < 0x38800000, subnormal, normal)
    cut = np.where(magnitude >= 0x47800000, 0x7C00, cut) | result >> 16 & 0x8000
    return np.where(magnitude > _INFINITY, 0x7FFF, cut).astype(np.uint16)


def _f64(name: str, codes: Any) -> UIntArray:
    """Make the upper words of the results from the upper words of f64 codes; the lower are not read and 0."""
    upper = (np.asarray(codes, np.uint64) >> np.uint64(32)).astype(np.uint32)
    return UPPER_FUNCTIONS[name](upper).astype(np.uint64) << np.uint64(32)


def apply(name: str, fmt: str, codes: Any) -> UIntArray:
    """Return a function of codes of f32, f16, bf16 or (rcp and rsq) f64.

    >>> hex(apply("ex2", "f16", np.uint16(0x4200)))   # 2^3
    '0x4800'
    """
    if fmt == "f64":
        return _f64(name, codes)
    if fmt == "f32":
        return FUNCTIONS[name](codes)
    return (_f16 if fmt == "f16" else _bf16)(FUNCTIONS[name], codes)
