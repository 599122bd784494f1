"""Kernels whose launch files allow other sizes, at sizes that no tile divides, under every schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.test_corpus_runs import SCHEDULES
from kernels.variants import variant

DEVDESC = (  # M, N, K = 272, 400, 208: edges of 16, three tiles of 128 x 128 for each of the four CTAs
    ("shape = [384, 192]", "shape = [272, 208]"),
    ("shape = [512, 192]", "shape = [400, 208]"),
    ("shape = [384, 512]", "shape = [272, 400]"),
    ("u32 = 384", "u32 = 272"),
    ("u32 = 512", "u32 = 400"),
    ("u32 = 192", "u32 = 208"),
)
RAGGED = {
    "triton/vec_add": (("[3000]", "[2049]"), ("u32 = 3000", "u32 = 2049")),
    "triton/row_softmax": (("[4, 1000]", "[4, 37]"), ("u32 = 1000", "u32 = 37")),
    "cute_dsl_ours/vadd": (("[1000]", "[901]"), ("u32 = 1000", "u32 = 901")),
    "triton/matmul_persistent_devdesc": DEVDESC,
    "triton/matmul_persistent_devdesc_ws": DEVDESC,
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kernel", RAGGED)
def test_a_ragged_size_is_computed_right(kernel: str, schedule: str, corpus: Path, tmp_path: Path) -> None:
    launch_file = variant(corpus / f"{kernel}.toml", tmp_path, *RAGGED[kernel])
    _, comparisons = launch_file.run(check="off", **SCHEDULES[schedule])
    assert comparisons
    assert [str(c) for c in comparisons if c.num_wrong] == []
