"""The record of a run for the page, made of what observers saw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from drywell.base.diagnostic import Finding, Place
from drywell.base.record import record
from drywell.base.span import Source
from drywell.observe.cell_history import CellHistory
from drywell.observe.handovers import Handover
from drywell.observe.ledger import BarrierLedger, Entry
from drywell.observe.roles import WarpRole
from drywell.observe.tensor_memory import TmemSnapshot
from drywell.observe.timeline import Timeline
from drywell.plan.budget import Budget
from drywell.plan.hopper import WORKING_REGISTERS, compare_with_hopper
from drywell.report.page_data import (
    VERSION,
    PageBarrier,
    PageBudget,
    PageBudgetRow,
    PageBuffer,
    PageCta,
    PageEntry,
    PageFinding,
    PageFindingCells,
    PageHandover,
    PageHead,
    PageHopper,
    PagePath,
    PagePhase,
    PagePlace,
    PageRole,
    PageRun,
    PageShare,
    PageSource,
    PageTimeline,
    maybe_place,
    place_of,
)
from drywell.report.page_timeline import page_timeline
from drywell.report.page_tmem import fragments_of, page_cta
from drywell.report.text import ranges

Moments = Mapping[tuple[Any, ...], int]


@record
class Seen:
    """What was seen of a run: the Tensor Memory of the CTAs to show, and what observers say of them.
    `found_at` says when findings came, by (rule, place, other place) or (rule,).
    """

    snapshots: Mapping[int, TmemSnapshot]
    ledgers: Sequence[BarrierLedger] = ()
    findings: Sequence[Finding] = ()
    roles: Sequence[WarpRole] = ()
    handovers: Sequence[Handover] = ()
    timeline: Timeline | None = None
    history: CellHistory | None = None
    found_at: Moments = field(default_factory=dict)


def page_run(
    head: PageHead,
    source: Source,
    seen: Seen,
    *,
    texts: Sequence[Source] = (),
    buffers: Sequence[PageBuffer] = (),
    paths: Sequence[PagePath] = (),
    budget: Budget | None = None,
    limits: Sequence[str] = (),
) -> PageRun:
    """Return the record of a run; `limits` are sentences about what is left out."""
    ctas = tuple(page_cta(cta, s, source, seen.history) for cta, s in seen.snapshots.items())
    timeline = None if seen.timeline is None else page_timeline(seen.timeline, ctas)
    return PageRun(
        VERSION,
        head,
        _text(source),
        tuple(map(_text, texts)),
        ctas,
        fragments_of(ctas),
        tuple(map(_barrier, seen.ledgers)),
        tuple(_finding(one, seen.found_at) for one in seen.findings),
        tuple(PageRole(r.cta, r.warp, r.name, tuple((d.what, d.count) for d in r.deeds)) for r in seen.roles),
        tuple(map(_handover, seen.handovers)),
        timeline,
        tuple(buffers),
        tuple(paths),
        None if budget is None else _budget(budget),
        _hopper(ctas),
        (*limits, *_more_limits(ctas, timeline)),
    )


def _text(source: Source) -> PageSource:
    return PageSource(source.name, tuple(source.text.splitlines()))


def _more_limits(ctas: Sequence[PageCta], timeline: PageTimeline | None) -> Iterator[str]:
    for cta in ctas:
        if cta.history.left_out:
            yield f"the last {cta.history.left_out:,} operations on the cells of CTA {cta.cta} are not listed"
    if timeline is not None and timeline.grain:
        yield (
            f"the timeline has one stretch for those of less than {timeline.grain} cycles that follow each"
            " other: there were too many"
        )


# the budget, and the same on Hopper


def _budget(found: Budget) -> PageBudget:
    return PageBudget(
        found.title,
        found.gpu,
        tuple(PageBudgetRow(r.resource, r.owner, r.amount, r.tag, r.note) for r in found.rows),
        {str(resource): limit for resource, limit in found.limits},
        found.ctas_per_sm,
        found.bound,
        found.problems,
        found.advice,
    )


def _hopper(ctas: Sequence[PageCta]) -> PageHopper | None:
    """Compare the accumulators of the first CTA that has some; None where wgmma has no such tile."""
    found = [r for cta in ctas[:1] for r in cta.regions if r.role == "D" and r.mma is not None]
    if not found or found[0].mma is None:
        return None
    rows = sum(block.num_rows for block in found[0].blocks if block.n == 0)
    if rows != _WGMMA_M and (rows < 2 * _WGMMA_M or rows % (2 * _WGMMA_M)):
        return None
    c = compare_with_hopper(rows, found[0].mma.N, len(found))
    shares = tuple(PageShare(s.warpgroups, s.registers, s.limit, s.spilled) for s in c.shares)
    return PageHopper(c.M, c.N, c.accumulators, shares, c.cols, c.allocated, WORKING_REGISTERS)


_WGMMA_M = 64


# mbarriers, findings, roles


def _barrier(one: BarrierLedger) -> PageBarrier:
    places: dict[PagePlace, int] = {}

    def entry(found: Entry) -> PageEntry:
        place = places.setdefault(place_of(found.span), len(places))
        lanes = sum(1 << lane for lane in found.lanes)
        return PageEntry(
            found.order, found.at, found.what, found.cta, found.warp, found.is_async, lanes, found.amount,
            found.pending, found.tx_bytes, place,
        )  # fmt: skip

    phases = tuple(
        PagePhase(phase.number, phase.is_over, tuple(map(entry, phase.entries)), phase.left_out)
        for phase in one.phases
    )
    return PageBarrier(
        one.cta, one.offset, one.name, one.count, place_of(one.init), one.at, tuple(places), phases,
        one.left_out,
    )  # fmt: skip


def _finding(one: Finding, found_at: Moments) -> PageFinding:
    key = (one.rule, one.span, one.other)
    return PageFinding(
        one.rule,
        str(one.severity),
        one.message,
        maybe_place(one.span),
        maybe_place(one.other),
        one.cta,
        one.warp,
        one.lanes,
        "" if one.place is None else str(one.place),
        _cells(one.place),
        found_at.get(key, found_at.get((one.rule,))),
        one.note,
        one.hint,
        one.count,
    )


_CELL = re.compile(r"tmem\[lane (\d+), col (\d+)\]")


def _cells(place: Place | None) -> PageFindingCells | None:
    found = None if place is None else _CELL.match(place.name)
    if place is None or found is None:
        return None
    return PageFindingCells(int(found.group(1)), int(found.group(2)), place.count)


def _handover(one: Handover) -> PageHandover:
    return PageHandover(
        one.cta,
        one.name,
        one.offset,
        tuple(_actor(a.warps, a.what) for a in one.producers),
        tuple(_actor(a.warps, a.what) for a in one.consumers),
        tuple(s.name for s in one.gives),
        tuple(s.name for s in one.frees),
    )


def _actor(warps: Sequence[int], what: str) -> str:
    return f"warp {ranges(warps)} {what}"
