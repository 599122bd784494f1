from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import pytest

from unit.isa.alu import cases, execute, float_codes, lanes, numbers, refusal, round_to, signed, value_of

#: exponent bits, mantissa bits, bias, largest finite code, NaN code (None: there is none)
NARROW = {
    "e4m3": (4, 3, 7, 0x7E, 0x7F),
    "e5m2": (5, 2, 15, 0x7B, 0x7F),
    "e2m3": (2, 3, 1, 0x1F, None),
    "e3m2": (3, 2, 3, 0x1F, None),
    "e2m1": (2, 1, 1, 7, None),
}


@cache
def narrow_value(fmt: str, code: int) -> Fraction | float:
    exponent_bits, mantissa_bits, bias, top, _ = NARROW[fmt]
    size = code & ((1 << (exponent_bits + mantissa_bits)) - 1)
    sign = -1 if code >> (exponent_bits + mantissa_bits) & 1 else 1
    if size > top:
        return sign * math.inf if fmt == "e5m2" and size == 0x7C else math.nan
    field, fraction = size >> mantissa_bits, size & ((1 << mantissa_bits) - 1)
    significand = fraction + ((1 << mantissa_bits) if field else 0)
    return sign * Fraction(significand) * Fraction(2) ** (max(field, 1) - bias - mantissa_bits)


@cache
def nearest(fmt: str, value: Fraction | float, relu: bool = False) -> int:
    """The nearest code, ties to an even code, clamped to the largest finite one: .rn.satfinite."""
    exponent_bits, mantissa_bits, _, top, nan = NARROW[fmt]
    sign_bit = 1 << (exponent_bits + mantissa_bits)
    if isinstance(value, float) and math.isnan(value):
        return top if nan is None else nan
    if value < 0 and relu:
        return 0
    size = abs(value)
    code = min(range(top + 1), key=lambda c: (abs(Fraction(narrow_value(fmt, c)) - min(size, 10**6)), c & 1))
    return code | (sign_bit if value < 0 else 0)


def values_for(fmt: str) -> list[int]:
    """f32 codes: every number of the format, the middles between neighbours, and beside them."""
    sizes = [Fraction(narrow_value(fmt, c)) for c in range(NARROW[fmt][3] + 1)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(sizes)]
    positive = [
        *sizes,
        *middles,
        *(m * Fraction(1001, 1000) for m in middles),
        *(m * Fraction(999, 1000) for m in middles),
        2 * sizes[-1],
    ]
    codes = [round_to("f32", v) for v in positive if v]
    return [*codes, *(c | 1 << 31 for c in codes), *(c for c in float_codes("f32", 10) if c & 0x7FFFFFFF)]


@pytest.mark.parametrize("fmt", list(NARROW))
def test_two_singles_become_two_narrow_numbers_the_first_above(fmt: str) -> None:
    codes = values_for(fmt)[:: 3 if fmt[:2] in ("e4", "e5") else 1]
    other = codes[3:] + codes[:3]
    shift = 4 if fmt == "e2m1" else 8
    for words, relu in (("rn.satfinite", False), ("rn.satfinite.relu", True)):
        got = numbers(execute(f"cvt.{words}.{fmt}x2.f32", lanes(codes, 32), lanes(other, 32)))
        single = {c: nearest(fmt, value_of("f32", c)[1], relu) for c in codes}
        assert [single[a] << shift | single[b] for a, b in zip(codes, other, strict=True)] == got


