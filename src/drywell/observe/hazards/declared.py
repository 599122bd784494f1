"""What an author declares about Tensor Memory, held against what the multiplications put there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drywell.base.events import Event, Issued, TmemAllocated
from drywell.layout.accumulator import LAYOUTS
from drywell.layout.arrays import IntArray
from drywell.layout.named import TileLayout
from drywell.layout.places import elements_at
from drywell.layout.tmem import NUM_COLS, NUM_LANES, decode
from drywell.observe.hazards.report import Findings


@dataclass(frozen=True)
class Declared:
    """Columns from `col` on of the allocation number `alloc` of every CTA, and how the author says that a
    matrix of `shape` lies there.
    """

    name: str
    layout: TileLayout
    alloc: int = 0
    col: int = 0
    shape: tuple[int, ...] = ()

    @cached_property
    def elements(self) -> IntArray:
        """Which element (its number in row-major order) lies in each cell, [lanes, columns]; -1 for none."""
        out = elements_at(self.layout, {"TLane": NUM_LANES, "TCol": NUM_COLS})
        return out[:, : int(np.flatnonzero((out >= 0).any(0)).max()) + 1]

    @property
    def num_cols(self) -> int:
        """How many columns it speaks of."""
        return int(self.elements.shape[1])


class DeclaredLayouts:
    """Compares where each multiplication puts its elements with what is declared of those columns."""

    def __init__(self, findings: Findings, declared: Sequence[Declared]) -> None:
        self.findings = findings
        self.declared = tuple(declared)
        self._columns: dict[int, list[int]] = {}

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case TmemAllocated(is_free=False):
                self._columns.setdefault(event.agent.cta, []).append(event.column)
            case Issued() if event.work.role == "mma" and self.declared:
                self._multiplied(event)

    def finish(self) -> None:
        """Nothing is left to the end."""

    def _multiplied(self, event: Issued) -> None:
        work = event.work
        layout, (_, N, _) = LAYOUTS[work.layout], work.shape
        first, first_col = decode(work.accumulator)
        cells = layout.cells(N)
        lanes = first + cells.lane[: layout.num_rows]
        cols = first_col + cells.col[: layout.num_rows]
        allocated = self._columns.get(event.agent.cta, [])
        for one in self.declared:
            if one.alloc >= len(allocated):
                continue
            begin = allocated[one.alloc] + one.col
            if first_col < begin + one.num_cols and first_col + layout.num_cols(N) > begin:
                wrong = _first_wrong(one, lanes, cols - begin)
                if wrong is not None:
                    self._report(event, one, wrong, begin)

    def _report(self, event: Issued, one: Declared, wrong: tuple[int, ...], begin: int) -> None:
        row, col, lane, at, found = wrong
        N = event.work.shape[1]
        layout = LAYOUTS[event.work.layout]
        says = "no element" if found < 0 else f"element {_index(one, found)}"
        self.findings.report(
            "TMEM-LAYOUT",
            f"tcgen05.{event.what} puts element ({row}, {col}) of D at tmem[lane {lane}, col {begin + at}],"
            f" where '{one.name}' is declared to have {says}: {one.layout}",
            event.span,
            cta=event.agent.cta,
            warp=event.agent.warp,
            lanes=event.lanes,
            hint=f"its layout is {layout.named(N)}: declare that, and read it so",
        )


def _index(one: Declared, flat: int) -> str:
    shape = one.shape or one.layout.shape
    return f"({', '.join(str(int(k)) for k in np.unravel_index(flat, shape))})"


def _first_wrong(one: Declared, lanes: IntArray, cols: IntArray) -> tuple[int, ...] | None:
    """Return (row, column, lane, declared column, declared element) of the first element that lies
    elsewhere than declared; None when all agree: as a whole, or as a block inside a declared matrix.
    """
    inside = (cols >= 0) & (cols < one.num_cols)
    here = np.where(inside, one.elements[lanes, np.clip(cols, 0, one.num_cols - 1)], -1)
    whole = np.arange(here.size).reshape(here.shape)
    differs = here != whole
    if one.layout.size == here.size and not differs.any():
        return None
    shape = one.shape or one.layout.shape
    if len(shape) == 2:
        row, col = np.divmod(here, shape[1])
        m, n = np.indices(here.shape)
        differs = (here < 0) | (row - m != row[0, 0]) | (col - n != col[0, 0])
        if not differs.any():
            return None
    at = tuple(int(k) for k in np.argwhere(differs)[0])
    return at[0], at[1], int(lanes[at]), int(cols[at]), int(here[at])
