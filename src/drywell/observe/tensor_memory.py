"""Who owned which Tensor Memory columns, what wrote and read them, what each mma took them for, followed
through a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Access, Agent, CtaStarted, Event, Issued, Performed, TmemAllocated, Work
from drywell.base.pictured import Pictured
from drywell.base.span import Span
from drywell.layout.accumulator import LAYOUTS
from drywell.layout.tmem import NUM_COLS, NUM_LANES, decode

BAND_LANES = 16
NUM_BANDS = NUM_LANES // BAND_LANES

Bands = NDArray[np.bool_]
"""For each 16 lanes and each column whether it is touched, [8, 512]."""


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
class Touch:
    """One instruction (at `span`, on `unit`) that wrote or read cells of a CTA from `column` on, in `count`
    operations, and where.
    """

    span: Span
    unit: str
    what: str
    is_write: bool
    column: int
    count: int
    bands: Bands


@dataclass(frozen=True, slots=True)
class Operand:
    """What mmas took cells of a CTA for: D, A, SFA, SFB or metadata, from (`lane`, `column`) on.

    `layout` is the letter of D's layout, `shape` (M, N, K), `kind` and `element` (the format of D) are the
    instruction's, `spans` where it stands.
    """

    role: str
    lane: int
    column: int
    num_cols: int
    layout: str
    shape: tuple[int, ...]
    kind: str
    element: str
    spans: tuple[Span, ...] = ()

    @property
    def bands(self) -> Bands:
        """Return where it lies. Scale factors are in all lanes, A and metadata where the rows of D are."""
        out = np.zeros((NUM_BANDS, NUM_COLS), np.bool_)
        layout = LAYOUTS[self.layout]
        lanes = set(range(NUM_LANES))
        if self.role == "D":
            blocks = layout.rectangles(self.shape[1])
            lanes = {self.lane + block.lane + k for block in blocks for k in range(block.num_rows)}
        elif self.role in ("A", "metadata"):
            lanes = {self.lane + int(k) for k in layout.a_lanes()[1].reshape(-1)}
        bands = sorted({lane // BAND_LANES for lane in lanes if lane < NUM_LANES})
        out[bands, self.column : self.column + self.num_cols] = True
        return out


@dataclass(frozen=True, slots=True)
class TmemSnapshot(Pictured):
    """The Tensor Memory a CTA saw: its allocations in order, and per cell the index into `writers` of what
    wrote it last (-1: never written); every instruction that wrote or read it (what an mma adds to counts as
    written only), and what mmas took which columns for. `pair_rank` is 1 for the second CTA of a pair.
    """

    allocations: tuple[Allocation, ...]
    writers: tuple[Writer, ...]
    last_writer: NDArray[np.int32]
    touches: tuple[Touch, ...] = ()
    operands: tuple[Operand, ...] = ()
    pair_rank: int = 0

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
class _Tally:
    count: int = 0
    latest: Agent | None = None
    bands: Bands = field(default_factory=lambda: np.zeros((NUM_BANDS, NUM_COLS), np.bool_))


@dataclass(slots=True)
class TmemMap:
    """Follows TMEM through a run; `snapshot(cta)` shows it for one CTA."""

    allocations: list[Allocation] = field(default_factory=list)
    writers: dict[Writer, int] = field(default_factory=dict)
    cells: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    issued: dict[Agent, Issued] = field(default_factory=dict)
    touches: dict[int, dict[tuple[Span, str, str, bool, int], _Tally]] = field(default_factory=dict)
    operands: dict[int, dict[Operand, dict[Span, None]]] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case Issued():
                self.issued[event.agent] = event
            case Performed():
                self.issued.pop(event.agent, None)
            case TmemAllocated():
                self._allocated(event)
            case CtaStarted():
                self.ranks[event.cta] = event.rank
            case Access() if event.space == "tmem":
                self._touched(event)

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

    def _touched(self, event: Access) -> None:
        issued = self.issued.get(event.agent)
        unit, what = (issued.unit, issued.what) if issued else ("", "")
        addresses = np.array(event.addresses, np.int64)
        lanes, columns = addresses >> 16, addresses & 0xFFFF
        if event.is_write:
            self._written(event, unit, what, lanes, columns)
        if issued is not None and issued.work.role == "mma":
            self._took(event.home, issued.work, issued.span)
            if not event.is_write and is_inside_d(issued.work, columns, event.size):
                return
        of_cta = self.touches.setdefault(event.home, {})
        key = (event.span, unit, what, event.is_write, int(columns.min()))
        tally = of_cta.setdefault(key, _Tally())
        tally.count += event.agent != tally.latest
        tally.latest = event.agent
        tally.bands[(lanes // BAND_LANES)[:, None], columns[:, None] + np.arange(event.size)] = True

    def _written(
        self, event: Access, unit: str, what: str, lanes: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> None:
        first = int(columns.min())
        writer = Writer(event.span, unit, what, first, int(columns.max()) + event.size - first)
        cells = self.cells.get(event.home)
        if cells is None:
            cells = self.cells[event.home] = np.full((NUM_LANES, NUM_COLS), -1, np.int32)
        index = self.writers.setdefault(writer, len(self.writers))
        cells[lanes[:, None], columns[:, None] + np.arange(event.size)] = index

    def _took(self, cta: int, work: Work, span: Span) -> None:
        """Note what an mma takes the cells of a CTA for."""
        of_cta = self.operands.setdefault(cta, {})
        num_cols = LAYOUTS[work.layout].num_cols(work.shape[1])
        for role, address, count in (("D", work.accumulator, num_cols), *work.operands):
            lane, column = decode(address)
            operand = Operand(role, lane, column, count, work.layout, work.shape, work.kind, work.element)
            of_cta.setdefault(operand, {})[span] = None

    def snapshot(self, cta: int = 0) -> TmemSnapshot:
        """Return what CTA number `cta` of the grid saw."""
        cells = self.cells.get(cta)
        empty = np.full((NUM_LANES, NUM_COLS), -1, np.int32)
        return TmemSnapshot(
            tuple(a for a in self.allocations if a.cta == cta),
            tuple(self.writers),
            empty if cells is None else cells.copy(),
            tuple(Touch(*key, tally.count, tally.bands) for key, tally in self.touches.get(cta, {}).items()),
            tuple(replace(o, spans=tuple(spans)) for o, spans in self.operands.get(cta, {}).items()),
            self.ranks.get(cta, 0) & 1,
        )


def is_inside_d(work: Work, columns: NDArray[np.int64], size: int) -> bool:
    """Say whether columns are those of the D that an mma adds to."""
    first = decode(work.accumulator)[1]
    last = first + LAYOUTS[work.layout].num_cols(work.shape[1])
    return first <= int(columns.min()) and int(columns.max()) + size <= last
