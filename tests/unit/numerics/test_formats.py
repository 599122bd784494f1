import ml_dtypes
import numpy as np
import pytest

from drywell.numerics import FORMATS, decode, is_nan, to_float64

ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}


def all_codes(fmt: str) -> np.ndarray:
    return np.arange(1 << FORMATS[fmt].value_bits, dtype=np.uint64).astype(FORMATS[fmt].dtype)


@pytest.mark.parametrize("fmt", ML_DTYPES)
def test_every_code_has_the_value_ml_dtypes_gives_it(fmt: str) -> None:
    with np.errstate(invalid="ignore"):
        expected = all_codes(fmt).view(ML_DTYPES[fmt]).astype(np.float64)
    actual = to_float64(fmt, all_codes(fmt))
    assert np.array_equal(expected, actual, equal_nan=True)
    assert np.array_equal(np.signbit(expected[expected == 0]), np.signbit(actual[actual == 0]))


@pytest.mark.parametrize("fmt", [*ML_DTYPES, "ue4m3"])
def test_decoded_integers_give_the_value_back(fmt: str) -> None:
    codes = all_codes(fmt)
    d = decode(fmt, codes)
    value = np.ldexp(d.significand.astype(float), d.raw_exponent.astype(int) - FORMATS[fmt].mantissa_bits)
    finite = d.number_class < 3
    expected = to_float64(fmt, codes)
    assert np.array_equal(expected[finite], np.where(d.sign, -value, value)[finite])
    assert np.array_equal(np.isnan(expected), d.number_class == 4)
    assert np.array_equal(np.isnan(expected), is_nan(fmt, codes))
    assert np.array_equal(np.isinf(expected), d.number_class == 3)


def test_ue4m3_is_e4m3_whose_top_bit_is_ignored() -> None:
    codes = np.arange(128, dtype=np.uint8)
    expected = to_float64("e4m3", codes)
    assert np.array_equal(expected, to_float64("ue4m3", codes), equal_nan=True)
    assert np.array_equal(expected, to_float64("ue4m3", codes | 0x80), equal_nan=True)


def test_tf32_drops_thirteen_bits_before_it_is_classified() -> None:
    d = decode("tf32", [0x7F800001, 0x7F802000, 0x3F801FFF, 0x00001FFF])
    assert [3, 4, 2, 0] == d.number_class.tolist()
    assert 1024 == int(d.significand[2])
    assert np.isinf(to_float64("tf32", [0x7F800001])[0])


@pytest.mark.parametrize(("fmt", "largest"), [("e4m3", 448), ("e5m2", 57344), ("e3m2", 28), ("e2m3", 7.5)])
def test_the_largest_finite_number_is_the_documented_one(fmt: str, largest: float) -> None:
    assert largest == to_float64(fmt, [FORMATS[fmt].max_finite])[0]
    finite = to_float64(fmt, all_codes(fmt))
    assert largest == finite[np.isfinite(finite)].max()


def test_subnormals_share_the_exponent_of_the_smallest_normal_number() -> None:
    d = decode("f32", [1, 0x007FFFFF, 0x00800000, 0])
    assert [-126] * 4 == d.raw_exponent.tolist()
    assert [1, 0x7FFFFF, 0x800000, 0] == d.significand.tolist()
