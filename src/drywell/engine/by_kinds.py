"""A launch judged by kinds: all clusters run at full speed, and of those that did the same one is judged.

Everything runs as with check="off", but for the digests (`kinds`). Then of every kind that is not known yet
the first cluster is run again alone, observed, from the global memory with which the launch began. Where
anything is not as it should be, the launch is run again as a whole, observed, as if nothing had been tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from drywell.base.events import Observer
from drywell.base.last_used import FoundOnce
from drywell.base.span import Span
from drywell.engine.footprints import are_apart, written_arrays
from drywell.engine.kinds import MOST_PLACES, MOST_WARPS, Kinds, Seen
from drywell.engine.told import divisions, why_not
from drywell.program.link import Executable

Digest = tuple[int, ...]
Found = Any
"""What a judge says of a cluster; only the judge knows how to read it."""

MOST_KNOWN = 4096
"""Kinds that are known of one of them at most."""


class Judge(Protocol):
    """Judges clusters one at a time. `key` is what its verdicts depend on besides what the cluster does, and
    `names` what its words depend on.
    """

    key: Hashable
    names: Hashable

    def observer(self, compared: frozenset[Span]) -> Observer:
        """Return an observer for one cluster, in a run that tells whether the stores at the places `compared`
        change anything.
        """

    def found(self, observer: Any) -> Found | None:
        """Return what an observer has found at the end; None when it takes the whole launch to say."""

    def to_compare(self, observer: Any) -> frozenset[Span]:
        """Return the places of stores that changed nothing, where that would have made a difference."""

    def is_silent(self, found: Found) -> bool:
        """Say whether nothing was found."""

    def joined(self, found: list[tuple[Found, int]]) -> Any:
        """Return what there is to say of a launch, given what was found of each kind and how many clusters
        are of it, in the order of their first clusters.
        """


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of a kind: which cluster was judged, under which names, and what was found."""

    first: int
    names: Hashable
    found: Found


@dataclass(slots=True)
class Known:
    """The kinds known of a program that is run in one way, launches that are not for this, and the places of
    stores of which it is told whether they change anything.
    """

    kinds: dict[Digest, Judged] = field(default_factory=dict)
    refused: set[Hashable] = field(default_factory=set)
    compared: frozenset[Span] = frozenset()


@dataclass(frozen=True, slots=True)
class Alone:
    """What a cluster did that ran alone."""

    is_clean_run: bool
    kinds: Kinds


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say of a launch, how many clusters were judged for it, and how many there are."""

    findings: Any
    num_judged: int
    num_clusters: int


_known: FoundOnce[Known] = FoundOnce()


def known_of(executable: Executable, key: Hashable) -> Known:
    """Return what is known of the kinds of an executable run in the way `key`."""
    return _known.of(executable.program, Known, executable.entry.name, key)


def may_compare(executable: Executable, num_clusters: int, num_warps: int) -> bool:
    """Say whether the clusters of a launch can be compared; a cluster has `num_warps` warps."""
    last = executable.functions[-1]
    places = last.pc_base + len(last.function.code) + 1
    fits = places < MOST_PLACES and num_warps < MOST_WARPS
    return num_clusters > 1 and fits and facts_of(executable).is_followed


@dataclass(frozen=True, slots=True)
class Facts:
    """What the text of a program says: whether all of it can be followed, and `told.divisions`."""

    is_followed: bool
    divisions: dict[int, int]


def facts_of(executable: Executable) -> Facts:
    """Return what the text of an executable says, found once per program and entry."""

    def find() -> Facts:
        return Facts(why_not(executable) is None, divisions(executable))

    return _facts.of(executable.program, find, executable.entry.name)


_facts: FoundOnce[Facts] = FoundOnce()


def judge_kinds(
    ran: Kinds, known: Known, judge: Judge, alone: Callable[[int, Observer], Alone]
) -> Verdict | None:
    """Judge what clusters did in a run that came to its end; `alone(first, observer)` runs one again. None
    when they cannot be judged so.
    """
    written, log = None, ran.log
    if log is not None:
        written = written_arrays(log, ran.numbers, ran.plan)
    if log is None or written is None or not are_apart(log, ran.numbers, ran.plan, written):
        return None
    seen = ran.seen(written)
    groups: dict[Digest, list[Seen]] = {}
    for one in seen:
        groups.setdefault(one.digest, []).append(one)
    if not all(one.is_plain for one in seen):
        return None
    new = {d: g[0].first for d, g in groups.items() if not _is_known(known.kinds.get(d), g[0].first, judge)}
    if len(new) > max(8, len(seen) // 4):
        return None
    for digest, first in new.items():
        observer = judge.observer(known.compared)
        rerun = alone(first, observer)
        if not rerun.is_clean_run or not _is_same(rerun.kinds, written, digest):
            return None
        found = judge.found(observer)
        if found is None:
            more = judge.to_compare(observer) - known.compared
            known.compared, known.kinds = known.compared | more, {} if more else known.kinds
            return None
        if len(known.kinds) >= MOST_KNOWN:
            known.kinds.clear()
        known.kinds[digest] = Judged(first, judge.names, found)
    parts = [(known.kinds[d].found, len(g)) for d, g in groups.items()]
    return Verdict(judge.joined(parts), len(new), len(seen))


def _is_known(judged: Judged | None, first: int, judge: Judge) -> bool:
    """Say whether what is known of a kind holds in a launch in which this cluster is its first."""
    if judged is None:
        return False
    return judge.is_silent(judged.found) or (judged.first, judged.names) == (first, judge.names)


def _is_same(rerun: Kinds, written: Collection[int], digest: Digest) -> bool:
    """Say whether a cluster did alone what it did among the others, and all of that was told."""
    (seen,) = rerun.seen(written)
    return seen.is_plain and seen.digest == digest and not rerun.has_unwritten
