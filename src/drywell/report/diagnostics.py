"""Diagnostics of a text as lines: the place, the line of the text with a caret, notes and the hint."""

from __future__ import annotations

import re
from collections.abc import Iterable

from drywell.base.diagnostic import Diagnostic, Finding, Severity
from drywell.base.span import Source, Span
from drywell.report.text import SEVERITY_STYLES, Line, Lines, counted

_HEAD = re.compile(
    r"(?P<place>.*?)(?P<severity>error|warning|note|unsupported)(?P<code>\[[\w-]+\]|)(?P<rest>: .*)",
    re.DOTALL,
)
_CARET = re.compile(r"(?P<gutter> +\| *)(?P<caret>\^+)(?P<rest>.*)")


def diagnostic_lines(diagnostics: Iterable[Diagnostic], source: Source | None = None) -> Lines:
    """Return all diagnostics as lines, in their order."""
    return tuple(line for d in diagnostics for line in message_lines(d.render(_one_line(source, d))))


def _one_line(source: Source | None, diagnostic: Diagnostic) -> Source | None:
    """Return the source if the place is in it: an excerpt of another file would mislead."""
    return source if source is not None and diagnostic.span.file == source.name else None


def message_lines(message: str) -> Lines:
    """Return a message in the form of style.md as styled lines: `place: severity[CODE]: text`, an excerpt,
    notes, a hint.
    """
    return tuple(_styled(text) for text in message.split("\n"))


def unsupported_lines(message: str, span: Span, source: Source | None = None) -> Lines:
    """Return why something cannot be executed, with its place in the text if it has one."""
    if not span.line:
        return message_lines(f"unsupported: {message}")
    return diagnostic_lines([Diagnostic("UNSUPPORTED", message.removeprefix(f"{span}: "), span)], source)


def _styled(text: str) -> Line:
    caret = _CARET.fullmatch(text)
    if caret:
        return (caret["gutter"], (caret["caret"] + caret["rest"], "red"))
    head = _HEAD.fullmatch(text)
    if head and not text.startswith(" "):
        style = SEVERITY_STYLES[head["severity"]]
        return ((head["place"], "bold"), (head["severity"] + head["code"], style), head["rest"])
    for word, style in (("  hint:", "cyan"), ("  note:", "cyan")):
        if text.startswith(word):
            return ((word, style), text[len(word) :])
    return (text,)


def summary(diagnostics: Iterable[Diagnostic | Finding]) -> str:
    """Return "2 errors, 1 warning", "nothing wrong" when there are none."""
    found = [d.severity for d in diagnostics]
    parts = [counted(found.count(s), str(s)) for s in Severity if s in found]
    return ", ".join(parts) or "nothing wrong"
