"""The tensor copy engine in tile mode: boxes of 1 to 5 dimensions between global and shared memory.

MEASURED (H200): elements outside the tensor are filled, and counted by complete_tx like the others; with
a swizzle the rows lie one swizzle span apart even when they are narrower, and the swizzle works on
absolute shared addresses; a start that is not 16-byte aligned in the innermost dimension faults.
Source: PTX ISA 9.7.9.27 (cp.async.bulk.tensor), 5.5 (tensors); CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import UnsupportedError
from drywell.layout.swizzle import SWIZZLE_MODES
from drywell.machine.lanes import Bytes
from drywell.machine.reduce import combine
from drywell.machine.smem import SharedMemory
from drywell.machine.tensor_map import MAP_ALIGN, MAP_BYTES, SWIZZLE_SPANS, TensorMap, decode
from drywell.machine.windows import GLOBAL_BASE

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

SMEM_ALIGN = 128
CHUNK = 16
_UNMODELLED = {
    "b4x16_p64": "element type b4x16_p64 (16U4_ALIGN16B)",
    "b6x16_p32": "element type b6x16_p32 (16U6_ALIGN16B)",
    "96B": "the 96B swizzle",
    "16B": "interleave 16B",
    "32B": "interleave 32B",
}

_NAN_FILL: dict[str, bytes] = {
    # MEASURED (H200) for f16; ASSUMED: the other types take the like pattern, a quiet NaN ending in 7.
    "f16": b"\xf7\x7f",
    "bf16": b"\xf7\x7f",
    "f64": b"\xf7\xff\xff\xff\xff\xff\xff\x7f",
    "f32": b"\xf7\xff\xff\x7f",
    "f32.ftz": b"\xf7\xff\xff\x7f",
    "tf32": b"\xf7\xff\xff\x7f",
    "tf32.ftz": b"\xf7\xff\xff\x7f",
}


@dataclass(frozen=True, slots=True)
class Box:
    """The box of a map: `counts` of its outer dimensions (dimension 1 first), `row_bytes` of a row,
    `pitch` in SMEM.
    """

    counts: tuple[int, ...]
    rows: int
    row_bytes: int
    pitch: int

    @property
    def num_bytes(self) -> int:
        """Return the bytes of the whole box: what complete_tx counts."""
        return self.rows * self.row_bytes

    @property
    def footprint(self) -> int:
        """Return the bytes of shared memory it lies in."""
        return self.rows * self.pitch


def unmodelled(tmap: TensorMap) -> str:
    """Return what of a map TMA cannot do yet, in words; '' when it can do it."""
    swizzle = tmap.swizzle if tmap.swizzle == "96B" else ""
    return next(
        (_UNMODELLED[v] for v in (tmap.elemtype, swizzle, tmap.interleave_layout) if v in _UNMODELLED), ""
    )


@lru_cache(maxsize=256)
def box_of(tmap: TensorMap) -> Box:
    """Return the box of a map that is modelled."""
    inner, *outer = tmap.counts
    row_bytes = inner * tmap.element.bits // 8
    rows = 1
    for count in outer:
        rows *= count
    return Box(tuple(outer), rows, row_bytes, max(row_bytes, SWIZZLE_SPANS[tmap.swizzle]))


def box_bytes(tmap: TensorMap) -> int:
    """Return the bytes a copy of one box counts."""
    return box_of(tmap).num_bytes


def read_map(m: Warp, address: int, space: str = "") -> TensorMap:
    """Read and decode the tensor map at an address in parameter, constant or global memory.

    Faults: TMA-ALIGN (64 bytes), TMA-MAP (no map), and those of the memory it should lie in. UnsupportedError
    names what is not modelled yet.
    """
    if address % MAP_ALIGN:
        m.fault("TMA-ALIGN", f"the tensor map at 0x{address:x} is not aligned to {MAP_ALIGN} bytes")
    tmap = decode(m.bytes_at(space, address, MAP_BYTES, proxy="tensormap").tobytes())
    what = unmodelled(tmap)
    if what:
        raise UnsupportedError(f"TMA with {what} is not modelled yet", m.place())
    return tmap


def check(m: Warp, tmap: TensorMap, coords: tuple[int, ...], memory: SharedMemory, offset: int) -> Box:
    """Check the operands of a tensor copy and return its box.

    Faults: TMA-MAP (rank), TMA-ALIGN (128 bytes in shared memory, 16 in the innermost dimension),
    SHARED-WINDOW.
    """
    box = box_of(tmap)
    if len(coords) != tmap.rank:
        m.fault("TMA-MAP", f"{len(coords)} coordinates for a tensor map of rank {tmap.rank}")
    if offset % SMEM_ALIGN:
        m.fault(
            "TMA-ALIGN",
            f"the shared address {memory.name_of(offset)} (0x{memory.base | offset:08x}) is not aligned to"
            f" {SMEM_ALIGN} bytes",
            hint=f"align the tile to {max(SMEM_ALIGN, SWIZZLE_MODES[tmap.swizzle].period_bytes)} bytes",
        )
    start_bits = coords[0] * tmap.element.bits
    if start_bits % (8 * CHUNK):
        m.fault(
            "TMA-ALIGN",
            f"the innermost coordinate {coords[0]} of {tmap.elemtype} elements is at byte"
            f" {start_bits / 8:g}; a box starts at a multiple of {CHUNK} bytes",
        )
    memory.view(offset, box.footprint)
    return box


@dataclass(frozen=True, slots=True)
class _Inside:
    """The part of a box inside the tensor: its first byte's address, its shape and strides (outermost
    dimension first, bytes last), and where it lies in the box.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    where: tuple[slice, ...]
    nbytes: int


