"""The options by which a command that runs a kernel is told in which legal order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_Command = Callable[..., Any]


def in_order(*schedules: str, default: str = "eager") -> Callable[[_Command], _Command]:
    """Give a command `--schedule`, one of those named, and `--seed`."""
    described = f"When asynchronous work completes: {', '.join(map(_SAID.__getitem__, schedules))}."
    options = (
        click.option(
            "--schedule", type=click.Choice(schedules), default=default, show_default=True, help=described
        ),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=None,
            help="A random legal order, the same each time.",
        ),
    )

    def decorated(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


_SAID = {
    "eager": "at once",
    "lazy": "as late as is legal",
    "seeded": "at random",
    "timed": "by the clock",
}
