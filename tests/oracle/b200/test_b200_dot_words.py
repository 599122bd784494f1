"""The frozen result words of a real B200 (README.md beside this file) against drywell.numerics."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from drywell.numerics import expand, mma_f16, mma_f32, mma_i8, mma_mxf4, select

VECTORS = json.loads((Path(__file__).parent / "b200_dot_words.json").read_text())["vectors"]


def codes(words: str, fmt: str = "") -> np.ndarray:
    """One row of codes; bf16 comes as the upper half of an f32 container."""
    values = np.array([int(word, 16) for word in words.split()], np.uint64)
    return (values >> np.uint64(16 if fmt == "bf16" else 0))[None, :]


def word(vector: dict, counts: Counter[str]) -> int:
    """Drywell's word for a vector."""
    types = vector["a_type"], vector["b_type"]
    a, b = codes(vector["a"], types[0]), codes(vector["b"], types[1])
    assert (1, vector["k"]) == a.shape == b.shape
    old = int(vector["c"], 16)
    if vector["kind"] == "i8":
        d = mma_i8(a, b, [[old]], *(t == "s8" for t in types), vector["saturate"])
    elif vector["d_type"] == "f16":
        d = mma_f16(a, b, [[old & 0xFFFF]], *types, unsettled=counts)
    elif "scale_a" in vector:
        scales = codes(vector["scale_a"]), codes(vector["scale_b"])
        if vector["kind"] == "mxf8f6f4":
            d = mma_f32(a, b, [[old]], *types, sfa=scales[0], sfb=scales[1], unsettled=counts)
        else:
            d = mma_mxf4(a, b, [[old]], *scales, vector["scale_type"], unsettled=counts)
    else:
        d = mma_f32(a, b, [[old]], *types, unsettled=counts)
    return int(d[0, 0])


def test_the_file_has_the_words_it_promises() -> None:
    kinds = Counter((v["kind"], v["a_type"]) for v in VECTORS)
    assert 60 == kinds.total()
    assert (7, 8, 8) == (kinds["f16", "f16"], kinds["f16", "bf16"], kinds["tf32", "tf32"])
    totals = Counter(kind for kind, _ in kinds.elements())
    assert {"f16": 15, "tf32": 8, "f8f6f4": 20, "i8": 8, "mxf8f6f4": 2, "mxf4": 1, "mxf4nvf4": 6} == totals


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_the_word_of_a_b200_is_reproduced(vector: dict) -> None:
    counts: Counter[str] = Counter()
    assert int(vector["expected"], 16) == word(vector, counts)
    assert not +counts, "a word that a B200 has shown hangs on no open question"


# The words below joined the same repository later (README.md): validation.py of commit 8fce64d.

ONE = {"e4m3": 0x38, "e2m1": 0x2}


def metadata(num_chunks: int) -> np.ndarray:
    """Code 4 in every chunk: the first two elements, or pairs, are kept."""
    return np.full((1, num_chunks), 0x4)


def test_a_sparse_mxf8f6f4_row_has_one_scale_for_64_logical_k() -> None:
    selection = select("mxf8f6f4", metadata(16))
    a = expand(np.full((1, 32), ONE["e4m3"]), selection)
    scales = {"sfa": [[0x7F]], "sfb": [[0x7F]]}
    d = mma_f32(a, np.full((1, 64), ONE["e4m3"]), [[0]], "e4m3", "e4m3", live=selection.live, **scales)
    assert 0x42000000 == d[0, 0]


@pytest.mark.parametrize(("fmt", "J", "unit"), [("ue8m0", 2, 0x7F), ("ue8m0", 4, 0x7F), ("ue4m3", 4, 0x38)])
def test_sparse_fp4_keeps_pairs_of_elements(fmt: str, J: int, unit: int) -> None:
    selection = select("mxf4", metadata(16))
    stored = np.tile([0, 0, ONE["e2m1"], ONE["e2m1"]], 16)[None, :]  # logical k % 8 in (2, 3)
    scale = np.full((1, J), unit)
    b = np.full((1, 128), ONE["e2m1"])
    d = mma_mxf4(expand(stored, selection), b, [[0]], scale, scale, fmt, live=selection.live)
    assert 0x42000000 == d[0, 0]


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_minus_zero_and_zero_products_give_plus_zero_in_mxf8f6f4(fmt: str) -> None:
    zeros = np.zeros((1, 32), np.uint8)
    assert 0 == mma_f32(zeros, zeros, [[0x80000000]], fmt, fmt, sfa=[[0x7F]], sfb=[[0x7F]])[0, 0]


@pytest.mark.parametrize(("fmt", "J", "unit"), [("ue8m0", 2, 0x7F), ("ue8m0", 4, 0x7F), ("ue4m3", 4, 0x38)])
def test_minus_zero_and_zero_products_give_plus_zero_in_mxf4(fmt: str, J: int, unit: int) -> None:
    zeros, scale = np.zeros((1, 64), np.uint8), np.full((1, J), unit)
    assert 0 == mma_mxf4(zeros, zeros, [[0x80000000]], scale, scale, fmt)[0, 0]
