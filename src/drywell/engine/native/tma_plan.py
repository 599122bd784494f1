"""What native code must know of a tensor map: a plan of words.

It is made when the map is first used and compared with the map's bytes at each use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drywell.base.errors import KernelFault
from drywell.engine.native.ir import I64, Function, Value
from drywell.engine.native.plans import Words
from drywell.layout.swizzle import SWIZZLE_MODES
from drywell.machine import tma
from drywell.machine.tensor_map import MAP_ALIGN, TensorMap, decode, problems
from drywell.machine.windows import from_generic, space_of

if TYPE_CHECKING:
    from drywell.machine.grid import Grid

MAX_RANK = 5
_MAP_WORDS = 8

_FIELDS = (
    "host",
    *(f"map{k}" for k in range(_MAP_WORDS)),
    "is_refused",
    "rank",
    "bits",
    "box",
    "end",
    "address",
    "row_bytes",
    "pitch",
    "footprint",
    "num_bytes",
    "fill",
    "is_tf32",
    "shift0",
    "bits0",
    "shift1",
    "bits1",
    *(f"{name}{k}" for name in ("dim", "stride", "count", "step") for k in range(MAX_RANK)),
    "is_level",
)
PLAN = {name: k for k, name in enumerate(_FIELDS)}
"""The words of a plan: where the map's bytes lie and what they were, whether native code cannot use it; then
the map. `box` elements of `bits` are a row; `end` is where a store ends in the innermost dimension; the
swizzle flips the bits `bits0` of an address by those `shift0` above, then `bits1`; `is_level` says that it
flips the same bits all along a row.
"""


def plan_of(grid: Grid, address: int) -> Words | None:
    """Return the plan of the map at a generic address; None when none can be read there."""
    plan = np.zeros(len(PLAN), np.uint64)
    raw = map_bytes(grid, address)
    if raw is None:
        return None
    plan[PLAN["host"]] = raw.ctypes.data
    plan[PLAN["map0"] : PLAN["map0"] + _MAP_WORDS] = raw[: 8 * _MAP_WORDS].view(np.uint64)
    try:
        tmap = decode(raw.tobytes())
    except KernelFault:
        return None
    is_plain = _is_plain(tmap)
    plan[PLAN["is_refused"]] = not is_plain
    for name, value in (_walk(tmap) if is_plain else {}).items():
        plan[PLAN[name]] = value
    return plan


def map_bytes(grid: Grid, address: int) -> Any:
    """Return the bytes of a map where they lie, None when it is not in memory that native code looks at."""
    space, inner = space_of(address), from_generic(space_of(address), address)
    if address % MAP_ALIGN:
        return None
    if space == "param" and inner + 128 <= grid.params.nbytes:
        return grid.params.view(inner, 128)
    if space == "global" and grid.gmem.holds(address, 128):
        return grid.gmem.view(address, 128)
    return None


def _is_plain(tmap: TensorMap) -> bool:
    """Say whether native code can walk a map."""
    is_walked = tmap.mode == "tile" and tmap.interleave_layout == "none" and tmap.elemtype not in tma.PADDED
    if not is_walked or tma.unmodelled(tmap) or problems(tmap):
        return False
    return SWIZZLE_MODES[tmap.swizzle].atom_bytes >= tma.CHUNK


def _walk(tmap: TensorMap) -> dict[str, int]:
    """Return what a plan says of a map."""
    box = tma.box_of(tmap)
    words = {
        "rank": tmap.rank,
        "bits": tmap.element.bits,
        "box": tmap.box_dim[0],
        "end": tma.written_end(tmap),
        "address": tmap.global_address,
        "row_bytes": box.row_bytes,
        "pitch": box.pitch,
        "footprint": box.footprint,
        "num_bytes": box.num_bytes,
        "fill": 0x7FF7_7FF7_7FF7_7FF7 if tmap.fill_mode == "nan" else 0,
        "is_tf32": int(tmap.elemtype.startswith("tf32")),
    }
    for k, term in enumerate(SWIZZLE_MODES[tmap.swizzle].terms):
        words |= {f"shift{k}": term.shift, f"bits{k}": ((1 << term.num_bits) - 1) << term.base}
    words["is_level"] = int(_is_level(tmap, box.row_bytes, box.pitch))
    for k in range(MAX_RANK):
        is_there = k < tmap.rank
        words[f"dim{k}"] = tmap.global_dim[k] if is_there else 1
        words[f"stride{k}"] = tmap.global_stride[k - 1] if is_there and k else 0
        words[f"count{k}"] = box.counts[k - 1] if is_there and k else 1
        words[f"step{k}"] = tmap.element_stride[k] if is_there and k else 1
    return words


def _is_level(tmap: TensorMap, row_bytes: int, pitch: int) -> bool:
    """Say whether the address bits by which the swizzle flips others are the same all along each row."""
    terms = SWIZZLE_MODES[tmap.swizzle].terms
    sources = [((1 << term.num_bits) - 1) << term.base + term.shift for term in terms]
    lowest = min((bits & -bits for bits in sources), default=0)
    return not sources or (row_bytes <= pitch and lowest % pitch == 0)


def field(f: Function, plan: Value, name: str) -> Value:
    """Read a word of a plan."""
    return f.load(I64, plan, PLAN[name])
