from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from unit.isa.alu import (
    BITS,
    NAN,
    Number,
    clamped_to_one,
    execute,
    float_codes,
    floor_log2,
    flushed,
    lanes,
    numbers,
    refusal,
    round_to,
    value_of,
)

Formula = Callable[..., int]
ROUNDINGS = ("rn", "rz", "rm", "rp")


def is_nan(value: Number) -> bool:
    return isinstance(value, float) and math.isnan(value)


def added(fmt: str, rounding: str, a: int, b: int) -> int:
    """a + b from exact values; an exact zero sum is -0 only when both are -0 or the rounding goes down."""
    (s, x), (t, y) = value_of(fmt, a), value_of(fmt, b)
    if is_nan(x) or is_nan(y) or (math.isinf(x) and math.isinf(y) and x != y):
        return NAN[fmt]
    total = x if math.isinf(x) else y if math.isinf(y) else x + y
    both_zero = x == 0 and y == 0
    zero_sign = (s & t) if both_zero and s == t else int(rounding == "rm")
    return round_to(fmt, total, rounding, zero_sign)


def multiplied(fmt: str, rounding: str, a: int, b: int) -> int:
    (s, x), (t, y) = value_of(fmt, a), value_of(fmt, b)
    if is_nan(x) or is_nan(y) or (math.isinf(x) and y == 0) or (math.isinf(y) and x == 0):
        return NAN[fmt]
    infinite = math.isinf(x) or math.isinf(y)
    product: Number = math.copysign(math.inf, -1 if s ^ t else 1) if infinite else x * y
    return round_to(fmt, product, rounding, s ^ t)


def fused(fmt: str, rounding: str, a: int, b: int, c: int) -> int:
    (s, x), (t, y), (u, z) = (value_of(fmt, v) for v in (a, b, c))
    product_is_infinite = math.isinf(x) or math.isinf(y)
    if is_nan(x) or is_nan(y) or is_nan(z) or (product_is_infinite and (x == 0 or y == 0)):
        return NAN[fmt]
    if product_is_infinite:
        product = math.copysign(math.inf, -1 if s ^ t else 1)
        return NAN[fmt] if math.isinf(z) and z != product else round_to(fmt, product)
    if math.isinf(z):
        return round_to(fmt, z)
    total = x * y + z
    both_zero = x * y == 0 and z == 0
    zero_sign = u if both_zero and (s ^ t) == u else int(rounding == "rm")
    return round_to(fmt, total, rounding, zero_sign)


def divided(fmt: str, rounding: str, a: int, b: int) -> int:
    (s, x), (t, y) = value_of(fmt, a), value_of(fmt, b)
    if is_nan(x) or is_nan(y) or (math.isinf(x) and math.isinf(y)) or (x == 0 and y == 0):
        return NAN[fmt]
    if math.isinf(x) or y == 0:
        return round_to(fmt, math.copysign(math.inf, -1 if s ^ t else 1))
    return round_to(fmt, Fraction(0) if math.isinf(y) else x / y, rounding, s ^ t)


