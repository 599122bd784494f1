from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from drywell.numerics import (
    CONSTANTS,
    FORMATS,
    convert,
    decode,
    from_float64,
    from_integer,
    is_nan,
    round_to_integral,
    to_float64,
    to_integer,
)
from unit.numerics import reference
from unit.numerics.words import random_words, specials

TARGETS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
ROUNDINGS = ("rn", "rna", "rz", "rm", "rp")


def boundary_words(fmt: str) -> np.ndarray:
    """f32 words at every value of a format and every midpoint between two, one ulp around, both signs."""
    codes = np.arange(FORMATS[fmt].max_finite + 1)
    values = np.unique(to_float64(fmt, codes))
    step = values[-1] - values[-2]
    values = np.append(values, [values[-1] + step, values[-1] + 2 * step])
    with np.errstate(over="ignore"):
        points = np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(np.float32).view(np.uint32)
    around = (points[:, None].astype(np.int64) + np.array([-1, 0, 1])).ravel()
    around = around[(around >= 0) & (around < 0x7F800000)].astype(np.uint32)
    return np.concatenate([around, around | np.uint32(0x80000000)])


def many_f32(fmt: str) -> np.ndarray:
    random = random_words("f32", 100_000, 11)
    return np.concatenate([boundary_words(fmt), random, specials("f32")])


@pytest.mark.parametrize("fmt", TARGETS)
def test_f32_rounds_to_nearest_as_ml_dtypes_does(fmt: str) -> None:
    words = many_f32(fmt)
    with np.errstate(all="ignore"):
        source = words.view(np.float32)
        expected = source.astype(TARGETS[fmt]).astype(np.float64)
    finite = np.isfinite(source)
    actual = to_float64(fmt, convert(words, "f32", fmt))
    assert np.array_equal(expected[finite], actual[finite], equal_nan=True)
    assert np.array_equal(np.signbit(expected[finite]), np.signbit(actual[finite]))


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_every_16_bit_code_survives_widening_and_narrowing(fmt: str) -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    expected = np.where(is_nan(fmt, codes), 0x7FFF, codes)
    for wide in ("f32", "f64"):
        back = convert(convert(codes, fmt, wide), wide, fmt)
        assert np.array_equal(expected, np.where(is_nan(fmt, back), 0x7FFF, back))


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_every_narrow_code_survives_widening_and_narrowing(fmt: str) -> None:
    codes = np.arange(1 << FORMATS[fmt].value_bits, dtype=np.uint8)
    expected = np.where(is_nan(fmt, codes), CONSTANTS[fmt].nan, codes)
    for wide in ("f16", "f32", "f64"):
        assert np.array_equal(expected, convert(convert(codes, fmt, wide), wide, fmt))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("src", "dst"), [("f32", "f16"), ("f32", "bf16"), ("f64", "f32"), ("f64", "f16")])
def test_ieee_targets_round_as_exact_fractions_say(src: str, dst: str, rounding: str) -> None:
    words = np.concatenate([specials(src), random_words(src, 1200, 3)])
    actual = convert(words, src, dst, rounding)
    for word, code in zip(words.tolist(), actual.tolist(), strict=True):
        expected = reference.encode(dst, reference.value(src, word), rounding)
        if expected == "nan":
            assert is_nan(dst, np.array(code, FORMATS[dst].dtype)), hex(word)
        else:
            assert expected == code, hex(word)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_narrow_targets_round_to_a_neighbour_on_the_right_side(fmt: str, rounding: str) -> None:
    words = boundary_words(fmt)
    source = words.view(np.float32).astype(np.float64)
    grid = np.unique(to_float64(fmt, np.arange(FORMATS[fmt].max_finite + 1)))
    inside = np.abs(source) <= grid[-1]
    source, grid = source[inside], np.unique(np.concatenate([-grid, grid]))
    actual = to_float64(fmt, convert(words[inside], "f32", fmt, rounding, satfinite=True))
    below = grid[np.searchsorted(grid, source, side="right") - 1]
    above = grid[np.searchsorted(grid, source, side="left")]
    middle = (below + above) / 2
    expected = {
        "rm": below,
        "rp": above,
        "rz": np.where(source > 0, below, above),
        "rna": np.where(np.abs(source) >= np.abs(middle), _outer(below, above), _inner(below, above)),
    }
    if rounding in expected:
        assert np.array_equal(expected[rounding], actual)
    else:
        assert np.all(np.abs(actual - source) <= np.minimum(source - below, above - source))


