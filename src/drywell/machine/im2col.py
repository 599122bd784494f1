"""Which pixels an im2col copy takes: a walk along W, H, D and N inside a box of the tensor.

SPEC: with D images of W and H pixels the box of a map goes from its lower corner to dim - 1 + its upper
corner. The walk starts at the coordinates, steps by the element strides along W, at the end of a row along
H, then D, then N, and takes as many pixels as the map says; the strides do not lower that number. Mode
im2col::w walks along W and N only, and takes `halo` more pixels at the end; im2col::w::128 takes 128, and
the halo after every 32.
MEASURED (H200): the coordinates are the tensor's own and may be negative; the offsets are added after the
walk; N steps by its element stride; a start outside the box faults.
ASSUMED: a halo goes on along W in its own image, past the box too.
Source: PTX ISA 5.5.4 (im2col mode), 5.5.5 (im2col::w and im2col::w::128 modes); CUDA driver API,
cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from drywell.machine.tensor_map import TensorMap

MODES = ("tile", "im2col", "im2col::w")
"""What a tensor map may be made for."""

CORNER_BITS = {1: 16, 2: 8, 3: 5}
"""Bits of a corner's coordinate, by how many a corner has. Source: cuTensorMapEncodeIm2col, ranges."""

MAP_MODES = {
    "tile": "tile",
    "tile::gather4": "tile",
    "tile::scatter4": "tile",
    "im2col": "im2col",
    "im2col_no_offs": "im2col",
    "im2col::w": "im2col::w",
    "im2col::w::128": "im2col::w",
}
"""The mode of an instruction -> the mode its map is made for."""

WIDE_PIXELS, WIDE_GROUP = 128, 32
"""What im2col::w::128 takes, and after how many pixels its halo comes."""

Pixels = NDArray[np.int64]


def corner_problems(mode: str, rank: int, lower: Sequence[int], upper: Sequence[int]) -> tuple[str, ...]:
    """Return what is wrong with the corners of a map, one sentence each."""
    if mode == "tile":
        return ("corners belong to mode im2col",) if lower or upper else ()
    if rank < 3:
        return (f"mode {mode} needs rank 3, 4 or 5, not {rank}",)
    count = rank - 2 if mode == "im2col" else 1
    most = 1 << CORNER_BITS[count] - 1
    out = []
    for name, corner in (("lower_corner", lower), ("upper_corner", upper)):
        if len(corner) != count:
            out.append(f"{name} has {len(corner)} entries; mode {mode} of rank {rank} needs {count}")
        out += [
            f"{name}[{i}] is {value}; it must be {-most} to {most - 1}"
            for i, value in enumerate(corner)
            if not -most <= value < most
        ]
    return tuple(out)


def box_edges(tmap: TensorMap) -> tuple[tuple[int, int], ...]:
    """Return the first and the last pixel of a map's box per spatial dimension it has corners for."""
    corners = zip(tmap.lower_corner, tmap.upper_corner, tmap.global_dim[1:], strict=False)
    return tuple((low, dim - 1 + high) for low, high, dim in corners)


def start_problem(tmap: TensorMap, coords: Sequence[int], mode: str) -> str:
    """Say why a walk may not start at the coordinates (channel, W, ...); '' when it may.

    SPEC: im2col::w may start left of its box.
    """
    for name, at, (low, high) in zip("WHD", coords[1:], box_edges(tmap), strict=False):
        if at > high or (at < low and mode in ("im2col", "im2col_no_offs")):
            return f"{name} = {at} lies outside the box, which goes from {low} to {high} there"
    return ""


def store_problem(tmap: TensorMap, coords: Sequence[int]) -> str:
    """Say why im2col_no_offs may not store at the coordinates; '' when it may.

    MEASURED (H200): no coordinate may be negative, and the map's box may not reach out of the tensor,
    wherever the walk would go.
    """
    if min(coords) < 0:
        return f"the coordinates {tuple(coords)} are negative"
    for name, (low, high), dim in zip("WHD", box_edges(tmap), tmap.global_dim[1:], strict=False):
        if low < 0 or high >= dim:
            return f"the box goes from {low} to {high} along {name}, the tensor from 0 to {dim - 1}"
    return ""


def num_pixels(tmap: TensorMap, mode: str, halo: int) -> int:
    """Return how many pixels an instruction of a mode takes."""
    if mode == "im2col::w::128":
        return WIDE_PIXELS + WIDE_PIXELS // WIDE_GROUP * halo
    return tmap.box_dim[1] + (halo if mode == "im2col::w" else 0)


@lru_cache(maxsize=256)
def pixels(tmap: TensorMap, coords: tuple[int, ...], mode: str, offsets: tuple[int, ...]) -> Pixels:
    """Return the coordinates (W, H, D, N as the map has them) of each pixel, int64[pixels, rank - 1].

    `offsets` are W, H, D for im2col, (halo, W) for the two w modes, () for im2col_no_offs.
    """
    if mode in ("im2col", "im2col_no_offs"):
        path = _walk(tmap, coords[1:], tmap.box_dim[1], tmap.rank - 2)
        shift = (*offsets, *(0,) * (tmap.rank - 1 - len(offsets)))
        out = path + np.array(shift, np.int64)
    else:
        halo, offset = offsets
        count = WIDE_PIXELS if mode == "im2col::w::128" else tmap.box_dim[1]
        group = WIDE_GROUP if mode == "im2col::w::128" else count
        path = _walk(tmap, coords[1:], count, 1)
        out = np.concatenate([_with_halo(tmap, path[i : i + group], halo) for i in range(0, count, group)])
        out[:, 0] += offset
    out.setflags(write=False)
    return out


def _walk(tmap: TensorMap, start: tuple[int, ...], count: int, num_walked: int) -> Pixels:
    """Return `count` pixels from `start` on, along the first `num_walked` dimensions and then N."""
    at, edges, steps = list(start), box_edges(tmap), tmap.element_stride[1:]
    last = len(at) - 1
    out = np.empty((count, len(at)), np.int64)
    for k in range(count):
        out[k] = at
        for i in range(num_walked):
            at[i] += steps[i]
            if at[i] <= edges[i][1]:
                break
            at[i] = edges[i][0]
        else:
            at[last] += steps[last]
    return out


def _with_halo(tmap: TensorMap, path: Pixels, halo: int) -> Pixels:
    """Return a group of pixels followed by `halo` more along W."""
    more = np.repeat(path[-1:], halo, axis=0)
    more[:, 0] += tmap.element_stride[1] * np.arange(1, halo + 1)
    return np.concatenate([path, more])
