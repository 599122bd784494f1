"""The tensor core's arithmetic for one tcgen05.mma of kind f16, tf32, f8f6f4 or mxf8f6f4, in integers only.

One alignment window serves all products of the instruction and the old D. With R the largest stored
exponent among them (scale exponents added) and q = R - 25, every term is truncated toward zero to a
multiple of 2^q, the multiples are summed exactly, and the sum is truncated to f32 or rounded to f16.

MEASURED: 25 fraction bits, truncation, no inner grouping; B200, by sf-tensor/tcgen05 (MODEL.md),
microsoft/MMA-Sim (arXiv 2511.10909) and Khattak & Mikaitis (arXiv 2512.07004).
ASSUMED: zero products and a zero D stay out of R (sf-tensor/tcgen05); `zero_products_in_window` gives
MMA-Sim's reading, where a zero has exponent -126.
ASSUMED: a sum too small for D's format gives +0 whatever its sign (sf-tensor/tcgen05).
ASSUMED: scale-input-d moves D's exponent exactly, before alignment; `scaled_d_flushes` makes zero of what
falls below the normal numbers. ASSUMED: the negate bits flip signs only.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.base.record import record
from drywell.numerics.corners import Unsettled
from drywell.numerics.formats import (
    CONSTANTS,
    FORMATS,
    INF,
    NAN,
    BoolArray,
    Decoded,
    UIntArray,
    as_codes,
    decode,
)
from drywell.numerics.window import (
    NO_EXPONENT,
    ZERO_EXPONENT,
    Accumulator,
    Int32Array,
    accumulator,
    check_shapes,
    lowest_bit,
    round_sum,
    scale_codes,
)

WINDOW_BITS = 25
"""Fraction bits kept below the largest stored exponent. MEASURED: see the module's sources."""

MULTIPLICAND_FORMATS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
"""Formats of A and B that share this window."""

_BLOCK_ELEMENTS = 1 << 15  # Elements of D worked on at a time: the int32 temporaries stay in the L2 cache.
_TERMS_PER_INT32 = 8  # Each term is below 2^27; 8 of them and D (below 2^26) fit an int32.


@record
class _Operand:
    """A or B taken apart; arrays are [K, rows]. Zeros have magnitude 0 and `NO_EXPONENT`.

    value = sign * magnitude * 2^(raw - mantissa_bits); `raw` has the scale's exponent in it. `special` says
    whether any is Inf or NaN: sign and magnitude are 0 there. `zeros` is the largest exponent that MMA-Sim
    gives to a zero of it, `NO_EXPONENT` without zeros; `nan_rows` are the rows with a NaN scale.
    """

    magnitude: Int32Array
    sign: Int32Array
    raw: Int32Array
    mantissa_bits: int
    special: bool
    zeros: int
    nan_rows: BoolArray | None


@record
class _Form:
    """Everything of one instruction but its numbers."""

    a_fmt: str
    b_fmt: str
    d_fmt: str
    negate_a: bool
    negate_b: bool
    scale_d_shift: int
    zeros_count: bool
    scaled_d_flushes: bool
    zero_d_exponent: int | None = None

    @property
    def zero_raw(self) -> int:
        """Return the exponent of a zero."""
        return ZERO_EXPONENT if self.zeros_count else NO_EXPONENT

    @property
    def zero_d_raw(self) -> int:
        """Return the exponent of a zero D."""
        return self.zero_raw if self.zero_d_exponent is None else self.zero_d_exponent


@record
class _Inputs:
    """The codes of one instruction, checked; `sfa` and `sfb` are ue8m0 codes or None, `live` a mask of A."""

    a: UIntArray
    b: UIntArray
    d: ArrayLike | None
    sfa: UIntArray | None
    sfb: UIntArray | None
    live: BoolArray | None


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
    scaled_d_flushes: bool = False,
    sfa: ArrayLike | None = None,
    sfb: ArrayLike | None = None,
    live: BoolArray | None = None,
    zero_d_exponent: int | None = None,
    unsettled: Unsettled | None = None,
) -> NDArray[np.uint32]:
    """Return D = A * B^T + D * 2^-scale_d_shift as f32 codes [M, N], for the K of one instruction.

    `a_codes` is [M, K], `b_codes` [N, K]; `d_bits` f32 codes [M, N], or None when D is not read. `sfa`
    [M, J] and `sfb` [N, J] are ue8m0 codes, each for K / J consecutive k (kind::mxf8f6f4 has J = 1); None:
    no scaling. A sparse A comes expanded with its mask `live` [M, K] (`sparsity.expand`). `zero_d_exponent`
    is what a zero D has in the window. Counts go to `unsettled`, see `corners`.

    >>> one = np.full((1, 16), 0x3C00, np.uint16)
    >>> hex(mma_f32(one, one, None, "f16", "f16")[0, 0])
    '0x41800000'
    """
    flags = (negate_a, negate_b, scale_d_shift, zero_products_in_window, scaled_d_flushes)
    form = _Form(a_fmt, b_fmt, "f32", *flags, zero_d_exponent)
    return _mma(form, _inputs(form, a_codes, b_codes, d_bits, sfa, sfb, live), unsettled)


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
    scaled_d_flushes: bool = False,
    live: BoolArray | None = None,
    unsettled: Unsettled | None = None,
) -> NDArray[np.uint16]:
    """Return the same as `mma_f32` with D read and written as f16 codes, rounded to nearest even."""
    flags = (negate_a, negate_b, scale_d_shift, zero_products_in_window, scaled_d_flushes)
    form = _Form(a_fmt, b_fmt, "f16", *flags)
    return _mma(form, _inputs(form, a_codes, b_codes, d_bits, None, None, live), unsettled)


