"""Tensor copies in mode im2col: columns of pixels out of images of 1 to 3 spatial dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from oracle.hardware.experiment import Experiment, Map, words
from oracle.hardware.families.box_programs import (
    THREADS,
    load_args,
    load_opcode,
    load_program,
    multicast_program,
    multicast_tail,
    prefetch_opcode,
    row,
    store_args,
    store_opcode,
    store_program,
)
from oracle.hardware.families.tensor import SIZES, Tensor, numbered

BLOCK = (THREADS, 1, 1)
_IMAGES = {3: (5, 7), 4: (3, 5, 6), 5: (3, 4, 4, 5)}
"""Rank -> N and the spatial sizes, in the array's order."""

_LIMITS = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}
"""Spatial dimensions -> what the corners stay below."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A map for im2col over a tensor, corners and steps in the array's order."""

    tensor: Tensor
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    steps: tuple[int, ...] = ()
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def count(self) -> int:
        """Return the bytes of a copy."""
        return self.channels * self.pixels * self.tensor.size

    def how(self) -> dict[str, Any]:
        """Return the keywords of the map."""
        how = self.tensor.how(())
        del how["box"]
        how |= {"mode": "im2col", "lower_corner": self.lower, "upper_corner": self.upper}
        how |= {"channels_per_pixel": self.channels, "pixels_per_column": self.pixels, **dict(self.more)}
        return how | ({"element_strides": self.steps} if self.steps else {})

    def map(self) -> Map:
        """Return the map over memory of its own."""
        return Map(self.how(), words=self.tensor.words())

    def start(self, draw: int) -> tuple[int, ...]:
        """Return a start inside the box, innermost first: some pixel of some image, channel 0."""
        out = [0]
        for low, high, dim in zip(self.lower[::-1], self.upper[::-1], self.tensor.dims[-2:0:-1], strict=True):
            extent = max(1, dim + high - low)
            out.append(low + draw % extent)
            draw //= extent
        return (*out, draw % self.tensor.dims[0])


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of im2col copies."""
    yield from _corners()
    yield from _steps()
    yield from _offsets()
    yield from _edges()
    yield from _element_types()
    yield from _sizes()
    yield from _spellings()
    yield from _stores()
    yield from _faults()


def _tensor(dim: int, element: str = "u16", channels: int = 8, **more: Any) -> Tensor:
    return Tensor(element, (*_IMAGES[dim], channels), **more)


def _load(name: str, columns: Columns, rows: list[Any], size: int = 0, **program: Any) -> Experiment:
    dim = len(columns.tensor.dims)
    dst, hint = program.get("dst", "shared::cta"), program.get("hint", False)
    tail = ".L2::cache_hint" if hint else ""
    forms = [load_opcode(dim, ".im2col", dst, tail)]
    if program.get("prefetch"):
        forms.append(prefetch_opcode(dim, ".im2col", tail))
    args = load_args(columns.map(), rows, size or 64 * ceil(columns.count / 64))
    text = load_program(dim, ".im2col", **program)
    return Experiment(f"im2col/{name}", tuple(forms), text, args, block=BLOCK)


def _draws(seed: str, count: int, low: int, high: int) -> list[int]:
    """Return numbers from low to high."""
    return [low + int(w) % (high - low + 1) for w in words(seed, count)]


def _corners() -> Iterator[Experiment]:
    """Boxes whose corners lie inside and outside of the image, unlike on every side."""
    for dim in _IMAGES:
        spatial = dim - 2
        for k in range(14):
            drawn = _draws(f"corners {dim} {k}", 2 * spatial + 3, 0, 1 << 20)
            lower = tuple(d % 4 - 2 for d in drawn[:spatial])
            upper = tuple(d % 4 - 1 for d in drawn[spatial : 2 * spatial])
            columns = Columns(_tensor(dim), lower, upper, 8, 20)
            rows = [row(columns.start(d), columns.count, shifts=(0,) * spatial) for d in drawn[-3:]]
            yield _load(f"{dim}d {k} from {lower} to {upper}", columns, rows)


def _steps() -> Iterator[Experiment]:
    """Element strides along every dimension, N and the channels included."""
    for dim in _IMAGES:
        spatial = dim - 2
        flat = (1,) * (dim - 1)
        single = [(*flat[:i], step, *flat[i + 1 :], 1) for i in range(dim - 1) for step in (2, 3)]
        mixed = ((*flat, 2), (2,) * dim, (1, *(3,) * spatial, 1), (2, *(1, 2, 3)[:spatial], 1))
        for steps in dict.fromkeys((*single, *mixed)):
            lower, upper = (-1, 0, -1)[-spatial:], (1, 0, 0)[-spatial:]
            columns = Columns(_tensor(dim), lower, upper, 8, 20, steps)
            starts = [columns.start(0), columns.start(int(words(f"{steps}", 1)[0]) % 50)]
            rows = [row(s, columns.count, shifts=(0,) * spatial) for s in starts]
            yield _load(f"{dim}d steps {steps}", columns, rows)


def _offsets() -> Iterator[Experiment]:
    """Offsets of the instruction, up to the largest that a few pixels may have."""
    for dim in _IMAGES:
        spatial = dim - 2
        columns = Columns(_tensor(dim), (-1,) * spatial, (-1,) * spatial, 8, 20)
        most = {1: 0xFFFF, 2: 0xFF, 3: 0x1F}[spatial]
        shifts = [tuple(d % 3 for d in _draws(f"shift {dim} {k}", spatial, 0, 99)) for k in range(4)]
        shifts += [(most, *(0,) * (spatial - 1)), (*(0,) * (spatial - 1), most), (1, 2, 3)[:spatial]]
        rows = [row(columns.start(7 * k), columns.count, shifts=s) for k, s in enumerate(shifts)]
        yield _load(f"{dim}d offsets", columns, rows)
        dilated = replace(columns, steps=(1, *(2,) * spatial, 1))
        yield _load(f"{dim}d offsets and steps", dilated, rows)


def _edges() -> Iterator[Experiment]:
    """Channels over both sides, images before the first and after the last, corners at their limits."""
    for dim in _IMAGES:
        spatial = dim - 2
        columns = Columns(_tensor(dim, channels=19), (0,) * spatial, (0,) * spatial, 8, 12)
        starts = [(c, *(1,) * spatial, n) for c in (-8, 16, 8, 24, -32) for n in (0, -1, _IMAGES[dim][0] - 1)]
        rows = [row(s, columns.count, shifts=(0,) * spatial) for s in starts]
        yield _load(f"{dim}d channels and images", columns, rows)
        limit = _LIMITS[spatial]
        for lower, upper in (
            (-limit, -limit // 2),
            (limit - 1, limit - 1),
            (-limit, limit - 1),
            (3, limit - 1),
        ):
            corner = Columns(_tensor(dim), (lower,) * spatial, (upper,) * spatial, 8, 12)
            starts = [(0, *(lower,) * spatial, 1), (0, *(lower + 1,) * spatial, 0)]
            rows = [row(s, corner.count, shifts=(0,) * spatial) for s in starts]
            yield _load(f"{dim}d corners {lower} and {upper}", corner, rows)


def _element_types() -> Iterator[Experiment]:
    """Every element type, both fills."""
    for element, size in SIZES.items():
        for fill in ("zero", "nan") if "f" in element else ("zero",):
            tensor = _tensor(4, element, 32 // size, specials="f" in element)
            columns = Columns(tensor, (-1, -1), (0, 0), 16 // size, 16, more=(("oob_fill", fill),))
            starts = ((0, -1, -1, 0), (16 // size, 4, 4, 2))
            rows = [row(s, columns.count, shifts=(1, 0)) for s in starts]
            yield _load(f"{element} {fill}", columns, rows)


def _sizes() -> Iterator[Experiment]:
    """Sizes of a column, swizzled and not."""
    for swizzle, span in (("none", 64), ("32B", 32), ("64B", 64), ("128B", 128)):
        for width in (16, 48, 64, 112, 128):
            if swizzle != "none" and width > span:
                continue
            pixels = 11
            columns = Columns(
                _tensor(4, channels=64), (0, 0), (0, 0), width // 2, pixels, more=(("swizzle", swizzle),)
            )
            pitch = width if swizzle == "none" else span
            at = 0 if swizzle == "none" else 128
            rows = [row((0, 2, 1, 0), columns.count, at, (0, 0))]
            size = 64 * ceil((at + pixels * pitch) / 64)
            yield _load(f"swizzle {swizzle} channels {width // 2}", columns, rows, size)
    long = Columns(Tensor("u8", (3, 40, 16)), (0,), (0,), 16, 250)
    yield _load("250 pixels", long, [row((0, 39, 0), long.count, shifts=(0,))])
    for pixels in (1, 2, 255, 256):
        columns = Columns(Tensor("u8", (3, 40, 40, 16)), (-1, -1), (1, 1), 16, pixels)
        yield _load(f"{pixels} pixels", columns, [row((0, -1, 40, 0), columns.count, shifts=(0, 0))])
    wide = Columns(Tensor("u8", (3, 7, 256)), (0,), (0,), 256, 5)
    yield _load("256 channels", wide, [row((0, 3, 1), wide.count, shifts=(1,))])


def _spellings() -> Iterator[Experiment]:
    """Every spelling of a load, a prefetch and a multicast."""
    for dim in _IMAGES:
        spatial = dim - 2
        columns = Columns(_tensor(dim), (-1,) * spatial, (0,) * spatial, 8, 10)
        rows = [row((0, *(0,) * spatial, n), columns.count, shifts=(1,) * spatial) for n in (0, 1)]
        for dst in ("shared::cta", "shared::cluster"):
            for hint in (False, True):
                name = f"spelt {dim}d {dst}{' hint' if hint else ''}"
                yield _load(name, columns, rows, dst=dst, hint=hint, prefetch=dst == "shared::cta")
        for ctas in (2, 4):
            for hint in (False, True):
                masks = ((1 << ctas) - 1, 2)
                sent = [row((0, *(0,) * spatial, 0), columns.count, 0, (m % 2,) * spatial, m) for m in masks]
                yield Experiment(
                    f"im2col/multicast {dim}d to {ctas}{' hint' if hint else ''}",
                    (load_opcode(dim, ".im2col", "shared::cluster", multicast_tail(hint)),),
                    multicast_program(dim, ".im2col", hint),
                    load_args(columns.map(), sent, 192, ctas),
                    grid=(ctas, 1, 1),
                    block=BLOCK,
                    cluster=(ctas, 1, 1),
                )


def _stores() -> Iterator[Experiment]:
    """Stores and reductions through maps for im2col."""
    for dim in _IMAGES:
        spatial = dim - 2
        flat = (1,) * (dim - 1)
        for k, steps in enumerate(((), (1, *(2,) * spatial, 1), (2, *flat))):
            columns = Columns(_tensor(dim, "u32"), (0,) * spatial, (0,) * spatial, 4, 14, steps)
            rows = [row(columns.start(3)), row((4, *columns.start(40)[1:]), at=256)]
            for op in ("", "add", "min", "max", "inc", "dec", "and", "or", "xor") if not k else ("",):
                yield _store(f"{dim}d{' ' + op if op else ''} steps {steps}", columns, rows, op)
        columns = Columns(_tensor(dim, "u32"), (1,) * spatial, (-1,) * spatial, 8, 9)
        for op in ("", "add", "min", "max", "inc", "dec", "and", "or", "xor"):
            name = f"{dim}d{' ' + op if op else ''} hint"
            yield _store(name, columns, [row(columns.start(5)), row(columns.start(11), at=512)], op, True)
        outside = Columns(_tensor(dim, "u32"), (0,) * spatial, (2,) * spatial, 8, 12)
        case = _store(f"{dim}d over the far edge", outside, [row(outside.start(4))], "")
        yield replace(case, ends="fault")
        for low, high, start, pixels in (
            (0, 2, 0, 2),
            (-1, 0, 0, 2),
            (0, 1, 1, 3),
            (-1, -1, 1, 4),
            (0, 1, 2, 40),
        ):
            roomy = Columns(_tensor(dim, "u32"), (low,) * spatial, (high,) * spatial, 8, pixels)
            at = (0, *(start,) * spatial, 1)
            case = _store(f"{dim}d from {low} to {high} at {start} of {pixels}", roomy, [row(at)], "")
            yield replace(case, ends="fault")
        ragged = Columns(_tensor(dim, channels=19), (0,) * spatial, (0,) * spatial, 16, 6)
        yield _store(f"{dim}d ragged channels", ragged, [row((8, *(1,) * spatial, 0))], "")
        late = (0, *(1,) * spatial, _IMAGES[dim][0] - 1)
        yield _store(f"{dim}d after the last image", replace(columns, pixels=40), [row(late)], "")


def _store(name: str, columns: Columns, rows: list[Any], op: str, hint: bool = False) -> Experiment:
    dim = len(columns.tensor.dims)
    before = (
        numbered(columns.tensor.words().size, 4)[::-1].copy()
        if op
        else np.full_like(columns.tensor.words(), 0x5A5A)
    )
    args = store_args(columns.how(), before, rows, numbered(512, 4))
    opcode = store_opcode(dim, op, ".im2col_no_offs", hint)
    program = store_program(dim, op, ".im2col_no_offs", hint)
    return Experiment(f"im2col/store {name}", (opcode,), program, args, block=BLOCK)


def _faults() -> Iterator[Experiment]:
    """Starts outside the box, and maps of the other mode."""
    columns = Columns(_tensor(4), (0, 0), (-1, -1), 8, 8)
    for start in ((0, 5, 0, 0), (0, -1, 0, 0), (0, 0, 4, 0), (0, 0, -1, 0), (0, 9, 9, 0)):
        case = _load(f"fault start {start}", columns, [row(start, columns.count, shifts=(0, 0))])
        yield replace(case, ends="fault")
    tile = _tensor(4).map((1, 2, 3, 8))
    case = _load("fault im2col with a map for tiles", columns, [row((0, 0, 0, 0), 96, shifts=(0, 0))])
    yield replace(case, args=(tile, *case.args[1:]), ends="fault")
    text = load_program(4)
    case = _load("fault tile with a map for im2col", columns, [row((0, 0, 0, 0), columns.count)])
    yield replace(case, ptx=text, ends="fault")
