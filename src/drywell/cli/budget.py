"""`drywell budget`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Say what a launch takes of an SM, by owner, and what does not fit.")
@click.argument("launch_file", type=click.Path(path_type=Path), metavar="LAUNCH.toml")
@click.option("--gpu", default=None, help="b200 or b300.  [default: the launch file's]")
@click.option("--run", "runs", is_flag=True, help="Run it, and say what wrote which columns.")
@click.option("--ptxas", default="ptxas", show_default=True, help="The assembler to ask for registers.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object, whatever happens.")
def budget(launch_file: Path, gpu: str | None, runs: bool, ptxas: str, is_json: bool) -> int:
    """Say what a launch takes of an SM: columns of Tensor Memory, bytes of shared memory, registers of a
    thread, each by owner, and how many of its CTAs an SM holds. What is ASSUMED is said to be.

    Registers are what `ptxas -v` says when it is installed, else those of .maxnreg in a kernel with
    setmaxnreg, else an estimate. Exits with 0 when it fits, 3 when it does not, else as `drywell run` does.
    """
    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.host.budget import budget as ask
    from drywell.report.document import EXIT_CODES, document, encode

    try:
        found = ask(launch_file, gpu, runs=runs, ptxas=ptxas)
    except DrywellError as error:
        return refuse(error, is_json)
    verdict = "unchecked" if found.fits else "budget"
    click.echo(encode(document(verdict, stats={"budget": found})) if is_json else found.text)
    return EXIT_CODES[verdict]