@pytest.mark.parametrize("fmt", list(NARROW))
def test_narrow_numbers_become_halves_exactly(fmt: str) -> None:
    bits = sum(NARROW[fmt][:2]) + 1
    width, container = (8, 4) if fmt == "e2m1" else (16, 8)
    codes = list(range(1 << bits))
    packed = lanes([c << container | c ^ 1 for c in codes], width)

    def half(code: int, relu: bool) -> int:
        value, sign = narrow_value(fmt, code), code >> (bits - 1)
        if isinstance(value, float) and math.isnan(value):
            return 0x7FFF
        return 0 if relu and sign else round_to("f16", value, "rn", sign)

    for words, relu in (("rn", False), ("rn.relu", True)):
        got = numbers(execute(f"cvt.{words}.f16x2.{fmt}x2", packed))
        assert [half(c, relu) << 16 | half(c ^ 1, relu) for c in codes] == got


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e2m1"])
def test_halves_become_narrow_numbers(fmt: str) -> None:
    codes = [c for c in float_codes("f16", 60) if c & 0x7FFF]
    got = numbers(
        execute(f"cvt.rn.satfinite.{fmt}x2.f16x2", lanes([c << 16 | c ^ 0x8000 for c in codes], 32))
    )
    shift = 4 if fmt == "e2m1" else 8

    def narrowed(code: int) -> int:
        return nearest(fmt, value_of("f16", code)[1])

    assert [narrowed(c) << shift | narrowed(c ^ 0x8000) for c in codes] == got


def test_two_singles_become_two_halves() -> None:
    codes = [c for c in float_codes("f32", 60) if not math.isnan(value_of("f32", c)[1])]
    other = codes[5:] + codes[:5]
    for fmt, rounding in itertools.product(("f16", "bf16"), ("rn", "rz")):

        def half(code: int, fmt: str = fmt, rounding: str = rounding) -> int:
            sign, value = value_of("f32", code)
            return round_to(fmt, value, rounding, sign)

        got = numbers(execute(f"cvt.{rounding}.{fmt}x2.f32", lanes(codes, 32), lanes(other, 32)))
        assert [half(a) << 16 | half(b) for a, b in zip(codes, other, strict=True)] == got
        relu = numbers(execute(f"cvt.{rounding}.relu.{fmt}x2.f32", lanes(codes, 32), lanes(other, 32)))
        assert [
            (0 if a >> 31 else half(a)) << 16 | (0 if b >> 31 else half(b))
            for a, b in zip(codes, other, strict=True)
        ] == relu


def test_scales_are_powers_of_two_toward_zero_or_upwards() -> None:
    one, more, less, tiny = 0x3F800000, 0x3F800001, 0x3F7FFFFF, 1
    a, b = lanes([one, more, less, 0x7F800000], 32), lanes([more, less, tiny, 0x7FC00000], 32)
    assert [127 << 8 | 127, 127 << 8 | 126, 126 << 8 | 0, 0xFE << 8 | 0xFF] == numbers(
        execute("cvt.rz.satfinite.ue8m0x2.f32", a, b)
    )
    assert [127 << 8 | 128, 128 << 8 | 127, 127 << 8 | 0, 0xFE << 8 | 0xFF] == numbers(
        execute("cvt.rp.satfinite.ue8m0x2.f32", a, b)
    )
    pair = lanes([0x3F80 << 16 | 0x4040], 32)  # 1, 3
    assert [127 << 8 | 128] == numbers(execute("cvt.rz.ue8m0x2.bf16x2", pair))
    assert [127 << 8 | 129] == numbers(execute("cvt.rp.ue8m0x2.bf16x2", pair))
    assert [0x3F80 << 16 | 0x4000, 0x7FFF << 16 | 0x0040] == numbers(
        execute("cvt.rn.bf16x2.ue8m0x2", lanes([127 << 8 | 128, 0xFF00], 16))
    )


# ---------------------------------------------------------------- stochastic rounding


@pytest.mark.parametrize(("fmt", "bits"), [("f16", 13), ("bf16", 16)])
def test_stochastic_rounding_goes_up_for_as_many_random_values_as_is_cut_off(fmt: str, bits: int) -> None:
    cut = 23 - {"f16": 10, "bf16": 7}[fmt]
    for part in (0, 1, 1 << (cut - 1), (1 << cut) - 1):
        code = 0x3F800000 | part  # 1 + part/2^23
        randoms = range(0, 1 << bits, 1 << (bits - 7))
        got = numbers(
            execute(
                f"cvt.rs.{fmt}x2.f32", lanes([0] * 128, 32), lanes([code] * 128, 32), lanes(list(randoms), 32)
            )
        )
        one = round_to(fmt, Fraction(1))
        assert [one + ((part << 16) + (r << (cut + 16 - bits)) >= 1 << (cut + 16)) for r in randoms] == got


