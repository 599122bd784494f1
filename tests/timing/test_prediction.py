"""A launch as a whole: executed by the clock, or a sample of its clusters that stands for the others."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import drywell
from drywell import arch
from drywell.arch.timing import timing
from drywell.cli.main import main
from drywell.engine.timed_sample import look
from drywell.host.launch_file import read_launch_file
from drywell.host.prediction import given_of
from drywell.plan import GemmConfig, predict
from drywell.plan.gemm import BOUNDS, PARTS

WAITS = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry waits() {
  .reg .b64 %s; .reg .b32 %t; .reg .pred %q; .shared .align 8 .b64 bar;
  mov.u32 %t, %tid.x; setp.ne.u32 %q, %t, 0; @%q bra L;
  mbarrier.init.shared::cta.b64 [bar], 2;
  mbarrier.arrive.shared::cta.b64 %s, [bar];
L: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0; @!%q bra L;
  ret;
}
"""
"""Two are to arrive, one does."""

CORPUS = Path(__file__).parents[1] / "corpus"
ROWS, COLS, K = 5, 3, 128


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a launch of 5 x 3 tiles of 128 x 128, one CTA each, two K steps."""
    return _gemm(tmp_path_factory.mktemp("tiles"), "ours_gemm_1cta", ROWS, COLS, K)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a launch of 10 x 4 tiles of 256 x 128, a pair each, twelve K steps."""
    return _gemm(tmp_path_factory.mktemp("pairs"), "ours_gemm_2cta", 20, 4, 768)


