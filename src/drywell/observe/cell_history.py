"""Every operation that wrote or read Tensor Memory, in the order in which they took effect, with its cells
and its moment: what each cell held at any time, and who came to it when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Access, Agent, CtaStarted, Event, Issued, Performed, TmemAllocated
from drywell.base.record import record
from drywell.base.span import Span
from drywell.layout.tmem import NUM_COLS, NUM_LANES
from drywell.observe.moments import Moments
from drywell.observe.tensor_memory import is_inside_d

Rect = tuple[int, int, int, int]
"""A rectangle of cells: (lane, col, num_lanes, num_cols)."""
Area = tuple[Rect, ...]


@record
class Deed:
    """What an instruction (at `span`, on `unit`) does to cells: `what` in words; it writes or reads them."""

    span: Span
    unit: str
    what: str
    is_write: bool


@record
class Happening:
    """One operation of a warp of CTA `cta`, that did `deed` to the cells `area` at moment `at`."""

    at: int
    deed: Deed
    area: Area
    cta: int
    warp: int


@record
class Held:
    """When a CTA held columns: from moment `at` until `until`, None if to the end."""

    column: int
    at: int
    until: int | None


@dataclass(slots=True)
class _Entry:
    at: int
    deed: Deed
    area: Area
    agent: Agent


@dataclass(slots=True)
class CellHistory:
    """Listens to a run. What an mma adds to counts as written only, as in `TmemMap`."""

    moments: Moments
    issued: dict[Agent, Issued] = field(default_factory=dict)
    entries: dict[int, list[_Entry]] = field(default_factory=lambda: defaultdict(list))
    started: dict[int, CtaStarted] = field(default_factory=dict)
    columns: dict[int, list[Held]] = field(default_factory=lambda: defaultdict(list))
    _open: dict[Agent, dict[tuple[int, bool], _Entry]] = field(default_factory=dict)
    _areas: dict[tuple[bytes, int], Area] = field(default_factory=dict)
    _unions: dict[tuple[Area, Area], Area] = field(default_factory=dict)
    _deeds: dict[Deed, Deed] = field(default_factory=dict)

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case Access() if event.space == "tmem":
                self._touched(event)
            case Issued():
                self.issued[event.agent] = event
            case Performed():
                self.issued.pop(event.agent, None)
                self._open.pop(event.agent, None)
            case TmemAllocated():
                self._allocated(event)
            case CtaStarted():
                self.started[event.cta] = event

    def _allocated(self, event: TmemAllocated) -> None:
        held, now = self.columns[event.agent.cta], self.moments.now
        if not event.is_free:
            held.append(Held(event.column, now, None))
            return
        for k in range(len(held) - 1, -1, -1):
            if held[k].column == event.column and held[k].until is None:
                held[k] = Held(event.column, held[k].at, now)
                return

    def _touched(self, event: Access) -> None:
        issued = self.issued.get(event.agent)
        unit, what = (issued.unit, issued.what) if issued else ("", "")
        addresses = np.asarray(event.addresses, np.int64)
        is_operand = issued is not None and issued.work.role == "mma" and not event.is_write
        if issued and is_operand and is_inside_d(issued.work, addresses & 0xFFFF, event.size):
            return
        area = self._area(addresses, event.size)
        of_agent = self._open.setdefault(event.agent, {})
        entry = of_agent.get((event.home, event.is_write))
        if entry is not None and issued is not None:
            if entry.area != area:
                entry.area = self._joined(entry.area, area)
            return
        deed = Deed(event.span, unit, what, event.is_write)
        deed = self._deeds.setdefault(deed, deed)
        entry = of_agent[event.home, event.is_write] = _Entry(self.moments.now, deed, area, event.agent)
        self.entries[event.home].append(entry)

    def _area(self, addresses: NDArray[np.int64], size: int) -> Area:
        key = addresses.tobytes(), size
        found = self._areas.get(key)
        if found is None:
            mask = np.zeros((NUM_LANES, NUM_COLS), np.bool_)
            mask[(addresses >> 16)[:, None], (addresses & 0xFFFF)[:, None] + np.arange(size)] = True
            found = self._areas[key] = tuple(rectangles(mask))
        return found

    def _joined(self, first: Area, second: Area) -> Area:
        """Return the cells of both."""
        found = self._unions.get((first, second))
        if found is None:
            mask = np.zeros((NUM_LANES, NUM_COLS), np.bool_)
            for lane, col, num_lanes, num_cols in (*first, *second):
                mask[lane : lane + num_lanes, col : col + num_cols] = True
            found = self._unions[first, second] = tuple(rectangles(mask))
        return found

    def happenings(self, cta: int) -> tuple[Happening, ...]:
        """Return what happened to the cells of a CTA, in order."""
        return tuple(
            Happening(entry.at, entry.deed, entry.area, entry.agent.cta, entry.agent.warp)
            for entry in self.entries.get(cta, ())
        )

    def held(self, cta: int) -> tuple[Held, ...]:
        """Return when a CTA held columns, in the order of its allocations."""
        return tuple(self.columns.get(cta, ()))


def rectangles(mask: NDArray[Any]) -> Iterator[Rect]:
    """Yield rectangles that cover the cells of a mask [lanes, columns]: equal columns, then runs of lanes.

    >>> mask = np.zeros((4, 8), np.bool_)
    >>> mask[1:3, 2:6] = True
    >>> list(rectangles(mask))
    [(1, 2, 2, 4)]
    """
    cuts = np.flatnonzero((mask[:, 1:] != mask[:, :-1]).any(0)) + 1
    for left, right in pairwise([0, *cuts.tolist(), mask.shape[1]]):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], mask[:, left].astype(np.int8), [0]])))
        for top, bottom in edges.reshape(-1, 2).tolist():
            yield top, left, bottom - top, right - left
