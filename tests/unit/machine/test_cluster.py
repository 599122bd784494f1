"""Clusters: where their CTAs live, who may reach whom, pairs that allocate, clusters that are cancelled."""

from __future__ import annotations

import pytest

from drywell.base.errors import LaunchError
from drywell.base.span import NOWHERE
from drywell.machine.grid import MISS_ONE_IN
from drywell.machine.outcome import Wait


def pair(grid, cluster: int = 0, index: int = 0):
    """The warps `index` of the two CTAs of a cluster's first pair."""
    return tuple(cta.warps[index] for cta in grid.clusters[cluster].ctas[:2])


def leave(m) -> None:
    m.exit_lanes(m.live.copy())


class Slot(list):
    """Takes what alloc stores."""

    __call__ = list.append


def ask(m, num_cols: int, offset: int = 0x400):
    """Let one CTA of a pair allocate; return the slot and what it waits for, if anything."""
    slot = Slot()
    return slot, m.sm.tmem.alloc(m, slot, num_cols, cta_group=2, offset=offset)


# ---------------------------------------------------------------- residency


@pytest.mark.parametrize(("size", "sms"), [(2, 2), (2, 5), (4, 4), (4, 7), (8, 9)])
def test_the_ctas_of_a_cluster_are_resident_together_on_sms_of_their_own(launch, size: int, sms: int) -> None:
    grid = launch(grid=(size * 6, 1, 1), cluster=(size, 1, 1), sms=sms, smem=0, dynamic=70_000)
    assert grid.clusters
    for cluster in grid.clusters:
        assert [cta.rank for cta in cluster.ctas] == list(range(size))
        assert len({cta.sm.index for cta in cluster.ctas}) == size
    assert max(len(sm.ctas) for sm in grid.sms) <= 3
    assert grid.num_waiting == size * (6 - len(grid.clusters))


def test_a_cluster_starts_as_a_whole_or_not_at_all(launch) -> None:
    grid = launch(grid=(8, 1, 1), cluster=(2, 1, 1), sms=2, smem=0, dynamic=200_000)
    assert len(grid.clusters) == 1 and grid.num_waiting == 6
    a, b = pair(grid)
    leave(a)
    assert grid.admit() == ()
    leave(b)
    assert [cta.index[0] for cta in grid.admit()] == [2, 3]


def test_a_cluster_needs_as_many_sms_as_ctas(launch) -> None:
    with pytest.raises(LaunchError, match="a cluster of 4 CTAs does not fit on 3 SMs at once"):
        launch(grid=(4, 1, 1), cluster=(4, 1, 1), sms=3)


def test_the_peer_differs_in_bit_0_of_the_rank(launch) -> None:
    ctas = launch(grid=(3, 2, 1), cluster=(3, 1, 1)).clusters[0].ctas
    assert [cta.peer.rank if cta.peer else None for cta in ctas] == [1, 0, None]


# ---------------------------------------------------------------- who may be reached


def test_a_peer_that_has_executed_nothing_need_not_be_there(launch, faults) -> None:
    a, b = pair(launch(grid=(2, 1, 1), cluster=(2, 1, 1), block=64))
    for warp in b.cta.warps:
        warp.span = NOWHERE
    fault = faults("PEER-NOT-STARTED", a.shared, 0x0100_0400, 4, cluster=True)
    assert "CTA rank 1" in fault.detail and "cluster barrier" in fault.hint
    b.cta.warps[1].span = a.span
    assert a.shared(0x0100_0400, 4, cluster=True).tolist() == [0, 0, 0, 0]


def test_a_ctas_own_memory_is_always_there(launch) -> None:
    _, b = pair(launch(grid=(2, 1, 1), cluster=(2, 1, 1)))
    b.span = NOWHERE
    b.shared(0x0100_0400, 4, write=True)[:] = 7
    assert b.cta.smem.data[0x400:0x404].tolist() == [7] * 4


def test_threads_that_have_exited_count_as_arrived(launch) -> None:
    a, b = pair(launch(grid=(2, 1, 1), cluster=(2, 1, 1)))
    a.cluster.barrier.arrive(a)
    waiting = a.cluster.barrier.wait(a)
    assert isinstance(waiting, Wait) and not waiting.ready()
    leave(b)
    assert waiting.ready()


# ---------------------------------------------------------------- pairs and Tensor Memory


def test_both_ctas_of_a_pair_get_the_lowest_columns_free_on_both_sms(launch) -> None:
    even, odd = pair(launch(grid=(2, 1, 1), cluster=(2, 1, 1), block=64))
    assert odd.sm is not even.sm
    odd.sm.tmem.sm_map = 0b1111
    first, waiting = ask(even, 64)
    assert isinstance(waiting, Wait) and not waiting.ready() and first == []
    assert waiting.reason.describe() == "its peer, CTA rank 1, to execute tcgen05.alloc.cta_group::2 too"
    second, done = ask(odd, 64)
    assert done is None and waiting.ready() and (first, second) == ([128], [128])
    waiting.then()
    assert (first, second) == ([128], [128])
    for m in (even, odd):
        m.sm.tmem.check(m, 128, 64)
        m.sm.tmem.dealloc(m, 128, 64)
    assert (even.sm.tmem.sm_map, odd.sm.tmem.sm_map) == (0, 0b1111)


