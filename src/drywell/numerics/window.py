"""What the tensor core's dot products share: the old D taken apart, and a sum turned into D.

The window itself, a place to which every term is cut before the sum, is in `dot` (f16, tf32, f8f6f4,
mxf8f6f4) and `block_scale` (mxf4, mxf4nvf4).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.base.record import record
from drywell.numerics.formats import FORMATS, BoolArray, Decoded, UIntArray, as_codes, decode
from drywell.numerics.rounding import bit_length

Int32Array = NDArray[np.int32]

NO_EXPONENT = -(1 << 14)
"""Stored exponent of what stays out of the window: below any sum of real ones."""

ZERO_EXPONENT = -126
"""MMA-Sim's exponent of a zero."""


@record
class Accumulator:
    """The old D taken apart, [M, N]: value = sign * magnitude * 2^(raw - mantissa_bits).

    All None when D is not read. `special` is D decoded when it holds an Inf or a NaN; magnitude is 0 there.
    """

    magnitude: Int32Array | None
    sign: Int32Array | None
    raw: Int32Array | None
    mantissa_bits: int
    special: Decoded | None


def check_shapes(a: NDArray[Any], b: NDArray[Any], d: ArrayLike | None, live: BoolArray | None) -> None:
    """Raise ValueError unless A is [M, K], B [N, K], D [M, N] or None, and the mask of A [M, K] or None."""
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"A is {a.shape} and B is {b.shape}: both need the same K as second dimension")
    if d is not None and np.shape(d) != (a.shape[0], b.shape[0]):
        raise ValueError(f"D is {np.shape(d)}, needed is (M, N) = {(a.shape[0], b.shape[0])}")
    if live is not None and live.shape != a.shape:
        raise ValueError(f"the mask of A is {live.shape}, needed is (M, K) = {a.shape}")


def accumulator(
    fmt: str, codes: ArrayLike | None, shift: int = 0, zero_raw: int = NO_EXPONENT
) -> Accumulator:
    """Take the old D, divided by 2^shift, apart; a zero gets the exponent `zero_raw`.

    This is `decode` in 32-bit integers and without branches, because D is large.
    """
    f = FORMATS[fmt]
    if codes is None:
        return Accumulator(None, None, None, f.mantissa_bits, None)
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
        raw[field == top] = NO_EXPONENT
    return Accumulator(magnitude, (bits >> 31) | 1, raw, f.mantissa_bits, special)


def lowest_bit(magnitude: Int32Array, raw: Int32Array) -> int:
    """Return the smallest exponent of a set bit over all non-zero magnitudes, before `mantissa_bits`."""
    below = (magnitude & -magnitude) - 1  # ones below the lowest set bit; all ones for 0
    position = np.bitwise_count(below & 0x7FFFFFFF).astype(np.int32) + raw
    return int(np.min(position, where=magnitude != 0, initial=1 << 15))


def scale_codes(name: str, codes: ArrayLike, num_rows: int, num_k: int) -> UIntArray:
    """Return scale codes as [num_rows, J] bytes; J must divide `num_k`, elements or groups along K."""
    scales = as_codes("ue8m0", codes)
    fits = scales.ndim == 2 and scales.shape[0] == num_rows and scales.shape[1] > 0
    if not fits or num_k % scales.shape[1]:
        raise ValueError(f"{name} is {scales.shape}, needed is ({num_rows}, J) where J divides {num_k}")
    return scales


def round_sum(d_fmt: str, total: NDArray[Any], unit: Int32Array | np.int32) -> NDArray[Any]:
    """Return total * 2^unit as codes of D's format; what rounds to zero is +0."""
    return truncate_to_f32(total, unit) if d_fmt == "f32" else round_to_f16(total, unit)


def truncate_to_f32(total: NDArray[Any], unit: Int32Array | np.int32) -> NDArray[np.uint32]:
    """Return total * 2^unit as f32 codes, truncated toward zero; too large is Inf, too small +0."""
    magnitude, unit = _narrowed(np.abs(total), unit)
    lead = bit_length(magnitude.view(np.uint32), np.int32)
    lead += unit - np.int32(1)
    shift = np.maximum(lead - 23, -149) - unit
    kept = magnitude >> np.minimum(np.maximum(shift, 0), 31)
    kept <<= np.minimum(np.maximum(-shift, 0), 31)
    code = kept + ((np.maximum(lead, -126) + 126) << 23)
    if np.max(lead, initial=0) > 127:
        code = np.where(lead > 127, np.int32(0x7F800000), code)
    code |= (total < 0).astype(np.int32) << 31
    return np.asarray(code * (kept != 0)).view(np.uint32)


def _narrowed(magnitude: NDArray[Any], unit: Any) -> tuple[Int32Array, Any]:
    """Return magnitudes below 2^55 as 32-bit ones of larger units; 24 bits stay of what is cut."""
    largest = int(np.max(magnitude, initial=0))
    if largest < 1 << 31:
        return magnitude.astype(np.int32, copy=False), unit
    drop = np.zeros(magnitude.shape, np.int32)
    for bits in range(31, largest.bit_length(), 8):
        drop += (magnitude >> bits != 0) * np.int32(8)
    return (magnitude >> drop).astype(np.int32), unit + drop


def round_to_f16(total: NDArray[Any], unit: Int32Array | np.int32) -> NDArray[np.uint16]:
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
