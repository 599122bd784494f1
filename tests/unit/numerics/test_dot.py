"""The tensor core's window: the specification's facts by hand, laws, and the early exact path.

Word-by-word agreement with an independent scalar model is in tests/oracle.
"""

import numpy as np
import pytest

from drywell.numerics import dot, from_float32, from_float64, mma_f16, mma_f32
from unit.numerics.words import random_words

K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32}


def f32_word(value: float) -> np.ndarray:
    return from_float64("f32", [[value]])


def row(fmt: str, *values: float) -> np.ndarray:
    """K codes: `values`, then zeros."""
    return from_float64(fmt, [[*values, *[0.0] * (K[fmt] - len(values))]])


def word(fmt: str, a: list[float], b: list[float], d: np.ndarray | None) -> int:
    return int(mma_f32(row(fmt, *a), row(fmt, *b), d, fmt, fmt)[0, 0])


def test_ones_below_the_window_of_a_large_d_are_dropped_only_one_by_one() -> None:
    d = f32_word(2.0**24)
    assert 0x4B800000 == word("f16", [1], [1], d)
    assert 0x4B800001 == word("f16", [1, 1, 1], [1, 1, 1], d)


def test_sixteen_halves_vanish_beside_two_to_the_26() -> None:
    assert 0x4C800000 == word("f16", [1] * 16, [0.5] * 16, f32_word(2.0**26))


def test_the_window_keeps_25_fraction_bits_and_cuts_toward_zero() -> None:
    d, two_13 = f32_word(1.0), 2.0**-13
    assert 0x3F800000 == word("f16", [-two_13], [two_13], d)
    assert 0x3F7FFFFF == word("f16", [-two_13], [2 * two_13], d)


def test_32_large_e4m3_products_are_summed_in_one_window() -> None:
    a = row("e4m3", *[448.0] * 32)
    assert 0x4AC40000 == mma_f32(a, a, None, "e4m3", "e4m3")[0, 0]
    assert 0x7C00 == mma_f16(a, a, None, "e4m3", "e4m3")[0, 0]


@pytest.mark.parametrize(("small", "expected"), [(2.0**-11, 0x3C00), (3 * 2.0**-12, 0x3C01)])
def test_an_f16_d_is_rounded_to_nearest_even(small: float, expected: int) -> None:
    a, b = row("f16", 1.0, small), row("f16", 1.0, 1.0)
    assert expected == mma_f16(a, b, np.zeros((1, 1), np.uint16), "f16", "f16")[0, 0]
    assert expected == mma_f16(row("f16", small), b, from_float64("f16", [[1.0]]), "f16", "f16")[0, 0]


@pytest.mark.parametrize(
    ("a", "b", "d", "expected"),
    [
        (0x7F800001, 0x3F800000, 0, 0x7F800000),  # the NaN's payload lies in the dropped bits
        (0x7FC00000, 0x3F800000, 0, 0x7FFFFFFF),
        (0x7F800000, 0x00000000, 0, 0x7FFFFFFF),
        (0x7F800000, 0x00001FFF, 0, 0x7FFFFFFF),  # a zero once the low bits are gone
        (0x7F800000, 0x00002000, 0, 0x7F800000),
        (0xFF800000, 0x3F800000, 0x7F800000, 0x7FFFFFFF),
        (0xFF800000, 0x3F800000, 0x3F800000, 0xFF800000),
        (0x3F800000, 0x3F800000, 0x7F800001, 0x7FFFFFFF),
        (0x3F800000, 0x3F800000, 0xFF800000, 0xFF800000),
        (0x00000000, 0x3F800000, 0x80000000, 0x00000000),
        (0x00002000, 0x3F800000, 0, 0x00002000),
    ],
)
def test_tf32_special_values(a: int, b: int, d: int, expected: int) -> None:
    left, right = np.zeros((1, 8), np.uint32), np.zeros((1, 8), np.uint32)
    left[0, 3], right[0, 3] = a, b
    right[0, 0] = 0x3F800000
    assert expected == mma_f32(left, right, np.array([[d]], np.uint32), "tf32", "tf32")[0, 0]


def test_specials_stay_in_their_rows_and_columns() -> None:
    a, b = np.full((3, 16), 0x3C00, np.uint16), np.full((4, 16), 0x3C00, np.uint16)
    a[1, 5], b[2, 7] = 0x7E00, 0xFC00
    d = np.zeros((3, 4), np.uint32)
    d[0, 2] = 0x7F800000
    actual = mma_f32(a, b, d, "f16", "f16")
    expected = np.full((3, 4), 0x41800000, np.uint32)
    expected[:, 2], expected[1], expected[0, 2] = 0xFF800000, 0x7FFFFFFF, 0x7FFFFFFF
    assert np.array_equal(expected, actual)
    flipped = mma_f32(a, b, None, "f16", "f16", negate_a=True)
    assert [0x7F800000, 0x7FFFFFFF, 0x7F800000] == flipped[:, 2].tolist()


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32"])
def test_negating_both_operands_changes_nothing_and_one_flips_the_products(fmt: str) -> None:
    a, b = normal_codes(fmt, 9, 1), normal_codes(fmt, 7, 2)
    plain = mma_f32(a, b, None, fmt, fmt)
    assert np.array_equal(plain, mma_f32(a, b, None, fmt, fmt, negate_a=True, negate_b=True))
    assert np.array_equal(plain ^ np.uint32(1 << 31), mma_f32(a, b, None, fmt, fmt, negate_b=True))


