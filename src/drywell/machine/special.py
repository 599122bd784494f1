"""Special registers: each name's type and what a warp reads from it.

Source: PTX ISA, "Special Registers". `%clock` counts executed instructions, `%globaltimer` is that in
nanoseconds at the boost clock (ASSUMED: neither is hardware time); `%warpid` is the warp's index in its
CTA and `%smid` the modelled SM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drywell.machine.lanes import LANES
from drywell.machine.smem import RESERVED_BYTES

if TYPE_CHECKING:
    from drywell.machine.grid import Cta
    from drywell.machine.warp import Warp

Reader = Callable[["Warp"], Any]
_Home = TypeVar("_Home")

_LANE = np.arange(LANES, dtype=np.uint32)
_BIT = (np.uint64(1) << np.arange(LANES, dtype=np.uint64)).astype(np.uint32)


def _tid(axis: int) -> Reader:
    def read_tid(warp: Warp) -> Any:
        width, height, _ = warp.grid.block_dim
        linear = np.arange(LANES, dtype=np.int64) + warp.index * LANES
        return (linear % width, linear // width % height, linear // (width * height))[axis]

    return read_tid


def _axes(name: str, read_dims: Callable[[_Home], tuple[int, int, int]]) -> dict[str, Callable[[_Home], int]]:
    """Return the readers of `name`.x, .y and .z."""

    def reader(axis: int) -> Callable[[_Home], int]:
        return lambda home: read_dims(home)[axis]

    return {f"{name}.{letter}": reader(axis) for axis, letter in enumerate("xyz")}


def _cluster_counts(warp: Warp) -> tuple[int, int, int]:
    gx, gy, gz = warp.grid.grid_dim
    cx, cy, cz = warp.grid.cluster_dim
    return gx // cx, gy // cy, gz // cz


def _cluster_index(cta: Cta) -> tuple[int, int, int]:
    x, y, z = cta.index
    cx, cy, cz = cta.grid.cluster_dim
    return x // cx, y // cy, z // cz


def _index_in_cluster(cta: Cta) -> tuple[int, int, int]:
    x, y, z = cta.index
    cx, cy, cz = cta.grid.cluster_dim
    return x % cx, y % cy, z % cz


_OF_CTA: dict[str, Callable[[Cta], int]] = {
    **_axes("%ctaid", lambda cta: cta.index),
    **_axes("%clusterid", _cluster_index),
    **_axes("%cluster_ctaid", _index_in_cluster),
    "%cluster_ctarank": lambda cta: cta.rank,
    "%smid": lambda cta: cta.sm.index,
}
"""What is the same for the warps of one CTA, and not for those of another."""


def _in_its_cta(read: Callable[[Cta], int]) -> Reader:
    return lambda warp: read(warp.cta)


def _globaltimer(warp: Warp) -> int:
    return warp.grid.clock * 1000 // warp.grid.gpu.boost_clock_mhz


def _smem_bytes(warp: Warp) -> int:
    return warp.cta.smem.end - RESERVED_BYTES


def _allocated_smem_bytes(warp: Warp) -> int:
    """Return the CTA's bytes, rounded up to what is allocated at once. MEASURED (H200): multiples of 128."""
    grain = warp.grid.gpu.smem_granule_bytes
    return -(-_smem_bytes(warp) // grain) * grain


_RESERVED_END = 288
"""Where the system's own data at the beginning of shared memory ends. MEASURED (H200, driver 580)."""

_U32: dict[str, Reader] = {
    **{name: _in_its_cta(read) for name, read in _OF_CTA.items()},
    "%tid.x": _tid(0),
    "%tid.y": _tid(1),
    "%tid.z": _tid(2),
    **_axes("%ntid", lambda w: w.grid.block_dim),
    **_axes("%nctaid", lambda w: w.grid.grid_dim),
    **_axes("%nclusterid", _cluster_counts),
    **_axes("%cluster_nctaid", lambda w: w.grid.cluster_dim),
    "%cluster_nctarank": lambda w: len(w.cluster.ctas),
    "%laneid": lambda w: _LANE,
    "%warpid": lambda w: w.index,
    "%nwarpid": lambda w: w.grid.gpu.max_warps_per_sm,
    "%nsmid": lambda w: len(w.grid.sms),
    "%lanemask_eq": lambda w: _BIT,
    "%lanemask_lt": lambda w: _BIT - np.uint32(1),
    "%lanemask_le": lambda w: (_BIT - np.uint32(1)) | _BIT,
    "%lanemask_ge": lambda w: ~(_BIT - np.uint32(1)),
    "%lanemask_gt": lambda w: ~((_BIT - np.uint32(1)) | _BIT),
    "%clock": lambda w: w.grid.clock & 0xFFFF_FFFF,
    "%clock_hi": lambda w: w.grid.clock >> 32,
    "%globaltimer_lo": lambda w: _globaltimer(w) & 0xFFFF_FFFF,
    "%globaltimer_hi": lambda w: _globaltimer(w) >> 32,
    "%dynamic_smem_size": lambda w: w.grid.kernel.dynamic_smem_bytes,
    "%total_smem_size": _allocated_smem_bytes,
    "%aggr_smem_size": lambda w: _smem_bytes(w) + RESERVED_BYTES,
    "%reserved_smem_offset_begin": lambda w: 0,
    "%reserved_smem_offset_end": lambda w: _RESERVED_END,
    "%reserved_smem_offset_cap": lambda w: RESERVED_BYTES,
    "%reserved_smem_offset_0": lambda w: 0,
    "%reserved_smem_offset_1": lambda w: 0,
    **{f"%envreg{i}": lambda w: 0 for i in range(32)},
    **{f"%pm{i}": lambda w: 0 for i in range(8)},
}

_U64: dict[str, Reader] = {
    "%clock64": lambda w: w.grid.clock,
    "%globaltimer": _globaltimer,
    "%gridid": lambda w: w.grid.number,
    "%current_graph_exec": lambda w: 0,
    **{f"%pm{i}_64": lambda w: 0 for i in range(8)},
}

_PRED: dict[str, Reader] = {"%is_explicit_cluster": lambda w: w.grid.is_explicit_cluster}

_VECTORS = (
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
)

_TIME = ("clock", "globaltimer", "pm")
_OF_WARP = ("%tid", "%warpid")

SPECIALS: dict[str, tuple[str, Reader]] = {
    **{name: ("u32", f) for name, f in _U32.items()},
    **{f"{name}.w": ("u32", lambda w: 0) for name in _VECTORS},
    **{name: ("u64", f) for name, f in _U64.items()},
    **{name: ("pred", f) for name, f in _PRED.items()},
}
"""Every scalar special register: name -> (PTX type, reader of a warp)."""

_ARRAY_TYPES: dict[str, Any] = {"u32": np.uint32, "u64": np.uint64, "pred": np.bool_}


def special_type(name: str) -> str | None:
    """Return the PTX type of a special register (`v4.u32` for a whole vector); None when there is no such
    register.

    >>> special_type("%tid.x"), special_type("%tid"), special_type("%tidx")
    ('u32', 'v4.u32', None)
    """
    if name in _VECTORS:
        return "v4.u32"
    entry = SPECIALS.get(name)
    return None if entry is None else entry[0]


def is_of_cta(name: str) -> bool:
    """Say whether a special register is the same for the warps of one CTA, and not for those of another."""
    return name in _OF_CTA


def value_in(cta: Cta, name: str) -> int:
    """Return what a scalar special register is that is the same for the warps of a CTA."""
    return _OF_CTA[name](cta)


def read(warp: Warp, name: str) -> Any:
    """Return the value in each lane (uint32, uint64 or bool [32]); a tuple of four arrays for `%tid` and
    its like.

    KeyError for a name that is no special register. All but clocks and counters are read once per CTA, warp
    of that index, or grid: of whatever they tell.
    """
    home: dict[Any, Any] = warp.cta.specials if is_of_cta(name) else warp.grid.specials
    key = (name, warp.index) if name.startswith(_OF_WARP) else name
    kept = home.get(key)
    if kept is not None:
        return kept
    if name in _VECTORS:
        return tuple(read(warp, f"{name}.{letter}") for letter in "xyzw")
    type_name, reader = SPECIALS[name]
    value = np.empty(LANES, _ARRAY_TYPES[type_name])
    value[:] = reader(warp)
    if not name[1:].startswith(_TIME):
        value.setflags(write=False)
        home[key] = value
    return value
