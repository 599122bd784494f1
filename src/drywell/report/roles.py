"""What each warp did, as a table: its role in a word, and where it did its asynchronous and waiting work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from drywell.base.activity import WarpActivity
from drywell.base.span import Source, Span
from drywell.report.text import Line, Lines, Piece, columns, ranges

MOST_PLACES = 8
"""Places that are named of one thing that a warp did."""
ROLES = (
    ("tcgen05.mma", "running the tensor core"),
    ("tcgen05.ld", "reading Tensor Memory"),
    ("cp.async.bulk", "moving data by TMA"),
    ("tcgen05.st", "filling Tensor Memory"),
    ("cp.async", "copying to shared memory"),
)
"""A warp's role: the first of these spellings that it executed."""

SHOWN = (
    "tcgen05.alloc",
    "tcgen05.dealloc",
    "tcgen05.mma",
    "tcgen05.ld",
    "tcgen05.st",
    "tcgen05.cp",
    "tcgen05.shift",
    "tcgen05.commit",
    "tcgen05.wait",
    "cp.async",
    "cp.reduce",
    "mbarrier.arrive",
    "mbarrier.try_wait",
    "mbarrier.test_wait",
    "bar.sync",
    "bar.cta.sync",
    "barrier.sync",
    "barrier.cta.sync",
    "barrier.cluster",
    "setmaxnreg",
    "griddepcontrol",
)
"""Spellings worth a line in the table: what runs beside the warp, and what it waits for."""

_SPELLING = re.compile(r"[A-Za-z_][\w.:]*")
_DULL_WORDS = re.compile(
    r"\.(aligned|cta_group::[12]|shared::cta|shared::cluster|b32|b64|global|tile|mbarrier::\w+(::\w+)*|bulk_group)(?=\.|$)"
)


@dataclass(slots=True)
class Work:
    """What a group of warps did with one spelling: where, and how often each warp did it."""

    places: list[str] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)


def spelling_at(span: Span, source: Source) -> str:
    """Return the instruction written at a place, without its operands."""
    found = _SPELLING.match(source.line(span.line), max(0, span.col - 1))
    return found.group() if found else ""


def short(spelling: str) -> str:
    """Return a spelling without the words that say nothing about what it does.

    >>> short("tcgen05.ld.sync.aligned.32x32b.x32.b32"), short("bar.sync")
    ('tcgen05.ld.32x32b.x32', 'bar.sync')
    """
    words = _DULL_WORDS.sub("", spelling)
    return words.replace(".sync", "") if words.startswith("tcgen05.") else words


def _shown(activity: WarpActivity, source: Source) -> list[tuple[str, str, int]]:
    """Return (spelling, place, times) of what is worth showing, in program order."""
    found = [(spelling_at(span, source), span, count) for span, _, count in activity.sites]
    return [
        (short(s), span.loc or f"{span.file}:{span.line}", n) for s, span, n in found if s.startswith(SHOWN)
    ]


def role(spellings: Iterable[str]) -> str:
    """Return a warp's role in words, by what it executed."""
    known = tuple(spellings)
    return next((words for start, words in ROLES if any(s.startswith(start) for s in known)), "computing")


def folded_places(places: Sequence[str]) -> str:
    """Return places with the name of the file once: "gemm.cu:141, 142".

    >>> folded_places(["gemm.cu:141", "gemm.cu:142", "lib.h:3"])
    'gemm.cu:141, 142, lib.h:3'
    """
    out: list[str] = []
    last = ""
    for place in dict.fromkeys(places):
        name, _, line = place.rpartition(":")
        out.append(line if name == last else place)
        last = name
    return ", ".join(out)


def role_lines(activities: Sequence[WarpActivity], source: Source) -> Lines:
    """Return a table of what the warps of the first CTA did; warps of one role share their rows."""
    ctas = list(dict.fromkeys(a.cta for a in activities))
    if not ctas:
        return ()
    others = f", one of {len(ctas):,}" if len(ctas) > 1 else ""
    title: Line = (("What each warp did", "bold"), f" in CTA {','.join(map(str, ctas[0]))}{others}")
    return (title, *columns(_rows([a for a in activities if a.cta == ctas[0]], source), right=[1]))


def _rows(activities: Sequence[WarpActivity], source: Source) -> list[list[Piece]]:
    groups: dict[str, list[WarpActivity]] = {}
    for activity in activities:
        groups.setdefault(role(s for s, _, _ in _shown(activity, source)), []).append(activity)
    rows: list[list[Piece]] = []
    for name, members in groups.items():
        warps = [member.warp for member in members]
        executed = [sum(member.units.values()) for member in members]
        who = f"warp{'s' if len(warps) > 1 else ''} {ranges(warps)}"
        rows.append([(who, "bold cyan"), "", (name, "bold"), (f"{_span(executed)} instructions", "dim")])
        rows += [
            ["", f"{_span(list(work.counts.values()))} x", spelling, (_where(work, warps), "dim")]
            for spelling, work in _work(members, source).items()
        ]
    return rows


def _work(members: Sequence[WarpActivity], source: Source) -> dict[str, Work]:
    out: dict[str, Work] = {}
    for member in members:
        for spelling, place, count in _shown(member, source):
            work = out.setdefault(spelling, Work())
            work.places.append(place)
            work.counts[member.warp] += count
    return out


def _where(work: Work, warps: Sequence[int]) -> str:
    """Return the places, and the warps when not all of the group were there."""
    alone = f" (warp {ranges(sorted(work.counts))} only)" if len(work.counts) < len(warps) else ""
    places = list(dict.fromkeys(work.places))
    more = len(places) - MOST_PLACES
    return folded_places(places[:MOST_PLACES]) + (f" and {more} more" if more > 0 else "") + alone


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"
