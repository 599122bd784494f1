"""The packaged GEMM is right under every schedule, and its broken twin only where loads finish early."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drywell
from drywell.examples import packaged
from drywell.host.launch_file import read_launch_file

SCHEDULES = [{"schedule": "eager"}, {"schedule": "lazy"}, {"seed": 1}, {"seed": 2}, {"seed": 3}]


@pytest.mark.parametrize("options", SCHEDULES)
def test_small_integers_are_equal_bit_for_bit_under_every_schedule(options: dict[str, Any]) -> None:
    run = drywell.examples.gemm(384, 128, 64, values="integers", ctas=1, **options)
    assert run.ok
    assert (run.comparison.num_wrong, run.comparison.num_elements, run.comparison.is_exact) == (
        0,
        384 * 128,
        True,
    )


def test_random_numbers_agree_within_the_bound_of_the_arithmetic() -> None:
    run = drywell.examples.gemm(128, 256, 192)
    assert run.ok
    assert not run.comparison.is_exact
    assert np.asarray(run.c, np.float64).any()


def test_the_bound_is_no_wider_than_it_must_be() -> None:
    """The result rounded to bf16 must pass, and one unit of bf16 beside it must not."""
    rng = np.random.default_rng(5)
    a, b, bias = rng.standard_normal((128, 64)), rng.standard_normal((128, 64)), np.zeros(128)
    expected = np.maximum(a @ b.T, 0)
    bound = packaged.rounding_bound(a, b, bias)
    large = expected > 1
    assert (bound[large] < 2.0**-9 * expected[large]).all()


def test_the_broken_twin_is_wrong_under_lazy_and_right_under_eager() -> None:
    broken: dict[str, Any] = {"broken": True, "check": "off"}
    assert drywell.examples.gemm(384, 128, 64, values="integers", ctas=1, **broken, schedule="eager").ok
    run = drywell.examples.gemm(384, 128, 64, values="integers", ctas=1, **broken, schedule="lazy")
    assert run.result.ok
    assert not run.ok
    # only the last load of a tile, columns 96 to 127, comes after the release
    rows, cols = np.nonzero(np.asarray(run.c, np.float64) != expected(run))
    assert len(rows) == run.comparison.num_wrong
    assert set(cols) <= set(range(96, 128))


def expected(run: packaged.GemmRun) -> np.ndarray[Any, Any]:
    """Return what C should hold; small integers are exact in bf16 up to 256, and rounded beyond."""
    a, b = (np.asarray(x, np.float64) for x in (run.a, run.b))
    return np.asarray(np.maximum(a @ b.T + run.bias, 0).astype(run.c.dtype), np.float64)


def test_both_accumulators_are_in_the_map() -> None:
    run = drywell.examples.gemm(256, 128, 64, values="integers", ctas=1, observe=("tmem",))
    snapshot = run.result.tmem(0)
    assert [(a.column, a.num_cols, a.freed is not None) for a in snapshot.allocations] == [(0, 256, True)]
    mma = {(w.column, w.num_cols) for w in snapshot.writers if w.unit == "tensor"}
    assert {(0, 128), (128, 128)} == mma


@pytest.mark.parametrize("shape", [(100, 128, 64), (128, 0, 64), (128, 128, 32)])
def test_sizes_the_kernel_does_not_take_are_refused_with_a_size_it_takes(shape: tuple[int, int, int]) -> None:
    with pytest.raises(drywell.LaunchError, match="multiples of"):
        drywell.examples.gemm(*shape)


def test_another_dtype_is_unsupported() -> None:
    with pytest.raises(drywell.UnsupportedError, match="f16"):
        drywell.examples.gemm(dtype="f16")


def test_the_launch_file_beside_the_kernel_runs_and_is_right() -> None:
    result, comparisons = read_launch_file(packaged.FOLDER / "gemm.toml").run(schedule="lazy")
    assert result.ok
    assert [True] == [c.ok for c in comparisons]


ARRIVALS = {"gemm.cu:149": "full", "gemm.cu:174": "empty", "gemm.cu:177": "ready", "gemm.cu:207": "drained"}
"""The author's lines that arrive on the four kinds of barriers."""


def arrivals() -> list[int]:
    """Return the lines of the PTX that arrive on an mbarrier, by thread or by the tensor core."""
    text = packaged.FOLDER.joinpath("gemm.ptx").read_text().split("\n")
    return [
        k for k, line in enumerate(text, 1) if line.strip().startswith(("mbarrier.arrive", "tcgen05.commit"))
    ]


