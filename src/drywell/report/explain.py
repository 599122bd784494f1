"""`drywell explain`: a page for every rule, and what is known of every code of a diagnostic.

The pages are data: `explanations/CHAPTER.toml` has a table per rule with the sections of `Explanation`. A
test holds that every rule has one, that every section is there, and that the examples are legal PTX.
"""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Final

from drywell.base.diagnostic import Severity
from drywell.base.errors import DrywellError
from drywell.base.record import record
from drywell.observe.hazards.rules import LEVELS, RULES
from drywell.ptx.codes import CODES
from drywell.report.text import SEVERITY_STYLES, Line, Lines, Piece, columns

CHAPTERS: Final = ("tensor_memory", "cta_pairs", "shared_memory", "barriers", "results", "faults")
SECTIONS: Final = ("summary", "means", "hardware", "wrong", "right", "fix", "source")
TEXTS: Final = "Codes of texts and layouts"


@record
class Explanation:
    """The page of a rule: what it means, what hardware does, the smallest example wrong and right (PTX),
    the fix and where PTX says so. `severities` is how bad it is per level ("silent" for not at all); a
    fault stops the kernel at every level. A code of a diagnostic (E0312) has a summary only.
    """

    rule: str
    chapter: str
    summary: str
    severities: tuple[tuple[str, str], ...]
    means: str = ""
    hardware: str = ""
    wrong: str = ""
    right: str = ""
    fix: str = ""
    source: tuple[str, ...] = ()

    def __str__(self) -> str:
        from drywell.report.text import plain

        return plain(explanation_lines(self)).rstrip("\n")


_WARNINGS = ("E0303", "E0340", "E0341", "E0342", "E0343")
"""Codes of texts that are legal all the same."""


@cache
def explanations() -> dict[str, Explanation]:
    """Return every page by its rule, chapter after chapter, then the codes."""
    out: dict[str, Explanation] = {}
    for chapter in CHAPTERS:
        table = _read(chapter)
        title = table.pop("title")
        for rule, sections in table.items():
            out[rule] = _page(rule, title, sections)
    codes = {**CODES, **_read("codes")["codes"]}
    for code in sorted(codes):
        severity = "warning" if code in _WARNINGS else "error"
        where = "in a layout or descriptor" if code.startswith("E04") else "in a text"
        out[code] = Explanation(code, TEXTS, codes[code], ((where, severity),))
    return out


def _read(chapter: str) -> dict[str, Any]:
    text = (files(__package__) / "explanations" / f"{chapter}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _page(rule: str, chapter: str, sections: dict[str, Any]) -> Explanation:
    texts = {name: text.strip() for name, text in sections.items() if isinstance(text, str)}
    return Explanation(
        rule, chapter, severities=_severities(rule), source=tuple(sections.get("source", ())), **texts
    )


def _severities(rule: str) -> tuple[tuple[str, str], ...]:
    found = RULES.get(rule)
    if found is None:
        return (("every level", _ALWAYS.get(rule, Severity.ERROR)),)
    return tuple((level, str(found.severity(level) or "silent")) for level in LEVELS if level != "off")


_ALWAYS: Final = {"NUM-APPROX": Severity.NOTE, "COLLECTOR-MISUSE": Severity.WARNING}
"""Severity of what is said whatever the level, but for faults."""


def explain(rule: str) -> Explanation:
    """Return the page of a rule ("TMEM-UNINIT") or what is known of a code ("E0312"); printing it shows it.

    DrywellError when there is no such rule, with names that are near.

    >>> explain("TMEM-UNINIT").chapter
    'Tensor Memory and tcgen05'
    """
    found = explanations().get(rule.strip().strip("[]").upper())
    if found is None:
        raise DrywellError(unknown(rule))
    return found


def unknown(rule: str) -> str:
    """Say that there is no such rule, and which names are near."""
    wanted = rule.strip().upper()
    known = list(explanations())
    near = difflib.get_close_matches(wanted, known, 3, 0.6)
    near = near or [name for name in known if wanted and wanted in name][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else "drywell explain lists all rules"
    return f"there is no rule or code '{rule}'; {hint}"


# on a terminal


def explanation_lines(page: Explanation) -> Lines:
    """Return a page as lines."""
    out: list[Line] = [((page.rule, "bold"), ": ", page.summary), _severity_line(page)]
    if not page.means:
        return (*out, ("  The message says what was found and what was needed, with a hint.",))
    out += [(), *_paragraph(page.means), (), *_section("On hardware", page.hardware)]
    for title, text, style in (("Wrong", page.wrong, "red"), ("Right", page.right, "green")):
        out += [(), ((title, f"bold {style}"),), *((f"    {line}",) for line in text.split("\n"))]
    out += [(), *_section("Fix", page.fix), ()]
    return (*out, *((("Source: ", "dim"), source) for source in page.source))


def _severity_line(page: Explanation) -> Line:
    pieces: list[Piece] = [(f"  {page.chapter}; ", "dim")]
    for k, (level, severity) in enumerate(page.severities):
        pieces += [", " if k else "", f"{level}: ", (severity, SEVERITY_STYLES.get(severity, "dim"))]
    return tuple(pieces)


def _paragraph(text: str) -> Lines:
    return tuple((line,) for line in text.split("\n"))


def _section(title: str, text: str) -> Lines:
    first, *rest = text.split("\n")
    return (((title, "bold"), f": {first}"), *((line,) for line in rest))


def list_lines() -> Lines:
    """Return all rules by chapter, one line each."""
    out: list[Line] = []
    by_chapter: dict[str, list[Explanation]] = {}
    for page in explanations().values():
        by_chapter.setdefault(page.chapter, []).append(page)
    for chapter, pages in by_chapter.items():
        rows: list[list[Piece]] = [[(page.rule, "bold"), _worst(page), page.summary] for page in pages]
        out += [((chapter, "bold cyan"),), *columns(rows), ()]
    return (*out, ("drywell explain RULE says what it means, with an example and the fix.",))


def _worst(page: Explanation) -> Piece:
    """Return the severity at the default level, `ptx`, or that at every level."""
    severity = dict(page.severities).get("ptx") or page.severities[0][1]
    return (severity, SEVERITY_STYLES.get(severity, "dim"))
