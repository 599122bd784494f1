"""A launch file run and recorded for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drywell.base.errors import DrywellError
from drywell.host.comparison import Comparison
from drywell.host.launch_file import LaunchFile, read_launch_file
from drywell.observe.tensor_memory import TmemSnapshot
from drywell.report.page_data import PageHead, PageRun, page_run

MOST_CTAS = 4
OBSERVED = ("tmem", "roles", "ledgers")


def page_of(
    what: LaunchFile | str | Path,
    ctas: Sequence[int] | None = None,
    *,
    check: str = "ptx",
    schedule: str = "eager",
    **options: Any,
) -> PageRun:
    """Run a launch file and return the record of it, with the Tensor Memory and the mbarriers of `ctas` (by
    default the first four).

    A fault or a deadlock is part of the record; what keeps a launch from running is raised, as a launch does.
    """
    launch = what if isinstance(what, LaunchFile) else read_launch_file(what)
    comparisons: Sequence[Comparison] = ()
    try:
        result, comparisons = launch.run(check=check, schedule=schedule, observe=OBSERVED, **options)
    except DrywellError as error:
        if error.result is None:
            raise
        result = error.result
    is_wrong = result.ok and not all(comparison.ok for comparison in comparisons)
    shown = range(min(MOST_CTAS, math.prod(launch.grid))) if ctas is None else ctas
    snapshots: dict[int, TmemSnapshot] = {cta: result.tmem(cta) for cta in shown}
    head = PageHead(
        launch.path.stem,
        launch.entry,
        launch.gpu,
        _dim3(launch.grid),
        _dim3(launch.cluster or ()),
        _dim3(launch.block or ()),
        schedule,
        "mismatch" if is_wrong else result.verdict,
        result.executed,
    )
    return page_run(
        head,
        launch.module.program.source,
        snapshots,
        [one for one in result.ledgers if one.cta in snapshots],
        result.findings,
        result.roles,
        result.handovers,
    )


def _dim3(values: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z
