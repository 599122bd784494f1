"""Interleaved tensors: channels in slices of 16 or 32 bytes, each slice with a plane of pixels of its own.

The dimensions of such a map are W, (H, D,) C, N; a slice of one pixel lies in one piece and the pixels of a
row lie behind each other, so that W has no stride in the map. C is counted in slices.

MEASURED (H200): coordinates, sizes and boxes of W count pixels, whatever the element type; a copy takes one
slice along C, whatever the box says there; element strides hold for W too. In shared memory the slices lie
without gaps, under any swizzle.
Source: PTX ISA 5.5.6 (interleave layout); CUDA driver API, CUtensorMapInterleave.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from drywell.machine.tensor_map import TensorMap

SLICE_BYTES = {"16B": 16, "32B": 32}


@lru_cache(maxsize=256)
def _of_slices(tmap: TensorMap) -> TensorMap:
    """Return the tensor with one dimension more, whose innermost is a slice of a pixel."""
    unit = SLICE_BYTES[tmap.interleave_layout]
    per_slice = 8 * unit // tmap.element.bits
    box = list(tmap.box_dim)
    box[tmap.rank - 2] = 1
    return replace(
        tmap,
        global_dim=(per_slice, *tmap.global_dim),
        global_stride=(unit, *tmap.global_stride),
        box_dim=(per_slice, *box),
        element_stride=(1, *tmap.element_stride),
    )


def sliced(tmap: TensorMap, coords: tuple[int, ...]) -> tuple[TensorMap, tuple[int, ...]]:
    """Return a map and coordinates as they are walked: those of an interleaved tensor get the dimension of
    the slice, others stay.
    """
    if tmap.interleave_layout == "none":
        return tmap, coords
    return _of_slices(tmap), (0, *coords)
