"""`drywell run` and `drywell check`: a launch file is executed, and everything there is to say is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from drywell.cli.ordering import in_order

_Command = Callable[..., Any]
_OPTIONS: tuple[Callable[[_Command], _Command], ...] = (
    click.argument("launch_file", type=click.Path(path_type=Path), metavar="LAUNCH.toml"),
    click.option(
        "--engine",
        type=click.Choice(["auto", "interpreter", "jit"]),
        default="auto",
        show_default=True,
        help="What executes it: auto compiles what is executed often, jit all; the results are the same.",
    ),
    click.option(
        "--numerics",
        type=click.Choice(["exact", "fast"]),
        default="exact",
        show_default=True,
        help="How the tensor core adds: to the bit, or in float32 (approximate, faster).",
    ),
    in_order("eager", "lazy", "seeded", "timed"),
    click.option(
        "--sms",
        type=click.IntRange(min=1),
        default=None,
        help="How many SMs the GPU has (default: what the grid needs).",
    ),
    click.option(
        "--max-instructions",
        type=click.IntRange(min=1),
        default=10**9,
        show_default=True,
        help="Warp instructions after which the run is stopped.",
    ),
    click.option("--tmem", "shows_tmem", is_flag=True, help="Show the Tensor Memory of the first CTA."),
    click.option("--warps", "shows_warps", is_flag=True, help="Show what each warp of the first CTA did."),
    click.option(
        "--roles",
        "shows_roles",
        is_flag=True,
        help="Show what each warp is for, and what each mbarrier hands over.",
    ),
    click.option("--json", "is_json", is_flag=True, help="Print one JSON object, whatever happens."),
    click.option(
        "--sarif",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        default=None,
        help="Write the findings as SARIF 2.1.0 too.",
    ),
)


def _options(command: _Command) -> _Command:
    """Give a command what both take."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(short_help="Execute a launch file and say what happened.")
@_options
@click.option(
    "--check",
    type=click.Choice(["off", "hw", "ptx", "strict"]),
    default="ptx",
    show_default=True,
    help="The hazards looked for: none, what hardware is known to punish, what breaks PTX's promises, or "
    "what departs from the manual's letter.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Processes that may share the clusters (default: the cores, for a large grid); with --check off.",
)
@click.option("--timeline", "shows_timeline", is_flag=True, help="Show what ran when (schedule timed).")
@click.option(
    "--perfetto",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=None,
    help="Write what ran when (schedule timed) as a trace that ui.perfetto.dev opens.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=None,
    help="Write a page that shows the run in a browser, by itself and offline (schedule timed, unless "
    "--schedule or --seed says otherwise).",
)
def run(launch_file: Path, **options: Any) -> int:
    """Execute a launch file, compare every buffer it expects something of, and say what happened."""
    from drywell.cli.execution import execute

    return execute(launch_file, options)


@click.command(short_help="Execute a launch file and look for hazards.")
@_options
@click.option(
    "--level",
    "--check",
    "check",
    type=click.Choice(["hw", "ptx", "strict"]),
    default="ptx",
    show_default=True,
    help="What hardware is known to punish, what PTX promises, or the manual to the letter.",
)
@click.option(
    "--fix",
    "fixes",
    is_flag=True,
    help="Try the edits of the hints; write those that hold to a new file beside the module, and show them.",
)
def check(launch_file: Path, fixes: bool, **options: Any) -> int:
    """Execute a launch file and judge every hand-over between threads, warps and asynchronous units.

    A verdict holds for every schedule that takes the same branches. Exits with 0 when there is no error, 1
    for errors, wrong numbers, a fault or a deadlock, 2 for input that cannot be used, 3 for what cannot be
    executed. `drywell explain RULE` says what a finding means.

    With --fix each edit is run: one stays only when its finding is gone and no other has come. The exit code
    is 0 when the edited kernel is silent.
    """
    from drywell.cli.execution import execute

    if fixes:
        from drywell.cli.fixing import execute_fix

        return execute_fix(launch_file, options)

    return execute(launch_file, options)
