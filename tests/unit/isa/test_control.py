from __future__ import annotations

import numpy as np
import pytest

from drywell.machine.outcome import Call, Exit, Jump, Return, Wait
from unit.isa.one_cta import act, every, fault_of, grid_of, one_warp, refusal, warps


def test_a_branch_goes_to_its_target() -> None:
    assert act(one_warp(), "bra.uni", 41) == Jump(41)


def test_an_indexed_branch_sends_each_lane_to_its_target() -> None:
    index = np.arange(32, dtype=np.uint32) % 3
    jump = act(one_warp(), "brx.idx", index, (7, 11, 13))
    assert jump.targets.tolist() == [(7, 11, 13)[k % 3] for k in range(32)]


def test_an_index_beyond_the_list_is_a_fault_of_its_lane() -> None:
    index = np.where(np.arange(32) == 5, 3, 0).astype(np.uint32)
    fault = fault_of(one_warp(), "brx.idx", index, (7, 11, 13))
    assert (fault.rule, fault.lanes) == ("BRX-RANGE", (5,))


def test_the_index_of_an_idle_lane_does_not_matter() -> None:
    index = np.where(np.arange(32) == 5, 3, 1).astype(np.uint32)
    jump = act(one_warp(), "brx.idx", index, (7, 11, 13), lanes=range(5))
    assert jump.targets[:5].tolist() == [11] * 5


def test_calls_returns_and_exits_are_outcomes() -> None:
    warp = one_warp()
    assert act(warp, "call.uni", (0,), "vprintf", (8, 16), None) == Call("vprintf", (8, 16), (0,))
    assert act(warp, "call", None, "f", None, None) == Call("f", (), ())
    assert act(warp, "ret") == Return()
    assert act(warp, "exit") == Exit()


@pytest.mark.parametrize(("spelling", "rule"), [("trap", "TRAP"), ("brkpt", "BRKPT")])
def test_a_trap_ends_the_kernel(spelling: str, rule: str) -> None:
    assert fault_of(one_warp(), spelling).rule == rule


def test_registers_given_back_let_another_warp_take_them() -> None:
    grid = grid_of(block=64, max_registers=128)
    giver, taker = warps(grid)
    waiting = act(taker, "setmaxnreg.inc.sync.aligned.u32", every(160))
    assert isinstance(waiting, Wait)
    assert not waiting.ready()
    act(giver, "setmaxnreg.dec.sync.aligned.u32", every(96))
    assert waiting.ready()
    waiting.then()
    assert (giver.num_registers, taker.num_registers) == (96, 160)


def test_an_increase_that_lowers_is_a_fault() -> None:
    warp = one_warp(max_registers=128)
    assert fault_of(warp, "setmaxnreg.inc.sync.aligned.u32", every(64)).rule == "SETMAXNREG"


@pytest.mark.parametrize(
    "spelling", ["exit.uni", "trap.uni", "nanosleep.b32", "setmaxnreg.sync.aligned.inc.u32"]
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""