NEVER = "{ .reg .pred never; setp.ne.u32 never, %r1, %r1; @never "


@pytest.mark.parametrize(("line", "barrier"), list(zip(arrivals(), ARRIVALS.values(), strict=True)))
def test_an_arrival_that_never_comes_is_named_with_its_barrier_phase_and_line(
    tmp_path: Path, line: int, barrier: str
) -> None:
    text = packaged.FOLDER.joinpath("gemm.ptx").read_text().split("\n")
    text[line - 1] = f"{NEVER}{text[line - 1].strip()} }}"
    (tmp_path / "late.ptx").write_text("\n".join(text))
    with pytest.raises(drywell.DeadlockError) as caught:
        launch(drywell.load(tmp_path / "late.ptx")["gemm"])
    report = str(caught.value)
    place = next(loc for loc, name in ARRIVALS.items() if name == barrier)
    assert report.startswith("error[DEADLOCK]")
    assert f"of mbarrier {barrier}" in report
    assert "phase 0 (parity 0) is open" in report
    assert f"line {line} ({place})" in report


@pytest.mark.parametrize(("line", "barrier"), list(zip(arrivals(), ARRIVALS.values(), strict=True)))
def test_an_arrival_that_is_taken_out_leaves_a_barrier_that_nobody_arrives_on(
    tmp_path: Path, line: int, barrier: str
) -> None:
    text = packaged.FOLDER.joinpath("gemm.ptx").read_text().split("\n")
    text[line - 1] = ""
    (tmp_path / "cut.ptx").write_text("\n".join(text))
    with pytest.raises(drywell.DeadlockError) as caught:
        launch(drywell.load(tmp_path / "cut.ptx")["gemm"])
    report = str(caught.value)
    assert f"of mbarrier {barrier}" in report
    if barrier != "full":  # its bytes still come
        assert f"\n  {barrier}: no instruction of this kernel arrives on it" in report


def launch(kernel: drywell.Kernel) -> drywell.Result:
    """Launch a variant of the kernel on three tiles of four k steps, which use every barrier more than
    once.
    """
    m, n, k = 384, 128, 256
    bf16 = packaged.DTYPES["bf16"]
    maps = [drywell.tensor_map(np.zeros(s, bf16), (128, 64), "128B") for s in ((m, k), (n, k), (m, n))]
    smem = packaged.OPERAND_BYTES + packaged.STAGING_BYTES
    args = [*maps, np.zeros(n, np.float32), m, n, k]
    return drywell.launch(kernel, grid=1, block=packaged.THREADS, dynamic_smem=smem, args=args)


def test_the_demo_says_what_it_should_and_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    from drywell.examples import demonstration

    monkeypatch.setattr(demonstration, "M", 384)
    monkeypatch.setattr(demonstration, "N", 128)
    monkeypatch.setattr(demonstration, "K", 64)
    monkeypatch.setattr(demonstration, "CTAS", 1)
    stream = io.StringIO()
    assert demonstration.demonstrate(stream)
    text = stream.getvalue()
    for words in (
        "all 49,152 elements equal bit for bit with NumPy",
        "all 49,152 elements agree with NumPy to within bf16 rounding",
        "0  accumulator 0, D 128 x 128 f32: columns 0-127, lanes 0-127",
        "1  accumulator 1, D 128 x 128 f32: columns 128-255, lanes 0-127",
        "running the tensor core",
        "moving data by TMA",
        "reading Tensor Memory",
        "mbarrier_arrive(smem(drained + a));",
        "tmem_wait(v);",
        "WRONG  C: ",
        "the first is C[",
        "has nothing to say",
        "warp 4 loads by TMA (gemm.cu:150, 151) -> warp 5 (gemm.cu:169)",
        "frees tmem[lane 0:128, col 0:128], free again when the phase ends",
        "error[TMEM-OVERWRITE-BEFORE-READ]: ",
        "= gemm.cu:172: mma(tmem + a * BN",
        "= gemm.cu:196: tmem_load(v, tmem + (warp << 21) + a * BN + c);",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines() if "error[" not in line) <= 120


def test_public_names() -> None:
    for name in drywell.examples.__all__:
        assert getattr(drywell.examples, name) is not None
