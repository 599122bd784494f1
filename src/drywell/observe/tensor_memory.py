"""Who owned which Tensor Memory columns, and what wrote each cell, followed through a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Access, Agent, Event, Issued, Performed, TmemAllocated
from drywell.base.span import Span

NUM_LANES, NUM_COLS = 128, 512


@dataclass(frozen=True, slots=True)
class Allocation:
    """Columns [column, column + num_cols) that a CTA held, allocated at `span`; `freed` is where they were
    given back, None if never.
    """

    cta: int
    column: int
    num_cols: int
    span: Span
    freed: Span | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """What wrote cells: the place, the unit it ran on, what it was, and the columns it wrote as a whole."""

    span: Span
    unit: str
    what: str
    column: int
    num_cols: int


@dataclass(frozen=True, slots=True)
class TmemSnapshot:
    """The Tensor Memory a CTA saw: its allocations in order, and per cell the index into `writers` of what
    wrote it last (-1: never written).
    """

    allocations: tuple[Allocation, ...]
    writers: tuple[Writer, ...]
    last_writer: NDArray[np.int32]

    def regions(self) -> tuple[tuple[Writer, int, int, int], ...]:
        """Return (writer, first column, columns, lanes) for each run of neighbouring columns with one
        writer, columns ascending.
        """
        out: list[tuple[Writer, int, int, int]] = []
        col = 0
        while col < NUM_COLS:
            ids = self.last_writer[:, col]
            end = col + 1
            while end < NUM_COLS and np.array_equal(self.last_writer[:, end], ids):
                end += 1
            for k in np.unique(ids[ids >= 0]):
                out.append((self.writers[int(k)], col, end - col, int(np.count_nonzero(ids == k))))
            col = end
        return tuple(out)


@dataclass(slots=True)
class TmemMap:
    """Follows TMEM through a run; `snapshot(cta)` shows it for one CTA."""

    allocations: list[Allocation] = field(default_factory=list)
    writers: dict[Writer, int] = field(default_factory=dict)
    cells: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    issued: dict[Agent, tuple[str, str]] = field(default_factory=dict)

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case Issued():
                self.issued[event.agent] = (event.unit, event.what)
            case Performed():
                self.issued.pop(event.agent, None)
            case TmemAllocated():
                self._allocated(event)
            case Access() if event.space == "tmem" and event.is_write:
                self._written(event)

    def _allocated(self, event: TmemAllocated) -> None:
        cta = event.agent.cta
        if not event.is_free:
            self.allocations.append(Allocation(cta, event.column, event.num_cols, event.span))
            return
        for k in range(len(self.allocations) - 1, -1, -1):
            held = self.allocations[k]
            if held.cta == cta and held.column == event.column and held.freed is None:
                self.allocations[k] = Allocation(cta, held.column, held.num_cols, held.span, event.span)
                return

    def _written(self, event: Access) -> None:
        unit, what = self.issued.get(event.agent, ("", ""))
        addresses = np.array(event.addresses, np.int64)
        lanes, columns = addresses >> 16, addresses & 0xFFFF
        first = int(columns.min())
        writer = Writer(event.span, unit, what, first, int(columns.max()) + event.size - first)
        cta = event.home
        cells = self.cells.get(cta)
        if cells is None:
            cells = self.cells[cta] = np.full((NUM_LANES, NUM_COLS), -1, np.int32)
        index = self.writers.setdefault(writer, len(self.writers))
        cells[lanes[:, None], columns[:, None] + np.arange(event.size)] = index

    def snapshot(self, cta: int = 0) -> TmemSnapshot:
        """Return what CTA number `cta` of the grid saw."""
        cells = self.cells.get(cta)
        empty = np.full((NUM_LANES, NUM_COLS), -1, np.int32)
        return TmemSnapshot(
            tuple(a for a in self.allocations if a.cta == cta),
            tuple(self.writers),
            empty if cells is None else cells.copy(),
        )
