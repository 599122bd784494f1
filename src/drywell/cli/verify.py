"""`drywell verify`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Say what is wrong with a PTX text, without running it.")
@click.argument("kernel", type=click.Path(path_type=Path), metavar="KERNEL.ptx")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object, whatever happens.")
def verify(kernel: Path, is_json: bool) -> int:
    """Say everything that is wrong with a PTX text, without running it, and what in it could not run; warn
    of what assembles and cannot be meant: .aligned instructions that only some lanes of a warp reach, columns
    that nothing frees, impossible descriptors, waits that cannot end.

    Exits with 0 when the text is legal, 2 when it is not, 3 when it holds an instruction that Drywell does
    not know.
    """
    import gc

    gc.disable()  # what is made here stays to the end: to look for garbage in it takes a tenth of the time
    try:
        return _verify(kernel, is_json)
    finally:
        gc.enable()


def _verify(kernel: Path, is_json: bool) -> int:
    import sys

    from drywell.base.diagnostic import Severity
    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.host.module import check
    from drywell.program.advice import advice
    from drywell.report.document import EXIT_CODES, document, encode
    from drywell.report.legality import legality, legality_lines, verdict_of
    from drywell.report.text import write

    try:
        program, diagnostics, source = check(kernel)
    except DrywellError as error:
        return refuse(error, is_json)
    found = legality(program) if program is not None else None
    if program is not None and not any(d.severity is Severity.ERROR for d in diagnostics):
        diagnostics = (*diagnostics, *advice(program))
    verdict = verdict_of(found, diagnostics)
    if is_json:
        click.echo(
            encode(document(verdict, stats={"legality": found, "file": source.name}, diagnostics=diagnostics))
        )
    else:
        write(legality_lines(found, diagnostics, source), sys.stdout if verdict == "clean" else sys.stderr)
    return EXIT_CODES[verdict]
