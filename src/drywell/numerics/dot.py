"""The tensor core's arithmetic for one tcgen05.mma instruction, in integers only.

One alignment window serves all products of the instruction and the old D. With R the largest stored exponent
among them and q = R - 25, every term is truncated toward zero to a multiple of 2^q, the multiples are summed
exactly, and the sum is truncated to f32 or rounded to f16.

MEASURED: 25 fraction bits, truncation, no inner grouping; B200, by sf-tensor/tcgen05 (MODEL.md),
microsoft/MMA-Sim (arXiv 2511.10909) and Khattak & Mikaitis (arXiv 2512.07004).
ASSUMED: zero products and a zero D stay out of R (sf-tensor/tcgen05); `zero_products_in_window` gives
MMA-Sim's reading, where a zero has exponent -126.
ASSUMED: a sum too small for D's format gives +0 whatever its sign (sf-tensor/tcgen05).
ASSUMED: scale-input-d moves D's exponent exactly, before alignment. ASSUMED: the negate bits flip signs only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.numerics.formats import (
    CONSTANTS,
    FORMATS,
    INF,
    NAN,
    Decoded,
    UIntArray,
    as_codes,
    decode,
)
from drywell.numerics.rounding import bit_length

WINDOW_BITS = 25
"""Fraction bits kept below the largest stored exponent. MEASURED: see the module's sources."""

MULTIPLICAND_FORMATS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
"""Formats of A and B that share this window."""

_NO_EXPONENT = -(1 << 14)  # Stored exponent of what stays out of R: below any sum of real ones.
_ZERO_EXPONENT = -126  # MMA-Sim's exponent of a zero.
_BLOCK_ELEMENTS = 1 << 15  # Elements of D worked on at a time: the int32 temporaries stay in the L2 cache.
_TERMS_PER_INT32 = 8  # Each term is below 2^27; 8 of them and D (below 2^26) fit an int32.

Int32Array = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Operand:
    """A or B taken apart; arrays are [K, rows]. Zeros have magnitude 0 and `_NO_EXPONENT`.

    value = sign * magnitude * 2^(raw - mantissa_bits). `special` says whether any is Inf or NaN: sign and
    magnitude are 0 there.
    """

    magnitude: Int32Array
    sign: Int32Array
    raw: Int32Array
    mantissa_bits: int
    special: bool


@dataclass(frozen=True, slots=True)
class _Accumulator:
    """The old D taken apart, [M, N], or all zero when `magnitude` is None."""

    magnitude: Int32Array | None
    sign: Int32Array | None
    raw: Int32Array | None
    mantissa_bits: int
    special: Decoded | None


def mma_f32(
    a_codes: ArrayLike,
    b_codes: ArrayLike,
    d_bits: ArrayLike | None,
    a_fmt: str,
    b_fmt: str,
    *,
    negate_a: bool = False,
    negate_b: bool = False,
    scale_d_shift: int = 0,
    zero_products_in_window: bool = False,
) -> NDArray[np.uint32]:
    """Return D = A * B^T + D * 2^-scale_d_shift as f32 codes [M, N], for the K of one instruction.

    `a_codes` is [M, K], `b_codes` [N, K]; `d_bits` f32 codes [M, N], or None when D is not read.

    >>> one = np.full((1, 16), 0x3C00, np.uint16)
    >>> hex(mma_f32(one, one, None, "f16", "f16")[0, 0])
    '0x41800000'
    """
    flags = (negate_a, negate_b, scale_d_shift, zero_products_in_window)
    return _mma(a_codes, b_codes, d_bits, a_fmt, b_fmt, "f32", *flags)


def mma_f16(
    a_codes: ArrayLike,
    b_codes: ArrayLike,
    d_bits: ArrayLike | None,
    a_fmt: str,
    b_fmt: str,
    *,
    negate_a: bool = False,
    negate_b: bool = False,
    scale_d_shift: int = 0,
    zero_products_in_window: bool = False,
) -> NDArray[np.uint16]:
    """Return the same as `mma_f32` with D read and written as f16 codes, rounded to nearest even."""
    flags = (negate_a, negate_b, scale_d_shift, zero_products_in_window)
    return _mma(a_codes, b_codes, d_bits, a_fmt, b_fmt, "f16", *flags)


