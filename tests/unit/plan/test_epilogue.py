"""What the width of an epilogue's subtile costs. Arithmetic on the line."""

from __future__ import annotations

from drywell import GemmConfig, arch
from drywell.plan.epilogue import subtiles

B200 = arch.load("b200")
PAIR = GemmConfig(4096, 4096, 4096, tile=(256, 256, 64), cta_group=2)


def test_twice_the_width_is_half_the_iterations_and_twice_the_bytes() -> None:
    found = subtiles(PAIR, B200)
    assert [8, 16, 32, 64, 128] == [one.cols for one in found]
    assert [256 // one.cols for one in found] == [one.iterations for one in found]
    assert [128 * one.cols * 2 for one in found] == [one.smem_bytes for one in found]
    assert [one.cols + 32 for one in found] == [one.registers for one in found]


def test_the_bytes_of_c_cost_stages() -> None:
    # 227 KiB less 1 KiB of barriers are 231424; stages of (128 + 128) x 64 x 2 = 32768 bytes
    stages = [one.stages for one in subtiles(PAIR, B200)]
    assert [(231424 - 128 * cols * 2) // 32768 for cols in (8, 16, 32, 64, 128)] == stages
    assert [7, 6, 6, 6, 6] == stages


def test_eight_warps_take_half_of_the_columns_each() -> None:
    four, eight = (
        subtiles(GemmConfig(4096, 4096, 4096, tile=(128, 128, 64), epilogue_warps=n), B200) for n in (4, 8)
    )
    assert [one.iterations for one in four] == [128 // one.cols for one in four]
    assert [one.iterations for one in eight] == [64 // one.cols for one in eight]
    assert 64 == eight[-1].cols


def test_direct_stores_take_no_shared_memory_and_c_in_the_stages_place_no_stage() -> None:
    tile = (128, 256, 64)  # stages of 49152 bytes: 4 fit in 231424
    direct = GemmConfig(4096, 4096, 4096, tile=tile, epilogue="direct")
    assert {(0, 4)} == {(one.smem_bytes, one.stages) for one in subtiles(direct, B200)}
    reused = GemmConfig(4096, 4096, 4096, tile=tile, persistent=False, accumulators=1)
    assert {4} == {one.stages for one in subtiles(reused, B200)}


def test_every_choice_fits_and_is_predicted() -> None:
    for one in subtiles(PAIR, B200):
        GemmConfig(
            4096, 4096, 4096, tile=PAIR.tile, cta_group=2, stages=one.stages, epilogue_cols=one.cols
        ).check(B200)
        assert one.tflops is not None and one.tflops > 1000
