"""Measure how fast Drywell is, line by line, and write RESULTS.md.

Each line runs in a process of its own, where NumPy's BLAS has as many threads as Drywell has workers, with an
empty object cache. Two things that are compared are measured in turn, so many rounds, and medians are taken.

    python benchmarks/bench.py                       # all lines at their full size
    python benchmarks/bench.py --size small -l h     # one line, small
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from measure import in_turn, load_average, machine_lines, peak_bytes, timed

HERE = Path(__file__).parent
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "gemms": ((2048, 2048, 2048), (4096, 4096, 1024)),
        "flash": (8, 1024),
        "flash_interpreted": (1, 1024),
        "flash_checked": (1, 1024),
        "scaled": (2048, 2048, 2048),
        "softmax": 256,
        "instructions": 5000,
        "resident": (16, 144),
        "tiles": (1, 4, 16, 64, 256),
        "tile_k": 512,
    },
    "small": {
        "gemms": ((256, 256, 256),),
        "flash": (1, 256),
        "flash_interpreted": (1, 128),
        "flash_checked": (1, 128),
        "scaled": (128, 128, 256),
        "softmax": 4,
        "instructions": 500,
        "resident": (1, 4),
        "tiles": (1, 2, 4),
        "tile_k": 64,
    },
}


MOST_LAUNCHES = 6
"""Launches after which everything that is executed often has been compiled."""


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: what is measured against what, their ratio, and which ratio is needed (`aim`: hoped
    for). A `note` says what else is worth knowing.
    """

    line: str
    what: str
    measured: str
    against: str
    ratio: float
    needed: float | None
    is_at_least: bool = False
    aim: float | None = None
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Tell whether the ratio is as needed."""
        if self.needed is None:
            return True
        return self.ratio >= self.needed if self.is_at_least else self.ratio <= self.needed

    def text(self) -> str:
        """Return the row of the table."""
        sign = "≥" if self.is_at_least else "≤"
        aim = f" (aim {self.aim:g})" if self.aim is not None else ""
        needed, met = "", ""
        if self.needed is not None:
            needed, met = f"{sign} {self.needed:g}{aim}", "yes" if self.is_met else "**no**"
        cells = (f"({self.line})", self.what, self.measured, self.against, f"**{self.ratio:.2f}**")
        return "| " + " | ".join((*cells, needed, met, self.note)) + " |"


@dataclass(frozen=True, slots=True)
class First:
    """How long the first launch of a kernel took, which compiles, and a later one of the same size."""

    what: str
    first: float
    later: float

    def text(self) -> str:
        """Return the row of the table."""
        return f"| {self.what} | {_seconds(self.first)} | {_seconds(self.later)} |"


@dataclass(frozen=True, slots=True)
class Job:
    """How one process measures: sizes, rounds, Drywell's workers."""

    sizes: dict[str, Any]
    repeats: int
    workers: int


Found = Iterator[Row | First]


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"


def _warm(workload: Any, **options: Any) -> First:
    """Launch until nothing is left to compile, so far as times tell, and check what was computed."""
    times = [timed(lambda: workload.run(**options)) for _ in range(2)]
    while len(times) < MOST_LAUNCHES and times[-1].cpu < 0.8 * times[-2].cpu:
        times.append(timed(lambda: workload.run(**options)))
    first, later = times[0], times[-1]
    if not workload.is_right():
        raise SystemExit(f"{workload.name} with {options}: the numbers are wrong")
    how = ", ".join(f"{value}" for key, value in options.items() if key in ("numerics", "check"))
    return First(f"{workload.name}{', ' if how else ''}{how}", first.wall, later.wall)


