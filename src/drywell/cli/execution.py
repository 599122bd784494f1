"""What `drywell run` and `drywell check` do once their options are read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import drywell
from drywell.base.errors import DeadlockError, DrywellError, KernelFault, PtxError
from drywell.cli.refusal import message_of, refuse, verdict_of
from drywell.host.comparison import Comparison
from drywell.host.launch_file import LaunchFile, read_launch_file
from drywell.host.result import Result
from drywell.host.sources import paths_beside, sources_beside
from drywell.report.document import EXIT_CODES, document, encode
from drywell.report.handovers import handover_table, role_table
from drywell.report.html_page import page_html
from drywell.report.roles import role_lines
from drywell.report.run import run_lines
from drywell.report.sarif import sarif_log
from drywell.report.tensor_memory import map_lines
from drywell.report.text import Lines, write
from drywell.report.timeline import timeline_facts, timeline_lines


@dataclass(frozen=True, slots=True)
class Shown:
    """What is to be shown beside the verdict, and how."""

    tmem: bool
    warps: bool
    roles: bool
    is_json: bool
    sarif: Path | None
    timeline: bool = False
    perfetto: Path | None = None
    html: Path | None = None

    @property
    def written(self) -> tuple[tuple[Path, str], ...]:
        """Return the files that are written, each with what it is."""
        files = (
            (self.html, "the page of this run, for a browser"),
            (self.perfetto, "what ran when, for ui.perfetto.dev"),
            (self.sarif, "the findings as SARIF"),
        )
        return tuple((path, what) for path, what in files if path is not None)

    @property
    def observed(self) -> tuple[str, ...]:
        """Return what has to be observed for it."""
        names = tuple(name for name in ("tmem", "roles") if getattr(self, name))
        return (*names, "timeline") if self.timeline or self.perfetto is not None else names

    def observed_with(self, schedule: str) -> tuple[str, ...]:
        """Return what has to be observed in a run with a schedule."""
        if self.html is None:
            return self.observed
        from drywell.host.page import observed_with

        return tuple(dict.fromkeys((*self.observed, *observed_with(schedule))))


def execute(launch_file: Path, options: dict[str, Any]) -> int:
    """Execute a launch file with the options of the command line, report, and return the exit code."""
    shown = Shown(
        options.pop("shows_tmem"),
        options.pop("shows_warps"),
        options.pop("shows_roles"),
        options.pop("is_json"),
        options.pop("sarif"),
        options.pop("shows_timeline", False),
        options.pop("perfetto", None),
        options.pop("html", None),
    )
    if not _is_ordered() and ("timeline" in shown.observed or shown.html is not None):
        options["schedule"] = "timed"
    try:
        if shown.html is not None:
            page_html(None)  # a page that is missing is told before the run, not after it
        if options["sms"] is None:
            del options["sms"]
        launch = read_launch_file(launch_file)
    except DrywellError as error:
        return _refuse(error, shown)
    began = time.perf_counter()
    failure: DrywellError | None = None
    comparisons: tuple[Comparison, ...] = ()
    try:
        observe = shown.observed_with(options["schedule"])
        result, comparisons = launch.run(observe=observe, **options)
    except DrywellError as raised:
        if raised.result is None:
            return _refuse(raised, shown, launch)
        result, failure = raised.result, raised
    seconds = time.perf_counter() - began
    return _Conclusion(launch, result, comparisons, failure, options, seconds).show(shown)


def _is_ordered() -> bool:
    """Tell whether the command line says in which order things are to happen."""
    context = click.get_current_context()
    default = ParameterSource.DEFAULT
    return any(context.get_parameter_source(name) is not default for name in ("schedule", "seed"))


def _refuse(error: DrywellError, shown: Shown, launch: LaunchFile | None = None) -> int:
    """Report an error that came before anything ran."""
    code = refuse(error, shown.is_json, None if launch is None else launch.module.program.source)
    if shown.sarif is not None:
        diagnostics = error.diagnostics if isinstance(error, PtxError) else ()
        verdict = verdict_of(error)
        _write_sarif(
            shown.sarif,
            sarif_log(verdict, (), drywell.__version__, diagnostics, message=str(error), exit_code=code),
        )
    return code


def _write_sarif(path: Path, log: dict[str, Any]) -> None:
    try:
        path.write_text(encode(log) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--sarif {path}: {error.strerror or error}") from None


def _write(path: Path, perfetto: Callable[[Path], None]) -> None:
    """Write a trace; a usage error when the file cannot be written."""
    try:
        perfetto(path)
    except OSError as error:
        raise click.UsageError(f"--perfetto {path}: {error.strerror or error}") from None


class _Conclusion:
    """A run that began, and everything there is to say about it."""

    def __init__(
        self,
        launch: LaunchFile,
        result: Result,
        comparisons: Sequence[Comparison],
        error: DrywellError | None,
        options: dict[str, Any],
        seconds: float,
    ) -> None:
        self.launch, self.result, self.comparisons, self.error = launch, result, comparisons, error
        self.options = options
        self.verdict: str = result.verdict
        if self.verdict in ("clean", "unchecked") and any(not c.ok for c in comparisons):
            self.verdict = "mismatch"
        is_seeded = options["schedule"] == "seeded" or (
            options["seed"] is not None and options["schedule"] == "eager"
        )
        self.stats: dict[str, Any] = {
            "kernel": launch.entry,
            "module": launch.module.name,
            "grid": launch.grid,
            "block": launch.block,
            "cluster": launch.cluster,
            "schedule": "seeded" if is_seeded else options["schedule"],
            "seed": (options["seed"] or 0) if is_seeded else None,
            "check": options["check"],
            "instructions": result.executed,
            "warps": len(result.activity),
            "workers": result.workers,
            "alone": result.alone if options.get("workers") else "",
            "judged": result.judged,
            "seconds": round(seconds, 3),
            "printed": result.printed,
            "comparisons": tuple(comparisons),
        }
        self.folder = launch.path.parent
        self.sources = sources_beside(self.folder, launch.module.program.source, result.findings)

    @property
    def message(self) -> str:
        """Return what ended the run when no finding says it."""
        is_said = self.error is None or isinstance(self.error, (KernelFault, DeadlockError))
        return "" if is_said else str(self.error)

    def show(self, shown: Shown) -> int:
        """Print it, write what was asked for, and return the exit code. What is written is named on stderr,
        so that stdout holds the report alone.
        """
        if shown.sarif is not None:
            self._write_sarif(shown.sarif)
        if shown.perfetto is not None and self.result.timeline is not None:
            _write(shown.perfetto, self.result.timeline.perfetto)
        if shown.html is not None:
            from drywell.cli.page_file import write_page

            write_page(shown.html, self.launch, self.result, self.verdict, self.options)
        if shown.is_json:
            click.echo(encode(self._document(shown)))
        else:
            self._print(shown)
        for path, what in shown.written:
            click.echo(f"{path}: {what}", err=True)
        return EXIT_CODES[self.verdict]

    def _document(self, shown: Shown) -> dict[str, Any]:
        if shown.warps:
            self.stats["activity"] = self.result.activity
        if shown.timeline and self.result.timeline is not None:
            self.stats["timeline"] = timeline_facts(self.result.timeline)
        found = self.result
        return document(
            self.verdict, found.findings, self.stats, self.message, (), found.roles, found.handovers
        )

    def _write_sarif(self, path: Path) -> None:
        log = sarif_log(
            self.verdict,
            self.result.findings,
            drywell.__version__,
            sources=self.sources,
            paths=paths_beside(self.folder, self.sources),
            message=self.message,
            exit_code=EXIT_CODES[self.verdict],
        )
        _write_sarif(path, log)

    def _print(self, shown: Shown) -> None:
        source = self.launch.module.program.source
        expressions = {name: e.value for name, e in self.launch.expect.items()}
        end = message_of(self.error, source) if self.error is not None and self.message else ()
        report = run_lines(
            self.verdict, self.result.findings, self.stats, self.comparisons, expressions, self.sources, end
        )
        write((*self._views(shown), *report), sys.stdout)

    def _views(self, shown: Shown) -> Lines:
        """Return the maps and tables that were asked for."""
        source = self.launch.module.program.source
        lines: Lines = ()
        if shown.tmem:
            lines += (*map_lines(self.result.tmem(0), source), ())
        if shown.warps:
            lines += (*role_lines(self.result.activity, source), ())
        if shown.roles:
            lines += (*role_table(self.result.roles), (), *handover_table(self.result.handovers), ())
        if shown.timeline and self.result.timeline is not None:
            lines += (*timeline_lines(self.result.timeline), ())
        return lines