def _inside(tmap: TensorMap, coords: tuple[int, ...], box: Box) -> _Inside | None:
    """Return the part of the box at `coords` that lies in the tensor; None when there is none."""
    bits = tmap.element.bits
    first = max(0, coords[0])
    last = min(tmap.global_dim[0], coords[0] + tmap.box_dim[0])
    if first >= last:
        return None
    address = tmap.global_address + first * bits // 8
    length = (last - first) * bits // 8
    skip = (first - coords[0]) * bits // 8
    shape, strides, where = [length], [1], [slice(skip, skip + length)]
    extent = length
    for i, count in enumerate(box.counts, 1):
        step, start, stride = tmap.element_stride[i], coords[i], tmap.global_stride[i - 1]
        low = max(0, -(start // step))
        high = min(count, -((start - tmap.global_dim[i]) // step))
        if low >= high:
            return None
        address += (start + low * step) * stride
        extent += (high - low - 1) * step * stride
        shape.append(high - low)
        strides.append(step * stride)
        where.append(slice(low, high))
    return _Inside(address, tuple(shape[::-1]), tuple(strides[::-1]), tuple(where[::-1]), extent)


def _tensor_view(m: Warp, part: _Inside, is_write: bool) -> NDArray[Any]:
    """Return the inside part of the tensor as a strided view of global memory, uint8 or whole 16-byte
    chunks.
    """
    gmem = m.grid.gmem
    gmem.view(part.address, part.nbytes, is_write)
    if is_write:
        m.changed()
    if m.grid.observers:
        starts = np.array(part.address, np.int64)
        for count, stride in zip(part.shape[:-1], part.strides[:-1], strict=True):
            starts = starts[..., None] + np.arange(count) * stride
        flat = starts.reshape(-1)
        m.record("global", flat, part.shape[-1], is_write, "async", np.ones(flat.size, np.bool_))
    return np.ndarray(
        part.shape,
        np.uint8,
        gmem.buffer.data,
        part.address - GLOBAL_BASE,
        part.strides,
    )


def read_box(m: Warp, tmap: TensorMap, coords: tuple[int, ...]) -> Bytes:
    """Return the box at `coords` from global memory, uint8[rows, row_bytes]; outside the tensor it is
    filled.
    """
    box = box_of(tmap)
    part = _inside(tmap, coords, box)
    full = (*box.counts[::-1], box.row_bytes)
    if part is not None and part.shape == full:
        return _tensor_view(m, part, False).reshape(box.rows, box.row_bytes)
    out = np.zeros((box.rows, box.row_bytes), np.uint8)
    if tmap.fill_mode == "nan":
        pattern = np.frombuffer(_NAN_FILL[tmap.elemtype], np.uint8)
        out.reshape(-1, pattern.size)[:] = pattern
    if part is not None:
        out.reshape(full)[part.where] = _tensor_view(m, part, False)
    return out


def write_box(m: Warp, tmap: TensorMap, coords: tuple[int, ...], data: Bytes, op: str = "") -> None:
    """Write a box (uint8[rows, row_bytes]) to global memory, dropping what is outside; with `op` combine
    it there.

    `op` is add, min, max, inc, dec, and, or, xor, on the map's element type. ASSUMED: negative start
    coordinates are clipped like the far edge (PTX forbids them in stores).
    """
    box = box_of(tmap)
    part = _inside(tmap, coords, box)
    if part is None:
        return
    new = data.reshape(*box.counts[::-1], box.row_bytes)[part.where]
    view = _tensor_view(m, part, True)
    view[...] = combine(op, tmap.elemtype, view, new) if op else new


@lru_cache(maxsize=512)
def _chunk_index(
    rows: int, row_bytes: int, pitch: int, swizzle: str, phase: int, chunk: int
) -> NDArray[np.int64]:
    """Return where each `chunk` of each row lies, in chunks from the box's start: int64[rows, row_bytes /
    chunk].
    """
    row = np.arange(rows, dtype=np.int64)[:, None] * pitch
    at = phase + row + np.arange(0, row_bytes, chunk, dtype=np.int64)
    index = (SWIZZLE_MODES[swizzle].apply(at) - phase) // chunk
    index.setflags(write=False)
    return index


def _chunks(
    m: Warp, tmap: TensorMap, memory: SharedMemory, offset: int, is_write: bool
) -> tuple[Any, Any, Any]:
    """Return the shared memory under a box as chunks, the index of the box's chunks in it, and their
    dtype.
    """
    box = box_of(tmap)
    mode = SWIZZLE_MODES[tmap.swizzle]
    dtype = np.dtype("<c16") if mode.atom_bytes >= CHUNK else np.dtype("<u8")
    phase = offset % mode.period_bytes
    index = _chunk_index(box.rows, box.row_bytes, box.pitch, tmap.swizzle, phase, dtype.itemsize)
    view = memory.view(offset, box.footprint, is_write)
    if is_write:
        m.changed()
    if m.grid.observers:
        base = memory.base | offset
        where, size = np.array([base]), box.footprint
        if box.pitch != box.row_bytes:
            where, size = base + index.reshape(-1) * dtype.itemsize, dtype.itemsize
        m.record("shared", where, size, is_write, "async", np.ones(where.size, np.bool_))
    return view.view(dtype), index, dtype


def put_box(m: Warp, tmap: TensorMap, memory: SharedMemory, offset: int, data: Bytes) -> None:
    """Write a box (uint8[rows, row_bytes]) into shared memory at a window offset, swizzled."""
    chunks, index, dtype = _chunks(m, tmap, memory, offset, True)
    rows = np.ascontiguousarray(data).view(dtype)
    if tmap.swizzle == "none":
        chunks[:] = rows.reshape(-1)
    else:
        chunks[index] = rows


def get_box(m: Warp, tmap: TensorMap, memory: SharedMemory, offset: int) -> Bytes:
    """Return a box (uint8[rows, row_bytes], a copy) from shared memory at a window offset, unswizzled."""
    chunks, index, _ = _chunks(m, tmap, memory, offset, False)
    return np.asarray(chunks[index]).view(np.uint8)


def load(m: Warp, tmap: TensorMap, coords: tuple[int, ...], *targets: tuple[SharedMemory, int]) -> int:
    """Copy the box at `coords` into shared memory (into each of `targets`); return the bytes complete_tx
    counts.
    """
    data = read_box(m, tmap, coords)
    for memory, offset in targets:
        check(m, tmap, coords, memory, offset)
        put_box(m, tmap, memory, offset, data)
    return box_bytes(tmap)
