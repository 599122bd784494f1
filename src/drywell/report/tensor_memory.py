"""Tensor Memory as a picture in text: 8 rows of 16 lanes, up to 64 signs of neighbouring columns, a sign for
what the cells are for; and below it, in words, what each sign is, what wrote it and what read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from drywell.base.span import Source, Span
from drywell.layout.accumulator import LAYOUTS
from drywell.layout.tmem import NUM_COLS, NUM_LANES
from drywell.observe.tensor_memory import BAND_LANES, Operand, TmemSnapshot, Touch, Writer
from drywell.observe.tmem_regions import Region, held_columns, regions
from drywell.report.roles import short, spelling_at
from drywell.report.text import Line, Lines, Piece, columns, counted, ranges, wrapped

SIGNS = 64
FREE, UNWRITTEN, MIXED, GAP = ".", "-", "*", ":"
STYLES = ("bold cyan", "bold magenta", "bold green", "bold yellow", "bold blue", "bold red")
MOST_PLACES = 2
_SIGNS = {"A": "A", "SFA": "S", "SFB": "T", "metadata": "M", "stored": "W", "copied": "C"}
_TITLES = {
    "A": "A of mmas",
    "SFA": "scale factors of A",
    "SFB": "scale factors of B",
    "metadata": "sparsity metadata of A",
    "stored": "stored by threads",
    "copied": "copied from shared memory",
}


class TmemPicture:
    """The map of one CTA's Tensor Memory: its regions, each with a sign, digits for accumulators."""

    def __init__(self, snapshot: TmemSnapshot) -> None:
        self.snapshot = snapshot
        self.regions = regions(snapshot)
        self.signs = _signs_of(self.regions)
        self.styles = {sign: STYLES[k % len(STYLES)] for k, sign in enumerate(self.signs)}
        self.held = held_columns(snapshot)
        used = [r.column + r.num_cols for r in self.regions] + (np.flatnonzero(self.held)[-1:] + 1).tolist()
        self.width = max(SIGNS, 1 << (max(used, default=1) - 1).bit_length())
        """Columns that are drawn: a power of two."""

    @property
    def step(self) -> int:
        """How many columns a sign stands for."""
        return self.width // SIGNS

    def rows(self) -> list[list[str]]:
        """Return the signs, one row for each 16 lanes."""
        step = self.step
        return [
            [self._sign(band, col, step) for col in range(0, self.width, step)]
            for band in range(NUM_LANES // BAND_LANES)
        ]

    def _sign(self, band: int, col: int, step: int) -> str:
        cols = slice(col, col + step)
        here = [k for k, r in enumerate(self.regions) if r.bands[band, cols].any()]
        if len(here) > 1:
            here = self._latest(here, band, cols)
        if len(here) == 1:
            return self.signs[here[0]]
        if here:
            return MIXED
        if any(r.has_gaps and r.bands[:, cols].any() for r in self.regions):
            return GAP
        return UNWRITTEN if self.held[cols].any() else FREE

    def _latest(self, here: list[int], band: int, cols: slice) -> list[int]:
        """Of regions that share cells, return those whose purpose the last write served."""
        lanes = slice(BAND_LANES * band, BAND_LANES * (band + 1))
        last = np.unique(self.snapshot.last_writer[lanes, cols])
        by_mma = {self.snapshot.writers[int(k)].what.startswith("mma") for k in last if k >= 0}
        if len(by_mma) != 1:
            return here
        is_d = by_mma.pop()
        kept = [k for k in here if (self.regions[k].role == "D") == is_d]
        return kept or here


def _signs_of(found: Sequence[Region]) -> tuple[str, ...]:
    """Return a sign for each region: accumulators by number, the rest by letters that remind of them."""
    free = [letter for letter in ascii_letters if letter not in _SIGNS.values()]
    taken: set[str] = set()
    out: list[str] = []
    for region in found:
        sign = str(region.number) if region.role == "D" else _SIGNS[region.role]
        if len(sign) > 1 or sign in taken:
            sign = free.pop(0) if free else "?"
        taken.add(sign)
        out.append(sign)
    return tuple(out)


def map_lines(snapshot: TmemSnapshot, source: Source, cta: int = 0) -> Lines:
    """Return the map of one CTA's Tensor Memory, its allocations and, per sign, what it is and what wrote and
    read it.
    """
    title: Line = (
        ("Tensor Memory", "bold"),
        f" of CTA {cta}: {NUM_LANES} lanes x {NUM_COLS} columns of 32 bits",
    )
    if not snapshot.allocations:
        return (title, ("  the CTA allocated none",))
    picture = TmemPicture(snapshot)
    unit = counted(picture.step, "column")
    out: list[Line] = [title, *_allocations(snapshot), (f"  one sign is {BAND_LANES} lanes x {unit}",), ()]
    ruler = "".join(f"{col:<8d}" for col in range(0, picture.width, 8 * picture.step))
    out.append((f"  column     {ruler.rstrip()}",))
    for band, row in enumerate(picture.rows()):
        lane = BAND_LANES * band
        pieces: list[Piece] = [(f"  lane {lane:<6d}", "dim")]
        pieces += [(sign, picture.styles.get(sign, "dim")) for sign in row]
        out.append(tuple(pieces))
    if picture.width < NUM_COLS:
        out.append((f"  columns {picture.width}-{NUM_COLS - 1} are not drawn: this CTA never held them",))
    out.append(())
    for sign, region in zip(picture.signs, picture.regions, strict=True):
        out += _region_lines(sign, picture.styles[sign], region, source)
    return (*out, *_signs(picture))


def _signs(picture: TmemPicture) -> Lines:
    """Explain the signs that are there and stand for no region."""
    seen = {sign for row in picture.rows() for sign in row}
    words = (
        (UNWRITTEN, "allocated, never written"),
        (GAP, "lanes that an accumulator of M = 64 leaves free"),
        (MIXED, "more than one of them"),
        (FREE, "never allocated"),
    )
    return tuple((f"  {sign}  {text}",) for sign, text in words if sign in seen)


def _allocations(snapshot: TmemSnapshot) -> Lines:
    out: list[tuple[str, str]] = []
    for one in snapshot.allocations:
        freed = f"freed {_place(one.freed)}" if one.freed else "never freed"
        out.append((_extent(one.column, one.num_cols), f"allocated {_place(one.span)}, {freed}"))
    return wrapped(dict.fromkeys(out))


def _region_lines(sign: str, style: str, region: Region, source: Source) -> Lines:
    lanes = ",".join(f"{first}-{last}" for first, last in region.lanes)
    head: Line = (
        "  ",
        (sign, style),
        f"  {region_title(region)}: {_extent(region.column, region.num_cols)}, lanes {lanes}",
    )
    rows: list[list[Piece]] = []
    for word, touches in (("written", region.writes), ("read", region.reads)):
        if not touches:
            rows.append([f"never {word}", "", "", ""])
        for spelling, same in _by_spelling(touches, source).items():
            count = sum(touch.count for touch in same)
            rows.append([word, spelling, _places(t.span for t in same), f"{count:,}x"])
            word = ""
    return (head, *columns(rows, right=(3,), indent=4))


def region_title(region: Region) -> str:
    """Return what a region is, in words: "accumulator 0: D 128 x 256 f32"."""
    of = region.operand
    if of is None or region.role != "D":
        return _TITLES[region.role]
    M, N = of.shape[:2]
    part = LAYOUTS[of.layout].num_rows
    pair = f", {part} rows of it here" if part != M else ""
    return f"accumulator {region.number}, D {M} x {N} {of.element}{pair}"


def _by_spelling(touches: Sequence[Touch], source: Source) -> dict[str, list[Touch]]:
    out: dict[str, list[Touch]] = {}
    for touch in touches:
        out.setdefault(_spelling(touch, source), []).append(touch)
    return out


def _spelling(touch: Touch | Writer, source: Source) -> str:
    """Return the instruction without `tcgen05.`, which all here are, and the words that say nothing."""
    return short(spelling_at(touch.span, source)).removeprefix("tcgen05.") or touch.what


def _places(spans: Iterable[Span]) -> str:
    places = list(dict.fromkeys(map(_place, spans)))
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    first, *others = places[:MOST_PLACES]
    file = first.rpartition(":")[0]
    return ", ".join([first, *(o.removeprefix(f"{file}:") for o in others)]) + more


def _extent(column: int, num_cols: int) -> str:
    return f"columns {ranges(range(column, column + num_cols))}"


def _place(span: Span) -> str:
    return span.loc or f"{span.file}:{span.line}"


def cell_lines(snapshot: TmemSnapshot, source: Source, lane: int, col: int) -> Lines:
    """Say what one cell is for: the elements it holds, what wrote it last, and what reads it."""
    head: Line = ((f"tmem[lane {lane}, col {col}]", "bold"),)
    band = lane // BAND_LANES
    every = regions(snapshot)
    found = [r for r in every if r.bands[band, col]]
    around = [r for r in every if r.has_gaps and r.bands[:, col].any()]
    if around and not found:
        return (head, (f"  between the lanes of {region_title(around[0])}",))
    if not found:
        held = bool(held_columns(snapshot)[col])
        return (head, ("  allocated, never written" if held else "  never allocated",))
    rows = [("is", f"{region_title(r)}{_element(r, lane, col, snapshot.pair_rank)}") for r in found]
    last = int(snapshot.last_writer[lane, col])
    if last >= 0:
        writer = snapshot.writers[last]
        rows.append(("last written by", f"{_spelling(writer, source)} at {_place(writer.span)}"))
    for region in found:
        reads = [t for t in region.reads if t.bands[band, col]]
        for spelling, same in _by_spelling(reads, source).items():
            rows.append(("read by", f"{spelling} at {_places(t.span for t in same)}"))
    return (head, *wrapped(rows))


def _element(region: Region, lane: int, col: int, pair_rank: int) -> str:
    """Name the matrix element of D that a cell holds."""
    if region.role != "D" or region.operand is None:
        return ""
    layout = LAYOUTS[region.operand.layout]
    m, n = layout.elements(region.operand.shape[1])
    at = pair_rank % layout.num_ctas, lane - region.operand.lane, col - region.column
    if not 0 <= at[1] < NUM_LANES or m[at] < 0:
        return ""
    return f", element ({int(m[at])}, {int(n[at])})"


def map_object(snapshot: TmemSnapshot, source: Source, cta: int = 0) -> dict[str, Any]:
    """Return the map as the JSON object of the command line: allocations, regions and the rows of signs."""
    picture = TmemPicture(snapshot)
    return {
        "cta": cta,
        "allocations": snapshot.allocations,
        "columns_per_sign": picture.step,
        "lanes_per_sign": BAND_LANES,
        "rows": ["".join(row) for row in picture.rows()],
        "regions": [
            {
                "sign": sign,
                "role": r.role,
                "title": region_title(r),
                "column": r.column,
                "num_cols": r.num_cols,
                "lanes": r.lanes,
                "mma": _operand(r.operand),
                "written_by": _touches(r.writes, source),
                "read_by": _touches(r.reads, source),
            }
            for sign, r in zip(picture.signs, picture.regions, strict=True)
        ],
    }


def _operand(operand: Operand | None) -> dict[str, Any] | None:
    if operand is None:
        return None
    return {
        "kind": operand.kind,
        "shape": operand.shape,
        "layout": operand.layout,
        "d_format": operand.element,
    }


def _touches(touches: Iterable[Touch], source: Source) -> list[dict[str, Any]]:
    return [
        {
            "instruction": f"tcgen05.{_spelling(t, source)}",
            "line": t.span.line,
            "place": _place(t.span),
            "count": t.count,
        }
        for t in touches
    ]
