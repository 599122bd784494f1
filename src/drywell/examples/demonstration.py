"""`drywell demo`: a warp-specialised Blackwell GEMM runs on this CPU, is checked and shown; then a broken twin of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from drywell.base.activity import WarpActivity
from drywell.examples.packaged import GemmRun, gemm, module, source_line
from drywell.report.roles import role_lines, spelling_at
from drywell.report.run import comparison_lines
from drywell.report.tensor_memory import map_lines
from drywell.report.text import Line, Lines, counted, write

M, N, K = 512, 256, 128
CTAS = 2
"""Eight tiles for two CTAs: each fills and drains both accumulators twice, which is when a release that comes too early shows."""

RELEASE, WAIT = "mbarrier.arrive", "tcgen05.wait::ld"


@dataclass(frozen=True, slots=True)
class _Timed:
    run: GemmRun
    seconds: float


def _timed(values: str, schedule: str, broken: bool = False) -> _Timed:
    began = time.perf_counter()
    run = gemm(M, N, K, values=values, ctas=CTAS, schedule=schedule, broken=broken, observe=("tmem",))  # type: ignore[arg-type]
    return _Timed(run, time.perf_counter() - began)


def demonstrate(stream: TextIO) -> bool:
    """Show the demonstration on a stream as it runs, and return whether everything came out as it says."""
    write(_introduction(), stream)
    integers = _timed("integers", "eager")
    write(_numbers("small integers", integers), stream)
    normal = _timed("normal", "eager")
    write(_numbers("random numbers", normal), stream)
    source = module().program.source
    write(((), *map_lines(integers.run.result.tmem(0), source), ()), stream)
    write((*role_lines(integers.run.result.activity, source), ()), stream)
    write(_twin(), stream)
    eager = _timed("integers", "eager", broken=True)
    write(_schedule("eager", "what is started is done at once", eager), stream)
    lazy = _timed("integers", "lazy", broken=True)
    write(_schedule("lazy", "what is started is done as late as the rules allow", lazy), stream)
    write(_mistake(eager.run.result.activity), stream)
    write(_ending(integers, normal, eager, lazy), stream)
    return integers.run.ok and normal.run.ok and eager.run.ok and lazy.run.result.ok and not lazy.run.comparison.ok


def _introduction() -> Lines:
    return (
        (("A Blackwell GEMM, run dry", "bold"), ": no GPU, no driver, the PTX that nvcc emits for sm_100a"),
        (f"  C = relu(A @ B.T + bias), bf16, M x N x K = {M} x {N} x {K}; {CTAS} persistent CTAs of six warps, two accumulators",),
        (),
    )


def _numbers(name: str, timed: _Timed) -> Lines:
    first, *rest = comparison_lines(timed.run.comparison, "NumPy")
    executed = counted(timed.run.result.executed, "instruction")
    return ((*first, (f"  [{name}; {executed}, {timed.seconds:.1f} s]", "dim")), *rest)


def _twin() -> Lines:
    return ((("A broken twin", "bold"), ": the same kernel, but the epilogue gives its accumulator back too early"),)


def _schedule(name: str, meaning: str, timed: _Timed) -> Lines:
    return ((f"  schedule {name}: {meaning}",), *comparison_lines(timed.run.comparison, "NumPy"))


def _mistake(activities: Sequence[WarpActivity]) -> Lines:
    """Return the author's two lines that stand in the wrong order, as the broken kernel executed them."""
    source = module(broken=True).program.source
    executed = [(spelling_at(span, source), span) for span, _, _ in activities[0].sites]
    release = next(k for k, (spelling, _) in enumerate(executed) if spelling.startswith(RELEASE))
    wait = next(k for k in range(release, len(executed)) if executed[k][0].startswith(WAIT))
    rows: list[Line] = []
    for k, what in ((release, "says that the accumulator has been read"), (wait, "makes sure that it has been read")):
        loc = executed[k][1].loc
        code = source_line(int(loc.rpartition(":")[2] or 0))
        rows.append((("  " + loc, "bold"), f"  {code}", (f"   // {what}", "dim")))
    return (
        *rows,
        ("  The tensor core may overwrite the accumulator in between. Where loads finish early a test sees nothing of it;",),
        ("  Drywell's hazard checker, which does not exist yet, is to name these two lines under every schedule.",),
        (),
    )


def _ending(*runs: _Timed) -> Lines:
    seconds = sum(timed.seconds for timed in runs)
    executed = sum(timed.run.result.executed for timed in runs)
    rate = f"{counted(executed, 'warp instruction')} in {seconds:.1f} s"
    return (
        (f"{rate}. Next: a kernel of your own (README), ", ("drywell run LAUNCH.toml", "bold"), ", ", ("drywell isa", "bold"), "."),
    )
