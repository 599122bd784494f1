"""What a configuration takes, and what is said of one that cannot be or does not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drywell import GemmConfig, LaunchError, arch, predict

B200 = arch.load("b200")


def config(**values) -> GemmConfig:
    return GemmConfig(4096, 4096, 4096, **values)


@pytest.mark.parametrize(
    ("values", "cols"),
    [
        ({}, 512),
        ({"accumulators": 1}, 256),
        ({"tile": (64, 128, 64)}, 256),
        ({"tile": (256, 256, 64), "cta_group": 2}, 512),
        ({"tile": (128, 256, 64), "cta_group": 2}, 256),  # a pair's M = 128 lies in half of the columns
        ({"tile": (512, 256, 64), "cta_group": 2, "accumulators": 1}, 512),
        ({"tile": (128, 256, 128), "dtype": "e4m3", "scale_vec": "1X", "accumulators": 1}, 256 + 4 + 8),
        ({"tile": (128, 256, 256), "dtype": "e2m1", "scale_vec": "4X", "accumulators": 1}, 256 + 16 + 32),
    ],
)
def test_tensor_memory_columns_are_those_of_accumulators_and_scale_factors(values, cols) -> None:
    assert config(**values).tmem_cols == cols


def test_shared_memory_is_stages_and_a_subtile_of_c() -> None:
    stage = (128 + 256) * 64 * 2
    assert config(stages=4).stage_bytes == stage
    assert config(stages=4, epilogue_cols=64).smem_bytes == 4 * stage + 128 * 64 * 2 + 1024
    assert config(stages=4, epilogue="direct").smem_bytes == 4 * stage + 1024
    whole = config(stages=1, persistent=False, accumulators=1, epilogue_cols=256)
    assert whole.smem_bytes == 128 * 256 * 2 + 1024  # C in the stages' place
    pair = config(tile=(256, 256, 64), cta_group=2)
    assert pair.stage_bytes == (128 + 128) * 64 * 2


def test_the_pair_that_public_kernels_run_fits_with_six_stages_and_not_with_seven() -> None:
    config(tile=(256, 256, 64), cta_group=2, stages=6, epilogue_cols=32).check(B200)
    with pytest.raises(LaunchError, match=r"7 stages of 32768 bytes .* a CTA has 232448\n *hint"):
        predict(config(tile=(256, 256, 64), cta_group=2, stages=7, epilogue_cols=32))


def test_two_wide_accumulators_leave_no_columns_for_scale_factors() -> None:
    scaled = config(tile=(128, 256, 128), dtype="e4m3", scale_vec="1X", stages=3)
    words = "2 accumulators of 256 columns and 12 of scale factors need 524 columns, there are 512"
    with pytest.raises(LaunchError, match=words):
        predict(scaled)


def test_everything_that_does_not_fit_is_said_at_once() -> None:
    with pytest.raises(LaunchError) as caught:
        predict(config(stages=9, accumulators=3))
    assert "Tensor Memory" in str(caught.value) and "shared memory" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tile": (96, 256, 64)}, "tile 96x256: M of the tcgen05.mma is 96, needed 64 or 128"),
        ({"tile": (128, 20, 64)}, "N of the tcgen05.mma is 20, needed 8, 16"),
        ({"tile": (128, 384, 64)}, "needed a multiple of the tcgen05.mma's 128x256"),
        ({"tile": (128, 256, 24)}, "tile K = 24: needed a multiple of 16, 32 bytes of bf16"),
        ({"tile": (0, 256, 64)}, "needed positive sizes"),
        ({"dtype": "f32"}, "dtype = 'f32': needed one of bf16, f16, tf32"),
        ({"dtype": "bf16", "scale_vec": "1X"}, "dtype = 'bf16': needed one of e4m3, e5m2, e2m1"),
        ({"dtype": "e4m3", "scale_vec": "4X"}, "scale_vec = '4X': with e4m3 needed 1X"),
        ({"cta_group": 3}, "cta_group = 3: needed one of 1, 2"),
        ({"epilogue": "none"}, "epilogue = 'none': needed one of tma, direct"),
        ({"stages": 0}, "stages = 0: needed 1 or more"),
        ({"raster": 0}, "raster = 0: needed 1 or more"),
        ({"lookahead": 5}, "lookahead = 5: needed 1 to stages = 4"),
        ({"c_dtype": "fp32"}, "c_dtype = 'fp32': needed one of bf16, f16, f32, s32"),
        ({"ctas_per_sm": 2}, "a persistent kernel has one CTA on each SM"),
        ({"epilogue_warps": 6}, "epilogue_warps = 6: needed one of 4, 8"),
        ({"epilogue_cols": 12}, "epilogue_cols = 12: needed a multiple of 8, 16 bytes of C"),
        ({"epilogue_cols": 12, "epilogue": "direct"}, "epilogue_cols = 12: needed a power of two"),
        ({"dtype": "e2m1"}, "e2m1 needs a scale_vec"),
        ({"m": "4096"}, "m = '4096': needed a whole number"),
        ({"stages": 4.0}, "stages = 4.0: needed a whole number"),
        ({"tile": 256}, "tile = 256: needed three whole numbers, (M, N, K)"),
        ({"tile": (128, 256)}, "tile = (128, 256): needed three whole numbers"),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_needed(values, words) -> None:
    with pytest.raises(LaunchError) as caught:
        GemmConfig(**{"m": 4096, "n": 4096, "k": 4096, **values})
    assert words in str(caught.value)


def test_the_hint_says_how_many_stages_fit() -> None:
    wanted = config(tile=(256, 256, 64), cta_group=2, stages=12)
    with pytest.raises(LaunchError, match="hint: take stages = 6, a smaller"):
        wanted.check(B200)
    replace(wanted, stages=6).check(B200)


def test_numbers_of_numpy_are_numbers() -> None:
    assert config(stages=np.int64(3)).stages == 3


def test_ctas_share_an_sm_as_far_as_shared_and_tensor_memory_go() -> None:
    small = {"tile": (128, 128, 64), "accumulators": 1, "persistent": False, "epilogue": "direct"}
    assert config(stages=1, **small).resident_ctas(B200) == 4  # 128 columns each
    assert config(stages=2, **small).resident_ctas(B200) == 3  # 67 KiB each
    assert config(stages=7, **small).resident_ctas(B200) == 1
    assert config(stages=1, **small, ctas_per_sm=2).resident_ctas(B200) == 2
    assert config().resident_ctas(B200) == 1
    with pytest.raises(LaunchError, match="3 CTAs on an SM: 1 fit"):
        predict(config(stages=4, **small, ctas_per_sm=3))
