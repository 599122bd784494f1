"""`drywell isa`."""

from __future__ import annotations

import click


@click.command(short_help="Document the instructions Drywell knows.")
@click.argument("name", required=False, default="")
@click.option("--family", metavar="FAMILY", default="", help="Only the instructions declared in this family.")
@click.option(
    "--unsupported", is_flag=True, help="Only what is known but cannot be executed, in whole or in part."
)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def isa(name: str, family: str, unsupported: bool, is_json: bool) -> int:
    """Document the instructions Drywell knows: syntax, options, operands, targets, and whether each can be
    executed.

    NAME is an instruction (add), the start of a spelling (tcgen05.ld) or a whole one. Without it the
    families are listed.
    """
    import sys

    from drywell.report import instruction_set
    from drywell.report.text import write

    if family and family not in instruction_set.families():
        families = ", ".join(instruction_set.families())
        raise click.UsageError(f"there is no family '{family}'; the families are {families}")
    found = instruction_set.select(name, family, unsupported)
    if name and not instruction_set.select(name):
        raise click.UsageError(_unknown(name, instruction_set.close_names(name)))
    if is_json:
        from drywell.report.document import encode

        click.echo(encode({"instructions": [instruction_set.entry(d) for d in found]}))
    elif name:
        write(
            [line for d in found for line in instruction_set.entry_lines(instruction_set.entry(d))],
            sys.stdout,
        )
    elif family or unsupported:
        write(instruction_set.list_lines(found), sys.stdout)
    else:
        write(instruction_set.overview_lines(), sys.stdout)
    return 0


def _unknown(name: str, close: tuple[str, ...]) -> str:
    hint = f"did you mean {' or '.join(close)}?" if close else "drywell isa lists the families."
    return f"Drywell knows no instruction '{name}'; {hint}"
