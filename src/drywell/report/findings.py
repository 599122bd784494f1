"""Findings of a run as lines: what is wrong, then the line of the text of either party with who was there,
the author's own line of each, what would have made it right, and the hint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from textwrap import wrap

from drywell.base.diagnostic import Edit, Finding, Party, Severity
from drywell.base.span import Source, Span
from drywell.report.diagnostics import message_lines
from drywell.report.text import SEVERITY_STYLES, Line, Lines, counted, ranges

MOST_COLUMNS = 96
"""Characters of a line of PTX that an excerpt shows; loads of Tensor Memory name up to 128 registers."""
MOST_PLACES = {Severity.ERROR: 10, Severity.WARNING: 5}
"""Places of one rule that are shown in full."""
MOST_LINES = 8
"""Lines that a place names as going the same way."""
WIDTH = 120
"""Characters of a line of prose."""
_ALL = "all of them with --json or --sarif"
_GUTTER = 5
_CUT = "..."

Sources = Mapping[str, Source]
"""Texts by the name that places give them: the PTX, and the author's own as far as they are at hand."""


def sources_of(*texts: Source) -> dict[str, Source]:
    """Return texts by their names."""
    return {text.name: text for text in texts}


def finding_lines(findings: Iterable[Finding], sources: Sources | None = None) -> Lines:
    """Return findings as lines, each with an excerpt for either party whose text is in `sources`. What one
    rule says of one place stands together, with the lines of the other parties; of the places of one rule
    the first are shown, the others counted. What follows from a finding is named in a note of that. A note is
    two lines: hardware does as the author meant.
    """
    out: list[Line] = []
    for (rule, severity), alike in _groups(findings).items():
        if severity is Severity.NOTE:
            out += _quiet(alike[0])
            continue
        most = MOST_PLACES[severity]
        for group in alike[:most]:
            out += _finding(group, sources or {})
        more = sum(len(group) for group in alike[most:])
        if more > 0:
            places = counted(more, "more place")
            head = f"{severity}[{rule}]"
            out.append(((head, SEVERITY_STYLES[severity]), f": {places} ({_ALL})"))
    return tuple(out)


