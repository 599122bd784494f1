"""Named-axis layouts as CuTe layouts `(shape):(stride)`, nested and behind swizzles, and back.

CuTe folds the axes into the fields of one integer and has no copies. Its first mode runs fastest, in the
notation the last iter does, so the iters of one dimension are a nested mode in the opposite order.
Source: CuTe layout algebra (public CUTLASS documentation); CUTLASS `pycute`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from drywell.base.record import record
from drywell.layout.error import LayoutError
from drywell.layout.named import ComposeLayout, Iter, Layout, TileLayout
from drywell.layout.named_algebra import group
from drywell.layout.swizzle import Swizzle

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"
"""CuTe's nested tuples: `((4, 8), 2)`."""


def size(value: IntTuple) -> int:
    """Return the product of a shape.

    >>> size(((4, 8), 2))
    64
    """
    if isinstance(value, int):
        return value
    out = 1
    for part in value:
        out *= size(part)
    return out


def _flat(value: IntTuple) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(n for part in value for n in _flat(part))


def _text(value: IntTuple) -> str:
    if isinstance(value, int):
        return str(value)
    return f"({','.join(map(_text, value))}{',' if len(value) == 1 else ''})"


def _index(coordinate: IntTuple, shape: IntTuple, stride: IntTuple) -> int:
    """CuTe's crd2idx: an integer for a nested mode counts through it, first part fastest."""
    if isinstance(shape, int):
        assert isinstance(coordinate, int) and isinstance(stride, int)
        return coordinate * stride
    assert not isinstance(stride, int)
    if not isinstance(coordinate, int):
        return sum(_index(c, n, s) for c, n, s in zip(coordinate, shape, stride, strict=True))
    total = 0
    for part, steps in zip(shape[:-1], stride[:-1], strict=True):
        coordinate, digit = divmod(coordinate, size(part))
        total += _index(digit, part, steps)
    return total + _index(coordinate, shape[-1], stride[-1])


