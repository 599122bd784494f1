"""`drywell why`."""

from __future__ import annotations

from pathlib import Path

import click

from drywell.cli.ordering import in_order


@click.command(short_help="Follow one output element back to the inputs.")
@click.argument("launch_file", type=click.Path(path_type=Path), metavar="LAUNCH.toml")
@click.argument("element", metavar="'C[3,5]'")
@in_order("eager", "lazy", "seeded")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def why(launch_file: Path, element: str, schedule: str, seed: int | None, is_json: bool) -> int:
    """Run a launch file again and follow one element of a buffer backwards: through global memory, shared
    memory, registers, Tensor Memory, products and copies, to the elements of the inputs.

    Exits with 0 when it could be followed, else as `drywell run` does.
    """
    import sys

    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.host.why import why as ask
    from drywell.report.document import encode
    from drywell.report.text import write
    from drywell.report.why import why_document, why_lines

    try:
        answer = ask(launch_file, element, schedule=schedule, seed=seed)
    except DrywellError as error:
        return refuse(error, is_json)
    if is_json:
        click.echo(encode(why_document(answer)))
    else:
        write(why_lines(answer), sys.stdout)
    return 0
