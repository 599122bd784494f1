"""Phases of a persistent pair kernel take as long as in a trace of one on a B200.

Origin of the figures: traces of matmul_v5 and matmul_v6, gau-nernst/learn-cuda 02e_matmul_sm100 (4096 cubed,
timer of 32 ns). What is executed is a kernel of our own with the same tile, stages, roles and epilogue.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from statistics import mean, median

import pytest

from drywell.observe.timeline import Timeline
from timing import pair

TILES, K, STEP_K = 3, 1024, 64
PROBED_K = 2048
STEP_CYCLES = 512
MHZ = 1590
"""The SM clock of the traced machine: a K step of 512 cycles took 0.322 us (v5)."""

SETUP_NS = 576.0
"""From a warp's first reading of the timer until it has passed the cluster barrier behind mbarriers and
tcgen05.alloc: mean of the 888 warps of v6, 512 to 608. What the allocation costs is fitted on v5 (554).
"""
FIRST_LOAD_NS = 1650.0
"""The first load of a kernel, from the wait for it to its data: 1.6 to 1.7 us."""
STEP_NS = 345.0
"""One K step, from issue to issue: 0.33 to 0.36 us."""
GAP_NS = 512.0
"""The last K step of a tile, to the first of the next one: median of 256."""
PROBE_NS = 160.0
"""What of that is one more interval that the trace's probe writes there, and nowhere else: the medians of its
wait for the readers, which finds the accumulator free, and of the time from there to the next interval. On an
H200 it is 226 to 303 cycles (probe.cu), 142 to 191 ns.
"""
PROBED_NS = {
    "wait for readers": 34.6,
    "from there to the wait for a load": 129.7,
    "from a wait for a load to its issue": 40.5,
    "issue": 79.3,
    "from an issue to the wait for a load": 116.8,
}
"""What the thread that multiplies takes when it waits for nothing: means of all 256, and of the tenth to the
eighteenth K step of second tiles, where a step takes 256 to 270 ns.
"""
EPILOGUE_NS = 2500.0
"""An epilogue with nothing beside it."""
OVERLAPPED_NS = 2750.0
"""An epilogue under the next tile."""


@cache
def _timeline(accumulators: int = 2) -> Timeline:
    return pair.timeline(TILES, K, MHZ, accumulators=accumulators)


def _steps() -> list[float]:
    """Return the times from one K step's first mma to the next one's, as they are issued, in ns."""
    issued = sorted(i.issued for i in _timeline().busy("tensor", 0) if i.kind == "mma")[::4]
    assert len(issued) == TILES * K // 64
    return [(b - a) / MHZ * 1000 for a, b in pairwise(issued)]


def test_the_set_up_takes_what_was_traced() -> None:
    met = [i for i in _timeline().events if i.kind == "cluster_barrier" and i.begin < i.end <= 2000]
    assert {(i.cta, i.warp) for i in met} >= {(cta, warp) for cta in (0, 1) for warp in (0, 2, 3, 4, 5)}
    assert [i.end / MHZ * 1000 for i in met] == pytest.approx([SETUP_NS] * len(met), rel=0.15)


def test_the_first_load_takes_what_was_traced() -> None:
    stalls = [i for i in _timeline().events if i.doing == "stall" and (i.cta, i.warp) == (0, 1)]
    first = next(i for i in stalls if i.kind == "mbarrier")
    assert first.cycles / MHZ * 1000 == pytest.approx(FIRST_LOAD_NS, rel=0.15)


def test_a_steady_step_takes_what_was_traced() -> None:
    per_tile = K // 64
    assert median(_steps()[per_tile:]) == pytest.approx(STEP_NS, rel=0.15)


def test_the_next_tile_begins_when_it_did_but_for_the_probe() -> None:
    per_tile = K // 64
    assert _steps()[2 * per_tile - 1] == pytest.approx(GAP_NS - PROBE_NS, rel=0.15)


@cache
def _probed() -> dict[str, list[float]]:
    """Return what the probe in our own kernel has written: durations by their name, in ns. As those of the
    trace, most K steps have no epilogue beside them, whose stores hold up loads: medians wait for nothing.
    """
    found: dict[str, list[float]] = {"step": [], "next tile": []}
    rows = pair.intervals(TILES, PROBED_K, MHZ).tolist()
    issues = [(k, begin) for k, (phase, begin, _) in enumerate(rows) if phase == pair.MULTIPLY]
    for (k, begin), (after, other) in pairwise(issues[PROBED_K // STEP_K - 1 :]):
        found["step" if after == k + 2 else "next tile"].append(other - begin)
    names = {
        (pair.WAIT_DRAINED,): "wait for readers",
        (pair.WAIT_DRAINED, pair.WAIT_FULL): "from there to the wait for a load",
        (pair.WAIT_FULL, pair.MULTIPLY): "from a wait for a load to its issue",
        (pair.MULTIPLY,): "issue",
        (pair.MULTIPLY, pair.WAIT_FULL): "from an issue to the wait for a load",
    }
    for (phase, begin, ns), (other, then, _) in pairwise(rows):
        for key, value in (((phase,), ns), ((phase, other), then - begin - ns)):
            if key in names:
                found.setdefault(names[key], []).append(value)
    return found


def test_with_the_probe_in_the_text_the_next_tile_begins_when_it_did() -> None:
    assert len(_probed()["next tile"]) == TILES - 1
    assert median(_probed()["next tile"]) == pytest.approx(GAP_NS, rel=0.15)
    assert mean(_probed()["step"]) == pytest.approx(STEP_NS, rel=0.15)  # it runs ahead, then waits for a load


@pytest.mark.parametrize("name", PROBED_NS)
def test_what_the_thread_that_multiplies_does_takes_what_was_traced(name: str) -> None:
    assert median(_probed()[name]) == pytest.approx(PROBED_NS[name], rel=0.15)


@pytest.mark.parametrize("cta", [0, 1])
def test_epilogues_take_what_was_traced(cta: int) -> None:
    epilogues = _timeline().tiles(cta).epilogues()
    assert len(epilogues) == 4 and all(len(warp) == TILES for warp in epilogues)
    under = [(one.end - one.begin) / MHZ * 1000 for warp in epilogues for one in warp[:-1]]
    alone = [(warp[-1].released - warp[-1].begin) / MHZ * 1000 for warp in epilogues]
    assert mean(under) == pytest.approx(OVERLAPPED_NS, rel=0.15)
    assert mean(alone) == pytest.approx(EPILOGUE_NS, rel=0.15)


def test_the_pair_is_bound_by_its_tensor_pipe_once_it_is_full() -> None:
    phases = _timeline().phases(0)
    assert _timeline().utilisation("tensor", 0, phases.steady) >= 0.9


@pytest.mark.parametrize("cta", [0, 1])
def test_epilogues_lie_under_multiplications_with_two_accumulators_and_not_with_one(cta: int) -> None:
    two, one = (_timeline(accumulators).tiles(cta).overlap() for accumulators in (2, 1))
    assert two.count == one.count == 8
    assert two.under_loop >= 0.9 and two.under_mma >= 0.9
    assert one.under_loop <= 0.1 and one.under_mma <= 0.1


def test_the_kernel_is_clean() -> None:
    assert pair.timeline(2, 128, MHZ, check="ptx").cycles > 0