def _gemm(folder: Path, name: str, rows: int, cols: int, k: int) -> Path:
    """Write a launch of `rows` x `cols` CTAs with as many tiles of 128 x 128 of D."""
    source = CORPUS / "nvcc_ours"
    shutil.copy(source / "ours_gemm.ptx", folder)
    text = (source / f"{name}.toml").read_text(encoding="utf-8")
    M, N = 128 * rows, 128 * cols
    for before, after in (
        ("grid = [2, 1, 1]", f"grid = [{rows}, {cols}, 1]"),
        ("shape = [256, 320]", f"shape = [{M}, {k}]"),
        ("shape = [128, 320]", f"shape = [{N}, {k}]"),
        ("shape = [256, 128]", f"shape = [{M}, {N}]"),
        ("u32 = 320", f"u32 = {k}"),
        ("u32 = 128\n", f"u32 = {N}\n"),
    ):
        assert before in text
        text = text.replace(before, after, 1)
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder / f"{name}.toml"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a launch of 300 CTAs that each add 1,024 numbers to others, with 324 warp instructions."""
    folder, source = tmp_path_factory.mktemp("vectors"), CORPUS / "triton"
    shutil.copy(source / "vec_add.ptx", folder)
    text = (source / "vec_add.toml").read_text(encoding="utf-8")
    grid, size, count = ("grid = [3", "grid = [300"), ("[3000]", "[307200]"), ("u32 = 3000", "u32 = 307200")
    for before, after in (grid, size, count):
        assert before in text
        text = text.replace(before, after)
    (folder / "vectors.toml").write_text(text, encoding="utf-8")
    return folder / "vectors.toml"


def _gpu(sm_count: int) -> arch.Gpu:
    """Return a B200 of so many SMs that hold one CTA each (of this kernel)."""
    return replace(arch.load("b200"), sm_count=sm_count, smem_bytes_per_sm=120_000)


def test_a_sample_takes_as_long_as_the_whole(tiles: Path) -> None:
    whole = drywell.predict_launch(tiles, _gpu(4), max_instructions=10**6)
    sampled = drywell.predict_launch(tiles, _gpu(4), max_instructions=10_000)
    assert "all 15 clusters" in whole.rests_on[0]
    assert "6 of 15 clusters executed by the clock, on 3 of 4 places and 2 of 4" in sampled.rests_on[0]
    assert sampled.cycles == pytest.approx(whole.cycles, rel=0.1)
    assert sampled.tflops == pytest.approx(whole.tflops, rel=0.1)
    assert sampled.share_of_peak == pytest.approx(whole.share_of_peak, rel=0.1)


def test_a_sample_of_pairs_of_which_three_share_sms_takes_as_long_as_the_whole(pairs: Path) -> None:
    gpu = replace(arch.load("b200"), sm_count=8)
    whole, sampled = (drywell.predict_launch(pairs, gpu, max_instructions=n) for n in (10**6, 60_000))
    assert "all 40 clusters" in whole.rests_on[0]
    assert "18 of 40 clusters executed by the clock, on 3 of 4 places and 2 of 4" in sampled.rests_on[0]
    assert "4 waves, the last of 4 of 12 clusters" in " ".join(sampled.rests_on)
    # stores of three clusters fill their SMs' way out: the more they are apart, the more waves overlap
    assert sampled.cycles == pytest.approx(whole.cycles, rel=0.16)
    # all the time cannot use more of the tensor pipe than the time in which it is used most
    for found in (whole, sampled):
        assert found.share_of_peak <= float(dict(found.parts)["tensor"].rstrip("%")) / 100


def test_a_sample_of_many_short_ctas_takes_as_long_as_the_whole(vectors: Path) -> None:
    gpu = replace(arch.load("b200"), sm_count=8)  # a wave is 128 CTAs, more than 35,000 warp instructions
    whole, sampled = (drywell.predict_launch(vectors, gpu, max_instructions=n) for n in (10**6, 35_000))
    assert "all 300 clusters" in whole.rests_on[0] and "on 3 of 8 places" in sampled.rests_on[0]
    assert sampled.cycles == pytest.approx(whole.cycles, rel=0.1)


@pytest.mark.parametrize(("name", "most"), [("ours_clc_single", 4000), ("ours_clc_cluster2", 3000)])
def test_clusters_that_take_over_others_are_sampled_wave_by_wave(name: str, most: int) -> None:
    gpu = replace(arch.load("b200"), sm_count=4, max_ctas_per_sm=1)
    launch = CORPUS / "nvcc_ours" / f"{name}.toml"
    whole, sampled = (drywell.predict_launch(launch, gpu, max_instructions=n) for n in (10**6, most))
    assert whole.rests_on[0].startswith("all") and not sampled.rests_on[0].startswith("all")
    assert sampled.cycles == pytest.approx(whole.cycles, rel=0.1)
    assert any("clusters may notice each other" in ground for ground in sampled.rests_on)


def test_operations_are_those_of_the_product(tiles: Path) -> None:
    found = drywell.predict_launch(tiles, _gpu(4), max_instructions=10**6)
    flops = 2 * 128 * ROWS * 128 * COLS * K
    assert found.tflops * found.time_us * 1e6 == pytest.approx(flops)
    # 8192 operations a cycle and SM in bf16
    assert found.share_of_peak == pytest.approx(flops / 8192 / 4 / found.cycles)
    assert found.time_us == pytest.approx(found.cycles / found.loaded_clock_mhz)


def test_clusters_share_rows_of_a_and_columns_of_b(tiles: Path) -> None:
    launch = read_launch_file(tiles)
    given = given_of(launch, arch.load("b200"), 10**6)
    side_by_side = look(given, range(ROWS * COLS), 148)
    one_column = look(given, range(ROWS), 148)
    assert side_by_side is not None and one_column is not None
    # boxes of A and of B are equally large: each CTA loads one of each a step
    assert side_by_side.new_share == pytest.approx((ROWS + COLS) / (2 * ROWS * COLS))
    assert one_column.new_share == pytest.approx((ROWS + 1) / (2 * ROWS))
    assert side_by_side.operand_bytes == 2 * K * 128 * (ROWS + COLS)


def test_a_slower_clock_takes_fewer_cycles_and_more_time(tiles: Path) -> None:
    fast = drywell.predict_launch(tiles, _gpu(15), max_instructions=10**6)
    slow = drywell.predict_launch(tiles, _gpu(15), max_instructions=10**6, clock_mhz=1000)
    assert slow.clock_mhz == 1000 and slow.cycles < fast.cycles  # latencies of L2 are in ns
    assert slow.cycles / 1000 > fast.cycles / 1965


def test_too_few_instructions_are_said_with_a_remedy(tiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(tiles), "--instructions", "100"]) == 3
    said = capsys.readouterr().err
    assert "100" in said and "--instructions" in said


def test_the_command_says_cycles_and_speed_on_lines_of_their_own(
    tiles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(tiles)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"cycles +[\d,]+ at 1965 MHz \([\d,]+ to [\d,]+\)", lines[1])
    assert re.search(r"of peak +\d+\.\d%", lines[2])
    assert re.search(r"TFLOP/s +[\d,.]+ \([\d,.]+ to [\d,.]+\), .* us at \d+ MHz", lines[3])
    assert max(map(len, lines)) <= 110


def test_a_prediction_of_a_launch_says_who_should_have_arrived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "waits.ptx").write_text(WAITS)
    (tmp_path / "waits.toml").write_text('module = "waits.ptx"\ngrid = [1, 1, 1]\nblock = [32, 1, 1]\n')
    assert main(["predict", str(tmp_path / "waits.toml")]) == 1
    said = capsys.readouterr().err
    assert "line 8, mbarrier.arrive: warp 0 executed it once" in said and "no instruction" not in said


def test_what_a_configuration_is_bound_by_is_explained_and_is_that_of_the_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = GemmConfig(8192, 8192, 8192)
    found, fixed = predict(config, sustained=True), predict(config, clock_mhz=1965)
    assert found.bound != fixed.bound  # the faster the clock, the more cycles are the latencies of L2
    assert main(["predict", "--gemm", "8192x8192x8192", "--sustained"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    both = f"{found.bound}: {BOUNDS[found.bound]}; at 1965 MHz, {fixed.bound}: {BOUNDS[fixed.bound]}"
    assert f"bound by {both}" in said
    assert all(f"{us:.2f} {PARTS[name]}" in said for name, us in found.breakdown.items())
    full = timing("b200").clock_full_sustained_ghz
    assert f"through {full * 1000:.0f} MHz" in said
    assert str(found).startswith(f"{found.tflops:,.0f} TFLOP/s ({found.low:,.0f} to ")


def test_what_is_no_configuration_is_refused_with_what_takes_it() -> None:
    with pytest.raises(TypeError, match="not 'launch.toml'; predict_launch takes a launch file"):
        predict("launch.toml")  # type: ignore[arg-type]


def test_the_command_predicts_a_configuration_as_the_function_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--tile", "256x256x64", "--cta-group", "2", "--stages", "6", "--no-warp-specialized"]
    assert main(["predict", "--gemm", "4096x4096x4096", *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["stats"]["prediction"]
    config = GemmConfig(4096, 4096, 4096, tile=(256, 256, 64), cta_group=2, stages=6, warp_specialized=False)
    assert found["tflops"] == pytest.approx(predict(config).tflops)
    assert found["cycles"] == pytest.approx(predict(config, clock_mhz=1965).cycles)
    assert found["low"] < found["tflops"] < found["high"] and found["rests_on"]


@pytest.mark.parametrize(("arguments", "said"), [
    ([], "give a launch file, or --gemm"),
    (["--gemm", "1x2"], "three sizes"),
    (["--gemm", "128x128x64", "--instructions", "5"], "nothing is executed"),
    (["launch.toml", "--gemm", "128x128x64"], "not both"),
    (["launch.toml", "--stages", "4"], "--stages: only with --gemm"),
    (["--gemm", "128x128x64", "--stages", "90"], "hint: take stages = 4"),
    (["nowhere.toml"], "nowhere.toml"),
])  # fmt: skip
def test_what_cannot_be_predicted_is_said_with_a_remedy(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_launch_that_streams_is_bound_by_dram(tmp_path: Path) -> None:
    num_ctas = 4736  # 32 for each SM, two waves
    shutil.copy(CORPUS / "triton" / "vec_add.ptx", tmp_path)
    text = (CORPUS / "triton" / "vec_add.toml").read_text(encoding="utf-8")
    text = text.replace("[3000]", f"[{num_ctas * 1024}]").replace("u32 = 3000", f"u32 = {num_ctas * 1024}")
    text = text.replace("grid = [3,", f"grid = [{num_ctas},")
    (tmp_path / "vec_add.toml").write_text(text, encoding="utf-8")
    found, t = drywell.predict_launch(tmp_path / "vec_add.toml"), timing("b200")
    moved_us = 3 * 4096 * num_ctas / t.dram_tb_per_s / 1e6
    wave_us = t.cta_gap_ns / 1000 + t.gmem_load_cycles / 1965 + t.dram_extra_latency_ns / 1000
    assert moved_us < found.time_us < moved_us + 2 * wave_us + 1
    assert found.bound == "dram"
    used = float(dict(found.parts)["dram"].rstrip("%")) / 100
    assert 0.95 * moved_us < used * found.time_us < 1.1 * moved_us
