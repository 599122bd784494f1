"""`drywell layout`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drywell.cli.drawing import draw, drawn

if TYPE_CHECKING:
    from drywell.layout.atoms import Atom


@click.command(short_help="Say and draw what a layout maps where; compare two.")
@click.argument("expression", metavar="EXPR")
@click.option("--shape", metavar="64x128", default="", help="Read it over this matrix.")
@click.option("--at", metavar="5,70", default="", help="Only say where this element lies.")
@click.option("--match", "other", metavar="EXPR", default="", help="What reading by this layout finds.")
@click.option(
    "--tmem-bits",
    type=click.Choice(["8", "16", "32"]),
    default=None,
    help="Strides of a CuTe layout are Tensor Memory addresses of packed elements of so many bits.",
)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@drawn
def layout(
    expression: str,
    shape: str,
    at: str,
    other: str,
    tmem_bits: str | None,
    is_json: bool,
    svg: Path | None,
) -> int:
    """Say what a layout maps where and draw it. EXPR is the named-axis notation,

        drywell layout 'S[(128, 256) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]'

    a named layout, 'accumulator("F", N=64)', 'fragment("16x256b", 4)', 'scale_factors(128, 4)',
    'smem_matrix("128B", "K", 64, 64)', 'tmem_operand("D", 16)' or 'copied("32x128b", "warpx4")', or CuTe's
    form, 'Swizzle<3,4,3> o (8,64):(64,1)'.

    With --match EXPR, what EXPR finds of a matrix written as the first; exits with 1 when they disagree.
    """
    import sys

    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.layout.match import check_match
    from drywell.report import layout as report
    from drywell.report import pictures
    from drywell.report.document import encode
    from drywell.report.text import write

    try:
        atom = _read(expression, shape, tmem_bits)
        draw(svg, lambda: pictures.layout_picture(atom))
        if other:
            match = check_match(atom, _read(other, shape if "x" in shape else "", tmem_bits))
            text = encode({"ok": match.ok, "match": match}) if is_json else report.match_lines(match)
        elif at:
            text = report.place_lines(atom, _numbers(at, ",", "--at"))
            text = encode({"places": ["".join(map(str, line)) for line in text]}) if is_json else text
        else:
            text = encode(report.layout_object(atom)) if is_json else report.layout_lines(atom)
    except DrywellError as error:
        return refuse(error, is_json)
    if isinstance(text, str):
        click.echo(text)
    else:
        write(text, sys.stdout)
    return 0 if not other or match.ok else 1


def _read(expression: str, shape: str, tmem_bits: str | None) -> Atom:
    """Read a layout, over another shape when one is given."""
    from dataclasses import replace

    from drywell.layout.atoms import read_layout
    from drywell.layout.named import check_shape

    atom = read_layout(expression, int(tmem_bits) if tmem_bits else None)
    if not shape:
        return atom
    return replace(atom, shape=check_shape(atom.layout, _numbers(shape, "x", "--shape")))


def _numbers(text: str, sign: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(sign))
    except ValueError:
        raise click.UsageError(f"{option} {text}: write numbers with '{sign}' between them") from None
