"""Tensor copies by tile: loads, stores, reductions, prefetches and multicast of boxes of every rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import Experiment, Map, words
from oracle.hardware.families.box_programs import (
    THREADS,
    load_args,
    load_opcode,
    load_program,
    multicast_program,
    prefetch_opcode,
    row,
    store_args,
    store_opcode,
    store_program,
)

Array = NDArray[Any]
BLOCK = (THREADS, 1, 1)

SIZES = {
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "s32": 4,
    "u64": 8,
    "s64": 8,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f32.ftz": 4,
    "tf32": 4,
    "tf32.ftz": 4,
    "f64": 8,
}
"""Element types that an sm_90 can copy -> bytes."""

FLOATS = tuple(t for t in SIZES if "f" in t)
_WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def numbered(count: int, size: int) -> Array:
    """Return elements of `size` bytes that tell their index, as far as that many bits can."""
    index = np.arange(count, dtype=np.uint64)
    if size == 1:
        return (index % 251).astype(np.uint8)
    return (index * np.uint64(0x0001_0001_0001_0001)).astype(_WORDS[size])


def number_bits(count: int, element: str) -> Array:
    """Return bit patterns of a float type: specials, subnormals, halves of a tf32 step, then anything."""
    size = SIZES[element]
    if size == 4:
        edges = [
            0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00400000, 0x00800000, 0x3F800000, 0x3F801000,
            0x3F800FFF, 0x3F801001, 0x3F803000, 0x3F802FFF, 0xBF801000, 0xBF803000, 0x7F7FFFFF, 0x7F7FF000,
            0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFFC01234, 0x7F801000, 0x00001000,
            0x00003000, 0x007FF000, 0x007FFFFF, 0x80001FFF,
        ]  # fmt: skip
    else:
        edges = [0, 1, (1 << 8 * size) - 1, 1 << 8 * size - 1, (1 << 8 * size - 1) - 1, 0x7C01, 0x7F81]
    out = words(f"tensor bits {size}", count, _WORDS[size])
    out[: len(edges)] = edges
    return out


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of an experiment, in the array's order: rows start on multiples of 16 bytes."""

    element: str
    dims: tuple[int, ...]
    specials: bool = False

    @property
    def size(self) -> int:
        """Return the bytes of an element."""
        return SIZES[self.element]

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the strides in bytes."""
        steps = [self.size, 16 * ceil(self.dims[-1] * self.size / 16)]
        for dim in self.dims[-2:0:-1]:
            steps.append(steps[-1] * dim)
        return tuple(steps[: len(self.dims)][::-1])

    def words(self) -> Array:
        """Return the memory it lies in, flat."""
        pitch = self.strides[-2] if len(self.dims) > 1 else 16 * ceil(self.dims[-1] * self.size / 16)
        count = pitch // self.size * prod(self.dims[:-1])
        return number_bits(count, self.element) if self.specials else numbered(count, self.size)

    def how(self, box: tuple[int, ...], **more: Any) -> dict[str, Any]:
        """Return the keywords of its map for a box in the array's order."""
        return {"dtype": self.element, "shape": self.dims, "strides": self.strides, "box": box, **more}

    def map(self, box: tuple[int, ...], **more: Any) -> Map:
        """Return its map over memory of its own."""
        return Map(self.how(box, **more), words=self.words())


