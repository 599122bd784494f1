"""Laws that a prediction keeps whatever its parameters are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drywell import GemmConfig, LaunchError, Prediction, predict
from drywell.arch import load
from drywell.arch.timing import timing
from drywell.plan.traffic import miss_share, traffic

PAIR = GemmConfig(8192, 8192, 8192, tile=(256, 256, 64), stages=6, cta_group=2, raster=8)
LONE = GemmConfig(4096, 4096, 4096, accumulators=1, persistent=False)


@pytest.mark.parametrize("config", [PAIR, LONE, replace(LONE, stages=1, warp_specialized=False)])
@pytest.mark.parametrize("gpu", ["b200", "b300"])
def test_the_parts_add_up_and_the_numbers_agree(config, gpu) -> None:
    run = predict(config, gpu)
    assert sum(run.breakdown.values()) == pytest.approx(run.time_us)
    assert all(part >= 0 for part in run.breakdown.values())
    assert run.cycles == pytest.approx(run.time_us * run.clock_mhz)
    assert run.tflops == pytest.approx(2 * config.m * config.n * config.k / run.time_us / 1e6)
    assert run.low < run.tflops < run.high
    assert 0 < run.utilisation < 1 and run.clock_mhz <= load(gpu).boost_clock_mhz


def test_no_prediction_beats_the_tensor_pipe() -> None:
    for tile, group in (((128, 256, 64), 1), ((256, 256, 64), 2)):
        run = predict(replace(PAIR, tile=tile, cta_group=group, stages=4, k=65536), clock_mhz=1500)
        assert run.tflops < 148 * 8192 * 1.5e9 / 1e12


def test_a_fixed_clock_is_kept_and_a_slower_one_takes_longer() -> None:
    fast, slow = predict(PAIR, clock_mhz=1800), predict(PAIR, clock_mhz=1200)
    assert (fast.clock_mhz, slow.clock_mhz) == (1800, 1200)
    assert slow.time_us > fast.time_us and slow.cycles < fast.cycles  # latencies in ns are fewer cycles


def test_the_clock_falls_with_the_load_and_further_when_it_lasts() -> None:
    idle = predict(replace(LONE, stages=1, warp_specialized=False))
    busy = predict(PAIR)
    assert predict(PAIR, sustained=True).clock_mhz < busy.clock_mhz < idle.clock_mhz


def test_what_is_measured_around_a_kernel_costs_more_and_more() -> None:
    times = [predict(LONE, launch=how).time_us for how in ("kernel", "stream", "alone", "host")]
    assert times == sorted(times) and len(set(times)) == 4


@pytest.mark.parametrize(
    ("slower", "faster"),
    [
        ({"stages": 1, "warp_specialized": False}, {"stages": 2, "warp_specialized": False}),
        ({"stages": 2}, {"stages": 4}),
        ({"warp_specialized": False}, {"warp_specialized": True}),
        ({"tma_row_bytes": 16}, {"tma_row_bytes": 128}),
        ({"epilogue": "direct", "epilogue_cols": 8}, {"epilogue": "direct", "epilogue_cols": 32}),
        ({"epilogue_warps": 4}, {"epilogue_warps": 8}),
        ({"lookahead": 1}, {"lookahead": 4}),
        ({"c_dtype": "f32"}, {"c_dtype": "f16"}),
        ({"epilogue": "direct", "c_dtype": "f32"}, {"epilogue": "direct"}),
        ({"persistent": True, "accumulators": 1}, {"persistent": True, "accumulators": 2}),
        ({"m": 8192, "n": 8192, "k": 8192}, {"m": 8192, "n": 8192, "k": 8192, "raster": 8}),
    ],
)
def test_what_every_ladder_shows_is_predicted(slower, faster) -> None:
    assert predict(replace(LONE, **slower)).tflops < predict(replace(LONE, **faster)).tflops


def test_two_accumulators_hide_the_epilogue_and_one_does_not() -> None:
    one, two = (predict(replace(PAIR, accumulators=count), clock_mhz=1500).breakdown for count in (1, 2))
    assert two["epilogue"] < 0.15 * one["epilogue"]


def test_a_wave_that_is_not_full_takes_as_long_as_one_that_is() -> None:
    full = predict(replace(LONE, m=37 * 128, n=4 * 256), clock_mhz=1500)  # 148 tiles
    one_more = predict(replace(LONE, m=149 * 128, n=256), clock_mhz=1500)  # 149 tiles
    for part in ("tensor", "fill", "epilogue"):  # fill: loads of a long column of tiles miss L2 more
        assert one_more.breakdown[part] == pytest.approx(2 * full.breakdown[part], rel=0.08)


@pytest.mark.parametrize(
    ("config", "bound"),
    [
        (PAIR, "tensor"),
        (replace(LONE, tma_row_bytes=16, stages=4), "tma"),
        (replace(LONE, stages=1, warp_specialized=False), "latency"),
        (replace(LONE, warp_specialized=False), "mma_wait"),
        (replace(LONE, k=64), "epilogue"),
        (GemmConfig(128, 256, 64, accumulators=1, persistent=False), "launch"),
    ],
)
def test_the_bound_is_named(config, bound) -> None:
    assert predict(config).bound == bound


def test_scale_factors_take_loads_and_copies() -> None:
    scaled = GemmConfig(8192, 8192, 8192, "e4m3", (128, 256, 128), 3, accumulators=1, scale_vec="1X")
    plain = replace(scaled, scale_vec=None)
    assert scaled.stage_bytes - plain.stage_bytes == 512 * 3  # 128 rows of A, 256 of B, 4 scales each
    assert predict(scaled).time_us > predict(plain).time_us


@pytest.mark.parametrize(("waves", "handovers"), [(1, 0), (2, 1), (14, 13)])
def test_a_hand_over_stands_between_two_tiles(waves: int, handovers: int) -> None:
    run = predict(replace(PAIR, m=waves * 74 * 256, n=256))
    assert run.breakdown["handover"] == pytest.approx(handovers * timing("b200").tile_handover_ns / 1000)


def test_loads_of_one_wave_share_l2() -> None:
    t = timing("b200")
    grouped, plain = (miss_share(replace(PAIR, raster=g), t, 74, 32, 32) for g in (8, None))
    assert grouped < plain
    # 8 rows of tiles by 9.25 columns of 256 by 256, against every tile's own 512
    assert grouped == pytest.approx((8 * 256 + 9.25 * 256) / (74 * 512), rel=0.01)
    small = replace(PAIR, m=4096, n=4096, k=4096)  # 67 MB of A and B: each byte once
    assert miss_share(small, t, 74, 16, 16) == pytest.approx(8192 / (256 * 512))


def test_traffic_is_counted_per_cta() -> None:
    moved = traffic(PAIR, load("b200"), timing("b200"), 1)
    assert (moved.num_tiles, moved.num_slots, moved.num_waves, moved.num_steps) == (1024, 74, 14, 128)
    assert (moved.step_bytes, moved.step_rows, moved.output_bytes) == (32768, 256, 128 * 256 * 2)
    narrow = traffic(replace(PAIR, tma_row_bytes=16), load("b200"), timing("b200"), 1)
    assert (narrow.step_rows, narrow.row_cycles) == (2048, 1.0)


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(LaunchError, match="there is no GPU 'h100'"):
        predict(PAIR, "h100")


def test_a_prediction_is_a_value() -> None:
    assert predict(PAIR) == predict(PAIR) and isinstance(predict(PAIR), Prediction)