def line_a(job: Job) -> Found:
    """The demo GEMM against NumPy's float32 product, exact and fast."""
    from workloads import gemm, matmul

    for shape in job.sizes["gemms"]:
        workload, product = gemm(*shape), matmul(*shape)
        product()
        for numerics, needed, aim in (("exact", 6, 3), ("fast", 2, 1.5)):
            run = partial(workload.run, numerics=numerics, workers=job.workers)
            yield _warm(workload, numerics=numerics, workers=job.workers)
            ours, theirs = in_turn(job.repeats, run, product)
            of = f"{job.workers} worker{'s' if job.workers > 1 else ''}"
            yield Row(
                "a",
                f"{workload.name}, {numerics}, {of}",
                f"{_seconds(ours.wall)} (CPU {_seconds(ours.cpu)})",
                f"NumPy {_seconds(theirs.wall)} (CPU {_seconds(theirs.cpu)})",
                ours.cpu / theirs.cpu if job.workers == 1 else ours.wall / theirs.wall,
                needed,
                aim=aim,
                note="of CPU time" if job.workers == 1 else "of wall time",
            )


def line_b(job: Job) -> Found:
    """Attention: warp instructions per second, compiled against interpreted."""
    from workloads import flash

    large, small = flash(*job.sizes["flash"]), flash(*job.sizes["flash_interpreted"])
    yield _warm(large)
    executed = [large.run().executed, small.run(engine="interpreter").executed]
    ours, slow = in_turn(job.repeats, large.run, partial(small.run, engine="interpreter"))
    rates = [n / t.cpu for n, t in zip(executed, (ours, slow), strict=True)]
    texts = [f"{rate / 1e6:.2f} M warp instructions/s" for rate in rates]
    note = f"{executed[0]:,} in {_seconds(ours.cpu)} of CPU; interpreted: {small.name}"
    yield Row("b", large.name, texts[0], texts[1], rates[0] / rates[1], 30, is_at_least=True, note=note)


def line_c(job: Job) -> Found:
    """Block-scaled GEMMs against the bf16 one of the same size. No ratio is asked for."""
    from workloads import gemm, scaled_gemm

    shape = job.sizes["scaled"]
    kinds = [scaled_gemm(kind, *shape) for kind in ("mxfp8", "nvfp4")]
    for workload in (gemm(*shape), *kinds):
        yield _warm(workload)
    plain, *others = in_turn(job.repeats, gemm(*shape).run, *(kind.run for kind in kinds))
    for workload, timing in zip(kinds, others, strict=True):
        against = f"bf16 {_seconds(plain.cpu)}"
        yield Row("c", workload.name, _seconds(timing.cpu), against, timing.cpu / plain.cpu, None)


_START = """
import sys, time
import numpy as np
import drywell
drywell.load, drywell.launch
ready = time.process_time()
kernel = drywell.load(sys.stdin.read())["long"]
out = np.zeros(32, np.uint32)
drywell.launch(kernel, block=32, args=[out, 3], check="off", engine="jit", workers=1)
print(time.process_time() - ready)
"""


