"""mxf8f6f4's scales in the window, and what the window's open questions count, against plain integers."""

from collections import Counter

import numpy as np
import pytest

from drywell.numerics import FORMATS, Decoded, decode, from_float64, mma_f16, mma_f32
from unit.numerics.block_reference import f32, f32_value
from unit.numerics.words import random_words

PAIRS = [("e4m3", "e4m3"), ("e5m2", "e2m1"), ("e3m2", "e5m2"), ("e2m3", "e4m3"), ("e2m1", "e2m1")]
UNIT = 320  # as in block_reference
Term = tuple[int, int]  # a value in units of 2^-UNIT, and its stored exponent


def cut(x: int, q: int) -> int:
    magnitude = abs(x) >> max(q + UNIT, 0) << max(q + UNIT, 0)
    return -magnitude if x < 0 else magnitude


def number(d: Decoded, fmt: str, m: int, k: int) -> tuple[int, int, int]:
    """Signed significand, exponent of its unit, stored exponent."""
    raw = int(d.raw_exponent[m, k])
    return int(d.significand[m, k]) * (-1 if d.sign[m, k] else 1), raw - FORMATS[fmt].mantissa_bits, raw


def window(terms: list[Term]) -> int:
    """The f32 word of the rule: one window of 25 bits below the largest stored exponent."""
    there = [(x, raw) for x, raw in terms if x]
    q = max((raw for _, raw in there), default=0) - 25
    return f32(sum(cut(x, q) for x, _ in there))


