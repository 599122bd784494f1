"""Drywell's arithmetic, which works on whole matrices with NumPy, against the scalar model, word by
word.

The cases are drawn by class, because plain random codes reach few of the corners: each pair of
classes gives a small matrix, and D is drawn to meet the products in the window, far above it and
far below.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from drywell.numerics import dot as numerics
from oracle.model import FORMATS, dot
from oracle.model.draws import (
    Draw,
    anything,
    extreme,
    make,
    near_one,
    powers,
    rarely_special,
    subnormal,
    tiny,
)
from oracle.model.matmul import K_STEP
from oracle.model.numbers import D_FORMATS

PATHS = [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("f16", "bf16", "f32"), ("tf32", "tf32", "f32")]
D_CODES = {"f32": np.dtype(np.uint32), "f16": np.dtype(np.uint16)}
SIDE = 7  # rows and columns of one matrix
Codes = list[list[int]]
CLASSES: tuple[Draw, ...] = (anything, near_one, powers, subnormal, extreme, tiny, rarely_special)


def old_d(rng: random.Random, d_type: str, draw: Draw) -> int:
    """Draw an old D: of the class of the row, near one, or anything."""
    return rng.choice((draw, near_one, powers, anything))(rng, D_FORMATS[d_type])


def ours(a: Codes, b: Codes, d: Codes | None, name: str, d_type: str, **how: object) -> np.ndarray:
    """Run Drywell's arithmetic on matrices of codes."""
    code = np.uint32 if name == "tf32" else np.uint16
    run = numerics.mma_f32 if d_type == "f32" else numerics.mma_f16
    old = None if d is None else np.array(d, D_CODES[d_type])
    return run(np.array(a, code), np.array(b, code), old, name, name, **how)


def hold(kind: str, name: str, d_type: str, a: Codes, b: Codes, d: Codes | None, **how: object) -> list[int]:
    """Hold one matrix of cases to the model; return the words."""
    got = ours(a, b, d, name, d_type, **how)
    assert got.shape == (len(a), len(b))
    assert got.dtype == D_CODES[d_type]
    model = {"shift" if key == "scale_d_shift" else key: value for key, value in how.items()}
    expected = []
    for m, x in enumerate(a):
        for n, y in enumerate(b):
            old = None if d is None else d[m][n]
            word = dot(kind, name, name, d_type, x, y, old, **model)
            case = f"a = {[hex(c) for c in x]}, b = {[hex(c) for c in y]}, d = {old}, {how}"
            assert f"{word:08x}" == f"{int(got[m, n]):08x}", case
            expected.append(word)
    return expected


def compare(
    path: tuple[str, str, str], seed: int, draws: tuple[Draw, Draw], reads_d: bool = True, **how: object
) -> list[int]:
    """Draw one matrix of cases and hold it to the model; return the words."""
    kind, name, d_type = path
    rng = random.Random(seed)
    form, K = FORMATS[name], K_STEP[kind]
    a, b = ([[draw(rng, form) for _ in range(K)] for _ in range(SIDE)] for draw in draws)
    d = [[old_d(rng, d_type, draws[0]) for _ in range(SIDE)] for _ in range(SIDE)] if reads_d else None
    return hold(kind, name, d_type, a, b, d, **how)


@pytest.mark.parametrize(("kind", "name", "d_type"), PATHS)
def test_every_word_of_2401_drawn_cases_is_the_models(kind: str, name: str, d_type: str) -> None:
    words: Counter[int] = Counter()
    pairs = [(x, y) for x in CLASSES for y in CLASSES]
    for seed, draws in enumerate(pairs):
        words.update(compare((kind, name, d_type), 1000 + seed, draws))
    nan = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}[d_type]
    assert words.total() == 2401
    assert 20 < words[nan] < words.total() // 3
    assert len(words) > words.total() // 3


@pytest.mark.parametrize(("kind", "name", "d_type"), PATHS)
@pytest.mark.parametrize(
    "how",
    [
        {"reads_d": False},
        {"negate_a": True},
        {"negate_b": True},
        {"negate_a": True, "negate_b": True},
        {"scale_d_shift": 1},
        {"scale_d_shift": 15},
        {"zero_products_in_window": True},
        {"zero_products_in_window": True, "reads_d": False},
    ],
    ids=lambda how: ",".join(f"{key}={value}" for key, value in how.items()),
)
def test_the_options_of_the_instruction_are_the_models(
    kind: str, name: str, d_type: str, how: dict[str, object]
) -> None:
    for seed, draw in enumerate(CLASSES):
        compare((kind, name, d_type), 2000 + seed, (draw, draw), **how)


@pytest.mark.parametrize(("kind", "name", "d_type"), PATHS)
def test_zeros_set_the_window_only_when_asked_and_only_among_wide_exponents(
    kind: str, name: str, d_type: str
) -> None:
    rng = random.Random(3000)
    form, K = FORMATS[name], K_STEP[kind]

    def row(even: int | None) -> list[int]:
        """Put a zero or a power of two (`even`) at even places, small numbers at odd ones."""
        small = [max(0, form.bias - rng.randint(60, 66)) for _ in range(K)]
        stored = [small[k] if k % 2 else even for k in range(K)]
        fraction = [0 if k % 2 == 0 else rng.getrandbits(form.fraction_bits) for k in range(K)]
        return [make(form, rng.getrandbits(1), s or 0, f) for s, f in zip(stored, fraction, strict=True)]

    side = 10
    a = [row(None) for _ in range(side)]
    b = [row(form.bias + n) for n in range(side)]
    d = [[(m * n % 3) << 3 for n in range(side)] for m in range(side)]
    for old in (None, d):
        plain = hold(kind, name, d_type, a, b, old)
        counted = hold(kind, name, d_type, a, b, old, zero_products_in_window=True)
        assert (plain != counted) == (name != "f16")
