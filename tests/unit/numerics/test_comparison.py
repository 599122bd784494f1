import numpy as np
import pytest

from drywell.numerics import (
    COMPARISONS,
    CONSTANTS,
    FORMATS,
    absolute,
    compare,
    copy_sign,
    flush_subnormals,
    has_property,
    is_nan,
    maximum,
    minimum,
    negate,
)
from unit.numerics import reference
from unit.numerics.words import operands, specials

FORMATS_WITH_ARITHMETIC = ("f16", "bf16", "f32", "f64")
RANKS = {"-inf": -np.inf, "inf": np.inf}


def order(number: reference.Number) -> tuple:
    """A sort key: value first, then -0 before +0."""
    if number in RANKS:
        return (RANKS[number], 0)
    return (reference.plain(number), 0 if reference.is_negative(number) else 1)


@pytest.mark.parametrize("fmt", FORMATS_WITH_ARITHMETIC)
@pytest.mark.parametrize("smaller", [True, False])
def test_minimum_and_maximum_order_zeros_and_pass_over_one_nan(fmt: str, smaller: bool) -> None:
    a, b = operands(fmt, 2, 300, 3)
    choose, pick = (minimum, min) if smaller else (maximum, max)
    actual, strict = choose(fmt, a, b), choose(fmt, a, b, nan=True)
    rows = zip(a.tolist(), b.tolist(), actual.tolist(), strict.tolist(), strict=True)
    for x, y, code, with_nan in rows:
        p, q = reference.value(fmt, x), reference.value(fmt, y)
        if "nan" in (p, q):
            assert is_nan(fmt, np.array(with_nan, FORMATS[fmt].dtype))
            assert p == q or code == (y if p == "nan" else x)
        else:
            expected = pick((order(p), x), (order(q), y))[1]
            assert expected == code == with_nan


@pytest.mark.parametrize("count", [1, 3, 8, 9, 33])
def test_a_signalling_nan_is_passed_over_wherever_it_stands(count: int) -> None:
    ones, nans = np.full(count, 0x3F800000, np.uint32), np.full(count, 0x7F800001, np.uint32)
    for choose in (minimum, maximum):
        assert ones.tolist() == choose("f32", ones, nans).tolist() == choose("f32", nans, ones).tolist()


@pytest.mark.parametrize("fmt", FORMATS_WITH_ARITHMETIC)
def test_xorsign_abs_compares_magnitudes(fmt: str) -> None:
    a, b = operands(fmt, 2, 300, 4)
    numbers = ~is_nan(fmt, a) & ~is_nan(fmt, b)
    a, b = a[numbers], b[numbers]
    magnitude, sign = CONSTANTS[fmt].magnitude, CONSTANTS[fmt].sign
    expected = np.maximum(a & magnitude, b & magnitude) | ((a ^ b) & sign)
    assert np.array_equal(expected, maximum(fmt, a, b, xorsign_abs=True))
    expected = np.minimum(a & magnitude, b & magnitude) | ((a ^ b) & sign)
    assert np.array_equal(expected, minimum(fmt, a, b, xorsign_abs=True))


@pytest.mark.parametrize("fmt", FORMATS_WITH_ARITHMETIC)
@pytest.mark.parametrize("operator", COMPARISONS)
def test_comparisons_are_those_of_exact_numbers(fmt: str, operator: str) -> None:
    a, b = operands(fmt, 2, 100, 6)
    actual = compare(fmt, operator, a, b)
    relation = {
        "eq": lambda p, q: p == q,
        "ne": lambda p, q: p != q,
        "lt": lambda p, q: p < q,
        "le": lambda p, q: p <= q,
        "gt": lambda p, q: p > q,
        "ge": lambda p, q: p >= q,
    }
    for x, y, truth in zip(a.tolist(), b.tolist(), actual.tolist(), strict=True):
        p, q = reference.value(fmt, x), reference.value(fmt, y)
        unordered = "nan" in (p, q)
        if operator in ("num", "nan"):
            assert (unordered == (operator == "nan")) == truth
        elif unordered:
            assert (operator[2:] == "u") == truth
        else:
            assert relation[operator[:2]](order(p)[0], order(q)[0]) == truth


def test_ftz_makes_subnormals_equal_to_zero() -> None:
    tiny, zero = np.array([0x00000001, 0x807FFFFF], np.uint32), np.uint32(0)
    assert not compare("f32", "eq", tiny, zero).any()
    assert compare("f32", "eq", tiny, zero, ftz=True).all()
    assert [0, 0x80000000] == minimum("f32", tiny, zero, ftz=True).tolist()


def test_an_unknown_comparison_is_named() -> None:
    with pytest.raises(ValueError, match="'lo' is not known; use one of eq, ne"):
        compare("f32", "lo", [0], [0])


@pytest.mark.parametrize("fmt", ["f16", "bf16", "f32"])
def test_sign_operations_touch_only_the_sign_of_numbers(fmt: str) -> None:
    s = specials(fmt)
    numbers = s[~is_nan(fmt, s)]
    assert np.array_equal(numbers ^ CONSTANTS[fmt].sign, negate(fmt, numbers))
    assert np.array_equal(numbers & CONSTANTS[fmt].magnitude, absolute(fmt, numbers))
    assert np.array_equal(flush_subnormals(fmt, numbers), negate(fmt, negate(fmt, numbers, ftz=True)))
    assert np.array_equal(
        numbers[::-1] & CONSTANTS[fmt].sign, copy_sign(fmt, numbers[::-1], s[0] + 0 * numbers)
    )


def test_properties_split_all_numbers() -> None:
    s = specials("f32")
    number, nan = has_property("f32", "number", s), has_property("f32", "notanumber", s)
    assert np.array_equal(number, ~nan)
    finite, infinite = has_property("f32", "finite", s), has_property("f32", "infinite", s)
    assert np.array_equal(number, finite ^ infinite)
    assert np.array_equal(finite, has_property("f32", "normal", s) ^ has_property("f32", "subnormal", s))
    assert has_property("f32", "normal", [0, 0x80000000]).all()
    assert has_property("f32", "subnormal", [1, 0x807FFFFF]).all()