def _mma(
    a_codes: ArrayLike,
    b_codes: ArrayLike,
    d_bits: ArrayLike | None,
    a_fmt: str,
    b_fmt: str,
    d_fmt: str,
    negate_a: bool,
    negate_b: bool,
    scale_d_shift: int,
    zeros_count: bool,
) -> NDArray[Any]:
    """Check shapes, take the operands apart, and run the exact or the windowed sum."""
    a, b = _matrix("A", a_fmt, a_codes), _matrix("B", b_fmt, b_codes)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"A is {a.shape} and B is {b.shape}: both need the same K as second dimension")
    if d_bits is not None and np.shape(d_bits) != (a.shape[0], b.shape[0]):
        raise ValueError(f"D is {np.shape(d_bits)}, needed is (M, N) = {(a.shape[0], b.shape[0])}")
    zero_raw = _ZERO_EXPONENT if zeros_count else _NO_EXPONENT
    x, y = _operand(a_fmt, a, negate_a, zero_raw), _operand(b_fmt, b, negate_b, zero_raw)
    d = _accumulator(d_fmt, d_bits, scale_d_shift, zero_raw)
    unit = None if zeros_count else _exact_unit(x, y, d)
    if unit is None:
        result = _windowed(x, y, d, d_fmt)
    else:
        result = _round(d_fmt, _exact_sum(x, y, d, unit), np.int32(unit))
    if x.special or y.special or d.special is not None:
        _put_specials(result, d_fmt, decode(a_fmt, a), decode(b_fmt, b), d.special, negate_a != negate_b)
    return result


def _matrix(name: str, fmt: str, codes: ArrayLike) -> UIntArray:
    """Return codes as a matrix of the format's container."""
    if fmt not in MULTIPLICAND_FORMATS:
        raise ValueError(f"{name} is {fmt!r}; formats of A and B are {', '.join(MULTIPLICAND_FORMATS)}")
    matrix = as_codes(fmt, codes)
    if matrix.ndim != 2:
        raise ValueError(f"{name} has {matrix.ndim} dimensions, needed are 2: rows and K")
    return matrix


@cache
def _multiplicands(fmt: str) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Return what `_take_apart` gives for every code of a format of up to 16 bits."""
    f = FORMATS[fmt]
    codes = np.arange(1 << f.container_bits) & ((1 << f.value_bits) - 1)
    return _take_apart(decode(fmt, codes))


def _take_apart(d: Decoded) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Return magnitude, sign (0 for Inf and NaN) and raw exponent (`_NO_EXPONENT` for zeros)."""
    sign = np.where(d.sign, -1, 1) * (d.number_class < INF)
    raw = np.where(d.significand != 0, d.raw_exponent, _NO_EXPONENT)
    return d.significand.astype(np.int32), sign.astype(np.int32), raw.astype(np.int32)


def _operand(fmt: str, codes: UIntArray, negate: bool, zero_raw: int) -> _Operand:
    """Take A or B apart, transposed to [K, rows]."""
    turned = np.ascontiguousarray(codes.T)
    if turned.dtype.itemsize <= 2:
        magnitude, sign, raw = (table.take(turned) for table in _multiplicands(fmt))
    else:
        magnitude, sign, raw = _take_apart(decode(fmt, turned))
    special = not sign.all()
    if negate:
        sign = -sign
    if zero_raw != _NO_EXPONENT:
        raw[magnitude == 0] = zero_raw
    return _Operand(magnitude, sign, raw, FORMATS[fmt].mantissa_bits, special)


