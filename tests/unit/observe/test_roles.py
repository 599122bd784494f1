"""Roles and hand-overs are what a reader of the source sees."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import drywell
from drywell.base.events import Access, Agent
from drywell.base.span import NOWHERE
from drywell.examples import packaged
from drywell.host.launch_file import read_launch_file
from drywell.observe.handovers import Handover, Mask, joint, mask_of, merge, num_places, storages
from drywell.observe.roles import WarpRole


@cache
def gemm(schedule: str) -> tuple[dict[int, WarpRole], dict[str, Handover]]:
    """Return roles and hand-overs of the first CTA of the packaged kernel: four tiles, two K steps each."""
    run = packaged.gemm(512, 256, 128, values="integers", ctas=2, schedule=schedule, observe=("roles",))
    assert run.ok
    return by_name(run.result)


def by_name(result: drywell.Result) -> tuple[dict[int, WarpRole], dict[str, Handover]]:
    first = (0, 0, 0)
    return (
        {role.warp: role for role in result.roles if role.cta == first},
        {one.name: one for one in result.handovers if one.cta == first},
    )


def places(storage: tuple[object, ...]) -> list[tuple[str, int]]:
    return [(s.name, s.size) for s in storage]  # type: ignore[attr-defined]


SCHEDULES = pytest.mark.parametrize("schedule", ["eager", "lazy", "seeded"])


@SCHEDULES
def test_the_warps_of_the_demo_are_what_its_source_says(schedule: str) -> None:
    roles, _ = gemm(schedule)
    assert [role.name for role in roles.values()] == [
        "reads Tensor Memory, stores by TMA",
        "reads Tensor Memory",
        "reads Tensor Memory",
        "reads Tensor Memory",
        "loads by TMA",
        "issues mma",
    ]
    deeds = {deed.what: deed for deed in roles[4].deeds}
    tiles, steps = 4, 2
    assert deeds["loads by TMA"].count == 2 * tiles * steps
    assert deeds["loads by TMA"].num_bytes == tiles * steps * 32768
    assert {span.loc for span in deeds["loads by TMA"].spans} == {"gemm.cu:150", "gemm.cu:151"}
    assert {deed.what: deed.count for deed in roles[5].deeds}["issues mma"] == tiles * steps * 4


@SCHEDULES
def test_full_barriers_give_their_stage_until_the_commit_of_its_empty_barrier(schedule: str) -> None:
    _, found = gemm(schedule)
    for stage in range(3):
        suffix = f"+{8 * stage}" if stage else ""
        full, empty = found[f"full{suffix}"], found[f"empty{suffix}"]
        size = 32768
        held = [(f"stages+{size * stage}" if stage else "stages", size)]
        assert (places(full.gives), full.frees) == (held, ())
        assert (empty.gives, places(empty.frees)) == ((), held)
        assert full.bytes_expected == full.bytes_completed == full.num_phases * size
        assert full.free_again is not None and full.free_again.barrier == empty.name
        assert (full.free_again.what, full.free_again.span.loc) == ("commits", "gemm.cu:174")
        assert [(a.what, a.warps) for a in full.producers] == [
            ("expects bytes", (4,)),
            ("loads by TMA", (4,)),
        ]
        assert [a.warps for a in full.consumers] == [(5,)] == [a.warps for a in empty.producers]
        assert {a.warps for a in empty.consumers} == {(4,)}


@SCHEDULES
def test_accumulators_go_from_the_mma_warp_to_the_epilogue_and_back(schedule: str) -> None:
    _, found = gemm(schedule)
    for k, suffix in enumerate(("", "+8")):
        ready, drained = found[f"ready{suffix}"], found[f"drained{suffix}"]
        columns = [(f"tmem[lane 0:128, col {128 * k}:{128 * k + 128}]", 128)]
        assert (places(ready.gives), ready.frees) == (columns, ())
        assert (drained.gives, places(drained.frees)) == ((), columns)
        assert ready.free_again is not None and drained.free_again is not None
        assert (ready.free_again.barrier, ready.free_again.span.loc) == (drained.name, "gemm.cu:207")
        assert drained.free_again.barrier == drained.name
        assert (drained.init_count, drained.arrivals_expected, drained.arrivals_seen) == (128, 128, 256)
        assert (drained.num_phases, drained.open_arrivals) == (2, 0)
        assert [a.warps for a in drained.producers] == [(0, 1, 2, 3)] == [a.warps for a in ready.consumers]


def test_a_gemm_whose_warps_do_two_things_and_that_no_barrier_gives_back_at_its_end(corpus: Path) -> None:
    result, _ = read_launch_file(corpus / "nvcc_ours" / "ours_gemm_1cta.toml").run(observe=("roles",))
    roles, found = by_name(result)
    assert roles[0].name == "loads by TMA, reads Tensor Memory"
    assert roles[1].name == "issues mma, reads Tensor Memory"
    assert {roles[2].name, roles[3].name} == {"reads Tensor Memory"}
    assert (
        places(found["full"].gives) == [("dyn", 16384), ("dyn+49152", 16384)] == places(found["empty"].frees)
    )
    assert places(found["done"].gives) == [("tmem[lane 0:128, col 0:128]", 128)]
    assert found["done"].free_again is None


def test_a_pair_loads_into_both_ctas_on_the_leaders_barrier(corpus: Path) -> None:
    result, _ = read_launch_file(corpus / "nvcc_ours" / "ours_gemm_2cta.toml").run(observe=("roles",))
    _, found = by_name(result)
    full = found["full"]
    assert full.arrivals_expected == 2
    assert {s.cta for s in full.gives} == {(0, 0, 0), (1, 0, 0)}
    assert {a.cta for a in full.producers if a.what == "loads by TMA"} == {(0, 0, 0), (1, 0, 0)}


def test_multicast_stages_are_freed_by_the_commits_of_all_ctas_that_read_them(corpus: Path) -> None:
    result, _ = read_launch_file(corpus / "nvcc_ours" / "ours_multicast.toml").run(observe=("roles",))
    _, found = by_name(result)
    readers = {(0, 0, 0), (1, 0, 0), (0, 1, 0)}
    empty, full = found["empty"], found["full"]
    assert {a.cta for a in empty.producers} == readers
    assert (empty.arrivals_expected, empty.gives) == (3, ())
    assert {s.cta for s in empty.frees} == readers  # what this CTA's two boxes, 8 KiB each, are written to
    assert sorted(places(empty.frees)) == [
        ("dyn", 8192),
        ("dyn", 8192),
        ("dyn+16384", 8192),
        ("dyn+16384", 8192),
    ]
    assert {a.cta for a in full.producers if a.what == "loads by TMA"} == readers
    assert places(full.gives) == [("dyn", 32768)]
    assert full.free_again is not None and full.free_again.barrier == "empty"


def test_attention_hands_scores_probabilities_and_stages_on_as_its_source_says(corpus: Path) -> None:
    """Warps 0-3 compute softmax, 4-7 rescale, 8-9 load, 10 multiplies; P lies in columns 384 to 447."""
    result, _ = read_launch_file(corpus / "triton" / "flash_fwd_ws.toml").run(observe=("roles",))
    roles, found = by_name(result)
    assert {roles[8].name, roles[9].name} == {"loads by TMA"}
    assert roles[10].name == "issues mma"
    assert {roles[w].name for w in range(4, 8)} == {"reads Tensor Memory, writes Tensor Memory"}
    probabilities = [("tmem[lane 0:128, col 384:448]", 64)]
    given = next(one for one in found.values() if places(one.gives) == probabilities)
    freed = next(one for one in found.values() if places(one.frees) == probabilities)
    assert [a.warps for a in given.consumers] == [(10,)]
    assert given.free_again is not None and given.free_again.barrier == freed.name
    assert [a.what for a in freed.producers] == ["commits"]
    loads = [one for one in found.values() if any(a.warps == (8, 9) for a in one.producers)]
    assert 4 == len(loads)
    for one in loads:
        (stage,) = places(one.gives)
        assert one.free_again is not None and one.free_again.what == "commits"
        assert stage in places(found[one.free_again.barrier].frees)


def test_a_plain_run_records_no_roles() -> None:
    result = packaged.gemm(128, 128, 64, values="integers").result
    assert (result.roles, result.handovers) == ((), ())


# sets of memory


def access(space: str, addresses: tuple[int, ...], size: int) -> Access:
    return Access(Agent(0, 0), space, addresses, size, True, "generic", (), NOWHERE, 3)  # type: ignore[arg-type]


def test_shared_memory_is_told_apart_by_words() -> None:
    found = mask_of(access("shared", (0x01000400, 0x01000404, 0x01000410), 4))
    assert places(storages(found, hex, lambda cta: (cta, 0, 0))) == [("0x400", 8), ("0x410", 4)]
    assert num_places(found) == 3


def test_bytes_that_straddle_words_count_for_all_of_them() -> None:
    found = mask_of(access("shared", (0x402,), 4))
    assert places(storages(found, hex, lambda cta: (cta, 0, 0))) == [("0x400", 8)]


def test_tensor_memory_is_told_apart_by_columns_and_quarters_of_the_lanes() -> None:
    low = mask_of(access("tmem", tuple(lane << 16 | 8 for lane in range(32)), 4))
    high = mask_of(access("tmem", tuple(lane << 16 | 8 for lane in range(64, 128)), 4))
    both: Mask = {}
    merge(both, low)
    merge(both, high)
    assert [name for name, _ in places(storages(both, hex, lambda cta: (cta, 0, 0)))] == [
        "tmem[lane 0:32, col 8:12]",
        "tmem[lane 64:128, col 8:12]",
    ]
    assert joint(low, high) == {}
    assert joint(both, low) == low
