"""What can be done with named-axis layouts: canonical form, equality, grouping, tiling, direct sum,
slicing, swizzling, reordering, wider and narrower elements.

The operations and their names are those of Apache TVM's `tirx` layouts; each keeps its law, stated
in its docstring.
Source: Apache TVM, `tirx` layout documentation and its `TileLayout` operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from drywell.layout.arrays import IntArray
from drywell.layout.error import LayoutError
from drywell.layout.named import (
    ELEMENT_AXES,
    THREAD_AXES,
    ComposeLayout,
    Iter,
    Layout,
    TileLayout,
    all_places,
    check_shape,
    span,
)
from drywell.layout.swizzle import SWIZZLE_MODES, Swizzle

MAX_ENUMERATED = 1 << 22

_FUSIONS = (
    ("laneid", "wid_in_wg", "tid_in_wg", 32),
    ("tid_in_wg", "wgid", "tx", 128),
    ("laneid", "warpid", "tx", 32),
)
"""(inner axis, outer axis, fused axis, size of the inner): fused = inner + size * outer."""


def canonicalize(layout: TileLayout, fuse_threads: bool = False) -> TileLayout:
    """Return the canonical form: unit iters and zero offsets dropped, neighbours fused, replicas
    sorted.

    It maps as before (an axis not spoken of counts as 0); with `fuse_threads` pairs of thread axes
    become the axis that holds both (lane and warp of a warpgroup -> `tid_in_wg`, ...). Shard iters
    are never reordered.

    >>> str(canonicalize(TileLayout((Iter(4, 32, "TLane"), Iter(32, 1, "TLane")))))
    'S[128 : 1@TLane]'
    """
    kept = [it for it in layout.shard if it.extent != 1] or [Iter(1, 1, layout.shard[0].axis)]
    tile = TileLayout(tuple(kept), layout.replica, tuple((a, v) for a, v in layout.offset if v))
    if fuse_threads:
        for inner, outer, fused, size in _FUSIONS:
            tile = _fuse_axes(tile, inner, outer, fused, size)
    shard = [tile.shard[0]]
    for it in tile.shard[1:]:
        last = shard[-1]
        if last.axis == it.axis and last.stride == it.extent * it.stride:
            shard[-1] = Iter(last.extent * it.extent, it.stride, it.axis)
        else:
            shard.append(it)
    replica = sorted(tile.replica, key=lambda it: (it.axis, it.stride, it.extent))
    return TileLayout(tuple(shard), tuple(replica), tile.offset)


def _fuse_axes(tile: TileLayout, inner: str, outer: str, fused: str, size: int) -> TileLayout:
    """Rename two axes to the one that holds both, when both are there and the inner one stays below
    `size`.
    """
    if not {inner, outer} <= set(tile.axes) or fused in tile.axes or span(tile, inner) > size:
        return tile
    scale = {inner: 1, outer: size}

    def renamed(iters: tuple[Iter, ...]) -> tuple[Iter, ...]:
        return tuple(
            Iter(it.extent, it.stride * scale[it.axis], fused) if it.axis in scale else it for it in iters
        )

    offset = {axis: value for axis, value in tile.offset if axis not in scale}
    moved = sum(value * scale[axis] for axis, value in tile.offset if axis in scale)
    if moved:
        offset[fused] = moved
    return TileLayout(renamed(tile.shard), renamed(tile.replica), tuple(sorted(offset.items())))


def same_map(a: Layout, b: Layout) -> bool:
    """Say whether two layouts put every element in the same set of places, by looking at all of
    them.

    Their logical shapes may differ as long as the sizes agree (both are read row-major); an axis
    that a layout does not speak of counts as 0. LayoutError E0405 beyond 4 M places.

    >>> from drywell.layout.named import parse_layout
    >>> same_map(parse_layout("S[(4, 32) : (32@TLane, 1@TLane)]"), parse_layout("S[128 : 1@TLane]"))
    True
    """
    if a.size != b.size:
        return False
    axes = sorted(set(a.axes) | set(b.axes))
    first, second = (_place_sets(layout, axes) for layout in (a, b))
    return all(x.shape == y.shape and bool((x == y).all()) for x, y in zip(first, second, strict=True))


def _place_sets(layout: Layout, axes: Sequence[str]) -> list[IntArray]:
    """Return every element's sorted distinct places, an array [size, width] per axis; shorter sets
    repeat their last place.
    """
    if num_places(layout) > MAX_ENUMERATED:
        raise LayoutError(
            "E0405", f"{layout} has {num_places(layout)} places, too many to compare one by one"
        )
    places = all_places(layout)
    nowhere = np.zeros_like(next(iter(places.values())))
    columns = [places.get(axis, nowhere) for axis in axes]
    if nowhere.shape[1] == 1:
        return columns
    rows = [sorted(set(zip(*(c[x].tolist() for c in columns), strict=True))) for x in range(layout.size)]
    width = max(len(row) for row in rows)
    padded = np.array([row + [row[-1]] * (width - len(row)) for row in rows], dtype=np.int64)
    return [padded[:, :, i] for i in range(len(axes))]


def group(layout: TileLayout, shape: Sequence[int]) -> tuple[TileLayout, tuple[int, ...]]:
    """Split iters until runs of them multiply to the extents of `shape`; return it and the run
    boundaries.

    Iters `seps[i]` to `seps[i + 1]` make up dimension i. The map is unchanged. LayoutError E0406
    when an iter would have to be cut where it does not divide.

    >>> from drywell.layout.named import parse_layout
    >>> grouped, seps = group(parse_layout("S[128 : 1@TLane]"), (4, 32))
    >>> str(grouped), seps
    ('S[(4, 32) : (32@TLane, 1@TLane)]', (0, 1, 2))
    """
    wanted = check_shape(layout, shape)
    out: list[Iter] = []
    seps = [0]
    product = 1
    for it in layout.shard:
        extent = it.extent
        product *= extent
        while len(seps) <= len(wanted) and product % wanted[len(seps) - 1] == 0:
            rest = product // wanted[len(seps) - 1]
            if extent % rest:
                raise LayoutError(
                    "E0406",
                    f"{layout} cannot be grouped by {wanted}: extent {it.extent} does not split",
                )
            if extent // rest > 1:
                out.append(Iter(extent // rest, it.stride * rest, it.axis))
            seps.append(len(out))
            extent = product = rest
            if rest == 1:
                break
        if extent > 1:
            out.append(Iter(extent, it.stride, it.axis))
    while len(seps) <= len(wanted) and wanted[len(seps) - 1] == 1:
        seps.append(len(out))
    if len(seps) != len(wanted) + 1:
        raise LayoutError("E0406", f"{layout} cannot be grouped by {wanted}")
    shard = tuple(out) or (Iter(1, 1, layout.shard[0].axis),)
    return TileLayout(shard, layout.replica, layout.offset), tuple(seps)


def tile(inner: Layout, outer: TileLayout, outer_shape: Sequence[int], inner_shape: Sequence[int]) -> Layout:
    """Repeat `inner` over the places of `outer`: dimension i of the result is `outer_shape[i] *
    inner_shape[i]`.

    Strides of `outer` are multiplied by the span of `inner` on their axis; offsets add; replicas
    combine. A swizzled inner is tiled below its swizzle.

    >>> from drywell.layout.named import parse_layout
    >>> str(tile(parse_layout("S[8 : 1]"), parse_layout("S[4 : 1]"), (4,), (8,)))
    'S[32 : 1]'
    """
    if isinstance(inner, ComposeLayout):
        tiled = tile(inner.tile, outer, outer_shape, inner_shape)
        assert isinstance(tiled, TileLayout)
        return replace(inner, tile=tiled)
    spans = {it.axis: span(inner, it.axis) for it in inner.shard}
    scaled = tuple(Iter(it.extent, it.stride * spans.get(it.axis, 1), it.axis) for it in outer.shard)
    wide = TileLayout(scaled, outer.replica, outer.offset)
    return canonicalize(_interleave(wide, outer_shape, inner, inner_shape, inner.replica + outer.replica))


def direct_sum(
    right: TileLayout, left: TileLayout, left_shape: Sequence[int], right_shape: Sequence[int]
) -> TileLayout:
    """Add two layouts over the product of their domains, dimensions interleaved, strides as they
    are.

    >>> from drywell.layout.named import parse_layout
    >>> str(direct_sum(parse_layout("S[8 : 1]"), parse_layout("S[4 : 1]"), (4,), (8,)))
    'S[(4, 8) : (1, 1)]'
    """
    return canonicalize(_interleave(left, left_shape, right, right_shape, left.replica + right.replica))


def _interleave(
    outer: TileLayout,
    outer_shape: Sequence[int],
    inner: TileLayout,
    inner_shape: Sequence[int],
    replica: tuple[Iter, ...],
) -> TileLayout:
    """Put the iters of each outer dimension before those of the inner one, and add the offsets."""
    if len(outer_shape) != len(inner_shape):
        raise LayoutError("E0406", f"shapes {tuple(outer_shape)} and {tuple(inner_shape)} differ in rank")
    left, left_seps = group(canonicalize(outer), outer_shape)
    right, right_seps = group(canonicalize(inner), inner_shape)
    shard: list[Iter] = []
    for i in range(len(outer_shape)):
        shard += left.shard[left_seps[i] : left_seps[i + 1]]
        shard += right.shard[right_seps[i] : right_seps[i + 1]]
    offset = dict(outer.offset)
    for axis, value in inner.offset:
        offset[axis] = offset.get(axis, 0) + value
    return TileLayout(tuple(shard) or inner.shard, replica, tuple(sorted(offset.items())))


def slice_layout(layout: Layout, shape: Sequence[int], region: Sequence[tuple[int, int]]) -> Layout | None:
    """Return the layout of a region, [begin, end) per dimension, over the region's own shape.

    It maps element x of the region where `layout` maps `begin + x`. None when the region has no
    such layout (it would have to wrap inside an iter more than once); LayoutError E0405 when it
    leaves the shape.

    >>> from drywell.layout.named import parse_layout
    >>> str(slice_layout(parse_layout("S[(128, 256) : (1@TLane, 1@TCol)]"), (128, 256), ((32, 64), (8, 24))))
    'S[(32, 16) : (1@TLane, 1@TCol)] + 8@TCol + 32@TLane'
    """
    if isinstance(layout, ComposeLayout):
        inner = slice_layout(layout.tile, shape, region)
        if not isinstance(inner, TileLayout):
            return None
        return replace(layout, tile=inner)
    dims = check_shape(layout, shape)
    if len(region) != len(dims) or any(not 0 <= b < e <= n for (b, e), n in zip(region, dims, strict=False)):
        raise LayoutError("E0405", f"region {tuple(region)} is empty or outside the shape {dims}")
    grouped, seps = group(canonicalize(layout), dims)
    shard: list[Iter] = []
    offset = dict(grouped.offset)
    for i, (begin, end) in enumerate(region):
        part = _slice_run(grouped.shard[seps[i] : seps[i + 1]], begin, end - begin, offset)
        if part is None:
            return None
        shard += part
    unit = (Iter(1, 1, grouped.shard[0].axis),)
    kept = tuple((axis, value) for axis, value in sorted(offset.items()) if value)
    return TileLayout(tuple(shard) or unit, grouped.replica, kept)


def _slice_run(run: tuple[Iter, ...], begin: int, length: int, offset: dict[str, int]) -> list[Iter] | None:
    """Cut [begin, begin + length) out of one dimension's iters; adds the start to `offset`. None
    when it has no form.
    """
    digits: list[int] = []
    rest = begin
    for it in reversed(run):
        rest, digit = divmod(rest, it.extent)
        digits.insert(0, digit)
    for it, digit in zip(run, digits, strict=True):
        offset[it.axis] = offset.get(it.axis, 0) + digit * it.stride
    pivot = len(run) - 1
    while pivot >= 0 and digits[pivot] == 0 and length % run[pivot].extent == 0:
        length //= run[pivot].extent
        pivot -= 1
    whole = list(run[pivot + 1 :])
    if pivot < 0:
        return whole if length == 1 else None
    it = run[pivot]
    if digits[pivot] + length <= it.extent:
        return ([Iter(length, it.stride, it.axis)] if length > 1 else []) + whole
    half = length // 2
    crosses_middle = length % 2 == 0 and digits[pivot] + half == it.extent
    if pivot == 0 or not crosses_middle:
        return None
    before = run[pivot - 1]
    if before.axis != it.axis or digits[pivot - 1] + 1 >= before.extent:
        return None
    jump = before.stride - (it.extent - half) * it.stride
    return [Iter(2, jump, it.axis), Iter(half, it.stride, it.axis), *whole]


def tile_to(inner: Layout, shape: Sequence[int], inner_shape: Sequence[int]) -> Layout:
    """Repeat `inner` row by row until it has `shape`: tile with a row-major outer of `shape / inner_shape`.

    >>> from drywell.layout.named import parse_layout
    >>> str(tile_to(parse_layout("S[(2, 4) : (4, 1)]"), (4, 8), (2, 4)))
    'S[(2, 2, 2, 4) : (16, 4, 8, 1)]'
    """
    if len(shape) != len(inner_shape) or any(n % k for n, k in zip(shape, inner_shape, strict=True)):
        raise LayoutError("E0406", f"{tuple(shape)} is no multiple of {tuple(inner_shape)}")
    outer = tuple(n // k for n, k in zip(shape, inner_shape, strict=True))
    strides = [math.prod(outer[i + 1 :]) for i in range(len(outer))]
    rows = TileLayout(tuple(Iter(n, stride) for n, stride in zip(outer, strides, strict=True)))
    return tile(inner, rows, outer, inner_shape)


def compose(layout: TileLayout, swizzle: str | Swizzle, element_bits: int = 16) -> ComposeLayout:
    """Put a swizzle behind a layout of elements on `m`: a mode by its name (`32B`, `64B`, `128B`,
    `128B_ATOM_32B`) acts on the bytes of `element_bits` elements, a `Swizzle` on element numbers as it is.

    LayoutError E0404 for a layout of other axes, and for a mode that is not one swizzle.

    >>> from drywell.layout.named import parse_layout
    >>> str(compose(parse_layout("S[(8, 64) : (64, 1)]"), "128B", 16))
    'ComposeLayout(3, 3, 3, TileLayout(S[(8, 64) : (64, 1)]))'
    """
    if isinstance(swizzle, str):
        mode = SWIZZLE_MODES.get(swizzle)
        if mode is None or len(mode.terms) != 1 or element_bits not in (8, 16, 32, 64):
            names = ", ".join(m.name for m in SWIZZLE_MODES.values() if len(m.terms) == 1)
            raise LayoutError(
                "E0404",
                f"'{swizzle}' of {element_bits}-bit elements is not one swizzle",
                hint=f"{names}, of elements of 8, 16, 32 or 64 bits",
            )
        term = mode.terms[0]
        swizzle = Swizzle(term.num_bits, term.base - (element_bits // 8).bit_length() + 1, term.shift)
    if layout.axes != ("m",) or abs(swizzle.shift) < swizzle.num_bits:
        raise LayoutError(
            "E0404", f"{swizzle} does not go behind {layout}", hint="a swizzle acts on one coordinate, on m"
        )
    s = swizzle
    return ComposeLayout(layout, s.base, s.num_bits, abs(s.shift), s.shift > 0)


def permute(layout: Layout, shape: Sequence[int], order: Sequence[int]) -> Layout:
    """Return the layout with the dimensions of `shape` in another order: dimension i of the result is
    dimension `order[i]`.

    >>> from drywell.layout.named import parse_layout
    >>> str(permute(parse_layout("S[(128, 8) : (1@TLane, 1@TCol)]"), (128, 8), (1, 0)))
    'S[(8, 128) : (1@TCol, 1@TLane)]'
    """
    if isinstance(layout, ComposeLayout):
        inner = permute(layout.tile, shape, order)
        assert isinstance(inner, TileLayout)
        return replace(layout, tile=inner)
    if sorted(order) != list(range(len(shape))):
        raise LayoutError("E0406", f"{tuple(order)} is no order of {len(shape)} dimensions")
    grouped, seps = group(layout, shape)
    shard = tuple(it for i in order for it in grouped.shard[seps[i] : seps[i + 1]])
    return TileLayout(shard or grouped.shard, grouped.replica, grouped.offset)


def storage(layout: TileLayout) -> TileLayout:
    """Return what one thread holds: the layout without its iters and offsets on thread axes.

    >>> from drywell.layout.named import parse_layout
    >>> str(storage(parse_layout("S[(8, 4, 2) : (4@laneid, 1@laneid, 1)]")))
    'S[2 : 1]'
    """
    shard = tuple(it for it in layout.shard if it.axis not in THREAD_AXES)
    replica = tuple(it for it in layout.replica if it.axis not in THREAD_AXES)
    offset = tuple((axis, value) for axis, value in layout.offset if axis not in THREAD_AXES)
    return TileLayout(shard or (Iter(1, 1),), replica, offset)


def unpack(layout: TileLayout, count: int) -> TileLayout:
    """Return the layout of elements `count` times narrower, `count` of which make one of `layout`'s.

    Coordinates on `m` and `TCol` count elements, so that they grow; the narrow ones are the last iter.

    >>> from drywell.layout.named import parse_layout
    >>> str(unpack(parse_layout("S[(128, 8) : (1@TLane, 1@TCol)]"), 2))
    'S[(128, 8, 2) : (1@TLane, 2@TCol, 1@TCol)]'
    """
    axis = next((it.axis for it in reversed(layout.shard) if it.axis in ELEMENT_AXES), "m")

    def wider(iters: tuple[Iter, ...]) -> tuple[Iter, ...]:
        return tuple(replace(it, stride=it.stride * _factor(it.axis, count)) for it in iters)

    offset = tuple((a, value * _factor(a, count)) for a, value in layout.offset)
    return TileLayout((*wider(layout.shard), Iter(count, 1, axis)), wider(layout.replica), offset)


def pack(layout: TileLayout, count: int) -> TileLayout:
    """Return the layout of elements `count` times wider, each made of `count` neighbours of the last
    dimension: `unpack` undone.

    LayoutError E0406 when the neighbours do not lie side by side, or a stride would be cut.

    >>> from drywell.layout.named import parse_layout
    >>> str(pack(parse_layout("S[(128, 16) : (1@TLane, 1@TCol)]"), 2))
    'S[(128, 8) : (1@TLane, 1@TCol)]'
    """
    if count == 1:
        return layout
    *before, last = canonicalize(layout).shard

    def narrower(iters: Sequence[Iter]) -> tuple[Iter, ...]:
        return tuple(replace(it, stride=it.stride // _factor(it.axis, count)) for it in iters)

    tail = [] if last.extent == count else [replace(last, extent=last.extent // count, stride=count)]
    moved = [*before, *layout.replica]
    is_cut = any(it.stride % _factor(it.axis, count) for it in moved)
    is_cut = is_cut or any(value % _factor(axis, count) for axis, value in layout.offset)
    if last.axis not in ELEMENT_AXES or last.stride != 1 or last.extent % count or is_cut:
        raise LayoutError("E0406", f"{count} neighbours of {layout} do not make whole wider elements")
    offset = tuple((axis, value // _factor(axis, count)) for axis, value in layout.offset)
    shard = narrower([*before, *tail]) or (Iter(1, 1, last.axis),)
    return TileLayout(shard, narrower(layout.replica), offset)


def _factor(axis: str, count: int) -> int:
    return count if axis in ELEMENT_AXES else 1


def num_places(layout: Layout) -> int:
    """Return how many places the layout names in all, copies counted: size times the replica
    extents.
    """
    inner = layout.tile if isinstance(layout, ComposeLayout) else layout
    return layout.size * math.prod(it.extent for it in inner.replica)
