"""The numbers of the modelled GPUs: complete, sourced, and consistent with each other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from drywell import arch
from drywell.base.errors import LaunchError


@pytest.mark.parametrize("name", arch.names())
def test_every_number_carries_a_unit_a_tag_and_a_source(name: str) -> None:
    gpu = arch.load(name)
    assert len(gpu.facts) == len({fact.name for fact in gpu.facts})
    for fact in gpu.facts:
        assert getattr(gpu, fact.name) == fact.value > 0
        assert fact.tag in ("SPEC", "MEASURED", "ASSUMED")
        assert fact.unit and len(fact.source) > 20


@pytest.mark.parametrize("name", arch.names())
def test_the_sizes_fit_into_each_other(name: str) -> None:
    gpu = arch.load(name)
    assert gpu.smem_bytes_per_sm == 228 * 1024
    assert gpu.smem_bytes_per_sm == gpu.smem_bytes_per_cta + gpu.smem_reserved_bytes_per_cta
    assert gpu.smem_bytes_per_sm < gpu.smem_cta_window_bytes == 1 << 24
    assert gpu.max_threads_per_cta <= gpu.max_warps_per_sm * gpu.warp_lanes == 2048
    assert (gpu.tmem_lanes, gpu.tmem_cols, gpu.tmem_granule_cols) == (128, 512, 32)
    assert gpu.registers_per_sm == 64 * 1024
    assert (gpu.max_ctas_per_sm, gpu.sm_count) == (32, 148)


def test_b300_is_a_b200_but_for_what_its_own_file_names() -> None:
    b200, b300 = arch.load("b200"), arch.load("b300")
    differing = {fact.name for fact in b300.facts if fact != b200.fact(fact.name)}
    assert {"sm_count", "boost_clock_mhz"} == differing
    assert ("10.0", "10.3") == (b200.compute_capability, b300.compute_capability)


def test_an_unknown_gpu_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(LaunchError, match="there is no GPU 'h100'.*\n.*b200, b300"):
        arch.load("h100")
    with pytest.raises(LaunchError, match="there is no GPU 'targets'"):
        arch.load("targets")


@pytest.mark.parametrize(
    ("name", "runs", "timing", "native_on"),
    [
        ("sm_100a", True, "MEASURED", ("b200",)),
        ("sm_100f", True, "MEASURED", ("b200", "b300")),
        ("sm_103a", True, "MEASURED", ("b300",)),
        ("sm_103f", True, "MEASURED", ("b300",)),
        ("sm_110a", True, "ASSUMED", ()),
        ("sm_110f", True, "ASSUMED", ()),
        ("sm_101a", True, "ASSUMED", ()),
    ],
)
def test_targets_with_tensor_memory_run(
    name: str, runs: bool, timing: str, native_on: tuple[str, ...]
) -> None:
    rule = arch.target(name)
    assert (runs, timing, native_on) == (rule.runs, rule.timing, rule.native_on)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("sm_100", "suffix"),
        ("sm_103", "suffix"),
        ("sm_110", "suffix"),
        ("sm_107a", "sm_107"),
        ("sm_120a", "12.x"),
        ("sm_121f", "12.x"),
        ("sm_90", "Hopper"),
        ("sm_90a", "Hopper"),
        ("sm_80", "data-center Blackwell"),
        ("compute_100", "data-center Blackwell"),
        ("", "data-center Blackwell"),
    ],
)
def test_other_targets_are_refused_with_the_reason(name: str, word: str) -> None:
    rule = arch.target(name)
    assert not rule.runs
    assert word in rule.reason


def test_the_room_needs_the_standard_library_only() -> None:
    code = (
        "import sys; from drywell import arch; arch.load('b200'); "
        "print(sorted({'numpy', 'llvmlite', 'rich'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == out.stdout.strip()
