"""The multifunction unit: laws of its parts; its words are held to a GPU's in tests/oracle/hardware."""

import numpy as np
import pytest

from drywell.numerics import mufu

ONE = 0x3F800000


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32).view(np.uint32)


def test_the_square_is_the_sum_of_partial_products_in_columns_from_19_on() -> None:
    for x in [0, 1, 0x1FFFF, 0x10000, 0x0AAAA, 0x15555, *range(3, 1 << 17, 6007)]:
        bits = [i for i in range(17) if x >> i & 1]
        products = [2 * i for i in bits] + [i + j + 1 for i in bits for j in bits if i < j]
        assert x * x == sum(1 << column for column in products)
        assert sum(1 << column for column in products if column >= 19) == int(mufu.square_table()[x]) << 17


@pytest.mark.parametrize("name", mufu.FUNCTIONS)
def test_an_array_of_any_shape_gives_that_shape(name: str) -> None:
    words = f32(0.5, 1.5, -2.5, 7.0, 1e-40, np.inf)
    expected = mufu.FUNCTIONS[name](words)
    assert np.uint32 == expected.dtype
    assert np.array_equal(expected.reshape(2, 3), mufu.FUNCTIONS[name](words.reshape(2, 3)))
    assert [int(w) for w in expected] == [int(mufu.FUNCTIONS[name](w)) for w in words]


@pytest.mark.parametrize("name", mufu.FUNCTIONS)
def test_nans_of_any_payload_become_the_canonical_one(name: str) -> None:
    words = np.array([0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0xFF800001], np.uint32)
    assert [0x7FFFFFFF] * 4 == mufu.FUNCTIONS[name](words).tolist()


def test_powers_are_exact_where_the_unit_makes_them_so() -> None:
    k = np.arange(-62, 63)
    two = np.ldexp(np.float32(1), k)
    four = np.ldexp(np.float32(1), 2 * k)
    assert np.array_equal(f32(*(1 / two)), mufu.rcp(f32(*two)))
    assert np.array_equal(f32(*(1 / two)), mufu.rsq(f32(*four)))
    assert np.array_equal(f32(*two), mufu.sqrt(f32(*four)))
    assert np.array_equal(f32(*two), mufu.ex2(f32(*k)))
    assert np.array_equal(f32(*k[k >= 0]), mufu.lg2(f32(*two[k >= 0])))
    assert 0xBF7FFFFE == int(mufu.lg2(f32(0.5))[0])  # -1 would be bf800000: a negative sum is complemented


def test_quarters_of_a_turn_are_exact_and_zeros_keep_the_sign_of_their_half() -> None:
    quarters = f32(0.0, 0.25, 0.5, 0.75, 1.0, -0.0, -0.25, -0.5)
    assert [0, ONE, 1 << 31, ONE | 1 << 31, 0, 1 << 31, ONE | 1 << 31, 0] == mufu.sin(quarters).tolist()
    assert [ONE, 1 << 31, ONE | 1 << 31, 0, ONE, ONE, 1 << 31, ONE | 1 << 31] == mufu.cos(quarters).tolist()


def test_the_sine_repeats_with_every_whole_turn() -> None:
    turns = np.arange(0, 1 << 16, 37, dtype=np.float32) / np.float32(1 << 16)
    assert np.array_equal(mufu.sin(turns.view(np.uint32)), mufu.sin((turns + np.float32(5)).view(np.uint32)))
    assert [0, 0] == mufu.sin(f32(2.0**24, 2.0**100)).tolist()


def test_small_numbers_are_their_own_tanh_and_large_ones_have_that_of_infinity() -> None:
    small = np.array([0, 1, 0x80000001, 0x007FFFFF, 0x3B7FFFFF], np.uint32)
    assert np.array_equal(small, mufu.tanh(small))
    assert [ONE, ONE | 1 << 31, ONE] == mufu.tanh(f32(8.0, -1e30, np.inf)).tolist()


@pytest.mark.parametrize("name", ["rcp", "rsq", "sqrt", "lg2", "ex2"])
def test_subnormal_arguments_count_as_zeros(name: str) -> None:
    tiny = np.array([1, 0x007FFFFF, 0x80000001], np.uint32)
    zeros = np.array([0, 0, 0x80000000], np.uint32)
    assert np.array_equal(mufu.FUNCTIONS[name](zeros), mufu.FUNCTIONS[name](tiny))


def test_results_that_would_be_subnormal_are_flushed() -> None:
    assert [0, 0x80000000, 0x00800000] == mufu.rcp(f32(1.5 * 2.0**126, -(2.0**127), 2.0**126)).tolist()
    assert [0x00800000, 0, 0] == mufu.ex2(f32(-126.0, -126.5, -1e30)).tolist()
