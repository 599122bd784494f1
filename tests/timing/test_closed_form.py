"""The clock of executed kernels agrees with the closed form, which knows only their configuration."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import drywell
from drywell.arch.timing import timing
from drywell.examples import packaged
from drywell.host.launch_file import read_launch_file

CORPUS = Path(__file__).parents[1] / "corpus"
MHZ = 1965
T = timing("b200")
K = 1024
ONE = {"tile": (128, 128, 64), "stages": 3, "persistent": False, "accumulators": 1}
DIRECT = {"epilogue": "direct", "epilogue_cols": 16, "c_dtype": "f32"}
WHOLE = {"epilogue": "tma", "epilogue_cols": 128}
ONE_THREAD = {"warp_specialized": False, "lookahead": 2}
"""Every warp loads, multiplies and waits in turn, and the loads are issued two steps ahead of their MMA."""


def _with_k(name: str, folder: Path) -> Path:
    """Copy a launch of the corpus with K = 1024 in place of 320 (where K is compiled in, it stays)."""
    source = CORPUS / f"{name}.toml"
    text = source.read_text(encoding="utf-8")
    module = re.search(r'module = "(.*?)"', text)
    assert module is not None
    shutil.copy(source.parent / module[1], folder)
    text = re.sub(r"\b320\b", str(K), text).replace("grid = [4, 1, 1]", "grid = [12, 1, 1]")
    (folder / "launch.toml").write_text(text, encoding="utf-8")
    return folder / "launch.toml"


def _predicted(m: int, n: int, k: int, **config: Any) -> float:
    return drywell.predict(drywell.GemmConfig(m, n, k, **config), launch="kernel", clock_mhz=MHZ).cycles


@pytest.mark.parametrize(("name", "size", "config"), [
    ("nvcc_ours/ours_gemm_1cta", (256, 128, K), {**ONE, **DIRECT}),
    ("nvcc_ours/ours_gemm_2cta", (256, 128, K), {**ONE, **DIRECT, "tile": (256, 128, 64), "cta_group": 2}),
    ("nvcc_ours/ours_persistent", (384, 512, K), {**ONE, **DIRECT, "persistent": True, "accumulators": 2}),
    ("triton/matmul_tma_f16_ws", (256, 128, K), {**ONE, **WHOLE, "dtype": "f16"}),
    ("triton/matmul_tma_f16", (256, 128, K), {**ONE, **WHOLE, **ONE_THREAD, "dtype": "f16"}),
    ("tilelang/gemm_ws_bf16", (512, 512, 512), {**ONE, **WHOLE}),
])  # fmt: skip
def test_a_kernel_of_the_corpus_takes_what_the_closed_form_says(
    name: str, size: tuple[int, int, int], config: dict[str, Any], tmp_path: Path
) -> None:
    launch = read_launch_file(_with_k(name, tmp_path))
    result, _ = launch.run(check="off", numerics="fast", schedule="timed", observe=("timeline",))
    assert result.timeline is not None
    assert result.timeline.cycles == pytest.approx(_predicted(*size, **config), rel=0.1)


@pytest.mark.parametrize("k", [512, 1024])
def test_the_packaged_kernel_takes_what_the_closed_form_says(k: int) -> None:
    run = packaged.gemm(128, 128, k, "bf16", "fast", check="off", schedule="timed", observe=("timeline",))
    predicted = _predicted(128, 128, k, **{**ONE, "persistent": True, "accumulators": 2})
    predicted += 4 * (T.gmem_load_cycles + T.dram_extra_latency_ns * MHZ / 1000)  # four lines of biases
    assert run.ok and run.result.timeline is not None
    assert run.result.timeline.cycles == pytest.approx(predicted, rel=0.1)
