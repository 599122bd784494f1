"""Whole kernels that use the units of a Blackwell SM: everything they leave is the same natively."""

from __future__ import annotations

from pathlib import Path

import pytest

from drywell.host.launch_file import read_launch_file
from unit.engine.native.agreement import agree

KERNELS = {
    "nvcc_ours/ours_gemm_1cta": ("tcgen05_mma", "tcgen05_commit", "cp_async_bulk_tensor_load"),
    "nvcc_ours/ours_gemm_2cta": ("tcgen05_mma", "tcgen05_commit_multicast"),
    "nvcc_ours/ours_multicast": ("tcgen05_mma", "cp_async_bulk_tensor_load"),
    "nvcc_ours/ours_ws": ("tcgen05_mma_ws",),
    "gluon/tc_scaled_copy_mxfp8": ("tcgen05_mma_block_scale", "tcgen05_cp", "cp_async_bulk_tensor_store"),
    "gluon/tc_tile_f16_m64": ("tcgen05_ld_16x32bx2", "shfl_sync"),
    "triton/matmul_ptr_f16": ("cp_async", "ldmatrix", "tcgen05_mma", "bar_sync"),
    "triton/matmul_persistent_devdesc_ws": ("cp_async_bulk_tensor_load", "fence_proxy_tensormap_acquire"),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_leaves_the_same_machine(kernel: str, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        read_launch_file(corpus / f"{kernel}.toml").run(
            schedule="eager", check="off", engine="interpreter", workers=1
        )

    done, _ = agree(run, monkeypatch)
    assert [] == [name for name in KERNELS[kernel] if not done[name]]
