"""Real kernels in two processes: the arrays, counts and verdict of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from drywell.host.launch_file import read_launch_file

KERNELS = (
    "triton/row_softmax",
    "triton/matmul_tma_bf16_256",
    "triton/dot_scaled_tma_nvfp4",
    "gluon/cluster_softmax",
    "nvcc_ours/ours_persistent",
)


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_processes_give_what_one_gives(kernel: str, corpus: Path) -> None:
    found = []
    for workers in (1, 2):
        launch_file = read_launch_file(corpus / f"{kernel}.toml")
        result, comparisons = launch_file.run(check="off", workers=workers)
        assert comparisons
        assert [str(c) for c in comparisons if c.num_wrong] == []
        assert result.workers == workers
        arrays = {name: array.tobytes() for name, array in launch_file.buffers.items()}
        found.append((result.verdict, result.executed, result.activity, arrays))
    assert found[0] == found[1]
