"""The tensor copy engine: boxes, gathered rows and im2col columns between global and shared memory.

A copy is rows of bytes. In tile mode they are the rows of a box of 1 to 5 dimensions; gather4 and scatter4
take the four rows that the coordinates name; the im2col modes take one row of channels per pixel
(`im2col`). Packed 4- and 6-bit types lie in shared memory in slots of 16 bytes, 16 elements each, whose
padding a load leaves as it was.

MEASURED (H200): elements outside the tensor are filled, and counted by complete_tx like the others; with
a swizzle the rows lie one swizzle span apart even when they are narrower, and the swizzle works on
absolute shared addresses; a start that is not 16-byte aligned in the innermost dimension faults, a shared
address off 128 bytes and a store at negative coordinates too.
ASSUMED: complete_tx counts the bytes of packed elements without their padding (CUTLASS and Triton expect
that many); `padded_complete_tx` = slots counts the slots.
Source: PTX ISA 9.7.9.27 (cp.async.bulk.tensor), 5.5 (tensors); CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import UnsupportedError
from drywell.base.record import record
from drywell.layout.swizzle import SWIZZLE_MODES
from drywell.machine.im2col import MAP_MODES, num_pixels, pixels, start_problem, store_problem
from drywell.machine.interleave import sliced
from drywell.machine.lanes import Bytes
from drywell.machine.queue import Spans
from drywell.machine.reduce import combine, reduces
from drywell.machine.smem import SharedMemory
from drywell.machine.tensor_map import MAP_ALIGN, MAP_BYTES, SWIZZLE_SPANS, TensorMap, decode, problems
from drywell.machine.windows import GLOBAL_BASE

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

SMEM_ALIGN = 128
_ROW_MODES = ("tile::gather4", "tile::scatter4")
CHUNK = 16
_PER_SLOT = 16
PADDED = {"b4x16_p64": 8, "b6x16_p32": 12}
"""Packed types that are padded in shared memory -> bytes of data in each slot of 16."""

_UNMODELLED = {
    "96B": "the 96B swizzle (sm_103a only)",
    "16B": "mode im2col of a tensor with interleave 16B",
    "32B": "mode im2col of a tensor with interleave 32B",
}

_NAN_FILL = np.array(0x7FF7, "<u2")
"""MEASURED (H200): what a fill with NaN puts into every two bytes, whatever the type."""


@record
class Box:
    """The box of a map: `counts` of its outer dimensions (dimension 1 first), `row_bytes` of a row in
    global memory, `pitch` in SMEM, `slot_bytes` of data in 16 bytes of it.
    """

    counts: tuple[int, ...]
    rows: int
    row_bytes: int
    pitch: int
    slot_bytes: int = CHUNK

    @property
    def num_bytes(self) -> int:
        """Return the bytes of the whole box, without padding: what complete_tx counts."""
        return self.rows * self.row_bytes

    @property
    def smem_row_bytes(self) -> int:
        """Return the bytes of a row in shared memory, with padding."""
        return self.row_bytes // self.slot_bytes * CHUNK

    @property
    def footprint(self) -> int:
        """Return the bytes of shared memory it lies in."""
        return self.rows * self.pitch


def unmodelled(tmap: TensorMap) -> str:
    """Return what of a map TMA cannot do yet, in words; '' when it can do it."""
    swizzle = tmap.swizzle if tmap.swizzle == "96B" else ""
    interleave = "" if tmap.mode == "tile" else tmap.interleave_layout
    return next((_UNMODELLED[v] for v in (swizzle, interleave) if v in _UNMODELLED), "")


@lru_cache(maxsize=256)
def box_of(tmap: TensorMap, mode: str = "tile", offsets: tuple[int, ...] = ()) -> Box:
    """Return the box of a map that is modelled, as an instruction of a mode takes it."""
    inner, *outer = tmap.counts
    if mode in _ROW_MODES:
        outer = [4]
    elif mode != "tile":
        outer = [num_pixels(tmap, mode, offsets[0] if mode.startswith("im2col::w") else 0)]
    row_bytes = inner * tmap.element.bits // 8
    slot_bytes = PADDED.get(tmap.elemtype, CHUNK)
    span = SWIZZLE_SPANS[tmap.swizzle] if tmap.interleave_layout == "none" else 0
    pitch = max(row_bytes * CHUNK // slot_bytes, span)
    return Box(tuple(outer), math.prod(outer), row_bytes, pitch, slot_bytes)


def box_bytes(tmap: TensorMap, mode: str = "tile", offsets: tuple[int, ...] = ()) -> int:
    """Return the bytes a copy of one box counts."""
    return box_of(sliced(tmap, ())[0], mode, offsets).num_bytes


def read_map(m: Warp, address: int, space: str = "") -> TensorMap:
    """Read and decode the tensor map at an address in parameter, constant or global memory.

    Faults: TMA-ALIGN (64 bytes), TMA-MAP (no map, or one that the driver would refuse), and those of the
    memory it should lie in. UnsupportedError names what is not modelled yet.
    """
    if address % MAP_ALIGN:
        m.fault("TMA-ALIGN", f"the tensor map at 0x{address:x} is not aligned to {MAP_ALIGN} bytes")
    tmap = decode(m.bytes_at(space, address, MAP_BYTES, proxy="tensormap").tobytes())
    what = unmodelled(tmap)
    if what:
        raise UnsupportedError(f"TMA with {what} is not modelled yet", m.place())
    wrong = _problems(tmap)
    if wrong:
        m.fault(
            "TMA-MAP",
            f"the tensor map at 0x{address:x} is none that can be encoded: {'; '.join(wrong)}",
            hint="fill every field with tensormap.replace",
        )
    return tmap


_problems = lru_cache(maxsize=256)(problems)


def check(
    m: Warp,
    tmap: TensorMap,
    coords: tuple[int, ...],
    memory: SharedMemory,
    offset: int,
    mode: str = "tile",
    offsets: tuple[int, ...] = (),
) -> Box:
    """Check the operands of a tensor copy and return its box.

    Faults: TMA-MAP (rank, or a map made for another mode), TMA-BOX (a start outside the box of an im2col
    map), TMA-ALIGN (128 bytes in shared memory, 16 in the innermost dimension), SHARED-WINDOW.
    """
    _check_mode(m, tmap, coords, mode)
    tmap, coords = sliced(tmap, coords)
    box = box_of(tmap, mode, offsets)
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
    if tmap.elemtype in PADDED and coords[0] % 128:
        m.fault(
            "TMA-ALIGN",
            f"the innermost coordinate {coords[0]} of {tmap.elemtype} elements is not a multiple of 128",
        )
    memory.view(offset, box.footprint)
    return box


def check_store(
    m: Warp,
    tmap: TensorMap,
    coords: tuple[int, ...],
    memory: SharedMemory,
    offset: int,
    mode: str = "tile",
    op: str = "",
) -> Box:
    """Check the operands of a tensor store, or of a reduction `op`, and return its box.

    Faults: those of `check`; TMA-BOX (MEASURED, H200: negative coordinates), TMA-MAP (an operation that the
    element type does not have).
    """
    box = check(m, tmap, coords, memory, offset, mode)
    if mode == "tile" and min(coords) < 0:
        m.fault(
            "TMA-BOX",
            f"the coordinates {coords} of a store are negative",
            hint="only loads may start before the tensor; shift the box, or store the part that is inside",
        )
    if op and not reduces(op, tmap.elemtype):
        m.fault("TMA-MAP", f"a reduction .{op} through a tensor map of {tmap.elemtype} elements")
    return box


def _check_mode(m: Warp, tmap: TensorMap, coords: tuple[int, ...], mode: str) -> None:
    """Check that a map is made for the mode and has its rank, and where an im2col walk starts."""
    if tmap.mode != MAP_MODES[mode]:
        m.fault(
            "TMA-MAP",
            f"an instruction with .{mode} uses a tensor map made for {tmap.mode}",
            hint=f'make the map with mode="{MAP_MODES[mode]}", or use .{tmap.mode}',
        )
    is_rows = mode in _ROW_MODES
    if tmap.rank != (2 if is_rows else len(coords)):
        what = "2 dimensions" if is_rows else f"{len(coords)} coordinates"
        m.fault("TMA-MAP", f"{what} for a tensor map of rank {tmap.rank}")
    if is_rows and tmap.box_dim[1] != 1:
        m.fault(
            "TMA-MAP",
            f".{mode} uses a tensor map whose box has {tmap.box_dim[1]} rows; it must have 1",
            hint="the four rows come from the coordinates",
        )
    if tmap.mode == "tile":
        return
    problem = start_problem(tmap, coords, mode)
    if not problem and mode == "im2col_no_offs":
        problem = store_problem(tmap, coords)
    if problem:
        m.fault("TMA-BOX", f"{problem} (an im2col map with corners {tmap.lower_corner}, {tmap.upper_corner})")


@record
class _Inside:
    """The part of a box inside the tensor: its first byte's address, its shape and strides (outermost
    dimension first, bytes last), and where it lies in the box. `nbytes` is how far it reaches in the tensor:
    what a store writes behind the edge need not belong to any array.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    where: tuple[slice, ...]
    nbytes: int

    def starts(self) -> NDArray[np.int64]:
        """Return the addresses of its rows of bytes."""
        starts = np.array(self.address, np.int64)
        for count, stride in zip(self.shape[:-1], self.strides[:-1], strict=True):
            starts = starts[..., None] + np.arange(count) * stride
        return starts.reshape(-1)