def _accumulator(fmt: str, codes: ArrayLike | None, shift: int, zero_raw: int) -> _Accumulator:
    """Take the old D apart: `decode` in 32-bit integers and without branches, because D is large."""
    f = FORMATS[fmt]
    if codes is None:
        return _Accumulator(None, None, None, f.mantissa_bits, None)
    word = as_codes(fmt, codes)
    bits = word.view(np.int32) if fmt == "f32" else word.view(np.int16).astype(np.int32)
    top = (1 << f.exponent_bits) - 1
    field = (bits >> f.mantissa_bits) & top
    special = decode(fmt, word) if np.max(field, initial=0) == top else None
    stored = np.minimum(field, 1)
    magnitude = (bits & ((1 << f.mantissa_bits) - 1)) | (stored << f.mantissa_bits)
    lowest = f.min_exponent - shift
    raw = field - stored + np.int32(lowest)
    zero = magnitude == 0
    if zero.any():
        raw += zero * np.int32(zero_raw - lowest)
    if special is not None:
        magnitude[field == top] = 0
        raw[field == top] = _NO_EXPONENT
    return _Accumulator(magnitude, (bits >> 31) | 1, raw, f.mantissa_bits, special)


def _lowest_bit(magnitude: Int32Array, raw: Int32Array) -> int:
    """Return the smallest exponent of a set bit over all non-zero magnitudes, before `mantissa_bits`."""
    below = (magnitude & -magnitude) - 1  # ones below the lowest set bit; all ones for 0
    position = np.bitwise_count(below & 0x7FFFFFFF).astype(np.int32) + raw
    return int(np.min(position, where=magnitude != 0, initial=1 << 15))


def _is_multiple(d: _Accumulator, unit: int) -> bool:
    """Say whether every D is a multiple of 2^unit."""
    if d.magnitude is None or d.raw is None:
        return True
    below = np.minimum(np.maximum(np.int32(unit + d.mantissa_bits) - d.raw, 0), 31)
    mask = (np.int32(1) << below) - np.int32(1)
    return not (d.magnitude & mask & 0x7FFFFFFF).any()


def _exact_unit(x: _Operand, y: _Operand, d: _Accumulator) -> int | None:
    """Return an exponent of which every term of every element is a multiple, if the window cannot drop a bit.

    With L the lowest set bit of any term and R the highest stored exponent possible, L >= R - 25 proves that
    truncation changes nothing, and R - L <= 25 bounds each term by 2^27 units. None when there is no proof.
    """
    highest = int(np.max(x.raw, initial=_NO_EXPONENT)) + int(np.max(y.raw, initial=_NO_EXPONENT))
    lowest = _lowest_bit(x.magnitude, x.raw) - x.mantissa_bits
    lowest += _lowest_bit(y.magnitude, y.raw) - y.mantissa_bits
    if d.magnitude is not None and d.raw is not None and highest - lowest <= WINDOW_BITS:
        highest = max(highest, int(np.max(d.raw, initial=_NO_EXPONENT)))
        if not _is_multiple(d, lowest):
            lowest = min(lowest, _lowest_bit(d.magnitude, d.raw) - d.mantissa_bits)
    if highest <= _NO_EXPONENT // 2:
        return 0  # all terms are zero
    return lowest if highest - lowest <= WINDOW_BITS else None


def _exact_sum(x: _Operand, y: _Operand, d: _Accumulator, unit: int) -> NDArray[Any]:
    """Return the exact sums in units of 2^unit; `unit` comes from `_exact_unit`."""
    num_k = x.magnitude.shape[0]
    a_unit, b_unit = _lowest_bit(x.magnitude, x.raw), _lowest_bit(y.magnitude, y.raw)
    scale = a_unit - x.mantissa_bits + b_unit - y.mantissa_bits - unit
    if not x.magnitude.any() or not y.magnitude.any():
        scale = 0
    left = _scaled(x.magnitude, x.raw - a_unit, x.sign)
    right = _scaled(y.magnitude, y.raw - b_unit, y.sign)
    highest = max(_top_bit(left) + _top_bit(right) + scale, 1)
    narrow = highest + num_k.bit_length() <= 30
    dtype: Any = np.int32 if narrow else np.int64
    total = np.einsum("km,kn->mn", left.astype(dtype) << dtype(scale), right.astype(dtype))
    if d.magnitude is None or d.raw is None or d.sign is None:
        return np.asarray(total)
    old = _scaled(d.magnitude, d.raw - d.mantissa_bits - unit, d.sign)
    return np.asarray(total + old)