def _inputs(
    form: _Form,
    a_codes: ArrayLike,
    b_codes: ArrayLike,
    d_bits: ArrayLike | None,
    sfa: ArrayLike | None,
    sfb: ArrayLike | None,
    live: BoolArray | None,
) -> _Inputs:
    """Check the shapes and return the codes in their containers."""
    a, b = _matrix("A", form.a_fmt, a_codes), _matrix("B", form.b_fmt, b_codes)
    check_shapes(a, b, d_bits, live)
    if (sfa is None) != (sfb is None):
        raise ValueError("one of SFA and SFB is missing: block scaling needs both")
    if sfa is None or sfb is None:
        return _Inputs(a, b, d_bits, None, None, live)
    scales = scale_codes("SFA", sfa, *a.shape), scale_codes("SFB", sfb, *b.shape)
    return _Inputs(a, b, d_bits, *scales, live)


def _mma(form: _Form, given: _Inputs, unsettled: Unsettled | None) -> NDArray[Any]:
    """Take the operands apart, run the exact or the windowed sum, and count what hangs on open questions."""
    x = _operand(form.a_fmt, given.a, form.negate_a, form.zero_raw, given.sfa, given.live)
    y = _operand(form.b_fmt, given.b, form.negate_b, form.zero_raw, given.sfb, None)
    d = accumulator(form.d_fmt, given.d, form.scale_d_shift, form.zero_d_raw)
    tiny = _has_tiny(form, d)
    if tiny and form.scaled_d_flushes:
        d = _flushed(form, d)
    unit = None if form.zeros_count else _exact_unit(x, y, d)
    if unit is None:
        result = _windowed(x, y, d, form.d_fmt)
    else:
        result = round_sum(form.d_fmt, _exact_sum(x, y, d, unit), np.int32(unit))
    if x.special or y.special or d.special is not None:
        _put_specials(result, form, given, d.special)
    for nan, place in ((x.nan_rows, np.s_[:, None]), (y.nan_rows, np.s_[None, :])):
        if nan is not None:
            result[np.broadcast_to(nan[place], result.shape)] = CONSTANTS[form.d_fmt].nan
    if unsettled is not None:
        if tiny:
            other = replace(form, scaled_d_flushes=not form.scaled_d_flushes)
            unsettled["scaled_d_flushes"] += _num_changed(result, other, given)
        if _zeros_may_matter(x, y, d):
            other = replace(form, zeros_count=not form.zeros_count)
            unsettled["zero_products_in_window"] += _num_changed(result, other, given)
    return result


def _num_changed(result: NDArray[Any], other: _Form, given: _Inputs) -> int:
    """Count the words that the instruction would give otherwise under `other`."""
    return int(np.count_nonzero(result != _mma(other, given, None)))


def _has_tiny(form: _Form, d: Accumulator) -> bool:
    """Say whether any D * 2^-s, s > 0, is not zero but below the smallest normal number of its format."""
    if not form.scale_d_shift or d.raw is None or d.magnitude is None:
        return False
    return bool(((d.raw < FORMATS[form.d_fmt].min_exponent) & (d.magnitude != 0)).any())


def _flushed(form: _Form, d: Accumulator) -> Accumulator:
    """Return the old D with what is below the smallest normal number made zero."""
    assert d.raw is not None and d.magnitude is not None
    keep = d.raw >= FORMATS[form.d_fmt].min_exponent
    raw = np.where(keep | (d.magnitude == 0), d.raw, np.int32(form.zero_d_raw))
    return replace(d, magnitude=d.magnitude * keep, raw=raw)