def test_stochastic_rounding_without_random_bits_truncates_and_keeps_special_values() -> None:
    codes = [c for c in float_codes("f32", 60) if not math.isnan(value_of("f32", c)[1])]
    zero = lanes([0] * len(codes), 32)
    for fmt in ("f16", "bf16"):
        got = numbers(execute(f"cvt.rs.{fmt}x2.f32", zero, lanes(codes, 32), zero))
        expected = []
        for code in codes:
            sign, value = value_of("f32", code)
            infinite = fmt == "f16" and not math.isinf(value) and abs(value) >= 65536
            expected.append(round_to(fmt, math.copysign(math.inf, value) if infinite else value, "rz", sign))
        assert expected == got
    nan = lanes([0x7FC00001], 32)
    assert [0x7FFF7FFF] == numbers(execute("cvt.rs.f16x2.f32", nan, nan, lanes([0xFFFFFFFF], 32)))


def test_four_singles_are_packed_with_the_first_uppermost() -> None:
    quad = tuple(lanes([round_to("f32", Fraction(v))], 32) for v in (1, 2, 3, Fraction(-3, 2)))
    zero = lanes([0], 32)
    expected = {
        "e4m3x4": 0x384044BC,
        "e5m2x4": 0x3C4042BE,
        "e2m3x4": 0x0810_142C,
        "e3m2x4": 0x0C10_122E,
        "e2m1x4": 0x245B,
    }
    for dtype, code in expected.items():
        assert [code] == numbers(execute(f"cvt.rs.satfinite.{dtype}.f32", quad, zero)), dtype
        relu = code & ~(0xF if dtype == "e2m1x4" else 0xFF)
        assert [relu] == numbers(execute(f"cvt.rs.satfinite.relu.{dtype}.f32", quad, zero)), dtype


# ---------------------------------------------------------------- cvt.pack


@pytest.mark.parametrize("name", ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"])
def test_pack_clamps_two_integers_and_keeps_the_low_bits_of_c_above(name: str) -> None:
    bits = int(name[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
    rows = cases((32, 32, 32), 600, 8)
    a, b, c = (lanes(column, 32) for column in zip(*rows, strict=True))

    def clamped(value: int) -> int:
        return min(max(signed(value, 32), low), high) & ((1 << bits) - 1)

    if bits == 16:
        got = execute(f"cvt.pack.sat.{name}.s32", a, b)
        expected = [clamped(x) << 16 | clamped(y) for x, y, _ in rows]
    else:
        got = execute(f"cvt.pack.sat.{name}.s32.b32", a, b, c)
        expected = [(z << (2 * bits) | clamped(x) << bits | clamped(y)) & 0xFFFFFFFF for x, y, z in rows]
    assert expected == numbers(got)


def test_what_ptxas_refuses_is_refused() -> None:
    for spelling in (
        "cvt.rn.e4m3x2.f32",
        "cvt.rz.satfinite.e4m3x2.f32",
        "cvt.rm.f16x2.f32",
        "cvt.rn.satfinite.e2m3x2.f16x2",
        "cvt.rn.satfinite.f16x2.e4m3x2",
        "cvt.rn.bf16x2.e4m3x2",
        "cvt.rn.ue8m0x2.f32",
        "cvt.rp.relu.ue8m0x2.f32",
        "cvt.rs.e4m3x4.f32",
        "cvt.rs.satfinite.e4m3x2.f32",
        "cvt.pack.u8.s32.b32",
        "cvt.pack.sat.u8.s32",
        "cvt.pack.sat.s16.s32.b32",
        "cvt.pack.sat.u8.u32.b32",
    ):
        assert refusal(spelling), spelling