def test_scale_input_d_divides_the_old_d_by_a_power_of_two() -> None:
    a, b = normal_codes("f16", 5, 3), normal_codes("f16", 6, 4)
    d = from_float32("f32", np.random.default_rng(5).standard_normal((5, 6)) * 300)
    for shift in (1, 7, 15):
        scaled = d - np.uint32(shift << 23)  # all exponents are far from the limits
        expected = mma_f32(a, b, scaled, "f16", "f16")
        assert np.array_equal(expected, mma_f32(a, b, d, "f16", "f16", scale_d_shift=shift))


def test_zero_products_may_hold_the_window_open() -> None:
    tiny = row("bf16", *[2.0**-76] * 16)
    assert 0x00000002 == mma_f32(tiny, tiny, None, "bf16", "bf16")[0, 0]
    d = np.zeros((1, 1), np.uint32)
    assert 0 == mma_f32(tiny, tiny, d, "bf16", "bf16", zero_products_in_window=True)[0, 0]


def test_what_is_too_small_or_too_large_for_d_is_plus_zero_or_inf() -> None:
    small = row("bf16", 2.0**-76)
    minus = mma_f32(small, small, None, "bf16", "bf16", negate_a=True)
    assert 0 == minus[0, 0]
    large = row("bf16", 2.0**64)
    assert 0xFF800000 == mma_f32(large, large, None, "bf16", "bf16", negate_b=True)[0, 0]
    assert 0xFC00 == mma_f16(row("f16", 256.0), row("f16", -256.0), None, "f16", "f16")[0, 0]


def normal_codes(fmt: str, rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return from_float32(fmt, rng.standard_normal((rows, K[fmt])).astype(np.float32))


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32", "e4m3"])
@pytest.mark.parametrize("low", [0, -6, 3])
def test_the_exact_path_gives_the_windows_bits(fmt: str, low: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(low + 50)
    scale = 2.0**low
    a, b = (from_float64(fmt, rng.integers(-7, 8, (rows, K[fmt])) * scale) for rows in (33, 29))
    d = from_float64("f32", rng.integers(-(2**12), 2**12, (33, 29)) * scale)
    taken: list[int | None] = []
    find = dot._exact_unit

    def spy(*operands: object) -> int | None:
        taken.append(find(*operands))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(dot, "_exact_unit", spy)
    exact = [mma_f32(a, b, old, fmt, fmt) for old in (d, None)]
    assert None not in taken
    monkeypatch.setattr(dot, "_exact_unit", lambda *operands: None)
    assert all(
        np.array_equal(x, mma_f32(a, b, old, fmt, fmt)) for x, old in zip(exact, (d, None), strict=True)
    )


def test_small_integers_are_multiplied_as_numpy_does() -> None:
    rng = np.random.default_rng(8)
    a, b, d = (
        rng.integers(-9, 10, (130, 16)),
        rng.integers(-9, 10, (40, 16)),
        rng.integers(-99, 99, (130, 40)),
    )
    expected = (a @ b.T + d).astype(np.float32).view(np.uint32)
    codes = from_float64("bf16", a), from_float64("bf16", b)
    assert np.array_equal(expected, mma_f32(*codes, from_float64("f32", d), "bf16", "bf16"))


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32", "e4m3"])
def test_rows_and_columns_are_independent(fmt: str) -> None:
    a, b = (random_words(fmt, rows * K[fmt], rows).reshape(rows, K[fmt]) for rows in (70, 600))
    d = random_words("f32", 70 * 600, 1).reshape(70, 600)
    whole = mma_f32(a, b, d, fmt, fmt)
    for rows, columns in ((slice(0, 1), slice(0, 600)), (slice(50, 70), slice(599, 600))):
        part = mma_f32(a[rows], b[columns], d[rows, columns], fmt, fmt)
        assert np.array_equal(whole[rows, columns], part)


def test_strided_operands_are_read_right_and_left_alone() -> None:
    big = random_words("f16", 64 * 64, 6).reshape(64, 64)
    copy = big.copy()
    a, b = big[::2, 16:32], big[1::4, ::4]
    expected = mma_f32(a.copy(), b.copy(), None, "f16", "f16")
    assert np.array_equal(expected, mma_f32(a, b, None, "f16", "f16"))
    assert np.array_equal(copy, big)


def test_shapes_and_formats_that_do_not_fit_are_named() -> None:
    a = np.zeros((2, 16), np.uint16)
    with pytest.raises(ValueError, match=r"A is \(2, 16\) and B is \(3, 8\)"):
        mma_f32(a, np.zeros((3, 8), np.uint16), None, "f16", "f16")
    with pytest.raises(ValueError, match=r"D is \(2, 3\), needed is \(M, N\) = \(2, 2\)"):
        mma_f32(a, a, np.zeros((2, 3), np.uint32), "f16", "f16")
    with pytest.raises(ValueError, match="B is 'f64'"):
        mma_f32(a, a, None, "f16", "f64")
    with pytest.raises(ValueError, match="A has 1 dimensions"):
        mma_f32(a[0], a, None, "f16", "f16")
