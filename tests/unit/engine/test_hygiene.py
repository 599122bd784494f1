"""A process may launch as often as it likes: no launch, however it ends, leaves anything behind."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import DeadlockError, DrywellError, KernelFault
from drywell.host.launch import launch, load
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
ROOM = 3 << 20
"""Bytes by which the resident set may waver; a launch that left one register file would take more."""


def left() -> tuple[list[str], int, str]:
    """Return what a process could leave: descriptors, native threads, children."""
    threads = len(os.listdir("/proc/self/task"))
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return sorted(os.listdir("/proc/self/fd")), threads, children


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


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
        ("ends", {"engine": "jit", "grid": 8, "workers": 2}, 32),
        ("faults", {"engine": "jit", "grid": 2, "workers": 2}, 32),
        ("deadlocks", {"engine": "jit"}, 100),
        ("faults", {"engine": "auto"}, 300),
    ],
)
def test_launches_leave_nothing(end: str, options: dict[str, Any], times: int) -> None:
    launch_often = launcher(end, **options)
    launch_often(times // 4)  # whatever is executed 50 times has been compiled then
    there, size = left(), resident_bytes()
    launch_often(times - times // 4)
    assert left() == there
    assert resident_bytes() - size < ROOM


def peak_bytes(action: Callable[[], Any]) -> int:
    """Return the most that Python and NumPy held during an action."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_grid_keeps_only_the_last_warps_in_memory() -> None:
    writes = "".join(f"mov.b64 %many{k}, {k};" for k in range(400))  # a hundred kilobytes of registers
    kernel = load(text(f".reg .b64 %many<400>; {writes} {LOOP}", "out"))["k"]
    options = {"block": 32, "args": [np.zeros(32, np.uint32)], "check": "off", "sms": 1, "workers": 1}
    short, long = (peak_bytes(lambda n=n: launch(kernel, grid=n, **options)) for n in (290, 370))
    assert short > 256 * 400 * 256  # the registers of those that are kept
    assert long - short < 3 << 20  # registers of 80 more would take 8 MB
