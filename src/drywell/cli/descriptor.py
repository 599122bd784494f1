"""`drywell descriptor` and `drywell idesc`: the descriptor words of tcgen05 in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from drywell.report.descriptors import Description

_FORMATS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "u8", "s8")
_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")


def _word(bits: int) -> Callable[[str], int]:
    """Return a reader of words of `bits` bits, in any notation that Python reads."""

    def read(text: str) -> int:
        try:
            word = int(text, 0)
        except ValueError:
            raise click.BadParameter(f"{text!r} is no number: write 0x and hexadecimal digits") from None
        if not 0 <= word < 1 << bits:
            raise click.BadParameter(f"{text} does not fit in {bits} bits")
        return word

    return read


@click.command(short_help="Say what a 64-bit shared-memory descriptor means.")
@click.argument("word", metavar="WORD", type=_word(64))
@click.option("--format", "fmt", type=click.Choice(_FORMATS), help="Check it for elements of this type.")
@click.option("--mn-major", "is_mn_major", is_flag=True, help="Check it for an MN-major operand.")
@click.option("--gpu", type=click.Choice(["b200", "b300"]), default="b200", show_default=True)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def descriptor(word: int, fmt: str | None, is_mn_major: bool, gpu: str, is_json: bool) -> int:
    """Say what every bit of a shared-memory matrix descriptor (of tcgen05.mma and tcgen05.cp) means, and
    what cannot be.

    Exit codes: 0, or 1 when a field is impossible.
    """
    from drywell.report.descriptors import describe_smem

    if is_mn_major and fmt is None:
        raise click.UsageError("--mn-major needs --format: what is legal depends on the type")
    return _show(describe_smem(word, fmt, is_mn_major, gpu == "b300"), is_json)


@click.command(short_help="Say what a 32-bit instruction descriptor of tcgen05.mma means.")
@click.argument("word", metavar="WORD", type=_word(32))
@click.option("--kind", type=click.Choice(_KINDS), required=True, help="The .kind of the instruction.")
@click.option("--cta-group", type=click.IntRange(1, 2), default=1, show_default=True)
@click.option("--sp", "is_sparse", is_flag=True, help="The instruction is a .sp one.")
@click.option("--ws", "is_ws", is_flag=True, help="The instruction is a .ws one.")
@click.option("--a-tmem", "a_in_tmem", is_flag=True, help="A lies in Tensor Memory.")
@click.option(
    "--scale-vec",
    default="",
    help="block16, block32, 1X, 2X or 4X, as the instruction spells it.",
)
@click.option("--gpu", type=click.Choice(["b200", "b300"]), default="b200", show_default=True)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def idesc(
    word: int,
    kind: str,
    cta_group: int,
    is_sparse: bool,
    is_ws: bool,
    a_in_tmem: bool,
    scale_vec: str,
    gpu: str,
    is_json: bool,
) -> int:
    """Say what every bit of an instruction descriptor means, and what cannot be in such an instruction.

    Exit codes: 0, or 1 when a field is impossible.
    """
    from drywell.layout.instruction_descriptor import MmaForm
    from drywell.report.descriptors import describe_idesc

    vector = _scale_vec(kind, scale_vec)
    form = MmaForm(cta_group, is_sparse, is_ws, a_in_tmem, vector, gpu == "b300")
    return _show(describe_idesc(word, kind, form), is_json)


def _scale_vec(kind: str, word: str) -> str | None:
    """Return the scale vector that a qualifier means; a usage error for a pair that does not exist."""
    from drywell.layout.mma_shapes import BLOCK_SCALED_KINDS
    from drywell.layout.scale import SCALE_VECS

    if kind not in BLOCK_SCALED_KINDS:
        if word:
            raise click.UsageError(f"--scale-vec: kind::{kind} has no scale factors")
        return None
    found = SCALE_VECS.get((kind, word.removeprefix("scale_vec::")))
    if found is None:
        words = [w or "(none)" for k, w in SCALE_VECS if k == kind]
        raise click.UsageError(f"--scale-vec: kind::{kind} takes {', '.join(words)}")
    return found


def _show(description: Description, is_json: bool) -> int:
    """Print a description and return the exit code."""
    import sys

    from drywell.report.descriptors import as_object, description_lines
    from drywell.report.text import write

    if is_json:
        from drywell.report.document import encode

        click.echo(encode(as_object(description)))
    else:
        write(description_lines(description), sys.stdout)
    return 0 if description.is_possible else 1
