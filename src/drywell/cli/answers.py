"""`drywell probe --read`: print what a probe.json settles."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click


def read(answers: Path, captures: Path | None, is_json: bool) -> int:
    """Judge each answer of a file and return the exit code."""
    from drywell.base.errors import DrywellError
    from drywell.cli.refusal import refuse
    from drywell.host import answers as host
    from drywell.report.document import encode
    from drywell.report.text import write

    try:
        probe = host.read_probe(answers)
        if not is_json:
            write(host.heading_lines(probe), sys.stdout)
        kept = host.readings(probe)
        if captures is not None:
            host.save_captures(captures, probe, kept)
    except DrywellError as error:
        return refuse(error, is_json)
    if is_json:
        head = {"machine": probe.machine, "date": probe.date, "target": probe.target}
        click.echo(encode({**head, "answers": [host.reading_object(r) for r in kept]}))
    else:
        write([line for reading in kept for line in host.reading_lines(reading)], sys.stdout)
        counts = Counter(r.judgement for r in kept)
        click.echo("\n" + ", ".join(f"{n} {judgement}" for judgement, n in sorted(counts.items())))
    return 1 if any(r.judgement == "differs" for r in kept) else 0
