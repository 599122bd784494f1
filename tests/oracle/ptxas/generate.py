"""Make every row, ask `ptxas` about it and store the verdicts.

PYTHONPATH=tests:src python -m oracle.ptxas.generate            # all declarations, into verdicts.tsv.gz
PYTHONPATH=tests:src python -m oracle.ptxas.generate tcgen05_mma --compare   # one family, compare, store
nothing

Rows are kept from the store when they are in it already, so a change of one declaration costs only its own
rows; `--fresh` asks anew.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from drywell.isa.declare import Declaration
from drywell.isa.registry import declarations
from oracle.ptxas import verdicts
from oracle.ptxas.assembler import Verdict, assemble, is_there, release
from oracle.ptxas.comparison import differences, report
from oracle.ptxas.rows import Row, rows_of


def settled(rows: list[Row], known: dict[str, dict[str, Verdict]]) -> list[tuple[Row, Verdict]]:
    """Return a verdict for each row, asking `ptxas` only about rows without a known one."""
    texts = {text: verdict for group in known.values() for text, verdict in group.items()}
    unknown = list(dict.fromkeys(row.text for row in rows if row.text not in texts))
    texts.update(zip(unknown, assemble(unknown), strict=True))
    return [(row, texts[row.text]) for row in rows]


def share_of_rejections(found: list[tuple[Row, Verdict]]) -> float:
    """Return which part of the rows `ptxas` rejects."""
    return sum(verdict.letter == "R" for _, verdict in found) / max(1, len(found))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "family", nargs="*", help="families to ask about (default: all); then nothing is stored"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the stored verdicts first")
    parser.add_argument("--compare", action="store_true", help="print where Drywell differs")
    arguments = parser.parse_args()
    if not is_there():
        print("there is no ptxas on the path", file=sys.stderr)
        return 2
    chosen: list[Declaration] = [
        d for d in declarations() if not arguments.family or d.family in arguments.family
    ]
    known = verdicts.read()[1] if verdicts.STORE.exists() and not arguments.fresh else {}
    rows = [row for declaration in chosen for row in rows_of(declaration)]
    found = settled(rows, known)
    if not arguments.family:
        verdicts.write(release(), found)
    counts = Counter(verdict.letter for _, verdict in found)
    print(
        f"{len(chosen)} declarations, {len(found)} rows: {dict(counts)},"
        f" {share_of_rejections(found):.0%} rejected"
    )
    if arguments.compare:
        print(report(differences(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
