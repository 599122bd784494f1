"""What a run says about its arithmetic: fast numbers are approximate, open questions are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drywell.host.launch_file import LaunchFile, read_launch_file
from kernels.variants import with_random_inputs


def rules(result: Any) -> list[str]:
    return [finding.rule for finding in result.findings]


def test_fast_numbers_are_close_and_said_to_be_approximate(corpus: Path, tmp_path: Path) -> None:
    found = {}
    for numerics in ("exact", "fast"):
        launch = with_random_inputs(corpus / "triton" / "matmul_tma_f16.toml", tmp_path)
        result, _ = launch.run(check="off", numerics=numerics)
        found[numerics] = launch.buffers["C"].astype(np.float64)
        assert result.is_approximate is (numerics == "fast")
        assert rules(result) == (["NUM-APPROX"] if numerics == "fast" else [])
        assert result.ok
    assert np.abs(found["fast"] - found["exact"]).max() <= 2**-10 * np.abs(found["exact"]).max()


def late_tiny_products(corpus: Path) -> LaunchFile:
    """A bf16 product whose first 16 of K are zeros and whose others are 2^-76 times 2^-76."""
    launch = read_launch_file(corpus / "triton" / "matmul_tma_bf16_256.toml")
    for name in ("A", "B"):
        words = launch.buffers[name].view(np.uint16)
        words[:] = 51 << 7
        words[:, :16] = 0
    return launch


def test_words_that_hang_on_an_open_question_are_a_warning_with_their_number(corpus: Path) -> None:
    launch = late_tiny_products(corpus)
    result, _ = launch.run(check="off")
    assert rules(result) == ["NUM-UNSETTLED"] and result.ok
    (finding,) = result.findings
    M, N = launch.buffers["A"].shape[0], launch.buffers["B"].shape[0]
    assert finding.count == M * N  # the second instruction meets a D of zero, for every element
    assert "zero_products_in_window" in finding.message and "DEVIATIONS.md" in finding.hint
    other, _ = late_tiny_products(corpus).run(check="off", switches={"zero_products_in_window": True})
    assert rules(other) == ["NUM-UNSETTLED"] and other.findings[0].count > M * N  # D stays zero from then on
