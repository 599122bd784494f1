"""The budget of a configuration by owner, what does not fit, and what to change. Arithmetic on the line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drywell import GemmConfig, LaunchError, UnsupportedError, arch, budget, predict
from drywell.plan.budget import resident_ctas
from drywell.plan.gemm_budget import gemm_budget

B200 = arch.load("b200")


def config(**values) -> GemmConfig:
    return GemmConfig(4096, 4096, 4096, **values)


def amounts(found, resource: str) -> dict[str, int]:
    return {row.owner: row.amount for row in found.rows if row.resource == resource}


def test_every_owner_is_listed_with_what_it_takes() -> None:
    found = budget(config(tile=(128, 256, 64), stages=4, accumulators=1, epilogue_cols=64))
    assert {"1 accumulator": 256, "rounding": 0} == amounts(found, "tmem")
    assert {
        "A, 4 stages": 4 * 128 * 64 * 2,
        "B, 4 stages": 4 * 256 * 64 * 2,
        "C, 64 columns": 128 * 64 * 2,
        "barriers": 1024,
        "the system's": 1024,
    } == amounts(found, "smem")
    roles = {"tensor copies, 1 warp": 32, "tcgen05.mma, 1 warp": 32, "epilogue, 4 warps": 64 + 32}
    assert roles == amounts(found, "registers")
    assert (256, 215040, 96) == tuple(found.used(r) for r in ("tmem", "smem", "registers"))
    assert (512, 228 * 1024, 255) == tuple(found.limit(r) for r in ("tmem", "smem", "registers"))
    assert found.fits and not found.fallbacks


def test_scale_factors_of_a_and_b_are_owners_and_the_rest_is_rounding() -> None:
    found = budget(
        config(
            tile=(128, 256, 192), dtype="e4m3", scale_vec="1X", accumulators=1, stages=2, epilogue="direct"
        )
    )
    # K = 192 has 6 scales, 2 words; 4 columns a word for each 128 rows
    assert {"1 accumulator": 256, "SFA": 2 * 4, "SFB": 2 * 2 * 4, "rounding": 512 - 280} == amounts(
        found, "tmem"
    )
    (note,) = {row.note for row in found.rows if row.owner in ("SFA", "SFB")}
    assert "2 words of 4 scales a row and step, the last holds 2" == note
    assert (
        2 * 3 * 512 * 2 == amounts(found, "smem")["scales, 2 stages"]
    )  # 512 bytes a block of 128 rows, 4 scales


def test_a_in_tensor_memory_is_an_owner_and_leaves_544_columns_with_its_way_out() -> None:
    found = budget(config(tile=(256, 256, 32), accumulators=1, a_in_tmem=True))
    assert {"1 accumulator": 2 * 256, "A": 2 * 32 // 2, "rounding": 0} == amounts(found, "tmem")
    assert 544 - 512 == found.over("tmem")
    assert "Tensor Memory: 544 of 512 columns, 32 too many (1 accumulator 512, A 32)" == found.problems[0]
    changes = [fallback.change for fallback in found.fallbacks]
    assert ["a_in_tmem = False", "tile = (256, 224, 32)", "tile = (256, 192, 32)"] == changes
    with pytest.raises(LaunchError, match="512 columns and 32 of A need 544 columns"):
        predict(config(tile=(256, 256, 32), accumulators=1, a_in_tmem=True))
    with pytest.raises(UnsupportedError, match="A in Tensor Memory is not predicted"):
        predict(config(tile=(128, 256, 32), accumulators=1, a_in_tmem=True))


def test_a_stage_too_many_is_told_its_bytes_and_what_to_change() -> None:
    found = budget(config(tile=(256, 256, 64), cta_group=2, stages=7, epilogue_cols=32))
    # 7 stages of 32 KiB, 8 KiB of C, 1 KiB of barriers, the system's 1 KiB; 228 KiB in all
    assert 7 * 32768 + 8192 + 2048 - 228 * 1024 == found.over("smem") == 6144
    assert "shared memory: 239616 of 233472 bytes, 6144 too many" in found.problems[0]
    changes = {fallback.change for fallback in found.fallbacks}
    assert {"stages = 6", "epilogue_cols = 8", "epilogue = 'direct'"} <= changes
    assert "does not fit: shared memory" in found.text
    assert "  fall-backs:\n    1. " in found.text


@pytest.mark.parametrize(
    "values",
    [
        {"stages": 9, "accumulators": 3},
        {"tile": (256, 256, 64), "cta_group": 2, "stages": 7},
        {"tile": (128, 256, 128), "dtype": "e4m3", "scale_vec": "1X", "stages": 5},
        {"tile": (256, 256, 64), "accumulators": 2, "a_in_tmem": True},
        {"stages": 6, "lookahead": 6},
    ],
)
def test_fallbacks_fit_and_the_fastest_comes_first(values) -> None:
    start = config(**values)
    found = gemm_budget(start, B200)
    assert found.fallbacks and not found.fits
    for fallback in found.fallbacks:
        changed = replace(start, **dict(fallback.values))
        changed.check(B200)
        assert gemm_budget(changed, B200).fits
    known = [fallback.tflops for fallback in found.fallbacks if fallback.tflops is not None]
    assert sorted(known, reverse=True) == known


def test_a_budget_fits_exactly_when_the_configuration_does() -> None:
    for stages in range(1, 9):
        for accumulators in (1, 2, 3):
            one = config(stages=stages, accumulators=accumulators)
            try:
                one.check(B200)
            except LaunchError:
                assert not budget(one).fits
            else:
                found = budget(one)
                assert found.fits and one.fitting_ctas(B200) == found.ctas_per_sm


def test_a_wide_epilogue_spills() -> None:
    found = budget(config(tile=(128, 256, 64), stages=1, epilogue="direct", epilogue_cols=256))
    assert 256 + 32 - 255 == found.over("registers")
    assert (
        "registers: 288 of 255 a thread, 33 would spill: take epilogue_cols = 128 or fewer" in found.problems
    )


@pytest.mark.parametrize(
    ("values", "ctas", "bound"),
    [
        ({"cols": 128, "smem_bytes": 1024, "threads": 128, "registers": 32}, 4, "Tensor Memory"),  # 512 / 128
        ({"cols": 32, "smem_bytes": 100_000, "threads": 128, "registers": 32}, 2, "shared memory"),
        ({"cols": 0, "smem_bytes": 1024, "threads": 1024, "registers": 32}, 2, "warps"),  # 64 / 32
        ({"cols": 0, "smem_bytes": 1024, "threads": 32, "registers": 32}, 32, "the number of CTAs"),
        ({"cols": 0, "smem_bytes": 1024, "threads": 256, "registers": 97}, 2, "registers"),  # 104 x 256 x 2
        ({"cols": 0, "smem_bytes": 1024, "threads": 256, "registers": 0}, 8, "warps"),  # nobody knows
    ],
)
def test_an_sm_holds_as_many_ctas_as_its_scarcest_resource_lets(values, ctas: int, bound: str) -> None:
    assert (ctas, bound) == resident_ctas(B200, **values)
