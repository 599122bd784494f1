"""The benchmarks measure what they say: right numbers, kernels of the size that is asked for, a report."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drywell

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def beside_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def test_every_workload_is_right_and_notices_when_it_is_not() -> None:
    import workloads

    made: list[Any] = [
        workloads.gemm(128, 128, 64),
        workloads.row_softmax(2),
        *(workloads.scaled_gemm(kind, 128, 128, 256) for kind in ("mxfp8", "nvfp4")),
    ]
    assert [w.is_right() for w in made] == [False] * 4
    for workload in made:
        workload.run()
    assert [w.is_right() for w in made] == [True] * 4


def test_a_long_kernel_executes_as_many_instructions_as_asked_for_and_another_salt_is_another() -> None:
    from workloads import long_kernel

    out = np.zeros(32, np.uint32)
    counts = []
    for size in (200, 280):
        kernel = drywell.load(long_kernel(size, 0))["long"]
        counts.append(drywell.launch(kernel, block=32, args=[out, 3], check="off", workers=1).executed)
    assert counts[1] - counts[0] == 80
    assert long_kernel(200, 0) != long_kernel(200, 1)


def test_a_row_says_whether_its_ratio_is_as_needed() -> None:
    from bench import Row

    assert "| **no** |" in Row("a", "x", "3 s", "1 s", 3.0, 2).text()
    assert "| yes |" in Row("a", "x", "3 s", "1 s", 3.0, 6, aim=3).text()
    assert "| ≥ 30 | yes |" in Row("b", "x", "31", "1", 31.0, 30, is_at_least=True).text()
    assert "| **0.50** |  |  |" in Row("c", "x", "1 s", "2 s", 0.5, None).text()


def test_the_script_measures_a_line_and_writes_the_report(tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    script = [sys.executable, str(FOLDER / "bench.py"), "--size", "small", "--repeats", "1"]
    subprocess.run([*script, "-l", "h", "--out", str(out)], check=True, capture_output=True, timeout=120)
    text = out.read_text(encoding="utf-8")
    assert re.search(r"^\| \(h\) \| bf16 GEMM, 1 to 4 tiles \|", text, re.MULTILINE)
    assert re.search(r"^\| bf16 GEMM 512 x 128 x 64 \| .* \| .* \|$", text, re.MULTILINE)
    assert "cores" in text