@record
class CuteLayout:
    """A CuTe layout `shape:stride`, both nested alike, behind a swizzle when there is one; `offset` is added
    before it.
    """

    shape: IntTuple
    stride: IntTuple
    offset: int = 0
    swizzle: Swizzle | None = None

    @property
    def modes(self) -> tuple[tuple[IntTuple, IntTuple], ...]:
        """The (shape, stride) of each mode of the first level."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            return ((self.shape, self.stride),)
        return tuple(zip(self.shape, self.stride, strict=True))

    @property
    def extents(self) -> tuple[int, ...]:
        """The size of each mode of the first level."""
        return tuple(size(shape) for shape, _ in self.modes)

    def __call__(self, *coordinate: IntTuple) -> int:
        """Return the index of a coordinate: one number (or nested tuple) per mode, or one number for all.

        >>> CuteLayout(((2, 2), 4), ((1, 8), 2))(3, 1), CuteLayout((4, 2), (1, 4))(7)
        (11, 7)
        """
        place: IntTuple = coordinate[0] if len(coordinate) == 1 else coordinate
        index = self.offset + _index(place, self.shape, self.stride)
        return index if self.swizzle is None else self.swizzle.apply(index)

    def __str__(self) -> str:
        prefix = f"{self.swizzle} o " if self.swizzle else ""
        offset = f"{self.offset} o " if self.offset else ""
        return f"{prefix}{offset}{_text(self.shape)}:{_text(self.stride)}"

    __repr__ = __str__


def tmem_fields(element_bits: int = 32) -> dict[str, int]:
    """Return the axis weights under which CuTe folds TMEM coordinates of packed `element_bits`
    elements.

    >>> tmem_fields(16)
    {'TLane': 131072, 'TCol': 1}
    """
    return {"TLane": 65536 * (32 // element_bits), "TCol": 1}


def to_cute(
    layout: Layout, axis_weights: Mapping[str, int] | None = None, shape: Sequence[int] | None = None
) -> CuteLayout:
    """Return the CuTe layout with the same coordinates: mode i is dimension i of `shape` (shard iter i
    without one), strides weighted per axis.

    A layout of one axis needs no weights. Read as a flat index the two differ: CuTe runs the first mode
    fastest. LayoutError E0407 for replicas, which CuTe lacks, and for several axes without weights; E0406
    when the iters cannot be split by `shape`.

    >>> from drywell.layout.named import parse_layout
    >>> str(to_cute(parse_layout("S[(128, 64) : (1@TLane, 1@TCol)]"), tmem_fields()))
    '(128,64):(65536,1)'
    >>> str(to_cute(parse_layout("S[(4, 16, 8) : (64, 1, 16)]"), shape=(64, 8)))
    '((16,4),8):((1,64),16)'
    """
    inner = layout.tile if isinstance(layout, ComposeLayout) else layout
    if inner.replica:
        raise LayoutError(
            "E0407", f"{layout} has copies, and CuTe layouts have none", hint="drop the R[...] term"
        )
    weights = dict(axis_weights) if axis_weights else dict.fromkeys(inner.axes[:1], 1)
    missing = [axis for axis in inner.axes if axis not in weights]
    if missing:
        raise LayoutError(
            "E0407",
            f"no weight for axis {missing[0]}",
            hint="CuTe folds all axes into one integer; give each a weight",
        )
    swizzle = None
    if isinstance(layout, ComposeLayout):
        shift = layout.atom_len if layout.swizzle_inner else -layout.atom_len
        swizzle = Swizzle(layout.swizzle_len, layout.per_element, shift)
    modes = [(it.extent, it.stride * weights[it.axis]) for it in inner.shard]
    offset = sum(value * weights[axis] for axis, value in inner.offset)
    if shape is None:
        extents, strides = zip(*modes, strict=True)
        return _one_mode(extents, strides, offset, swizzle)
    grouped, seps = group(inner, shape)
    modes = [(it.extent, it.stride * weights[it.axis]) for it in grouped.shard]
    runs = [_mode(modes[a:b][::-1]) for a, b in pairwise(seps)]
    return _one_mode(tuple(r[0] for r in runs), tuple(r[1] for r in runs), offset, swizzle)


def _one_mode(
    shape: tuple[IntTuple, ...], stride: tuple[IntTuple, ...], offset: int, swizzle: Swizzle | None
) -> CuteLayout:
    """Return a layout, its only mode without parentheses."""
    if len(shape) == 1:
        return CuteLayout(shape[0], stride[0], offset, swizzle)
    return CuteLayout(shape, stride, offset, swizzle)


def _mode(run: list[tuple[int, int]]) -> tuple[IntTuple, IntTuple]:
    if not run:
        return 1, 0
    if len(run) == 1:
        return run[0]
    return tuple(extent for extent, _ in run), tuple(stride for _, stride in run)


def from_cute(cute: CuteLayout, axis_weights: Mapping[str, int] | None = None) -> Layout:
    """Return the layout with the same coordinates, over the logical shape `(size of mode 0, ...)`.

    Without weights every index lies on `m`; with them each stride must be a step along one axis. LayoutError
    E0407 for a stride along two, and for a swizzle of several axes.

    >>> str(from_cute(parse_cute("((16,4),8):((65536,2097152),1)"), tmem_fields()))
    'S[(4, 16, 8) : (32@TLane, 1@TLane, 1@TCol)]'
    >>> str(from_cute(parse_cute("Swizzle<3,4,3> o (8,64):(64,1)")))
    'ComposeLayout(4, 3, 3, TileLayout(S[(8, 64) : (64, 1)]))'
    """
    weights = dict(axis_weights) if axis_weights else {"m": 1}
    shard: list[Iter] = []
    for shape, stride in cute.modes:
        for extent, step in reversed(list(zip(_flat(shape), _flat(stride), strict=True))):
            shard.append(Iter(extent, *_along(step, weights, cute)))
    offset, rest = {}, cute.offset
    for axis, weight in sorted(weights.items(), key=lambda pair: -pair[1]):
        offset[axis], rest = divmod(rest, weight)
    tile = TileLayout(tuple(shard), (), tuple(sorted((a, v) for a, v in offset.items() if v)))
    if cute.swizzle is None or not cute.swizzle.num_bits:
        return tile
    if tile.axes != ("m",):
        raise LayoutError("E0407", f"{cute}: a swizzle acts on one coordinate on axis m, not on {tile.axes}")
    swizzle = cute.swizzle
    if abs(swizzle.shift) < swizzle.num_bits:
        raise LayoutError("E0407", f"{swizzle} mixes bits with themselves: its shift is less than its bits")
    return ComposeLayout(tile, swizzle.base, swizzle.num_bits, abs(swizzle.shift), swizzle.shift > 0)


def _along(step: int, weights: Mapping[str, int], cute: CuteLayout) -> tuple[int, str]:
    """Return a stride of the folded integer as (stride, axis)."""
    for axis, weight in sorted(weights.items(), key=lambda pair: -pair[1]):
        if abs(step) >= weight:
            if step % weight:
                break
            return step // weight, axis
    if step:
        raise LayoutError("E0407", f"stride {step} of {cute} moves along more than one axis")
    return 0, min(weights, key=lambda axis: weights[axis])


_SWIZZLE = re.compile(r"\s*(?:Swizzle|Sw|S)\s*<\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>\s*o\s*")
_OFFSET = re.compile(r"\s*_?(-?\d+)\s*o\s*")
_WORD = re.compile(r"\s*(?:_?(-?\d+)|([(),:])|($))")


class _Reader:
    """Reads nested tuples out of one text."""

    def __init__(self, text: str, place: int) -> None:
        self.text, self.place, self.last = text, place, place

    def take(self) -> int | str:
        """Take a number or a sign; '' at the end."""
        found = _WORD.match(self.text, self.place)
        if found is None:
            raise self.error("a number or one of ( ) , : was needed")
        self.last, self.place = found.end() - len(found.group().lstrip()), found.end()
        return int(found.group(1)) if found.group(1) else found.group(2) or ""

    def error(self, why: str) -> LayoutError:
        """Build the error for the place."""
        at = len(self.text) - len(self.text[self.place :].lstrip())
        return LayoutError("E0401", why, text=self.text, column=at + 1, hint="such as (8,64):(64,1)")

    def tuple_(self) -> IntTuple:
        """Take a number, or a parenthesised list."""
        before = self.place
        word = self.take()
        if isinstance(word, int):
            return word
        if word != "(":
            self.place = before
            raise self.error(f"a number or '(' was needed, found {repr(word) if word else 'the end'}")
        parts = [self.tuple_()]
        while (word := self.take()) == ",":
            before = self.place
            if self.take() == ")":
                return tuple(parts)
            self.place = before
            parts.append(self.tuple_())
        if word != ")":
            self.place = self.last
            raise self.error("',' or ')' was needed")
        return tuple(parts)


def parse_cute(text: str) -> CuteLayout:
    """Read a CuTe layout as CuTe prints it: `(8,64):(64,1)`, `Sw<3,4,3> o 0 o ((_8,_2),_64):(...)`.

    LayoutError E0401 with a caret when it cannot be read, E0403 when shape and stride are nested
    differently, E0404 for an extent below 1.

    >>> parse_cute("((2, 2), 4) : ((1, 8), 2)")(3, 1)
    11
    """
    start, offset, swizzle = 0, 0, None
    if found := _SWIZZLE.match(text):
        swizzle, start = Swizzle(*map(int, found.groups())), found.end()
    if found := _OFFSET.match(text, start):
        offset, start = int(found.group(1)), found.end()
    reader = _Reader(text, start)
    shape = reader.tuple_()
    if reader.take() != ":":
        reader.place = reader.last
        raise reader.error("':' and the strides were needed after the shape")
    stride = reader.tuple_()
    if reader.take() != "":
        reader.place = reader.last
        raise reader.error("nothing was needed after the strides")
    if not _is_alike(shape, stride):
        raise LayoutError("E0403", f"{_text(shape)} and {_text(stride)} are not nested alike")
    if min(_flat(shape)) < 1:
        raise LayoutError("E0404", f"extent {min(_flat(shape))} in {_text(shape)}; extents are at least 1")
    return CuteLayout(shape, stride, offset, swizzle)


def _is_alike(a: IntTuple, b: IntTuple) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(_is_alike, a, b))
