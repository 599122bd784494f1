"""Several processes run the clusters of one launch: with the results of one process, and without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell import arch
from drywell.base.errors import BudgetError, DeadlockError, DrywellError, KernelFault, LaunchError
from drywell.base.options import Options
from drywell.engine import run, workers
from drywell.engine.workers import dealt_out, in_processes
from drywell.host.launch import load
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.own_memory import OwnMemory
from drywell.machine.registers import RegisterLayout
from drywell.program.independence import meeting_place
from drywell.program.link import link
from unit.engine.one_kernel import TID, launched, text

NUM = 40
OWN = f"""{TID} mov.u32 %i, %ctaid.x; mad.lo.u32 %i, %i, 32, %t;
ld.param.u64 %o, [out]; mad.wide.u32 %a, %i, 4, %o;"""
SQUARES = f"{OWN} mul.lo.u32 %v, %i, %i; st.global.u32 [%a], %v;"
ENDLESS = "L: add.u32 %v, %v, 1; bra L;"


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    before = children(), descriptors(), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    assert before == (children(), descriptors(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def shared_out(count: int, gmem: GlobalMemory, work: Callable[[int], Any]) -> list[Any] | None:
    assert gmem.share()
    with ExitStack() as last:
        return in_processes(count, gmem, work, last)


def both(body: str, **options: Any) -> list[tuple[Any, np.ndarray[Any, Any]]]:
    """Run a kernel in one process and in three; return (result or error, its array) of each."""
    found: list[tuple[Any, np.ndarray[Any, Any]]] = []
    for count in (1, 3):
        out = np.zeros(NUM * 32, np.uint32)
        try:
            found.append((launched(body, {"out": out}, grid=NUM, workers=count, **options), out))
        except DrywellError as error:
            found.append((error, out))
    return found


# ---------------------------------------------------------------- the same results
def test_three_processes_do_what_one_does() -> None:
    (one, squares), (three, same) = both(SQUARES)
    assert (one.workers, three.workers) == (1, 3)
    assert np.array_equal(squares, np.arange(NUM * 32, dtype=np.uint32) ** 2)
    assert np.array_equal(squares, same)
    assert (one.executed, one.activity) == (three.executed, three.activity)
    assert [warp.cta[0] for warp in three.activity] == list(range(NUM))


def test_the_ctas_of_a_cluster_stay_together() -> None:
    body = f"""{OWN} st.shared.u32 [box], %i;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 %w, %cluster_ctarank; xor.b32 %w, %w, 1; mov.u32 %d, box; mapa.shared::cluster.u32 %d, %d, %w;
    ld.shared::cluster.u32 %v, [%d]; st.global.u32 [%a], %v;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    (one, values), (three, same) = both(body, cluster=2)
    assert (one.workers, three.workers) == (1, 3)
    assert np.array_equal(values[::32] // 32, np.arange(NUM) ^ 1)
    assert np.array_equal(values, same)


def test_no_more_workers_than_clusters_have_places() -> None:
    out = np.zeros(NUM * 32, np.uint32)
    assert launched(SQUARES, {"out": out}, grid=NUM, workers=3, sms=2).workers == 2
    assert launched(SQUARES, {"out": out}, grid=1, workers=3).workers == 1


def test_a_large_grid_takes_all_cores_and_a_small_one_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    out = np.zeros(NUM * 32, np.uint32)
    assert [launched(SQUARES, {"out": out}, grid=grid).workers for grid in (4, 16, NUM)] == [1, 2, 4]


def test_nothing_stands_in_memory_that_forks_find_empty_when_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    begun: list[int] = []
    zeros = OwnMemory.zeros

    def kept(self: OwnMemory, dtype: Any, *shape: int) -> Any:
        made.append(zeros(self, dtype, *shape))
        return made[-1]

    def begin(*given: Any) -> Any:
        begun.append(len(made))
        assert not any(array.any() for array in made)
        return in_processes(*given)

    monkeypatch.setattr(OwnMemory, "zeros", kept)
    monkeypatch.setattr(run, "in_processes", begin)
    out = np.zeros(NUM * 32, np.uint32)
    assert launched(SQUARES, {"out": out}, grid=NUM, workers=2).workers == 2
    assert begun
    assert len(made) > begun[0]


def test_a_launch_from_another_thread_has_workers_too() -> None:
    found: list[Any] = []
    out = np.zeros(NUM * 32, np.uint32)
    thread = threading.Thread(
        target=lambda: found.append(launched(SQUARES, {"out": out}, grid=NUM, workers=2))
    )
    thread.start()
    thread.join()
    assert found[0].workers == 2
    assert out[-1] == (NUM * 32 - 1) ** 2


@settings(max_examples=40)
@given(
    size=st.integers(1, 4),
    clusters=st.integers(1, 300),
    sms=st.none() | st.integers(1, 20),
    count=st.integers(1, 5),
)
def test_homes_are_a_partition_that_keeps_who_shares_an_sm(
    size: int, clusters: int, sms: int | None, count: int
) -> None:
    def grid(next_home: Callable[[], int | None] | None = None) -> Grid:
        return Grid(
            Kernel("k", RegisterLayout((32,))),
            gmem=GlobalMemory(),
            gpu=arch.load("b200"),
            grid_dim=(clusters * size, 1, 1),
            block_dim=(32, 1, 1),
            cluster_dim=(size, 1, 1),
            options=Options(sms=sms),
            next_home=next_home,
        )

    whole = grid()
    if len(whole.sms) % size or len(whole.sms) < size:
        return
    at_first = {cta.index: cta.sm.index for cta in whole.admit(len(whole.sms))}
    homes: list[int] = list(range(whole.num_homes))[::-1]
    own = [grid(lambda: homes.pop() if homes else None) for _ in range(count)]
    found: dict[Any, int] = {}
    while any(new := [cta for g in own for cta in g.admit()]):
        for cta in new:
            assert cta.index not in found
            found[cta.index] = cta.sm.index
            for warp in cta.warps:
                warp.exit_lanes(warp.live.copy())
    assert len(found) == whole.num_ctas == sum(g.num_exited for g in own)
    assert all(found[index] == sm for index, sm in at_first.items())
    num_at_once = whole.num_homes * size
    assert all(sm // size == index[0] % num_at_once // size for index, sm in found.items())


@pytest.mark.parametrize("count", [1, 7, 148, 1024, 1025, 5000])
def test_numbers_are_dealt_out_once_and_in_order(count: int) -> None:
    with dealt_out(count) as take:
        parts = shared_out(3, memory(), lambda _: list(iter(take, None)))
        assert take() is None
    assert parts is not None
    assert all(part == sorted(part) for part in parts)
    assert sorted(number for part in parts for number in part) == list(range(count))


# ---------------------------------------------------------------- what lets clusters notice each other
APART = [
    "st.global.u32 [%a], %v;",
    "ld.global.nc.u32 %v, [%a];",
    "atom.shared.add.u32 %v, [box], 1;",
    "ld.volatile.shared.u32 %v, [box];",
    "ld.acquire.cluster.u32 %v, [%a];",
    "fence.acq_rel.cluster;",
    "fence.proxy.async;",
    "membar.cta;",
    "mov.u32 %v, %nsmid;",
]
MEETING = [
    ("atom.global.add.u32 %v, [%a], 1;", "in one step"),
    ("atom.add.u32 %v, [%a], 1;", "in one step"),
    ("atom.global.cas.b32 %v, [%a], 1, 2;", "in one step"),
    ("red.global.add.u32 [%a], 1;", "in one step"),
    ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a], [box], 16;", "in one step"),
    ("ld.volatile.global.u32 %v, [%a];", "orders its access"),
    ("ld.acquire.gpu.u32 %v, [%a];", "orders its access"),
    ("ld.relaxed.sys.global.u32 %v, [%a];", "orders its access"),
    ("st.release.gpu.global.u32 [%a], %v;", "orders its access"),
    ("fence.acq_rel.gpu;", "within .gpu"),
    ("fence.sc.sys;", "within .sys"),
    ("membar.gl;", "within .gl"),
    ("mov.u32 %v, %clock;", "reads %clock"),
    ("mov.u64 %a, %globaltimer;", "reads %globaltimer"),
    ("mov.u32 %v, %smid;", "reads %smid"),
    (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [box], [bar];",
        "another cluster",
    ),
]


def place_of(line: str) -> Any:
    return meeting_place(link(load(text(f"{OWN}\n{line}", "out")).program, "k"))


@pytest.mark.parametrize("line", APART)
def test_clusters_that_do_this_run_apart(line: str) -> None:
    assert place_of(line) is None


@pytest.mark.parametrize(("line", "what"), MEETING)
def test_clusters_that_do_this_may_meet(line: str, what: str) -> None:
    place = place_of(line)
    assert place is not None
    assert what in place[1]
    assert place[0].line == 8


def test_printing_has_an_order(corpus: Path) -> None:
    module = load(corpus / "triton" / "dbg_print_assert_atomic_sort.ptx")
    places = [meeting_place(link(module.program, name)) for name in module.entries]
    assert "calls vprintf" in [place[1] for place in places if place is not None]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"check": "ptx"}, "checked or observed"),
        ({"observe": ("tmem",)}, "checked or observed"),
        ({"seed": 1}, "seeded schedule"),
        ({"schedule": "lazy"}, "lazy schedule"),
    ],
)
def test_what_is_told_of_the_whole_keeps_one_process(options: dict[str, Any], reason: str) -> None:
    out = np.zeros(NUM * 32, np.uint32)
    result = launched(SQUARES, {"out": out}, grid=NUM, workers=2, **options)
    assert result.workers == 1
    assert reason in result.alone


