"""Tensor maps: what a TMA instruction is told about a tensor, and the 128 bytes that say it.

MEASURED (H200, driver 13.0, equal for hundreds of maps of every kind that sm_90 has, and after every
tensormap.replace): the little-endian words q0..q7 below; q8 and q9 are the driver's own. A decoder reads
q0..q7 only and ignores q1[21], which other encoders set or clear at will; q1[3:0] is 1 in a map for im2col
and 0 (or 2, from CuTe's encoder) in a tiled one. An im2col map has channels - 1 where the innermost box is,
the lower corner in the first and the upper in the second 16 bits of q7 (3 dimensions: W; 4: a byte each of W
and H; 5: five bits each of W, H and D), and pixels - 1 from bit 32 of q7.
ASSUMED: a map for im2col::w is laid out as one of 3 dimensions and has 3 in q1[3:0].
ASSUMED: what sm_90 cannot express (128B swizzles with wider atoms, the 96B swizzle, packed element types)
has no known place; here element-type codes 13 to 15 go into the type field, the atomicity into q1[23:22]
and 96B into q1[24], bits that drivers leave 0. The bytes alone thus carry everything, so maps may be
copied and edited.
Source: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, tensormap.replace.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any

from drywell.base.errors import KernelFault, LaunchError
from drywell.base.record import record
from drywell.machine.im2col import CORNER_BITS, MODES, box_edges, corner_problems

MAP_BYTES = 128
MAP_ALIGN = 64
MAX_RANK = 5
MAX_PIXELS = 1024
MAX_BOX_BYTES = 228 << 10
"""MEASURED (H200, driver 13.0): what a box may have, each dimension divided by its element stride and rounded
down, the innermost too."""

_READ_BYTES = 64


@record
class ElementType:
    """An element type: `code` as tensormap.replace numbers it, `driver_code` as CUtensorMapDataType does,
    `bits` in memory.
    """

    name: str
    code: int
    driver_code: int
    bits: int
    is_float: bool = False

    @property
    def is_packed(self) -> bool:
        """Say whether it is one of the 4- and 6-bit types."""
        return self.code >= 13


ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        ElementType("u8", 0, 0, 8),
        ElementType("u16", 1, 1, 16),
        ElementType("u32", 2, 2, 32),
        ElementType("s32", 3, 3, 32),
        ElementType("u64", 4, 4, 64),
        ElementType("s64", 5, 5, 64),
        ElementType("f16", 6, 6, 16, True),
        ElementType("f32", 7, 7, 32, True),
        ElementType("f32.ftz", 8, 10, 32, True),
        ElementType("f64", 9, 8, 64, True),
        ElementType("bf16", 10, 9, 16, True),
        ElementType("tf32", 11, 11, 32, True),
        ElementType("tf32.ftz", 12, 12, 32, True),
        ElementType("b4x16", 13, 13, 4),
        ElementType("b4x16_p64", 14, 14, 4),
        ElementType("b6x16_p32", 15, 15, 6),
    )
}
BY_CODE: dict[int, ElementType] = {t.code: t for t in ELEMENT_TYPES.values()}
BY_DRIVER_CODE: dict[int, ElementType] = {t.driver_code: t for t in ELEMENT_TYPES.values()}
_TF32 = {7: 11, 8: 12}

INTERLEAVES = ("none", "16B", "32B")
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
FILL_MODES = ("zero", "nan")
_MODE_CODES = {"tile": 0, "im2col": 1, "im2col::w": 3}
_MODES_BY_CODE = {1: "im2col", 3: "im2col::w"}

_SWIZZLES: dict[str, tuple[int, int]] = {
    "none": (0, 0),
    "32B": (1, 0),
    "64B": (2, 0),
    "128B": (3, 0),
    "96B": (4, 0),
    "128B_ATOM_32B": (3, 1),
    "128B_ATOM_32B_FLIP_8B": (3, 2),
    "128B_ATOM_64B": (3, 3),
}
"""Swizzle name -> (swizzle_mode, swizzle_atomicity) as tensormap.replace numbers them."""

SWIZZLE_SPANS = {name: {0: 0, 1: 32, 2: 64, 3: 128, 4: 96}[mode] for name, (mode, _) in _SWIZZLES.items()}
_SMEM_ALIGN = {0: 16, 32: 256, 64: 512, 128: 1024, 96: 256}


@record
class TensorMap:
    """A tensor map. Dimensions go innermost first; `global_stride` is in bytes, for dimensions 1 and up.

    `elemtype` is a key of ELEMENT_TYPES, `swizzle` one of `layout.swizzle.SWIZZLE_MODES`, `fill_mode`
    zero or nan. With `mode` im2col or im2col::w, `box_dim` is (channels per pixel, pixels per column) and
    the corners are given, W first.

    >>> tmap = TensorMap(0x1000, "f16", (128, 128), (256,), (64, 128), (1, 1), swizzle="128B")
    >>> hex(struct.unpack_from("<2Q", encode(tmap))[1])
    '0x1000006310'
    """

    global_address: int
    elemtype: str
    global_dim: tuple[int, ...]
    global_stride: tuple[int, ...]
    box_dim: tuple[int, ...]
    element_stride: tuple[int, ...]
    interleave_layout: str = "none"
    swizzle: str = "none"
    fill_mode: str = "zero"
    l2_promotion: str = "none"
    mode: str = "tile"
    lower_corner: tuple[int, ...] = ()
    upper_corner: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.global_dim)

    @property
    def element(self) -> ElementType:
        """Return the element type."""
        return ELEMENT_TYPES[self.elemtype]

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the elements that a copy moves per dimension: ceil(box / element stride), all of the
        innermost.

        MEASURED (H200): box 32 with stride 3 moves 11; the innermost stride counts only when interleaved.
        """
        inner, *outer = self.box_dim
        if self.mode != "tile":
            return self.box_dim
        rest = zip(outer, self.element_stride[1:], strict=True)
        return (inner, *(-(-box // stride) for box, stride in rest))


def problems(tmap: TensorMap) -> tuple[str, ...]:
    """Return what cuTensorMapEncodeTiled would refuse, one sentence each; () when it would take the map."""
    if not 1 <= tmap.rank <= MAX_RANK:
        return (f"the rank is {tmap.rank}; it must be 1 to {MAX_RANK}",)
    if tmap.elemtype not in ELEMENT_TYPES:
        return (f"there is no element type '{tmap.elemtype}'; use one of {', '.join(ELEMENT_TYPES)}",)
    for field, table in (
        ("interleave_layout", INTERLEAVES),
        ("swizzle", tuple(_SWIZZLES)),
        ("fill_mode", FILL_MODES),
        ("l2_promotion", L2_PROMOTIONS),
        ("mode", MODES),
    ):
        if getattr(tmap, field) not in table:
            return (f"there is no {field} '{getattr(tmap, field)}'; use one of {', '.join(table)}",)
    for field, count in (
        ("global_stride", tmap.rank - 1),
        ("box_dim", tmap.rank if tmap.mode == "tile" else 2),
        ("element_stride", tmap.rank),
    ):
        if len(getattr(tmap, field)) != count:
            return (
                f"{field} has {len(getattr(tmap, field))} entries; a tensor of rank {tmap.rank} needs"
                f" {count}",
            )
    corners = corner_problems(tmap.mode, tmap.rank, tmap.lower_corner, tmap.upper_corner)
    parts = _address_problems(tmap), _dim_problems(tmap), _box_problems(tmap), _mode_problems(tmap)
    return (*corners, *(problem for part in parts for problem in part))


def _grain(tmap: TensorMap) -> int:
    """Return what addresses and strides must be multiples of."""
    return 32 if tmap.interleave_layout == "32B" or tmap.elemtype in ("b4x16_p64", "b6x16_p32") else 16


def _address_problems(tmap: TensorMap) -> list[str]:
    grain = _grain(tmap)
    out = []
    if tmap.global_address % grain:
        out.append(f"global_address 0x{tmap.global_address:x} is not a multiple of {grain}")
    for i, stride in enumerate(tmap.global_stride):
        if stride % grain:
            out.append(f"global_stride[{i}] is {stride} bytes; it must be a multiple of {grain}")
        if not 0 <= stride < 1 << 40:
            out.append(f"global_stride[{i}] is {stride} bytes; it must be below 2^40")
    return out


def _dim_problems(tmap: TensorMap) -> list[str]:
    out = [
        f"global_dim[{i}] is {dim}; it must be 1 to 2^32"
        for i, dim in enumerate(tmap.global_dim)
        if not 1 <= dim <= 1 << 32
    ]
    grain = {"b4x16": 2, "b4x16_p64": 128, "b6x16_p32": 128}.get(tmap.elemtype, 1)
    if tmap.global_dim[0] % grain:
        out.append(
            f"global_dim[0] is {tmap.global_dim[0]}; with {tmap.elemtype} it must be a multiple of {grain}"
        )
    return out


def _box_problems(tmap: TensorMap) -> list[str]:
    most = (256, MAX_PIXELS) if tmap.mode != "tile" else (256,) * MAX_RANK
    out = [
        f"box_dim[{i}] is {box}; it must be 1 to {most[i]}"
        for i, box in enumerate(tmap.box_dim)
        if not 1 <= box <= most[i]
    ]
    out += [
        f"element_stride[{i}] is {stride}; it must be 1 to 8"
        for i, stride in enumerate(tmap.element_stride)
        if not 1 <= stride <= 8
    ]
    inner_bits = tmap.box_dim[0] * tmap.element.bits
    if tmap.elemtype in ("b4x16_p64", "b6x16_p32"):
        if tmap.box_dim[0] != 128:
            out.append(f"box_dim[0] is {tmap.box_dim[0]}; with {tmap.elemtype} it must be 128")
    elif inner_bits % 128:
        out.append(
            f"the innermost box is {tmap.box_dim[0]} x {tmap.element.bits} bits = {inner_bits / 8:g} bytes;"
            " it must be a multiple of 16 bytes"
        )
    nbytes = _floor_bytes(tmap) if min(tmap.element_stride) > 0 else 0
    if nbytes > MAX_BOX_BYTES:
        out.append(f"the box has {nbytes} bytes; {MAX_BOX_BYTES} are the most")
    span = SWIZZLE_SPANS[tmap.swizzle]
    if span and tmap.interleave_layout == "none" and not tmap.element.is_packed and inner_bits > span * 8:
        out.append(
            f"the innermost box is {inner_bits // 8} bytes, more than the {span} of swizzle {tmap.swizzle}"
        )
    return out


def _floor_bytes(tmap: TensorMap) -> int:
    """Return the bytes of a box as the driver counts them: strides round down here, up in a copy."""
    steps = tmap.element_stride if tmap.mode == "tile" else (1, 1)
    counts = (box // step for box, step in zip(tmap.box_dim, steps, strict=True))
    return math.prod(counts) * tmap.element.bits // 8


def _mode_problems(tmap: TensorMap) -> list[str]:
    out = []
    if tmap.interleave_layout != "none" and tmap.rank < 3:
        out.append(f"interleave {tmap.interleave_layout} needs rank 3 or more, not {tmap.rank}")
    if tmap.mode == "im2col":
        out += [
            f"the box is empty along {name}: with these corners it goes from {low} to {high}"
            for name, (low, high) in zip("WHD", box_edges(tmap), strict=False)
            if low > high
        ]
    if tmap.mode == "im2col::w" and tmap.swizzle in ("none", "128B_ATOM_32B_FLIP_8B"):
        out.append(f"mode im2col::w needs a swizzle other than 128B_ATOM_32B_FLIP_8B, not {tmap.swizzle}")
    if tmap.fill_mode == "nan" and not tmap.element.is_float:
        out.append(f"fill mode nan needs a floating-point type, not {tmap.elemtype}")
    allowed = {
        "b6x16_p32": ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"),
        "b4x16_p64": ("none", "128B", "128B_ATOM_32B"),
    }.get(tmap.elemtype)
    if allowed and tmap.swizzle not in allowed:
        out.append(f"{tmap.elemtype} goes with swizzle {', '.join(allowed)}, not {tmap.swizzle}")
    return out


def encode(tmap: TensorMap) -> bytes:
    """Return the 128 bytes; LaunchError lists everything the driver would refuse."""
    found = problems(tmap)
    if found:
        raise LaunchError("tensor map: " + "; ".join(found))
    mode, atomicity = _SWIZZLES[tmap.swizzle]
    raw = bytearray(MAP_BYTES)
    replace(raw, "global_address", tmap.global_address)
    replace(raw, "rank", tmap.rank - 1)
    replace(raw, "elemtype", tmap.element.code)
    replace(raw, "interleave_layout", INTERLEAVES.index(tmap.interleave_layout))
    replace(raw, "swizzle_mode", mode)
    replace(raw, "swizzle_atomicity", atomicity)
    replace(raw, "fill_mode", FILL_MODES.index(tmap.fill_mode))
    _set(raw, 1, 17, 2, L2_PROMOTIONS.index(tmap.l2_promotion))
    _set(raw, 1, 0, 4, _MODE_CODES[tmap.mode])
    if tmap.mode == "tile":
        for i, box in enumerate(tmap.box_dim):
            replace(raw, "box_dim", box, i)
    else:
        _set_columns(raw, tmap)
    for i in range(tmap.rank):
        replace(raw, "global_dim", tmap.global_dim[i], i)
        replace(raw, "element_stride", tmap.element_stride[i], i)
    for i, stride in enumerate(tmap.global_stride):
        replace(raw, "global_stride", stride, i)
    _set(raw, 8, 0, 64, _floor_bytes(tmap))
    _set(raw, 9, 0, 64, _SMEM_ALIGN[SWIZZLE_SPANS[tmap.swizzle]])
    return bytes(raw)


def _set_columns(raw: bytearray, tmap: TensorMap) -> None:
    """Set what an im2col map has in place of a box: channels, pixels and the two corners."""
    channels, pixels = tmap.box_dim
    _set(raw, 6, 56, 8, channels - 1)
    _set(raw, 7, 32, 10, pixels - 1)
    for half, corner in ((0, tmap.lower_corner), (16, tmap.upper_corner)):
        width = CORNER_BITS[len(corner)]
        for i, value in enumerate(corner):
            _set(raw, 7, half + i * width, width, value)


def _columns(mode: str, rank: int, q6: int, q7: int) -> dict[str, Any]:
    """Return the box and the corners of an im2col map."""
    count = rank - 2 if mode == "im2col" else 1
    width = CORNER_BITS[count]

    def corner(half: int) -> tuple[int, ...]:
        fields = (q7 >> half + i * width & (1 << width) - 1 for i in range(count))
        return tuple((f ^ 1 << width - 1) - (1 << width - 1) for f in fields)

    box = ((q6 >> 56) + 1, (q7 >> 32 & MAX_PIXELS - 1) + 1)
    return {"box_dim": box, "lower_corner": corner(0), "upper_corner": corner(16)}


def decode(raw: bytes | bytearray | memoryview) -> TensorMap:
    """Return the map that the first 64 of 128 bytes say; KernelFault TMA-MAP when they say nothing that
    can be.
    """
    return _decode(bytes(raw[:_READ_BYTES]))


@lru_cache(maxsize=256)
def _decode(raw: bytes) -> TensorMap:
    q = struct.unpack("<8Q", raw)
    rank = (q[1] >> 4 & 7) + 1
    code = q[1] >> 7 & 15
    code = _TF32.get(code, -1) if q[1] >> 16 & 1 else code
    width = 4 if q[1] >> 24 & 1 else q[1] >> 13 & 3
    swizzles = {pair: name for name, pair in _SWIZZLES.items()}
    swizzle = swizzles.get((width, q[1] >> 22 & 3))
    interleave = q[1] >> 11 & 3
    mode = _MODES_BY_CODE.get(q[1] & 15, "tile")
    no_such_rank = rank > MAX_RANK or (mode != "tile" and rank < 3)
    if no_such_rank or code not in BY_CODE or swizzle is None or interleave >= len(INTERLEAVES):
        raise KernelFault(
            "TMA-MAP",
            f"these 128 bytes are no tensor map: {mode}, rank {rank}, element type code {code},"
            f" swizzle mode {width} with atomicity {q[1] >> 22 & 3}, interleave {interleave}"
            f" (q1 = 0x{q[1]:016x})",
            hint="encode it with drywell.tensor_map, or fill every field with tensormap.replace",
        )
    tile = {"box_dim": tuple(b + 1 for b in (q[6] >> 56, *(q[7] >> 8 * i & 255 for i in range(4)))[:rank])}
    low = (q[1] >> 32, q[2] & _M32, q[2] >> 32, q[3] & _M32)
    return TensorMap(
        global_address=q[0],
        elemtype=BY_CODE[code].name,
        global_dim=(
            *(d + 1 for d in (q[4] & _M32, q[4] >> 32, q[5] & _M32, q[5] >> 32, q[6] & _M32)[:rank]),
        ),
        global_stride=tuple((low[i] | (q[3] >> 32 + 4 * i & 15) << 32) << 4 for i in range(rank - 1)),
        element_stride=tuple((q[6] >> 32 + 3 * i & 7) + 1 for i in range(rank)),
        interleave_layout=INTERLEAVES[interleave],
        swizzle=swizzle,
        fill_mode=FILL_MODES[q[1] >> 15 & 1],
        l2_promotion=L2_PROMOTIONS[q[1] >> 17 & 3],
        mode=mode,
        **(tile if mode == "tile" else _columns(mode, rank, q[6], q[7])),
    )


_M32 = 0xFFFF_FFFF

_DIMS = ((4, 0), (4, 32), (5, 0), (5, 32), (6, 0))
_BOXES = ((6, 56), (7, 0), (7, 8), (7, 16), (7, 24))
_STRIDES = ((1, 32), (2, 0), (2, 32), (3, 0))
_ORDINALS = {"global_dim": 5, "box_dim": 5, "element_stride": 5, "global_stride": 4}


def replace(raw: bytearray | memoryview, field: str, value: int, ordinal: int = 0) -> None:
    """Set one field of the 128 bytes, as `tensormap.replace.tile.field [a]{, ordinal}, value` does.

    Dimensions, boxes and element strides are given as they are (stored less 1), strides in bytes, the
    rank less 1, the rest by tensormap.replace's codes. ValueError for a field or an ordinal that a map
    has not.
    """
    if not 0 <= ordinal < _ORDINALS.get(field, 1):
        raise ValueError(f"{field} has no ordinal {ordinal}")
    if field in _SIMPLE:
        word, shift, width = _SIMPLE[field]
        _set(raw, word, shift, width, value)
    elif field == "elemtype":
        is_tf32 = value in _TF32.values()
        _set(raw, 1, 7, 4, value - 4 if is_tf32 else value)
        _set(raw, 1, 16, 1, int(is_tf32))
    elif field == "swizzle_mode":
        _set(raw, 1, 13, 2, value & 3)
        _set(raw, 1, 24, 1, value >> 2)
    elif field == "global_dim":
        _set(raw, *_DIMS[ordinal], 32, value - 1)
    elif field == "box_dim":
        _set(raw, *_BOXES[ordinal], 8, value - 1)
    elif field == "element_stride":
        _set(raw, 6, 32 + 3 * ordinal, 3, value - 1)
    elif field == "global_stride":
        _set(raw, *_STRIDES[ordinal], 32, value >> 4)
        _set(raw, 3, 32 + 4 * ordinal, 4, value >> 36)
    else:
        raise ValueError(f"a tensor map has no field {field}")


_SIMPLE = {
    "global_address": (0, 0, 64),
    "rank": (1, 4, 3),
    "interleave_layout": (1, 11, 2),
    "fill_mode": (1, 15, 1),
    "swizzle_atomicity": (1, 22, 2),
}


def _set(raw: bytearray | memoryview, word: int, shift: int, width: int, value: int) -> None:
    """Set bits shift .. shift + width - 1 of a 64-bit word to the low bits of `value`."""
    (old,) = struct.unpack_from("<Q", raw, 8 * word)
    mask = ((1 << width) - 1) << shift
    struct.pack_into("<Q", raw, 8 * word, old & ~mask | value << shift & mask)
