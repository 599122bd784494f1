import math

import numpy as np
import pytest

from drywell import numerics
from drywell.numerics import CONSTANTS, div, rcp, to_float64
from unit.numerics.words import random_words

INF, NEG_INF, NAN = 0x7F800000, 0xFF800000, 0x7FFFFFFF
SPECIALS = [
    ("ex2", [(0, 0x3F800000), (0x80000000, 0x3F800000), (INF, INF), (NEG_INF, 0), (0x7FC00000, NAN)]),
    ("lg2", [(0, NEG_INF), (0x80000000, NEG_INF), (INF, INF), (NEG_INF, NAN), (0xBF800000, NAN)]),
    ("rcp_approx", [(0, INF), (0x80000000, NEG_INF), (INF, 0), (NEG_INF, 0x80000000), (0x7F800001, NAN)]),
    ("rsqrt", [(0, INF), (0x80000000, NEG_INF), (INF, 0), (NEG_INF, NAN), (0xBF800000, NAN)]),
    ("sqrt_approx", [(0, 0), (0x80000000, 0x80000000), (INF, INF), (NEG_INF, NAN), (0xBF800000, NAN)]),
    ("sin", [(0, 0), (0x80000000, 0x80000000), (INF, NAN), (NEG_INF, NAN), (0x7FC00000, NAN)]),
    ("cos", [(0, 0x3F800000), (0x80000000, 0x3F800000), (INF, NAN), (NEG_INF, NAN), (0x7FC00000, NAN)]),
    ("tanh", [(0, 0), (0x80000000, 0x80000000), (INF, 0x3F800000), (NEG_INF, 0xBF800000), (0x7FC00000, NAN)]),
]


@pytest.mark.parametrize(("name", "pairs"), SPECIALS, ids=lambda v: v if isinstance(v, str) else "")
def test_special_values_are_those_of_the_manual(name: str, pairs: list[tuple[int, int]]) -> None:
    arguments = np.array([a for a, _ in pairs], np.uint32)
    assert [result for _, result in pairs] == getattr(numerics, name)("f32", arguments).tolist()


@pytest.mark.parametrize("name", ["ex2", "lg2", "rcp_approx", "rsqrt", "sqrt_approx", "sin", "cos"])
def test_ftz_treats_subnormal_arguments_as_zeros_of_their_sign(name: str) -> None:
    function = getattr(numerics, name)
    tiny, zeros = np.array([1, 0x80000001], np.uint32), np.array([0, 0x80000000], np.uint32)
    assert function("f32", zeros).tolist() == function("f32", tiny, True).tolist()


def test_ftz_flushes_results() -> None:
    assert 0 < int(numerics.ex2("f32", np.uint32(0xC3000000))) < 0x800000  # 2^-128
    assert 0 == int(numerics.ex2("f32", np.uint32(0xC3000000), True))
    assert 0x80000000 == int(numerics.rcp_approx("f32", np.uint32(0xFF7FFFFF), True))


def test_results_are_within_the_manuals_bounds_of_the_true_ones() -> None:
    words = random_words("f32", 400, 3)
    x = to_float64("f32", words)
    keep = np.isfinite(x) & (np.abs(x) < 100) & (np.abs(x) > 1e-30)
    for name, exact in (("ex2", lambda v: 2.0**v), ("tanh", math.tanh)):
        actual = to_float64("f32", getattr(numerics, name)("f32", words[keep]))
        expected = np.array([exact(v) for v in x[keep].tolist()])
        assert np.all(np.abs(actual - expected) <= 2.0**-23 * np.abs(expected) + 2.0**-150)
    angles = keep & (np.abs(x) < np.pi)
    for name, exact in (("sin", math.sin), ("cos", math.cos)):
        actual = to_float64("f32", getattr(numerics, name)("f32", words[angles]))
        assert np.all(np.abs(actual - [exact(v) for v in x[angles].tolist()]) <= 2.0**-20.5)


def test_f16_and_bf16_results_are_cut_not_rounded() -> None:
    # 2^(1 + 2^-7) = 2.01086 lies nearer to 2.015625, the next bf16, than to 2.
    assert 0x4000 == int(numerics.ex2("bf16", np.uint16(0x3F81), True))
    # tanh(1) = 0.76159 lies nearer to 0.76171875, the next f16.
    assert 0x3A17 == int(numerics.tanh("f16", np.uint16(0x3C00)))


def test_division_is_approximate_up_to_a_divisor_of_two_to_the_126_and_full_beyond() -> None:
    a = np.array([0x3F800000, 0xBF800000, INF, 0x3F800000], np.uint32)
    b = np.array([0x7E800001, 0x7E800001, 0x7E800001, 0x7E800000], np.uint32)
    assert [0, 0x80000000, NAN, 0x00800000] == numerics.div_approx(a, b).tolist()
    assert [0x007FFFFF, 0x807FFFFF, INF, 0x00800000] == numerics.div_full(a, b).tolist()
    assert np.array_equal(div("f32", a, b), numerics.div_full(a, b))


def test_the_f64_forms_read_and_write_the_upper_half() -> None:
    words = random_words("f64", 200, 6)
    words = words[np.isfinite(words.view(np.float64))]
    result = numerics.rcp_approx("f64", words)
    assert not (result & np.uint64(0xFFFFFFFF)).any()
    assert np.array_equal(result, numerics.rcp_approx("f64", words | np.uint64(0xFFFFFFFF)))
    exact = rcp("f64", words & np.uint64(0xFFFFFFFF00000000))
    normal = (result & CONSTANTS["f64"].magnitude) >= CONSTANTS["f64"].smallest
    normal &= (result & CONSTANTS["f64"].magnitude) < CONSTANTS["f64"].infinity
    assert normal.sum() > 100
    assert np.all((exact - result)[normal] < 1 << 32)
    minus_one = np.uint64(0xBFF0000000000000)
    assert 0x7FFFFFFF00000000 == int(numerics.rsqrt("f64", minus_one))
