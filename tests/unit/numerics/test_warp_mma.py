from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from drywell.numerics.dot import mma_f32
from drywell.numerics.warp_mma import quad_pair_mma, warp_mma

TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def small_integers(shape: tuple[int, int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


@pytest.mark.parametrize("a_fmt", TYPES)
@pytest.mark.parametrize("b_fmt", TYPES)
@pytest.mark.parametrize("K", [16, 32])
def test_sums_of_small_integers_in_bytes_are_exact(a_fmt: str, b_fmt: str, K: int) -> None:
    a, b, c = small_integers((16, K), 1), small_integers((8, K), 2), small_integers((16, 8), 3)
    codes = [x.astype(TYPES[fmt]).view(np.uint8) for x, fmt in ((a, a_fmt), (b, b_fmt))]
    single = warp_mma(*codes, c.astype(np.float32).view(np.uint32), (a_fmt, b_fmt, "f32"))
    half = warp_mma(*codes, c.astype(np.float16).view(np.uint16), (a_fmt, b_fmt, "f16"))
    assert (a @ b.T + c == single.view(np.float32)).all()
    assert (a @ b.T + c == half.view(np.float16)).all()


def test_bytes_are_summed_from_zero_on_in_two_halves_and_c_comes_last() -> None:
    one, half_place = 0x38, 0x01  # e4m3: 1 and 2^-9
    a, b = np.zeros((1, 32), np.uint8), np.zeros((1, 32), np.uint8)
    a[0, 0], b[0, 0] = 3 * half_place, half_place  # 3/4 of the last place of 128
    c = np.array([[0x43000000]], np.uint32)
    assert warp_mma(a, b, c, ("e4m3", "e4m3", "f32")) == 0x43000001
    assert mma_f32(a, b, c, "e4m3", "e4m3") == 0x43000000
    a[0, 0], b[0, 0], a[0, 2], b[0, 2] = one, one, 0xB8, one  # k = 0 and k = 2 lie in different halves
    assert warp_mma(a, b, c * 0, ("e4m3", "e4m3", "f32")) == 0


def test_f64_is_a_chain_with_one_rounding_a_step() -> None:
    a = np.array([[1.0, 2.0**-53, 2.0**-53, 0.0]]).view(np.uint64)
    b = np.ones((1, 4)).view(np.uint64)
    zero = np.zeros((1, 1), np.uint64)
    assert warp_mma(a, b, zero, ("f64", "f64", "f64")).view(np.float64) == 1.0
    assert warp_mma(a[:, ::-1], b, zero, ("f64", "f64", "f64")).view(np.float64) == 1 + 2.0**-52
    up = warp_mma(a, b, zero, ("f64", "f64", "f64"), rounding="rp").view(np.float64)
    assert up == 1 + 2.0**-51


def test_a_quad_pair_rounds_c_into_the_sum_of_all_products() -> None:
    three = np.array([[0x3C00] * 3 + [0]] * 8, np.uint16)
    ones = np.full((8, 4), 0x3C00, np.uint16)
    big = np.full((8, 8), 0x4B800000, np.uint32)  # 2^24
    assert (quad_pair_mma(three, ones, big, "f32").view(np.float32) == 2**24 + 4).all()
    half = np.full((8, 8), 0x6800, np.uint16)  # 2048
    assert (quad_pair_mma(three, ones, half, "f16").view(np.float16) == 2052).all()


def test_a_masked_element_takes_no_part_though_b_is_infinite() -> None:
    a = np.array([[1, 2, 0, 0]], np.uint8)
    b = np.array([[1, 1, 100, 100]], np.uint8)
    live = np.array([[True, True, False, False]])
    c = np.zeros((1, 1), np.uint32)
    assert warp_mma(a, b, c, ("s8", "s8", "s32"), live=live) == 3
    a16, inf = np.array([[0x3C00, 0x3C00, 0, 0]], np.uint16), np.uint16(0x7C00)
    b16 = np.array([[0x3C00, 0x3C00, inf, inf]], np.uint16)
    assert warp_mma(a16, b16, c, ("f16", "f16", "f32"), live=live) == 0x40000000


@pytest.mark.parametrize(("c", "expected"), [(0x00000000, 2), (0x80000000, 2), (0x00000001, 3)])
def test_a_zero_c_keeps_the_window_at_two_to_the_minus_158(c: int, expected: int) -> None:
    """Products 2^-148 and -2^-160; with all bits the sum would be cut to one unit of 2^-149 less."""
    a = np.array([[0x1A80, 0x9780]], np.uint16)
    b = np.array([[0x1A80, 0x1780]], np.uint16)
    old = np.array([[c]], np.uint32)
    assert warp_mma(a, b, old, ("bf16", "bf16", "f32")) == expected
    assert mma_f32(a, b, None, "bf16", "bf16") == 1