def _start(text: str, cache: str) -> float:
    """Return the CPU seconds from the text of a kernel to its result, in a new process, which finds Python's
    bytecode as that of an installed package is found.
    """
    environment = {**os.environ, "DRYWELL_CACHE": cache, "PYTHONPYCACHEPREFIX": f"{cache}/bytecode"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _START]
    done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def line_d(job: Job) -> Found:
    """A long kernel from its text to its result, in a new process: with nothing compiled, with the functions
    of the engine itself compiled, with all compiled.
    """
    from workloads import long_kernel

    size = job.sizes["instructions"]
    found: list[list[float]] = [[], [], []]
    for k in range(job.repeats):
        with tempfile.TemporaryDirectory() as cache:
            text, other = long_kernel(size, 10_000 * k), long_kernel(size, 10_000 * k + 5_000)
            for times, what in zip(found, (other, text, text), strict=True):
                times.append(_start(what, cache))
    never, new, again = (sorted(times)[len(times) // 2] for times in found)
    what = f"{size:,} instructions"
    note = f"the very first launch of a user, which compiles the engine's functions too: {_seconds(never)}"
    yield Row("d", f"{what}, a new kernel", _seconds(new), "2 s", new / 2, 1, note=note)
    yield Row("d", f"{what}, compiled before", _seconds(again), "0.3 s", again / 0.3, 1)


WALL_ROUNDS = 3
"""How many times as many rounds are measured where both cores are wanted and only wall clock counts."""


def line_e(job: Job) -> Found:
    """Two workers against one."""
    from workloads import flash, gemm

    product = gemm(*job.sizes["gemms"][0])
    cases = [
        (product, {"numerics": "exact"}),
        (product, {"numerics": "fast"}),
        (flash(*job.sizes["flash"]), {}),
    ]
    for workload, options in cases:
        _warm(workload, **options)
        rounds = WALL_ROUNDS * job.repeats
        two, one = in_turn(rounds, *(partial(workload.run, workers=n, **options) for n in (2, 1)))
        name = ", ".join((workload.name, *options.values()))
        texts = _seconds(two.wall), f"one worker {_seconds(one.wall)}"
        note = f"of wall time, medians of {rounds}"
        yield Row("e", name, *texts, one.wall / two.wall, 1.7, is_at_least=True, note=note)


def line_f(job: Job) -> Found:
    """The checker against none."""
    from workloads import flash, gemm, row_softmax

    cases = (
        (gemm(*job.sizes["gemms"][0]), {"numerics": "fast"}, 1.3),
        (flash(*job.sizes["flash_checked"]), {}, 2.5),
        (row_softmax(job.sizes["softmax"]), {}, 3),
    )
    for workload, options, needed in cases:
        for check in ("off", "ptx"):
            yield _warm(workload, check=check, **options)
        runs = [partial(workload.run, check=check, **options) for check in ("ptx", "off")]
        checked, plain = in_turn(job.repeats, *runs)
        name = ", ".join((workload.name, *options.values()))
        texts = _seconds(checked.cpu), f"unchecked {_seconds(plain.cpu)}"
        yield Row("f", name, *texts, checked.cpu / plain.cpu, needed, note="of CPU time")


def line_g(job: Job) -> Found:
    """Memory that a resident CTA takes: the peak with many of them against that with few."""
    few, many = job.sizes["resident"]
    peaks = [int(_child("peak", job, str(ctas))[0]) for ctas in (few, many)]
    each = max(peaks[1] - peaks[0], 0) / (many - few) / 2**20
    texts = f"{each:.2f} MiB a CTA", "2 MB"
    note = f"peak {peaks[0] >> 20} MiB with {few} CTAs, {peaks[1] >> 20} MiB with {many}, of the same arrays"
    yield Row("g", "bf16 GEMM, resident CTAs", *texts, each * 2**20 / 2e6, 1, note=note)


def peak(job: Job, ctas: int) -> int:
    """Return the peak of this process after a GEMM on so many resident CTAs."""
    from workloads import gemm

    tiles = job.sizes["resident"][1]
    gemm(128 * tiles, 128, 64, ctas).run()
    return peak_bytes()


def line_h(job: Job) -> Found:
    """Time against the number of tiles: what one more costs among many and among few."""
    from workloads import gemm

    counts = job.sizes["tiles"]
    workloads = [gemm(128 * n, 128, job.sizes["tile_k"]) for n in counts]
    for workload in workloads:
        yield _warm(workload)
    times = [t.cpu for t in in_turn(job.repeats, *(w.run for w in workloads))]
    steps = [(b - a) / (n - m) for a, b, m, n in zip(times, times[1:], counts, counts[1:], strict=False)]
    each = "; ".join(f"{n}: {_seconds(t)}" for n, t in zip(counts, times, strict=True))
    texts = f"{_seconds(steps[-1])} a tile from {counts[-2]} to {counts[-1]}", f"{_seconds(steps[-2])} before"
    yield Row(
        "h", f"bf16 GEMM, {counts[0]} to {counts[-1]} tiles", *texts, steps[-1] / steps[-2], 1.25, note=each
    )


LINES: dict[str, tuple[Callable[[Job], Found], tuple[int, ...]]] = {
    "a": (line_a, (1, 2)),
    "b": (line_b, (1,)),
    "c": (line_c, (1,)),
    "d": (line_d, (1,)),
    "e": (line_e, (2,)),
    "f": (line_f, (1,)),
    "g": (line_g, (1,)),
    "h": (line_h, (1,)),
}
"""Each line: what measures it, and with how many BLAS threads."""


# -------------------------------------------------------------------- processes
def _child(what: str, job: Job, *arguments: str) -> list[str]:
    """Run this script in a new process and return the lines it prints."""
    with tempfile.TemporaryDirectory() as cache:
        threads = {name: str(job.workers) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
        environment = {**os.environ, **threads, "DRYWELL_CACHE": cache}
        command = [sys.executable, __file__, "--child", what, json.dumps(asdict(job)), *arguments]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def _be_child(what: str, given: str, *arguments: str) -> None:
    job = Job(**json.loads(given))
    if what == "peak":
        print(peak(job, int(arguments[0])))
        return
    for found in LINES[what][0](job):
        print(json.dumps([type(found).__name__, asdict(found)]), flush=True)


def _measured(line: str, job: Job) -> tuple[list[Row], list[First]]:
    found = [json.loads(text) for text in _child(line, job)]
    rows = [Row(**fields) for kind, fields in found if kind == "Row"]
    return rows, [First(**fields) for kind, fields in found if kind == "First"]


# -------------------------------------------------------------------- the report
def report(rows: list[Row], firsts: list[First], job: Job, size: str, load: float, seconds: float) -> str:
    """Return RESULTS.md."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = [
        "# How fast Drywell is",
        "",
        f"Measured on {day} by `make bench` ({size} size, {seconds / 60:.0f} minutes; load average {load:.1f}"
        f" at the beginning, {load_average():.1f} at the end). `benchmarks/bench.py` says what is measured.",
        "",
        *(f"- {text}" for text in machine_lines()),
        f"- Medians of {job.repeats} rounds, in which what is compared takes turns in one process on the same"
        " cores. BLAS has as many threads as Drywell has workers. With one worker times are of the CPU, with"
        " two of the clock. All is compiled before; the numbers are held against NumPy's.",
        "",
        "| line | what | Drywell | against | ratio | needed | met | note |",
        "|---|---|---|---|---|---|---|---|",
        *(row.text() for row in rows),
        "",
        "## Compile time",
        "",
        "The first launch with an empty object cache, and the last before the rounds, wall clock:",
        "",
        "| what | first | last |",
        "|---|---|---|",
        *(first.text() for first in firsts),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the chosen lines and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-l", "--lines", default="".join(LINES), help="which lines, as letters")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    load, began = load_average(), time.perf_counter()
    rows: list[Row] = []
    firsts: list[First] = []
    failed: list[str] = []
    for line in options.lines:
        for workers in LINES[line][1]:
            job = Job(SIZES[options.size], options.repeats, workers)
            try:
                found = _measured(line, job)
            except subprocess.CalledProcessError as error:
                failed.append(f"({line}) with {workers} workers ended with {error.returncode}")
                continue
            rows += found[0]
            firsts += found[1]
            print(*(row.text() for row in found[0]), sep="\n", flush=True)
    seconds = time.perf_counter() - began
    options.out.write_text(report(rows, firsts, job, options.size, load, seconds), encoding="utf-8")
    wanted = [row for row in rows if row.needed is not None]
    print(f"{options.out}: {sum(row.is_met for row in wanted)} of {len(wanted)} ratios as needed")
    if failed:
        sys.exit("not measured: " + "; ".join(failed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _be_child(*sys.argv[2:])
    else:
        main()
