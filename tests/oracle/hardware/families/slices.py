"""Interleaved tensors: channels in slices of 16 or 32 bytes, each slice with its own plane of pixels.

The dimension before the outermost is that of the channels; a pixel of a slice is contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from oracle.hardware.experiment import Experiment, Map
from oracle.hardware.families.box_programs import row, store_args, store_opcode, store_program
from oracle.hardware.families.tensor import BLOCK, SIZES, loads, number_bits, numbered


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of interleaved tensors."""
    yield from _interleaved()
    yield from _counted_slices()


_NEVER = 0xF_0000
"""Bytes that no box has: their phase never ends."""


def _interleaved() -> Iterator[Experiment]:
    """Boxes of all counts of channels, of every rank, with steps and under every swizzle."""
    for interleave, unit in (("16B", 16), ("32B", 32)):
        swizzle = "32B" if interleave == "32B" else "none"
        for element, size in (("u16", 2), ("u8", 1), ("u32", 4)):
            per = unit // size
            channels = (1, 2, per - 1, per, per + 1, 2 * per, 3 * per) if size == 2 else (1, per, per + 1)
            for count in dict.fromkeys(channels):
                box = (1, count, 16 // size)
                dims = (2, 3, 20)
                yield _slices(f"{element} box {box}", interleave, element, dims, box, swizzle=swizzle)
        for box4 in ((1, unit // 2, 1, 8), (2, unit, 2, 8)):
            yield _slices(f"4d box {box4}", interleave, "u16", (2, 3, 4, 10), box4, swizzle=swizzle)
        box5 = (2, unit // 2 + 1, 2, 1, 8)
        yield _slices(f"5d box {box5}", interleave, "u16", (2, 3, 2, 3, 10), box5, swizzle=swizzle)
        for steps in ((1, 1, 2), (1, 2, 1), (2, 1, 3)):
            more: dict[str, Any] = {"swizzle": swizzle, "element_strides": steps}
            yield _slices(f"steps {steps}", interleave, "u16", (2, 3, 20), (2, unit, 8), **more)
        for other in ("none", "32B", "64B", "128B"):
            nan = {"swizzle": other, "oob_fill": "nan"}
            yield _slices(f"swizzle {other}", interleave, "f16", (2, 3, 20), (1, unit, 8), **nan)


def _counted_slices() -> Iterator[Experiment]:
    """Interleaved tensors with the bytes that arrive, under every swizzle, at several places, and stored."""
    for interleave, unit in (("16B", 16), ("32B", 32)):
        for swizzle in ("none", "32B", "64B", "128B"):
            tensor = _interleaved_tensor(interleave, "u16", (2, 3, 40))
            tensor |= {"box": (1, 8, 32), "swizzle": swizzle}
            rows = [row((1, 1, 1), 32 * unit, at) for at in (0, 128, 256, 384, 640, 896)]
            name = f"slices/counted {interleave} swizzle {swizzle}"
            yield loads(name, Map(tensor, words=numbered(16384, 2)), rows, 2048, 3)
        for dims, box, steps, count in (
            ((2, 3, 20), (2, 8, 8), (1, 1, 1), 16),
            ((2, 3, 20), (2, 3, 16), (1, 2, 3), 12),
            ((2, 3, 4, 10), (2, 64, 3, 8), (2, 3, 1, 1), 24),
            ((2, 3, 4, 5, 10), (1, 8, 3, 4, 8), (1, 1, 2, 3, 2), 16),
        ):
            tensor = _interleaved_tensor(interleave, "u16", dims)
            tensor |= {"box": box, "element_strides": steps, "swizzle": "32B"}
            starts = [(0,) * len(dims), (1,) * len(dims), (-1, *(0,) * (len(dims) - 1))]
            rows = [row(s, count * unit) for s in starts]
            name = f"slices/counted {interleave} box {box}"
            yield loads(name, Map(tensor, words=numbered(32768, 2)), rows, 32 * count, len(dims))
        for op in ("", "add", "max"):
            tensor = _interleaved_tensor(interleave, "u16" if not op else "f16", (2, 3, 20))
            tensor |= {"box": (2, 8, 8), "swizzle": "32B", "element_strides": (1, 1, 2)}
            before = number_bits(4096, "f16")
            source = number_bits(2048, "f16")[1024:].view(np.uint32)
            args = store_args(tensor, before, [row((1, 1, 0)), row((16, 2, 1), at=256)], source)
            name = f"slices/store {interleave} {op or 'plain'}"
            yield Experiment(name, (store_opcode(3, op),), store_program(3, op), args, block=BLOCK)


def _interleaved_tensor(interleave: str, element: str, dims: tuple[int, ...]) -> dict[str, Any]:
    """Return the keywords of a map over a densely packed interleaved tensor, without box and swizzle."""
    strides = [int(interleave[:2]) * dims[-1]]
    for extent in dims[-2:0:-1]:
        strides.append(strides[-1] * extent)
    strides_of = (*strides[::-1], SIZES[element])
    return {"dtype": element, "shape": dims, "strides": strides_of, "interleave": interleave}


def _slices(
    name: str, interleave: str, element: str, dims: tuple[int, ...], box: tuple[int, ...], **more: Any
) -> Experiment:
    """Return the loads of some places of a tensor whose channels are counted in slices, uncounted."""
    size, dim = SIZES[element], len(dims)
    how = _interleaved_tensor(interleave, element, dims)
    last = (4, *(0,) * (dim - 3), 3, 1)
    starts = [(0,) * dim, (1,) * dim, (-1,) * dim, (*(0,) * (dim - 2), 2, 0), last]
    rows = [row(s, _NEVER) for s in starts]
    tensor = Map(how | {"box": box} | more, words=numbered(32768 // size, size))
    return loads(f"slices/{interleave} {name}", tensor, rows, 1024, dim, polls=10, nap=5000)
