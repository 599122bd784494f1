"""Findings as a SARIF 2.1.0 log: what code hosts and editors read.

A finding's own place is a location of the PTX text; the other party, and the lines of the author's own source
that `.loc` names, are related locations. Source: OASIS SARIF 2.1.0 with errata 01.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from drywell.base.diagnostic import Diagnostic, Finding, Severity
from drywell.base.span import Source, Span
from drywell.report.explain import Explanation, explanations

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
FINGERPRINT: Final = "drywellFinding/v1"
NOT_RUN: Final = ("unsupported", "budget", "bad_input")
"""Verdicts of runs that did not come to their end for a reason that is not the kernel's."""

Json = dict[str, Any]


def sarif_log(
    verdict: str,
    findings: Sequence[Finding],
    version: str,
    diagnostics: Sequence[Diagnostic] = (),
    sources: Mapping[str, Source] | None = None,
    paths: Mapping[str, str] | None = None,
    message: str = "",
    exit_code: int = 0,
) -> Json:
    """Return the log of one run. `sources` are texts by name, for excerpts and fingerprints, `paths` where
    their files are, relative to where the log is read; `message` says why a run did not come to its end.
    """
    said = [*findings, *(_of_diagnostic(d) for d in diagnostics)]
    names = list(dict.fromkeys(f.rule for f in said))
    results = [_result(f, names.index(f.rule), sources or {}) for f in said]
    driver: Json = {"name": "Drywell", "version": version, "rules": [_rule(name) for name in names]}
    run: Json = {
        "tool": {"driver": driver},
        "invocations": [_invocation(verdict, message, exit_code)],
        "artifacts": [{"location": {"uri": name}} for name in _files(said)],
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {"verdict": verdict},
    }
    _finish(run, paths or {})
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _of_diagnostic(d: Diagnostic) -> Finding:
    return Finding(d.code, d.severity, d.message, d.span, hint=d.hint, note="; ".join(d.notes))


def _invocation(verdict: str, message: str, exit_code: int) -> Json:
    out: Json = {"executionSuccessful": verdict not in NOT_RUN, "exitCode": exit_code}
    if verdict in NOT_RUN:
        text = message or verdict
        out["toolExecutionNotifications"] = [{"level": "error", "message": {"text": text}}]
    return out


def _rule(name: str) -> Json:
    """Return the descriptor of a rule, with its page as help."""
    page = explanations().get(name)
    if page is None:
        return {"id": name}
    out: Json = {
        "id": name,
        "shortDescription": {"text": page.summary},
        "help": {"text": str(page), "markdown": _markdown(page)},
        "properties": {"tags": [page.chapter], "severities": dict(page.severities)},
    }
    if page.means:
        out["fullDescription"] = {"text": " ".join(page.means.split())}
    return out


def _markdown(page: Explanation) -> str:
    if not page.means:
        return page.summary
    examples = "".join(
        f"**{title}**\n\n```ptx\n{text}\n```\n\n"
        for title, text in (("Wrong", page.wrong), ("Right", page.right))
    )
    sources = "\n".join(f"- {source}" for source in page.source)
    return (
        f"{page.summary}\n\n{page.means}\n\n**On hardware**: {page.hardware}\n\n"
        f"{examples}**Fix**: {page.fix}\n\n{sources}"
    )


def _result(finding: Finding, index: int, sources: Mapping[str, Source]) -> Json:
    out: Json = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "occurrenceCount": finding.count,
        "properties": _properties(finding),
    }
    if finding.span.line:
        out["locations"] = [{"physicalLocation": _physical(finding.span, sources)}]
        out["partialFingerprints"] = {FINGERPRINT: fingerprint(finding, sources)}
    related = _related(finding, sources)
    if related:
        out["relatedLocations"] = related
    return out


def _message(finding: Finding) -> str:
    parts = [
        finding.message,
        finding.note and "\n".join(f"Note: {note}" for note in finding.note.split("\n")),
        finding.hint and f"Hint: {finding.hint}",
    ]
    return "\n".join(part for part in parts if part)


def _properties(finding: Finding) -> Json:
    """Return what SARIF has no field for: who, and where in memory."""
    out: Json = {}
    for name in ("cta", "warp", "cycle"):
        if getattr(finding, name) is not None:
            out[name] = getattr(finding, name)
    if finding.lanes:
        out["lanes"] = list(finding.lanes)
    if finding.place is not None:
        place = finding.place
        out["place"] = {"space": place.space, "name": place.name, "count": place.count}
    if finding.other_party is not None:
        party = finding.other_party
        out["otherParty"] = {
            "what": party.what,
            "cta": party.cta,
            "warp": party.warp,
            "lanes": list(party.lanes),
        }
    if finding.cause is not None:
        out["followsFrom"] = {"ruleId": finding.cause.rule, "line": finding.cause.span.line}
    return out


def _physical(span: Span, sources: Mapping[str, Source]) -> Json:
    region: Json = {"startLine": span.line}
    if span.col:
        region |= {"startColumn": span.col, "endColumn": span.col + max(1, span.length)}
    source = sources.get(span.file)
    if source is not None:
        region["snippet"] = {"text": source.line(span.line)}
    return {"artifactLocation": {"uri": span.file}, "region": region}


def _related(finding: Finding, sources: Mapping[str, Source]) -> list[Json]:
    """Return the other party's place, and the author's own lines of both."""
    out: list[Json] = []
    if finding.other is not None and finding.other.line:
        what = finding.other_party.what if finding.other_party is not None else ""
        text = f"the other party: {what}" if what else "the other party"
        out.append(_location(finding.other, text, sources))
    for span, whose in (
        (finding.span, "compiled from"),
        (finding.other, "the other party was compiled from"),
    ):
        name, _, line = (span.loc if span is not None else "").rpartition(":")
        if name and line.isdigit() and int(line):
            out.append(_location(Span(name, int(line), 0), f"{whose} {name}:{line}", sources))
    return out


def _location(span: Span, text: str, sources: Mapping[str, Source]) -> Json:
    return {"physicalLocation": _physical(span, sources), "message": {"text": text}}


def _finish(part: Any, paths: Mapping[str, str]) -> None:
    """Put paths in place of names, and number the related locations of each result, as viewers want it."""
    if isinstance(part, list):
        for one in part:
            _finish(one, paths)
    elif isinstance(part, dict):
        if "uri" in part:
            part["uri"] = quote(paths.get(part["uri"], part["uri"]))
        for k, location in enumerate(part.get("relatedLocations", ()), 1):
            location["id"] = k
        for one in part.values():
            _finish(one, paths)


def _files(findings: Sequence[Finding]) -> list[str]:
    spans = [span for f in findings for span in (f.span, f.other) if span is not None and span.line]
    names = [span.file for span in spans] + [span.loc.rpartition(":")[0] for span in spans]
    return [name for name in dict.fromkeys(names) if name]


def fingerprint(finding: Finding, sources: Mapping[str, Source]) -> str:
    """Return what stays the same from run to run and when lines move: rule and texts of both lines."""
    texts = [finding.rule]
    for span in (finding.span, finding.other):
        if span is not None and span.line:
            source = sources.get(span.file)
            texts.append(" ".join(source.line(span.line).split()) if source else str(span))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
