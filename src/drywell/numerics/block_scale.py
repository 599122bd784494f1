"""The tensor core's arithmetic for one tcgen05.mma of kind mxf4 or mxf4nvf4, in integers only.

Products of 16 consecutive k, which share one pair of scales, are summed exactly. With S the largest
stored exponent of a pair of scales, c that of the old D, and q = max(S, c) - 35, every group's sum and D
are truncated toward zero to multiples of 2^q, added exactly, and the sum is truncated to f32. When all
products are zero the old D stays, but for -0, which becomes +0.

MEASURED: 35 bits below the scales, groups of at least 4 products, +0 for -0; B200, by sf-tensor/tcgen05
(MODEL.md, validation.py) and microsoft/MMA-Sim (arXiv 2511.10909). Both leave a zero scale out of S.
ASSUMED: what is a switch in `corners.Corners`. ASSUMED: K = 96 has the same rule with 6 groups; no public
model covers it. ASSUMED: the negate bits flip signs only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.numerics.block_terms import NOWHERE, Int64Array, ScaleFormat, Terms, scaled_operand
from drywell.numerics.corners import DEFAULT_CORNERS, K96_WINDOW, Corners, Unsettled
from drywell.numerics.formats import CONSTANTS, INF, NAN, BoolArray, UIntArray, as_codes
from drywell.numerics.window import (
    NO_EXPONENT,
    ZERO_EXPONENT,
    Int32Array,
    accumulator,
    check_shapes,
    lowest_bit,
    scale_codes,
    truncate_to_f32,
)

SCALE_WINDOW_BITS = 35
"""Bits kept below the largest scale exponent. MEASURED: see the module's sources."""

GROUP = 16
"""Live products summed exactly before the cut: 16 consecutive k, 32 logical ones of a sparse A."""

_BLOCK_ELEMENTS = 1 << 14  # Elements of D worked on at a time: the int64 temporaries stay in the L2 cache.
_TINY_GROUP = -174  # sf-tensor's floor for groups of a subnormal result.
_K96 = 96
_SPREAD = 4  # A product's stored exponent is at most this far above that of its scales.


def mma_mxf4(
    a_codes: ArrayLike,
    b_codes: ArrayLike,
    d_bits: ArrayLike | None,
    sfa: ArrayLike,
    sfb: ArrayLike,
    scale_fmt: ScaleFormat,
    *,
    negate_a: bool = False,
    negate_b: bool = False,
    live: BoolArray | None = None,
    corners: Corners = DEFAULT_CORNERS,
    unsettled: Unsettled | None = None,
) -> NDArray[np.uint32]:
    """Return D = A * SFA * (B * SFB)^T + D as f32 codes [M, N], for the K of one instruction.

    `a_codes` [M, K] and `b_codes` [N, K] are e2m1, one code a byte; K is 64 or 96, or 128 for a sparse A,
    which comes expanded with its mask `live` [M, K] (`sparsity.expand`). `sfa` [M, J] and `sfb` [N, J] are
    codes of `scale_fmt`, each for K / J consecutive k. `d_bits` are f32 codes, None when D is not read.
    Counts go to `unsettled`, see `corners`.

    >>> one, unit = np.full((1, 64), 2, np.uint8), np.full((1, 4), 0x38, np.uint8)
    >>> hex(mma_mxf4(one, one, None, unit, unit, "ue4m3")[0, 0])
    '0x42800000'
    """
    group = GROUP if live is None else 2 * GROUP
    a, b = _matrix("A", a_codes, group), _matrix("B", b_codes, group)
    check_shapes(a, b, d_bits, live)
    num_groups = a.shape[1] // group
    words = None if d_bits is None else as_codes("f32", d_bits)
    form = (scale_fmt, num_groups)
    count = corners.zero_scales_in_window
    x = scaled_operand(a, scale_codes("SFA", sfa, len(a), num_groups), *form, negate_a, live, count)
    y = scaled_operand(b, scale_codes("SFB", sfb, len(b), num_groups), *form, negate_b, None, count)
    terms = Terms(x, y, accumulator("f32", words), words, scale_fmt)
    lost = np.zeros(terms.shape, np.bool_)
    result = _words(terms, corners, lost)
    if unsettled is not None:
        if a.shape[1] == _K96:
            unsettled[K96_WINDOW] += int(np.count_nonzero(lost))
        _count(terms, corners, result, unsettled)
    return result


def _count(t: Terms, corners: Corners, result: NDArray[np.uint32], unsettled: Unsettled) -> None:
    """Add the number of words that each open question would change."""
    for name, other in _open_questions(t, corners):
        changed = _words(t, other, np.zeros(t.shape, np.bool_)) != result
        unsettled[name] += int(np.count_nonzero(changed))


def _matrix(name: str, codes: ArrayLike, group: int) -> UIntArray:
    """Return e2m1 codes as a matrix whose K is made of whole groups."""
    matrix = as_codes("e2m1", codes)
    if matrix.ndim != 2 or matrix.shape[1] % group or not matrix.shape[1]:
        raise ValueError(f"{name} is {matrix.shape}, needed is (rows, K) with K a multiple of {group}")
    return matrix