def test_the_place_where_clusters_may_meet_is_named() -> None:
    body = f"{OWN}\nred.global.add.u32 [%o], 1;"
    result = launched(body, {"out": np.zeros(NUM * 32, np.uint32)}, grid=NUM, workers=2)
    assert result.workers == 1
    assert result.alone == "<string>:8:1: the kernel reads and writes global memory in one step"


def test_fewer_than_one_worker_is_refused() -> None:
    with pytest.raises(LaunchError, match="workers=0"):
        launched(ENDLESS, workers=0)


# ---------------------------------------------------------------- errors are those of one process
FAULT = f"""{SQUARES} mov.u32 %w, %ctaid.x; setp.ge.u32 %p, %w, 17;
@%p add.u64 %a, %a, 1; st.global.u32 [%a], %v;"""
WAITS = f"""{SQUARES} mov.u32 %w, %ctaid.x; setp.eq.u32 %p, %w, 23; @!%p bra OUT;
mbarrier.init.shared.b64 [bar], 1;
W: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra W; OUT:"""


@pytest.mark.parametrize(("body", "kind"), [(FAULT, KernelFault), (WAITS, DeadlockError)])
def test_an_error_is_that_of_one_process(body: str, kind: type[DrywellError]) -> None:
    (one, left), (three, same) = both(body)
    assert isinstance(one, kind)
    assert str(one) == str(three)
    assert one.result.activity == three.result.activity
    assert np.array_equal(left, same)


