"""`drywell run`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drywell.base.errors import DrywellError
    from drywell.host.comparison import Comparison
    from drywell.host.launch import Result
    from drywell.host.launch_file import LaunchFile
    from drywell.report.text import Lines

_LATER = {
    "sarif": "SARIF lists what the hazard checker finds, and the checker does not exist yet: use --json",
    "perfetto": "a trace needs the clock, which does not exist yet: leave --perfetto out",
    "html": "the page does not exist yet: leave --html out",
}


@click.command(short_help="Execute a launch file and say what happened.")
@click.argument("launch_file", type=click.Path(path_type=Path), metavar="LAUNCH.toml")
@click.option(
    "--check",
    type=click.Choice(["off", "hw", "ptx", "strict"]),
    default="off",
    show_default=True,
    help="How much to check; only 'off' exists yet.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "interpreter", "jit"]),
    default="auto",
    show_default=True,
    help="What executes it; the interpreter is the only one yet.",
)
@click.option(
    "--numerics",
    type=click.Choice(["exact", "fast"]),
    default="exact",
    show_default=True,
    help="How the tensor core adds: to the bit, or in float32 (approximate, faster).",
)
@click.option(
    "--schedule",
    type=click.Choice(["eager", "lazy", "seeded", "timed"]),
    default="eager",
    show_default=True,
    help="When asynchronous work completes: at once, as late as is legal, or at random.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=None, help="A random legal order; one seed gives one run."
)
@click.option(
    "--sms",
    type=click.IntRange(min=1),
    default=None,
    help="How many SMs the GPU has (default: what the grid needs).",
)
@click.option(
    "--max-instructions",
    type=click.IntRange(min=1),
    default=10**9,
    show_default=True,
    help="Warp instructions after which the run is stopped.",
)
@click.option("--tmem", "shows_tmem", is_flag=True, help="Show the Tensor Memory of the first CTA.")
@click.option("--warps", "shows_warps", is_flag=True, help="Show what each warp of the first CTA did.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object, whatever happens.")
@click.option("--sarif", metavar="FILE", default=None, help="Not there yet.")
@click.option("--perfetto", metavar="FILE", default=None, help="Not there yet.")
@click.option("--html", metavar="FILE", default=None, help="Not there yet.")
def run(launch_file: Path, is_json: bool, shows_tmem: bool, shows_warps: bool, **options: Any) -> int:
    """Execute a launch file, compare every buffer it expects something of, and say what happened."""
    from drywell.base.errors import DrywellError, UnsupportedError
    from drywell.cli.refusal import refuse
    from drywell.host.launch_file import read_launch_file

    try:
        for name, why in _LATER.items():
            if options.pop(name) is not None:
                raise UnsupportedError(why)
        if options["sms"] is None:
            del options["sms"]
        launch = read_launch_file(launch_file)
    except DrywellError as error:
        return refuse(error, is_json)
    if shows_tmem:
        options["observe"] = ("tmem",)
    began = time.perf_counter()
    failure: DrywellError | None = None
    try:
        result, comparisons = launch.run(**options)
    except DrywellError as raised:
        if raised.result is None:
            return refuse(raised, is_json, launch.module.program.source)
        result, comparisons, failure = raised.result, (), raised
    seconds = time.perf_counter() - began
    return _Conclusion(launch, result, comparisons, failure, options, seconds).show(
        is_json, shows_tmem, shows_warps
    )


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
        self.verdict: str = result.verdict
        if error is None and any(not c.ok for c in comparisons):
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
            "instructions": result.executed,
            "warps": len(result.activity),
            "seconds": round(seconds, 3),
            "printed": result.printed,
            "comparisons": tuple(comparisons),
        }

    def show(self, is_json: bool, shows_tmem: bool, shows_warps: bool) -> int:
        """Print it and return the exit code."""
        from drywell.report.document import EXIT_CODES, document, encode

        if is_json:
            message = str(self.error) if self.error is not None and not self.result.findings else ""
            if shows_warps:
                self.stats["activity"] = self.result.activity
            click.echo(encode(document(self.verdict, self.result.findings, self.stats, message)))
        else:
            self._print(shows_tmem, shows_warps)
        return EXIT_CODES[self.verdict]

    def _print(self, shows_tmem: bool, shows_warps: bool) -> None:
        import sys

        from drywell.cli.refusal import message_of
        from drywell.report.roles import role_lines
        from drywell.report.run import run_lines
        from drywell.report.tensor_memory import map_lines
        from drywell.report.text import write

        source = self.launch.module.program.source
        lines: Lines = ()
        if shows_tmem:
            lines += (*map_lines(self.result.tmem(0), source), ())
        if shows_warps:
            lines += (*role_lines(self.result.activity, source), ())
        expressions = {name: e.value for name, e in self.launch.expect.items()}
        end = message_of(self.error, source) if self.error is not None and not self.result.findings else ()
        report = run_lines(
            self.verdict, self.result.findings, self.stats, self.comparisons, expressions, source, end
        )
        write((*lines, *report), sys.stdout)
