"""A process may launch as often as it likes: no launch, however it ends, leaves anything behind."""

from __future__ import annotations

import gc
import os
import signal
import threading
import tracemalloc
from collections.abc import Callable
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import DeadlockError, DrywellError, KernelFault
from drywell.base.last_used import LastUsed
from drywell.engine import object_cache
from drywell.host.launch import launch, load
from drywell.machine import own_memory
from run_file import read_run_file
from unit.engine.one_kernel import OWN_WORD, TID, text

LOOP = f"""{TID} {OWN_WORD} mov.u32 %w, 0;
L: add.u32 %v, %v, %t; add.u32 %w, %w, 1; setp.lt.u32 %p, %w, 5; @%p bra L;
st.global.u32 [%a], %v;"""
ENDS = {
    "ends": (LOOP, None),
    "faults": (f"{LOOP} add.u64 %a, %a, 4096; st.global.u32 [%a], %v;", KernelFault),
    "deadlocks": (
        f"{LOOP} mbarrier.init.shared.b64 [bar], 1;"
        "W: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra W;",
        DeadlockError,
    ),
}
ROUNDS = 4
ROOM = 1 << 20
"""Bytes by which the resident set may waver in a round; launches that left their register files would take
more.
"""


def left() -> tuple[list[str], int, str]:
    """Return what a process could leave: descriptors, native threads, children."""
    threads = len(os.listdir("/proc/self/task"))
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return sorted(os.listdir("/proc/self/fd")), threads, children


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def assert_nothing_is_left(launch_often: Callable[[int], None], times: int) -> None:
    """Launch so often, in rounds. What is executed often is compiled in the first. A grid is a cycle and
    waits for the collector, now more of them and now fewer; so one later round that adds nothing says enough:
    what a launch leaves it leaves in every round.
    """
    sizes = []
    for number in range(ROUNDS):
        launch_often(times // ROUNDS)
        if number == 0:
            there = left()
        sizes.append(resident_bytes())
    assert left() == there
    assert min(after - before for before, after in pairwise(sizes)) < ROOM


def launcher(end: str, **options: Any) -> Callable[[int], None]:
    """Return what launches a kernel so often; it must end as it is meant to."""
    body, kind = ENDS[end]
    kernel = load(text(body, "out"))["k"]
    out = np.zeros(32, np.uint32)

    def launch_often(times: int) -> None:
        for _ in range(times):
            error: DrywellError | None = None
            try:
                launch(kernel, block=32, args=[out], check="off", **options)
            except DrywellError as raised:
                error = raised
            assert (None if kind is None else kind) is (None if error is None else type(error))

    return launch_often


@pytest.mark.parametrize(
    ("end", "options", "times"),
    [
        ("ends", {"engine": "auto"}, 400),
        ("ends", {"engine": "jit"}, 1_000),
        ("ends", {"engine": "jit", "grid": 8, "workers": 2}, 40),
        ("faults", {"engine": "jit", "grid": 2, "workers": 2}, 40),
        ("deadlocks", {"engine": "jit"}, 100),
        ("faults", {"engine": "auto"}, 300),
    ],
)
def test_launches_leave_nothing(end: str, options: dict[str, Any], times: int) -> None:
    assert_nothing_is_left(launcher(end, **options), times)


ENDLESS = "L: add.u32 %v, %v, 1; bra L;"


def test_interrupted_launches_leave_nothing(request: pytest.FixtureRequest) -> None:
    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    request.addfinalizer(lambda: signal.signal(signal.SIGALRM, before))
    kernel = load(text(ENDLESS, "out"))["k"]
    ways: tuple[dict[str, Any], ...] = (
        {"engine": "jit"},
        {"engine": "interpreter", "check": "ptx"},
        {"engine": "jit", "grid": 16, "workers": 2},
    )

    def launch_often(times: int) -> None:
        for way in ways * times:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                launch(kernel, block=32, args=[np.zeros(32, np.uint32)], **{"check": "off", **way})

    assert_nothing_is_left(launch_often, 12)


PROGRAMS = Path(__file__).parents[2] / "ptx" / "run"


@pytest.mark.parametrize("check", ["off", "ptx"])
@pytest.mark.parametrize("name", ["tcgen05/mma_f16", "tma/swizzle_128", "cluster/bulk_copies_to_a_peer"])
def test_machine_instructions_and_the_checker_leave_nothing(name: str, check: str) -> None:
    def run(times: int) -> None:
        for _ in range(times):
            read_run_file(PROGRAMS / f"{name}.ptx").run(check=check)

    assert_nothing_is_left(run, 80)


def test_ever_new_kernels_let_go_of_those_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(object_cache, "_loaded", LastUsed(8))
    monkeypatch.setenv("DRYWELL_CACHE", str(tmp_path))
    out = np.zeros(32, np.uint32)

    number = count()

    def launch_new(times: int) -> None:
        for k in islice(number, times):
            body = f"{TID} {OWN_WORD} add.u32 %v, %t, {k}; st.global.u32 [%a], %v;"
            launch(load(text(body, "out"))["k"], block=32, args=[out], check="off", engine="jit")

    assert_nothing_is_left(launch_new, 160)


def peak_bytes(action: Callable[[], Any]) -> int:
    """Return the most that Python and NumPy held during an action."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("schedule", "kept"), [("lazy", 256), ("eager", 0)])
def test_a_long_grid_keeps_only_the_last_warps_in_memory(
    schedule: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_memory, "ROOM_BYTES", 0)  # all arrays are NumPy's, which are counted
    writes = "".join(f"mov.b64 %many{k}, {k};" for k in range(400))  # a hundred kilobytes of registers
    kernel = load(text(f".reg .b64 %many<400>; {writes} {LOOP}", "out"))["k"]
    options = {"block": 32, "args": [np.zeros(32, np.uint32)], "check": "off", "sms": 1, "workers": 1}
    options["schedule"] = schedule
    short, long = (peak_bytes(lambda n=n: launch(kernel, grid=n, **options)) for n in (290, 370))
    assert short > kept * 400 * 256  # the registers of those that are kept
    assert kept or short < 4 << 20  # where rounds run in compiled code none are
    assert long - short < 3 << 20  # registers of 80 more would take 8 MB