def told_apart(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first of those findings that stand together: as many as a reader has to look at."""
    return [group[0] for groups in _groups(findings).values() for group in groups]


def _groups(findings: Iterable[Finding]) -> dict[tuple[str, Severity], list[list[Finding]]]:
    """Return the findings that lead, by rule, in groups that stand together; notes of one rule are one."""
    by_rule: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in led(findings):
        by_rule.setdefault((finding.rule, finding.severity), []).append(finding)
    return {
        key: [members] if key[1] is Severity.NOTE else _alike(members) for key, members in by_rule.items()
    }


def led(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that have no cause among them, each with a note of those that follow from it."""
    found = list(findings)
    leaders = {(f.rule, f.span) for f in found if f.cause is None}
    followers: dict[tuple[str, Span], list[Finding]] = {}
    out = []
    for finding in found:
        cause = finding.cause
        if cause is not None and (cause.rule, cause.span) in leaders:
            followers.setdefault((cause.rule, cause.span), []).append(finding)
        else:
            out.append(finding)
    for k, finding in enumerate(out):
        behind = followers.pop((finding.rule, finding.span), ())
        if behind:
            rules = dict.fromkeys(f.rule for f in behind)
            said = "; ".join(f"{r} at {_lines([f.span.line for f in behind if f.rule == r])}" for r in rules)
            notes = (finding.note, f"for the same reason: {said}")
            out[k] = replace(finding, note="\n".join(note for note in notes if note))
    return out


def _alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return findings of one rule in groups: in each every one shares its place, the other party's, or the
    first edit that may repair it, with one before it.
    """
    groups: list[list[Finding]] = []
    spots: list[set[tuple[str, Span | Edit]]] = []
    for finding in findings:
        here: set[tuple[str, Span | Edit]] = {("by", edit) for edit in finding.edits[:1]}
        if finding.other is not None:
            here |= {("at", finding.span), ("with", finding.other)}
        for group, known in zip(groups, spots, strict=True):
            if known & here:
                group.append(finding)
                known |= here
                break
        else:
            groups.append([finding])
            spots.append(here)
    return groups


def _quiet(findings: list[Finding]) -> list[Line]:
    """Return the notes of one rule: the first, how often there was such, and its hint."""
    first = findings[0]
    times = sum(finding.count for finding in findings)
    often = f" ({times:,} times)" if times > 1 else ""
    out = _folded(f"{_place(first.span)}note[{first.rule}]: {first.message}{often}")
    if first.hint:
        out += _folded(f"  hint: {first.hint}")
    return out


def _finding(group: list[Finding], sources: Sources) -> Lines:
    finding = group[0]
    if finding.message.startswith(f"{finding.severity}["):  # a report of its own, such as a deadlock's
        return tuple(line for text in finding.message.split("\n") for line in _folded(text))
    span = finding.span
    out = _folded(f"{_place(span)}{finding.severity}[{finding.rule}]: {finding.message}")
    out += party_lines(span, _who(Party("", finding.cta, finding.warp, finding.lanes)), sources)
    notes = finding.note.split("\n") if finding.note else []
    other, who = finding.other, _who(finding.other_party)
    if other is not None and other != span:
        out += party_lines(other, who, sources)
    elif other is not None and who:
        notes.insert(0, f"the other party is at the same line: {who}")
    notes += _others(group)
    if finding.count > 1 and span.line:
        notes.append(f"it happened {finding.count:,} times")
    out += [line for note in notes for line in _folded(f"  note: {note}")]
    hint = _hint(group)
    if hint:
        out += [line for part in hint.split("\n") for line in _folded(f"  hint: {part}", 2)]
    return tuple(out)


def _hint(group: list[Finding]) -> str:
    """Return the hint that may do for a whole group."""
    able = [finding for finding in group if finding.edits]
    return min(able, key=lambda f: f.edits[0].turn).hint if able else group[0].hint


def _others(group: list[Finding]) -> list[str]:
    """Name the lines of the findings that stand behind the first of a group."""
    first = group[0]
    with_other = [f.other.line for f in group[1:] if f.other is not None and f.span == first.span]
    at_others = [f.span.line for f in group[1:] if f.span != first.span]
    said = (("the same with", with_other), ("the same at", at_others))
    return [f"{words} {_lines(lines)}" for words, lines in said if lines]


def _lines(numbers: list[int]) -> str:
    """Name lines of the text: "lines 70, 82, 94", the first few of many."""
    shown = [str(number) for number in sorted(set(numbers))]
    more = len(shown) - MOST_LINES
    if more > 0:
        return f"lines {', '.join(shown[:MOST_LINES])} and {more} more ({_ALL})"
    return f"line{'s' if len(shown) > 1 else ''} {', '.join(shown)}"


def _place(span: Span) -> str:
    return f"{span}: " if span.line else f"{span.file}: " if span.file else ""


def _folded(text: str, indent: int = 4) -> list[Line]:
    """Return a message as lines of at most WIDTH characters; those behind the first are set in."""
    parts = wrap(
        text,
        WIDTH,
        subsequent_indent=" " * (len(text) - len(text.lstrip()) + indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return list(message_lines("\n".join(parts)))


def party_lines(span: Span, who: str, sources: Sources) -> Lines:
    """Return one party's place: the line of PTX with a caret and who was there, and the author's own line."""
    source = sources.get(span.file)
    if not span.line or source is None:
        text = f"{span}: {who}" if span.line and who else who
        return ((("  note:", "cyan"), f" {text}{_compiled(span)}"),) if text else ()
    text, column = excerpt(source.line(span.line), span.col, span.length)
    length = min(span.length, max(1, len(text) - column + 1))
    gutter = f"{span.line:{_GUTTER}d} | "
    remark = f" {who}" if who else ""
    caret = (" " * _GUTTER + " | " + " " * (column - 1), ("^" * length + remark, "red"))
    return ((gutter + text,), caret, *_own_line(span, sources))


def excerpt(text: str, column: int, length: int) -> tuple[str, int]:
    """Return at most MOST_COLUMNS of a line of text around a place, and the place's column in that.

    >>> excerpt("  ret;", 3, 3)
    ('  ret;', 3)
    """
    text = text.replace("\t", " ")
    if len(text) <= MOST_COLUMNS:
        return text, column
    first = max(0, min(column - 1 + length + len(_CUT) - MOST_COLUMNS, column - 1 - len(_CUT)))
    head = _CUT if first else ""
    body = text[first + len(head) :][: MOST_COLUMNS - len(head) - len(_CUT)]
    is_whole = first + len(head) + len(body) >= len(text)
    return head + body + ("" if is_whole else _CUT), column - first


def _own_line(span: Span, sources: Sources) -> Lines:
    """Return where in the author's own text it was compiled from, with that line if the text is at hand."""
    if not span.loc:
        return ()
    name, _, number = span.loc.rpartition(":")
    own = sources.get(name)
    text = own.line(int(number)).strip() if own is not None and number.isdigit() else ""
    if not text:
        return ((" " * _GUTTER + " = ", "compiled from ", (span.loc, "bold")),)
    return ((" " * _GUTTER + " = ", (span.loc, "bold"), f": {excerpt(text, 1, len(text))[0]}"),)


def _compiled(span: Span) -> str:
    return f", compiled from {span.loc}" if span.loc else ""


def _who(party: Party | None) -> str:
    """Say who a party is: "CTA 0,0,0, warp 5, lane 0"."""
    if party is None or party.cta is None:
        return party.what if party is not None else ""
    lanes = ""
    if party.lanes and len(party.lanes) < 32:
        lanes = f", lane{'s' if len(party.lanes) > 1 else ''} {ranges(party.lanes)}"
    warp = "" if party.warp is None or party.warp < 0 else f", warp {party.warp}"
    return f"CTA {','.join(map(str, party.cta))}{warp}{lanes}"
