"""What `drywell run --html FILE` does: the page with the run in it, as one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from drywell.host.launch_file import LaunchFile
from drywell.host.page import record_of
from drywell.host.result import Result
from drywell.report.html_page import page_html

OF_THE_RUN = ("numerics", "engine", "seed", "sms", "max_instructions")
"""Options with which elements are followed as in the run itself."""


def write_page(
    path: Path, launch: LaunchFile, result: Result, verdict: str, options: Mapping[str, Any]
) -> None:
    """Write the page of a run that observed what a record needs; a usage error when it cannot be written."""
    again = {name: options[name] for name in OF_THE_RUN if name in options}
    text = page_html(record_of(launch, result, verdict, options["schedule"], **again))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--html {path}: {error.strerror or error}") from None
