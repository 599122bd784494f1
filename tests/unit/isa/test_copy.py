from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.machine.outcome import Wait
from unit.isa.one_cta import SMEM, TILE, act, address, every, fault_of, one_warp, perform, refusal, smem

LANE = np.arange(32, dtype=np.uint64)
SIXTEEN = every(16)


def warp_with_rows() -> Any:
    return one_warp(a=np.arange(1, 513, dtype=np.uint16).view(np.uint8))


def targets() -> Any:
    return (TILE + 16 * LANE).astype(np.uint32)


def copy(warp: Any, src_size: Any = None, lanes: Any = None) -> Any:
    return act(
        warp,
        "cp.async.cg.shared.global",
        targets(),
        address(warp, "a") + 16 * LANE,
        SIXTEEN,
        src_size,
        None,
        lanes=lanes,
    )


def test_nothing_moves_before_the_operation_performs() -> None:
    warp = warp_with_rows()
    copy(warp)
    assert not smem(warp, TILE, 256, "u2").any()
    perform(warp.grid)
    assert smem(warp, TILE, 256, "u2").tolist() == list(range(1, 257))


@pytest.mark.parametrize("size", [0, 1, 4, 7, 15])
def test_bytes_from_the_source_size_on_become_zero(size: int) -> None:
    warp = warp_with_rows()
    smem(warp, TILE, 16, "u1")[:] = 0xAA
    copy(warp, every(size), lanes=(0,))
    perform(warp.grid)
    expected = np.arange(1, 9, dtype=np.uint16).view(np.uint8).tolist()[:size] + [0] * (16 - size)
    assert smem(warp, TILE, 16, "u1").tolist() == expected


def test_a_set_predicate_in_place_of_the_size_ignores_the_source() -> None:
    warp = warp_with_rows()
    smem(warp, TILE, 256, "u2")[:] = 7
    copy(warp, np.arange(32) % 2 == 1)
    perform(warp.grid)
    expected = [k + 1 if k // 8 % 2 == 0 else 0 for k in range(256)]
    assert smem(warp, TILE, 256, "u2").tolist() == expected


def test_a_source_of_no_bytes_is_not_read() -> None:
    warp = warp_with_rows()
    beyond = every(address(warp, "a") + (1 << 20), "u8")
    act(warp, "cp.async.ca.shared.global", targets(), beyond, every(4), every(0), None)
    perform(warp.grid)
    assert not smem(warp, TILE, 128, "u1").any()


def test_the_address_is_taken_when_the_copy_is_issued() -> None:
    warp = warp_with_rows()
    source = address(warp, "a") + 16 * LANE
    act(warp, "cp.async.cg.shared.global", targets(), source, SIXTEEN, None, None)
    source[:] = 0
    perform(warp.grid)
    assert smem(warp, TILE, 8, "u2").tolist() == list(range(1, 9))


def test_a_source_size_above_the_size_is_a_fault() -> None:
    warp = warp_with_rows()
    where = every(address(warp, "a"), "u8")
    fault = fault_of(warp, "cp.async.ca.shared.global", targets(), where, every(4), every(5), None)
    assert fault.rule == "CPASYNC-SIZE"


def test_a_wait_is_for_all_but_the_newest_groups() -> None:
    warp = warp_with_rows()
    for _ in range(2):
        copy(warp)
        act(warp, "cp.async.commit_group")
    waiting = act(warp, "cp.async.wait_group", every(1))
    assert isinstance(waiting, Wait)
    assert not waiting.ready()
    perform(warp.grid, stages=1)
    assert waiting.ready()
    assert act(warp, "cp.async.wait_group", every(1)) is None
    assert act(warp, "cp.async.wait_group", every(0)) is not None


def test_wait_all_needs_no_commit() -> None:
    warp = warp_with_rows()
    copy(warp)
    waiting = act(warp, "cp.async.wait_all")
    assert not waiting.ready()
    perform(warp.grid)
    assert waiting.ready()


def test_a_lane_does_not_wait_for_another_lanes_copies() -> None:
    warp = warp_with_rows()
    copy(warp, lanes=(3,))
    act(warp, "cp.async.commit_group")
    assert act(warp, "cp.async.wait_group", every(0), lanes=(4,)) is None


@pytest.mark.parametrize(("form", "count"), [("noinc.", 1), ("", 1)])
def test_an_arrival_follows_the_copies(form: str, count: int) -> None:
    warp = warp_with_rows()
    act(warp, "mbarrier.init.shared.b64", every(SMEM), every(count), lanes=(0,))
    copy(warp, lanes=(0,))
    act(warp, f"cp.async.mbarrier.arrive.{form}shared.b64", every(SMEM), lanes=(0,))
    if not form:  # the increment made room: an arrival of one's own is still expected
        act(warp, "mbarrier.arrive.shared.b64", every(SMEM), None, lanes=(0,))
    before = act(warp, "mbarrier.test_wait.parity.shared.b64", every(SMEM), every(0), lanes=(0,))[0]
    perform(warp.grid)
    after = act(warp, "mbarrier.test_wait.parity.shared.b64", every(SMEM), every(0), lanes=(0,))[0]
    assert (bool(before), bool(after)) == (False, True)


@pytest.mark.parametrize(
    "spelling",
    [
        "cp.async.shared.global",
        "cp.async.cs.shared.global",
        "cp.async.ca.global.shared",
        "cp.async.cg.shared::cluster.global",
        "cp.async.mbarrier.arrive.noinc.shared::cluster.b64",
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""
