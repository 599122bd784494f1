"""`drywell probe`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Write a script that asks a Blackwell GPU what is open; read its answers.")
@click.option(
    "--read",
    "answers",
    type=click.Path(path_type=Path),
    metavar="PROBE.json",
    help="Read what the script wrote and say which answers it gives.",
)
@click.option("--list", "is_list", is_flag=True, help="Name the questions.")
@click.option(
    "--captures", type=click.Path(path_type=Path), metavar="FILE", help="With --read: keep the words here."
)
@click.option("--json", "is_json", is_flag=True, help="With --read: print one JSON object.")
def probe(answers: Path | None, is_list: bool, captures: Path | None, is_json: bool) -> int:
    """Write a Python script to stdout that asks a B200 or B300 every open question of DEVIATIONS.md.

    The script needs Python 3.8 and the NVIDIA driver, nothing else:

        drywell probe > probe.py;  python3 probe.py;  drywell probe --read probe.json

    Exit codes: 0; with --read also 1 when the GPU did something that no value of a switch explains; 2 for
    a file that cannot be read.
    """
    if answers is None and (captures is not None or is_json):
        raise click.UsageError("--captures and --json go with --read PROBE.json")
    if answers is not None:
        from drywell.cli.answers import read

        return read(answers, captures, is_json)
    if is_list:
        from drywell.examples.probe.questions import questions

        for question in questions():
            click.echo(f"{question.name:<19} {question.switch or '-':<24} {question.title}")
        return 0
    from drywell.examples.probe.generate import script

    click.echo(script(), nl=False)
    return 0
