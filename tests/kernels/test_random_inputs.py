"""GEMM kernels on random inputs: each sampled element equals, bit for bit, the independent scalar model of
the tensor core.

The model (tests/oracle/model) chains the instruction's K-steps in order; what the kernel then does to the
accumulator is rounding to nearest even, written here with struct and integers. The sample covers every
tile, every lane partition and every 8-column group.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.test_corpus_runs import SCHEDULES
from kernels.variants import with_random_inputs
from oracle.model import matmul

SAMPLE_ROWS, SAMPLE_COLS = 16, 24


def f32_to_f16(word: int) -> int:
    """Round an f32 word to f16, to nearest even (Python's own half-precision packing)."""
    value = struct.unpack("<f", struct.pack("<I", word))[0]
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


def f32_to_bf16(word: int) -> int:
    """Round a finite f32 word to bf16, to nearest even."""
    return (word + 0x7FFF + (word >> 16 & 1)) >> 16 & 0xFFFF


def keep(word: int) -> int:
    return word


TO: dict[str, Callable[[int], int]] = {"f16": f32_to_f16, "bf16": f32_to_bf16, "f32": keep}
GEMMS: dict[str, tuple[str, str, bool]] = {
    # kernel: (kind, operand type, is B stored [N, K])
    "triton/matmul_ptr_f16": ("f16", "f16", False),
    "triton/matmul_ptr_tf32": ("tf32", "tf32", False),
    "triton/matmul_tma_f16": ("f16", "f16", True),
    "triton/matmul_tma_f16_ws": ("f16", "f16", True),
    "triton/matmul_tma_bf16_256": ("f16", "bf16", True),
    "triton/matmul_persistent_devdesc": ("f16", "f16", True),
    "triton/matmul_persistent_devdesc_ws": ("f16", "f16", True),
    "gluon/tc_tile_f16": ("f16", "f16", True),
    "gluon/tc_tile_f16_m64": ("f16", "f16", True),
    "gluon/tc_tmem_a_f16": ("f16", "f16", False),
    "gluon/tc_ws_matmul_bf16": ("f16", "bf16", True),
    "nvcc_ours/ours_gemm_1cta": ("f16", "bf16", True),
    "nvcc_ours/ours_persistent": ("f16", "bf16", True),
    "cute_dsl_ours/gemm_f16_128x128x64": ("f16", "f16", True),
    "tilelang/gemm_ws_bf16": ("f16", "bf16", True),
}


def codes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def padded(rows: list[list[int]], multiple: int) -> list[list[int]]:
    """Pad K with zeros, as the kernels' masked loads and the TMA unit do."""
    extra = -len(rows[0]) % multiple
    return [row + [0] * extra for row in rows]


def spread(rng: random.Random, extent: int, count: int) -> list[int]:
    """Draw indices, one from each of `count` equal stretches."""
    step = extent / count
    return sorted({int(k * step + rng.random() * step) for k in range(count)})


@pytest.mark.parametrize("kernel", GEMMS)
def test_a_gemm_on_random_inputs_equals_the_scalar_model(kernel: str, corpus: Path, tmp_path: Path) -> None:
    kind, operand, is_b_transposed = GEMMS[kernel]
    launch_file = with_random_inputs(corpus / f"{kernel}.toml", tmp_path)
    a = codes(launch_file.buffers["A"]).copy()
    b = codes(launch_file.buffers["B"]).copy()
    name = "D" if "D" in launch_file.buffers else "C"
    launch_file.run(check="off")
    found = codes(launch_file.buffers[name])
    for schedule in SCHEDULES.values():  # the same words whatever completes first
        again = with_random_inputs(corpus / f"{kernel}.toml", tmp_path)
        again.run(check="off", **schedule)
        assert np.array_equal(found, codes(again.buffers[name]))
    rng = random.Random(kernel)
    rows, cols = spread(rng, found.shape[0], SAMPLE_ROWS), spread(rng, found.shape[1], SAMPLE_COLS)
    columns = b if is_b_transposed else b.T
    a_rows = padded([a[m].tolist() for m in rows], 64)
    b_rows = padded([columns[n].tolist() for n in cols], 64)
    words = matmul(kind, operand, operand, "f32", a_rows, b_rows)
    rounded = TO[launch_file.formats[name]]
    expected = [[rounded(word) for word in line] for line in words]
    assert expected == found[np.ix_(rows, cols)].tolist()
