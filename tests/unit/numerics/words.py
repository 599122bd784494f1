"""Bit patterns worth trying: the edges of a format, and random words of several kinds."""

import numpy as np

from drywell.numerics import FORMATS


def specials(fmt: str) -> np.ndarray:
    """Zeros, subnormals, neighbours of 1 and of the limits, infinities and NaNs, in both signs."""
    f = FORMATS[fmt]
    top, m = (1 << f.exponent_bits) - 1, f.mantissa_bits
    one = f.bias << m
    positive = [0, 1, 2, (1 << m) - 1, 1 << m, (1 << m) + 1, (top << m) - 1, top << m, (top << m) | 1]
    positive += [(top << m) | (1 << (m - 1)), one - 1, one, one + 1, one + (1 << m), one - ((m + 1) << m)]
    return np.array([sign | p for p in positive for sign in (0, f.sign_mask)], f.dtype)


def random_words(fmt: str, count: int, seed: int) -> np.ndarray:
    """Words of any exponent, near 1, and near the subnormals, mixed."""
    f = FORMATS[fmt]
    rng = np.random.default_rng(seed)
    word = rng.integers(0, 1 << f.container_bits, count, dtype=f.dtype)
    keep = word & f.dtype(((1 << f.mantissa_bits) - 1) | f.sign_mask)
    shift = f.dtype(f.mantissa_bits)
    near = keep | (rng.integers(f.bias - 4, f.bias + 5, count).astype(f.dtype) << shift)
    low = keep | (rng.integers(0, 4, count).astype(f.dtype) << shift)
    return np.choose(rng.integers(0, 3, count), [word, near, low])


def operands(fmt: str, num: int, count: int, seed: int) -> list[np.ndarray]:
    """`num` lists: all pairs of specials (further operands cycle), then random words."""
    s = specials(fmt)
    lists = []
    for slot in range(num):
        order = (np.repeat(s, len(s)), np.tile(s, len(s)), np.resize(s[::7], len(s) ** 2))[slot]
        lists.append(np.concatenate([order, random_words(fmt, count, seed + slot)]))
    return lists