def test_the_budget_is_that_of_one_process() -> None:
    exact = both(SQUARES)[0][0].executed
    (one, _), (three, _) = both(SQUARES, max_instructions=exact - 1)
    assert isinstance(one, BudgetError)
    assert str(one) == str(three)
    assert both(SQUARES, max_instructions=exact)[1][0].workers == 3


def test_a_run_beyond_its_budget_begins_anew_with_the_bytes_of_before() -> None:
    counts = f"{OWN} ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%a], %v;"
    exact = both(counts)[0][0].executed
    (_, left), (error, same) = both(counts, max_instructions=exact - 1)
    assert isinstance(error, BudgetError)
    assert left.max() == 1
    assert np.array_equal(left, same)


# ---------------------------------------------------------------- processes
def memory() -> GlobalMemory:
    gmem = GlobalMemory()
    gmem.place("words", np.arange(100, dtype=np.uint8))
    return gmem


def test_workers_write_one_memory() -> None:
    gmem = memory()

    def work(k: int) -> int:
        gmem.buffer.data[k] = 200 + k
        return 10 * k

    assert shared_out(3, gmem, work) == [0, 10, 20]
    assert gmem.buffer.data[:4].tolist() == [200, 201, 202, 3]


def fails_by_saying_so(k: int) -> None:
    return None


def fails_by_raising(k: int) -> int:
    raise ValueError("a bug in a worker")


def fails_by_dying(k: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


@pytest.mark.parametrize("fail", [fails_by_saying_so, fails_by_raising, fails_by_dying])
def test_memory_is_as_before_when_a_worker_fails(fail: Any, capfd: pytest.CaptureFixture[str]) -> None:
    gmem = memory()

    def work(k: int) -> Any:
        gmem.buffer.data[:] = 7
        return 1 if k == 0 else fail(k)

    assert shared_out(2, gmem, work) is None
    assert gmem.buffer.data[:100].tolist() == list(range(100))
    assert capfd.readouterr() == ("", "")


def test_what_the_parent_raises_passes_through_and_ends_the_workers() -> None:
    def work(k: int) -> int:
        if k == 0:
            raise ZeroDivisionError
        while True:
            pass

    with pytest.raises(ZeroDivisionError):
        shared_out(3, memory(), work)


def test_a_process_that_cannot_be_started_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> int:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuses)
    out = np.zeros(NUM * 32, np.uint32)
    assert launched(SQUARES, {"out": out}, grid=NUM, workers=2).workers == 1
    assert out[-1] == (NUM * 32 - 1) ** 2


def endless(k: int) -> int:
    """Work without end; the parent is interrupted while its workers do."""
    if k == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
    while True:
        pass


@pytest.fixture
def an_interrupt() -> Any:
    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_interrupt_ends_the_workers(an_interrupt: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        shared_out(3, memory(), endless)


def test_an_interrupt_of_a_launch_passes_through(an_interrupt: None) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        launched(ENDLESS, grid=NUM, workers=2)


KILLED = """
import os, sys
from contextlib import ExitStack
from drywell.engine.workers import dealt_out, in_processes
from drywell.machine.gmem import GlobalMemory

def work(k):
    if k == 0:
        print(open(f"/proc/self/task/{os.getpid()}/children").read(), flush=True)
    while True:
        pass

gmem = GlobalMemory()
gmem.share()
in_processes(3, gmem, work, ExitStack())
"""


def test_workers_do_not_outlive_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = parent.stdout.readline().split()
    parent.kill()
    parent.stdout.read()  # returns when the last process that holds the pipe has gone
    parent.stdout.close()
    parent.wait()
    assert len(pids) == 2


def test_a_system_without_fork_runs_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_can_fork", lambda: False)
    result = launched(SQUARES, {"out": np.zeros(NUM * 32, np.uint32)}, grid=NUM, workers=2)
    assert result.workers == 1
    assert "only Linux" in result.alone