def _outer(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    return np.where(np.abs(below) > np.abs(above), below, above)


def _inner(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    return np.where(np.abs(below) > np.abs(above), above, below)


@pytest.mark.parametrize("fmt", ["f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_satfinite_stops_at_the_largest_finite_number(fmt: str) -> None:
    largest, sign = FORMATS[fmt].max_finite, FORMATS[fmt].sign_mask
    words = np.array([0x7F7FFFFF, 0x7F800000, 0xFF7FFFFF, 0xFF800000], np.uint32)
    actual = convert(words, "f32", fmt, satfinite=True)
    assert [largest, largest, largest | sign, largest | sign] == actual.tolist()


def test_overflow_without_satfinite_is_inf_or_where_there_is_none_nan() -> None:
    words = np.array([0x7F7FFFFF, 0xFF7FFFFF], np.uint32)
    assert [0x7C00, 0xFC00] == convert(words, "f32", "f16").tolist()
    assert [0x7C, 0xFC] == convert(words, "f32", "e5m2").tolist()
    assert is_nan("e4m3", convert(words, "f32", "e4m3")).all()


def test_relu_and_sat_clamp_what_the_manual_says() -> None:
    words = np.array([0xBF800000, 0x80000000, 0xFF800000, 0x7FC00000, 0x40000000, 0x3F000000], np.uint32)
    assert [0, 0, 0, 0x7FFF, 0x4000, 0x3800] == convert(words, "f32", "f16", relu=True).tolist()
    clamped = convert(words, "f32", "f32", sat=True)
    assert [0, 0, 0, 0, 0x3F800000, 0x3F000000] == clamped.tolist()


def test_formats_without_nan_turn_it_into_their_largest_number() -> None:
    nan = np.array([0x7FC00000, 0xFFC00000], np.uint32)
    for fmt in ("e3m2", "e2m3", "e2m1"):
        assert [FORMATS[fmt].max_finite] * 2 == convert(nan, "f32", fmt, satfinite=True).tolist()


def test_ue8m0_takes_powers_of_two_up_or_down() -> None:
    values = np.array([1.0, 1.5, 2.0**-127, 2.0**-130, 0.0, 3e38], np.float32).view(np.uint32)
    assert [127, 128, 0, 0, 0, 254] == convert(values, "f32", "ue8m0", "rp", satfinite=True).tolist()
    assert [127, 127, 0, 0, 0, 254] == convert(values, "f32", "ue8m0", "rz", satfinite=True).tolist()
    assert 0xFF == convert(np.array([0x7FC00000], np.uint32), "f32", "ue8m0", "rz")[0]
    codes = np.arange(255, dtype=np.uint8)
    assert np.array_equal(codes, convert(convert(codes, "ue8m0", "bf16"), "bf16", "ue8m0", "rz"))


def test_tf32_keeps_ten_mantissa_bits() -> None:
    words = random_words("f32", 3000, 5)
    words = words[~is_nan("f32", words)]
    for rounding in ("rn", "rz", "rna"):
        actual = convert(words, "f32", "tf32", rounding)
        assert not (actual & 0x1FFF).any()
        for word, code in zip(words.tolist(), actual.tolist(), strict=True):
            magnitude = word & 0x7FFFFFFF
            units = reference.rounded(Fraction(magnitude), Fraction(0x2000), rounding)
            assert (units * 0x2000) | (word & 0x80000000) == code


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
def test_integers_become_floats_with_one_rounding(fmt: str, rounding: str) -> None:
    rng = np.random.default_rng(2)
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
        values = np.concatenate(
            [values >> dtype(rng.integers(0, 7)), np.array([info.min, info.max, 0], dtype)]
        )
        actual = from_integer(fmt, values, rounding)
        for number, code in zip(values.tolist(), actual.tolist(), strict=True):
            assert reference.encode(fmt, Fraction(number), rounding) == code


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("fmt", ["f16", "f32", "f64"])
def test_floats_become_integers_clamped_to_their_range(fmt: str, rounding: str) -> None:
    powers, steps = (7, 8, 15, 31, 32, 63, 64), (-1.5, -0.5, 0, 0.5, 1)
    edges = [s * (2.0**e + d) for e in powers for d in steps for s in (1, -1)]
    words = np.concatenate([specials(fmt), random_words(fmt, 300, 8), from_float64(fmt, edges)])
    for bits, signed in ((8, True), (16, False), (32, True), (32, False), (64, True), (64, False)):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        actual = to_integer(words, fmt, bits, signed, rounding)
        for word, code in zip(words.tolist(), actual.tolist(), strict=True):
            number = reference.value(fmt, word)
            if number == "nan":
                expected = 1 << (bits - 1) if fmt == "f64" or bits == 64 else 0
            elif reference.infinite(number):
                expected = low if number == "-inf" else high
            else:
                whole = reference.rounded(reference.plain(number), Fraction(1), rounding)
                expected = min(max(whole, low), high)
            assert expected & ((1 << bits) - 1) == code, (hex(word), bits, signed)


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_rounding_to_integral_values_keeps_the_sign_of_zero(rounding: str) -> None:
    function = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}[rounding]
    for fmt, dtype in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
        words = np.concatenate([specials(fmt), random_words(fmt, 2000, 4)])
        words = words[~is_nan(fmt, words)]
        expected = function(words.view(dtype)).view(words.dtype)
        assert np.array_equal(expected, round_to_integral(fmt, words, rounding))


def test_ftz_flushes_what_stays_below_the_smallest_normal_number_before_the_exponent_is_bounded() -> None:
    values = 2.0**-126 * (1 - np.array([2.0**-24, 2.0**-25, 2.0**-26]))
    assert [0x800000] * 3 == convert(values.view(np.uint64), "f64", "f32").tolist()
    assert [0, 0x800000, 0x800000] == convert(values.view(np.uint64), "f64", "f32", ftz=True).tolist()


def test_scalars_and_any_shape_are_taken() -> None:
    assert 0x3C00 == int(convert(np.uint32(0x3F800000), "f32", "f16"))
    assert (2, 3, 4) == convert(np.zeros((2, 3, 4), np.uint32), "f32", "e4m3").shape
    assert (2, 0) == convert(np.zeros((2, 0), np.uint64), "f64", "bf16").shape


def test_an_unknown_rounding_is_named() -> None:
    with pytest.raises(ValueError, match="'nearest' is not known; use one of rn, rna, rz, rm, rp"):
        convert([0], "f32", "f16", "nearest")  # type: ignore[arg-type]


def test_decode_of_a_conversion_never_leaves_the_format() -> None:
    for fmt in TARGETS:
        code = convert(random_words("f64", 500, 9), "f64", fmt, satfinite=True)
        assert np.all(code < 1 << FORMATS[fmt].value_bits)
        assert np.all(decode(fmt, code).number_class != 3)