def written_end(tmap: TensorMap) -> int:
    """Return where a store ends in the innermost dimension.

    MEASURED (H200): it writes whole chunks of 16 bytes, also those that reach over the tensor's edge.
    """
    grain = 1 if tmap.element.is_packed else 8 * CHUNK // tmap.element.bits
    return -(-tmap.global_dim[0] // grain) * grain


def _inside(tmap: TensorMap, coords: tuple[int, ...], box: Box, end: int) -> _Inside | None:
    """Return the part of the box at `coords` that lies in the tensor, whose innermost dimension ends at
    `end`; None when there is none.
    """
    bits = tmap.element.bits
    first = max(0, coords[0])
    last = min(end, coords[0] + tmap.box_dim[0])
    if first >= last:
        return None
    address = tmap.global_address + first * bits // 8
    length = (last - first) * bits // 8
    skip = (first - coords[0]) * bits // 8
    shape, strides, where = [length], [1], [slice(skip, skip + length)]
    extent = (min(last, tmap.global_dim[0]) - first) * bits // 8
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
        m.record("global", part.starts(), part.shape[-1], is_write, "async")
    return np.ndarray(
        part.shape,
        np.uint8,
        gmem.buffer.data,
        part.address - GLOBAL_BASE,
        part.strides,
    )


def spans(tmap: TensorMap, coords: tuple[int, ...], mode: str, offsets: tuple[int, ...]) -> Spans:
    """Return where in global memory the rows of the box at `coords` lie that are in the tensor."""
    end = tmap.global_dim[0]
    if mode == "tile":
        part = _inside(tmap, coords, box_of(tmap, mode, offsets), end)
        return (part.starts(), part.shape[-1]) if part else (np.zeros(0, np.int64), 0)
    pieces = [piece for _, piece in _pieces(tmap, coords, mode, offsets, end)]
    return np.array([piece.address for piece in pieces], np.int64), pieces[0].shape[-1] if pieces else 0


def read_box(
    m: Warp,
    tmap: TensorMap,
    coords: tuple[int, ...],
    mode: str = "tile",
    offsets: tuple[int, ...] = (),
) -> Bytes:
    """Return the box at `coords` from global memory, uint8[rows, row_bytes]; outside the tensor it is
    filled.
    """
    box = box_of(tmap, mode, offsets)
    part = _inside(tmap, coords, box, tmap.global_dim[0]) if mode == "tile" else None
    full = (*box.counts[::-1], box.row_bytes)
    if part is not None and part.shape == full:
        return _converted(tmap, _tensor_view(m, part, False)).reshape(box.rows, box.row_bytes)
    out = np.zeros((box.rows, box.row_bytes), np.uint8)
    if tmap.fill_mode == "nan":
        out.view(_NAN_FILL.dtype)[:] = _NAN_FILL
    if part is not None:
        out.reshape(full)[part.where] = _converted(tmap, _tensor_view(m, part, False))
    elif mode != "tile":
        for row, piece in _pieces(tmap, coords, mode, offsets, tmap.global_dim[0]):
            out[row][piece.where] = _converted(tmap, _tensor_view(m, piece, False))
    return out


def _converted(tmap: TensorMap, data: NDArray[Any]) -> NDArray[Any]:
    """Return bytes of the tensor as they arrive in shared memory.

    MEASURED (H200): those of tf32 are rounded to 10 fraction bits, to nearest even, subnormals too, and a NaN
    becomes 0x7fffe000; those of f32.ftz stay as they are.
    """
    if not tmap.elemtype.startswith("tf32"):
        return data
    words = np.ascontiguousarray(data).view("<u4")
    rounded = words + np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1)) & np.uint32(0xFFFF_E000)
    is_nan = (words & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    rounded = np.where(is_nan, np.uint32(0x7FFF_E000), rounded)
    return np.ascontiguousarray(rounded).view(np.uint8).reshape(data.shape)


def write_box(
    m: Warp, tmap: TensorMap, coords: tuple[int, ...], data: Bytes, op: str = "", mode: str = "tile"
) -> None:
    """Write a box (uint8[rows, row_bytes]) to global memory, dropping what is outside; with `op` combine
    it there.

    `op` is add, min, max, inc, dec, and, or, xor, on the map's element type. Bytes between the tensor's edge
    and the next multiple of 16 are written too.
    """
    box = box_of(tmap, mode)
    shaped = data.reshape(*box.counts[::-1], box.row_bytes)
    ftz = tmap.elemtype.endswith(".ftz")
    for at, piece in _targets(tmap, coords, mode, written_end(tmap)):
        view, new = _tensor_view(m, piece, True), shaped[at][piece.where]
        view[...] = combine(op, tmap.elemtype, view, new, ftz=ftz) if op else new


def _targets(
    tmap: TensorMap, coords: tuple[int, ...], mode: str, end: int
) -> tuple[tuple[Any, _Inside], ...]:
    """Return the parts of a store that lie in the tensor, each with its index in the box (`...`: all)."""
    if mode != "tile":
        return tuple(_pieces(tmap, coords, mode, (), end))
    part = _inside(tmap, coords, box_of(tmap, mode), end)
    return () if part is None else ((..., part),)


def _pieces(
    tmap: TensorMap, coords: tuple[int, ...], mode: str, offsets: tuple[int, ...], end: int
) -> Iterator[tuple[int, _Inside]]:
    """Yield the rows of a gather or an im2col copy that lie in the tensor: number, and which part does."""
    first, last = max(0, coords[0]), min(end, coords[0] + tmap.box_dim[0])
    if first >= last:
        return
    bits = tmap.element.bits
    skip, length = (first - coords[0]) * bits // 8, (last - first) * bits // 8
    if mode in _ROW_MODES:
        places = np.array(coords[1:], np.int64)[:, None]
    else:
        places = pixels(tmap, coords, mode, offsets)
    inside = ((places >= 0) & (places < np.array(tmap.global_dim[1:], np.int64))).all(1)
    starts = tmap.global_address + first * bits // 8 + places @ np.array(tmap.global_stride, np.int64)
    extent = (min(last, tmap.global_dim[0]) - first) * bits // 8
    for row in np.flatnonzero(inside):
        yield int(row), _Inside(int(starts[row]), (length,), (1,), (slice(skip, skip + length),), extent)


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
    m: Warp, tmap: TensorMap, box: Box, memory: SharedMemory, offset: int, is_write: bool
) -> tuple[Any, Any, Any]:
    """Return the shared memory under a box as chunks, the index of the box's chunks in it, and their
    dtype.
    """
    mode = SWIZZLE_MODES[tmap.swizzle]
    dtype = np.dtype("<c16") if mode.atom_bytes >= CHUNK else np.dtype("<u8")
    phase = offset % mode.period_bytes
    index = _chunk_index(box.rows, box.smem_row_bytes, box.pitch, tmap.swizzle, phase, dtype.itemsize)
    view = memory.view(offset, box.footprint, is_write)
    if is_write:
        m.changed()
    if m.grid.observers:
        base = memory.base | offset
        where, size, home = np.array([base]), box.footprint, memory.cta.linear
        pad = CHUNK - box.slot_bytes
        if box.pitch != box.row_bytes:
            where = base + index.reshape(-1) * dtype.itemsize
            size = box.slot_bytes if tmap.elemtype in PADDED else dtype.itemsize
        m.record("shared", where, size, is_write, "async", home=home, layout=tmap.swizzle, pad=pad)
    return view.view(dtype), index, dtype


