"""Corpus kernels that work on one another: two launches in a row, and CTAs that take over waiting ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.host.launch import launch, load
from kernels.test_corpus_runs import SCHEDULES

TILES = 48
"""Tiles for each SM."""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_dependent_launch_sees_what_the_earlier_one_wrote(corpus: Path, schedule: str) -> None:
    module = load(corpus / "nvcc_ours" / "ours_pdl.ptx")
    count = 1000
    x = np.random.default_rng(1).normal(size=count).astype(np.float32)
    y, z = np.full((2, count), np.nan, np.float32)
    first = launch(module["pdl_first"], grid=8, block=128, args=[x, y, count], **SCHEDULES[schedule])
    second = launch(module["pdl_second"], grid=8, block=128, args=[x, y, z, count], **SCHEDULES[schedule])
    assert ("clean", "clean") == (first.verdict, second.verdict)
    assert np.array_equal(y, 2 * x)
    assert np.array_equal(z, x + y)


def taken_over(corpus: Path, entry: str, cluster: int, options: dict[str, Any]) -> int:
    """Run more tiles than CTAs fit, check the numbers, and return how many CTAs never started."""
    module = load(corpus / "nvcc_ours" / "ours_clc.ptx")
    tiles = TILES * cluster
    x = np.arange(tiles * 128, dtype=np.float32)
    y = np.full_like(x, np.nan)
    result = launch(
        module[entry],
        grid=tiles,
        block=128,
        cluster=cluster,
        args=[x, y, x.size],
        sms=cluster,
        check="off",
        **options,
    )
    assert np.array_equal(y, 2 * x + 1)
    return tiles - len({warp.cta for warp in result.activity})


@pytest.mark.parametrize(("entry", "cluster"), [("clc_single", 1), ("clc_cluster2", 2)])
def test_the_schedule_says_how_many_waiting_ctas_are_taken_over(
    corpus: Path, entry: str, cluster: int
) -> None:
    found = {name: taken_over(corpus, entry, cluster, options) for name, options in SCHEDULES.items()}
    assert found["eager"] == (TILES - 16) * cluster  # 64 warps an SM: 16 CTAs of 4 warps, every request hits
    assert 0 < found["lazy"] < found["eager"]
    assert all(0 < count <= found["eager"] for count in found.values())