def box_bytes(box: tuple[int, ...], size: int, steps: tuple[int, ...] | None = None) -> int:
    """Return the bytes that a copy of a box counts; the step of the innermost dimension changes nothing."""
    steps = steps or (1,) * len(box)
    return prod(ceil(b / s) for b, s in zip(box[:-1], steps[:-1], strict=True)) * box[-1] * size


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of tensor copies by tile."""
    yield from _element_types()
    yield from _numbers()
    yield from _swizzles()
    yield from _ranks()
    yield from _steps()
    yield from _spellings()
    yield from _multicasts()
    yield from _stores()
    yield from _reductions()
    yield from _faults()


def loads(name: str, tensor: Map, rows: list[Any], size: int, dim: int, **program: Any) -> Experiment:
    """Return the loads that the rows tell, through a map and into a window of `size` bytes."""
    mode, dst = program.get("mode", ".tile"), program.get("dst", "shared::cta")
    tail = ".L2::cache_hint" if program.get("hint") else ""
    forms = [load_opcode(dim, mode, dst, tail)]
    if program.get("prefetch"):
        forms.append(prefetch_opcode(dim, mode, tail))
    text = load_program(dim, **program)
    return Experiment(name, tuple(forms), text, load_args(tensor, rows, size), block=BLOCK)


def _load(name: str, tensor: Map, rows: list[Any], size: int, dim: int, **program: Any) -> Experiment:
    return loads(f"tensor/{name}", tensor, rows, size, dim, **program)


def _element_types() -> Iterator[Experiment]:
    """Every element type, over each edge of the tensor, both fills."""
    for element, size in SIZES.items():
        wide = 32 // size
        tensor = Tensor(element, (7, 3 * wide - 16 // size + 1), specials=element in FLOATS)
        places = (
            (0, 0),
            (wide, 3),
            (-16 // size, -2),
            (2 * wide, 5),
            (wide, -3),
            (-16 // size, 2),
            (8 * wide, 0),
        )
        for fill in ("zero", "nan") if element in FLOATS else ("zero",):
            rows = [row(p, tx=4 * 32) for p in places]
            yield _load(f"load {element} {fill}", tensor.map((4, wide), oob_fill=fill), rows, 128, 2)


def _numbers() -> Iterator[Experiment]:
    """The specials of every float type, in and out."""
    for element in FLOATS:
        size = SIZES[element]
        tensor = Tensor(element, (8, 32 // size), specials=True)
        box = (8, 32 // size)
        yield _load(f"numbers in {element}", tensor.map(box), [row((0, 0), 256)], 256, 2)
        yield _store(f"numbers out {element}", tensor, box, [row((0, 0))], tensor.words())


def _swizzles() -> Iterator[Experiment]:
    """Every swizzle with rows of every width, at every place of its pattern."""
    spans = {"none": 128, "32B": 32, "64B": 64, "128B": 128}
    for swizzle, span in spans.items():
        for width in range(16, span + 1, 16):
            tensor = Tensor("u16", (8, 64))
            pitch = width if swizzle == "none" else span
            steps = range(0, 1024, 128) if width == span and span > 32 else (0, 128, 640)
            rows = [row((8, 0), tx=8 * width, at=at) for at in steps if at < 8 * span or width == span]
            size = 2048 if len(rows) > 3 else -(-(max(r[5] for r in rows) + 8 * pitch) // 64) * 64
            box = tensor.map((8, width // 2), swizzle=swizzle)
            yield _load(f"swizzle {swizzle} rows of {width}", box, rows, size, 2)
    tensor = Tensor("u32", (5, 3, 7, 16))
    for swizzle, span in spans.items():
        rows = [row((4, -1, 1, 2), tx=12 * min(span, 64), at=at) for at in (0, 256)]
        box = tensor.map((2, 2, 3, min(span, 64) // 4), swizzle=swizzle)
        yield _load(f"swizzle {swizzle} of a 4d box", box, rows, 1792, 4)


_RANK_BOXES = {1: (16,), 2: (3, 8), 3: (2, 3, 8), 4: (2, 3, 2, 8), 5: (2, 2, 2, 3, 8)}
_RANK_DIMS = {1: (43,), 2: (5, 19), 3: (4, 5, 19), 4: (3, 4, 5, 19), 5: (3, 3, 4, 5, 19)}


def _edges(dim: int, dims: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return starts innermost first: inside, and over each side of each dimension."""
    inside = (8, *(1,) * (dim - 1))
    out: list[tuple[int, ...]] = [inside]
    for i in range(dim):
        for at in (
            -8 if i == 0 else -1,
            16 if i == 0 else dims[dim - 1 - i] - 1,
            -64,
            0x4000_0000,
            -0x4000_0000,
        ):
            out.append((*inside[:i], at, *inside[i + 1 :]))
    out.append((-8, *(-1,) * (dim - 1)))
    out.append((16, *(d - 1 for d in dims[-2::-1])))
    return list(dict.fromkeys(out))


def _ranks() -> Iterator[Experiment]:
    """Every rank, over every side."""
    for dim, box in _RANK_BOXES.items():
        for element in ("u16", "f32") if dim in (2, 5) else ("u16",):
            size = SIZES[element]
            tensor = Tensor(element, _RANK_DIMS[dim])
            count = box_bytes(box, size)
            rows = [row(p, tx=count) for p in _edges(dim, tensor.dims)]
            fill = "nan" if element == "f32" else "zero"
            yield _load(f"load {dim}d {element}", tensor.map(box, oob_fill=fill), rows, max(64, count), dim)
    wide = Tensor("u8", (3, 4096))
    for box in ((1, 256), (2, 256), (256, 16)):
        rows = [row(p, tx=prod(box)) for p in ((0, 0), (-128, -1), (3968, 1))]
        yield _load(f"load a box of {box}", wide.map(box), rows, prod(box), 2)


