"""The named-axis layout notation: `S[(128, 256) : (1@TLane, 1@TCol)] + R[4 : 32@TLane] + 5@warpid`.

A layout maps a logical coordinate to a set of hardware coordinates. The coordinate is flattened
row-major, split over the shard iters (`S`, last one fastest), each digit moves along its iter's
axis by the stride, the offset is added, and every combination of the replica iters (`R`) adds one
more place. `ComposeLayout` swizzles the one memory coordinate.

    layout   := 'TileLayout(' spec ')' | spec
              | 'ComposeLayout(' int ',' int ',' int ',' layout [',' ('True' | 'False')] ')'
    spec     := term {'+' term}          one S, at most one R, any offsets, in any order
    term     := ('S' | 'R') '[' shape [':' strides] ']' | 'O[' stride {',' stride} ']' | stride
    shape    := int | '(' int {',' int} ')'
    strides  := stride | '(' stride {',' stride} ')'
    stride   := int | int '@' axis | axis      no axis: the memory axis m; no number: 1

Source: Apache TVM `tirx` layout documentation; mlc.ai "Modern GPU programming for MLSys", data
layout chapters.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from drywell.base.pictured import Pictured
from drywell.base.record import record
from drywell.layout.arrays import IntArray
from drywell.layout.error import LayoutError
from drywell.layout.swizzle import Address

THREAD_AXES = (
    "bx",
    "by",
    "bz",
    "cbx",
    "cby",
    "cbz",
    "tx",
    "warpid",
    "laneid",
    "wgid",
    "tid_in_wg",
    "wid_in_wg",
)
MEMORY_AXES = ("m", "P", "F", "Bank", "TCol", "TLane")
AXES = THREAD_AXES + MEMORY_AXES
ELEMENT_AXES = ("m", "TCol")
"""Axes whose coordinates count elements of the buffer, whatever their width."""


@record
class Iter:
    """One digit of a layout: `extent` steps of `stride` along `axis`."""

    extent: int
    stride: int
    axis: str = "m"

    def stride_text(self) -> str:
        """Print the stride as the notation writes it: `32@TLane`, or the bare number on `m`."""
        return step_text(self.stride, self.axis)


def step_text(stride: int, axis: str) -> str:
    """Print a stride or an offset: `32@TLane`, or the bare number on `m`."""
    return str(stride) if axis == "m" else f"{stride}@{axis}"


@record
class TileLayout(Pictured):
    """A layout as shard iters, replica iters and an offset per axis (sorted by axis).

    Make one with `parse_layout` or `tile_layout`. Equality of the dataclass is equality of the
    written form; use `same_map` for equality of what is mapped.
    """

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...] = ()
    offset: tuple[tuple[str, int], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shard extents, the shape a layout has when none other is given."""
        return tuple(it.extent for it in self.shard)

    @property
    def size(self) -> int:
        """How many logical elements there are."""
        return math.prod(self.shape)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes it speaks of, in order of first mention."""
        names = [it.axis for it in (*self.shard, *self.replica)] + [axis for axis, _ in self.offset]
        return tuple(dict.fromkeys(names))

    def __str__(self) -> str:
        terms = [f"S[{_iters_text(self.shard)}]"]
        if self.replica:
            terms.append(f"R[{_iters_text(self.replica)}]")
        terms += [step_text(value, axis) for axis, value in self.offset]
        return " + ".join(terms)

    __repr__ = __str__


@record
class ComposeLayout(Pictured):
    """A swizzle over a layout that yields one coordinate on `m`.

    With M = per_element, B = swizzle_len, S = atom_len: `x = m >> M; x ^= (x >> S) & (2^B - 1)`,
    and the low M bits stay. This is CuTe's `Swizzle<B, M, S>`. With `swizzle_inner` false the XOR
    goes the other way, low bits into high.
    """

    tile: TileLayout
    per_element: int
    swizzle_len: int
    atom_len: int
    swizzle_inner: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shard extents of the tile."""
        return self.tile.shape

    @property
    def size(self) -> int:
        """How many logical elements there are."""
        return self.tile.size

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the tile."""
        return self.tile.axes

    def swizzled(self, m: Address) -> Address:
        """Swizzle a memory coordinate, an int or an int64 array."""
        x = m >> self.per_element
        mask = (1 << self.swizzle_len) - 1
        x = x ^ ((x >> self.atom_len) & mask) if self.swizzle_inner else x ^ ((x & mask) << self.atom_len)
        return (x << self.per_element) | (m & ((1 << self.per_element) - 1))

    def __str__(self) -> str:
        numbers = f"{self.per_element}, {self.swizzle_len}, {self.atom_len}"
        tail = "" if self.swizzle_inner else ", False"
        return f"ComposeLayout({numbers}, TileLayout({self.tile}){tail})"

    __repr__ = __str__


Layout: TypeAlias = TileLayout | ComposeLayout


def _iters_text(iters: tuple[Iter, ...]) -> str:
    if len(iters) == 1:
        return f"{iters[0].extent} : {iters[0].stride_text()}"
    shape = ", ".join(str(it.extent) for it in iters)
    return f"({shape}) : ({', '.join(it.stride_text() for it in iters)})"


def tile_layout(
    shape: Sequence[int],
    strides: Sequence[tuple[int, str]],
    replica: Sequence[tuple[int, int, str]] = (),
    offset: Mapping[str, int] | None = None,
) -> TileLayout:
    """Build a layout from numbers: strides are (stride, axis), replica iters are (extent, stride,
    axis).

    >>> str(tile_layout((128, 256), ((1, "TLane"), (1, "TCol")), replica=((4, 32, "TLane"),)))
    'S[(128, 256) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]'
    """
    if len(shape) != len(strides):
        raise LayoutError("E0403", f"{len(shape)} extents but {len(strides)} strides")
    shard = tuple(Iter(extent, stride, axis) for extent, (stride, axis) in zip(shape, strides, strict=True))
    copies = tuple(Iter(*numbers) for numbers in replica)
    if not shard or any(it.extent < 1 for it in (*shard, *copies)):
        raise LayoutError("E0404", "extents must be at least 1, and there must be one")
    return TileLayout(shard, copies, tuple(sorted((offset or {}).items())))


_TOKEN = re.compile(r"\s*(?:(?P<int>-?\d+)|(?P<name>[A-Za-z_]\w*)|(?P<punct>[\[\](),:+@])|(?P<end>$))")


@dataclass(slots=True)
class _Parser:
    """Recursive descent over one text; `place` is where the token in hand begins."""

    text: str
    axes: Collection[str]
    kind: str = ""
    token: str = ""
    place: int = 0
    _next: int = field(default=0)

    def advance(self) -> str:
        """Take the token in hand and read the next one."""
        taken = self.token
        found = _TOKEN.match(self.text, self._next)
        if found is None:
            stray = len(self.text) - len(self.text[self._next :].lstrip())
            raise self.error("E0401", f"'{self.text[stray]}' has no place in a layout", stray, 1)
        self.kind = found.lastgroup or ""
        self.place, self._next = found.start(self.kind), found.end()
        self.token = found.group(self.kind)
        return taken

    def error(
        self, code: str, message: str, place: int | None = None, length: int | None = None, hint: str = ""
    ) -> LayoutError:
        """Build the error for the token in hand, or for another place."""
        at = self.place if place is None else place
        size = max(1, len(self.token)) if length is None else length
        return LayoutError(code, message, text=self.text, column=at + 1, length=size, hint=hint)

    def expect(self, token: str, where: str) -> None:
        """Take `token` or say what stands in its place."""
        if self.token != token or self.kind == "end":
            found = f"'{self.token}'" if self.token else "the end of the text"
            raise self.error("E0401", f"expected '{token}' {where}, found {found}")
        self.advance()

    def integer(self, what: str) -> int:
        """Take an integer."""
        if self.kind != "int":
            found = f"'{self.token}'" if self.token else "the end of the text"
            hint = "put a number in place of the symbol" if self.kind == "name" else ""
            raise self.error("E0401", f"expected {what}, found {found}", hint=hint)
        return int(self.advance())

    def extent(self) -> int:
        """Take an extent, which is at least 1."""
        place, length = self.place, len(self.token)
        value = self.integer("an extent")
        if value < 1:
            raise self.error("E0404", f"extent {value}; extents are at least 1", place, length)
        return value

    def axis(self) -> str:
        """Take an axis name that exists."""
        if self.kind != "name":
            raise self.error("E0401", f"expected an axis name after '@', found '{self.token or 'the end'}'")
        if self.token not in self.axes:
            close = difflib.get_close_matches(self.token, sorted(self.axes), n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'?" if close else f"axes are {', '.join(sorted(self.axes))}"
            raise self.error("E0402", f"no axis '{self.token}'", hint=hint)
        return self.advance()

    def stride(self) -> tuple[int, str]:
        """Take `int`, `int@axis` or `axis`."""
        if self.kind == "name":
            return 1, self.axis()
        value = self.integer("a stride")
        if self.token != "@":
            return value, "m"
        self.advance()
        return value, self.axis()

    def shape(self) -> list[int]:
        """Take one extent or a parenthesised list of them."""
        if self.token != "(":
            return [self.extent()]
        self.advance()
        out = [self.extent()]
        while self.token == ",":
            self.advance()
            if self.token == ")":
                break
            out.append(self.extent())
        self.expect(")", "after the extents")
        return out

    def strides(self) -> list[tuple[int, str]]:
        """Take one stride or a parenthesised list of them."""
        if self.token != "(":
            return [self.stride()]
        self.advance()
        out = [self.stride()]
        while self.token == ",":
            self.advance()
            if self.token == ")":
                break
            out.append(self.stride())
        self.expect(")", "after the strides")
        return out

    def iters(self, letter: str) -> tuple[Iter, ...]:
        """Take what stands in the brackets of an S or R term; no strides means row-major on m."""
        self.expect("[", f"after '{letter}'")
        shape = self.shape()
        if self.token == ":":
            self.advance()
            place = self.place
            strides = self.strides()
            if len(strides) != len(shape):
                message = f"{len(strides)} strides for {len(shape)} extents"
                raise self.error("E0403", message, place, max(1, self.place - place))
        else:
            strides = [(math.prod(shape[i + 1 :]), "m") for i in range(len(shape))]
        self.expect("]", f"at the end of '{letter}[...'")
        return tuple(Iter(e, s, axis) for e, (s, axis) in zip(shape, strides, strict=True))

    def spec(self) -> TileLayout:
        """Take S, R and offset terms joined by '+'."""
        shard: tuple[Iter, ...] = ()
        replica: tuple[Iter, ...] = ()
        offset: dict[str, int] = {}
        while True:
            if self.token in ("S", "R"):
                letter = self.token
                if shard if letter == "S" else replica:
                    raise self.error(
                        "E0401", f"a second {letter} term", hint=f"a layout has one '{letter}[...]'"
                    )
                self.advance()
                if letter == "S":
                    shard = self.iters(letter)
                else:
                    replica = self.iters(letter)
            else:
                for value, axis in self.offsets():
                    offset[axis] = offset.get(axis, 0) + value
            if self.token != "+":
                break
            self.advance()
        if not shard:
            raise self.error(
                "E0401",
                "no S[...] term",
                hint="a layout needs one, e.g. S[(128, 256) : (1@TLane, 1@TCol)]",
            )
        return TileLayout(shard, replica, tuple(sorted(offset.items())))

    def offsets(self) -> list[tuple[int, str]]:
        """Take one offset, or `O[...]` with several."""
        if self.token != "O":
            return [self.stride()]
        self.advance()
        self.expect("[", "after 'O'")
        out = [self.stride()]
        while self.token == ",":
            self.advance()
            out.append(self.stride())
        self.expect("]", "at the end of 'O[...'")
        return out

    def layout(self) -> Layout:
        """Take a whole layout."""
        if self.token == "ComposeLayout":
            return self.compose()
        if self.token != "TileLayout":
            return self.spec()
        self.advance()
        self.expect("(", "after 'TileLayout'")
        tile = self.spec()
        self.expect(")", "at the end of 'TileLayout(...'")
        return tile

    def compose(self) -> ComposeLayout:
        """Take a ComposeLayout."""
        start = self.place
        self.advance()
        self.expect("(", "after 'ComposeLayout'")
        numbers = []
        for what in ("per_element", "swizzle_len", "atom_len"):
            numbers.append(self.integer(what))
            self.expect(",", f"after {what}")
        inner = self.layout()
        swizzle_inner = True
        if self.token == ",":
            self.advance()
            if self.token not in ("True", "False"):
                raise self.error("E0401", f"expected True or False for swizzle_inner, found '{self.token}'")
            swizzle_inner = self.advance() == "True"
        self.expect(")", "at the end of 'ComposeLayout(...'")
        per_element, swizzle_len, atom_len = numbers
        if min(numbers) < 0 or atom_len < swizzle_len or isinstance(inner, ComposeLayout):
            message = "a swizzle needs per_element >= 0, 0 <= swizzle_len <= atom_len, and a TileLayout"
            raise self.error("E0404", message, start, len("ComposeLayout"))
        if inner.axes != ("m",):
            raise self.error(
                "E0404", "a swizzle acts on one coordinate on axis m", start, len("ComposeLayout")
            )
        return ComposeLayout(inner, per_element, swizzle_len, atom_len, swizzle_inner)


def parse_layout(text: str, extra_axes: Collection[str] = ()) -> Layout:
    """Read a layout; LayoutError E0401..E0404 with a caret under the place when it cannot be read.

    `extra_axes` are axis names beyond the known ones.

    >>> str(parse_layout("S[(32,8):(1@TLane,TCol)]+R[4:32@TLane]"))
    'S[(32, 8) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]'
    """
    parser = _Parser(text, frozenset(AXES) | frozenset(extra_axes))
    parser.advance()
    layout = parser.layout()
    if parser.kind != "end":
        raise parser.error("E0401", f"'{parser.token}' after the end of the layout")
    return layout


def check_shape(layout: Layout, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return the logical shape, the shard extents by default; LayoutError E0405 when its size is
    not the layout's.
    """
    out = layout.shape if shape is None else tuple(shape)
    if math.prod(out) != layout.size:
        raise LayoutError(
            "E0405",
            f"shape {out} has {math.prod(out)} elements, {layout} has {layout.size}",
            hint="the product of the shape must equal the product of the S extents",
        )
    return out