@pytest.mark.parametrize("seed", range(4))
def test_random_bases_are_the_same_in_both_ctas(launch, seed: int) -> None:
    grid = launch(grid=(2, 1, 1), cluster=(2, 1, 1), tmem_base="random", seed=seed)
    even, odd = pair(grid)
    for num_cols in (128, 64, 32, 32):
        mine, _ = ask(odd, num_cols)
        other, done = ask(even, num_cols)
        assert done is None and mine == other and mine[0] % num_cols == 0


def test_a_pair_waits_for_columns_and_permits_of_both_sms(launch) -> None:
    grid = launch(grid=(4, 1, 1), cluster=(2, 1, 1), sms=2)
    (a, b), (c, d) = pair(grid), pair(grid, 1)
    ask(a, 512)
    ask(b, 512)
    ask(c, 32)
    slot, waiting = ask(d, 32)
    assert isinstance(waiting, Wait) and not waiting.ready()
    assert "free on the SMs of both CTAs of its pair" in waiting.reason.describe()
    a.sm.tmem.relinquish(a)
    a.cluster.pair_requests.clear()
    for m in (a, b):
        m.cta.tmem.pairs.clear()
        m.sm.tmem.dealloc(m, 0, 512)
    assert not waiting.ready()
    b.sm.tmem.relinquish(b)
    assert waiting.ready()
    waiting.then()
    assert slot == [0]


def test_what_a_pair_may_not_do(launch, faults) -> None:
    even, odd = pair(launch(grid=(2, 1, 1), cluster=(2, 1, 1)))
    ask(even, 64)
    assert "64 at offset 0x400" in faults("PAIR-ALLOC-MISMATCH", ask, odd, 32).detail
    assert "offset 0x404" in faults("PAIR-ALLOC-MISMATCH", ask, odd, 64, 0x404).detail
    ask(odd, 64)
    fault = faults("PAIR-DEALLOC-EARLY", odd.sm.tmem.dealloc, odd, 0, 64)
    assert "cluster barrier" in fault.hint


def test_a_pair_needs_two_ctas_that_have_not_exited(launch, faults) -> None:
    alone = launch().clusters[0].ctas[0].warps[0]
    assert "cluster of 1" in faults("PAIR-NO-PEER", ask, alone, 32).detail
    even, odd = pair(launch(grid=(2, 1, 1), cluster=(2, 1, 1)))
    leave(odd)
    assert "rank 1" in faults("PEER-EXIT-EARLY", ask, even, 32).detail


def test_two_allocations_of_a_pair_meet_in_their_order(launch) -> None:
    even, odd = pair(launch(grid=(2, 1, 1), cluster=(2, 1, 1), block=64))
    also_even, also_odd = pair(even.grid, index=1)
    one, first = ask(even, 64)
    two, second = ask(also_even, 32, 0x408)
    assert first is not None and second is not None
    three, _ = ask(odd, 64)
    four, _ = ask(also_odd, 32, 0x408)
    assert one == three and two == four and one != two


# ---------------------------------------------------------------- clusters that never start


def waiting_grid(launch, **options):
    return launch(
        grid=(40, 1, 1), cluster=(2, 1, 1), sms=2, smem=0, dynamic=200_000, **options
    )  # one pair runs, 19 wait


def test_waiting_clusters_are_handed_out_in_order_until_none_is_left(launch) -> None:
    grid = waiting_grid(launch)
    assert [grid.cancel_waiting() for _ in range(19)] == [(2 * k, 0, 0) for k in range(1, 20)]
    assert grid.cancel_waiting() is None and not grid.has_waiting and grid.num_waiting == 0
    for m in pair(grid):
        leave(m)
    assert grid.admit() == () and grid.is_done and grid.num_cancelled == 38


def test_the_lazy_schedule_lets_every_fourth_request_miss(launch) -> None:
    grid = waiting_grid(launch, schedule="lazy")
    found = [grid.cancel_waiting() for _ in range(3 * MISS_ONE_IN)]
    assert [k for k, first in enumerate(found, 1) if first is None] == [4, 8, 12]
    assert grid.num_waiting == 38 - 2 * 9


def test_a_seed_says_which_requests_miss(launch) -> None:
    def misses(seed: int) -> list[bool]:
        grid = waiting_grid(launch, schedule="seeded", seed=seed)
        return [grid.cancel_waiting() is None for _ in range(16)]

    assert misses(1) == misses(1)
    assert len({tuple(misses(seed)) for seed in range(8)}) > 1
    assert 0 < sum(sum(misses(seed)) for seed in range(8)) < 8 * 8


def test_what_was_cancelled_is_skipped_by_the_next_start(launch) -> None:
    grid = waiting_grid(launch)
    assert grid.cancel_waiting() == (2, 0, 0)
    for m in pair(grid):
        leave(m)
    assert [cta.index for cta in grid.admit()] == [(4, 0, 0), (5, 0, 0)]
