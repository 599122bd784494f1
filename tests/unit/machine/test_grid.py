"""Grids, residency, registers, special registers, operations in flight, groups."""

from __future__ import annotations

import numpy as np
import pytest

from drywell.base.errors import LaunchError
from drywell.machine.groups import LaneGroups
from drywell.machine.lanes import Mask
from drywell.machine.outcome import Wait
from drywell.machine.queue import AsyncOp
from drywell.machine.registers import B128, RegisterLayout
from drywell.machine.special import SPECIALS, special_type


def ctas(grid) -> list:
    return [cta for cluster in grid.clusters for cta in cluster.ctas]


def test_every_register_has_its_own_aligned_bytes() -> None:
    widths = (32, 1, 64, 16, 8, 128, 1, 32)
    layout = RegisterLayout(widths)
    buffer = np.zeros(layout.nbytes, np.uint8)
    views = layout.views(buffer).all()
    assert [v.dtype.itemsize * 8 for v in views] == [32, 8, 64, 16, 8, 128, 8, 32]
    assert views[5].dtype == B128 and views[1].dtype == np.bool_
    for number, view in enumerate(views):
        view.view(np.uint8)[:] = number + 1
    for width, offset, number in zip(widths, layout.offsets, range(8), strict=True):
        size = 32 * max(width // 8, 1)
        assert offset % max(width // 8, 1) == 0
        assert (buffer[offset : offset + size] == number + 1).all()
    assert layout.nbytes == sum(32 * max(w // 8, 1) for w in widths)
    with pytest.raises(ValueError, match=r"registers of \[24\] bits"):
        RegisterLayout((24,))


def test_ctas_are_numbered_x_first_and_ranked_in_their_cluster(launch) -> None:
    grid = launch(grid=(4, 2, 1), cluster=(2, 2, 1))
    found = ctas(grid)
    assert [c.index for c in found[:4]] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
    assert [c.rank for c in found[:4]] == [0, 1, 2, 3]
    assert [c.linear for c in found[:4]] == [0, 1, 4, 5]
    assert found[4].index == (2, 0, 0)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"grid": (0, 1, 1)}, "every dimension must be at least 1"),
        ({"grid": (3, 1, 1), "cluster": (2, 1, 1)}, "does not divide grid (3, 1, 1) along x"),
        ({"smem": 300_000}, "one CTA needs 305152 bytes of shared memory, an SM has 233472"),
        (
            {"grid": (4, 1, 1), "cluster": (4, 1, 1), "smem": 200_000, "sms": 2},
            "a cluster of 4 CTAs does not fit",
        ),
    ],
)
def test_what_cannot_be_launched(launch, shape, words: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(**shape)
    assert words in str(caught.value)


def test_the_emptiest_sm_is_filled_first_and_limits_hold(launch) -> None:
    grid = launch(grid=(7, 1, 1), sms=2, smem=0, dynamic=70_000)
    assert [c.sm.index for c in ctas(grid)] == [0, 1, 0, 1, 0, 1]
    assert grid.has_waiting and grid.admit() == ()
    first = ctas(grid)[0]
    first.warps[0].exit_lanes(first.warps[0].live.copy())
    (new,) = grid.admit()
    assert new.index == (6, 0, 0) and new.sm.index == 0 and not grid.has_waiting


@pytest.mark.parametrize(
    ("block", "max_registers", "expected"), [(1024, None, 2), (32, None, 32), (256, 128, 2), (256, 255, 1)]
)
def test_warps_slots_and_registers_limit_residency(launch, block: int, max_registers, expected: int) -> None:
    grid = launch(grid=(40, 1, 1), sms=1, block=block, smem=0, dynamic=0, max_registers=max_registers)
    assert len(ctas(grid)) == expected


def test_admit_can_be_limited_and_a_grid_ends_with_its_last_cta(launch) -> None:
    grid = launch(grid=(2, 1, 1))
    for cta in ctas(grid):
        assert not grid.is_done
        cta.warps[0].exit_lanes(cta.warps[0].live.copy())
    assert grid.is_done and all(not sm.ctas for sm in grid.sms)


def test_a_ragged_block_has_a_warp_with_fewer_lanes(launch) -> None:
    last = launch(block=40).clusters[0].ctas[0].warps[1]
    assert last.live.sum() == 8 and last.lanes() == tuple(range(8)) and last.thread(3) == 35


def test_special_registers_of_threads_and_ctas(launch) -> None:
    grid = launch(grid=(4, 2, 1), cluster=(2, 1, 1), block=64)
    m = ctas(grid)[3].warps[1]
    assert m.cta.index == (3, 0, 0)
    one = {
        "%ntid.x": 64,
        "%ctaid.x": 3,
        "%ctaid.y": 0,
        "%nctaid.x": 4,
        "%nctaid.y": 2,
        "%clusterid.x": 1,
        "%nclusterid.x": 2,
        "%nclusterid.y": 2,
        "%cluster_ctaid.x": 1,
        "%cluster_nctaid.x": 2,
        "%cluster_ctarank": 1,
        "%cluster_nctarank": 2,
        "%warpid": 1,
        "%nwarpid": 64,
        "%smid": 3,
        "%nsmid": 8,
        "%dynamic_smem_size": 4096,
        "%total_smem_size": 0x10400 + 4096,
        "%aggr_smem_size": 0x10400 + 4096 + 1024,
        "%gridid": 1,
        "%is_explicit_cluster": 0,
        "%tid.w": 0,
    }
    for name, expected in one.items():
        value = m.special(name)
        assert value.shape == (32,) and (value == expected).all(), name
    assert m.special("%tid.x").tolist() == list(range(32, 64))
    assert [
        v.dtype for v in (m.special("%tid.x"), m.special("%clock64"), m.special("%is_explicit_cluster"))
    ] == [
        np.uint32,
        np.uint64,
        np.bool_,
    ]
    x, y, z, w = m.special("%tid")
    assert x.tolist() == list(range(32, 64)) and not (y.any() or z.any() or w.any())


def test_lane_masks_are_about_the_lane(launch) -> None:
    m = ctas(launch())[0].warps[0]
    for lane in (0, 5, 31):
        expected = {"eq": 1 << lane, "lt": (1 << lane) - 1, "le": (2 << lane) - 1}
        expected["ge"] = 0xFFFFFFFF ^ expected["lt"]
        expected["gt"] = 0xFFFFFFFF ^ expected["le"]
        for name, word in expected.items():
            assert m.special(f"%lanemask_{name}")[lane] == word
    assert m.special("%laneid").tolist() == list(range(32))


def test_clocks_move_and_the_rest_is_read_once(launch) -> None:
    grid = launch()
    m = ctas(grid)[0].warps[0]
    before = m.special("%clock64")[0]
    grid.clock = (1 << 32) + 1965
    assert (before, m.special("%clock64")[0], m.special("%clock")[0]) == (0, (1 << 32) + 1965, 1965)
    assert m.special("%clock_hi")[0] == 1
    grid.clock = 1965
    assert m.special("%globaltimer")[0] == 1000
    assert m.special("%tid.x") is m.special("%tid.x")


def test_every_special_register_can_be_read_and_has_its_type(launch) -> None:
    m = ctas(launch())[0].warps[0]
    types = {"u32": np.uint32, "u64": np.uint64, "pred": np.bool_}
    for name in SPECIALS:
        assert m.special(name).dtype == types[special_type(name)]
    assert special_type("%nothing") is None


def test_setmaxnreg_waits_for_the_pool(launch, faults) -> None:
    cta = ctas(launch(block=64, max_registers=128))[0]
    a, b = cta.warps
    wait = cta.set_max_registers(a, 160, True)
    assert isinstance(wait, Wait) and not wait.ready()
    assert wait.reason.describe() == (
        "1024 registers of the CTA's pool, to go from 128 to 160 per thread; 0 are free"
    )
    assert cta.set_max_registers(b, 96, False) is None
    assert wait.ready()
    wait.then()
    assert (a.num_registers, b.num_registers, cta.free_registers) == (160, 96, 0)
    assert "multiple of 8 in 24..256" in faults("SETMAXNREG", cta.set_max_registers, a, 100, True).detail
    assert "warp 0 has 160" in faults("SETMAXNREG", cta.set_max_registers, a, 24, True).detail
    faults("SETMAXNREG", cta.set_max_registers, a, 232, False)


def test_setmaxnreg_without_a_known_count_blocks_nobody(launch) -> None:
    cta = ctas(launch())[0]
    assert cta.set_max_registers(cta.warps[0], 232, True) is None


def test_operations_of_a_queue_keep_their_order_and_free_ones_do_not(launch) -> None:
    grid = launch()
    m = ctas(grid)[0].warps[0]
    done: list[str] = []
    first = m.start("tensor", "mma", lambda: done.append("first"), queue="pipe")
    free = m.start("tma", "load", lambda: done.append("read"), lambda: done.append("write"))
    second = m.start("tensor", "commit", lambda: done.append("second"), queue="pipe")
    assert [op.number for op in grid.pending] == [1, 2, 3] and len(grid.pending) == 3
    assert grid.pending.runnable() == [first, free]
    assert not grid.pending.advance(free) and free.is_read and not free.done
    assert grid.pending.advance(free)
    grid.pending.advance(first)
    assert grid.pending.runnable() == [second]
    grid.pending.advance(second)
    assert done == ["read", "write", "first", "second"] and len(grid.pending) == 0


def test_ready_holds_an_operation_back_and_its_result_is_kept(launch) -> None:
    grid = launch()
    m = ctas(grid)[0].warps[0]
    gate: list[int] = []
    op = m.start("tmem_ld", "ld", lambda: 42, ready=lambda: bool(gate))
    seen: list[AsyncOp] = []
    op.on_done.append(seen.append)
    assert grid.pending.runnable() == []
    gate.append(1)
    assert grid.pending.runnable() == [op]
    grid.pending.advance(op)
    assert op.result == 42 and seen == [op]


def unfinished(groups: LaneGroups, mask: Mask, allowed: int, is_read: bool = False) -> tuple[AsyncOp, ...]:
    """Return what a wait for all but the `allowed` newest groups still waits for."""
    return tuple(op for op in groups.awaited(mask, allowed) if not (op.is_read if is_read else op.done))


def test_groups_are_waited_for_oldest_first_per_lane(launch) -> None:
    grid = launch()
    m = ctas(grid)[0].warps[0]
    lane0 = np.arange(32) == 0
    ops = []
    for _ in range(3):
        ops.append(m.start("bulk", "store", lambda: None, lambda: None))
        m.bulk_groups.add(ops[-1], (0,))
        m.bulk_groups.commit(lane0)
    assert unfinished(m.bulk_groups, lane0, 1) == (ops[0], ops[1])
    assert unfinished(m.bulk_groups, np.arange(32) == 1, 0) == ()
    grid.pending.advance(ops[0])
    assert unfinished(m.bulk_groups, lane0, 1, is_read=True) == (ops[1],)
    assert unfinished(m.bulk_groups, lane0, 1) == (ops[0], ops[1])
    grid.pending.advance(ops[0])
    assert unfinished(m.bulk_groups, lane0, 0) == (ops[1], ops[2])
    assert unfinished(m.bulk_groups, lane0, 3) == ()


def test_an_empty_group_counts_and_prior_sees_the_open_one(launch) -> None:
    grid = launch()
    m = ctas(grid)[0].warps[0]
    lane0 = np.arange(32) == 0
    op = m.start("cp_async", "copy", lambda: None)
    m.cp_async_groups.add(op, (0,))
    assert m.cp_async_groups.uncommitted(0) == (op,) and m.cp_async_groups.prior(0) == (op,)
    m.cp_async_groups.commit(lane0)
    m.cp_async_groups.commit(lane0)
    assert unfinished(m.cp_async_groups, lane0, 1) == (op,)
    assert unfinished(m.cp_async_groups, lane0, 2) == ()
    grid.pending.advance(op)
    assert m.cp_async_groups.prior(0) == ()