def _steps() -> Iterator[Experiment]:
    """Element strides: that of the innermost dimension is ignored, others bring ceil(box / stride) rows."""
    tensor = Tensor("u16", (23, 40))
    for step in range(1, 9):
        for height in (7, 8):
            count = box_bytes((height, 8), 2, (step, 1))
            places = ((8, 0), (0, 1), (0, -1), (0, -2), (0, -5), (0, -8), (0, 20), (0, 22), (0, 16))
            box = tensor.map((height, 8), element_strides=(step, 1))
            rows = [row(p, tx=count) for p in places]
            yield _load(f"step {step} box {height}", box, rows, max(64, count), 2)
    for step in (2, 3, 8):
        box = tensor.map((2, 16), element_strides=(1, step))
        rows = [row(p, tx=64) for p in ((0, 0), (8, 3), (-8, -1), (32, 2))]
        yield _load(f"inner step {step}", box, rows, 64, 2)
    deep = Tensor("u32", (5, 6, 7, 9, 8))
    for steps in ((2, 3, 1, 2, 1), (1, 2, 4, 5, 2), (5, 1, 3, 7, 1)):
        count = box_bytes((3, 3, 4, 5, 4), 4, steps)
        box = deep.map((3, 3, 4, 5, 4), element_strides=steps, swizzle="none")
        corners = ((0, 0, 0, 0, 0), (4, -3, -1, 2, 1), (4, 4, 3, -1, -2))
        rows = [row(p, tx=count) for p in corners]
        yield _load(f"steps {steps}", box, rows, 64 * ceil(count / 64), 5)
    box = Tensor("u8", (40, 128)).map((24, 64), element_strides=(3, 1), swizzle="64B")
    yield _load("step 3 swizzled", box, [row((64, -4), tx=512), row((0, 1), tx=512)], 512, 2)


def _spellings() -> Iterator[Experiment]:
    """Every spelling of a load and a prefetch; hints change no value."""
    for dim, box in _RANK_BOXES.items():
        tensor, count = Tensor("u16", _RANK_DIMS[dim]), box_bytes(box, 2)
        rows = [row((8, *(1,) * (dim - 1)), tx=count), row((-8, *(2,) * (dim - 1)), tx=count)]
        for mode in ("", ".tile"):
            for dst in ("shared::cta", "shared::cluster"):
                for hint in (False, True):
                    how: dict[str, Any] = {"mode": mode, "dst": dst, "hint": hint, "prefetch": dst[-1] == "a"}
                    name = f"spelt {dim}d{mode} {dst}{' hint' if hint else ''}"
                    yield _load(name, tensor.map(box), rows, 64 * ceil(count / 64), dim, **how)
    for promotion in ("64B", "128B", "256B"):
        box2 = Tensor("u16", (9, 64)).map((4, 32), l2_promotion=promotion)
        yield _load(f"promotion {promotion}", box2, [row((8, 6), tx=256)], 256, 2)


def _multicasts() -> Iterator[Experiment]:
    """CTA 0 of a cluster loads for every set of its CTAs."""
    for ctas in (2, 4):
        for dim, box in _RANK_BOXES.items():
            tensor, count = Tensor("u16", _RANK_DIMS[dim]), box_bytes(box, 2)
            masks = range(1, 1 << ctas) if dim == 2 else ((1 << ctas) - 1, 2)
            rows = [row((8, *(m % 3 - 1,) * (dim - 1)), tx=count, mask=m) for m in masks]
            for hint in (False, True):
                for mode in ("", ".tile") if ctas == 2 else (".tile",):
                    tail = f".multicast::cluster{'.L2::cache_hint' if hint else ''}"
                    yield Experiment(
                        f"tensor/multicast {dim}d{mode} to {ctas}{' hint' if hint else ''}",
                        (load_opcode(dim, mode, "shared::cluster", tail),),
                        multicast_program(dim, mode, hint),
                        load_args(tensor.map(box), rows, 64 * ceil(count / 64), ctas),
                        grid=(ctas, 1, 1),
                        block=BLOCK,
                        cluster=(ctas, 1, 1),
                    )
    tensor = Tensor("u16", (8, 64))
    rows = [row((0, 0), tx=1024, at=at, mask=m) for at, m in ((0, 3), (128, 2), (384, 3))]
    yield Experiment(
        "tensor/multicast swizzled",
        (load_opcode(2, ".tile", "shared::cluster", ".multicast::cluster"),),
        multicast_program(2),
        load_args(tensor.map((8, 64), swizzle="128B"), rows, 1536, 2),
        grid=(2, 1, 1),
        block=BLOCK,
        cluster=(2, 1, 1),
    )


