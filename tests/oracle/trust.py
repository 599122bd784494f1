"""Write docs/trust.md: `PYTHONPATH=tests:src python -m oracle.trust`, or `make trust`.

The page is made of `oracle.evidence` alone; a test holds the committed page to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from drywell.isa.declare import Declaration
from drywell.isa.registry import declarations
from kernels.test_corpus_runs import KERNELS
from oracle.evidence import Evidence, Measured, evidence, measured
from oracle.hardware.known import KNOWN
from oracle.model import VARIANTS
from oracle.ptxas.rows import form_of
from oracle.test_model_agrees_kinds import COMMITTED

TEMPLATE = Path(__file__).parent / "trust_template.md"
PAGE = Path(__file__).parents[2] / "docs" / "trust.md"

STRENGTHS = {
    "B200": "words of a Blackwell GPU are reproduced",
    "H200": "words of a Hopper GPU are reproduced",
    "model": "an independent model gives the same words",
    "tests": "our own tests, which expect what the manual says",
    "nothing": "the manual alone: it is declared, parsed and judged, but no test looks at what it does",
}
"""What a declaration can stand on, strongest first."""
FAMILIES = sorted({d.family for d in declarations()})


def _number(n: int) -> str:
    return f"{n:,}" if n else "-"


_WORDS = ("instruction", "family", "strongest", "which means")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; the columns of `_WORDS` are words, the others numbers."""
    marks = ["---" if name in _WORDS else "---:" for name in head]
    return [f"| {' | '.join(cells)} |" for cells in (head, marks, *rows)]


# ---------------------------------------------------------------- summary


def _origin(found: Measured) -> str:
    """Say how much was measured, where and when."""
    if not found.experiments:
        return "None is captured yet."
    where = "; ".join(sorted({f"{o.gpu}, driver {o.driver}, CUDA {o.cuda}, {o.date}" for o in found.origins}))
    counts = (
        f"{found.words:,} words of {found.spellings:,} spellings in {found.experiments:,} kernels",
        *([f"{found.ends:,} kernels that it stopped"] if found.ends else []),
        *([f"{found.maps:,} tensor maps as its driver encodes them"] if found.maps else []),
        *([f"{found.differ:,} words that Drywell means to give otherwise"] if found.differ else []),
    )
    return f"{', '.join(counts)}: {where}."


def _strengths(known: dict[str, Evidence]) -> list[str]:
    counts = Counter(e.strongest for e in known.values())
    rows = [(name, text, _number(counts[name])) for name, text in STRENGTHS.items()]
    return _table(("strongest", "which means", "declarations"), rows)


def _families(known: dict[str, Evidence]) -> list[str]:
    rows = []
    for name in FAMILIES:
        here = [known[form_of(d)] for d in declarations() if d.family == name]
        counts = Counter(e.strongest for e in here)
        numbers = [
            len(here),
            sum(e.accepted + e.refused for e in here),
            sum(len(e.h200.spellings) for e in here),
            *(counts[strength] for strength in STRENGTHS),
        ]
        rows.append((f"[{name}](#{name})", *map(_number, numbers)))
    return _table(("family", "declarations", "ptxas rows", "H200 spellings", *STRENGTHS), rows)


def _differences() -> list[str]:
    """List where Drywell means to differ from the H200."""
    if not KNOWN:
        return []
    lines = ["", "## Where Drywell means to differ from the H200", ""]
    return [*lines, *(f"- {known.row}, `{known.experiment}`: {known.why}" for known in KNOWN), ""]


# ---------------------------------------------------------------- form by form


def _code(text: str) -> str:
    return "`" + text.rstrip(";").replace("|", "\\|") + "`"


def names(family: Sequence[Declaration]) -> list[str]:
    """Return a name for each declaration of a family: its head; where another has that too the whole syntax,
    and if need be the options in which they differ.
    """
    heads = Counter(_head(d) for d in family)
    out = []
    for d in family:
        if heads[_head(d)] == 1:
            out.append(_code(_head(d)))
        else:
            twins = [t for t in family if t.syntax == d.syntax]
            slots = [s for k, s in enumerate(d.slots) if len({t.slots[k].options for t in twins}) > 1]
            options = "; ".join(f"{s.name}: {' '.join(s.options)}" for s in slots)
            out.append(_code(d.syntax) + (f" ({options})" if options else ""))
    return out


def _head(declaration: Declaration) -> str:
    return declaration.syntax.rstrip(";").split(" ")[0]


def _hardware(e: Evidence) -> str:
    if not e.h200.spellings:
        return "-"
    found = ((e.h200.words, ""), (e.h200.differ, " differ"), (e.h200.ends, " ends"))
    parts = ", ".join(f"{count:,}{what}" for count, what in found if count)
    return f"{parts} ({len(e.h200.spellings)})"


_COLUMNS: dict[str, Callable[[Evidence], str]] = {
    "ptxas": lambda e: f"{e.accepted:,} + {e.refused:,}",
    "H200 words": _hardware,
    "B200 words": lambda e: _number(e.b200_words),
    "model words": lambda e: _number(e.model_words),
    "own tests": lambda e: _number(e.own_tests),
    "kernels": lambda e: _number(e.tests.get("kernels", 0)),
    "strongest": lambda e: e.strongest,
}


def _family(name: str, known: dict[str, Evidence]) -> list[str]:
    """Return the table of a family, without the columns that say nothing in it."""
    family = [d for d in declarations() if d.family == name]
    cells = {head: [show(known[form_of(d)]) for d in family] for head, show in _COLUMNS.items()}
    kept = {head: column for head, column in cells.items() if set(column) != {"-"}}
    rows = zip(names(family), *kept.values(), strict=True)
    return ["", f"### {name}", "", *_table(("instruction", *kept), rows)]


def page() -> str:
    """Return the whole page."""
    known = evidence()
    parts = {
        "strengths": _strengths(known),
        "families": _families(known),
        "differences": _differences(),
        "forms": [line for name in FAMILIES for line in _family(name, known)][1:],
    }
    return TEMPLATE.read_text(encoding="utf-8").format(
        h200=_origin(measured()),
        b200=sum(e.b200_words for e in known.values()),
        model=f"{COMMITTED * len(VARIANTS):,}",
        ptxas=f"{sum(e.accepted + e.refused for e in known.values()):,}",
        kernels=len(KERNELS),
        count=len(known),
        **{name: "\n".join(lines) for name, lines in parts.items()},
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(declarations())} declarations")
