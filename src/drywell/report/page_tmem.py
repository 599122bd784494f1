"""The Tensor Memory of a run for the page: what columns are for, who wrote each cell, and what happened to
them in clock order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.span import Source, Span
from drywell.layout.accumulator import LAYOUTS
from drywell.layout.fragment import SHAPES, WARP_LANES, fragment
from drywell.observe.cell_history import CellHistory, Happening
from drywell.observe.tensor_memory import TmemSnapshot, Touch
from drywell.observe.tmem_regions import Region
from drywell.report.page_data import (
    PageAllocation,
    PageBlock,
    PageCells,
    PageCta,
    PageDeed,
    PageFragment,
    PageHistory,
    PageMma,
    PageRegion,
    PageTouch,
    maybe_place,
    place_of,
)
from drywell.report.roles import short, spelling_at
from drywell.report.tensor_memory import TmemPicture, region_title

MOST_HAPPENINGS = 30_000
"""Operations on the cells of a CTA that are listed; more are first joined where they repeat each other."""


def page_cta(cta: int, snapshot: TmemSnapshot, source: Source, history: CellHistory | None) -> PageCta:
    """Return the Tensor Memory of a CTA."""
    picture = TmemPicture(snapshot)
    writers: list[PageTouch] = []
    numbers: dict[tuple[Span, str, str], int] = {}
    for touch in snapshot.touches:
        key = (touch.span, touch.unit, touch.what)
        if touch.is_write and key not in numbers:
            numbers[key] = len(writers)
            same = (t for t in snapshot.touches if t.is_write and (t.span, t.unit, t.what) == key)
            writers.append(_touch(touch, source, sum(t.count for t in same)))
    index = np.array([numbers.get((w.span, w.unit, w.what), -1) for w in snapshot.writers] + [-1], np.int64)
    started = None if history is None else history.started.get(cta)
    return PageCta(
        cta,
        (cta, 0, 0) if started is None else started.index,
        -1 if started is None else started.sm,
        snapshot.pair_rank,
        _allocations(cta, snapshot, history),
        tuple(
            _region(sign, region, snapshot.pair_rank, source)
            for sign, region in zip(picture.signs, picture.regions, strict=True)
        ),
        tuple(writers),
        tuple(_cells(index[snapshot.last_writer])),
        page_history(() if history is None else history.happenings(cta), source),
    )


def _allocations(cta: int, snapshot: TmemSnapshot, history: CellHistory | None) -> tuple[PageAllocation, ...]:
    held = {} if history is None else dict(enumerate(history.held(cta)))
    return tuple(
        PageAllocation(
            one.column,
            one.num_cols,
            place_of(one.span),
            maybe_place(one.freed),
            held[k].at if k in held else 0,
            held[k].until if k in held else None,
        )
        for k, one in enumerate(snapshot.allocations)
    )


def page_history(happenings: Sequence[Happening], source: Source, most: int = MOST_HAPPENINGS) -> PageHistory:
    """Return what happened to the cells of a CTA as columns, with repeats joined where there are too many."""
    rows = [(h, 1) for h in happenings]
    if len(rows) > most:
        rows = list(_joined(happenings))
    left_out = sum(count for _, count in rows[most:])
    rows = rows[:most]
    counts: dict[Any, int] = {}
    for h, count in rows:
        counts[h.deed] = counts.get(h.deed, 0) + count
    deeds = {deed: k for k, deed in enumerate(counts)}
    areas: dict[Any, int] = {}
    area = tuple(areas.setdefault(h.area, len(areas)) for h, _ in rows)
    return PageHistory(
        tuple(
            PageDeed(_named(deed.span, deed.unit, deed.what, counts[deed], source), deed.is_write)
            for deed in deeds
        ),
        tuple(areas),
        tuple(h.at for h, _ in rows),
        tuple(deeds[h.deed] for h, _ in rows),
        area,
        tuple(h.cta for h, _ in rows),
        tuple(h.warp for h, _ in rows),
        tuple(count for _, count in rows),
        left_out,
    )


def _joined(happenings: Sequence[Happening]) -> Iterable[tuple[Happening, int]]:
    """Yield the last of those that did the same to the same cells one after the other, and their number."""
    last, count = None, 0
    for h in happenings:
        if last is not None and (h.area, h.deed.unit, h.deed.is_write, h.cta, h.warp) != (
            last.area, last.deed.unit, last.deed.is_write, last.cta, last.warp
        ):  # fmt: skip
            yield last, count
            count = 0
        last, count = h, count + 1
    if last is not None:
        yield last, count


def _touch(touch: Touch, source: Source, count: int | None = None) -> PageTouch:
    return _named(touch.span, touch.unit, touch.what, touch.count if count is None else count, source)


def _named(span: Span, unit: str, what: str, count: int, source: Source) -> PageTouch:
    spelling = spelling_at(span, source)
    form = _form_of(what, spelling) if unit in ("tmem_ld", "tmem_st") else ""
    return PageTouch(short(spelling) or what, unit, place_of(span), count, form)


_FORM = re.compile(r"(?:ld|st)(?:\.red)?\.(\w+)\.x(\d+)")


def _form_of(what: str, spelling: str) -> str:
    """Return the form of a load or store as fragments are named: "32x32b.x8", "16x256b.x4.packed"."""
    found = _FORM.match(what)
    if found is None or found.group(1) not in SHAPES:
        return ""
    packed = ".packed" if "pack::16b" in spelling else ""
    return f"{found.group(1)}.x{found.group(2)}{packed}"


def _region(sign: str, region: Region, pair_rank: int, source: Source) -> PageRegion:
    of = region.operand
    mma: PageMma | None = None
    blocks: tuple[PageBlock, ...] = ()
    if of is not None:
        M, N, K = of.shape
        mma = PageMma(of.kind, M, N, K, of.layout, of.element)
        if region.role == "D":
            layout = LAYOUTS[of.layout]
            blocks = tuple(
                PageBlock(r.m, r.n, r.num_rows, r.num_cols, of.lane + r.lane, of.column + r.col)
                for r in layout.rectangles(N)
                if r.cta == pair_rank % layout.num_ctas
            )
    return PageRegion(
        sign,
        region.role,
        region.number,
        region_title(region),
        region.column,
        region.num_cols,
        region.lanes,
        mma,
        blocks,
        tuple(_touch(t, source) for t in region.writes),
        tuple(_touch(t, source) for t in region.reads),
    )


def _cells(numbers: NDArray[np.int64]) -> Iterable[PageCells]:
    """Yield the rectangles with one number each, -1 left out: equal columns, then equal lanes."""
    edges = np.flatnonzero((numbers[:, 1:] != numbers[:, :-1]).any(0)) + 1
    for left, right in pairwise([0, *edges.tolist(), numbers.shape[1]]):
        column = numbers[:, left]
        cuts = np.flatnonzero(column[1:] != column[:-1]) + 1
        for top, bottom in pairwise([0, *cuts.tolist(), len(column)]):
            if column[top] >= 0:
                yield PageCells(top, left, bottom - top, right - left, int(column[top]))


def fragments_of(ctas: Iterable[PageCta]) -> dict[str, PageFragment]:
    """Return the forms of loads and stores that are spoken of."""
    names = {
        touch.fragment
        for cta in ctas
        for region in cta.regions
        for touch in (*region.writes, *region.reads)
        if touch.fragment
    }
    return {name: _fragment(name) for name in sorted(names)}


def _fragment(name: str) -> PageFragment:
    shape, num, *packed = name.split(".")
    count = int(num.removeprefix("x"))
    split = count * (2 if packed else 1) if SHAPES[shape].num_windows == 2 else 0
    f = fragment(shape, count, bool(packed), split)

    def steps(cells: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple((int(f.lane[at]), int(f.col[at])) for at in cells)

    threads = [(1 << bit, 0) for bit in range(WARP_LANES.bit_length() - 1)]
    registers = [(0, 1 << bit) for bit in range(f.num_registers.bit_length() - 1)]
    cols = int(f.col.max()) + (2 if packed else 1)
    return PageFragment(
        int(f.lane.max()) + 1, cols, f.num_registers, steps(threads), steps(registers), bool(packed)
    )
