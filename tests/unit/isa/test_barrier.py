from __future__ import annotations

import numpy as np
import pytest

from drywell.machine.outcome import Wait
from unit.isa.one_cta import act, every, fault_of, grid_of, one_warp, refusal, warps


@pytest.mark.parametrize("spelling", ["bar.sync", "barrier.cta.sync.aligned", "barrier.sync"])
def test_the_last_warp_releases_the_others(spelling: str) -> None:
    first, second = warps(grid_of(block=64))
    waiting = act(first, spelling, every(3), None)
    assert isinstance(waiting, Wait)
    assert not waiting.ready()
    assert act(second, spelling, every(3), None) is None
    assert waiting.ready()


def test_a_warp_counts_once_all_its_lanes_are_there() -> None:
    first, second = warps(grid_of(block=64))
    low = act(first, "barrier.sync", every(0), None, lanes=range(16))
    assert act(second, "bar.sync", every(0), None) is not None
    assert not low.ready()
    assert act(first, "barrier.sync", every(0), None, lanes=range(16, 32)) is None
    assert low.ready()


def test_an_arrival_does_not_wait_and_counts() -> None:
    producer, consumer = warps(grid_of(block=64))
    assert act(producer, "bar.arrive", every(1), every(64)) is None
    assert act(consumer, "bar.sync", every(1), every(64)) is None


@pytest.mark.parametrize(
    ("operation", "expected"), [("popc.u32", 33), ("and.pred", False), ("or.pred", True)]
)
def test_a_reduction_gives_all_threads_one_result(operation: str, expected: int) -> None:
    first, second = warps(grid_of(block=64))
    said = np.ones(32, np.bool_)
    waiting = act(first, f"bar.red.{operation}", every(0), None, said)
    last = act(second, f"bar.red.{operation}", every(0), None, np.arange(32) == 4)
    assert last.tolist() == [expected] * 32
    assert waiting.then().tolist() == [expected] * 32


def test_lanes_that_name_different_barriers_are_a_fault() -> None:
    assert fault_of(one_warp(), "bar.sync", np.arange(32, dtype=np.uint32) % 2, None).rule == "NBAR-MISUSE"


def test_a_thread_count_that_is_no_multiple_of_the_warp_is_a_fault() -> None:
    assert fault_of(one_warp(), "bar.sync", every(0), every(40)).rule == "NBAR-MISUSE"


def test_the_named_lanes_of_a_warp_meet() -> None:
    warp = one_warp()
    waiting = act(warp, "bar.warp.sync", every(0b110), lanes=(1,))
    assert not waiting.ready()
    assert act(warp, "bar.warp.sync", every(0b110), lanes=(2,)) is None
    assert waiting.ready()


def test_the_cluster_barrier_has_two_halves() -> None:
    first, second = warps(grid_of(block=64))
    act(first, "barrier.cluster.arrive.relaxed.aligned")
    waiting = act(first, "barrier.cluster.wait.aligned")
    assert not waiting.ready()
    act(second, "barrier.cluster.arrive")
    assert waiting.ready()
    waiting.then()
    assert act(second, "barrier.cluster.wait.acquire") is None


def test_arriving_twice_at_the_cluster_barrier_is_a_fault() -> None:
    first, _ = warps(grid_of(block=64))
    act(first, "barrier.cluster.arrive")
    assert fault_of(first, "barrier.cluster.arrive").rule == "CBAR-MISUSE"


@pytest.mark.parametrize(
    "spelling",
    [
        "bar.sync.aligned",
        "barrier.sync.cta",
        "bar.red.popc.pred",
        "bar.red.and.u32",
        "barrier.cluster.wait.relaxed",
    ],
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""
