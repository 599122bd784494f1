"""`drywell demo`: a warp-specialised Blackwell GEMM runs on this CPU, is checked and shown; then a broken
twin of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from drywell.base.activity import WarpActivity
from drywell.base.diagnostic import Finding
from drywell.base.span import Span
from drywell.examples.packaged import GemmRun, gemm, module, source, source_line
from drywell.report.findings import finding_lines, sources_of
from drywell.report.handovers import handover_table
from drywell.report.roles import role_lines, spelling_at
from drywell.report.run import comparison_lines
from drywell.report.tensor_memory import map_lines
from drywell.report.text import Line, Lines, Piece, columns, counted, write

M, N, K = 512, 256, 128
CTAS = 2
"""Eight tiles for two CTAs: each fills and drains both accumulators twice, which is when a release that
comes too early shows.
"""

RELEASE, WAIT = "mbarrier.arrive", "tcgen05.wait::ld"
RULE = "TMEM-OVERWRITE-BEFORE-READ"
"""What the twin breaks."""


@dataclass(frozen=True, slots=True)
class _Timed:
    run: GemmRun
    seconds: float


def _timed(values: Literal["integers", "normal"], schedule: str, **options: Any) -> _Timed:
    began = time.perf_counter()
    run = gemm(M, N, K, values=values, ctas=CTAS, schedule=schedule, **options)
    return _Timed(run, time.perf_counter() - began)


def demonstrate(stream: TextIO) -> bool:
    """Show the demonstration on a stream as it runs, and return whether everything came out as it says."""
    write(_introduction(), stream)
    integers = _timed("integers", "eager", check="ptx", observe=("tmem", "roles"))
    write(_numbers("small integers", integers), stream)
    normal = _timed("normal", "eager", check="off")
    write(_numbers("random numbers", normal), stream)
    result, text = integers.run.result, module().program.source
    write((_judgement(result.findings), (), *map_lines(result.tmem(0), text), ()), stream)
    write((*role_lines(result.activity, text), (), *handover_table(result.handovers), ()), stream)
    eager = _timed("integers", "eager", broken=True, check="ptx")
    found = eager.run.result.findings
    write((*_twin(eager.run.result.activity), *_schedule(EAGER, eager), *_found(found)), stream)
    lazy = _timed("integers", "lazy", broken=True, check="off")
    write((*_schedule(LAZY, lazy), *_ending(integers, normal, eager, lazy)), stream)
    return (
        integers.run.ok
        and normal.run.ok
        and eager.run.comparison.ok
        and [RULE] == [finding.rule for finding in found]
        and lazy.run.result.ok
        and not lazy.run.comparison.ok
    )


def _introduction() -> Lines:
    return (
        (("A Blackwell GEMM, run dry", "bold"), ": no GPU, no driver, the PTX that nvcc emits for sm_100a"),
        (
            f"  C = relu(A @ B.T + bias), bf16, M x N x K = {M} x {N} x {K}; {CTAS} persistent CTAs "
            "of six warps, two accumulators",
        ),
        (),
    )


def _numbers(name: str, timed: _Timed) -> Lines:
    exact = timed.run.comparison.is_exact
    executed = counted(timed.run.result.executed, "warp instruction")
    return (
        ((f"  with {name}", "dim"), (f" ({executed}, {timed.seconds:.1f} s)", "dim")),
        *comparison_lines(timed.run.comparison, "NumPy" if exact else "NumPy to within bf16 rounding"),
    )


def _mistake(activities: Sequence[WarpActivity]) -> tuple[Span, Span]:
    """Return where the broken kernel releases an accumulator, and where it waits for the loads of it, in
    this order.
    """
    text = module(broken=True).program.source
    executed = [(spelling_at(span, text), span) for span, _, _ in activities[0].sites]
    release = next(k for k, (spelling, _) in enumerate(executed) if spelling.startswith(RELEASE))
    wait = next(k for k in range(release, len(executed)) if executed[k][0].startswith(WAIT))
    return executed[release][1], executed[wait][1]


def _twin(activities: Sequence[WarpActivity]) -> Lines:
    """Return what the twin is, with the author's two lines that stand in the wrong order."""
    rows: list[list[Piece]] = []
    for span, what in zip(
        _mistake(activities), ("the accumulator is released", "only now are its loads done"), strict=True
    ):
        rows.append(
            [(span.loc, "bold"), source_line(int(span.loc.rpartition(":")[2])), (f"// {what}", "dim")]
        )
    return (
        (
            ("A broken twin", "bold"),
            ": the epilogue lets the tensor core have an accumulator before its own loads of it are done",
        ),
        *columns(rows),
    )


EAGER = (
    "Where everything completes at once (schedule eager) all looks right, as it may in every test on one GPU:"
)
LAZY = "Where everything completes as late as the rules allow (schedule lazy) the numbers show it too:"


def _judgement(findings: Sequence[Finding]) -> Line:
    """Return what the checker says of the right kernel."""
    said = counted(len(findings), "finding") if findings else "nothing to say"
    return ("  the hazard checker, which judges every hand-over of the first run, has ", (said, "bold green"))


def _found(findings: Sequence[Finding]) -> Lines:
    """Return what the checker says of the twin, with both parties in the PTX and in the author's text."""
    texts = sources_of(module(broken=True).program.source, source())
    return (
        ("  and yet the checker names the mistake, from this very run:",),
        (),
        *finding_lines(findings, texts),
        (),
    )


def _schedule(meaning: str, timed: _Timed) -> Lines:
    return ((f"  {meaning}",), *comparison_lines(timed.run.comparison, "NumPy"))


def _ending(*runs: _Timed) -> Lines:
    seconds = sum(timed.seconds for timed in runs)
    executed = sum(timed.run.result.executed for timed in runs)
    return (
        (),
        (
            f"{counted(executed, 'warp instruction')} in {seconds:.1f} s. Next: ",
            (f"drywell explain {RULE}", "bold"),
            ",",
        ),
        (
            "a kernel of your own (README) with ",
            ("drywell run LAUNCH.toml", "bold"),
            ", ",
            ("drywell isa", "bold"),
            ".",
        ),
    )
