"""The option by which a command writes what it shows as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

drawn = click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=None,
    help="Write it as a picture too.",
)
"""Gives a command `--svg`."""


def draw(path: Path | None, picture: Callable[[], str]) -> None:
    """Write a picture, where one is asked for; a usage error when the file cannot be written."""
    if path is None:
        return
    try:
        path.write_text(picture(), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--svg {path}: {error.strerror or error}") from None
