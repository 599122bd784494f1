"""A layout in words and as a picture in text: its dimensions, its axes, other notations, and where things
lie.
"""

from __future__ import annotations

from contextlib import suppress
from string import ascii_uppercase
from typing import Any

import numpy as np

from drywell.base.record import record
from drywell.layout.atoms import Atom
from drywell.layout.cute import tmem_fields, to_cute
from drywell.layout.error import LayoutError
from drywell.layout.linear import to_linear
from drywell.layout.match import Match, rectangles, region_text
from drywell.layout.named import ComposeLayout, TileLayout, all_places, coordinates, evaluate, step_text
from drywell.layout.named_algebra import canonicalize, group, num_places
from drywell.layout.places import elements_at, index_text
from drywell.layout.tmem import NUM_LANES
from drywell.report.text import Line, Lines, Piece, columns, counted, ranges, wrapped

TMEM_AXES = frozenset(("TLane", "TCol"))
BAND_LANES, MAP_SIGNS = 16, 64
WIDTH, SHOWN_ROWS, SHOWN_COLS = 80, 16, 8
MOST_DRAWN = 1 << 20
STYLES = ("bold cyan", "bold magenta", "bold green", "bold yellow", "bold blue", "bold red")
NOWHERE, MIXED = ".", "*"
_ORDER = {"cbx": -5, "wgid": -4, "warpid": -3, "wid_in_wg": -3, "laneid": -2, "TLane": -1, "TCol": 1, "m": 2}


@record
class Block:
    """A rectangle of elements, [begin, end) per dimension, that lies as a rectangle, and its first place."""

    elements: tuple[tuple[int, int], tuple[int, int]]
    lane: int
    col: int


def layout_lines(atom: Atom) -> Lines:
    """Return a layout as lines: dimensions, axes, CuTe's and the linear form or why there is none, and a
    picture.
    """
    layout = atom.layout
    name = "" if atom.name == str(layout) else f"{atom.name}: "
    shape = " x ".join(map(str, atom.shape))
    count = counted(layout.size, "element")
    places = counted(num_places(layout), "place")
    title: Line = ((str(layout), "bold"),)
    what = wrapped([("", f"{name}{shape}, {count} of {atom.element_bits} bits, {places}")], gap=0)
    return (title, *what, (), *wrapped(_facts(atom)), *_picture(atom))


def _facts(atom: Atom) -> list[tuple[str, str]]:
    layout = atom.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    rows: list[tuple[str, str]] = []
    try:
        grouped, seps = group(tile, atom.shape)
        for k, extent in enumerate(atom.shape):
            steps = [_steps(it.extent, it.stride_text()) for it in grouped.shard[seps[k] : seps[k + 1]]]
            rows.append((f"dimension {k}", f"{extent}: " + (", each ".join(steps) or "one element")))
    except LayoutError:
        rows += [("iter", _steps(it.extent, it.stride_text())) for it in tile.shard]
    rows += [("copies", _steps(it.extent, it.stride_text())) for it in tile.replica]
    rows += [("offset", step_text(value, axis)) for axis, value in tile.offset if value]
    if isinstance(layout, ComposeLayout):
        rows.append(("swizzle", _swizzle(layout)))
    rows += [(axis, _taken(axis, array)) for axis, array in _in_order(all_places(layout)).items()]
    plain = canonicalize(tile)
    if isinstance(layout, TileLayout) and plain != layout:
        rows.append(("canonical", str(plain)))
    return [*rows, ("CuTe", _cute(atom)), *_linear(atom)]


