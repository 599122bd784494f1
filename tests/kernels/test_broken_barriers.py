"""The demo kernel with one barrier broken by hand: the report names the barrier, its phase, and the line of
the missing arriver.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from drywell.base.errors import DeadlockError
from drywell.host.launch import launch, load
from drywell.host.tensor_maps import tensor_map

KERNEL = files("drywell.examples") / "gemm" / "gemm.ptx"
M, N, K = 512, 128, 320  # four tiles on one CTA: each accumulator is used twice, each stage often


def line_of(text: str, words: str, nth: int = 0) -> int:
    found = [n for n, line in enumerate(text.split("\n"), 1) if words in line]
    return found[nth]


def run(text: str, folder: Path, **options: Any) -> np.ndarray[Any, Any]:
    path = folder / "gemm.ptx"
    path.write_text(text)
    rng = np.random.default_rng(3)
    a = rng.integers(-2, 3, (M, K)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-2, 3, (N, K)).astype(ml_dtypes.bfloat16)
    c = np.zeros((M, N), ml_dtypes.bfloat16)
    bias = rng.integers(-2, 3, N).astype(np.float32)
    maps = [tensor_map(x, box=(128, 64), swizzle="128B") for x in (a, b, c)]
    launch(
        load(path)["gemm"],
        grid=1,
        block=192,
        dynamic_smem=4 * 32768,
        args=[*maps, bias, M, N, K],
        check="off",
        **options,
    )
    wanted = np.maximum(a.astype(np.float32) @ b.astype(np.float32).T + bias, 0)
    assert np.array_equal(wanted.astype(ml_dtypes.bfloat16), c)
    return c


ARRIVALS = {
    # what is taken out: words of its line, which of the lines with them, the barrier that starves
    "the TMA load of A": ("cp.async.bulk.tensor.2d.shared::cta.global", 0, "full"),
    "the commit of a stage": ("tcgen05.commit", 0, "empty"),
    "the commit of a tile": ("tcgen05.commit", 1, "ready"),
    "the epilogue's arrive": ("mbarrier.arrive.shared::cta.b64 _", 0, "drained"),
}


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_the_kernel_as_it_is_computes(schedule: str, tmp_path: Path) -> None:
    run(KERNEL.read_text(), tmp_path, schedule=schedule)


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@pytest.mark.parametrize("what", ARRIVALS)
def test_a_missing_arrival_is_named_with_its_barrier(what: str, schedule: str, tmp_path: Path) -> None:
    words, nth, barrier = ARRIVALS[what]
    lines = KERNEL.read_text().split("\n")
    k = line_of("\n".join(lines), words, nth) - 1
    lines[k] = "//" + lines[k]
    with pytest.raises(DeadlockError) as stuck:
        run("\n".join(lines), tmp_path, schedule=schedule)
    report = str(stuck.value)
    assert f"mbarrier {barrier} " in report or f"mbarrier {barrier}+8 " in report
    assert "phase 0 (parity 0) is open" in report
    if barrier == "full":  # the other load's bytes came
        assert "16384 bytes of tx outstanding" in report
    else:
        assert f"{barrier}" in report.split("no instruction of this kernel arrives on it")[0]


COUNTS = {"full": 0, "empty": 1, "ready": 6, "drained": 7}


@pytest.mark.parametrize("schedule", ["eager", "lazy", "seeded"])
@pytest.mark.parametrize("barrier", COUNTS)
def test_one_arrival_too_few_names_barrier_phase_and_the_line_that_arrives(
    barrier: str, schedule: str, tmp_path: Path
) -> None:
    text = KERNEL.read_text()
    inits = [k for k, line in enumerate(text.split("\n")) if "mbarrier.init" in line]
    lines = text.split("\n")
    k = inits[COUNTS[barrier]]
    count = "129" if barrier == "drained" else "2"
    lines[k] = lines[k].replace(lines[k].split(",")[1].strip(" ;"), count)
    arriver = {
        "full": "mbarrier.arrive.expect_tx",
        "empty": "tcgen05.commit",
        "ready": "tcgen05.commit",
        "drained": "mbarrier.arrive.shared",
    }[barrier]
    number = line_of(text, arriver, 1 if barrier == "ready" else 0)
    with pytest.raises(DeadlockError) as stuck:
        run("\n".join(lines), tmp_path, schedule=schedule)
    report = str(stuck.value)
    assert f"mbarrier {barrier} " in report
    assert "phase 0 (parity 0) is open, 1 of " in report
    assert f"line {number}" in report


def test_too_many_expected_bytes_are_counted(tmp_path: Path) -> None:
    text = KERNEL.read_text()
    assert text.count(", 32768;") == 1
    with pytest.raises(DeadlockError) as stuck:
        run(text.replace(", 32768;", ", 32784;"), tmp_path)
    report = str(stuck.value)
    assert "mbarrier full " in report
    assert "16 bytes of tx outstanding" in report
    assert f"line {line_of(text, 'cp.async.bulk.tensor.2d.shared::cta.global')}" in report