def evaluate(layout: Layout, shape: Sequence[int] | None = None) -> dict[str, IntArray]:
    """Return the coordinate on every axis of every element, arrays of the logical shape.

    Replicas are left out; `replica_steps` gives what each adds.

    >>> evaluate(parse_layout("S[(2, 4) : (4@TLane, 1@TCol)]"))["TLane"].tolist()
    [[0, 0, 0, 0], [4, 4, 4, 4]]
    """
    out_shape = check_shape(layout, shape)
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    rest = np.arange(tile.size, dtype=np.int64)
    offset = dict(tile.offset)
    out = {axis: np.full(tile.size, offset.get(axis, 0), dtype=np.int64) for axis in tile.axes}
    for it in reversed(tile.shard):
        out[it.axis] += (rest % it.extent) * it.stride
        rest = rest // it.extent
    if isinstance(layout, ComposeLayout):
        out = {"m": layout.swizzled(out["m"])}
    return {axis: array.reshape(out_shape) for axis, array in out.items()}


def replica_steps(layout: Layout) -> dict[str, IntArray]:
    """Return what each copy adds on each axis, arrays [copies]; the first copy adds nothing.

    >>> replica_steps(parse_layout("S[32 : 1@TLane] + R[4 : 32@TLane]"))["TLane"].tolist()
    [0, 32, 64, 96]
    """
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    copies = math.prod(it.extent for it in tile.replica)
    rest = np.arange(copies, dtype=np.int64)
    out = {axis: np.zeros(copies, dtype=np.int64) for axis in tile.axes}
    for it in reversed(tile.replica):
        out[it.axis] += (rest % it.extent) * it.stride
        rest = rest // it.extent
    return out


