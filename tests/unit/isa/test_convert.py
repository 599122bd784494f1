from __future__ import annotations

import math
from fractions import Fraction

import pytest

from unit.isa.alu import (
    BITS,
    NAN,
    agree,
    clamped_to_one,
    execute,
    float_codes,
    flushed,
    lanes,
    numbers,
    refusal,
    round_integer,
    round_to,
    typed,
    value_of,
)

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
ROUNDINGS = ("rn", "rz", "rm", "rp")
FLOATS = ("f16", "bf16", "f32", "f64")


def limits(name: str) -> tuple[int, int]:
    bits = int(name[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "s" else (0, (1 << bits) - 1)


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integers_are_extended_cut_off_or_clamped(source: str, target: str) -> None:
    width, read = typed(source)
    low, high = limits(target)
    agree(f"cvt.{target}.{source}", (width,), int(target[1:]), read)
    if low <= limits(source)[0] and limits(source)[1] <= high:
        assert "every value fits" in refusal(f"cvt.sat.{target}.{source}")
    else:
        agree(f"cvt.sat.{target}.{source}", (width,), int(target[1:]), lambda a: min(max(read(a), low), high))


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_floats_become_integers_by_rounding_and_clamping(fmt: str, target: str) -> None:
    codes = float_codes(fmt)
    low, high = limits(target)
    bits = int(target[1:])

    def rounded(code: int, rounding: str) -> int:
        sign, value = value_of(fmt, code)
        if math.isnan(value):  # SPEC: PTX ISA, cvt
            return 1 << (bits - 1) if fmt == "f64" or bits == 64 else 0
        if math.isinf(value):
            return low if value < 0 else high
        whole = round_integer(abs(Fraction(value)), rounding, bool(sign))
        return min(max(-whole if sign else whole, low), high)

    for rounding in ROUNDINGS:
        got = numbers(execute(f"cvt.{rounding}i.{target}.{fmt}", lanes(codes, BITS[fmt])))
        assert [rounded(c, rounding) & ((1 << bits) - 1) for c in codes] == got


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("source", ["u8", "s16", "u32", "s32", "u64", "s64"])
def test_integers_become_floats_rounded_once(fmt: str, source: str) -> None:
    width, read = typed(source)
    for rounding in ROUNDINGS:
        agree(
            f"cvt.{rounding}.{fmt}.{source}",
            (width,),
            BITS[fmt],
            lambda a, r=rounding: round_to(fmt, Fraction(read(a)), r),
        )
    if fmt != "bf16":
        agree(
            f"cvt.rz.sat.{fmt}.{source}",
            (width,),
            BITS[fmt],
            lambda a: clamped_to_one(fmt, round_to(fmt, Fraction(read(a)))),
        )


def check(spelling: str, source: str, target: str, formula: object, codes: list[int]) -> None:
    """Compare on numbers; what NaNs become is tested apart."""
    codes = [c for c in codes if not math.isnan(value_of(source, c)[1])]
    got = numbers(execute(spelling, lanes(codes, BITS[source])))
    expected = [formula(c) for c in codes]  # type: ignore[operator]
    bad = [(hex(c), hex(e), hex(g)) for c, e, g in zip(codes, expected, got, strict=True) if e != g]
    assert not bad, f"{spelling}: code, expected, got {bad[:5]}"


def convert(source: str, target: str, rounding: str, code: int) -> int:
    sign, value = value_of(source, code)
    return round_to(target, value, rounding, sign)


def near_ties(source: str, target: str) -> list[int]:
    """Codes of `source` at and beside the middle between two numbers of `target`, near its limits too."""
    out = []
    for code in float_codes(target, 30):
        _, value = value_of(target, code)
        if not math.isinf(value) and not math.isnan(value) and value != 0:
            up = round_to(source, Fraction(value) * (1 + Fraction(1, 2 ** (11 if target == "f16" else 8))))
            out += [up, up + 1, up - 1]
    return out


@pytest.mark.parametrize(
    ("source", "target"), [("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "bf16"), ("f64", "f32")]
)
def test_narrowing_rounds_once(source: str, target: str) -> None:
    codes = float_codes(source, 80) + near_ties(source, target)
    for rounding in ROUNDINGS:
        check(
            f"cvt.{rounding}.{target}.{source}",
            source,
            target,
            lambda c, r=rounding: convert(source, target, r, c),
            codes,
        )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f16", "f32"),
        ("f16", "f64"),
        ("bf16", "f32"),
        ("bf16", "f64"),
        ("f32", "f64"),
        ("f16", "bf16"),
        ("bf16", "f16"),
    ],
)
def test_widening_is_exact_and_halves_change_by_rounding_to_nearest(source: str, target: str) -> None:
    check(
        f"cvt.{target}.{source}",
        source,
        target,
        lambda c: convert(source, target, "rn", c),
        float_codes(source, 120),
    )


def test_sat_relu_satfinite_and_ftz_of_float_conversions() -> None:
    codes = float_codes("f32", 80)
    limit = {"f16": 0x7BFF, "bf16": 0x7F7F}
    for fmt in ("f16", "bf16"):

        def finite(code: int, fmt: str = fmt) -> int:
            found = convert("f32", fmt, "rn", code)
            return found & 0x8000 | min(found & 0x7FFF, limit[fmt])

        check(f"cvt.rn.satfinite.{fmt}.f32", "f32", fmt, finite, codes)
        check(
            f"cvt.rn.relu.{fmt}.f32",
            "f32",
            fmt,
            lambda c, f=fmt: 0 if c >> 31 else convert("f32", f, "rn", c),
            codes,
        )
        check(
            f"cvt.rz.relu.satfinite.{fmt}.f32",
            "f32",
            fmt,
            lambda c, f=fmt: 0 if c >> 31 else min(convert("f32", f, "rz", c), limit[f]),
            codes,
        )
    check("cvt.sat.f32.f32", "f32", "f32", lambda c: clamped_to_one("f32", c), codes)
    check(
        "cvt.rn.sat.f16.f32",
        "f32",
        "f16",
        lambda c: clamped_to_one("f16", convert("f32", "f16", "rn", c)),
        codes,
    )
    check("cvt.ftz.f32.f32", "f32", "f32", lambda c: flushed("f32", c), codes)
    check("cvt.ftz.f64.f32", "f32", "f64", lambda c: convert("f32", "f64", "rn", flushed("f32", c)), codes)
    check(
        "cvt.rp.ftz.bf16.f32", "f32", "bf16", lambda c: convert("f32", "bf16", "rp", flushed("f32", c)), codes
    )
    check(
        "cvt.ftz.f32.f16",
        "f16",
        "f32",
        lambda c: flushed("f32", convert("f16", "f32", "rn", c)),
        float_codes("f16"),
    )


def test_to_f16_ftz_keeps_the_subnormal_operand_as_an_h200_does() -> None:
    assert [0x0001] == numbers(execute("cvt.rp.ftz.f16.f32", lanes([1], 32)))


@pytest.mark.parametrize("fmt", FLOATS)
def test_rounding_to_integral_keeps_the_format_and_the_sign_of_zero(fmt: str) -> None:
    for rounding in ROUNDINGS:

        def integral(code: int, rounding: str = rounding) -> int:
            sign, value = value_of(fmt, code)
            if math.isinf(value):
                return code
            whole = round_integer(abs(Fraction(value)), rounding, bool(sign))
            return round_to(fmt, Fraction(-whole if sign else whole), "rn", sign)

        check(f"cvt.{rounding}i.{fmt}.{fmt}", fmt, fmt, integral, float_codes(fmt, 100))


def test_nan_becomes_the_canonical_nan_or_zero_under_sat() -> None:
    nan = lanes([0x7F800001, 0xFFC00000], 32)
    assert [NAN["f16"]] * 2 == numbers(execute("cvt.rn.f16.f32", nan))
    assert [NAN["bf16"]] * 2 == numbers(execute("cvt.rn.relu.bf16.f32", nan))
    assert [NAN["f32"]] * 2 == numbers(execute("cvt.rni.f32.f32", nan))
    assert [0, 0] == numbers(execute("cvt.sat.f32.f32", nan))
    assert numbers(nan) == numbers(execute("cvt.f32.f32", nan)), "without a modifier it is a move (H200)"


def test_tf32_has_ten_bits_of_mantissa() -> None:
    codes = [c for c in float_codes("f32", 100) if not math.isnan(value_of("f32", c)[1])]
    got = {r: numbers(execute(f"cvt.{r}.tf32.f32", lanes(codes, 32))) for r in ("rn", "rz", "rna")}
    for rounding, found in got.items():
        assert [round_to("tf32", value_of("f32", c)[1], rounding, c >> 31) << 13 for c in codes] == found, (
            rounding
        )
    relu = numbers(execute("cvt.rn.relu.tf32.f32", lanes(codes, 32)))
    assert [0 if c >> 31 else v for c, v in zip(codes, got["rn"], strict=True)] == relu
    assert [0x7F7FE000] == numbers(execute("cvt.rna.satfinite.tf32.f32", lanes([0x7F7FFFFF], 32)))


def test_what_ptxas_refuses_is_refused() -> None:
    assert "a rounding is needed" in refusal("cvt.f16.f32")
    assert "nothing is rounded" in refusal("cvt.rn.f32.f16")
    for spelling in (
        "cvt.rn.u32.u64",
        "cvt.u32.f32",
        "cvt.f32.u32",
        "cvt.rni.f16.f32",
        "cvt.rn.f32.f32",
        "cvt.ftz.f16.f64",
        "cvt.sat.bf16.bf16",
        "cvt.rm.relu.f16.f32",
        "cvt.rn.ftz.satfinite.f16.f32",
        "cvt.rn.relu.f16.f64",
        "cvt.rna.relu.tf32.f32",
        "cvt.tf32.f32",
        "cvt.rni.sat.s32.bf16",
        "cvt.rn.ftz.f16.s32",
        "cvt.rn.f32.tf32",
        "cvt.b32.u32",
    ):
        assert refusal(spelling), spelling
