"""`drywell check --fix`: the edits that hold are written beside the module and shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from drywell.base.errors import DrywellError
from drywell.base.span import Source
from drywell.cli.refusal import refuse
from drywell.host.fixing import Fixed, fix_launch, free_path, module_path
from drywell.report.document import document, encode
from drywell.report.findings import finding_lines
from drywell.report.text import write

_HIDDEN = ("shows_tmem", "shows_warps", "shows_roles", "sarif")


def execute_fix(launch_file: Path, options: dict[str, Any]) -> int:
    """Repair the kernel of a launch file with the options of the command line, and return the exit code."""
    is_json = options.pop("is_json")
    shown = [name for name in _HIDDEN if options.pop(name)]
    if shown:
        raise click.UsageError("--fix goes with neither --tmem, --warps, --roles nor --sarif")
    if options["sms"] is None:
        del options["sms"]
    try:
        fixed = fix_launch(launch_file, **options)
        module = module_path(launch_file)
    except DrywellError as error:
        return refuse(error, is_json)
    written = _write(module, fixed) if fixed.repairs else None
    if is_json:
        click.echo(encode(_document(fixed, written, module)))
    else:
        _print(fixed, module, written)
    return 0 if fixed.is_silent else 1


def _write(module: Path, fixed: Fixed) -> Path:
    path = free_path(module, "fixed")
    try:
        path.write_text(fixed.text, encoding="utf-8", newline="")
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    return path


def _document(fixed: Fixed, written: Path | None, module: Path) -> dict[str, Any]:
    left = fixed.named((written or module).name)
    found = document("clean" if fixed.is_silent else "findings", left)
    return found | {
        "fix": {
            "written": None if written is None else str(written),
            "repairs": [_row(r.finding.rule, r.finding.span.line, str(r.edit)) for r in fixed.repairs],
            "withdrawn": [
                {**_row(w.finding.rule, w.finding.span.line, str(w.edit)), "why": w.why}
                for w in fixed.withdrawn
            ],
        }
    }


def _row(rule: str, line: int, edit: str) -> dict[str, Any]:
    return {"rule": rule, "line": line, "edit": edit}


def _print(fixed: Fixed, module: Path, written: Path | None) -> None:
    if written is not None:
        click.echo(fixed.diff(module.name, written.name))
    for repair in fixed.repairs:
        click.echo(f"repaired   {repair.finding.rule} of line {repair.finding.span.line}: {repair.edit}")
    for given_up in fixed.withdrawn:
        finding, edit = given_up.finding, given_up.edit
        click.echo(f"withdrawn  {finding.rule} of line {finding.span.line}: {edit}: {given_up.why}")
    if fixed.left:
        click.echo("\nleft:" if fixed.repairs else "nothing could be repaired; left:")
        name = module.name if written is None else written.name
        write(finding_lines(fixed.named(name), {name: Source(name, fixed.text)}), sys.stdout)
    elif not fixed.repairs:
        click.echo("nothing to repair")
    if written is not None:
        silent = "it runs with no error and no warning" if fixed.left else "it runs without findings"
        state = silent if fixed.is_silent else "see what is left above"
        click.echo(f"written    {written}: {state}")
