"""Sparse metadata: what each code keeps, and that a sparse product is the dense one of the kept elements."""

from collections import Counter

import numpy as np
import pytest

from drywell.numerics import (
    SPARSE_RULES,
    IllegalCode,
    Selection,
    expand,
    mma_f16,
    mma_f32,
    mma_i8,
    mma_mxf4,
    select,
)
from unit.numerics.words import random_words

LEGAL = {"tf32": (0x4, 0xE), "f16": (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)}


def legal(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    codes = LEGAL["tf32" if kind == "tf32" else "f16"]
    return np.random.default_rng(seed).choice(codes, shape)


@pytest.mark.parametrize("kind", SPARSE_RULES)
def test_a_legal_code_keeps_half_of_its_chunk_and_any_other_is_reported(kind: str) -> None:
    width = {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}.get(kind, 4)
    for code in range(16):
        s = select(kind, [[code, 0x4]])
        assert (1, 2 * width) == s.live.shape
        if code not in LEGAL["tf32" if kind == "tf32" else "f16"]:
            assert (IllegalCode(0, 0, code),) == s.illegal
            assert not s.live[0, :width].any()
            assert [-1] * (width // 2) == s.index[0, : width // 2].tolist()
            continue
        low, high = code & 3, code >> 2
        pair = [2 * low, 2 * low + 1, 2 * high, 2 * high + 1]
        kept = {2: [int(code == 0xE)], 4: [low, high], 8: pair}[width]
        assert kept == s.index[0, : width // 2].tolist()
        assert set(kept) == set(np.flatnonzero(s.live[0, :width]))
        assert () == s.illegal
        assert width == s.num_products  # half of each of two chunks


@pytest.mark.parametrize("kind", SPARSE_RULES)
def test_expanded_elements_stand_where_the_index_says(kind: str) -> None:
    s = select(kind, legal(kind, (5, 8), 1))
    stored = np.arange(1, s.index.size + 1).reshape(s.index.shape)
    full = expand(stored, s)
    assert np.array_equal(stored, np.take_along_axis(full, s.index, 1))
    assert np.array_equal(full != 0, s.live)
    assert s.index.size == s.num_products


def test_elements_of_an_undefined_chunk_take_no_part() -> None:
    s = select("f16", [[0x4, 0x5, 0xE]])
    assert [[1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6]] == expand([[1, 2, 3, 4, 5, 6]], s).tolist()
    assert 4 == s.num_products


def each_row(stored: np.ndarray, b: np.ndarray, s: Selection, d: np.ndarray) -> list[tuple]:
    """For each row of A: its stored elements, the columns of B they meet, its row of D."""
    return [(stored[m : m + 1], b[:, s.index[m]], d[m : m + 1]) for m in range(len(stored))]


FLOATS = [("tf32", "tf32", 8), ("f16", "f16", 16), ("f16", "bf16", 16), ("f8f6f4", "e5m2", 32)]


@pytest.mark.parametrize(("kind", "fmt", "K"), FLOATS)
@pytest.mark.parametrize("zeros", [False, True])
def test_a_sparse_product_is_the_dense_one_of_what_is_kept(kind: str, fmt: str, K: int, zeros: bool) -> None:
    """Random words hold NaN, Inf and zeros: unselected ones must not show."""
    s = select(kind, legal(kind, (12, K if kind == "tf32" else K // 2), 2))
    stored = random_words(fmt, 12 * K, 3).reshape(12, K)
    b = random_words(fmt, 20 * 2 * K, 4).reshape(20, 2 * K)
    b[:10, ::3] &= b.dtype.type(0x8000 if b.dtype == np.uint16 else 0)
    stored[:6, ::5] = 0
    d = random_words("f32", 240, 5).reshape(12, 20)
    how = {"zero_products_in_window": zeros}
    rows = [mma_f32(x, y, old, fmt, fmt, **how) for x, y, old in each_row(stored, b, s, d)]
    counts: Counter[str] = Counter()
    sparse = mma_f32(expand(stored, s), b, d, fmt, fmt, live=s.live, unsettled=counts, **how)
    assert np.array_equal(np.concatenate(rows), sparse)
    assert len(np.unique(sparse)) > 20
    other = mma_f32(expand(stored, s), b, d, fmt, fmt, live=s.live, zero_products_in_window=not zeros)
    assert np.count_nonzero(other != sparse) == counts["zero_products_in_window"]


def test_an_infinity_that_is_not_selected_has_no_effect() -> None:
    s = select("f16", [[0x4] * 8])
    a = expand(np.full((1, 16), 0x3C00, np.uint16), s)
    b = np.full((1, 32), 0x3C00, np.uint16)
    b[0, 2::4], b[0, 3::4] = 0x7C00, 0x7E00
    assert 0x41800000 == mma_f32(a, b, None, "f16", "f16", live=s.live)[0, 0]
    assert 0x4C00 == mma_f16(a, b, None, "f16", "f16", live=s.live)[0, 0]
    assert 0x7FFFFFFF == mma_f32(a, b, None, "f16", "f16")[0, 0]


@pytest.mark.parametrize("signs", [(True, False), (False, False)])
@pytest.mark.parametrize("saturate", [True, False])
def test_sparse_integers_are_the_dense_ones_of_what_is_kept(signs: tuple[bool, bool], saturate: bool) -> None:
    rng = np.random.default_rng(6)
    s = select("i8", legal("i8", (9, 16), 7))
    stored, b = rng.integers(0, 256, (9, 32)), rng.integers(0, 256, (11, 64))
    d = rng.choice([0x7FFFFF00, 0x80000100, 5], (9, 11))
    rows = [mma_i8(x, y, old, *signs, saturate) for x, y, old in each_row(stored, b, s, d)]
    sparse = mma_i8(expand(stored, s), b, d, *signs, saturate, live=s.live)
    assert np.array_equal(np.concatenate(rows), sparse)


@pytest.mark.parametrize(("fmt", "J"), [("ue8m0", 2), ("ue8m0", 4), ("ue4m3", 4)])
def test_sparse_fp4_has_the_blocks_of_what_is_kept(fmt: str, J: int) -> None:
    """Scale blocks and groups are counted in logical K: twice as long, with as many live products."""
    rng = np.random.default_rng(8)
    s = select("mxf4nvf4", legal("mxf4", (9, 16), 9))
    stored, b = rng.integers(0, 16, (9, 64)), rng.integers(0, 16, (13, 128))
    sfa, sfb = rng.integers(0, 0x7F, (9, J)), rng.integers(0, 0x7F, (13, J))
    if fmt == "ue8m0":
        sfa, sfb = 100 + sfa // 3, 100 + sfb // 3
    d = random_words("f32", 117, 10).reshape(9, 13)
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    rows = [
        mma_mxf4(x, y, old, sfa[m : m + 1], sfb, fmt, unsettled=counts[0])
        for m, (x, y, old) in enumerate(each_row(stored, b, s, d))
    ]
    sparse = mma_mxf4(expand(stored, s), b, d, sfa, sfb, fmt, live=s.live, unsettled=counts[1])
    assert np.array_equal(np.concatenate(rows), sparse)
    assert +counts[0] == +counts[1]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match="kind::f64 has no sparse form"):
        select("f64", [[4]])
    with pytest.raises(ValueError, match="4-bit codes"):
        select("f16", [[16]])
    with pytest.raises(ValueError, match=r"A is \(1, 3\), the metadata selects \(1, 2\)"):
        expand([[1, 2, 3]], select("f16", [[4]]))
