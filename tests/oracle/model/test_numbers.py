"""The small formats against ml_dtypes, whose decoders were written by others."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from oracle.model import FORMATS
from oracle.model.numbers import INF, NAN, SMALL_FORMATS, Number, decode, decode_row, decode_scale

ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def hold(theirs: float, ours: Number) -> None:
    """Hold one decoded code to the value that ml_dtypes gives."""
    if theirs != theirs:
        assert ours.special == NAN
    elif abs(theirs) == float("inf"):
        assert (ours.special, ours.negative) == (INF, theirs < 0)
    else:
        size = Fraction(ours.significand) * Fraction(2) ** (ours.exponent - ours.fraction_bits)
        assert (ours.special, size) == ("", abs(Fraction(theirs)))
        assert bool(np.signbit(theirs)) == ours.negative


@pytest.mark.parametrize("name", SMALL_FORMATS)
def test_every_code_of_a_small_format_is_the_number_it_stands_for(name: str) -> None:
    codes = range(1 << FORMATS[name].bits)
    theirs = np.array(codes, np.uint8).view(ML_DTYPES[name]).astype(np.float64)
    for number, ours in zip(theirs, decode_row(codes, name), strict=True):
        hold(float(number), ours)


def test_every_scale_byte_is_the_number_it_stands_for() -> None:
    codes = np.arange(256, dtype=np.uint8)
    for name, dtype, seen in (
        ("ue8m0", ml_dtypes.float8_e8m0fnu, codes),
        ("ue4m3", ml_dtypes.float8_e4m3fn, codes & 0x7F),  # bit 7 is not looked at
    ):
        theirs = seen.view(dtype).astype(np.float64)
        for code, number in zip(codes, theirs, strict=True):
            hold(float(number), decode_scale(int(code), name))


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_16_bit_code_is_the_number_it_stands_for(name: str) -> None:
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[name]
    codes = np.arange(0, 1 << 16, 37, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        theirs = codes.view(dtype).astype(np.float64)
    for code, number in zip(codes, theirs, strict=True):
        hold(float(number), decode(int(code), FORMATS[name]))


def test_subnormals_have_the_smallest_normals_exponent_and_zeros_one_of_their_own() -> None:
    least = {name: decode(1, FORMATS[name]).exponent for name in SMALL_FORMATS}
    assert least == {"e4m3": -6, "e5m2": -14, "e3m2": -2, "e2m3": 0, "e2m1": 0}
    assert {decode(0, FORMATS[name]).exponent for name in FORMATS} == {-126}


def test_a_code_wider_than_its_format_is_refused() -> None:
    with pytest.raises(ValueError, match="not a 4-bit code"):
        decode(16, FORMATS["e2m1"])
    with pytest.raises(ValueError, match="more than codes of e3m2"):
        decode_row([0, 64], "e3m2")
    with pytest.raises(ValueError, match="not a scale byte"):
        decode_scale(256, "ue4m3")
    with pytest.raises(ValueError, match="ue8m0 or ue4m3"):
        decode_scale(0, "e8m0")