def _zeros_may_matter(x: _Operand, y: _Operand, d: Accumulator) -> bool:
    """Say whether counting zeros in the window, or not, can change a word; False is a proof.

    It cannot when no zero's exponent lies above the smallest one that a non-zero term can have, nor when the
    window is wide enough for every bit either way.
    """
    never = NO_EXPONENT // 2
    lowest_r = sum(int(np.min(v.raw, where=v.magnitude != 0, initial=-never)) for v in (x, y))
    tops = [max(v.zeros, int(np.max(v.raw, where=v.magnitude != 0, initial=NO_EXPONENT))) for v in (x, y)]
    highest_zero = max(x.zeros + tops[1], y.zeros + tops[0])
    highest, lowest = sum(tops), sum(lowest_bit(v.magnitude, v.raw) - v.mantissa_bits for v in (x, y))
    if d.magnitude is not None and d.raw is not None:
        there = d.magnitude != 0
        lowest_r = min(lowest_r, int(np.min(d.raw, where=there, initial=-never)))
        highest = max(highest, int(np.max(d.raw, where=there, initial=NO_EXPONENT)))
        lowest = min(lowest, lowest_bit(d.magnitude, d.raw) - d.mantissa_bits)
        if not there.all():
            highest_zero = max(highest_zero, ZERO_EXPONENT)
    return highest_zero > lowest_r and max(highest, highest_zero) - lowest > WINDOW_BITS


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
    """Return magnitude, sign (0 for Inf and NaN) and raw exponent (`NO_EXPONENT` for zeros)."""
    sign = np.where(d.sign, -1, 1) * (d.number_class < INF)
    raw = np.where(d.significand != 0, d.raw_exponent, NO_EXPONENT)
    return d.significand.astype(np.int32), sign.astype(np.int32), raw.astype(np.int32)


