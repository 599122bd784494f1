"""The timeline of a run for the page: rows of warps and units, what they did when, and what was critical."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drywell.base.interval import Interval
from drywell.base.record import record
from drywell.base.span import Span
from drywell.observe.timeline import UNITS, Timeline
from drywell.report.page_data import (
    PageBars,
    PageCta,
    PagePlace,
    PageRow,
    PageSm,
    PageStep,
    PageTimeline,
    place_of,
)

MOST_BARS = 40_000
"""Stretches that are listed; of more, short ones that follow each other are joined."""
MOST_STEPS = 2_000
"""Pieces of the critical path that are listed, the longest."""
_FIRST_GRAIN, _ANY_GRAIN = 16, 256

DOING = {"run": 0, "stall": 1, "busy": 2}
_UNIT_ROWS = {
    "tma": "copy engine", "tensor": "tensor pipe", "tmem_read": "TMEM read", "tmem_write": "TMEM write",
}  # fmt: skip
_PORT_PARTS = 4


@record
class _Bar:
    """One stretch on a row; `key` is the row (sm, cta, unit, part)."""

    key: tuple[int, int, str, int]
    begin: int
    end: int
    doing: int
    kind: str
    text: str
    span: Span
    issued: int
    done: int
    cta: int
    warp: int
    buffer: int
    count: int


def page_timeline(timeline: Timeline, ctas: Sequence[PageCta], most: int = MOST_BARS) -> PageTimeline | None:
    """Return the timeline of the SMs that `ctas` ran on, in at most so many bars; None when nothing ran."""
    homes = [cta.cta for cta in ctas]
    sms = {i.sm for i in timeline.events if i.unit == "warp" and i.cta in homes}
    if not sms:
        return None
    bars = [_bar(i, _buffer(i, ctas)) for i in timeline.events if i.sm in sms]
    bars = sorted(_with_buffers(bars), key=lambda b: (b.begin, b.key, b.end))
    grain, coarse, last = 0, bars, max(bar.end for bar in bars)
    while len(coarse) > most and grain <= last:
        grain = 4 * grain or _FIRST_GRAIN
        coarse = sorted(_joined(bars, grain), key=lambda b: (b.begin, b.key, b.end))
    return _table(timeline, sorted(sms), coarse, grain)


def _buffer(i: Interval, ctas: Sequence[PageCta]) -> int:
    """Return the accumulator that work on Tensor Memory is about, by its columns; -1 for none. The mma of a
    pair is about that of the CTA whose SM it is told for.
    """
    first, end = i.columns
    if first == end:
        return -1
    here = sorted((cta for cta in ctas if cta.sm == i.sm), key=lambda cta: cta.cta != i.cta)
    regions = (region for cta in here[:1] for region in cta.regions if region.role == "D")
    return next((r.number for r in regions if r.column <= first < r.column + r.num_cols), -1)


def _bar(i: Interval, buffer: int) -> _Bar:
    part = i.warp % _PORT_PARTS if i.unit.startswith("tmem") else -1
    key = (i.sm, i.cta, "warp", i.warp) if i.unit == "warp" else (i.sm, -1, i.unit, part)
    begin, end, text, kind = int(i.begin), int(i.end), i.what, i.kind
    if i.unit == "commit":
        key, kind = (i.sm, -1, "tensor", -1), "commit"
        begin = end = int(i.done)
    if i.doing == "stall":
        text = i.reason
    elif i.doing == "run":
        kind, text = "run", ""
    is_work = i.doing == "busy"
    if is_work and i.unit not in (*_UNIT_ROWS, "commit"):
        end = int(i.done)
    return _Bar(
        key, begin, max(begin, end), DOING[i.doing], kind, text, i.span, int(i.issued) if is_work else -1,
        int(i.done) if is_work else -1, i.cta, i.warp, buffer, max(i.count, 1),
    )  # fmt: skip


def _with_buffers(bars: Sequence[_Bar]) -> Iterable[_Bar]:
    """Yield the bars; the run of a warp that issued work on an accumulator is about that one."""
    work: dict[tuple[int, int], list[_Bar]] = defaultdict(list)
    for bar in sorted((b for b in bars if b.buffer >= 0), key=lambda b: b.issued):
        work[bar.cta, bar.warp].append(bar)
    nexts = dict.fromkeys(work, 0)
    for bar in sorted(bars, key=lambda b: b.begin):
        mine = work.get((bar.cta, bar.warp))
        if bar.doing != DOING["run"] or mine is None:
            yield bar
            continue
        k = nexts[bar.cta, bar.warp]
        while k < len(mine) and mine[k].issued < bar.begin:
            k += 1
        nexts[bar.cta, bar.warp] = k
        is_its = k < len(mine) and mine[k].issued <= bar.end
        yield replace(bar, buffer=mine[k].buffer) if is_its else bar


def _joined(bars: Iterable[_Bar], grain: int) -> Iterable[_Bar]:
    """Yield the bars with short ones that follow each other on a row as one, if they do the same or are so
    short that this does not matter.
    """
    open_bars: dict[Any, _Bar] = {}
    for bar in bars:
        last = open_bars.get(bar.key)
        is_same = (
            last is not None
            and (
                grain >= _ANY_GRAIN
                or (last.doing, last.buffer, last.kind) == (bar.doing, bar.buffer, bar.kind)
            )
            and bar.end - bar.begin < grain
            and bar.begin - last.end < grain
        )
        if is_same and last is not None:
            open_bars[bar.key] = replace(
                last, end=max(last.end, bar.end), done=max(last.done, bar.done), count=last.count + bar.count
            )
            continue
        if last is not None:
            yield last
        open_bars[bar.key] = bar
    yield from open_bars.values()


# the record


def _table(timeline: Timeline, sms: Collection[int], bars: Sequence[_Bar], grain: int) -> PageTimeline:
    rows = _rows({bar.key for bar in bars})
    texts: dict[str, int] = {}
    places: dict[PagePlace, int] = {}

    def number(table: dict[Any, int], value: Any) -> int:
        return table.setdefault(value, len(table))

    columns = PageBars(
        tuple(rows[b.key][0] for b in bars),
        tuple(b.begin for b in bars),
        tuple(b.end for b in bars),
        tuple(b.doing for b in bars),
        tuple(number(texts, b.kind) for b in bars),
        tuple(number(texts, b.text) for b in bars),
        tuple(number(places, place_of(b.span)) for b in bars),
        tuple(b.issued for b in bars),
        tuple(b.done for b in bars),
        tuple(b.cta for b in bars),
        tuple(b.warp for b in bars),
        tuple(b.buffer for b in bars),
        tuple(b.count for b in bars),
    )
    return PageTimeline(
        tuple(_sm(timeline, sm) for sm in sms),
        tuple(row for _, row in rows.values()),
        tuple(texts),
        tuple(places),
        columns,
        _critical(timeline),
        grain,
    )


def _rows(keys: Iterable[tuple[int, int, str, int]]) -> Mapping[Any, tuple[int, PageRow]]:
    """Return the rows by key, each with its number: of an SM its units as data flows, then its warps."""
    order = list(_UNIT_ROWS)

    def turn(key: tuple[int, int, str, int]) -> tuple[Any, ...]:
        sm, cta, unit, part = key
        return sm, unit == "warp", order.index(unit) if unit in order else len(order), unit, cta, part

    return {key: (k, _row(key)) for k, key in enumerate(sorted(keys, key=turn))}


def _row(key: tuple[int, int, str, int]) -> PageRow:
    sm, cta, unit, part = key
    if unit == "warp":
        return PageRow(unit, f"warp {part}", sm, cta, part)
    name = _UNIT_ROWS.get(unit, unit)
    return PageRow(unit, f"{name} {part}" if part >= 0 else name, sm, -1, part)


def _sm(timeline: Timeline, sm: int) -> PageSm:
    phases = timeline.phases(sm)
    ctas = tuple(sorted({i.cta for i in timeline.events if i.sm == sm and i.unit == "warp"}))
    use = {unit: round(timeline.utilisation(unit, sm, phases.steady), 4) for unit in UNITS}
    return PageSm(sm, ctas, int(phases.steady[0]), int(phases.steady[1]), int(phases.drain[1]), use)


def _critical(timeline: Timeline) -> tuple[PageStep, ...]:
    steps = timeline.critical_path()
    if len(steps) > MOST_STEPS:
        shortest = sorted((s.end - s.begin for s in steps), reverse=True)[MOST_STEPS]
        steps = tuple(s for s in steps if s.end - s.begin > shortest)
    return tuple(PageStep(s.who, s.what, int(s.begin), int(s.end)) for s in steps)