def finite(fmt: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    codes = random_words(fmt, shape[0] * shape[1], seed).reshape(shape)
    return np.where(decode(fmt, codes).number_class > 2, codes & 0x8F, codes)


@pytest.mark.parametrize(("a_fmt", "b_fmt"), PAIRS)
@pytest.mark.parametrize("J", [1, 2])
@pytest.mark.parametrize("spread", [2, 12, 120])
def test_scales_move_the_exponents_of_their_products(a_fmt: str, b_fmt: str, J: int, spread: int) -> None:
    rng = np.random.default_rng([spread, J])
    a, b = finite(a_fmt, (7, 32), spread), finite(b_fmt, (6, 32), spread + 1)
    sfa, sfb = (127 + rng.integers(-spread, spread + 1, (rows, J)) for rows in (7, 6))
    x, y = decode(a_fmt, a), decode(b_fmt, b)
    center = sfa.max(1)[:, None] + sfb.max(1)[None, :] - 127
    field = np.clip(center + rng.integers(-30, 30, (7, 6)), 0, 254)
    d = ((field << 23) | rng.integers(0, 1 << 23, (7, 6))).astype(np.uint32)
    expected = np.zeros((7, 6), np.uint32)
    for m, n in np.ndindex(7, 6):
        old = int(d[m, n])
        terms = [(f32_value(old), max(old >> 23, 1) - 127)]
        for k in range(32):
            scale = int(sfa[m, k * J // 32] + sfb[n, k * J // 32]) - 254
            (p, p_unit, p_raw), (q, q_unit, q_raw) = number(x, a_fmt, m, k), number(y, b_fmt, n, k)
            terms.append((p * q << (p_unit + q_unit + scale + UNIT), p_raw + q_raw + scale))
        expected[m, n] = window(terms)
    assert np.array_equal(expected, mma_f32(a, b, d, a_fmt, b_fmt, sfa=sfa, sfb=sfb))


def test_the_ends_of_ue8m0_overflow_to_inf_and_vanish_to_plus_zero() -> None:
    one = from_float64("e4m3", [[1.0, *[0.0] * 31]])
    ends = {"sfa": [[0xFE], [0x00], [0xFE]], "sfb": [[0xFE], [0x00]]}
    word = mma_f32(
        one.repeat(3, 0) | np.array([[0], [0], [0x80]], np.uint8),
        one.repeat(2, 0),
        None,
        "e4m3",
        "e4m3",
        **ends,
    )
    assert [[0x7F800000, 0x3F800000], [0x3F800000, 0], [0xFF800000, 0xBF800000]] == word.tolist()


def test_a_nan_scale_reaches_its_row_or_column_even_over_zeros_and_infinities() -> None:
    a, b = np.zeros((3, 32), np.uint8), np.full((4, 32), 0x3C, np.uint8)
    a[2] = 0x7C  # Inf in e5m2
    sfa, sfb = np.full((3, 1), 0x7F), np.full((4, 1), 0x7F)
    sfa[0], sfb[3] = 0xFF, 0xFF
    expected = np.array([[0x7FFFFFFF] * 4, [0, 0, 0, 0x7FFFFFFF], [*[0x7F800000] * 3, 0x7FFFFFFF]])
    assert np.array_equal(expected, mma_f32(a, b, None, "e5m2", "e5m2", sfa=sfa, sfb=sfb))


def wide(fmt: str, rows: int, K: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of huge, tiny and middle numbers, a third of them zeros of both signs."""
    f = FORMATS[fmt]
    field = rng.integers(0, 15, (rows, K))
    if f.exponent_bits == 8:
        field = np.array([1, 40, 60, 127, 200, 250])[field % 6]
    code = (field << f.mantissa_bits) | rng.integers(0, 1 << f.mantissa_bits, (rows, K))
    code |= rng.integers(0, 2, (rows, K)) << (f.value_bits - 1)
    code = np.where(rng.random((rows, K)) < 0.35, code & (1 << (f.value_bits - 1)), code)
    return (code << f.pad_bits).astype(f.dtype)


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32", "e4m3"])
@pytest.mark.parametrize("reads_d", [True, False])
@pytest.mark.parametrize("base", [True, False])
def test_zeros_are_counted_where_they_would_change_a_word(fmt: str, reads_d: bool, base: bool) -> None:
    seen = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32}[fmt]
        a, b = wide(fmt, 9, K, rng), wide(fmt, 8, K, rng)
        if seed % 2:
            a, b = a[:, : K // 4], b[:, : K // 4]
        how: dict = {}
        if fmt == "e4m3":
            how = {"sfa": rng.integers(0, 254, (9, 1)), "sfb": rng.integers(0, 254, (8, 1))}
        d = wide("f32", 9, 8, rng) if reads_d else None
        counts: Counter[str] = Counter()
        word = mma_f32(a, b, d, fmt, fmt, zero_products_in_window=base, unsettled=counts, **how)
        other = mma_f32(a, b, d, fmt, fmt, zero_products_in_window=not base, **how)
        assert np.count_nonzero(word != other) == counts["zero_products_in_window"]
        seen += counts["zero_products_in_window"]
    # One scale for all of K moves zeros with the rest: without D nothing changes. f16 has no tiny products.
    assert (seen > 0) == (fmt in ("bf16", "tf32") or (fmt == "e4m3" and reads_d))


@pytest.mark.parametrize("shift", [0, 1, 5, 15])
@pytest.mark.parametrize("d_fmt", ["f32", "f16"])
def test_a_scaled_d_below_the_normal_numbers_may_be_flushed_and_is_counted(shift: int, d_fmt: str) -> None:
    rng = np.random.default_rng(shift)
    run = mma_f32 if d_fmt == "f32" else mma_f16
    d = random_words(d_fmt, 99, shift).reshape(9, 11)
    d = np.where(decode(d_fmt, d).number_class > 2, d & d.dtype.type(0x807F), d)
    a, b = np.zeros((9, 16), np.uint16), np.zeros((11, 16), np.uint16)
    a[:, 0], b[:, 0] = rng.integers(0, 3, 9), rng.integers(0, 3, 11)
    counts: Counter[str] = Counter()
    word = run(a, b, d, "f16", "f16", scale_d_shift=shift, unsettled=counts)
    flushed = run(a, b, d, "f16", "f16", scale_d_shift=shift, scaled_d_flushes=True)
    assert np.count_nonzero(word != flushed) == counts["scaled_d_flushes"]
    assert (shift > 0) == (counts["scaled_d_flushes"] > 0)
    f = FORMATS[d_fmt]
    tiny = (d & d.dtype.type(f.magnitude_mask)) < (shift + 1) << f.mantissa_bits
    plain = run(a, b, np.where(tiny & (shift > 0), 0, d), "f16", "f16", scale_d_shift=shift)
    assert np.array_equal(plain, flushed)