def _store(
    name: str, tensor: Tensor, box: tuple[int, ...], rows: list[Any], source: Array, op: str = "", **more: Any
) -> Experiment:
    dim = len(box)
    spelt = {k: more.pop(k) for k in ("mode", "hint") if k in more}
    before = more.pop("before", None)
    before = np.full_like(tensor.words(), 0x5A) if before is None else before
    args = store_args(tensor.how(box, **more), before, rows, source.view(np.uint32))
    program = store_program(dim, op, **spelt)
    return Experiment(f"tensor/{name}", (store_opcode(dim, op, **spelt),), program, args, block=BLOCK)


def _stores() -> Iterator[Experiment]:
    """Stores of every rank and spelling, clipped at every bound, of every type, swizzled, with steps."""
    for dim, box in _RANK_BOXES.items():
        tensor = Tensor("u16", _RANK_DIMS[dim])
        source = numbered(2048, 2)[1024:]
        for mode in ("", ".tile"):
            for hint in (False, True):
                rows = [row((8, *(1,) * (dim - 1))), row((16, *(d - 1 for d in tensor.dims[-2::-1])), at=128)]
                name = f"store {dim}d{mode}{' hint' if hint else ''}"
                yield _store(name, tensor, box, rows, source, mode=mode, hint=hint)
        for place in _edges(dim, tensor.dims)[1:]:
            if any(abs(c) == 0x4000_0000 for c in place) or (dim > 2 and min(place) < 0):
                continue
            case = _store(f"store {dim}d at {place}", tensor, box, [row(place, at=256)], source)
            yield _faulting(case) if min(place) < 0 else case
    for element, size in SIZES.items():
        wide = 32 // size
        tensor = Tensor(element, (6, 2 * wide + 1))
        source = number_bits(512 // size, element) if element in FLOATS else numbered(512 // size, size)
        rows = [row((0, 0)), row((wide, 4), at=128), row((2 * wide, 1), at=256)]
        yield _store(f"store {element}", tensor, (4, wide), rows, source)
    for inner in range(33, 48, 3):
        tensor = Tensor("u8", (3, inner))
        yield _store(f"store 64 over {inner}", tensor, (3, 64), [row((0, 1))], numbered(256, 1))
        shifted = [row((16, 1)), row((0, 0), at=256)]
        yield _store(f"store 48 over {inner} at 16", tensor, (3, 48), shifted, numbered(512, 1))
    for inner in (8, 9, 10, 11):
        words_of = Tensor("u32", (3, inner))
        yield _store(f"or 64 over {4 * inner}", words_of, (3, 16), [row((0, 1))], numbered(64, 4), "or")
    for swizzle, span in (("32B", 32), ("64B", 64), ("128B", 128)):
        for width in range(16, span + 1, 16):
            tensor = Tensor("u16", (8, 4 * width))
            rows = [row((i * width // 2, 0), at=at) for i, at in enumerate((0, 128, 384, 640))]
            yield _store(
                f"store swizzle {swizzle} rows of {width}",
                tensor,
                (8, width // 2),
                rows,
                numbered(1024, 2),
                swizzle=swizzle,
            )
    for step in (2, 3, 5, 8):
        tensor = Tensor("u16", (23, 16))
        rows = [row((0, 1)), row((8, 17), at=128), row((8, 4), at=256)]
        yield _store(f"store step {step}", tensor, (8, 8), rows, numbered(512, 2), element_strides=(step, 1))


_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f32.ftz", "tf32", "tf32.ftz", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("u32", "s32", "u64"),
    "or": ("u32", "s32", "u64"),
    "xor": ("u32", "s32", "u64"),
}


def _float_edges(size: int, fraction: int) -> list[int]:
    """Return zeros, subnormals, infinities, NaNs, 1, and the ends of a format's normal numbers."""
    sign, infinity, least = 1 << 8 * size - 1, 0, 1 << fraction
    infinity = sign - least
    one = infinity // 2 // least * least
    nans = (infinity + 1, infinity + least // 2, 2 * sign - 1)
    return [0, sign, 1, sign + 3, infinity, sign + infinity, *nans, one, infinity - 1, least, least - 1]


def operands(element: str, count: int, seed: int) -> Array:
    """Return operands of a reduction: small and equal numbers, edges, then anything."""
    size = SIZES[element]
    out = words(f"operands {size} {seed}", count, _WORDS[size])
    if element in FLOATS:
        edges = _float_edges(size, {"f16": 10, "bf16": 7, "f64": 52}.get(element, 23))
    else:
        edges = [0, 1, 2, 3, 5, (1 << 8 * size) - 1, 1 << 8 * size - 1, (1 << 8 * size - 1) - 1]
    picks = words(f"picks {seed}", count // 2, "uint32") % len(edges)
    out[: count // 2] = np.array(edges, np.uint64)[picks].astype(out.dtype)
    return out


def _reductions() -> Iterator[Experiment]:
    """Every operation on every type that has it, every rank, clipped."""
    for op, elements in _REDUCTIONS.items():
        for element in elements:
            size = SIZES[element]
            tensor = Tensor(element, (16, 64 // size))
            before = operands(element, tensor.words().size, 1)
            source = operands(element, 2048 // size, 2)
            rows = [row((0, 0)), row((32 // size, 0), at=512), row((32 // size, 8), at=1024)]
            yield _store(f"{op} {element}", tensor, (16, 32 // size), rows, source, op, before=before)
    for dim, box in _RANK_BOXES.items():
        tensor = Tensor("u32", _RANK_DIMS[dim])
        before = operands("u32", tensor.words().size, 3)
        for op in _REDUCTIONS:
            spelt = {"mode": ("", ".tile")[dim % 2], "hint": dim > 3}
            rows = [row((8, *(1,) * (dim - 1))), row((16, *(d - 1 for d in tensor.dims[-2::-1])), at=1024)]
            name = f"{op} {dim}d{spelt['mode']}{' hint' if spelt['hint'] else ''}"
            yield _store(name, tensor, box, rows, operands("u32", 1024, 4), op, before=before, **spelt)
    for dim in _RANK_BOXES:
        yield from _reduction_spellings(dim)


def _reduction_spellings(dim: int) -> Iterator[Experiment]:
    """Every other spelling of a reduction of a rank, on a box of eight numbers."""
    tensor, box = Tensor("u32", (*(2,) * (dim - 1), 8)), (*(1,) * (dim - 1), 8)
    before = operands("u32", tensor.words().size, 6)
    for op in _REDUCTIONS:
        for mode in ("", ".tile"):
            for hint in (False, True):
                if (mode, hint) == (("", ".tile")[dim % 2], dim > 3):
                    continue
                name = f"spelt {op} {dim}d{mode}{' hint' if hint else ''}"
                rows = [row((0, *(1,) * (dim - 1)), at=128)]
                spelt = {"mode": mode, "hint": hint}
                yield _store(name, tensor, box, rows, operands("u32", 64, 7), op, before=before, **spelt)


def _faults() -> Iterator[Experiment]:
    """What the unit refuses: places off their grain, maps of another rank."""
    tensor = Tensor("u16", (8, 64))
    for at in (8, 16, 32, 64):
        for swizzle in ("none", "128B"):
            case = _load(
                f"fault at {at} {swizzle}",
                tensor.map((2, 16), swizzle=swizzle),
                [row((0, 0), 64, at)],
                512,
                2,
            )
            yield _faulting(case)
    for x in (1, 4, 7, -1):
        yield _faulting(_load(f"fault x {x}", tensor.map((2, 16)), [row((x, 0), 64)], 128, 2))
    box = tensor.map((2, 16))
    yield _faulting(_load("fault 3d with a map of 2", box, [row((0, 0, 0), 64)], 128, 3))
    yield _faulting(_load("fault 1d with a map of 2", box, [row((0,), 64)], 128, 1))
    for op, elements in _REDUCTIONS.items():
        for element in SIZES:
            if element in elements:
                continue
            size = SIZES[element]
            source, before = (operands(element, 256 // size, seed) for seed in (2, 1))
            tensor, wide = Tensor(element, (8, 32 // size)), (8, 32 // size)
            found = _store(f"no {op} {element}", tensor, wide, [row((0, 0))], source, op, before=before)
            yield _faulting(found)


def _faulting(case: Experiment) -> Experiment:
    return Experiment(case.name, case.forms, case.ptx, case.args, block=case.block, ends="fault")
