"""Tensor Memory as a picture in text: 4 rows of 32 lanes, 16 columns of 32 columns, a letter for what wrote
there last.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_uppercase

import numpy as np

from drywell.base.record import record
from drywell.base.span import Source, Span
from drywell.observe.tensor_memory import NUM_COLS, NUM_LANES, Allocation, TmemSnapshot, Writer
from drywell.report.roles import short, spelling_at
from drywell.report.text import Line, Lines, Piece, columns, ranges

GRANULE = 32
FREE, UNWRITTEN, MIXED = ".", "-", "*"
STYLES = ("bold cyan", "bold magenta", "bold green", "bold yellow", "bold blue", "bold red")


@record
class Region:
    """Columns [column, column + num_cols) that one instruction writes as a whole, and the writers that last
    wrote cells of it.
    """

    letter: str
    column: int
    num_cols: int
    writers: tuple[Writer, ...]


def regions(snapshot: TmemSnapshot) -> tuple[Region, ...]:
    """Return the regions of a snapshot by first column; writers of the same columns share one."""
    seen = {int(k) for k in np.unique(snapshot.last_writer) if k >= 0}
    by_extent: dict[tuple[int, int], list[Writer]] = {}
    for k in sorted(seen):
        writer = snapshot.writers[k]
        by_extent.setdefault((writer.column, writer.num_cols), []).append(writer)
    letters = (ascii_uppercase[k % 26] for k in range(len(by_extent)))
    return tuple(
        Region(letter, *extent, tuple(w))
        for letter, (extent, w) in zip(letters, sorted(by_extent.items()), strict=True)
    )


def _owned(allocations: Iterable[Allocation]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    owned = np.zeros(NUM_COLS, np.bool_)
    for allocation in allocations:
        owned[allocation.column : allocation.column + allocation.num_cols] = True
    return owned


def _cell(snapshot: TmemSnapshot, letters: dict[int, str], is_owned: bool, lane: int, col: int) -> str:
    found = {
        letters.get(int(k), "")
        for k in np.unique(snapshot.last_writer[lane : lane + 32, col : col + GRANULE])
    }
    found.discard("")
    if not found:
        return UNWRITTEN if is_owned else FREE
    return found.pop() if len(found) == 1 else MIXED


def map_lines(snapshot: TmemSnapshot, source: Source, cta: int = 0) -> Lines:
    """Return the map of one CTA's Tensor Memory, its allocations and, per letter, what wrote those columns
    last.
    """
    title: Line = (
        ("Tensor Memory", "bold"),
        f" of CTA {cta}: {NUM_LANES} lanes x {NUM_COLS} columns; one sign is 32 lanes x 32 columns",
    )
    if not snapshot.allocations:
        return (title, ("  the CTA allocated none",))
    found = regions(snapshot)
    letters = {
        k: r.letter
        for r in found
        for k, w in enumerate(snapshot.writers)
        if (w.column, w.num_cols) == (r.column, r.num_cols)
    }
    styles = {r.letter: STYLES[k % len(STYLES)] for k, r in enumerate(found)}
    owned = _owned(snapshot.allocations)
    out: list[Line] = [
        title,
        ("  column        " + "".join(f"{col:<4d}" for col in range(0, NUM_COLS, GRANULE)),),
    ]
    for lane in range(0, NUM_LANES, 32):
        row: list[Piece] = [f"  lanes {f'{lane}-{lane + 31}':<8s}"]
        for col in range(0, NUM_COLS, GRANULE):
            sign = _cell(snapshot, letters, bool(owned[col]), lane, col)
            row += [(sign, styles.get(sign, "dim")), "   "]
        out.append(tuple(row))
    return (*out, *_legend(snapshot, found, styles, source))


def _legend(
    snapshot: TmemSnapshot, found: tuple[Region, ...], styles: dict[str, str], source: Source
) -> Lines:
    rows: list[list[Piece]] = []
    for allocation in snapshot.allocations:
        freed = f", freed at {_place(allocation.freed)}" if allocation.freed else ", never freed"
        rows.append(
            [
                "own",
                _extent(allocation.column, allocation.num_cols),
                f"allocated at {_place(allocation.span)}{freed}",
            ]
        )
    for region in found:
        by = sorted(
            {f"{short(spelling_at(w.span, source)) or w.what} at {_place(w.span)}" for w in region.writers}
        )
        shown = "; ".join(by[:2]) + (f" and {len(by) - 2} more places" if len(by) > 2 else "")
        rows.append(
            [
                (region.letter, styles[region.letter]),
                _extent(region.column, region.num_cols),
                f"last written by {shown}",
            ]
        )
    signs = f"{UNWRITTEN} allocated, never written   {FREE} never allocated"
    return (*columns(rows), (f"  {signs}",))


def _extent(column: int, num_cols: int) -> str:
    return f"columns {ranges(range(column, column + num_cols))}"


def _place(span: Span) -> str:
    return span.loc or f"{span.file}:{span.line}"