def rooted(fmt: str, rounding: str, a: int) -> int:
    _, x = value_of(fmt, a)
    if is_nan(x) or x < 0:
        return NAN[fmt]
    if x == 0 or math.isinf(x):
        return a
    shift = 60 - floor_log2(x) // 2  # so that the root has some 60 bits before the point
    scaled = x * Fraction(4) ** shift
    whole = isqrt(scaled.numerator // scaled.denominator)
    is_exact = Fraction(whole) ** 2 == scaled
    return round_to(
        fmt, (Fraction(whole) + (0 if is_exact else Fraction(1, 2))) / Fraction(2) ** shift, rounding
    )


def check(
    spelling: str, fmt: str, count: int, formula: Formula, codes: Sequence[int], most: int = 250
) -> None:
    """Compare a spelling with a formula on codes, on combinations spread over all of them."""
    rows = list(itertools.product(codes, repeat=count))
    rows = rows[:: max(1, len(rows) // most)]
    got = numbers(execute(spelling, *[lanes(column, BITS[fmt]) for column in zip(*rows, strict=True)]))
    for row, found in zip(rows, got, strict=True):
        expected = formula(*row)
        assert expected == found, (
            f"{spelling} {[hex(v) for v in row]}: expected {expected:#x}, got {found:#x}"
        )


def is_f64_nan(fmt: str, *codes: int) -> bool:
    return fmt == "f64" and any(is_nan(value_of(fmt, c)[1]) for c in codes)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_arithmetic_is_the_exact_result_rounded_once(fmt: str, rounding: str) -> None:
    codes = [c for c in float_codes(fmt) if not is_f64_nan(fmt, c)]  # the payloads of f64 NaNs: see below
    sign = 1 << (BITS[fmt] - 1)
    check(f"add.{rounding}.{fmt}", fmt, 2, lambda a, b: added(fmt, rounding, a, b), codes)
    check(f"sub.{rounding}.{fmt}", fmt, 2, lambda a, b: added(fmt, rounding, a, b ^ sign), codes)
    check(f"mul.{rounding}.{fmt}", fmt, 2, lambda a, b: multiplied(fmt, rounding, a, b), codes)
    check(f"div.{rounding}.{fmt}", fmt, 2, lambda a, b: divided(fmt, rounding, a, b), codes)
    check(f"fma.{rounding}.{fmt}", fmt, 3, lambda a, b, c: fused(fmt, rounding, a, b, c), codes)
    check(f"mad.{rounding}.{fmt}", fmt, 3, lambda a, b, c: fused(fmt, rounding, a, b, c), codes, most=150)
    one = round_to(fmt, Fraction(1))
    check(f"rcp.{rounding}.{fmt}", fmt, 1, lambda a: divided(fmt, rounding, one, a), codes)
    check(f"sqrt.{rounding}.{fmt}", fmt, 1, lambda a: rooted(fmt, rounding, a), codes)


def test_without_a_rounding_the_nearest_is_taken() -> None:
    for fmt in ("f32", "f64"):
        codes = [c for c in float_codes(fmt) if not is_f64_nan(fmt, c)]
        check(f"add.{fmt}", fmt, 2, lambda a, b, fmt=fmt: added(fmt, "rn", a, b), codes, most=150)
        check(f"mul.{fmt}", fmt, 2, lambda a, b, fmt=fmt: multiplied(fmt, "rn", a, b), codes, most=150)


@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_halves_round_to_nearest_even(fmt: str) -> None:
    codes, sign = float_codes(fmt), 0x8000
    check(f"add.{fmt}", fmt, 2, lambda a, b: added(fmt, "rn", a, b), codes)
    check(f"sub.rn.{fmt}", fmt, 2, lambda a, b: added(fmt, "rn", a, b ^ sign), codes)
    check(f"mul.{fmt}", fmt, 2, lambda a, b: multiplied(fmt, "rn", a, b), codes)
    check(f"fma.rn.{fmt}", fmt, 3, lambda a, b, c: fused(fmt, "rn", a, b, c), codes)


def test_ftz_flushes_operands_and_results_and_sat_clamps() -> None:
    def ftz(fmt: str, formula: Formula) -> Formula:
        return lambda *codes: flushed(fmt, formula(*(flushed(fmt, c) for c in codes)))

    for fmt in ("f32", "f16"):
        codes = [c for c in float_codes(fmt) if c & 0x7FFFFFFF < 1 << 24 or fmt == "f16" or c % 3]
        check(f"add.ftz.{fmt}", fmt, 2, ftz(fmt, lambda a, b, f=fmt: added(f, "rn", a, b)), codes)
        check(f"fma.rn.ftz.{fmt}", fmt, 3, ftz(fmt, lambda a, b, c, f=fmt: fused(f, "rn", a, b, c)), codes)
        check(
            f"mul.sat.{fmt}", fmt, 2, lambda a, b, f=fmt: clamped_to_one(f, multiplied(f, "rn", a, b)), codes
        )
        check(
            f"sub.ftz.sat.{fmt}",
            fmt,
            2,
            lambda a, b, f=fmt: clamped_to_one(
                f, flushed(f, added(f, "rn", flushed(f, a), flushed(f, b) ^ 1 << (BITS[f] - 1)))
            ),
            codes,
        )


@pytest.mark.parametrize(
    ("name", "fmt", "spelling"),
    [("f32x2", "f32", "rm"), ("f16x2", "f16", "rn"), ("bf16x2", "bf16", "rn"), ("f32x2", "f32", "rn.ftz")],
)
def test_packed_operations_are_the_scalar_ones_on_each_half(name: str, fmt: str, spelling: str) -> None:
    codes, bits = float_codes(fmt), BITS[fmt]
    a, b, c = codes, codes[7:] + codes[:7], codes[19:] + codes[:19]
    low = [lanes(v, bits) for v in (a, b, c)]
    high = [lanes(v[::-1], bits) for v in (a, b, c)]
    both = [lanes([x | y << bits for x, y in zip(v, v[::-1], strict=True)], 2 * bits) for v in (a, b, c)]
    for operation, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        scalar = [numbers(execute(f"{operation}.{spelling}.{fmt}", *part[:count])) for part in (low, high)]
        packed = numbers(execute(f"{operation}.{spelling}.{name}", *both[:count]))
        assert [x | y << bits for x, y in zip(*scalar, strict=True)] == packed


def test_mixed_precision_widens_the_halves_exactly() -> None:
    for fmt in ("f16", "bf16"):
        halves, singles = float_codes(fmt), float_codes("f32")
        n = min(len(halves), len(singles))
        a, b, c = halves[:n], halves[3:n] + halves[:3], singles[:n]

        def widened(code: int, fmt: str = fmt) -> int:
            sign, value = value_of(fmt, code)
            return round_to("f32", value, "rn", sign)

        rows = list(zip(a, b, c, strict=True))
        x, y, z = lanes(a, 16), lanes(b, 16), lanes(c, 32)
        assert [added("f32", "rz", widened(p), r) for p, _, r in rows] == numbers(
            execute(f"add.rz.f32.{fmt}", x, z)
        )
        minus = [added("f32", "rn", widened(p), r ^ 1 << 31) for p, _, r in rows]
        assert minus == numbers(execute(f"sub.f32.{fmt}", x, z))
        product = [fused("f32", "rp", widened(p), widened(q), r) for p, q, r in rows]
        assert product == numbers(execute(f"fma.rp.f32.{fmt}", x, y, z))


# ---------------------------------------------------------------- sign and order


@pytest.mark.parametrize("fmt", ["f32", "f16", "bf16"])
def test_neg_abs_and_copysign_change_the_sign_alone(fmt: str) -> None:
    sign, codes = 1 << (BITS[fmt] - 1), float_codes(fmt)

    def of_number(formula: Callable[[int], int]) -> Callable[[int], int]:
        return lambda a: NAN[fmt] if is_nan(value_of(fmt, a)[1]) else formula(a)

    check(f"neg.{fmt}", fmt, 1, of_number(lambda a: a ^ sign), codes)
    check(f"abs.{fmt}", fmt, 1, of_number(lambda a: a & ~sign), codes)
    if fmt != "bf16":
        check(f"neg.ftz.{fmt}", fmt, 1, of_number(lambda a: flushed(fmt, a) ^ sign), codes)
        check(f"abs.ftz.{fmt}", fmt, 1, of_number(lambda a: flushed(fmt, a) & ~sign), codes)
    if fmt == "f32":
        check("copysign.f32", fmt, 2, lambda a, b: (a & sign) | (b & ~sign), codes)


def test_f64_keeps_the_sign_and_payload_of_a_nan_as_an_h200_does() -> None:
    nans = lanes([0xFFF0000000000001, 0x7FF8000000000007], 64)
    quiet = [0xFFF8000000000001, 0x7FF8000000000007]
    one = lanes([0x3FF0000000000000] * 2, 64)
    for result in (
        execute("neg.f64", nans),
        execute("abs.f64", nans),
        execute("sub.f64", one, nans),
        execute("add.f64", nans, one),
    ):
        assert quiet == numbers(result)


def smaller(fmt: str, a: int, b: int, largest: bool, nan_wins: bool) -> int:
    (s, x), (t, y) = value_of(fmt, a), value_of(fmt, b)
    if is_nan(x) or is_nan(y):
        return NAN[fmt] if nan_wins or (is_nan(x) and is_nan(y)) else b if is_nan(x) else a
    a_first = (x, -s) < (y, -t)  # -0 below +0
    return (b if a_first else a) if largest else (a if a_first else b)


@pytest.mark.parametrize("fmt", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_order_puts_negative_zero_first_and_nans_last_or_on_top(fmt: str, operation: str) -> None:
    largest, codes, sign = operation == "max", float_codes(fmt), 1 << (BITS[fmt] - 1)
    check(f"{operation}.{fmt}", fmt, 2, lambda a, b: smaller(fmt, a, b, largest, False), codes)
    check(f"{operation}.NaN.{fmt}", fmt, 2, lambda a, b: smaller(fmt, a, b, largest, True), codes)

    def by_magnitude(a: int, b: int) -> int:
        found = smaller(fmt, a & ~sign, b & ~sign, largest, False)
        return found if is_nan(value_of(fmt, found)[1]) else found | ((a ^ b) & sign)

    check(f"{operation}.xorsign.abs.{fmt}", fmt, 2, by_magnitude, codes)
    if fmt != "bf16":

        def after_flushing(a: int, b: int) -> int:
            return smaller(fmt, flushed(fmt, a), flushed(fmt, b), largest, False)

        check(f"{operation}.ftz.{fmt}", fmt, 2, after_flushing, codes)
    if fmt == "f32":
        check(
            f"{operation}.f32",
            fmt,
            3,
            lambda a, b, c: smaller(fmt, smaller(fmt, a, b, largest, False), c, largest, False),
            codes,
        )
        check(
            f"{operation}.NaN.abs.f32",
            fmt,
            3,
            lambda a, b, c: smaller(
                fmt, smaller(fmt, a & ~sign, b & ~sign, largest, True), c & ~sign, largest, True
            ),
            codes,
        )


def test_fma_relu_and_oob_clamp_to_zero() -> None:
    for fmt in ("f16", "bf16"):

        def relu(a: int, b: int, c: int, fmt: str = fmt) -> int:
            result = fused(fmt, "rn", a, b, c)
            return 0 if result >> 15 else result

        def oob(a: int, b: int, c: int, fmt: str = fmt) -> int:
            return 0 if 0x7FF7 in (a & 0x7FFF, b & 0x7FFF) else fused(fmt, "rn", a, b, c)

        codes = [*float_codes(fmt, 20), 0x7FF7, 0xFFF7]
        check(f"fma.rn.relu.{fmt}", fmt, 3, relu, codes)
        check(f"fma.rn.oob.{fmt}", fmt, 3, oob, codes, most=1500)


# ---------------------------------------------------------------- approximations


def test_approximations_are_within_the_manuals_error_and_exact_at_special_values() -> None:
    x = np.array([0.5, 1.0, 1.75, 3.0, 100.0, 1e-3], np.float32)
    a = x.view(np.uint32)
    for name, exact, error in (
        ("rcp.approx.f32", 1 / x.astype(np.float64), 2.0**-23),
        ("sqrt.approx.f32", np.sqrt(x.astype(np.float64)), 2.0**-22),
        ("rsqrt.approx.f32", 1 / np.sqrt(x.astype(np.float64)), 2.0**-22.9),
        ("ex2.approx.f32", 2.0 ** x[:4], 2.0**-22),
        ("tanh.approx.f32", np.tanh(x.astype(np.float64)), 2.0**-11),
    ):
        got = execute(name, a[: len(exact)]).view(np.float32)
        assert np.all(np.abs(got / exact - 1) <= error), name
    sine, cosine = (
        execute(f"{f}.approx.f32", a[:4]).view(np.float32).astype(np.float64) for f in ("sin", "cos")
    )
    assert np.all(np.abs(sine - np.sin(x[:4].astype(np.float64))) <= 2.0**-20.5)
    assert np.all(np.abs(cosine - np.cos(x[:4].astype(np.float64))) <= 2.0**-20.5)
    log = execute("lg2.approx.f32", a).view(np.float32)
    assert np.all(np.abs(log - np.log2(x.astype(np.float64))) <= 2.0**-22 + 2.0**-22 * np.abs(log))
    inf, zero, minus = lanes([0x7F800000], 32), lanes([0], 32), lanes([0xBF800000], 32)
    expected = {
        "rcp": 0x7F800000,
        "rsqrt": 0x7F800000,
        "lg2": 0xFF800000,
        "ex2": 0x3F800000,
        "sqrt": 0,
        "sin": 0,
        "cos": 0x3F800000,
    }
    assert expected == {n: numbers(execute(f"{n}.approx.f32", zero))[0] for n in expected}
    assert [NAN["f32"]] * 3 == [
        numbers(execute(f"{n}.approx.f32", minus))[0] for n in ("sqrt", "rsqrt", "lg2")
    ]
    assert [NAN["f32"]] * 2 == [numbers(execute(f"{n}.approx.f32", inf))[0] for n in ("sin", "cos")]


def test_approximate_division_vanishes_for_huge_divisors_and_full_does_not() -> None:
    huge = lanes([0x7F000000, 0xFF000000, 0x7E800000, 0x7F800000], 32)  # 2^127, -2^127, 2^126, Inf
    a = lanes([0x7F000000] * 4, 32)
    assert [0, 0x80000000, 0x40000000, 0] == numbers(execute("div.approx.f32", a, huge))
    assert [0x3F800000, 0xBF800000, 0x40000000, 0] == numbers(execute("div.full.f32", a, huge))
    infinity = lanes([0x7F800000] * 2, 32)
    assert [NAN["f32"], NAN["f32"]] == numbers(execute("div.approx.f32", infinity, huge[:2]))


def test_what_ptxas_refuses_is_refused() -> None:
    for spelling in (
        "add.ftz.f64",
        "add.sat.f32x2",
        "add.rz.f16",
        "add.ftz.bf16",
        "add.sat.bf16x2",
        "fma.f32",
        "fma.rn.sat.f64",
        "mad.f32",
        "fma.rn.relu.f32",
        "fma.rn.sat.relu.f16",
        "fma.rn.ftz.oob.f16",
        "fma.rz.f16",
        "min.xorsign.f32",
        "min.NaN.f64",
        "min.relu.f32",
        "min.ftz.bf16",
        "div.f32",
        "div.approx.f64",
        "rcp.approx.f64",
        "sqrt.approx.f64",
        "sqrt.rn.ftz.f64",
        "rsqrt.rn.f32",
        "sin.f32",
        "ex2.approx.bf16",
        "ex2.approx.ftz.f16",
        "tanh.approx.ftz.f32",
        "add.f16.f32",
        "mul.f32.f16",
        "neg.ftz.f64",
        "copysign.f16",
        "fma.rn.ftz.f32.f16",
    ):
        assert refusal(spelling), spelling
