"""The frozen result words of a real B200 (README.md beside this file) against drywell.numerics."""

import json
from pathlib import Path

import numpy as np
import pytest

from drywell.numerics import mma_f16, mma_f32

VECTORS = json.loads((Path(__file__).parent / "b200_dot_words.json").read_text())["vectors"]
PLAIN = [v for v in VECTORS if v["kind"] in ("f16", "tf32", "f8f6f4")]


def codes(words: str, fmt: str) -> np.ndarray:
    """One row of K codes; bf16 comes as the upper half of an f32 container."""
    values = np.array([int(word, 16) for word in words.split()], np.uint64)
    return (values >> np.uint64(16 if fmt == "bf16" else 0))[None, :]


def test_the_file_has_the_words_it_promises() -> None:
    kinds = [(v["kind"], v["a_type"]) for v in VECTORS]
    assert 60 == len(kinds)
    assert 7 == kinds.count(("f16", "f16"))
    assert 8 == kinds.count(("f16", "bf16"))
    assert 8 == kinds.count(("tf32", "tf32"))
    assert 20 == sum(kind == "f8f6f4" for kind, _ in kinds)


@pytest.mark.parametrize("vector", PLAIN, ids=lambda v: v["name"])
def test_the_word_of_a_b200_is_reproduced(vector: dict) -> None:
    a, b = codes(vector["a"], vector["a_type"]), codes(vector["b"], vector["b_type"])
    assert (1, vector["k"]) == a.shape == b.shape
    old = int(vector["c"], 16)
    if vector["d_type"] == "f32":
        d = mma_f32(a, b, np.array([[old]], np.uint32), vector["a_type"], vector["b_type"])
    else:
        d = mma_f16(a, b, np.array([[old & 0xFFFF]], np.uint16), vector["a_type"], vector["b_type"])
    assert int(vector["expected"], 16) == int(d[0, 0])