def _in_order(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the axes from the largest thing to the smallest: CTA, warp, lane, register or column."""
    return dict(sorted(arrays.items(), key=lambda pair: _ORDER.get(pair[0], 0)))


def _taken(axis: str, array: Any) -> str:
    taken = np.unique(array)
    low, high = int(taken[0]), int(taken[-1])
    gaps = "" if len(taken) == high - low + 1 else f", {len(taken)} of them"
    beyond = f": Tensor Memory has {NUM_LANES} lanes" if axis == "TLane" and high >= NUM_LANES else ""
    return f"{low} to {high}{gaps}{beyond}"


def _steps(extent: int, stride: str) -> str:
    return f"{counted(extent, 'step')} of {stride}"


def _swizzle(layout: ComposeLayout) -> str:
    source, target = layout.per_element + layout.atom_len, layout.per_element
    if not layout.swizzle_inner:
        source, target = target, source
    bits = layout.swizzle_len

    def name(low: int) -> str:
        return f"bit {low}" if bits == 1 else f"bits {low}-{low + bits - 1}"

    return f"{name(target)} of m ^= {name(source)}"


def _cute(atom: Atom) -> str:
    weights = tmem_fields(min(32, atom.element_bits)) if set(atom.layout.axes) <= TMEM_AXES else None
    try:
        cute = to_cute(atom.layout, weights, atom.shape)
    except LayoutError as error:
        return f"none: {_reason(error, atom)}"
    return f"{cute}" + (f"   at lane x {weights['TLane']} + column" if weights else "")


def _reason(error: LayoutError, atom: Atom) -> str:
    return error.message.replace(str(atom.layout), "it")


def _linear(atom: Atom) -> list[tuple[str, str]]:
    try:
        bases = to_linear(atom.layout, atom.shape).bases
    except LayoutError as error:
        return [("linear", f"none: {_reason(error, atom)}")]
    rows: list[tuple[str, str]] = []
    for axis, steps in _in_order(dict(bases)).items():
        text = " ".join(f"({','.join(map(str, step))})" for step in steps) or "no bits"
        rows.append(("linear" if not rows else "", f"{axis}: {text}"))
    return rows


def _picture(atom: Atom) -> Lines:
    layout = atom.layout
    if num_places(layout) > MOST_DRAWN:
        return ((), ("  too large to draw",))
    if set(layout.axes) <= TMEM_AXES and len(atom.shape) == 2:
        return ((), *_tmem_picture(atom))
    return ((), *_grid(atom))


def _tmem_picture(atom: Atom) -> Lines:
    """Return Tensor Memory in bands of 16 lanes, a letter for each block of elements that lies together."""
    blocks = blocks_of(atom)
    if len(blocks) > len(ascii_uppercase):
        return _grid(atom)
    extents = {axis: int(array.max()) + 1 for axis, array in all_places(atom.layout).items()}
    lanes, cols = max(NUM_LANES, extents.get("TLane", 1)), extents.get("TCol", 1)
    lanes += -lanes % BAND_LANES
    table = elements_at(atom.layout, {"TLane": lanes, "TCol": cols})
    owner = _owners(table, blocks, atom.shape)
    step = -(-cols // MAP_SIGNS)
    step = 1 << (step - 1).bit_length()
    unit = counted(step, "column" if atom.element_bits == 32 else f"{atom.element_bits}-bit element")
    out: list[Line] = [(f"  one sign is {BAND_LANES} lanes x {unit}",), _ruler(cols, step)]
    for band in range(0, lanes, BAND_LANES):
        row: list[Piece] = [(f"  lanes {f'{band}-{band + BAND_LANES - 1}':<8}", "dim")]
        for col in range(0, cols, step):
            row.append(_sign(owner[band : band + BAND_LANES, col : col + step]))
        out.append(tuple(row))
    rows: list[list[Piece]] = []
    for k, block in enumerate(blocks):
        (top, bottom), (left, right) = block.elements
        lies = f"lanes {_run(block.lane, bottom - top)}, {_cols(atom)} {_run(block.col, right - left)}"
        rows.append([(ascii_uppercase[k], STYLES[k % len(STYLES)]), region_text(block.elements), lies])
    return (*out, *columns(rows), (f"  {NOWHERE} nothing   {MIXED} several",))


def _cols(atom: Atom) -> str:
    return "columns" if atom.element_bits == 32 else "elements"


def _run(first: int, count: int) -> str:
    return ranges(range(first, first + count))


def _ruler(cols: int, step: int) -> Line:
    out = "  " + " " * 14
    for col in range(0, cols, 8 * step):
        out += f"{col:<8}"
    return (out.rstrip(),)


def _owners(table: Any, blocks: tuple[Block, ...], shape: tuple[int, ...]) -> Any:
    """Return the number of the block that each place holds an element of, -1 for none."""
    of = np.full(shape, -1, np.int64)
    for k, block in enumerate(blocks):
        (top, bottom), (left, right) = block.elements
        of[top:bottom, left:right] = k
    return np.where(table < 0, -1, of.reshape(-1)[np.maximum(table, 0)])


def _sign(part: Any) -> Piece:
    found = np.unique(part)
    held = found[found >= 0]
    if not held.size:
        return (NOWHERE, "dim")
    if held.size > 1:
        return (MIXED, "dim")
    return (ascii_uppercase[int(held[0])], STYLES[int(held[0]) % len(STYLES)])


def blocks_of(atom: Atom) -> tuple[Block, ...]:
    """Return the rectangles of elements that lie as rectangles, in order; copies are left out."""
    where = evaluate(atom.layout, atom.shape)
    rows, cols = np.indices(atom.shape)
    lane = where.get("TLane", np.zeros_like(rows))
    col = where.get("TCol", np.zeros_like(rows))
    moved = np.stack([lane - rows, col - cols])
    return tuple(
        Block(((top, bottom), (left, right)), int(lane[top, left]), int(col[top, left]))
        for top, bottom, left, right in rectangles(moved)
    )


def _grid(atom: Atom) -> Lines:
    """Return the first rows and columns, and the last, with the place of each element (its first copy)."""
    shape = atom.shape if len(atom.shape) > 1 else (1, *atom.shape)
    places = _in_order(evaluate(atom.layout))
    where = {axis: array.reshape(-1, shape[-1]) for axis, array in places.items()}
    rows, cols = next(iter(where.values())).shape
    run = run_of(where, cols)
    shown_rows = list(range(rows)) if rows <= SHOWN_ROWS + 1 else [*range(SHOWN_ROWS), rows - 1]
    firsts = list(range(0, cols, run))
    widest = max(sum(len(str(int(array.max()))) for array in where.values()) + len(where), 4)
    room = WIDTH - len("  " + index_text(rows - 1, shape[:-1]) + "... ")
    fits = min(SHOWN_COLS, room // widest - 1)
    shown = firsts if len(firsts) <= fits + 1 else [*firsts[:fits], firsts[-1]]
    table: list[list[Piece]] = [["", *(str(col) for col in shown)]]
    for row in shown_rows:
        of = index_text(row, shape[:-1]).strip("()") if len(shape) > 2 else str(row)
        values = [":".join(str(int(array[row, col])) for array in where.values()) for col in shown]
        table.append([(of, "dim"), *values])
    if len(shown) < len(firsts):
        for line, text in zip(table, ["...", *([""] * len(shown_rows))], strict=True):
            line.insert(len(shown), text)
    if len(shown_rows) < rows:
        table.insert(len(table) - 1, ["..."])
    each = f", each the first of {run} in a row" if run > 1 else ""
    legend = f"  rows and columns are elements, the numbers {':'.join(where)}{each}"
    return ((legend,), *columns(table, right=range(1, len(table[0])), gap=1))


def run_of(where: dict[str, Any], cols: int) -> int:
    """Return how many elements of a row always lie in a row on `m`, as a power of two."""
    if set(where) != {"m"}:
        return 1
    run = 1
    while cols % (2 * run) == 0 and (np.diff(where["m"].reshape(-1, 2 * run), axis=1) == 1).all():
        run *= 2
    return run


def place_lines(atom: Atom, index: tuple[int, ...]) -> Lines:
    """Say where one element lies, each copy in a line."""
    places = coordinates(atom.layout, index, atom.shape)
    texts = dict.fromkeys(", ".join(f"{axis} {value}" for axis, value in place.items()) for place in places)
    name = f"({', '.join(map(str, index))})"
    return tuple((f"{name} lies at {text}",) for text in texts)


def match_lines(match: Match) -> Lines:
    """Return what reading by another layout finds."""
    style = "bold green" if match.ok else "bold red"
    first, *rest = str(match).splitlines()
    head: Lines = ((f"written as {match.written}",), (f"read as    {match.read}",))
    return (*head, ((first, style),), *((line,) for line in rest))


def layout_object(atom: Atom) -> dict[str, Any]:
    """Return a layout as the JSON object of the command line; `cute` and `linear` are null where there is
    none.
    """
    layout = atom.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    weights = tmem_fields(min(32, atom.element_bits)) if set(layout.axes) <= TMEM_AXES else None
    out: dict[str, Any] = {
        "name": atom.name,
        "layout": str(layout),
        "shape": atom.shape,
        "element_bits": atom.element_bits,
        "canonical": str(canonicalize(tile)),
        "axes": {axis: [int(a.min()), int(a.max())] for axis, a in all_places(layout).items()},
        "cute": None,
        "linear": None,
    }
    with suppress(LayoutError):
        out["cute"] = str(to_cute(layout, weights, atom.shape))
    with suppress(LayoutError):
        out["linear"] = dict(to_linear(layout, atom.shape).bases)
    return out
