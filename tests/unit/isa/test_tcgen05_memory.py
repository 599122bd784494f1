"""tcgen05 alloc, ld, st, wait and commit, executed on a real grid of one CTA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.isa.tcgen05 import cta_group
from drywell.machine.outcome import Deferred, Wait
from drywell.machine.tmem import POISON
from drywell.machine.windows import SHARED_BASE
from unit.isa.one_cta import SMEM, act, bound, every, fault_of, grid_of, perform, refusal, smem, warps

ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32"
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
LD, ST = "tcgen05.ld.sync.aligned", "tcgen05.st.sync.aligned"


def with_tmem(num_cols: int = 512, block: int = 128, **options: Any) -> Any:
    """Four warps whose CTA has allocated columns from 0 on; every cell holds lane << 16 | column."""
    grid = grid_of(block=block)
    if options:
        grid.options = type(grid.options)(**options)
    first = warps(grid)[0]
    act(first, ALLOC, every(SMEM), every(num_cols))
    tmem = first.sm.tmem
    tmem.options = grid.options
    tmem.cells[:, :num_cols] = np.arange(128)[:, None] << 16 | np.arange(num_cols)
    tmem.written[:, :num_cols] = True
    return grid


def cell(value: Any) -> tuple[int, int]:
    return int(value) >> 16, int(value) & 0xFFFF


def loaded(warp: Any, spelling: str, taddr: int, *split: Any) -> list[Any]:
    """Execute an ld, let it perform, and return its registers."""
    outcome = act(warp, f"{LD}.{spelling}.b32", every(taddr), *(every(s) for s in split))
    assert isinstance(outcome, Deferred)
    perform(warp.grid)
    return outcome.op.result


# allocation


def test_alloc_stores_the_first_column_in_shared_memory() -> None:
    warp = warps(grid_of())[0]
    act(warp, ALLOC, every(SMEM), every(64))
    act(warp, ALLOC, every(SMEM + 4), every(32))
    assert smem(warp, SMEM, 2, "u4").tolist() == [0, 64]


def test_alloc_without_a_space_takes_a_generic_address() -> None:
    warp = warps(grid_of())[0]
    smem(warp, SMEM, 1, "u4")[0] = 99
    act(warp, "tcgen05.alloc.cta_group::1.sync.aligned.b32", every(SHARED_BASE + SMEM, "u8"), every(32))
    assert smem(warp, SMEM, 1, "u4").tolist() == [0]
    fault = fault_of(warp, "tcgen05.alloc.cta_group::1.sync.aligned.b32", every(SMEM, "u8"), every(32))
    assert fault.rule == "WRONG-SPACE"


def test_alloc_waits_until_another_cta_gives_columns_back() -> None:
    warp = warps(grid_of())[0]
    act(warp, ALLOC, every(SMEM), every(512))
    outcome = act(warp, ALLOC, every(SMEM + 4), every(32))
    assert isinstance(outcome, Wait) and not outcome.ready()
    assert "32 columns" in outcome.reason.describe()
    act(warp, DEALLOC, every(0), every(512))
    assert outcome.ready()
    outcome.then()
    assert smem(warp, SMEM + 4, 1, "u4").tolist() == [0]


@pytest.mark.parametrize(
    ("spelling", "sources", "rule"),
    [
        (ALLOC, (every(SMEM), every(48)), "ALLOC-SIZE"),
        (ALLOC, (every(SMEM + 2), every(32)), "MISALIGNED"),
        (ALLOC, (np.arange(32, dtype="u4") * 4 + SMEM, every(32)), "ALIGNED-DIVERGENT"),
        (ALLOC, (every(SMEM), np.where(np.arange(32) < 9, 32, 64).astype("u4")), "ALIGNED-DIVERGENT"),
        (ALLOC, (every(SHARED_BASE + SMEM, "u8"), every(32)), "SHARED-WINDOW"),
        (DEALLOC, (every(0), every(32)), "ALLOC-DOUBLE-FREE"),
    ],
)
def test_what_cannot_be_allocated_or_freed_is_a_fault(spelling: str, sources: Any, rule: str) -> None:
    assert fault_of(warps(grid_of())[0], spelling, *sources).rule == rule


def test_alloc_after_relinquish_is_a_fault() -> None:
    warp = warps(grid_of())[0]
    act(warp, RELINQUISH)
    assert fault_of(warp, ALLOC, every(SMEM), every(32)).rule == "ALLOC-AFTER-RELINQUISH"


@pytest.mark.parametrize(
    ("spelling", "sources"),
    [
        (ALLOC, (every(SMEM), every(32))),
        (DEALLOC, (every(0), every(32))),
        (RELINQUISH, ()),
        (f"{LD}.32x32b.x1.b32", (every(0),)),
        (f"{ST}.32x32b.x1.b32", (every(0), (every(0),))),
        ("tcgen05.wait::ld.sync.aligned", ()),
    ],
)
def test_a_warp_collective_instruction_needs_all_lanes(spelling: str, sources: Any) -> None:
    fault = fault_of(warps(with_tmem())[0], spelling, *sources, lanes=range(31))
    assert fault.rule == "ALIGNED-DIVERGENT"
    assert fault.lanes == (31,)


# ld and st: which thread holds which cell, as in the figures of the PTX manual


@pytest.mark.parametrize(
    ("spelling", "lane", "register", "expected"),
    [
        ("16x64b.x2", 6, 1, (1, 3)),
        ("16x64b.x1", 5, 0, (9, 0)),
        ("16x64b.x4", 31, 3, (15, 7)),
        ("16x128b.x1", 31, 0, (7, 3)),
        ("16x128b.x1", 31, 1, (15, 3)),
        ("16x128b.x4", 9, 5, (10, 9)),
        ("16x256b.x2", 9, 0, (2, 2)),
        ("16x256b.x2", 9, 3, (10, 3)),
        ("16x256b.x2", 9, 6, (10, 10)),
    ],
)
def test_a_register_comes_from_the_cell_of_the_figure(
    spelling: str, lane: int, register: int, expected: tuple[int, int]
) -> None:
    assert cell(loaded(warps(with_tmem())[0], spelling, 0)[register][lane]) == expected


def test_32x32b_reads_the_columns_of_each_lane_of_the_warps_own_partition() -> None:
    warp = warps(with_tmem())[1]
    assert cell(loaded(warp, "32x32b.x4", 32 << 16 | 8)[3][5]) == (37, 11)


def test_16x32bx2_reads_a_second_window_at_the_split_offset() -> None:
    warp = warps(with_tmem())[0]
    near = loaded(warp, "16x32bx2.x2", 0, 64)
    assert cell(near[1][3]) == (3, 1)
    assert cell(near[1][19]) == (3, 65)
    assert cell(loaded(warp, "16x32bx2.x1", 0, 16 << 16)[0][19]) == (19, 0)


def test_pack_joins_the_low_halves_of_two_cells() -> None:
    warp = warps(with_tmem())[0]
    warp.sm.tmem.cells[:, :2] = [0xAAAA1234, 0xBBBB5678]
    assert (loaded(warp, "32x32b.x1.pack::16b", 0)[0] == 0x56781234).all()
    low, high = (
        loaded(warp, "16x256b.x1.pack::16b", 0)[3][9] & 0xFFFF,
        loaded(warp, "16x256b.x1.pack::16b", 0)[3][9] >> 16,
    )
    assert (low, high) == (6, 7)


SHAPES = [
    *(f"32x32b.x{n}" for n in (1, 2, 64, 128)),
    *(f"16x64b.x{n}" for n in (1, 8, 128)),
    *(f"16x128b.x{n}" for n in (1, 64)),
    *(f"16x256b.x{n}" for n in (1, 32)),
]


@pytest.mark.parametrize("spelling", [*SHAPES, "16x32bx2.x16"])
def test_what_st_puts_down_ld_picks_up(spelling: str) -> None:
    warp = warps(with_tmem())[2]
    taddr, split = 64 << 16, (200,) if "bx2" in spelling else ()
    declaration, mods = bound(f"{LD}.{spelling}.b32")
    count = declaration.operand_type("r", mods).count
    rng = np.random.default_rng(1)
    values = tuple(rng.integers(0, 1 << 32, 32, dtype="u4") for _ in range(count))
    act(warp, f"{ST}.{spelling}.b32", every(taddr), *(every(s) for s in split), values)
    perform(warp.grid)
    assert np.array_equal(np.stack(loaded(warp, spelling, taddr, *split)), np.stack(values))


@pytest.mark.parametrize("spelling", SHAPES)
def test_a_load_reads_every_cell_of_its_rectangle_once(spelling: str) -> None:
    registers = np.stack(loaded(warps(with_tmem())[0], spelling, 0)).reshape(-1)
    shape, num = spelling.split(".x")
    rows = int(shape.split("x")[0])
    cols = int(shape.split("x")[1].rstrip("b")) * int(num) // 32
    assert sorted(registers.tolist()) == sorted(r << 16 | c for r in range(rows) for c in range(cols))


def test_unpack_spreads_a_register_over_two_cells() -> None:
    for choice, high in (("zero", 0), ("preserve", 0x00050000), ("poison", 0x7FFF0000)):
        grid = with_tmem(unpack_high_half=choice)
        warp = warps(grid)[0]
        act(warp, f"{ST}.32x32b.x1.unpack::16b.b32", every(0), (every(0xBEEF1234),))
        perform(grid)
        assert warp.sm.tmem.cells[5, :2].tolist() == [high | 0x1234, high | 0xBEEF]


def test_a_load_reads_when_it_performs_and_a_store_takes_its_registers_at_once() -> None:
    warp = warps(with_tmem())[0]
    value = every(7)
    act(warp, f"{ST}.32x32b.x1.b32", every(0), (value,))
    value[:] = 8
    late = act(warp, f"{LD}.32x32b.x1.b32", every(0)).op
    assert int(warp.sm.tmem.cells[0, 0]) == 0
    perform(warp.grid, stages=1)
    assert int(warp.sm.tmem.cells[0, 0]) == 7
    warp.sm.tmem.cells[:, 0] = 9
    perform(warp.grid)
    assert (late.result[0] == 9).all()


def test_wait_ld_waits_for_the_warps_own_loads_only() -> None:
    grid = with_tmem()
    one, two = warps(grid)[:2]
    act(one, f"{LD}.32x32b.x1.b32", every(0))
    assert act(two, "tcgen05.wait::ld.sync.aligned") is None
    assert act(one, "tcgen05.wait::st.sync.aligned") is None
    outcome = act(one, "tcgen05.wait::ld.sync.aligned")
    assert isinstance(outcome, Wait) and not outcome.ready()
    assert "1 tcgen05.ld of the warp, the first at k.ptx:7:3" in outcome.reason.describe()
    perform(grid)
    assert outcome.ready()


@pytest.mark.parametrize(
    ("spelling", "taddr", "rule"),
    [
        ("32x32b.x4", 510, "TMEM-COL-OOB"),
        ("32x32b.x1", 512, "TMEM-COL-OOB"),
        ("32x32b.x1", 32 << 16, "TMEM-LANE-WINDOW"),
        ("32x32b.x1", 16 << 16, "TMEM-LANE-WINDOW"),
        ("16x64b.x1", 8 << 16, "TMEM-LANE-WINDOW"),
        ("16x256b.x32.pack::16b", 1, "TMEM-COL-OOB"),
    ],
)
def test_a_load_outside_of_what_the_warp_may_touch_is_a_fault(spelling: str, taddr: int, rule: str) -> None:
    warp = warps(with_tmem(tmem_lane_window="error"))[0]
    assert fault_of(warp, f"{LD}.{spelling}.b32", every(taddr)).rule == rule


def test_the_last_columns_can_be_loaded() -> None:
    warp = warps(with_tmem())[0]
    assert cell(loaded(warp, "32x32b.x4", 508)[3][31]) == (31, 511)
    assert cell(loaded(warp, "16x64b.x1", 16 << 16 | 510)[0][31]) == (31, 511)


def test_columns_that_are_not_allocated_are_refused() -> None:
    warp = warps(with_tmem(64))[0]
    assert fault_of(warp, f"{LD}.32x32b.x1.b32", every(128)).rule == "TMEM-NO-ALLOC"
    assert fault_of(warp, f"{LD}.32x32b.x64.b32", every(32)).rule == "TMEM-COL-OOB"


def test_ownership_counts_when_a_load_is_issued() -> None:
    grid = with_tmem()
    warp = warps(grid)[0]
    act(warp, f"{LD}.32x32b.x1.b32", every(0))
    act(warp, DEALLOC, every(0), every(512))
    perform(grid)
    assert fault_of(warp, f"{LD}.32x32b.x1.b32", every(0)).rule == "TMEM-NO-ALLOC"


def test_the_second_window_is_checked_as_the_first_is() -> None:
    warp = warps(with_tmem(tmem_lane_window="error"))[0]
    for split, rule in ((512, "TMEM-COL-OOB"), (32 << 16, "TMEM-LANE-WINDOW"), (8 << 16, "TMEM-LANE-WINDOW")):
        assert fault_of(warp, f"{LD}.16x32bx2.x1.b32", every(0), every(split)).rule == rule


def test_a_store_whose_windows_overlap_is_a_fault_and_a_load_is_none() -> None:
    warp = warps(with_tmem())[0]
    two = (every(1), every(2))
    assert fault_of(warp, f"{ST}.16x32bx2.x2.b32", every(0), every(1), two).rule == "TMEM-RACE"
    assert cell(loaded(warp, "16x32bx2.x2", 0, 1)[0][16]) == (0, 1)


def test_with_the_local_lane_option_the_lane_field_counts_from_the_warps_partition() -> None:
    warp = warps(with_tmem(tmem_lane_window="local"))[2]
    assert cell(loaded(warp, "32x32b.x1", 3)[0][1]) == (65, 3)


def test_fresh_cells_are_poison() -> None:
    warp = warps(grid_of())[0]
    act(warp, ALLOC, every(SMEM), every(32))
    assert (loaded(warp, "32x32b.x1", 0)[0] == POISON).all()


# commit


def barrier(warp: Any, count: int) -> Any:
    act(warp, "mbarrier.init.shared::cta.b64", every(SMEM), every(count), lanes=(0,))
    return warp.mbarrier(SMEM)


def test_a_commit_with_nothing_outstanding_arrives_by_itself() -> None:
    grid = grid_of()
    warp = warps(grid)[0]
    handle = barrier(warp, 1)
    act(warp, COMMIT, every(SMEM), lanes=(3,))
    (op,) = grid.pending
    assert op.queue is None
    perform(grid)
    assert handle.test_parity(0)


def test_each_executing_lane_commits_once() -> None:
    grid = grid_of()
    warp = warps(grid)[0]
    handle = barrier(warp, 32)
    act(warp, COMMIT, every(SMEM))
    perform(grid, stages=31)
    assert not handle.test_parity(0)
    perform(grid)
    assert handle.test_parity(0)


def test_a_multicast_commit_names_ranks_of_the_cluster() -> None:
    spelling = COMMIT.replace(".b64", ".multicast::cluster.b64")
    grid = grid_of()
    warp = warps(grid)[0]
    handle = barrier(warp, 1)
    act(warp, spelling, every(SMEM), every(1, "u2"), lanes=(0,))
    perform(grid)
    assert handle.test_parity(0)
    fault = fault_of(warp, spelling, every(SMEM), every(3, "u2"), lanes=(0,))
    assert fault.rule == "COMMIT-MASK"


# what is said of spellings


def test_a_repetition_that_needs_too_many_registers_is_explained() -> None:
    assert (
        refusal(f"{LD}.16x256b.x64.b32")
        == "'.x64' is not allowed with shape '.16x256b'; split it into 2 loads of .x32"
    )
    assert refusal(f"{ST}.16x128b.x128.b32").endswith("split it into 2 stores of .x64")


def test_an_instruction_says_its_cta_group() -> None:
    assert [cta_group(bound(s)[1]) for s in (ALLOC, COMMIT.replace("::1", "::2"), f"{LD}.32x32b.x1.b32")] == [
        1,
        2,
        None,
    ]
