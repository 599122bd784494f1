"""Where the families' random operands come from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import Out


def stream(number: int) -> np.random.RandomState:
    """Return a stream of random numbers: NumPy's frozen generator, the same under every version of NumPy."""
    return np.random.RandomState(number)


def words(rng: np.random.RandomState, *shape: int, bits: int = 32) -> NDArray[np.unsignedinteger]:
    """Return random words of 8, 16, 32 or 64 bits."""
    return rng.randint(0, 1 << bits, shape, dtype=f"u{bits // 8}")


def reals(rng: np.random.RandomState, *shape: int, low: int = -6, high: int = 7) -> NDArray[np.float64]:
    """Return numbers of 24 random bits times a power of two from 2^low to 2^(high - 1), either sign."""
    fraction = rng.randint(-(1 << 24), 1 << 24, shape, dtype="i8").astype(np.float64) / (1 << 24)
    return np.ldexp(fraction, rng.randint(low, high, shape, dtype="i8").astype(np.int32))


def filled(num_bytes: int, dtype: str = "uint32") -> Out:
    """Return an Out of bytes 0xCC: what a store leaves alone stays seen."""
    return Out(np.full(num_bytes, 0xCC, np.uint8).view(dtype))
