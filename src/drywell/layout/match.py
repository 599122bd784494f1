"""Where two layouts of the same cells disagree: what was written by one, read by the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from drywell.base.pictured import Pictured
from drywell.base.record import record
from drywell.layout.arrays import IntArray
from drywell.layout.atoms import Atom
from drywell.layout.error import LayoutError
from drywell.layout.named import Layout, all_places

MOST_BLOCKS = 8
_NOTHING = -1
_RIGHT, _WRONG, _EMPTY = 0, 1, 2

Region = tuple[tuple[int, int], ...]
"""[begin, end) for each dimension."""


@record
class Block:
    """Elements `wanted` that are looked for at `places` (lowest and highest coordinate on each axis), where
    elements `found` lie, or nothing.
    """

    wanted: Region
    places: tuple[tuple[str, int, int], ...]
    found: Region | None

    def __str__(self) -> str:
        where = ", ".join(f"{axis} {_run(low, high)}" for axis, low, high in self.places)
        holds = "nothing was written" if self.found is None else f"{region_text(self.found)} lies there"
        return f"{region_text(self.wanted)} read at {where}: {holds}"


@record
class Match(Pictured):
    """What reading by one layout finds of what was written by another.

    `num_right` places hold the element that is looked for, `num_wrong` another one, `num_empty` nothing;
    `num_unread` elements are written and not looked at. `blocks` are the first disagreements, as large as
    they are alike, `num_blocks` is how many there are.
    """

    written: str
    read: str
    num_right: int
    num_wrong: int
    num_empty: int
    num_unread: int
    blocks: tuple[Block, ...]
    num_blocks: int

    @property
    def ok(self) -> bool:
        """Say whether every element is found where it is looked for."""
        return not (self.num_wrong or self.num_empty)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        total = self.num_right + self.num_wrong + self.num_empty
        if self.ok:
            unread = f"; {self.num_unread:,} written elements are not read" if self.num_unread else ""
            return f"the layouts agree on all {total:,} places that are read{unread}"
        parts = (
            (self.num_right, "the element that is looked for"),
            (self.num_wrong, "another element"),
            (self.num_empty, "nothing"),
        )
        counts = [f"  {count:,} hold {what}" for count, what in parts if count]
        more = self.num_blocks - len(self.blocks)
        rest = [f"  and {more} more"] if more else []
        head = f"the layouts disagree: of {total:,} places"
        return "\n".join([head, *counts, *(f"  {block}" for block in self.blocks), *rest])


def region_text(region: Region) -> str:
    """Print a region as an index: `[0:16, 5]`.

    >>> region_text(((0, 16), (5, 6)))
    '[0:16, 5]'
    """
    return f"[{', '.join(str(a) if b == a + 1 else f'{a}:{b}' for a, b in region)}]"


def _run(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def check_match(
    written: Layout | Atom,
    read: Layout | Atom,
    written_shape: Sequence[int] | None = None,
    read_shape: Sequence[int] | None = None,
) -> Match:
    """Say where reading by `read` finds another element than the one that `written` put there.

    Both are layouts of one matrix, whose elements they may hold in part: an element is its index in the
    shape (an atom's own; by default the extents). An axis that one does not speak of counts as 0. Where
    `written` puts two elements at one place, the last one lies there. LayoutError E0405 when the shapes have
    different numbers of dimensions.

    >>> from drywell.layout.atoms import accumulator
    >>> from drywell.layout.named import parse_layout
    >>> print(check_match(accumulator("F", N=32), parse_layout("S[(64, 32) : (1@TLane, 1@TCol)]")))
    the layouts disagree: of 2,048 places
      512 hold the element that is looked for
      512 hold another element
      1,024 hold nothing
      [16:32, 0:32] read at TLane 16-31, TCol 0-31: nothing was written
      [32:48, 0:32] read at TLane 32-47, TCol 0-31: [16:32, 0:32] lies there
      [48:64, 0:32] read at TLane 48-63, TCol 0-31: nothing was written
    """
    (first, shape), (second, wanted_shape) = _shaped(written, written_shape), _shaped(read, read_shape)
    if len(shape) != len(wanted_shape):
        raise LayoutError(
            "E0405",
            f"shapes {shape} and {wanted_shape} have different numbers of dimensions",
            hint="say over which shape each is read",
        )
    axes = tuple(dict.fromkeys((*second.axes, *first.axes)))
    held = _held(*_codes(first, second, axes))
    wanted = np.stack(np.unravel_index(np.arange(second.size), wanted_shape))
    found = np.where(held >= 0, np.stack(np.unravel_index(np.maximum(held, 0), shape)), _NOTHING)
    state = np.where(held < 0, _EMPTY, (found != wanted[:, :, None]).any(0))
    blocks = list(_Sheets(wanted_shape, all_places(second), wanted, found, state).blocks())
    right, wrong, empty = (int((state == k).sum()) for k in (_RIGHT, _WRONG, _EMPTY))
    unread = first.size - len(np.unique(held[held >= 0]))
    shown = tuple(blocks[:MOST_BLOCKS])
    return Match(str(first), str(second), right, wrong, empty, unread, shown, len(blocks))


def _shaped(layout: Layout | Atom, shape: Sequence[int] | None) -> tuple[Layout, tuple[int, ...]]:
    if isinstance(layout, Atom):
        return layout.layout, layout.shape if shape is None else tuple(shape)
    return layout, layout.shape if shape is None else tuple(shape)


def _codes(first: Layout, second: Layout, axes: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return one number for each place of both layouts, [size, copies]."""
    both = [all_places(first), all_places(second)]
    codes = [np.zeros_like(next(iter(places.values()))) for places in both]
    for axis in axes:
        columns = [places.get(axis, np.zeros_like(code)) for places, code in zip(both, codes, strict=True)]
        low = min(int(column.min()) for column in columns)
        extent = max(int(column.max()) for column in columns) - low + 1
        codes = [code * extent + column - low for code, column in zip(codes, columns, strict=True)]
    return codes[0], codes[1]


def _held(codes: IntArray, looked_at: IntArray) -> IntArray:
    """Return which element lies at each place that is looked at, -1 for none."""
    flat = codes.reshape(-1)
    order = np.argsort(flat, kind="stable")
    at = np.searchsorted(flat, looked_at, side="right", sorter=order) - 1
    candidate = order[np.maximum(at, 0)]
    is_there = (at >= 0) & (flat[candidate] == looked_at)
    return np.where(is_there, candidate // codes.shape[1], _NOTHING)


@record(eq=False)
class _Sheets:
    """Every place that is looked at: which element is wanted there [dimensions, size], which one is found
    [dimensions, size, copies], and whether that is right.
    """

    shape: tuple[int, ...]
    places: Mapping[str, IntArray]
    wanted: IntArray
    found: IntArray
    state: IntArray

    def blocks(self) -> Iterator[Block]:
        """Yield rectangles (of the last two dimensions) in which the elements found are moved alike."""
        width, tall = self.shape[-1], self.shape[-2] if len(self.shape) > 1 else 1
        size, copies = self.state.shape
        for copy in range(copies):
            state = self.state[:, copy]
            moved = np.where(state == _EMPTY, 0, self.found[:, :, copy] - self.wanted)
            labels = np.concatenate([moved, state[None]])
            for start in range(0, size, tall * width):
                sheet = labels[:, start : start + tall * width].reshape(len(labels), tall, width)
                for top, bottom, left, right in rectangles(sheet):
                    if sheet[-1, top, left] != _RIGHT:
                        rows = start + np.arange(top, bottom)[:, None] * width + np.arange(left, right)
                        yield self._block(rows, copy)

    def _block(self, rows: IntArray, copy: int) -> Block:
        """Return one rectangle, given the numbers of its elements."""
        first, last = int(rows[0, 0]), int(rows[-1, -1])
        where = tuple(
            (axis, int(array[rows, copy].min()), int(array[rows, copy].max()))
            for axis, array in self.places.items()
        )
        wanted = _region(self.wanted[:, first], self.wanted[:, last])
        if self.state[first, copy] == _EMPTY:
            return Block(wanted, where, None)
        return Block(wanted, where, _region(self.found[:, first, copy], self.found[:, last, copy]))


def _region(first: IntArray, last: IntArray) -> Region:
    return tuple((a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True))


def rectangles(sheet: IntArray) -> Iterator[tuple[int, int, int, int]]:
    """Yield (top, bottom, left, right) of rectangles with one label each: rows alike, then columns alike."""
    tall, width = sheet.shape[1:]
    changes = np.flatnonzero((sheet[:, 1:] != sheet[:, :-1]).any((0, 2))) + 1
    for top, bottom in pairwise([0, *changes.tolist(), tall]):
        row = sheet[:, top]
        cuts = np.flatnonzero((row[:, 1:] != row[:, :-1]).any(0)) + 1
        for left, right in pairwise([0, *cuts.tolist(), width]):
            yield top, bottom, left, right
