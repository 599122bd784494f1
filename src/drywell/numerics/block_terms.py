"""The terms of one block-scaled multiplication of e2m1 numbers, taken apart for `block_scale`."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drywell.base.record import record
from drywell.numerics.formats import FORMATS, NAN, BoolArray, UIntArray, decode
from drywell.numerics.window import NO_EXPONENT, Accumulator, Int32Array

ScaleFormat = Literal["ue8m0", "ue4m3"]

Int64Array = NDArray[np.int64]

NOWHERE = 2 * NO_EXPONENT
"""Exponent of a pair that stays out of the window, for arrays: below the sum of any two."""

_DEAD = -64  # Stored exponent of a zero element: any sum with it is negative, and fits 8 bits.
_HALVES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int16)
_RAW = np.array([_DEAD, 0, 0, 0, 1, 1, 2, 2] * 2, np.int8)


@record
class ScaledOperand:
    """A or B: `halves` [K, rows] are signed halves, `raw` their stored exponents, negative for a zero.

    `scale` and `scale_raw` are [groups, rows]: a scale is worth its significand times
    2^(raw - mantissa_bits). A zero or NaN has significand 0. `nan_rows` are the rows with a NaN scale.
    """

    halves: NDArray[np.int16]
    raw: NDArray[np.int8]
    scale: Int64Array
    scale_raw: Int32Array
    nan_rows: BoolArray

    @property
    def is_there(self) -> BoolArray:
        """Say which elements [K, rows] are not zero, their scale neither."""
        length = len(self.raw) // len(self.scale)
        return np.asarray((self.raw >= 0) & (self.scale != 0).repeat(length, 0))


def scaled_operand(
    codes: UIntArray,
    scales: UIntArray,
    scale_fmt: ScaleFormat,
    num_groups: int,
    negate: bool,
    live: BoolArray | None,
    zero_scales_count: bool = False,
) -> ScaledOperand:
    """Take e2m1 codes [rows, K] and their scale codes [rows, J] apart.

    Elements that `live` [rows, K] leaves out are zeros. A zero scale has `NO_EXPONENT`: MMA-Sim's -126 for it
    never shows, being far below that of any other scale and of the last bit of any f32 + 35. With
    `zero_scales_count` it has the exponent that its code stores, that of the subnormals.
    """
    code = np.ascontiguousarray(codes.T) & 15
    if live is not None:
        code = code * live.T
    # ue4m3 ignores bit 7. MEASURED: sf-tensor/tcgen05, MMA-Sim.
    value = decode(scale_fmt, scales & 0x7F if scale_fmt == "ue4m3" else scales)
    scale, nan = value.significand.T, (value.number_class == NAN).any(1)
    zero_raw = FORMATS[scale_fmt].min_exponent if zero_scales_count else NO_EXPONENT
    raw = np.where(scale == 0, zero_raw, value.raw_exponent.T).astype(np.int32)
    repeat = num_groups // scales.shape[1]
    halves = -_HALVES[code] if negate else _HALVES[code]
    return ScaledOperand(halves, _RAW[code], scale.repeat(repeat, 0), raw.repeat(repeat, 0), nan)


class Terms:
    """All terms of one instruction, and what the open questions ask of them, made when first needed.

    Arrays by group are [groups, M, N]. A group's sum of products of halves, times its two scales'
    significands, counts units of 2^(sum of its scales' raw - unit_bits).
    """

    def __init__(
        self,
        a: ScaledOperand,
        b: ScaledOperand,
        d: Accumulator,
        d_words: UIntArray | None,
        scale_fmt: ScaleFormat,
    ) -> None:
        self.a, self.b, self.d, self.d_words = a, b, d, d_words
        self.is_ue4m3 = scale_fmt == "ue4m3"
        self.num_groups = len(a.scale)
        self.shape = (a.halves.shape[1], b.halves.shape[1])
        self.unit_bits = 2 + 2 * FORMATS[scale_fmt].mantissa_bits

    def _sums(self, num_stretches: int) -> NDArray[np.int16]:
        """Return the sums of products over equal stretches of K, scales left out; |sum| <= 32 * 144."""
        a, b = (v.halves.reshape(num_stretches, -1, v.halves.shape[1]) for v in (self.a, self.b))
        return np.asarray(np.einsum("gkm,gkn->gmn", a, b))

    @cached_property
    def group_sums(self) -> NDArray[np.int16]:
        """Return the sums of groups of 16 live products."""
        return self._sums(self.num_groups)

    @cached_property
    def quarter_sums(self) -> NDArray[np.int16]:
        """Return the sums of groups of 4 live products."""
        return self._sums(4 * self.num_groups)

    @cached_property
    def peaks(self) -> NDArray[np.int8]:
        """Return each group's largest stored exponent of a non-zero product without scales; < 0: none."""
        a, b = (v.raw.reshape(self.num_groups, -1, v.raw.shape[1]) for v in (self.a, self.b))
        peaks = np.full((self.num_groups, *self.shape), 2 * _DEAD, np.int8)
        total = np.empty(self.shape, np.int8)
        for g, peak in enumerate(peaks):
            for k in range(a.shape[1]):
                np.add(a[g, k, :, None], b[g, k], out=total)
                np.maximum(peak, total, out=peak)
        dead = (self.a.scale == 0)[:, :, None] | (self.b.scale == 0)[:, None, :]
        if dead.any():
            peaks[dead] = 2 * _DEAD
        return peaks

    @cached_property
    def product_top(self) -> Int32Array:
        """Return the largest stored exponent of a non-zero product, scales added, [M, N]."""
        top = np.full(self.shape, NOWHERE, np.int32)
        for g, peak in enumerate(self.peaks):
            pair = self.a.scale_raw[g][:, None] + self.b.scale_raw[g]
            np.maximum(top, np.where(peak >= 0, pair + peak, NOWHERE), out=top)
        return top

    @cached_property
    def has_zero_block(self) -> bool:
        """Say whether any element of D has a group without a non-zero product."""
        if not self.a.scale.all() or not self.b.scale.all():
            return True
        length = len(self.a.raw) // self.num_groups
        fewest = 0
        for v in (self.a, self.b):
            there = (v.raw >= 0).reshape(self.num_groups, length, -1).sum(1)
            fewest += int(there.min(initial=length))
        # With more non-zero elements than places, a row and a column must meet somewhere.
        return fewest <= length and bool((self.peaks < 0).any())

    def has_product(self, rows: NDArray[Any], columns: NDArray[Any]) -> BoolArray:
        """Say which of the elements (rows[i], columns[i]) of D have a non-zero product."""
        return np.asarray((self.a.is_there[:, rows] & self.b.is_there[:, columns]).any(0))
