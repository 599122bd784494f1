"""A launch file run and recorded for the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import DrywellError
from drywell.base.span import Source
from drywell.host.budget import budget
from drywell.host.comparison import Comparison
from drywell.host.launch_file import LaunchFile, launch_file_of, read_launch_file
from drywell.host.result import Result
from drywell.host.sources import texts_beside
from drywell.host.why import why_each
from drywell.observe.tensor_memory import TmemSnapshot
from drywell.report.page_data import PageBuffer, PageClock, PageHead, PagePath, PageRun
from drywell.report.page_path import page_path
from drywell.report.page_run import Seen, page_run

MOST_CTAS = 4
OBSERVED = ("tmem", "roles", "ledgers", "history")
"""What a run must observe to be recorded; a timed one also `timeline`."""
MOST_FOLLOWED = 100_000
"""Warp instructions of a run in which elements are followed unasked: that runs it again."""
MOST_TEXT_LINES = 4_000
"""Lines of one of the author's files that are kept."""


def page_of(
    what: LaunchFile | str | Path,
    ctas: Sequence[int] | None = None,
    *,
    check: str = "ptx",
    schedule: str = "timed",
    elements: Sequence[str] | None = None,
    ptxas: str = "ptxas",
    **options: Any,
) -> PageRun:
    """Run a launch file and return the record of it, with the Tensor Memory and the mbarriers of `ctas` (by
    default the first four), and the paths of `elements` (by default of a few of each output).

    A fault or a deadlock is part of the record; what keeps a launch from running is raised, as a launch does.
    """
    launch = launch_file_of(what, "page_of")
    comparisons: Sequence[Comparison] = ()
    try:
        observe = observed_with(schedule)
        result, comparisons = launch.run(check=check, schedule=schedule, observe=observe, **options)
    except DrywellError as error:
        if error.result is None:
            raise
        result = error.result
    is_wrong = result.ok and not all(comparison.ok for comparison in comparisons)
    verdict = "mismatch" if is_wrong else result.verdict
    again = {key: value for key, value in options.items() if key not in _OF_ONE_RUN}
    return record_of(launch, result, verdict, schedule, ctas, elements=elements, ptxas=ptxas, **again)


_OF_ONE_RUN = ("observers", "workers", "explains")
"""Options that do not go to the runs in which elements are followed."""


def observed_with(schedule: str) -> tuple[str, ...]:
    """Return what a run with a schedule must observe to be recorded."""
    return (*OBSERVED, "timeline") if schedule == "timed" else OBSERVED


def record_of(
    launch: LaunchFile,
    result: Result,
    verdict: str,
    schedule: str,
    ctas: Sequence[int] | None = None,
    *,
    elements: Sequence[str] | None = None,
    ptxas: str = "ptxas",
    **options: Any,
) -> PageRun:
    """Return the record of a launch file that has run and observed `observed_with(schedule)`, as `page_of`;
    elements are followed in runs with the same schedule and `options`.
    """
    count = math.prod(launch.grid)
    shown = range(min(MOST_CTAS, count)) if ctas is None else ctas
    snapshots: dict[int, TmemSnapshot] = {cta: result.tmem(cta) for cta in shown}
    limits = []
    if len(snapshots) < count:
        limits.append(f"of {count} CTAs the record has {', '.join(map(str, snapshots))}")
    changed = _changed(launch)
    if elements is None:
        elements = [e for name in changed for e in some_elements(name, launch.buffers[name].shape)]
        if result.executed > MOST_FOLLOWED:
            elements = ()
            limits.append(
                f"no element is followed unasked: the run has more than {MOST_FOLLOWED:,} instructions"
            )
    source = launch.module.program.source
    seen = Seen(
        snapshots,
        [one for one in result.ledgers if one.cta in snapshots],
        result.findings,
        result.roles,
        result.handovers,
        result.timeline,
        result.history,
        result.found_at,
    )
    return page_run(
        _head(launch, result, verdict, schedule),
        source,
        seen,
        texts=tuple(_texts(launch, source)),
        buffers=[
            PageBuffer(name, launch.formats[name], array.shape, name in changed)
            for name, array in launch.buffers.items()
        ],
        paths=paths_of(launch, elements, schedule=schedule, **options) if elements else (),
        budget=budget(launch, snapshot=next(iter(snapshots.values()), None), ptxas=ptxas),
        limits=limits,
    )


def paths_of(
    launch: LaunchFile | str | Path, elements: Sequence[str], **options: Any
) -> tuple[PagePath, ...]:
    """Run a launch file from its beginning and return the paths of elements written `C[3,5]`."""
    path = launch.path if isinstance(launch, LaunchFile) else launch
    found = why_each(read_launch_file(path), elements, **options)
    return tuple(map(page_path, found))


def path_of(
    launch: LaunchFile | str | Path, element: str, *, schedule: str = "timed", **options: Any
) -> PagePath:
    """Run a launch file from its beginning and return the path of one element, written `C[3,5]`."""
    return paths_of(launch, (element,), schedule=schedule, **options)[0]


def some_elements(name: str, shape: Sequence[int]) -> tuple[str, ...]:
    """Return the first element of a buffer, one inside and the last.

    >>> some_elements("C", (512, 256))
    ('C[0,0]', 'C[325,94]', 'C[511,255]')
    """
    inside = [size * (635 - 266 * (k % 2)) // 1000 for k, size in enumerate(shape)]
    indices = [[0] * len(shape), inside, [size - 1 for size in shape]]
    return tuple(dict.fromkeys(f"{name}[{','.join(map(str, index))}]" for index in indices))


def _changed(launch: LaunchFile) -> dict[str, NDArray[Any]]:
    """Return the buffers that the run has changed."""
    start = read_launch_file(launch.path).buffers
    return {
        name: array
        for name, array in launch.buffers.items()
        if array.size and not np.array_equal(_bytes(array), _bytes(start[name]))
    }


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).view(np.uint8)


def _head(launch: LaunchFile, result: Result, verdict: str, schedule: str) -> PageHead:
    return PageHead(
        launch.path.stem,
        launch.entry,
        launch.gpu,
        _dim3(launch.grid),
        _dim3(launch.cluster or ()),
        _dim3(launch.block or ()),
        schedule,
        verdict,
        result.executed,
        _clock(result),
    )


def _clock(result: Result) -> PageClock:
    """Return how the moments of a run count."""
    last = 0 if result.history is None else result.history.moments.now
    if result.timeline is None:
        return PageClock("events", last, 0.0)
    return PageClock("cycles", max(last, math.ceil(result.timeline.cycles)), result.timeline.ghz)


def _texts(launch: LaunchFile, source: Source) -> Iterable[Source]:
    """Return those of the author's files that the module names and that lie beside the launch file."""
    for text in texts_beside(launch.path.parent, source):
        lines = text.text.split("\n")
        yield Source(text.name, "\n".join(lines[:MOST_TEXT_LINES]))


def _dim3(values: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z
