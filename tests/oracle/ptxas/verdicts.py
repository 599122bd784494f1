"""The stored verdicts: a gzip of tab-separated lines, grouped by declaration, small enough to be committed.

= form of a declaration: its syntax line and options
A|R|C <tab> number of the message class <tab> text of the row
# number <tab> message class        (at the end)
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

from oracle.ptxas.assembler import Verdict
from oracle.ptxas.rows import Row

STORE = Path(__file__).parent / "verdicts.tsv.gz"


def write(release: str, rows: Iterable[tuple[Row, Verdict]], path: Path = STORE) -> None:
    """Store verdicts; the same rows and verdicts give the same bytes."""
    lines = [f"! ptxas {release}"]
    classes: dict[str, int] = {}
    form = ""
    for row, verdict in rows:
        if row.form != form:
            form = row.form
            lines.append(f"= {form}")
        number = classes.setdefault(verdict.message, len(classes))
        lines.append(f"{verdict.letter}\t{number}\t{row.text}")
    lines += [f"# {number}\t{text}" for text, number in classes.items()]
    packed = gzip.compress("\n".join(lines).encode(), compresslevel=9, mtime=0)
    path.write_bytes(packed)


def read(path: Path = STORE) -> tuple[str, dict[str, dict[str, Verdict]]]:
    """Return the assembler's release and, by form and row text, its verdicts."""
    release, form = "", ""
    found: dict[str, dict[str, tuple[str, int]]] = {}
    classes: dict[int, str] = {}
    for line in gzip.decompress(path.read_bytes()).decode().split("\n"):
        mark, rest = line[0], line[2:]
        if mark == "!":
            release = rest.removeprefix("ptxas ")
        elif mark == "=":
            form = rest
            found[form] = {}
        elif mark == "#":
            number, text = rest.split("\t", 1)
            classes[int(number)] = text
        else:
            number, text = rest.split("\t", 1)
            found[form][text] = (mark, int(number))
    return release, {
        s: {t: Verdict(letter, classes[n]) for t, (letter, n) in rows.items()} for s, rows in found.items()
    }
