"""Floating-point arithmetic in integers: any format, any rounding, rounded once.

The slow and obvious way, which `softfloat.py` takes for directed roundings and for the edge of `.ftz`.
Formats up to f32 are vectorised over uint64; f64 needs wider products and goes element by element through
Python integers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from drywell.numerics.formats import FORMATS, INF, NAN, ZERO, BoolArray, Decoded, IntArray, UIntArray, decode
from drywell.numerics.rounding import U64, Rounding, bit_length, round_pack, shift_right_rounding

_TOP = 61  # Normalised magnitudes have their leading one here: one bit of carry and 38 guard bits for f32.

Terms = tuple[BoolArray, U64, IntArray]
"""Sign, magnitude and exponent: (-1)^sign * magnitude * 2^exponent."""


def exact_add(fmt: str, a: UIntArray, b: UIntArray, rounding: Rounding, flush: bool = False) -> UIntArray:
    """Return a + b."""
    x, y = decode(fmt, a), decode(fmt, b)
    f = FORMATS[fmt]
    sign, magnitude, exponent = _sum(_terms(x, f.mantissa_bits), _terms(y, f.mantissa_bits), rounding)
    result = round_pack(f, sign, magnitude, exponent, rounding, flush=flush)
    nan = _nan(x) | _nan(y) | (_inf(x) & _inf(y) & (x.sign != y.sign))
    return _special(fmt, result, nan, _inf(x) | _inf(y), np.where(_inf(x), x.sign, y.sign))


def exact_mul(fmt: str, a: UIntArray, b: UIntArray, rounding: Rounding, flush: bool = False) -> UIntArray:
    """Return a * b."""
    x, y = decode(fmt, a), decode(fmt, b)
    f = FORMATS[fmt]
    sign = x.sign ^ y.sign
    if fmt == "f64":
        result = _each(f.name, _mul_one, sign, x, y, rounding)
    else:
        magnitude = x.significand.astype(np.uint64) * y.significand.astype(np.uint64)
        exponent = x.raw_exponent + y.raw_exponent - 2 * f.mantissa_bits
        result = round_pack(f, sign, magnitude, exponent, rounding, flush=flush)
    nan = _nan(x) | _nan(y) | (_inf(x) & _zero(y)) | (_zero(x) & _inf(y))
    return _special(fmt, result, nan, _inf(x) | _inf(y), sign)


def exact_fma(
    fmt: str, a: UIntArray, b: UIntArray, c: UIntArray, rounding: Rounding, flush: bool = False
) -> UIntArray:
    """Return a * b + c, rounded once."""
    x, y, z = decode(fmt, a), decode(fmt, b), decode(fmt, c)
    f = FORMATS[fmt]
    sign = x.sign ^ y.sign
    if fmt == "f64":
        result = _each_fma(x, y, z, rounding)
    else:
        product = x.significand.astype(np.uint64) * y.significand.astype(np.uint64)
        exponent = x.raw_exponent + y.raw_exponent - 2 * f.mantissa_bits
        total = _sum((sign, product, exponent), _terms(z, f.mantissa_bits), rounding)
        result = round_pack(f, *total, rounding, flush=flush)
    product_inf = _inf(x) | _inf(y)
    nan = _nan(x) | _nan(y) | _nan(z) | (_inf(x) & _zero(y)) | (_zero(x) & _inf(y))
    nan = nan | (product_inf & _inf(z) & (sign != z.sign))
    return _special(fmt, result, nan, product_inf | _inf(z), np.where(product_inf, sign, z.sign))


def exact_div(fmt: str, a: UIntArray, b: UIntArray, rounding: Rounding, flush: bool = False) -> UIntArray:
    """Return a / b."""
    x, y = decode(fmt, a), decode(fmt, b)
    f = FORMATS[fmt]
    sign = x.sign ^ y.sign
    if fmt == "f64":
        result = _each(fmt, _div_one, sign, x, y, rounding)
    else:
        divisor = np.where(y.significand == 0, 1, y.significand).astype(np.uint64)
        top, top_exponent = _normalise(x.significand.astype(np.uint64), x.raw_exponent)
        quotient, rest = np.divmod(top, divisor)
        magnitude = (quotient << np.uint64(1)) | (rest != 0)
        result = round_pack(f, sign, magnitude, top_exponent - y.raw_exponent - 1, rounding, flush=flush)
    nan = _nan(x) | _nan(y) | (_zero(x) & _zero(y)) | (_inf(x) & _inf(y))
    result = np.where(_inf(y), np.where(sign, f.dtype(f.sign_mask), f.dtype(0)), result)
    return _special(fmt, result, nan, _inf(x) | _zero(y), sign)


def exact_sqrt(fmt: str, a: UIntArray, rounding: Rounding, flush: bool = False) -> UIntArray:
    """Return the square root of a; that of -0 is -0."""
    x = decode(fmt, a)
    f = FORMATS[fmt]
    exponent = x.raw_exponent - f.mantissa_bits
    roots = np.zeros(x.significand.shape, np.uint64)
    halves = np.zeros(x.significand.shape, np.int64)
    for i in np.ndindex(x.significand.shape):
        # Two more bits than f64's 53 in the root, plus a sticky one.
        shift = 112 - int(x.significand[i]).bit_length()
        shift += (int(exponent[i]) - shift) & 1
        wide = int(x.significand[i]) << shift
        root = isqrt(wide)
        roots[i] = (root << 1) | (root * root != wide)
        halves[i] = (int(exponent[i]) - shift) // 2 - 1
    result = round_pack(f, np.zeros(roots.shape, np.bool_), roots, halves, rounding)
    result = np.where(_zero(x), a, result)
    return _special(fmt, result, _nan(x) | (x.sign & ~_zero(x)), _inf(x), x.sign)


def _terms(x: Decoded, mantissa_bits: int) -> Terms:
    """Return the finite parts of `x` as magnitude and exponent."""
    return x.sign, x.significand.astype(np.uint64), x.raw_exponent - mantissa_bits


def _normalise(magnitude: U64, exponent: IntArray) -> tuple[U64, IntArray]:
    """Shift the leading one to bit `_TOP`; 0 stays."""
    shift = _TOP + 1 - bit_length(magnitude)
    return magnitude << shift.astype(np.uint64), exponent - shift


def _sum(x: Terms, y: Terms, rounding: Rounding) -> Terms:
    """Add two terms of at most 53 significant bits; the lowest bit of the sum may be sticky.

    The smaller term loses bits only when it lies 9 or more binades below, where the leading one of the sum
    moves down by at most one: 60 bits and a sticky one remain.
    """
    (xs, xm, xe), (ys, ym, ye) = x, y
    xm, xe = _normalise(xm, xe)
    ym, ye = _normalise(ym, ye)
    xe = np.where(xm == 0, -(1 << 20), xe)
    ye = np.where(ym == 0, -(1 << 20), ye)
    swap = (xe < ye) | ((xe == ye) & (xm < ym))
    bs, bm, be = np.where(swap, ys, xs), np.where(swap, ym, xm), np.where(swap, ye, xe)
    ss, sm, se = np.where(swap, xs, ys), np.where(swap, xm, ym), np.where(swap, xe, ye)
    shift = np.minimum(be - se, 64)
    floor = shift_right_rounding(sm, shift, np.zeros(sm.shape, np.bool_), "rz")
    lost = shift_right_rounding(sm, shift, np.zeros(sm.shape, np.bool_), "rp") != floor
    subtract = bs != ss
    # A subtracted remainder with lost bits: borrow one unit, the sticky bit stands for what is left of it.
    total = np.where(subtract, bm - floor - (lost & subtract), bm + floor)
    zero = total == 0
    both = xs & ys
    exact_zero = both if rounding != "rm" else (xs | ys)
    sign = np.where(zero, exact_zero, bs)
    return sign, np.asarray(total | lost), np.where(zero, 0, be)


def _nan(x: Decoded) -> BoolArray:
    return np.asarray(x.number_class == NAN)


def _inf(x: Decoded) -> BoolArray:
    return np.asarray(x.number_class == INF)


def _zero(x: Decoded) -> BoolArray:
    return np.asarray(x.number_class == ZERO)


def _special(fmt: str, result: UIntArray, nan: BoolArray, inf: BoolArray, sign: BoolArray) -> UIntArray:
    """Overwrite `result` where the answer is Inf of `sign`, then where it is NaN."""
    f = FORMATS[fmt]
    signed = np.where(sign, f.dtype(f.infinity | f.sign_mask), f.dtype(f.infinity))
    result = np.where(inf, signed, result)
    return np.where(nan, f.dtype(f.canonical_nan), result).astype(f.dtype)


Exact = tuple[int, int]
"""A non-negative magnitude and its exponent, both Python integers."""


def _squeeze(magnitude: int, exponent: int) -> Exact:
    """Shorten a magnitude to 63 bits with a sticky lowest bit."""
    extra = magnitude.bit_length() - 62
    if extra <= 0:
        return magnitude, exponent
    kept = magnitude >> extra
    return (kept << 1) | (kept << extra != magnitude), exponent + extra - 1


def _mul_one(a: int, a_exponent: int, b: int, b_exponent: int) -> Exact:
    return a * b, a_exponent + b_exponent


def _div_one(a: int, a_exponent: int, b: int, b_exponent: int) -> Exact:
    if b == 0:
        return 0, 0
    quotient, rest = divmod(a << 128, b)
    return (quotient << 1) | (rest != 0), a_exponent - b_exponent - 129


def _each(
    fmt: str,
    one: Callable[[int, int, int, int], Exact],
    sign: BoolArray,
    x: Decoded,
    y: Decoded,
    rounding: Rounding,
) -> UIntArray:
    """Apply `one` to each pair of finite numbers of `fmt` and round."""
    f = FORMATS[fmt]
    magnitudes = np.zeros(sign.shape, np.uint64)
    exponents = np.zeros(sign.shape, np.int64)
    xm, xe, ym, ye = np.broadcast_arrays(x.significand, x.raw_exponent, y.significand, y.raw_exponent)
    for i in np.ndindex(sign.shape):
        exact = one(int(xm[i]), int(xe[i]) - f.mantissa_bits, int(ym[i]), int(ye[i]) - f.mantissa_bits)
        magnitudes[i], exponents[i] = _squeeze(*exact)
    return round_pack(f, sign, magnitudes, exponents, rounding)


def _each_fma(x: Decoded, y: Decoded, z: Decoded, rounding: Rounding, flush: bool = False) -> UIntArray:
    """Return x * y + z of finite f64 numbers, element by element."""
    f = FORMATS["f64"]
    fields = (x.sign ^ y.sign, x.significand, y.significand, x.raw_exponent + y.raw_exponent)
    ps, xm, ym, pe, zs, zm, ze = np.broadcast_arrays(*fields, z.sign, z.significand, z.raw_exponent)
    signs: NDArray[np.bool_] = np.zeros(ps.shape, np.bool_)
    magnitudes = np.zeros(ps.shape, np.uint64)
    exponents = np.zeros(ps.shape, np.int64)
    for i in np.ndindex(ps.shape):
        product = int(xm[i]) * int(ym[i])
        product_exponent, addend_exponent = int(pe[i]) - 104, int(ze[i]) - 52
        low = min(product_exponent, addend_exponent)
        total = (product << (product_exponent - low)) * (-1 if ps[i] else 1)
        total += (int(zm[i]) << (addend_exponent - low)) * (-1 if zs[i] else 1)
        if total == 0:
            signs[i] = (ps[i] | zs[i]) if rounding == "rm" else (ps[i] & zs[i])
        else:
            signs[i] = total < 0
        magnitudes[i], exponents[i] = _squeeze(abs(total), low)
    return round_pack(f, signs, magnitudes, exponents, rounding)
