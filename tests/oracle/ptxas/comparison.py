"""Lay Drywell's verdicts beside the assembler's and tell the differences by family."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from drywell.isa.registry import declarations
from oracle.ptxas.assembler import Verdict
from oracle.ptxas.judge import judge
from oracle.ptxas.rows import Row, form_of


@dataclass(frozen=True, slots=True)
class Difference:
    """A row on which the two disagree: the family of its declaration, what each said."""

    family: str
    row: Row
    ptxas: str
    drywell: str

    def __str__(self) -> str:
        text = (
            self.row.text if len(self.row.text) < 160 else self.row.text[:100] + " ... " + self.row.text[-40:]
        )
        return f"{text}\n      ptxas: {self.ptxas or 'accepts'}\n      drywell: {self.drywell or 'accepts'}"


def differences(rows: Iterable[tuple[Row, Verdict]]) -> list[Difference]:
    """Return the rows on which the verdicts differ; rows that crash the assembler are left out."""
    families = {form_of(d): d.family for d in declarations()}
    asked = [(row, verdict) for row, verdict in rows if verdict.letter != "C"]
    own = judge([row.text for row, _ in asked])
    return [
        Difference(families.get(row.form, "?"), row, verdict.message if verdict.letter == "R" else "", said)
        for (row, verdict), said in zip(asked, own, strict=True)
        if (verdict.letter == "A") != (said == "")
    ]


def report(found: list[Difference], examples: int = 4) -> str:
    """Print the differences by family and declaration, most frequent first, with a few examples each."""
    by_family: dict[str, list[Difference]] = defaultdict(list)
    for difference in found:
        by_family[difference.family].append(difference)
    lines = [f"{len(found)} rows differ"]
    for family, group in sorted(by_family.items(), key=lambda item: -len(item[1])):
        lines.append(f"\n{family}: {len(group)}")
        kinds = Counter((d.row.form, d.row.origin, bool(d.ptxas)) for d in group)
        for (form, origin, is_refused), count in kinds.most_common():
            side = "ptxas refuses" if is_refused else "ptxas accepts"
            lines.append(f"  {count} x {side}, {origin}, of {form.partition(' :: ')[0]}")
            shown = [
                d for d in group if (d.row.form, d.row.origin, bool(d.ptxas)) == (form, origin, is_refused)
            ]
            lines += [f"    {d}" for d in shown[:examples]]
    return "\n".join(lines)
