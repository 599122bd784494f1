"""Named barriers, meetings of lanes, the cluster barrier."""

from __future__ import annotations

import numpy as np

from drywell.machine.outcome import Wait


def lanes(*ids: int) -> np.ndarray:
    mask = np.zeros(32, np.bool_)
    mask[list(ids)] = True
    return mask


def test_sync_completes_with_the_last_warp(launch) -> None:
    cta = launch(block=96).clusters[0].ctas[0]
    waits = [cta.barriers.sync(w, 0) for w in cta.warps]
    assert isinstance(waits[0], Wait) and isinstance(waits[1], Wait) and waits[2] is None
    assert waits[0].ready() and waits[1].ready()
    assert cta.barriers.completed[0] == 1


def test_a_count_takes_the_first_warps_and_the_next_begin_a_new_use(launch) -> None:
    cta = launch(block=128).clusters[0].ctas[0]
    a, b, c, d = cta.warps
    cta.barriers.arrive(a, 3, 64)
    assert cta.barriers.sync(b, 3, 64) is None
    wait = cta.barriers.sync(c, 3, 64)
    assert not wait.ready()
    assert wait.reason.describe() == (
        "barrier 3 (use 1): 32 of 64 threads are there (warps [2]); warps [0, 1, 3] have not come"
    )
    cta.barriers.arrive(d, 3, 64)
    assert wait.ready()


def test_red_reduces_over_all_threads(launch) -> None:
    cta = launch(block=64).clusters[0].ctas[0]
    a, b = cta.warps
    for op, expected in (("popc", 33), ("and", False), ("or", True)):
        wait = cta.barriers.red(a, 1, None, op, np.ones(32, np.bool_))
        assert cta.barriers.red(b, 1, None, op, lanes(4)) == expected
        assert wait.ready() and wait.then() == expected


def test_a_warp_has_arrived_when_all_its_live_lanes_have(launch) -> None:
    cta = launch(block=64).clusters[0].ctas[0]
    a, b = cta.warps
    assert isinstance(cta.barriers.sync(a, 0), Wait)
    b.mask = lanes(*range(16))
    early = cta.barriers.sync(b, 0)
    assert not early.ready()
    b.exit_lanes(lanes(*range(16, 32)))
    assert early.ready()


def test_exited_warps_are_not_waited_for(launch) -> None:
    cta = launch(block=64).clusters[0].ctas[0]
    a, b = cta.warps
    wait = cta.barriers.sync(a, 0)
    assert not wait.ready()
    b.exit_lanes(b.live.copy())
    assert wait.ready()


def test_misuse_of_named_barriers(launch, faults) -> None:
    cta = launch(block=96).clusters[0].ctas[0]
    a, b, _ = cta.warps
    sync = cta.barriers.sync
    assert "barriers 0 to 15" in faults("NBAR-MISUSE", sync, a, 16).detail
    assert "multiple of 32" in faults("NBAR-MISUSE", sync, a, 0, 48).detail
    assert "above 0" in faults("NBAR-MISUSE", cta.barriers.arrive, a, 1, 0).detail
    sync(a, 2, 96)
    assert "warp 0 arrives at barrier 2 again" in faults("NBAR-MISUSE", sync, a, 2, 96).detail
    assert "64 threads while others gave 96" in faults("NBAR-MISUSE", sync, b, 2, 64).detail
    mixed = faults("NBAR-MISUSE", cta.barriers.red, b, 2, 96, "or", b.mask)
    assert "red and by sync" in mixed.detail


def test_lanes_of_a_mask_meet_and_share_their_values(launch) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    m.mask = lanes(0, 1)
    first = m.meet(0xF, "shfl", np.arange(32, dtype=np.uint32))
    assert not first.is_complete
    assert first.reason().describe() == "lanes 2-3 of the warp (membermask 0x0000000f)"
    m.mask = lanes(2, 3)
    second = m.meet(0xF, "shfl", np.arange(100, 132, dtype=np.uint32))
    assert second is first and first.is_complete
    assert first.values[0][:4].tolist() == [0, 1, 102, 103]
    assert m.meet(0xC, "shfl", np.zeros(32, np.uint32)) is not first


def test_meetings_at_different_places_are_different(launch) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    m.mask = lanes(0)
    here = m.meet(0x3, "here")
    m.mask = lanes(1)
    there = m.meet(0x3, "there")
    assert not here.is_complete and not there.is_complete


def test_an_exited_lane_is_not_met(launch) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    m.mask = lanes(0)
    meeting = m.meet(0x3)
    m.exit_lanes(lanes(1))
    assert meeting.is_complete


def test_a_lane_outside_its_mask_faults(launch, faults) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    m.mask = lanes(3, 7)
    fault = faults("WARP-MASK", m.meet, 0x8)
    assert fault.lanes == (7,) and "membermask 0x00000008" in fault.detail


def test_aligned_needs_all_lanes(launch, faults) -> None:
    m = launch().clusters[0].ctas[0].warps[0]
    m.require_all("tcgen05.ld")
    m.mask = lanes(*range(31))
    fault = faults("ALIGNED-DIVERGENT", m.require_all, "tcgen05.ld")
    assert fault.detail == "tcgen05.ld is executed by 31 of the 32 lanes of the warp" and fault.lanes == (31,)


def test_the_cluster_barrier_needs_every_thread_once_per_generation(launch) -> None:
    cluster = launch(grid=(2, 1, 1), cluster=(2, 1, 1)).clusters[0]
    a, b = (cta.warps[0] for cta in cluster.ctas)
    cluster.barrier.arrive(a)
    wait = cluster.barrier.wait(a)
    assert not wait.ready()
    assert wait.reason.describe() == ("the cluster barrier (generation 0), which rank 1 warp 0 must reach")
    cluster.barrier.arrive(b)
    assert wait.ready()
    wait.then()
    assert cluster.barrier.wait(b) is None
    cluster.barrier.arrive(a)
    b.exit_lanes(b.live.copy())
    assert cluster.barrier.wait(a) is None


def test_misuse_of_the_cluster_barrier(launch, faults) -> None:
    cluster = launch(grid=(2, 1, 1), cluster=(2, 1, 1)).clusters[0]
    m = cluster.ctas[0].warps[0]
    assert "without having arrived" in faults("CBAR-MISUSE", cluster.barrier.wait, m).detail
    cluster.barrier.arrive(m)
    assert "again" in faults("CBAR-MISUSE", cluster.barrier.arrive, m).detail
