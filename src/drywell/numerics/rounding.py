"""Round an exact integer times a power of two to a format: the one place where bits are dropped.

Integers only, vectorised. Everything that has no fast path of its own ends here.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drywell.numerics.formats import BoolArray, Format, IntArray, UIntArray

Rounding = Literal["rn", "rna", "rz", "rm", "rp"]
"""Nearest even, nearest away from zero, toward zero, toward minus infinity, toward plus infinity."""

ROUNDINGS: tuple[Rounding, ...] = ("rn", "rna", "rz", "rm", "rp")
_NAMED: dict[str | None, Rounding] = {
    None: "rn",
    **{rounding: rounding for rounding in ROUNDINGS},
    **{f"{rounding}i": rounding for rounding in ROUNDINGS},
}


def rounding_named(word: str | None) -> Rounding:
    """Return the rounding that a modifier names: `rz`, or `rzi` to an integral value; `rn` for none."""
    return _NAMED[word]


U64 = NDArray[np.uint64]


def bit_length(magnitude: UIntArray, dtype: Any = np.int64) -> NDArray[Any]:
    """Count the bits up to the highest set one, 0 for 0, as integers of `dtype`; integers only.

    >>> bit_length(np.array([0, 1, 255, 2**63], np.uint64))
    array([ 0,  1,  8, 64])
    """
    x = np.array(magnitude)
    shift = 1
    moved = np.empty_like(x)
    while shift < x.dtype.itemsize * 8:
        np.right_shift(x, x.dtype.type(shift), out=moved)
        np.bitwise_or(x, moved, out=x)
        shift *= 2
    return np.bitwise_count(x).astype(dtype)


def round_up(kept: U64, rest: U64, half: U64, negative: BoolArray, rounding: Rounding) -> BoolArray:
    """Say where a magnitude `kept` with dropped part `rest` of `2*half` moves one unit away from zero."""
    if rounding == "rn":
        return np.asarray((rest > half) | ((rest == half) & ((kept & np.uint64(1)) != 0) & (rest != 0)))
    if rounding == "rna":
        return np.asarray((rest >= half) & (rest != 0))
    if rounding == "rz":
        return np.zeros(kept.shape, np.bool_)
    toward = negative if rounding == "rm" else ~negative
    return np.asarray((rest != 0) & toward)


def shift_right_rounding(magnitude: U64, shift: IntArray, negative: BoolArray, rounding: Rounding) -> U64:
    """Return magnitude / 2^shift rounded to an integer; negative shifts are exact and must not overflow."""
    far = shift > 63
    if np.any(far):  # only whether something is left matters: keep it as a sticky bit below the half
        folded = (magnitude >> np.uint64(1)) | (magnitude & np.uint64(1))
        magnitude = np.where(far, np.where(shift > 64, (magnitude != 0).astype(np.uint64), folded), magnitude)
        shift = np.where(far, 63, shift)
    right = np.maximum(shift, 0).astype(np.uint64)
    left = np.maximum(-shift, 0).astype(np.uint64)
    kept = (magnitude >> right) << left
    rest = magnitude & ((np.uint64(1) << right) - np.uint64(1))
    half = (np.uint64(1) << right) >> np.uint64(1)
    return np.asarray(kept + round_up(kept, rest, half, negative, rounding))


def round_pack(
    f: Format,
    negative: BoolArray,
    magnitude: U64,
    exponent: IntArray,
    rounding: Rounding,
    satfinite: bool = False,
    flush: bool = False,
) -> UIntArray:
    """Return the codes of (-1)^negative * magnitude * 2^exponent in format `f`, rounded once.

    `magnitude` uses all 64 bits if need be; its lowest bit may be a sticky bit when more than
    `mantissa_bits + 2` bits lie above it. Overflow goes to Inf or the largest finite number as the rounding
    says; to the largest finite one with `satfinite` or when the format has neither Inf nor NaN; to NaN
    otherwise. `flush` gives the zero of its sign where `is_tiny`. Unsigned formats take the magnitude
    (ASSUMED: cvt to ue8m0 drops the sign).
    """
    first = exponent + bit_length(magnitude) - 1
    lead = np.where(magnitude != 0, np.maximum(first, f.min_exponent), f.min_exponent)
    shift = lead - f.mantissa_bits - exponent
    negative = negative if f.has_sign else np.zeros_like(negative)
    if not f.has_subnormals:
        return _pack_power(f, magnitude, lead, shift, rounding, satfinite)
    kept = shift_right_rounding(magnitude, shift, negative, rounding)
    limit = np.uint64(f.max_finite >> f.pad_bits)
    # Clip before scaling so that the exponent field of a huge value cannot wrap.
    top = 1 << f.exponent_bits
    field = np.minimum(lead - f.min_exponent, top).astype(np.uint64)
    code = (field << np.uint64(f.mantissa_bits)) + kept
    over = code > limit
    if np.any(over):
        code = np.where(over, _overflow(f, negative, rounding, satfinite), code)
    if flush:
        tiny = is_tiny(f, magnitude, first, exponent, negative, rounding)
        code = np.where(tiny, np.uint64(0), code)
    code = code << np.uint64(f.pad_bits)
    if f.has_sign:
        code = code | np.where(negative, np.uint64(f.sign_mask), np.uint64(0))
    return np.asarray(code.astype(f.dtype))


def is_tiny(
    f: Format, magnitude: U64, lead: IntArray, exponent: IntArray, negative: BoolArray, rounding: Rounding
) -> BoolArray:
    """Say where a value, leading bit 2^lead, rounds at full precision to below the smallest normal one.

    This is IEEE 754's tininess after rounding: the exponent range is taken as unbounded.
    MEASURED: .ftz flushes exactly these results of mul, fma, div and cvt (f32, f16); H200, 12,000
    values next to the smallest normal number for each rounding.
    """
    shift = lead - f.mantissa_bits - exponent
    kept = shift_right_rounding(magnitude, np.where(magnitude != 0, shift, 0), negative, rounding)
    carried = kept >> np.uint64(f.mantissa_bits + 1)
    return np.asarray(lead + carried.astype(np.int64) < f.min_exponent)


def _overflow(f: Format, negative: BoolArray, rounding: Rounding, satfinite: bool) -> U64:
    """Return what a value beyond the largest finite one becomes, without sign and padding."""
    limit = np.uint64(f.max_finite >> f.pad_bits)
    if satfinite or not f.has_nan:
        return np.full(negative.shape, limit)
    if f.has_inf:
        beyond = np.uint64(f.infinity >> f.pad_bits)
    else:
        beyond = np.uint64(0 if f.canonical_nan is None else f.canonical_nan)
    everywhere = np.ones(negative.shape, np.bool_)
    stays_finite = {"rz": everywhere, "rm": ~negative, "rp": negative}.get(rounding, ~everywhere)
    return np.where(stays_finite, limit, beyond)


def _pack_power(
    f: Format, magnitude: U64, lead: IntArray, shift: IntArray, rounding: Rounding, satfinite: bool
) -> UIntArray:
    """Round to a power of two (ue8m0): no zero exists, what is too small becomes 2^-127."""
    positive = np.zeros(magnitude.shape, np.bool_)
    kept = shift_right_rounding(magnitude, shift, positive, rounding)
    code = lead + f.bias + (kept > 1)
    code = np.minimum(code, f.max_finite if satfinite else 0xFF)
    return np.asarray(code.astype(f.dtype))
