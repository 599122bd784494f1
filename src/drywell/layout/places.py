"""A layout as a table of places, and a table of places as a layout.

The tables of the machine (fragments, accumulators, scale factors, operand tiles) say for every element
where it lies; `layout_of` reads the notation off such a table, so that what is printed is what the machine
does. `elements_at` is the way back: which element lies at every place. Factors of a product of layouts are
read off its table too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from drywell.layout.arrays import IntArray
from drywell.layout.error import LayoutError
from drywell.layout.named import Iter, Layout, TileLayout, all_places, evaluate, span
from drywell.layout.named_algebra import direct_sum, group, same_map, tile


def layout_of(places: Mapping[str, IntArray], steps: Mapping[str, IntArray] | None = None) -> TileLayout:
    """Return the layout that puts every element where the table says, each dimension in iters of its own.

    `places` has for each axis an array of the logical shape; `steps` has for each axis what every copy adds
    (the first adds nothing). LayoutError E0408 when the notation has no such layout.

    >>> rows, cols = np.indices((4, 8))
    >>> str(layout_of({"TLane": 32 * (rows // 2) + rows % 2, "TCol": cols}))
    'S[(2, 2, 8) : (32@TLane, 1@TLane, 1@TCol)]'
    """
    shape = next(iter(places.values())).shape
    flat = {axis: np.asarray(array, np.int64).reshape(-1) for axis, array in places.items()}
    offset = tuple(sorted((axis, int(array[0])) for axis, array in flat.items() if array[0]))
    shard = _iters(flat, "element") or (Iter(1, 1, next(iter(flat))),)
    replica: tuple[Iter, ...] = ()
    if steps is not None:
        copies = {axis: np.asarray(array, np.int64).reshape(-1) for axis, array in steps.items()}
        if any(array[0] for array in copies.values()):
            raise LayoutError("E0408", "the first copy must lie where the table says")
        replica = _iters(copies, "copy")
    return _by_dimension(TileLayout(shard, replica, offset), shape)


def _iters(places: Mapping[str, IntArray], what: str) -> tuple[Iter, ...]:
    """Return the iters along which the places move, the slowest first; offsets are left out."""
    axes = list(places)
    table = np.stack([places[axis] for axis in axes])
    inner = 1
    out: list[Iter] = []
    while table.shape[1] > 1:
        step = table[:, 1] - table[:, 0]
        moved = np.flatnonzero(step)
        if len(moved) > 1:
            raise _unspeakable(what, inner, f"moves along {' and '.join(axes[k] for k in moved)} at once")
        along = int(moved[0]) if len(moved) else 0
        count = table.shape[1]
        straight = table[:, :1] + step[:, None] * np.arange(count)
        bent = np.flatnonzero((table != straight).any(0))
        run = int(bent[0]) if bent.size else count
        blocks = table.reshape(len(axes), -1, run) if count % run == 0 else None
        if blocks is None or ((blocks - blocks[:, :, :1]) != step[:, None, None] * np.arange(run)).any():
            raise _unspeakable(what, inner * run, "starts a run that is unlike the first one")
        out.insert(0, Iter(run, int(step[along]), axes[along]))
        table, inner = blocks[:, :, 0], inner * run
    return tuple(out)


def _unspeakable(what: str, index: int, why: str) -> LayoutError:
    return LayoutError(
        "E0408",
        f"these places have no form in the notation: {what} {index} {why}",
        hint="a layout moves in steps of one stride along one axis",
    )


def _by_dimension(layout: TileLayout, shape: tuple[int, ...]) -> TileLayout:
    """Split iters that run over the border of two dimensions, where that can be done."""
    kept = tuple(extent for extent in shape if extent > 1)
    try:
        return group(layout, kept)[0] if kept else layout
    except LayoutError:
        return layout


def outer_of(
    whole: TileLayout, inner: TileLayout, outer_shape: Sequence[int], inner_shape: Sequence[int]
) -> TileLayout | None:
    """Return the layout by which `tile` repeats `inner` to make `whole`, None when there is none.

    >>> from drywell.layout.named import parse_layout
    >>> print(outer_of(parse_layout("S[32 : 1]"), parse_layout("S[8 : 1]"), (4,), (8,)))
    S[4 : 1]
    """
    spans = {it.axis: span(inner, it.axis) for it in inner.shard}
    return _factor(whole, inner, outer_shape, inner_shape, spans, tile)


def left_of(
    whole: TileLayout, right: TileLayout, left_shape: Sequence[int], right_shape: Sequence[int]
) -> TileLayout | None:
    """Return what `direct_sum` adds to `right` to make `whole`, None when there is nothing such.

    >>> from drywell.layout.named import parse_layout
    >>> print(left_of(parse_layout("S[(4, 8) : (100, 1)]"), parse_layout("S[8 : 1]"), (4,), (8,)))
    S[4 : 100]
    """
    return _factor(whole, right, left_shape, right_shape, {}, direct_sum)


def _factor(
    whole: TileLayout,
    inner: TileLayout,
    outer_shape: Sequence[int],
    inner_shape: Sequence[int],
    spans: Mapping[str, int],
    product: Callable[..., Layout],
) -> TileLayout | None:
    """Read the outer factor off the places where `inner` begins, and keep it when the product is `whole`."""
    shape = tuple(a * b for a, b in zip(outer_shape, inner_shape, strict=True))
    begins = tuple(slice(None, None, n) for n in inner_shape)
    inner_offset = dict(inner.offset)
    table: dict[str, IntArray] = {}
    for axis, array in evaluate(whole, shape).items():
        moved = array[begins] - inner_offset.get(axis, 0)
        first = int(moved.flat[0])
        if ((moved - first) % spans.get(axis, 1)).any():
            return None
        table[axis] = (moved - first) // spans.get(axis, 1) + first
    copies = list(whole.replica)
    for it in inner.replica:
        if it not in copies:
            return None
        copies.remove(it)
    try:
        found = replace(layout_of(table), replica=tuple(copies))
        again = product(inner, found, outer_shape, inner_shape)
    except LayoutError:
        return None
    return found if same_map(again, whole) else None


def elements_at(layout: Layout, extents: Mapping[str, int]) -> IntArray:
    """Return which element (its row-major number) lies at every place, -1 for none: an array with one
    dimension for each axis of `extents`, in their order.

    Of several elements at one place the last is named. LayoutError E0405 when a place lies outside.

    >>> from drywell.layout.named import parse_layout
    >>> elements_at(parse_layout("S[(2, 2) : (2@TLane, 1@TCol)]"), {"TLane": 4, "TCol": 2}).tolist()
    [[0, 1], [-1, -1], [2, 3], [-1, -1]]
    """
    places = all_places(layout)
    for axis, array in places.items():
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= extents.get(axis, 1):
            raise LayoutError(
                "E0405",
                f"{layout} reaches {low if low < 0 else high} on {axis}, which has 0 to"
                f" {extents.get(axis, 1) - 1}",
            )
    out = np.full(tuple(extents.values()), -1, np.int64)
    numbers = np.broadcast_to(np.arange(layout.size)[:, None], next(iter(places.values())).shape)
    nowhere = np.zeros_like(numbers)
    out[tuple(places.get(axis, nowhere) for axis in extents)] = numbers
    return out


def index_text(flat: int, shape: Sequence[int]) -> str:
    """Print the index of an element: `(3, 5)`.

    >>> index_text(13, (4, 4))
    '(3, 1)'
    """
    digits: list[int] = []
    for extent in reversed(shape):
        flat, digit = divmod(flat, extent)
        digits.insert(0, digit)
    return f"({', '.join(map(str, digits))})"


def extents_of(layout: Layout) -> dict[str, int]:
    """Return for each axis one more than the highest coordinate.

    >>> from drywell.layout.named import parse_layout
    >>> extents_of(parse_layout("S[(2, 4) : (4@TLane, 1@TCol)] + R[2 : 64@TLane]"))
    {'TLane': 69, 'TCol': 4}
    """
    return {axis: int(array.max()) + 1 for axis, array in all_places(layout).items()}
