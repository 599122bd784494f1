"""Pictures as SVG: the Tensor Memory of a run, a layout, a fragment, a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import pairwise
from string import ascii_uppercase

import numpy as np

from drywell.base.interval import Interval
from drywell.layout.arrays import IntArray
from drywell.layout.atoms import Atom
from drywell.layout.named import ComposeLayout, TileLayout, all_places, evaluate
from drywell.layout.tmem import NUM_COLS, NUM_LANES, PARTITION_LANES
from drywell.observe.tensor_memory import BAND_LANES, TmemSnapshot
from drywell.observe.timeline import Timeline
from drywell.report.fragment import Asked
from drywell.report.layout import MOST_DRAWN, TMEM_AXES, Block, blocks_of, run_of
from drywell.report.svg import FILLS, ON_FILL, Picture, text_width
from drywell.report.tensor_memory import TmemPicture, region_title
from drywell.report.text import ranges

LEFT, TOP, RIGHT = 74, 34, 16
MAP_WIDTH, LANE_HEIGHT = 640, 1.75
CELL_WIDTH, CELL_HEIGHT = 52, 16
SHOWN_ROWS, SHOWN_COLS = 32, 12
ROW_HEIGHT, TIME_WIDTH = 20, 680
CHUNK_BITS = 128
MIN_WIDTH = 420
_Rect = tuple[int, int, int, int]
"""First lane, first column, lanes, columns."""


@singledispatch
def picture(value: object) -> str:
    """Return a layout, the Tensor Memory of a CTA or a timeline as SVG; TypeError for anything else.

    >>> from drywell.layout.atoms import accumulator
    >>> picture(accumulator("F", N=64))[:4]
    '<svg'
    """
    raise TypeError(f"there is no picture of a {type(value).__name__}")


@picture.register
def _(value: Atom) -> str:
    return layout_picture(value)


@picture.register(TileLayout)
@picture.register(ComposeLayout)
def _(value: TileLayout | ComposeLayout) -> str:
    return layout_picture(Atom(str(value), value, value.shape))


@picture.register
def _(value: TmemSnapshot) -> str:
    return tmem_picture(value)


@picture.register
def _(value: Timeline) -> str:
    return timeline_picture(value)


def tmem_picture(snapshot: TmemSnapshot, cta: int = 0) -> str:
    """Draw the Tensor Memory of a CTA: what is allocated, and what its columns are for."""
    if not snapshot.allocations:
        picture = Picture(LEFT + MAP_WIDTH + RIGHT, f"CTA {cta} allocated no Tensor Memory")
        picture.text(14, 22, picture.label)
        return picture.svg(36)
    found = TmemPicture(snapshot)
    words = ", ".join(map(region_title, found.regions)) or "nothing was written"
    picture = Picture(LEFT + MAP_WIDTH + RIGHT, f"Tensor Memory of CTA {cta}: {words}")
    scale = MAP_WIDTH / found.width
    bottom = _frame(picture, NUM_LANES, found.width, scale)
    for allocation in snapshot.allocations:
        rect = (0, allocation.column, NUM_LANES, allocation.num_cols)
        _fill(picture, rect, scale, "held", f"allocated: {_columns(allocation.column, allocation.num_cols)}")
    rows: list[tuple[str, str, str]] = []
    for k, (sign, region) in enumerate(zip(found.signs, found.regions, strict=True)):
        lanes = ", ".join(f"{first}-{last}" for first, last in region.lanes)
        where = f"{_columns(region.column, region.num_cols)}, lanes {lanes}"
        for rect in _rects(region.bands):
            _fill(picture, rect, scale, FILLS[k % len(FILLS)], f"{region_title(region)}: {where}", sign)
        rows.append((FILLS[k % len(FILLS)], sign, f"{region_title(region)}: {where}"))
    rows += [("held", "", "allocated, not written"), ("empty", "", "not allocated")]
    if found.width < NUM_COLS:
        rows.append(("", "", f"columns {found.width}-{NUM_COLS - 1} are not drawn: this CTA never held them"))
    return picture.svg(picture.legend(LEFT, bottom + 12, rows) + 8)


def _columns(first: int, count: int) -> str:
    return f"columns {ranges(range(first, first + count))}"


def _frame(picture: Picture, lanes: int, cols: int, scale: float, what: str = "column") -> float:
    """Draw an empty map with its axes, and return where it ends."""
    height = lanes * LANE_HEIGHT
    picture.rect(LEFT, TOP, cols * scale, height, "empty")
    step = max(1 << (cols - 1).bit_length() >> 3, 1)
    picture.text(14, TOP - 8, what, "muted")
    for col in range(0, cols, step):
        picture.line(LEFT + col * scale, TOP - 4, LEFT + col * scale, TOP)
        picture.text(LEFT + col * scale, TOP - 8, str(col), "muted", mono=True, size=11)
    for lane in range(0, lanes, PARTITION_LANES):
        y = TOP + lane * LANE_HEIGHT
        picture.line(LEFT - 4, y, LEFT, y)
        picture.text(14, y + 11, f"lane {lane}", "muted")
        picture.text(14, y + 25, f"warp {lane // PARTITION_LANES % 4}", "muted", size=11)
    return TOP + height


def _fill(picture: Picture, rect: _Rect, scale: float, fill: str, title: str, sign: str = "") -> None:
    """Draw a rectangle of cells, with its sign where there is room."""
    lane, col, num_lanes, num_cols = rect
    x, y = LEFT + col * scale, TOP + lane * LANE_HEIGHT
    width, height = num_cols * scale, num_lanes * LANE_HEIGHT
    picture.rect(x, y, width, height, fill, edge=True, title=title)
    if sign and width >= text_width(sign) + 4 and height >= 14:
        picture.text(x + width / 2, y + height / 2 + 4, sign, ON_FILL, anchor="middle", bold=True)


def _rects(bands: np.ndarray) -> list[_Rect]:
    """Return the rectangles that cover a map of [bands of lanes, columns]: runs of columns that are alike."""
    edges = np.flatnonzero((bands[:, 1:] != bands[:, :-1]).any(0)) + 1
    bounds = [0, *edges.tolist(), bands.shape[1]]
    out: list[_Rect] = []
    for first, stop in pairwise(bounds):
        rows = np.concatenate([[0], bands[:, first].astype(np.int8), [0]])
        for top, end in np.flatnonzero(np.diff(rows)).reshape(-1, 2).tolist():
            out.append((top * BAND_LANES, first, (end - top) * BAND_LANES, stop - first))
    return out


def layout_picture(atom: Atom) -> str:
    """Draw a layout: Tensor Memory with its blocks of elements, or the place of each element in a table."""
    is_tmem = set(atom.layout.axes) <= TMEM_AXES and len(atom.shape) == 2 and atom.layout.size <= MOST_DRAWN
    blocks = blocks_of(atom) if is_tmem else ()
    if 0 < len(blocks) <= len(ascii_uppercase):
        return _tmem_layout(atom, blocks)
    return _table(atom)


def _tmem_layout(atom: Atom, blocks: Sequence[Block]) -> str:
    places = all_places(atom.layout)
    lanes = max(NUM_LANES, int(places["TLane"].max()) + 1 if "TLane" in places else 1)
    cols = int(places["TCol"].max()) + 1 if "TCol" in places else 1
    picture = Picture(LEFT + MAP_WIDTH + RIGHT, f"layout {atom.layout} in Tensor Memory")
    scale = MAP_WIDTH / cols
    unit = "column" if atom.element_bits == 32 else "element"
    bottom = _frame(picture, lanes, cols, scale, unit)
    rows: list[tuple[str, str, str]] = []
    copies = _copies(atom)
    for k, block in enumerate(blocks):
        (top, end), (left, right) = block.elements
        fill, sign = FILLS[k % len(FILLS)], ascii_uppercase[k]
        words = f"elements [{top}:{end}, {left}:{right}]"
        for lane, col in copies:
            rect = (block.lane + lane, block.col + col, end - top, right - left)
            _fill(picture, rect, scale, fill, words, sign)
        where = f"lanes {ranges(range(block.lane, block.lane + end - top))}"
        where += f", {unit}s {ranges(range(block.col, block.col + right - left))}"
        rows.append((fill, sign, f"{words}: {where}"))
    if len(copies) > 1:
        steps = ", ".join(f"+{lane} lanes" if lane else f"+{col} columns" for lane, col in copies[1:])
        rows.append(("", "", f"and copies at {steps}"))
    rows.append(("empty", "", "nothing"))
    return picture.svg(picture.legend(LEFT, bottom + 12, rows) + 8)


def _copies(atom: Atom) -> list[tuple[int, int]]:
    """Return by how many (lanes, columns) each copy of an element is off the first."""
    arrays = all_places(atom.layout)
    num = next(iter(arrays.values())).reshape(atom.layout.size, -1).shape[1]
    first = {axis: array.reshape(atom.layout.size, num)[0] for axis, array in arrays.items()}
    none = np.zeros(num, np.int64)
    lane, col = (first.get(axis, none) for axis in ("TLane", "TCol"))
    return sorted({(int(a - lane[0]), int(b - col[0])) for a, b in zip(lane, col, strict=True)})


def fragment_picture(asked: Asked) -> str:
    """Draw which thread and register holds each cell of a `tcgen05.ld/st`, or each element of ldmatrix."""
    return _table(asked.atom, 0 if asked.shape == "m8n8" else PARTITION_LANES * asked.warp)


def _table(atom: Atom, first_lane: int = 0) -> str:
    """Draw the first rows and columns of a matrix, each cell with where the element is."""
    shape = atom.shape if len(atom.shape) > 1 else (1, *atom.shape)
    where = {axis: a.reshape(-1, shape[-1]) for axis, a in evaluate(atom.layout, atom.shape).items()}
    order = sorted(where, key=lambda axis: _ORDER.get(axis, 0))
    num_rows, num_cols = next(iter(where.values())).shape
    run = run_of(where, num_cols)
    rows, cols = range(min(num_rows, SHOWN_ROWS)), range(0, num_cols, run)[:SHOWN_COLS]
    texts = [[_place(atom, where, order, r, c) for c in cols] for r in rows]
    widest = max(text_width(text, 11, mono=True) for row in texts for text in row) + 8
    width = max(CELL_WIDTH, widest)
    is_fragment = "laneid" in where
    shown = f"a cell says {_legend(order, is_fragment, is_fragment and atom.element_bits == 16, run)}"
    room = max(LEFT + width * len(cols) + RIGHT, text_width(shown) + 2 * RIGHT, MIN_WIDTH)
    picture = Picture(room, f"layout {atom.layout}")
    picture.text(14, 22, "lane" if is_fragment and len(atom.shape) == 2 else "row", "muted")
    colours = _grouped(atom, where)
    for k, col in enumerate(cols):
        picture.text(LEFT + width * (k + 0.5), 22, str(col), "muted", anchor="middle", mono=True, size=11)
    for row in rows:
        y = TOP - 4 + row * CELL_HEIGHT
        picture.text(14, y + 12, str(first_lane + row), "muted", mono=True, size=11)
        for k, col in enumerate(cols):
            x, fill = LEFT + width * k, FILLS[int(colours[row, col]) % len(FILLS)]
            picture.rect(x, y, width, CELL_HEIGHT, fill, edge=True)
            picture.text(x + width / 2, y + 12, texts[row][k], ON_FILL, anchor="middle", mono=True, size=11)
    bottom = TOP + len(rows) * CELL_HEIGHT + 16
    picture.text(14, bottom, shown)
    if len(rows) < num_rows or len(cols) * run < num_cols:
        bottom += 18
        words = f"shown are {len(rows)} of {num_rows} rows and {len(cols) * run} of {num_cols} columns"
        picture.text(14, bottom, words, "muted")
    return picture.svg(bottom + 12)


def _place(atom: Atom, where: dict[str, IntArray], order: Sequence[str], row: int, col: int) -> str:
    """Return where an element is, in one word; a 16-bit register is a half of one."""
    values = {axis: int(where[axis][row, col]) for axis in order}
    if "laneid" in values and "m" in values and atom.element_bits == 16:
        register, half = divmod(values["m"], 2)
        return ":".join(f"{register}{'LH'[half]}" if axis == "m" else str(values[axis]) for axis in order)
    return ":".join(str(values[axis]) for axis in order)


def _grouped(atom: Atom, where: dict[str, IntArray]) -> IntArray:
    """Return what colours stand for: the register, or 16 bytes of shared memory; else the first axis."""
    if "m" not in where:
        return next(iter(where.values()))
    unit = CHUNK_BITS // atom.element_bits if "laneid" not in where else 2 if atom.element_bits == 16 else 1
    return where["m"] // unit


def _legend(order: Sequence[str], is_fragment: bool, has_halves: bool, run: int) -> str:
    words = dict(_WORDS, m="register" if is_fragment else "element of shared memory")
    said = ":".join(words.get(axis, axis) for axis in order)
    if has_halves:
        return f"{said}, its low (L) or high (H) half"
    if is_fragment or list(order) != ["m"]:
        return said
    first = f", the first of {run} in a row" if run > 1 else ""
    return f"{said}{first}; a colour is 16 bytes"


_ORDER = {"cbx": -5, "wgid": -4, "warpid": -3, "wid_in_wg": -3, "laneid": -2, "TLane": -1, "TCol": 1, "m": 2}
_WORDS = {"cbx": "CTA", "laneid": "thread", "wid_in_wg": "warp", "TLane": "lane", "TCol": "column"}


def timeline_picture(timeline: Timeline, cta: int = 0, names: Sequence[str] = ()) -> str:
    """Draw when each warp of a CTA ran and waited, and when its SM's units worked; `names` are of warps."""
    sm = next((i.sm for i in timeline.events if i.cta == cta), 0)
    rows: dict[tuple[str, int], list[Interval]] = {}
    for i in timeline.events:
        if i.sm == sm and i.unit != "commit" and (i.unit != "warp" or i.cta == cta):
            rows.setdefault((i.unit, i.warp if i.unit == "warp" else -1), []).append(i)
    order = sorted(rows, key=lambda key: (key[0] != "warp", key))
    words = [_row_name(*key, names) for key in order]
    label = f"what CTA {cta} and its SM did in {timeline.cycles:,.0f} cycles"
    left = max(text_width(word) for word in ("cycles", *words)) + 30
    picture = Picture(left + TIME_WIDTH + RIGHT, label)
    scale = TIME_WIDTH / max(timeline.cycles, 1.0)
    bottom = TOP + len(order) * ROW_HEIGHT
    for part in range(6):
        x = left + TIME_WIDTH * part / 5
        picture.line(x, TOP - 4, x, bottom)
        at = f"{timeline.cycles * part / 5:,.0f}"
        picture.text(x, TOP - 10, at, "muted", anchor="end" if part == 5 else "middle", mono=True, size=11)
    picture.text(14, TOP - 10, "cycles", "muted")
    for k, key in enumerate(order):
        y = TOP + k * ROW_HEIGHT
        picture.text(14, y + 14, words[k])
        _bars(picture, rows[key], left, y, scale)
    rows_of = [(FILLS[0], "", "a warp runs"), (FILLS[1], "", "a unit works"), ("held", "", "a warp waits")]
    return picture.svg(picture.legend(left, bottom + 12, rows_of) + 8)


def _row_name(unit: str, warp: int, names: Sequence[str]) -> str:
    if unit != "warp":
        return unit.replace("_", " ")
    return f"warp {warp}: {names[warp]}" if warp < len(names) else f"warp {warp}"


def _bars(picture: Picture, intervals: Sequence[Interval], left: float, y: float, scale: float) -> None:
    """Draw the stretches of a row; those too short to tell apart are drawn as one."""
    fills = {"run": FILLS[0], "busy": FILLS[1], "stall": "held"}
    for doing, fill in (("stall", "held"), ("busy", fills["busy"]), ("run", fills["run"])):
        spans: list[list[float]] = []
        for i in sorted((i for i in intervals if i.doing == doing), key=lambda i: i.begin):
            if spans and i.begin * scale <= spans[-1][1] * scale + 0.75:
                spans[-1][1] = max(spans[-1][1], i.end)
            else:
                spans.append([i.begin, i.end])
        inset = 6 if doing == "stall" else 2
        for begin, end in spans:
            width = max((end - begin) * scale, 0.75)
            picture.rect(left + begin * scale, y + inset, width, ROW_HEIGHT - 2 * inset, fill)