def _top_bit(values: Int32Array) -> int:
    """Return the bit length of the largest magnitude."""
    return int(np.max(np.abs(values), initial=0)).bit_length()


def _scaled(magnitude: Int32Array, exponent: Int32Array, sign: Int32Array) -> Int32Array:
    """Return sign * magnitude * 2^exponent, integers below 2^31; zeros whatever the exponent."""
    left = np.minimum(np.maximum(exponent, 0), 31)
    right = np.minimum(np.maximum(-exponent, 0), 31)
    return np.asarray(((magnitude << left) >> right) * sign)


def _windowed(x: _Operand, y: _Operand, d: _Accumulator, d_fmt: str) -> NDArray[Any]:
    """Return D by the window rule, in blocks of rows."""
    num_m, num_n = x.magnitude.shape[1], y.magnitude.shape[1]
    result = np.empty((num_m, num_n), FORMATS[d_fmt].dtype)
    # Products carry these extra low bits so that aligning them is a right shift only.
    align = WINDOW_BITS - x.mantissa_bits - y.mantissa_bits
    left, right = x.magnitude << align, y.magnitude
    rows = max(1, _BLOCK_ELEMENTS // max(num_n, 1))
    for start in range(0, num_m, rows):
        block = slice(start, start + rows)
        a = (left[:, block, None], x.sign[:, block, None], x.raw[:, block, None])
        total, largest = _block_sum(a, (right, y.sign, y.raw), d, block)
        result[block] = _round(d_fmt, total, largest - WINDOW_BITS)
    return result


def _block_sum(
    a: tuple[Int32Array, Int32Array, Int32Array],
    b: tuple[Int32Array, Int32Array, Int32Array],
    d: _Accumulator,
    block: slice,
) -> tuple[NDArray[np.int64], Int32Array]:
    """Return the sums of truncated terms in units of 2^(R-25), and R, for one block of rows."""
    (a_magnitude, a_sign, a_raw), (b_magnitude, b_sign, b_raw) = a, b
    shape = (a_raw.shape[1], b_raw.shape[1])
    term, shift, partial = (np.empty(shape, np.int32) for _ in range(3))
    largest = np.full(shape, 2 * _NO_EXPONENT, np.int32) if d.raw is None else d.raw[block].copy()
    for k in range(a_raw.shape[0]):
        np.add(a_raw[k], b_raw[k], out=shift)
        np.maximum(largest, shift, out=largest)
    total = np.zeros(shape, np.int64)
    if d.magnitude is not None and d.sign is not None and d.raw is not None:
        old = d.magnitude[block] << (WINDOW_BITS - d.mantissa_bits)
        total += (old >> np.minimum(largest - d.raw[block], 31)) * d.sign[block]
    partial[...] = 0
    for k in range(a_raw.shape[0]):
        np.add(a_raw[k], b_raw[k], out=shift)
        np.subtract(largest, shift, out=shift)
        np.minimum(shift, 31, out=shift)
        np.multiply(a_magnitude[k], b_magnitude[k], out=term)
        np.right_shift(term, shift, out=term)
        np.multiply(term, b_sign[k], out=term)
        np.multiply(term, a_sign[k], out=term)
        np.add(partial, term, out=partial)
        if (k + 1) % _TERMS_PER_INT32 == 0:
            total += partial
            partial[...] = 0
    total += partial
    return total, largest


def _round(d_fmt: str, total: NDArray[Any], unit: Int32Array | np.int32) -> NDArray[Any]:
    """Return total * 2^unit as codes of D's format; what rounds to zero is +0."""
    return _truncate_to_f32(total, unit) if d_fmt == "f32" else _round_to_f16(total, unit)


def _truncate_to_f32(total: NDArray[Any], unit: Int32Array | np.int32) -> NDArray[np.uint32]:
    """Return total * 2^unit as f32 codes, truncated toward zero; too large is Inf, too small +0."""
    magnitude = np.abs(total)
    limit = 63
    if int(np.max(magnitude, initial=0)) < 1 << 31:
        magnitude, limit = magnitude.astype(np.int32, copy=False), 31
    lead = bit_length(magnitude.view(np.uint32 if limit == 31 else np.uint64), np.int32)
    lead += unit - np.int32(1)
    shift = np.maximum(lead - 23, -149) - unit
    kept = magnitude >> np.minimum(np.maximum(shift, 0), limit)
    kept = kept.astype(np.int32, copy=False) << np.minimum(np.maximum(-shift, 0), 31)
    code = kept + ((np.maximum(lead, -126) + 126) << 23)
    if np.max(lead, initial=0) > 127:
        code = np.where(lead > 127, np.int32(0x7F800000), code)
    code |= (total < 0).astype(np.int32) << 31
    return np.asarray(code * (kept != 0)).view(np.uint32)


def _round_to_f16(total: NDArray[Any], unit: Int32Array | np.int32) -> NDArray[np.uint16]:
    """Return total * 2^unit as f16 codes, rounded to nearest even; too large is Inf, too small +0."""
    magnitude = np.abs(total).astype(np.int64, copy=False)
    lead = bit_length(magnitude.view(np.uint64), np.int32) + (unit - np.int32(1))
    shift = np.maximum(lead - 10, -24) - unit
    right = np.minimum(np.maximum(shift, 0), 62).astype(np.int64)
    half = (np.int64(1) << right) >> 1
    # Half a unit less one, plus one if the kept part is odd, carries exactly when nearest-even rounds up.
    carry = (half - 1 + ((magnitude >> right) & 1)) * (half != 0)
    kept = ((magnitude + carry) >> right).astype(np.int32)
    kept <<= np.minimum(np.maximum(-shift, 0), 31)
    code = np.minimum(kept + (np.minimum(np.maximum(lead, -14) + 14, 31) << 10), 0x7C00)
    code |= (total < 0).astype(np.int32) << 15
    return np.asarray(code * (kept != 0)).astype(np.uint16)


def _put_specials(
    result: NDArray[Any], d_fmt: str, a: Decoded, b: Decoded, d: Decoded | None, negate: bool
) -> None:
    """Overwrite the elements that an Inf or a NaN reaches; these rules come before finite arithmetic."""
    c = CONSTANTS[d_fmt]
    a_inf, b_inf = a.number_class == INF, b.number_class == INF
    nan = np.any(a.number_class == NAN, 1)[:, None] | np.any(b.number_class == NAN, 1)[None, :]
    positive, negative = np.zeros_like(nan), np.zeros_like(nan)
    for k in np.flatnonzero(a_inf.any(0) | b_inf.any(0)):
        infinite = a_inf[:, k, None] | b_inf[None, :, k]
        zero = (a.significand[:, k, None] == 0) & ~a_inf[:, k, None]
        zero = zero | ((b.significand[None, :, k] == 0) & ~b_inf[None, :, k])
        nan |= infinite & zero
        minus = a.sign[:, k, None] ^ b.sign[None, :, k] ^ negate
        negative |= infinite & minus
        positive |= infinite & ~minus
    if d is not None:
        nan |= d.number_class == NAN
        positive |= (d.number_class == INF) & ~d.sign
        negative |= (d.number_class == INF) & d.sign
    nan |= positive & negative
    result[positive] = c.infinity
    result[negative] = c.infinity | c.sign
    result[nan] = c.nan