def put_box(
    m: Warp, tmap: TensorMap, memory: SharedMemory, offset: int, data: Bytes, box: Box | None = None
) -> None:
    """Write a box (uint8[rows, row_bytes]) into shared memory at a window offset, swizzled.

    Padding of packed types keeps what it held.
    """
    box = box or box_of(tmap)
    chunks, index, dtype = _chunks(m, tmap, box, memory, offset, True)
    if tmap.elemtype in PADDED:
        slots = chunks.view(np.uint8).reshape(-1, CHUNK)
        slots[index, : box.slot_bytes] = data.reshape(*index.shape, box.slot_bytes)
        return
    rows = np.ascontiguousarray(data).view(dtype)
    if tmap.swizzle == "none":
        chunks[:] = rows.reshape(-1)
    else:
        chunks[index] = rows


def get_box(m: Warp, tmap: TensorMap, memory: SharedMemory, offset: int, box: Box | None = None) -> Bytes:
    """Return a box (uint8[rows, row_bytes], a copy) from shared memory at a window offset, unswizzled.

    Six-bit elements (b6p2x16) lie one in a byte; the upper two bits are dropped. Fault TMA-MAP: 4-bit
    elements with padding are for loads only.
    """
    box = box or box_of(tmap)
    chunks, index, _ = _chunks(m, tmap, box, memory, offset, False)
    data = np.asarray(chunks[index]).view(np.uint8)
    if tmap.elemtype not in PADDED:
        return data
    if tmap.elemtype != "b6x16_p32":
        m.fault("TMA-MAP", f"a store with element type {tmap.elemtype}, which is for loads only")
    bits = np.unpackbits(data.reshape(-1, _PER_SLOT, 1), axis=2, bitorder="little")[:, :, :6]
    return np.packbits(bits.reshape(box.rows, -1), axis=1, bitorder="little")


def load(
    m: Warp,
    tmap: TensorMap,
    coords: tuple[int, ...],
    *targets: tuple[SharedMemory, int],
    mode: str = "tile",
    offsets: tuple[int, ...] = (),
) -> int:
    """Copy the box at `coords` into shared memory (into each of `targets`); return the bytes complete_tx
    counts.
    """
    for memory, offset in targets:
        check(m, tmap, coords, memory, offset, mode, offsets)
    tmap, coords = sliced(tmap, coords)
    box = box_of(tmap, mode, offsets)
    data = read_box(m, tmap, coords, mode, offsets)
    for memory, offset in targets:
        put_box(m, tmap, memory, offset, data, box)
    counts_slots = m.grid.options.padded_complete_tx == "slots"
    return box.rows * box.smem_row_bytes if counts_slots else box.num_bytes
