"""The approximate multiplication: exact where float32 is, close elsewhere; and exact values of every code."""

import numpy as np
import pytest

from drywell.numerics import FORMATS, float32_of, from_float32, is_nan, mma_f32, mma_fast, to_float64

NARROW = [name for name in FORMATS if name != "f64"]


@pytest.mark.parametrize("fmt", NARROW)
def test_codes_have_the_values_that_float64_gives(fmt: str) -> None:
    f = FORMATS[fmt]
    step = 1 if f.container_bits <= 16 else 65521
    codes = np.arange(0, 1 << f.container_bits, step, dtype=np.uint64).astype(f.dtype)
    wide, narrow = to_float64(fmt, codes), float32_of(fmt, codes)
    nan = is_nan(fmt, codes)
    assert np.array_equal(wide[~nan], narrow[~nan].astype(np.float64))
    assert np.isnan(narrow[nan]).all()


@pytest.mark.parametrize(("fmt", "K"), [("f16", 16), ("bf16", 16), ("tf32", 8), ("e4m3", 32), ("e5m2", 32)])
def test_fast_results_are_near_the_exact_ones(fmt: str, K: int) -> None:
    rng = np.random.default_rng(K)
    a, b = (from_float32(fmt, rng.standard_normal((rows, K)).astype(np.float32)) for rows in (33, 40))
    d = rng.standard_normal((33, 40)).astype(np.float32)
    x, y = float32_of(fmt, a), float32_of(fmt, b)
    exact = float32_of("f32", mma_f32(a, b, d.view(np.uint32), fmt, fmt, negate_b=True, scale_d_shift=3))
    fast = mma_fast(x, y, d, negate=True, scale_d_shift=3)
    # K + 1 terms, each side loses at most 2^-23 of the sum of magnitudes per term.
    scale = np.abs(x) @ np.abs(y).T + np.abs(d)
    assert (np.abs(fast - exact) <= 2 * (K + 1) * 2.0**-23 * scale).all()
    assert np.float32 == fast.dtype


def test_the_result_may_take_the_place_of_d() -> None:
    a, b = np.full((2, 16), 2, np.float32), np.full((3, 16), 0.5, np.float32)
    d = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = 16 + d
    assert mma_fast(a, b, d, out=d) is d
    assert np.array_equal(expected, d)
    out = np.empty((2, 3), np.float32)
    assert mma_fast(a, b, None, out=out) is out
    assert np.array_equal(np.full((2, 3), 16), out)
    assert np.array_equal(out + 16, mma_fast(a, b, out))


def test_shapes_that_do_not_fit_are_named() -> None:
    a = np.zeros((2, 16), np.float32)
    with pytest.raises(ValueError, match=r"A is \(2, 16\) and B is \(2, 8\)"):
        mma_fast(a, a[:, :8], None)
