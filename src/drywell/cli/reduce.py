"""`drywell reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drywell.host.reduction import Reduced


@click.command(short_help="Find the smallest kernel and launch that still give a finding.")
@click.argument("launch_file", type=click.Path(path_type=Path), metavar="LAUNCH.toml")
@click.option("--rule", default=None, metavar="RULE", help="The finding to keep (default: the first error).")
@click.option(
    "--level",
    "check",
    type=click.Choice(["hw", "ptx", "strict"]),
    default="ptx",
    show_default=True,
    help="What hardware is known to punish, what PTX promises, or the manual to the letter.",
)
@click.option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=3000,
    show_default=True,
    help="Runs after which what has been reached is written.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Time after which what has been reached is written.",
)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def reduce(
    launch_file: Path, rule: str | None, check: str, max_runs: int, seconds: float, is_json: bool
) -> int:
    """Leave statements out of a kernel, and make its grid, block and arguments smaller, as long as the same
    rule names the same instructions and no other rule names an error. Writes NAME.reduced.ptx and
    NAME.reduced.toml beside the originals.
    """
    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.host.fixing import free_path, module_path
    from drywell.host.reduction import launch_text, reduce_launch

    try:
        done = reduce_launch(launch_file, rule, max_runs, seconds, check=check)
    except DrywellError as error:
        return refuse(error, is_json)
    text, launch = free_path(module_path(launch_file), "reduced"), free_path(launch_file, "reduced")
    try:
        text.write_text(done.text, encoding="utf-8")
        launch.write_text(launch_text(launch_file, text.name, done.shape), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror or error}") from None
    _report(done, text, launch, is_json)
    return 0


def _report(done: Reduced, text: Path, launch: Path, is_json: bool) -> None:
    if is_json:
        import msgspec

        found = {
            "rule": done.finding.rule,
            "lines_before": done.num_before,
            "lines_after": done.num_after,
            "statements_before": done.statements[0],
            "statements_after": done.statements[1],
            "runs": done.runs,
            "is_done": done.is_done,
            "module": str(text),
            "launch": str(launch),
        }
        click.echo(msgspec.json.encode(found).decode())
        return
    shape = "x".join(map(str, done.shape.grid))
    before, after = done.statements
    lines = f"{done.num_before:,} lines -> {done.num_after:,}"
    click.echo(f"{done.finding.rule}: {lines}, {before:,} statements -> {after:,}, grid {shape}")
    if not done.is_done:
        click.echo("the budget ended before the last statement was tried: give more --seconds or --max-runs")
    click.echo(f"{done.runs:,} runs; written {text} and {launch}")
