"""kind::i8: exact sums of bytes, wrapped or clamped once; the extremes and Python's integers."""

from itertools import product

import numpy as np
import pytest

from drywell.numerics import mma_i8

SIGNS = list(product([False, True], repeat=2))


def integer(byte: int, signed: bool) -> int:
    return byte - 256 if signed and byte > 127 else byte


@pytest.mark.parametrize(("a_signed", "b_signed"), SIGNS)
@pytest.mark.parametrize("saturate", [False, True])
def test_sums_are_those_of_python_integers(a_signed: bool, b_signed: bool, saturate: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 256, (12, 32)), rng.integers(0, 256, (15, 32))
    a[:3], b[:3] = 255, 128
    d = rng.choice([0, 1, 0x7FFFFFF0, 0x80000010, 0xFFFFFFFF, 0x7FF00000, 0x80100000], (12, 15))
    actual = mma_i8(a, b, d, a_signed, b_signed, saturate)
    assert np.uint32 == actual.dtype
    for m, n in np.ndindex(12, 15):
        pairs = zip(a[m].tolist(), b[n].tolist(), strict=True)
        total = sum(integer(x, a_signed) * integer(y, b_signed) for x, y in pairs)
        total += int(d[m, n]) - (int(d[m, n]) >> 31 << 32)
        if saturate:
            total = max(-(2**31), min(2**31 - 1, total))
        assert total & 0xFFFFFFFF == actual[m, n]


def test_the_clamp_comes_once_after_the_whole_sum() -> None:
    a = np.array([[*[255] * 16, *[129] * 16]])
    b = np.array([[127] * 32])
    assert 0x7FFFFFFF == mma_i8(a, b, [[0x7FFFFFF0]], False, True, True)[0, 0]
    down = np.array([[*[127] * 16, *[128] * 16]])  # up by 16 * 127 * 127, then down by 16 * 128 * 127
    assert 0x7FFFFFF0 - 16 * 127 == mma_i8(down, b, [[0x7FFFFFF0]], True, True, True)[0, 0]


def test_without_d_the_products_alone_are_left() -> None:
    a = np.full((2, 32), 128)
    assert [[32 * 128 * 128] * 2] * 2 == mma_i8(a, a, None, True, True).tolist()
    assert [[0x100000000 - 32 * 128 * 128] * 2] * 2 == mma_i8(a, a, None, True, False).tolist()


def test_u8_255_saturates_at_the_top() -> None:
    a = np.full((1, 32), 255)
    assert 0x7FFFFFFF == mma_i8(a, a, [[0x7FFFFFF0]], False, False, True)[0, 0]
    assert (0x7FFFFFF0 + 32 * 255 * 255) & 0xFFFFFFFF == mma_i8(a, a, [[0x7FFFFFF0]], False, False)[0, 0]


def test_shapes_that_do_not_fit_are_named() -> None:
    a = np.zeros((2, 32), np.uint8)
    with pytest.raises(ValueError, match=r"A is \(2, 32\) and B is \(2, 16\)"):
        mma_i8(a, a[:, :16], None, True, True)
    with pytest.raises(ValueError, match=r"D is \(1, 2\), needed is \(M, N\) = \(2, 2\)"):
        mma_i8(a, a, [[0, 0]], True, True)
    with pytest.raises(ValueError, match="B has 1 dimensions"):
        mma_i8(a, a[0], None, True, True)
