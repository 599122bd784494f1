"""Approximate instructions, as `ptxas` builds them around the multifunction unit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drywell.numerics import CONSTANTS, rcp, to_float64
from unit.isa.alu import execute
from unit.numerics.words import random_words

INF, NEG_INF, NAN = 0x7F800000, 0xFF800000, 0x7FFFFFFF
SPECIALS = [
    ("ex2", [(0, 0x3F800000), (0x80000000, 0x3F800000), (INF, INF), (NEG_INF, 0), (0x7FC00000, NAN)]),
    ("lg2", [(0, NEG_INF), (0x80000000, NEG_INF), (INF, INF), (NEG_INF, NAN), (0xBF800000, NAN)]),
    ("rcp", [(0, INF), (0x80000000, NEG_INF), (INF, 0), (NEG_INF, 0x80000000), (0x7F800001, NAN)]),
    ("rsqrt", [(0, INF), (0x80000000, NEG_INF), (INF, 0), (NEG_INF, NAN), (0xBF800000, NAN)]),
    ("sqrt", [(0, 0), (0x80000000, 0x80000000), (INF, INF), (NEG_INF, NAN), (0xBF800000, NAN)]),
    ("sin", [(0, 0), (0x80000000, 0x80000000), (INF, NAN), (NEG_INF, NAN), (0x7FC00000, NAN)]),
    ("cos", [(0, 0x3F800000), (0x80000000, 0x3F800000), (INF, NAN), (NEG_INF, NAN), (0x7FC00000, NAN)]),
    ("tanh", [(0, 0), (0x80000000, 0x80000000), (INF, 0x3F800000), (NEG_INF, 0xBF800000), (0x7FC00000, NAN)]),
]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32).view(np.uint32)


@pytest.mark.parametrize(("name", "pairs"), SPECIALS, ids=lambda v: v if isinstance(v, str) else "")
def test_special_values_are_those_of_the_manual(name: str, pairs: list[tuple[int, int]]) -> None:
    arguments = np.array([a for a, _ in pairs], np.uint32)
    assert [result for _, result in pairs] == execute(f"{name}.approx.f32", arguments).tolist()


@pytest.mark.parametrize("name", ["ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos"])
def test_ftz_treats_subnormal_arguments_as_zeros_of_their_sign(name: str) -> None:
    tiny, zeros = np.array([1, 0x80000001], np.uint32), np.array([0, 0x80000000], np.uint32)
    flushed = execute(f"{name}.approx.ftz.f32", tiny)
    assert execute(f"{name}.approx.f32", zeros).tolist() == flushed.tolist()


def test_without_ftz_subnormal_arguments_and_results_count() -> None:
    tiny = f32(2.0**-140)
    assert f32(-140.0) == execute("lg2.approx.f32", tiny)
    assert f32(2.0**70) == execute("rsqrt.approx.f32", tiny)
    assert f32(2.0**-70) == execute("sqrt.approx.f32", tiny)
    assert f32(2.0**127) == execute("rcp.approx.f32", f32(2.0**-127))
    assert f32(2.0**-127) == execute("rcp.approx.f32", f32(2.0**127))
    assert 0 == execute("rcp.approx.ftz.f32", f32(2.0**127))
    assert f32(2.0**-140) == execute("ex2.approx.f32", f32(-140.0))
    assert 0 == execute("ex2.approx.ftz.f32", f32(-140.0))


def test_results_are_within_the_manuals_bounds_of_the_true_ones() -> None:
    words = random_words("f32", 400, 3)
    x = to_float64("f32", words)
    keep = np.isfinite(x) & (np.abs(x) < 100) & (np.abs(x) > 1e-30)
    for name, exact, bound in (("ex2", lambda v: 2.0**v, 2.0**-22), ("tanh", math.tanh, 2.0**-11)):
        actual = to_float64("f32", execute(f"{name}.approx.f32", words[keep]))
        expected = np.array([exact(v) for v in x[keep].tolist()])
        assert np.all(np.abs(actual - expected) <= bound * np.abs(expected) + 2.0**-149)
    angles = keep & (np.abs(x) < np.pi)
    for name, exact in (("sin", math.sin), ("cos", math.cos)):
        actual = to_float64("f32", execute(f"{name}.approx.f32", words[angles]))
        assert np.all(np.abs(actual - [exact(v) for v in x[angles].tolist()]) <= 2.0**-20.5)


def test_f16_and_bf16_results_are_cut_not_rounded() -> None:
    # 2^(1 + 2^-7) = 2.01086 lies nearer to 2.015625, the next bf16, than to 2.
    assert 0x4000 == execute("ex2.approx.ftz.bf16", np.array([0x3F81], np.uint16))
    # tanh(1) = 0.76159 lies nearer to 0.76171875, the next f16.
    assert 0x3A17 == execute("tanh.approx.f16", np.array([0x3C00], np.uint16))


def test_what_f16_cannot_hold_is_infinite_and_its_subnormals_are_cut() -> None:
    words = np.array([0x4BFF, 0x4C00, 0x7E01, 0xCB80, 0xCE00, 0xCE01], np.uint16)
    # 2^15.9921875 = 65182.9, 2^16, NaN; 2^-15 and 2^-24 are subnormal, what is below is not there
    assert [0x7BF4, 0x7C00, 0x7FFF, 0x0200, 0x0001, 0x0000] == execute("ex2.approx.f16", words).tolist()


def test_packed_halves_are_done_one_by_one() -> None:
    halves = np.array([0x3C00, 0xBC00, 0x4BFF, 0x7E00], np.uint16)
    for name in ("ex2.approx.f16", "tanh.approx.f16"):
        single = execute(name, halves).astype(np.uint32)
        packed = execute(
            f"{name}x2", halves[:2].astype(np.uint32) | halves[2:].astype(np.uint32) << np.uint32(16)
        )
        assert (single[:2] | single[2:] << np.uint32(16)).tolist() == packed.tolist()


def test_the_f64_forms_read_and_write_the_upper_half() -> None:
    words = random_words("f64", 200, 6)
    words = words[np.isfinite(words.view(np.float64))]
    result = execute("rcp.approx.ftz.f64", words)
    assert not (result & np.uint64(0xFFFFFFFF)).any()
    assert np.array_equal(result, execute("rcp.approx.ftz.f64", words | np.uint64(0xFFFFFFFF)))
    exact = rcp("f64", words & np.uint64(0xFFFFFFFF00000000)).astype(np.int64)
    size = result & CONSTANTS["f64"].magnitude
    normal = (size > CONSTANTS["f64"].smallest) & (size < CONSTANTS["f64"].infinity)
    assert normal.sum() > 100
    assert np.all(np.abs(exact - result.astype(np.int64))[normal] < 3 << 31)
    minus_one = np.array([0xBFF0000000000000], np.uint64)
    assert 0x7FFFFFFF00000000 == execute("rsqrt.approx.ftz.f64", minus_one)


def test_a_refined_f64_root_is_next_to_the_true_one_and_has_its_specials() -> None:
    words = random_words("f64", 300, 9) & np.uint64(0x7FFFFFFFFFFFFFFF)
    x = words.view(np.float64)
    with np.errstate(all="ignore"):
        positive = np.isfinite(x) & (x > 0)
    expected = 1 / np.sqrt(x[positive])
    actual = execute("rsqrt.approx.f64", words[positive]).view(np.float64)
    assert np.all(np.abs(actual / expected - 1) <= 2.0**-51)
    specials = np.array([0.0, -0.0, np.inf, -np.inf, -1.0, -5e-324], np.float64).view(np.uint64)
    bad = 0xFFF8000000000000
    zeros = [0x7FF0000000000000, 0xFFF0000000000000]
    assert [*zeros, 0, bad, bad, bad] == execute("rsqrt.approx.f64", specials).tolist()
    quiet = np.array([0x7FF8000000000123], np.uint64)
    assert quiet == execute("rsqrt.approx.f64", quiet)


def test_a_quotient_is_the_product_with_the_units_reciprocal() -> None:
    a, b = f32(1.0, 10.0, 7.0, 1e-3), f32(3.0, 3.0, 0.7, 1e5)
    product = execute("mul.rn.f32", a, execute("rcp.approx.f32", b))
    for spelling in ("div.approx.f32", "div.full.f32", "div.approx.ftz.f32", "div.full.ftz.f32"):
        assert np.array_equal(product, execute(spelling, a, b)), spelling
    tiny = f32(2.0**-130)
    assert f32(1.0) == execute("div.approx.f32", tiny, tiny)
    assert f32(1.0) == execute("div.full.f32", tiny, tiny)
    assert NAN == execute("div.approx.ftz.f32", tiny, tiny)
