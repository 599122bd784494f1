"""`drywell fragment`."""

from __future__ import annotations

from pathlib import Path

import click

from drywell.cli.drawing import draw, drawn


@click.command(short_help="Draw which thread and register a tcgen05.ld/st puts each cell in.")
@click.argument("form", metavar="32x32b.x8")
@click.option("--warp", type=click.IntRange(0, 3), default=0, show_default=True, help="Of the warpgroup.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@drawn
def fragment(form: str, warp: int, is_json: bool, svg: Path | None) -> int:
    """Draw a fragment of tcgen05.ld and tcgen05.st, 32x32b.x8 or 16x256b.x4.pack::16b, or one of ldmatrix,
    m8n8.x4: the thread and register of every lane and column. A whole instruction can be given too.
    """
    import sys

    from drywell.cli.refusal import refuse
    from drywell.layout.error import LayoutError
    from drywell.report.fragment import fragment_lines, fragment_object, read_form
    from drywell.report.pictures import fragment_picture
    from drywell.report.text import write

    try:
        asked = read_form(form, warp)
        lines = fragment_lines(asked)
        draw(svg, lambda: fragment_picture(asked))
    except LayoutError as error:
        return refuse(error, is_json)
    if is_json:
        from drywell.report.document import encode

        click.echo(encode(fragment_object(asked)))
    else:
        write(lines, sys.stdout)
    return 0
