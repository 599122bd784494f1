"""How times are taken: two things in turn, medians, wall clock and CPU, on a machine that is described."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Action = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians of one action, in seconds; CPU seconds include those of ended children."""

    wall: float
    cpu: float


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, its threads and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def timed(action: Action) -> Timing:
    """Run an action once."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    action()
    return Timing(time.perf_counter() - wall, cpu_seconds() - cpu)


def in_turn(repeats: int, *actions: Action) -> list[Timing]:
    """Run actions one after the other, so many rounds, and return the medians of each.

    What else the machine does then meets all of them alike.
    """
    found: list[list[Timing]] = [[] for _ in actions]
    for _ in range(repeats):
        for action, timings in zip(actions, found, strict=True):
            timings.append(timed(action))
    return [Timing(median(t.wall for t in one), median(t.cpu for t in one)) for one in found]


def peak_bytes() -> int:
    """Return the largest resident set this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def machine_lines() -> list[str]:
    """Describe the machine: processor, cores, vector units, memory, versions."""
    import llvmlite
    import numpy as np

    import drywell

    info = dict(
        line.split(":", 1)
        for line in Path("/proc/cpuinfo").read_text().replace("\t", "").splitlines()
        if ":" in line
    )
    flags = info.get("flags", "").split()
    vectors = [name for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16") if name in flags]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return [
        f"{info.get('model name', platform.machine()).strip()}, {len(os.sched_getaffinity(0))} cores"
        f" ({', '.join(vectors) or 'no AVX2'}), {memory:.0f} GiB",
        f"Python {platform.python_version()}, NumPy {np.__version__} with {blas['name']} {blas['version']},"
        f" llvmlite {llvmlite.__version__}, Drywell {drywell.__version__}",
    ]


def load_average() -> float:
    """Return how many processes wanted a core during the last minute."""
    return os.getloadavg()[0]
