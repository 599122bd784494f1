"""Allocations of Tensor Memory that have to wait for another CTA of the SM, and what the machine lets pass
although the manual forbids it.
"""

from __future__ import annotations

from drywell.base.diagnostic import Severity
from drywell.base.events import (
    CtaExited,
    CtaStarted,
    Event,
    Relinquished,
    Remarked,
    Stuck,
    TmemAllocated,
    TmemAwaited,
)
from drywell.base.span import Span
from drywell.layout.tmem import NUM_COLS
from drywell.observe.hazards.repairs import behind
from drywell.observe.hazards.report import Findings

_FEWER = "allocate fewer columns, or take so much shared memory that one CTA fits on an SM"


class AllocationRules:
    """Watches who holds the permit and the columns that an allocation waits for."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._waits: dict[tuple[int, int], TmemAwaited] = {}
        self._allocated: dict[int, Span] = {}
        self._group_of: dict[int, int] = {}
        self._has_relinquished: set[int] = set()
        self._has_exited: set[int] = set()
        self._sm_of: dict[int, int] = {}
        self._resident: dict[int, set[int]] = {}
        self._together: set[frozenset[int]] = set()
        self._columns: dict[int, tuple[int, int]] = {}
        self._is_stuck = False

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case CtaStarted():
                self._started(event)
            case TmemAwaited():
                self._waits[event.agent.cta, event.agent.warp] = event
            case TmemAllocated():
                self._changed(event)
            case Relinquished():
                self._has_relinquished.add(event.agent.cta)
            case CtaExited():
                self._has_exited.add(event.cta)
                self._resident[self._sm_of[event.cta]].discard(event.cta)
            case Stuck() if event.sync.kind == "tmem":
                self._stuck(event)
            case Remarked():
                self.findings.report(
                    event.rule,
                    event.detail,
                    event.span,
                    cta=event.agent.cta,
                    warp=event.agent.warp,
                    other=event.other,
                    hint=event.hint,
                )

    def finish(self) -> None:
        """Warn of CTAs that were on an SM together and want more columns than it has."""
        for ctas in self._together:
            need = sum(self._columns.get(cta, (0, 0))[1] for cta in ctas)
            asking = [cta for cta in ctas if cta in self._allocated]
            if need > NUM_COLS and not self._is_stuck:
                self._say_oversubscribed(max(asking), len(ctas), need)
                return

    def _started(self, event: CtaStarted) -> None:
        self._sm_of[event.cta] = event.sm
        resident = self._resident.setdefault(event.sm, set())
        resident.add(event.cta)
        if len(resident) > 1:
            self._together.add(frozenset(resident))

    def _changed(self, event: TmemAllocated) -> None:
        """Follow how many columns a CTA has, and the most it ever had."""
        cta = event.agent.cta
        now, most = self._columns.get(cta, (0, 0))
        now += -event.num_cols if event.is_free else event.num_cols
        self._columns[cta] = now, max(most, now)
        if not event.is_free:
            self._allocated[cta] = event.span
            self._group_of[cta] = event.cta_group
            self._granted(event)

    def _granted(self, event: TmemAllocated) -> None:
        """Note an allocation that got the permit only because its holder ended."""
        wait = self._waits.pop((event.agent.cta, event.agent.warp), None)
        if wait is None or wait.permit in self._has_relinquished or wait.permit not in self._has_exited:
            return
        self._not_relinquished(wait, Severity.NOTE)

    def _stuck(self, event: Stuck) -> None:
        self._is_stuck = True
        wait = self._waits.get((event.agent.cta, event.agent.warp))
        if wait is None:
            return
        if wait.permit >= 0 and wait.permit not in self._has_relinquished | self._has_exited:
            self._not_relinquished(wait, Severity.ERROR)
        elif wait.holders:
            self._oversubscribed(wait)

    def _not_relinquished(self, wait: TmemAwaited, severity: Severity) -> None:
        ends = "and waits itself" if severity is Severity.ERROR else "and keeps it to its end"
        at, group = self._allocated.get(wait.permit), self._group_of.get(wait.permit, 1)
        give = f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned"
        self.findings.report(
            "RELINQUISH-MISSING",
            f"CTA {wait.agent.cta} waits to allocate {wait.num_cols} columns: CTA {wait.permit} on the same"
            f" SM has the allocation permit {ends}",
            wait.span,
            cta=wait.agent.cta,
            warp=wait.agent.warp,
            other=at,
            hint=f"{give} behind the last tcgen05.alloc of every CTA",
            severity=severity,
            edits=() if at is None else (behind(at, give),),
        )

    def _oversubscribed(self, wait: TmemAwaited) -> None:
        holder = min(wait.holders)
        self.findings.report(
            "TMEM-OVERSUB",
            f"CTA {wait.agent.cta} waits for {wait.num_cols} columns of Tensor Memory, and CTA {holder},"
            " which has them, waits too",
            wait.span,
            cta=wait.agent.cta,
            warp=wait.agent.warp,
            other=self._allocated.get(holder),
            hint=_FEWER,
            severity=Severity.ERROR,
        )

    def _say_oversubscribed(self, cta: int, num_ctas: int, need: int) -> None:
        self.findings.report(
            "TMEM-OVERSUB",
            f"{num_ctas} CTAs are on one SM together and allocate {need} columns of Tensor Memory in all;"
            f" it has {NUM_COLS}, so that some wait for others to end",
            self._allocated[cta],
            cta=cta,
            hint=_FEWER,
        )