def all_places(layout: Layout) -> dict[str, IntArray]:
    """Return every place of every element: for each axis an array [size, copies], elements in row-major
    order.

    >>> all_places(parse_layout("S[2 : 1@TLane] + R[2 : 32@TLane]"))["TLane"].tolist()
    [[0, 32], [1, 33]]
    """
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    where, steps = evaluate(tile, (tile.size,)), replica_steps(tile)
    out = {axis: where[axis][:, None] + steps[axis][None, :] for axis in tile.axes}
    return {"m": layout.swizzled(out["m"])} if isinstance(layout, ComposeLayout) else out


def coordinates(
    layout: Layout, index: Sequence[int], shape: Sequence[int] | None = None
) -> tuple[dict[str, int], ...]:
    """Return every place of one element, one per replica, each as axis to coordinate.

    LayoutError E0405 when the index is outside the shape.

    >>> coordinates(parse_layout("S[(2, 4) : (4@TLane, 1@TCol)] + R[2 : 64@TLane]"), (1, 3))
    ({'TLane': 4, 'TCol': 3}, {'TLane': 68, 'TCol': 3})
    """
    out_shape = check_shape(layout, shape)
    if len(index) != len(out_shape) or any(not 0 <= i < n for i, n in zip(index, out_shape, strict=False)):
        raise LayoutError("E0405", f"index {tuple(index)} is outside the shape {out_shape}")
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    flat = 0
    for i, n in zip(index, out_shape, strict=True):
        flat = flat * n + i
    place = dict.fromkeys(tile.axes, 0) | dict(tile.offset)
    for it in reversed(tile.shard):
        flat, digit = divmod(flat, it.extent)
        place[it.axis] += digit * it.stride
    steps = replica_steps(layout)
    copies = len(next(iter(steps.values())))
    places = [{axis: place[axis] + int(steps[axis][r]) for axis in tile.axes} for r in range(copies)]
    if isinstance(layout, ComposeLayout):
        return tuple({"m": layout.swizzled(p["m"])} for p in places)
    return tuple(places)


def span(layout: TileLayout, axis: str) -> int:
    """Return how far the layout reaches along `axis`: 1 + sum of (extent - 1) * stride over all
    iters, + offset.

    >>> span(parse_layout("S[(32, 8) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]"), "TLane")
    128
    """
    reach = sum((it.extent - 1) * it.stride for it in (*layout.shard, *layout.replica) if it.axis == axis)
    return 1 + reach + dict(layout.offset).get(axis, 0)
