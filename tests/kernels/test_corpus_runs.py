"""Real kernels of several compilers, run through their launch files: what they compute equals NumPy,
whatever the schedule, and the checker has nothing against them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drywell.base.diagnostic import Severity
from drywell.host.launch_file import read_launch_file

KERNELS = (
    "triton/vec_add",
    "triton/row_softmax",
    "triton/matmul_ptr_f16",
    "triton/matmul_ptr_tf32",
    "triton/matmul_tma_f16",
    "triton/matmul_tma_f16_ws",
    "triton/matmul_tma_bf16_256",
    "triton/matmul_tma_f16_2cta",
    "triton/matmul_persistent_devdesc",
    "triton/matmul_persistent_devdesc_ws",
    "triton/flash_fwd",
    "triton/flash_fwd_causal",
    "triton/flash_fwd_ws",
    "triton/dbg_print_assert_atomic_sort",
    "gluon/tc_tile_f16",
    "gluon/tc_tile_f16_m64",
    "gluon/cluster_softmax",
    "gluon/tc_tmem_a_f16",
    "gluon/tc_ws_matmul_bf16",
    "nvcc_ours/ours_gemm_1cta",
    "nvcc_ours/ours_persistent",
    "nvcc_ours/ours_multicast",
    "nvcc_ours/ours_clc_single",
    "nvcc_ours/ours_clc_cluster2",
    "nvcc_ours/ours_pdl_first",
    "nvcc_ours/ours_pdl_second",
    "nvcc_ours/ours_im2col",
    "nvcc_ours/ours_gather",
    "cute_dsl_ours/vadd",
    "cute_dsl_ours/gemm_f16_128x128x64",
    "tilelang/gemm_ws_bf16",
    "triton/matmul_tma_f8",
    "triton/dot_scaled_ptr_mxf8f4",
    "triton/dot_scaled_ptr_mxfp4",
    "triton/dot_scaled_ptr_mxfp8",
    "triton/dot_scaled_ptr_nvfp4",
    "triton/dot_scaled_tma_mxfp4",
    "triton/dot_scaled_tma_mxfp8",
    "triton/dot_scaled_tma_nvfp4",
    "gluon/tc_tile_f8",
    "gluon/tc_2cta_f16",
    "gluon/tc_scaled_copy_mxfp4",
    "gluon/tc_scaled_copy_mxfp8",
    "gluon/tc_scaled_copy_nvfp4",
    "nvcc_ours/ours_gemm_2cta",
    "nvcc_ours/ours_i8",
    "nvcc_ours/ours_ws",
    "nvcc_ours/ours_sparse",
    "nvcc_ours/ours_cp",
    "tilelang/gemm_ws_f8",
    "tirx/tmem_roundtrip",
)
SCHEDULES: dict[str, dict[str, Any]] = {
    "eager": {"schedule": "eager"},
    "lazy": {"schedule": "lazy"},
    "seed 1": {"seed": 1},
    "seed 2": {"seed": 2},
    "seed 3": {"seed": 3},
}
CHECKED = ("eager", "lazy")
"""A verdict holds for every schedule that takes the same branches: two extremes are enough here."""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_computes_what_its_launch_file_expects(kernel: str, schedule: str, corpus: Path) -> None:
    check = "ptx" if schedule in CHECKED else "off"
    launch_file = read_launch_file(corpus / f"{kernel}.toml")
    result, comparisons = launch_file.run(check=check, **SCHEDULES[schedule])
    assert result.verdict == ("clean" if schedule in CHECKED else "unchecked")
    assert [f for f in result.findings if f.severity is not Severity.NOTE] == []
    assert comparisons
    assert [str(c) for c in comparisons if c.num_wrong] == []
