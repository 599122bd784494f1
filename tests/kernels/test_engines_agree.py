"""Both engines leave the same of real kernels and of the programs of tests/ptx/run: arrays, counts, findings,
the words of errors. Here what is quick; `make agreement` runs all of them, in every way.
"""

from __future__ import annotations

import pytest

from fuzz.agreement import CORPUS, Kernel, run_programs
from fuzz.comparison import CHECKED, EAGER, LAZY, SEEDED, Way

QUICK = (
    "cute_dsl_ours/vadd",
    "gluon/tc_scaled_copy_mxfp8",
    "gluon/tc_scaled_copy_nvfp4",
    "gluon/tc_tile_f16",
    "gluon/tc_tile_f8",
    "gluon/tc_tmem_a_f16",
    "nvcc_ours/ours_clc_cluster2",
    "nvcc_ours/ours_cp",
    "nvcc_ours/ours_gather",
    "nvcc_ours/ours_gemm_1cta",
    "nvcc_ours/ours_gemm_2cta",
    "nvcc_ours/ours_i8",
    "nvcc_ours/ours_im2col",
    "nvcc_ours/ours_pdl_first",
    "nvcc_ours/ours_sparse",
    "nvcc_ours/ours_ws",
    "tirx/tmem_roundtrip",
    "triton/dbg_print_assert_atomic_sort",
    "triton/dot_scaled_ptr_mxf8f4",
    "triton/matmul_tma_f16_ws",
    "triton/matmul_tma_f8",
    "triton/vec_add",
)
QUICKEST = (
    "gluon/tc_tile_f16_m64",
    "gluon/tc_tmem_a_f16",
    "nvcc_ours/ours_cp",
    "nvcc_ours/ours_gather",
    "nvcc_ours/ours_ws",
    "tirx/tmem_roundtrip_racy",
    "triton/vec_add",
)
PROGRAMS = run_programs()


def _of_corpus(name: str) -> Kernel:
    return Kernel(CORPUS / f"{name}.toml")


@pytest.mark.parametrize("name", QUICK)
def test_a_kernel_is_the_same_on_both_engines(name: str) -> None:
    assert _of_corpus(name).differences(EAGER) == []


@pytest.mark.parametrize("way", [LAZY, SEEDED, CHECKED], ids=str)
@pytest.mark.parametrize("name", QUICKEST)
def test_a_kernel_is_the_same_in_every_way(name: str, way: Way) -> None:
    assert _of_corpus(name).differences(way) == []


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
def test_a_program_is_the_same_on_both_engines(program: Kernel) -> None:
    assert program.differences(EAGER) == []


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 200