def _operand(
    fmt: str,
    codes: UIntArray,
    negate: bool,
    zero_raw: int,
    scales: UIntArray | None,
    live: BoolArray | None,
) -> _Operand:
    """Take A or B apart, transposed to [K, rows], its scales' exponents added."""
    turned = np.ascontiguousarray(codes.T)
    if turned.dtype.itemsize <= 2:
        magnitude, sign, raw = (table.take(turned) for table in _multiplicands(fmt))
    else:
        magnitude, sign, raw = _take_apart(decode(fmt, turned))
    special = not sign.all()
    if negate:
        sign = -sign
    zero = magnitude == 0
    if live is not None:
        zero &= live.T
    zeros = ZERO_EXPONENT if zero.any() else NO_EXPONENT
    if zero_raw != NO_EXPONENT:
        raw[zero] = zero_raw
    nan_rows = None
    if scales is not None:
        exponent = scales.T.astype(np.int32) - FORMATS["ue8m0"].bias
        raw += exponent.repeat(len(turned) // len(exponent), 0)
        zeros += int(exponent.max(initial=-FORMATS["ue8m0"].bias))
        nan = (scales == CONSTANTS["ue8m0"].nan).any(1)
        nan_rows = nan if nan.any() else None
    return _Operand(magnitude, sign, raw, FORMATS[fmt].mantissa_bits, special, zeros, nan_rows)


def _is_multiple(d: Accumulator, unit: int) -> bool:
    """Say whether every D is a multiple of 2^unit."""
    if d.magnitude is None or d.raw is None:
        return True
    below = np.minimum(np.maximum(np.int32(unit + d.mantissa_bits) - d.raw, 0), 31)
    mask = (np.int32(1) << below) - np.int32(1)
    return not (d.magnitude & mask & 0x7FFFFFFF).any()


def _exact_unit(x: _Operand, y: _Operand, d: Accumulator) -> int | None:
    """Return an exponent of which every term of every element is a multiple, if the window cannot drop a bit.

    With L the lowest set bit of any term and R the highest stored exponent possible, L >= R - 25 proves that
    truncation changes nothing, and R - L <= 25 bounds each term by 2^27 units. None when there is no proof.
    """
    highest = int(np.max(x.raw, initial=NO_EXPONENT)) + int(np.max(y.raw, initial=NO_EXPONENT))
    lowest = lowest_bit(x.magnitude, x.raw) - x.mantissa_bits
    lowest += lowest_bit(y.magnitude, y.raw) - y.mantissa_bits
    if d.magnitude is not None and d.raw is not None and highest - lowest <= WINDOW_BITS:
        highest = max(highest, int(np.max(d.raw, initial=NO_EXPONENT)))
        if not _is_multiple(d, lowest):
            lowest = min(lowest, lowest_bit(d.magnitude, d.raw) - d.mantissa_bits)
    if highest <= NO_EXPONENT // 2:
        return 0  # all terms are zero
    return lowest if highest - lowest <= WINDOW_BITS else None


def _exact_sum(x: _Operand, y: _Operand, d: Accumulator, unit: int) -> NDArray[Any]:
    """Return the exact sums in units of 2^unit; `unit` comes from `_exact_unit`."""
    num_k = x.magnitude.shape[0]
    a_unit, b_unit = lowest_bit(x.magnitude, x.raw), lowest_bit(y.magnitude, y.raw)
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


def _windowed(x: _Operand, y: _Operand, d: Accumulator, d_fmt: str) -> NDArray[Any]:
    """Return D by the window rule, in blocks of rows."""
    num_m, num_n = x.magnitude.shape[1], y.magnitude.shape[1]
    result = np.empty((num_m, num_n), FORMATS[d_fmt].dtype)
    # Products carry these extra low bits so that aligning them is a right shift only.
    align = WINDOW_BITS - x.mantissa_bits - y.mantissa_bits
    left, right = (x.magnitude << align) * x.sign, y.magnitude * y.sign
    rows = max(1, _BLOCK_ELEMENTS // max(num_n, 1))
    for start in range(0, num_m, rows):
        block = slice(start, start + rows)
        a = (left[:, block, None], x.raw[:, block, None])
        total, largest = _block_sum(a, (right, y.raw), d, block)
        result[block] = round_sum(d_fmt, total, largest - WINDOW_BITS)
    return result


def _block_sum(
    a: tuple[Int32Array, Int32Array], b: tuple[Int32Array, Int32Array], d: Accumulator, block: slice
) -> tuple[NDArray[np.int64], Int32Array]:
    """Return the sums of truncated terms in units of 2^(R-25), and R, for one block of rows.

    `a` and `b` are signed significands and stored exponents. NumPy shifts by 32 and more to 0.
    """
    (a_number, a_raw), (b_number, b_raw) = a, b
    shape = (a_raw.shape[1], b_raw.shape[1])
    largest = np.full(shape, 2 * NO_EXPONENT, np.int32) if d.raw is None else d.raw[block].copy()
    shifts = np.empty((a_raw.shape[0], *shape), np.int32)
    for k, shift in enumerate(shifts):
        np.add(a_raw[k], b_raw[k], out=shift)
        np.maximum(largest, shift, out=largest)
    total = np.zeros(shape, np.int64)
    if d.magnitude is not None and d.sign is not None and d.raw is not None:
        old = d.magnitude[block] << (WINDOW_BITS - d.mantissa_bits)
        total += (old >> (largest - d.raw[block])) * d.sign[block]
    term, sign, partial = np.empty(shape, np.int32), np.empty(shape, np.int32), np.zeros(shape, np.int32)
    for k, shift in enumerate(shifts):
        np.subtract(largest, shift, out=shift)
        np.multiply(a_number[k], b_number[k], out=term)
        np.sign(term, out=sign)
        np.abs(term, out=term)
        np.right_shift(term, shift, out=term)
        np.multiply(term, sign, out=term)
        np.add(partial, term, out=partial)
        if (k + 1) % _TERMS_PER_INT32 == 0:
            total += partial
            partial[...] = 0
    total += partial
    return total, largest


def _put_specials(result: NDArray[Any], form: _Form, given: _Inputs, d: Decoded | None) -> None:
    """Overwrite the elements that an Inf or a NaN reaches; these rules come before finite arithmetic."""
    a, b, live = decode(form.a_fmt, given.a), decode(form.b_fmt, given.b), given.live
    c = CONSTANTS[form.d_fmt]
    a_inf, b_inf = a.number_class == INF, b.number_class == INF
    nan: BoolArray = np.any(a.number_class == NAN, 1)[:, None] | _reached(b.number_class == NAN, live)
    positive, negative = np.zeros(result.shape, np.bool_), np.zeros(result.shape, np.bool_)
    for k in np.flatnonzero(a_inf.any(0) | b_inf.any(0)):
        infinite = a_inf[:, k, None] | b_inf[None, :, k]
        if live is not None:
            infinite &= live[:, k, None]
        zero = (a.significand[:, k, None] == 0) & ~a_inf[:, k, None]
        zero = zero | ((b.significand[None, :, k] == 0) & ~b_inf[None, :, k])
        nan = nan | (infinite & zero)
        minus = a.sign[:, k, None] ^ b.sign[None, :, k] ^ (form.negate_a != form.negate_b)
        negative |= infinite & minus
        positive |= infinite & ~minus
    if d is not None:
        nan = nan | (d.number_class == NAN)
        positive |= (d.number_class == INF) & ~d.sign
        negative |= (d.number_class == INF) & d.sign
    nan = nan | (positive & negative)
    result[positive] = c.infinity
    result[negative] = c.infinity | c.sign
    result[np.broadcast_to(nan, result.shape)] = c.nan


def _reached(marked: BoolArray, live: BoolArray | None) -> BoolArray:
    """Say which elements of D [M or 1, N] meet a marked element of B [N, K]."""
    if live is None:
        return np.asarray(np.any(marked, 1)[None, :])
    met = np.zeros((live.shape[0], marked.shape[0]), np.bool_)
    for k in np.flatnonzero(marked.any(0)):
        met |= live[:, k, None] & marked[None, :, k]
    return met
