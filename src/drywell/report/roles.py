"""What each warp did, as a table: its role in a word, and where it did its asynchronous and waiting work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from drywell.base.activity import WarpActivity
from drywell.base.span import Source, Span
from drywell.report.text import Line, Lines, Piece, columns, counted, ranges

ROLES = (
    ("tcgen05.mma", "runs the tensor core"),
    ("tcgen05.ld", "reads Tensor Memory"),
    ("cp.async.bulk", "moves data by TMA"),
    ("tcgen05.st", "fills Tensor Memory"),
    ("cp.async", "copies to shared memory"),
)
"""A warp's role: the first of these spellings that it executed."""

SHOWN = (
    "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.mma", "tcgen05.ld", "tcgen05.st", "tcgen05.cp", "tcgen05.shift",
    "tcgen05.commit", "tcgen05.wait", "cp.async", "cp.reduce", "mbarrier.arrive", "mbarrier.try_wait", "mbarrier.test_wait",
    "bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync", "barrier.cluster", "setmaxnreg", "griddepcontrol",
)
"""Spellings worth a line in the table: what runs beside the warp, and what it waits for."""

MOST_CTAS = 1
_SPELLING = re.compile(r"[A-Za-z_][\w.:]*")
_DULL_WORDS = re.compile(
    r"\.(sync|aligned|cta_group::[12]|shared::cta|shared::cluster|b32|b64|global|tile|mbarrier::\w+(::\w+)*|bulk_group)(?=\.|$)"
)


@dataclass(frozen=True, slots=True)
class Site:
    """One place where a warp worked: the spelling there, the author's line ('' = not known, then the PTX line), times executed."""

    spelling: str
    place: str
    count: int


def spelling_at(span: Span, source: Source) -> str:
    """Return the instruction written at a place, without its operands."""
    found = _SPELLING.match(source.line(span.line), max(0, span.col - 1))
    return found.group() if found else ""


def short(spelling: str) -> str:
    """Return a spelling without the words that say nothing about what it does.

    >>> short("tcgen05.ld.sync.aligned.32x32b.x32.b32")
    'tcgen05.ld.32x32b.x32'
    """
    return _DULL_WORDS.sub("", spelling)


def sites(activity: WarpActivity, source: Source) -> tuple[Site, ...]:
    """Return the places worth showing, in program order; those of one spelling on one line of the author's are one."""
    counts: Counter[tuple[str, str]] = Counter()
    for span, _, count in activity.sites:
        spelling = spelling_at(span, source)
        if spelling.startswith(SHOWN):
            counts[short(spelling), span.loc or f"{span.file}:{span.line}"] += count
    return tuple(Site(spelling, place, count) for (spelling, place), count in counts.items())


def role(found: Sequence[Site]) -> str:
    """Return a warp's role in words, by what it executed."""
    spellings = [site.spelling for site in found]
    return next((words for start, words in ROLES if any(s.startswith(start) for s in spellings)), "computes")


def role_lines(activities: Sequence[WarpActivity], source: Source) -> Lines:
    """Return a table of what the warps of the first CTA did; warps that did the same share their rows."""
    by_cta: dict[tuple[int, int, int], list[WarpActivity]] = {}
    for activity in activities:
        by_cta.setdefault(activity.cta, []).append(activity)
    out: list[Line] = []
    for cta in list(by_cta)[:MOST_CTAS]:
        out.append((("What each warp did", "bold"), f" in CTA {','.join(map(str, cta))}{_others(len(by_cta))}"))
        out += columns(_rows(by_cta[cta], source), right=[1])
    return tuple(out)


def _others(num_ctas: int) -> str:
    return f", one of {num_ctas:,}" if num_ctas > 1 else ""


def _rows(activities: Sequence[WarpActivity], source: Source) -> list[list[Piece]]:
    groups: list[tuple[list[int], tuple[Site, ...], int]] = []
    for activity in activities:
        found = sites(activity, source)
        executed = sum(activity.units.values())
        same = next((g for g in groups if {s.spelling for s in g[1]} == {s.spelling for s in found}), None)
        if same is None:
            groups.append(([activity.warp], found, executed))
        else:
            same[0].append(activity.warp)
    rows: list[list[Piece]] = []
    for warps, found, executed in groups:
        each = " each" if len(warps) > 1 else ""
        name = f"{'warps' if len(warps) > 1 else 'warp'} {ranges(warps)}"
        rows.append([(name, "bold cyan"), "", (role(found), "bold"), (f"{counted(executed, 'instruction')}{each}", "dim")])
        rows += [["", f"{site.count:,} x", site.spelling, (site.place, "dim")] for site in found]
    return rows