def _words(t: Terms, corners: Corners, lost: BoolArray) -> NDArray[np.uint32]:
    """Return D; mark in `lost` where the window dropped a bit."""
    result = np.empty(t.shape, np.uint32)
    rows = max(1, _BLOCK_ELEMENTS // max(t.shape[1], 1))
    for start in range(0, t.shape[0], rows):
        block = slice(start, start + rows)
        result[block] = _block_words(t, corners, block, lost[block])
    c = CONSTANTS["f32"]
    nan = t.a.nan_rows[:, None] | t.b.nan_rows
    if t.d.special is not None:
        infinite = t.d.special.number_class == INF
        result[infinite] = np.where(t.d.special.sign[infinite], c.infinity | c.sign, c.infinity)
        nan = nan | (t.d.special.number_class == NAN)
    result[nan] = c.nan
    return result


def _block_words(t: Terms, corners: Corners, rows: slice, lost: BoolArray) -> NDArray[np.uint32]:
    """Return some rows of D, specials left out."""
    pairs = [t.a.scale_raw[g, rows, None] + t.b.scale_raw[g] for g in range(t.num_groups)]
    top = _window_top(t, corners, rows, pairs)
    unit = top - np.int32(SCALE_WINDOW_BITS)
    products, some = _cut_sums(t, t.group_sums, rows, pairs, unit)
    if t.is_ue4m3 and corners.nvf4_group == GROUP // 4:
        products = _finer_sums(t, rows, pairs, unit, products)
    if some is not None:
        lost |= some
    if t.d.magnitude is None or t.d.raw is None or t.d.sign is None:
        words = truncate_to_f32(products, unit)
    else:
        shift = t.d.raw[rows] - np.int32(t.d.mantissa_bits) - unit
        old, cut = _shifted((t.d.magnitude[rows] * t.d.sign[rows]).astype(np.int64), shift)
        words = truncate_to_f32(products + old, unit)
        _keep_old(t, corners, rows, products, cut, words)
        if cut is not None:
            lost |= cut
    if corners.drops_tiny_groups and not t.is_ue4m3 and int(unit.min(initial=0)) < _TINY_GROUP:
        _drop_tiny_groups(t, rows, pairs, unit, words)
    return words


def _window_top(t: Terms, corners: Corners, rows: slice, pairs: list[Int32Array]) -> Int32Array:
    """Return the largest exponent of the window, max(S, c)."""
    top = np.full(pairs[0].shape, NOWHERE, np.int32)
    for g, pair in enumerate(pairs):
        counted = pair
        if not corners.zero_blocks_in_window:
            counted = np.where(t.peaks[g, rows] >= 0, pair, np.int32(NOWHERE))
        np.maximum(top, counted, out=top)
    if t.d.raw is not None and t.d.magnitude is not None:
        c = t.d.raw[rows]
        if corners.zero_products_in_window:
            c = np.where(t.d.magnitude[rows] == 0, np.int32(ZERO_EXPONENT), c)
        if t.is_ue4m3 and not corners.d_sets_window_above_scales:
            c = np.where(c >= t.product_top[rows], c, np.int32(NOWHERE))
        np.maximum(top, c, out=top)
    nothing = top < NO_EXPONENT // 2
    if nothing.any():
        top[nothing] = 0
    return top


def _cut_sums(
    t: Terms, sums: NDArray[np.int16], rows: slice, pairs: list[Int32Array], unit: Int32Array
) -> tuple[Int64Array, BoolArray | None]:
    """Return the scaled sums, each cut to multiples of 2^unit, added; and where bits were lost, or None."""
    total = np.zeros(unit.shape, np.int64)
    lost: BoolArray | None = None
    for h, part in enumerate(sums):
        g = h * t.num_groups // len(sums)
        cut, some = _shifted(_scaled(t, part, g, rows), pairs[g] - unit - np.int32(t.unit_bits))
        total += cut
        if some is not None:
            lost = some if lost is None else lost | some
    return total, lost


def _scaled(t: Terms, part: NDArray[np.int16], g: int, rows: slice) -> Int64Array:
    """Return sums of group `g` times the significands of its scales; below 2^20."""
    value = part[rows].astype(np.int64)
    if t.is_ue4m3:
        value *= t.a.scale[g, rows, None]
        value *= t.b.scale[g]
    return value


def _shifted(value: Int64Array, shift: Int32Array) -> tuple[Int64Array, BoolArray | None]:
    """Return value * 2^shift toward zero; and where bits were lost, None if nowhere."""
    if int(shift.min(initial=0)) >= 0:
        return value << np.minimum(shift, 62), None
    right = np.minimum(np.maximum(-shift, 0), 62)
    magnitude = np.abs(value) << np.minimum(np.maximum(shift, 0), 62)
    kept = magnitude >> right
    lost = (kept << right) != magnitude
    return np.where(value < 0, -kept, kept), lost if lost.any() else None


def _finer_sums(
    t: Terms, rows: slice, pairs: list[Int32Array], unit: Int32Array, products: Int64Array
) -> Int64Array:
    """Return the sums with groups of 4 where D is zero or below the largest product, else `products`."""
    finer, _ = _cut_sums(t, t.quarter_sums, rows, pairs, unit)
    if t.d.raw is None:
        return finer
    return np.where(t.d.raw[rows] >= t.product_top[rows], products, finer)


def _keep_old(
    t: Terms,
    corners: Corners,
    rows: slice,
    products: Int64Array,
    cut: BoolArray | None,
    words: NDArray[np.uint32],
) -> None:
    """Put the old D back where all products are zero, as the corners say."""
    assert t.d_words is not None
    old = t.d_words[rows]
    kept = np.zeros(words.shape, np.bool_)
    if corners.zero_products_keep_d and cut is not None:
        kept |= cut
    if corners.zero_products_keep_minus_zero:
        kept |= old == CONSTANTS["f32"].sign
    kept &= products == 0
    m, n = np.nonzero(kept)
    if m.size:
        dead = ~t.has_product(rows.start + m, n)
        words[m[dead], n[dead]] = old[m[dead], n[dead]]


def _drop_tiny_groups(
    t: Terms, rows: slice, pairs: list[Int32Array], unit: Int32Array, words: NDArray[np.uint32]
) -> None:
    """Leave out, where the result is subnormal, groups below 2^-174 whose scales are not the largest.

    D is zero wherever this applies: any other D lies above such products, and the rule is for D below them.
    """
    c = CONSTANTS["f32"]
    size = words & c.magnitude
    subject = (size != 0) & (size < c.smallest) & (unit < _TINY_GROUP)
    if t.d.magnitude is not None:
        subject &= t.d.magnitude[rows] == 0
    if not subject.any():
        return
    floor = np.int64(1) << np.minimum(np.maximum(_TINY_GROUP - unit, 0), 62).astype(np.int64)
    total = np.zeros(unit.shape, np.int64)
    for g, part in enumerate(t.group_sums):
        value, _ = _shifted(_scaled(t, part, g, rows), pairs[g] - unit - np.int32(t.unit_bits))
        largest = pairs[g] == unit + SCALE_WINDOW_BITS
        total += np.where(largest | (np.abs(value) >= floor), value, 0)
    words[subject] = truncate_to_f32(total, unit)[subject]


def _open_questions(t: Terms, corners: Corners) -> Iterator[tuple[str, Corners]]:
    """Yield the corners that may change a word, each with its switch the other way; no other one can."""
    a, b, d = t.a, t.b, t.d
    there = a.scale.any(1) & b.scale.any(1)
    highest = int((a.scale_raw.max(1) + b.scale_raw.max(1)).max(initial=NOWHERE))
    lowest = [np.min(v.scale_raw, axis=1, where=v.scale != 0, initial=1 << 12) for v in (a, b)]
    least = int(np.min(lowest[0] + lowest[1], where=there, initial=1 << 13))
    has_zero_d = d.magnitude is None or not d.magnitude.all()
    if d.raw is not None and d.magnitude is not None:
        highest = max(highest, int(np.max(d.raw, where=d.magnitude != 0, initial=NOWHERE)))
        cuts_d = highest - SCALE_WINDOW_BITS > lowest_bit(d.magnitude, d.raw) - d.mantissa_bits
    else:
        cuts_d = False
    cuts_products = highest - SCALE_WINDOW_BITS > least - t.unit_bits
    if (cuts_products or cuts_d) and t.has_zero_block:
        yield _turned(corners, "zero_blocks_in_window", not corners.zero_blocks_in_window)
    if cuts_d and t.has_zero_block:
        yield _turned(corners, "zero_products_keep_d", not corners.zero_products_keep_d)
    if t.is_ue4m3 and cuts_products:
        if d.magnitude is not None and d.magnitude.any() and _is_between(t):
            yield _turned(corners, "d_sets_window_above_scales", not corners.d_sets_window_above_scales)
        yield _turned(corners, "nvf4_group", GROUP if corners.nvf4_group != GROUP else GROUP // 4)
    if not t.is_ue4m3 and has_zero_d:
        if least < _TINY_GROUP + SCALE_WINDOW_BITS:
            yield _turned(corners, "drops_tiny_groups", not corners.drops_tiny_groups)
        if d.magnitude is not None and least < ZERO_EXPONENT:
            yield _turned(corners, "zero_products_in_window", not corners.zero_products_in_window)


def _turned(corners: Corners, name: str, value: Any) -> tuple[str, Corners]:
    """Return the name and the corners with that switch the other way."""
    return name, replace(corners, **{name: value})


def _is_between(t: Terms) -> bool:
    """Say whether any D lies below the largest product but not below all scales: ue4m3's open interval."""
    assert t.d.raw is not None
    return bool(((t.d.raw < t.product_top) & (t.d.raw >= t.product_top - _SPREAD)).any())
