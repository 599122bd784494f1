"""How a launch is watched: the checker of a level, the observer of roles, and names for what they find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from drywell.base.diagnostic import Finding, Severity
from drywell.base.errors import LaunchError, UnsupportedError
from drywell.base.events import Access, Event, Observer
from drywell.base.last_used import FoundOnce
from drywell.base.span import Span
from drywell.engine.run import smem_symbols
from drywell.machine.gmem import GlobalMemory
from drywell.machine.smem import SmemSymbol, name_in
from drywell.machine.windows import OFFSET_MASK
from drywell.observe.cell_history import CellHistory
from drywell.observe.hazards.checker import Checker, Told
from drywell.observe.hazards.declared import Declared
from drywell.observe.hazards.report import in_turn
from drywell.observe.hazards.rules import LEVELS, Level
from drywell.observe.ledger import Ledgers
from drywell.observe.moments import FindingMoments, Moments
from drywell.observe.roles import Roles
from drywell.observe.tensor_memory import TmemMap
from drywell.observe.timeline import Timeline
from drywell.program.arrivals import byte_barriers
from drywell.program.link import Executable
from drywell.program.stored_types import f32_stores

Dim3 = tuple[int, int, int]
_OBSERVABLE = ("tmem", "roles", "ledgers", "history", "timeline")


@dataclass(frozen=True, slots=True)
class Watch:
    """Those who watch one launch; None stands for one that was not asked for, `others` are the caller's."""

    tmem_map: TmemMap | None
    checker: Checker | None
    roles: Roles | None
    ledgers: Ledgers | None = None
    timeline: Timeline | None = None
    others: tuple[Observer, ...] = ()
    moments: Moments | None = None
    history: CellHistory | None = None
    finding_moments: FindingMoments | None = None

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Return those that are there: who says when it is first, who dates findings behind the checker."""
        every = (
            self.moments, self.tmem_map, self.checker, self.roles, self.ledgers, self.history,
            self.finding_moments,
        )  # fmt: skip
        return (*(o for o in every if o is not None), *self.others)


def watch_of(
    check: str,
    observe: Sequence[str],
    executable: Executable,
    gmem: GlobalMemory,
    grid: Dim3,
    declared: Sequence[Declared] = (),
    ghz: float = 1.0,
    others: Sequence[Observer] = (),
) -> Watch:
    """Return who watches a launch at the level `check`, on SMs of `ghz`; UnsupportedError for what cannot be
    observed.
    """
    for what in observe:
        if what not in _OBSERVABLE:
            raise UnsupportedError(f"observe='{what}': only {', '.join(_OBSERVABLE)} can be observed yet")
    checker = make_checker(level_of(check), gmem, executable, grid, declared)
    symbols = smem_symbols(executable)
    has_history = "history" in observe
    moments = Moments() if has_history or "ledgers" in observe else None
    return Watch(
        TmemMap() if "tmem" in observe else None,
        checker,
        make_roles(symbols, grid) if "roles" in observe else None,
        make_ledgers(symbols, moments) if moments and "ledgers" in observe else None,
        Timeline(ghz) if "timeline" in observe else None,
        tuple(others),
        moments,
        CellHistory(moments) if moments and has_history else None,
        FindingMoments(checker.findings.found, moments) if moments and has_history and checker else None,
    )


def level_of(check: str) -> Level:
    """Return the level that `check` names; LaunchError when there is no such level."""
    for level in LEVELS:
        if level == check:
            return level
    raise LaunchError(f"check='{check}': choose one of {', '.join(LEVELS)}")


def make_checker(
    level: Level,
    gmem: GlobalMemory,
    executable: Executable,
    grid: Dim3,
    declared: Sequence[Declared] = (),
) -> Checker | None:
    """Return a checker for one launch, None for level `off`."""
    if level == "off":
        return None
    symbols = smem_symbols(executable)

    def name_of(space: str, home: int, address: int) -> str:
        if space == "global":
            return gmem.describe(address)
        return name_in(symbols, address & OFFSET_MASK)

    return Checker(level, name_of, lambda cta: index_in(grid, cta), declared, told_by(executable))


def told_by(executable: Executable) -> Told:
    """Return what the text of an executable tells, found once per program and entry."""

    def find() -> Told:
        return Told(f32_stores(executable), byte_barriers(executable))

    return _told.of(executable.program, find, executable.entry.name)


_told: FoundOnce[Told] = FoundOnce()


class Judging:
    """Judges clusters one at a time for a launch, with a checker each (`engine.by_kinds`).

    A store that leaves all as it was may be excused; whether one does is a matter of data, so none is excused
    but at places where the run tells it of every cluster. Findings but some notes are for the checker of a
    whole launch to tell.
    """

    def __init__(
        self,
        level: Level,
        gmem: GlobalMemory,
        executable: Executable,
        grid: Dim3,
        declared: Sequence[Declared] = (),
    ) -> None:
        self.key: Hashable = level, tuple(declared)
        self._given = level, gmem, executable, grid, declared
        self.names: Hashable = grid, tuple((a.name, a.address, a.nbytes) for a in gmem.arrays)

    def observer(self, compared: frozenset[Span]) -> _OneCluster:
        """Return an observer for one cluster, of a run that tells whether the stores at `compared` change
        anything.
        """
        checker = make_checker(*self._given)
        assert checker is not None
        return _OneCluster(checker, compared)

    def found(self, observer: _OneCluster) -> dict[Any, Finding] | None:
        """Return what an observer has found; None when there is more than notes that are added up."""
        is_plain = all(_is_added_up(finding) for finding in observer.findings)
        return dict(observer.checker.findings.found) if is_plain else None

    def to_compare(self, observer: _OneCluster) -> frozenset[Span]:
        """Return the places of stores that changed nothing, where there are findings."""
        places = {place for f in observer.findings for place in (f.span, f.other)}
        return frozenset(observer.idle & places)

    def is_silent(self, found: dict[Any, Finding]) -> bool:
        """Say whether nothing was found."""
        return not found

    def joined(self, found: Sequence[tuple[dict[Any, Finding], int]]) -> tuple[Finding, ...]:
        """Return the findings of a launch, each as it was found first, with how often in all."""
        first: dict[Any, Finding] = {}
        counts: Counter[Any] = Counter()
        for one, num_clusters in found:
            for key, finding in one.items():
                first.setdefault(key, finding)
                counts[key] += finding.count * num_clusters
        return in_turn(replace(finding, count=counts[key]) for key, finding in first.items())


_ADDED_UP = ("FENCE-BEFORE-MISSING", "FENCE-AFTER-MISSING", "LD-REG-BEFORE-WAIT", "TMEM-WAR-MMA-OPERAND")
"""Rules that are about one happening in one cluster, whatever the others do: their counts add up."""


def _is_added_up(finding: Finding) -> bool:
    return finding.severity is Severity.NOTE and finding.cause is None and finding.rule in _ADDED_UP


class _OneCluster:
    """Tells a checker of a cluster's events. What a store at other places than `compared` leaves as it was
    counts as changed; `idle` are those places.
    """

    def __init__(self, checker: Checker, compared: frozenset[Span]) -> None:
        self.checker = checker
        self.compared = compared
        self.idle: set[Span] = set()

    def on(self, event: Event) -> None:
        """Pass an event on."""
        if isinstance(event, Access) and event.unchanged is not None and event.span not in self.compared:
            if event.unchanged.all():
                self.idle.add(event.span)
            event = replace(event, unchanged=None)
        self.checker.on(event)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Return all findings; nothing is told afterwards."""
        return self.checker.finish()


def judging_of(
    check: str,
    observe: Sequence[str],
    executable: Executable,
    gmem: GlobalMemory,
    grid: Dim3,
    declared: Sequence[Declared] = (),
) -> Judging | None:
    """Return who may judge a launch by kinds of clusters; None when observers want to see all of them."""
    level = level_of(check)
    return None if level == "off" or observe else Judging(level, gmem, executable, grid, declared)


def make_roles(symbols: Sequence[SmemSymbol], grid: Dim3) -> Roles:
    """Return the observer of roles and hand-overs for one launch."""
    return Roles(lambda offset: name_in(symbols, offset), lambda cta: index_in(grid, cta))


def make_ledgers(symbols: Sequence[SmemSymbol], moments: Moments) -> Ledgers:
    """Return the observer of what happens to each mbarrier, for one launch."""
    return Ledgers(lambda offset: name_in(symbols, offset), moments)


def index_in(grid: Dim3, cta: int) -> Dim3:
    """Return the (x, y, z) of a CTA by its number."""
    return cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1])
