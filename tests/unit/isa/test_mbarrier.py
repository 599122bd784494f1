from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.machine.outcome import Wait
from unit.isa.one_cta import SMEM, act, every, fault_of, one_warp, refusal

BAR = every(SMEM)
ONE = (0,)


def word(warp: Any) -> int:
    return int(warp.cta.smem.words[SMEM // 8])


def with_barrier(count: int) -> Any:
    warp = one_warp()
    act(warp, "mbarrier.init.shared::cta.b64", BAR, every(count), lanes=ONE)
    return warp


def test_the_word_of_a_fresh_barrier_is_the_measured_one() -> None:
    # measured on an H200: init with 1
    assert word(with_barrier(1)) == 0x7FFF_F800_001F_FFFE


def test_the_state_of_a_first_arrival_is_the_measured_one() -> None:
    # measured on an H200: state before the first arrive of an init-5 barrier
    warp = with_barrier(5)
    state = act(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE)
    assert int(state[0]) == 0x7FFF_D800_0000_0000
    assert act(warp, "mbarrier.pending_count.b64", state)[0] == 5


def test_after_one_phase_the_top_bit_is_set() -> None:
    warp = with_barrier(2)
    act(warp, "mbarrier.arrive.shared.b64", BAR, every(2), lanes=ONE)
    assert word(warp) >> 63 == 1


def parity(warp: Any, value: int) -> bool:
    return bool(act(warp, "mbarrier.test_wait.parity.shared.b64", BAR, every(value), lanes=ONE)[0])


def test_on_a_fresh_barrier_parity_one_has_passed_and_zero_has_not() -> None:
    warp = with_barrier(1)
    assert (parity(warp, 0), parity(warp, 1)) == (False, True)


def test_each_lane_arrives_once() -> None:
    warp = with_barrier(32)
    states = act(warp, "mbarrier.arrive.shared.b64", BAR, None)
    pending = act(warp, "mbarrier.pending_count.b64", states)
    assert pending.tolist() == list(range(32, 0, -1))
    assert parity(warp, 0)


def test_bytes_and_arrivals_both_end_a_phase() -> None:
    warp = with_barrier(1)
    act(warp, "mbarrier.arrive.expect_tx.shared.b64", BAR, every(512), lanes=ONE)
    assert not parity(warp, 0)
    act(warp, "mbarrier.complete_tx.shared.b64", BAR, every(512), lanes=ONE)
    assert parity(warp, 0)


def test_bytes_that_ran_ahead_are_met_by_a_plain_expectation() -> None:
    # measured on an H200: pending 0 with tx -512 stays open, expect_tx 512 then ends the phase
    warp = with_barrier(1)
    act(warp, "mbarrier.complete_tx.shared.b64", BAR, every(512), lanes=ONE)
    act(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE)
    assert not parity(warp, 0)
    act(warp, "mbarrier.expect_tx.relaxed.cta.shared.b64", BAR, every(512), lanes=ONE)
    assert parity(warp, 0)


def test_a_dropped_arrival_is_not_expected_again() -> None:
    warp = with_barrier(2)
    act(warp, "mbarrier.arrive_drop.shared.b64", BAR, None, lanes=ONE)
    act(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE)
    assert parity(warp, 0)
    act(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE)
    assert parity(warp, 1)


def test_a_try_wait_blocks_until_the_phase_ends() -> None:
    warp = with_barrier(1)
    waiting = act(warp, "mbarrier.try_wait.parity.shared.b64", BAR, every(0), None)
    assert isinstance(waiting, Wait)
    assert waiting.reason.may_time_out
    assert not waiting.ready()
    act(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE)
    assert waiting.ready()
    assert waiting.then().tolist() == [True] * 32


def test_a_try_wait_that_times_out_says_so() -> None:
    warp = with_barrier(1)
    waiting = act(warp, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", BAR, every(0), every(10))
    assert waiting.then().tolist() == [False] * 32


def test_lanes_on_different_barriers_do_not_hold_each_other() -> None:
    warp = with_barrier(1)
    act(warp, "mbarrier.init.shared.b64", BAR + 8, every(1), lanes=ONE)
    act(warp, "mbarrier.arrive.shared.b64", BAR + 8, None, lanes=ONE)
    mine = (SMEM + 8 * (np.arange(32) % 2)).astype(np.uint32)
    got = act(warp, "mbarrier.try_wait.parity.shared.b64", mine, every(0), None)
    assert got.tolist() == [False, True] * 16


def test_a_state_is_waited_for_by_its_own_phase() -> None:
    warp = with_barrier(2)
    state = act(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE)
    assert not act(warp, "mbarrier.test_wait.shared.b64", BAR, state, lanes=ONE)[0]
    act(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE)
    assert act(warp, "mbarrier.test_wait.shared.b64", BAR, state, lanes=ONE)[0]


def test_a_generic_address_reaches_the_same_barrier() -> None:
    warp = with_barrier(1)
    act(warp, "mbarrier.arrive.b64", every(0x7FFE_0000_0000 + SMEM, "u8"), None, lanes=ONE)
    assert parity(warp, 0)


def test_a_generic_address_elsewhere_is_a_fault() -> None:
    warp = one_warp(a=np.zeros(8, np.uint64))
    fault = fault_of(warp, "mbarrier.init.b64", every(0x7000_0000_0000, "u8"), every(1), lanes=ONE)
    assert fault.rule == "WRONG-SPACE"


@pytest.mark.parametrize(
    ("spelling", "operand", "rule"),
    [
        ("mbarrier.arrive.shared.b64", 3, "MBAR-OVERARRIVE"),
        ("mbarrier.expect_tx.shared.b64", 0x10_0000, "MBAR-TX-RANGE"),
        ("mbarrier.arrive.noComplete.shared.b64", 2, "MBAR-NO-COMPLETE"),
    ],
)
def test_misuse_is_a_fault(spelling: str, operand: int, rule: str) -> None:
    assert fault_of(with_barrier(2), spelling, BAR, every(operand), lanes=ONE).rule == rule


@pytest.mark.parametrize("count", [0, 1 << 20])
def test_a_count_that_does_not_fit_is_a_fault(count: int) -> None:
    assert fault_of(one_warp(), "mbarrier.init.shared.b64", BAR, every(count), lanes=ONE).rule == "MBAR-COUNT"


def test_an_invalidated_barrier_is_no_barrier() -> None:
    warp = with_barrier(1)
    act(warp, "mbarrier.inval.shared.b64", BAR, lanes=ONE)
    assert fault_of(warp, "mbarrier.arrive.shared.b64", BAR, None, lanes=ONE).rule == "MBAR-UNINIT"


def test_a_local_form_refuses_another_ctas_address() -> None:
    remote = every(1 << 24 | SMEM)
    fault = fault_of(with_barrier(1), "mbarrier.arrive.shared::cta.b64", remote, None, lanes=ONE)
    assert fault.rule == "MBAR-REMOTE-FORM"


@pytest.mark.parametrize(
    "spelling",
    [
        "mbarrier.try_wait.parity.shared::cluster.b64",
        "mbarrier.arrive.release.shared.b64",
        "mbarrier.arrive.shared.expect_tx.b64",
        "mbarrier.arrive.acquire.cta.shared.b64",
        "mbarrier.init.shared::cluster.b64",
        "mbarrier.arrive.noComplete.release.cluster.shared.b64",
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""
