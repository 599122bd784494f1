"""cp.async.bulk.tensor, its reduction and its prefetch: boxes of a tensor map moved by the TMA unit.

Each lane that executes one issues an operation of its own. A load performs at one moment (copy, then
complete_tx), a
store at two (read shared memory, then write global memory). Source: PTX ISA, "Tensor copy"; the walk, the
swizzles
and the fills are `machine.tma`'s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.operand import GLOBAL, SHARED, policy
from drywell.isa.rules import when
from drywell.machine import tma

_REF = "data-movement-and-conversion-instructions-cp-async-bulk-tensor"
_DIMS = "1d 2d 3d 4d 5d"
_LOAD_MODES = "tile tile::gather4 im2col im2col::w im2col::w::128"


def _rank(i: Mods) -> int:
    return int(str(i["dim"])[0])


def _coords(i: Mods) -> Op:
    """Return the coordinates: one per dimension, five (a column and four rows) for gather4 and scatter4."""
    is_rows = i["mode"] in ("tile::gather4", "tile::scatter4")
    return Op("s32", count=5 if is_rows else _rank(i))


def _offsets(i: Mods) -> Op | None:
    """Return the im2col operand: an offset per spatial dimension, or halo and offset for the w modes."""
    if i["mode"] is None or not str(i["mode"]).startswith("im2col"):
        return None
    return Op("u16", count=_rank(i) - 2 if i["mode"] == "im2col" else 2)


def _mask(i: Mods) -> Op | None:
    return Op("u16") if i["multicast"] else None


_ADDRESS: dict[str, TypeRule] = {"map": GLOBAL, "coords": _coords, "policy": policy}
_SHAPES = (
    when("mode", "tile::gather4 tile::scatter4", dim="2d"),
    when("mode", "im2col im2col::w im2col::w::128 im2col_no_offs", dim="3d 4d 5d"),
)


def _unsupported(i: Mods) -> str | None:
    mode = str(i["mode"] or "tile")
    if mode != "tile":
        return f"TMA mode .{mode} is not executed yet; .tile is"
    if i.get("multicast"):
        return "TMA multicast to several CTAs is not executed yet: clusters run with one CTA"
    if i.get("cta_group") == "cta_group::2":
        return "TMA with .cta_group::2 is not executed yet: clusters run with one CTA"
    return None


Where = tuple[int, tuple[int, ...]]


def _where(address: tuple[Any, Any], lane: int) -> Where:
    """Return the map's address and the signed coordinates that a lane gives."""
    pointer, coords = address
    values = coords if isinstance(coords, tuple) else (coords,)
    return int(pointer[lane]), tuple(int(np.asarray(c)[lane].astype(np.int32)) for c in values)


@instruction(
    "cp.async.bulk.tensor.dim.dst.src{.mode}.completion{.multicast}{.cta_group}{.hint}"
    " [a], [map, {coords}], [mbar], offsets, mask, policy;",
    dim=_DIMS,
    dst="shared::cluster shared::cta",
    src="global",
    mode=_LOAD_MODES,
    completion="mbarrier::complete_tx::bytes",
    multicast="multicast::cluster",
    cta_group="cta_group::1 cta_group::2",
    hint="L2::cache_hint",
    types={"a": SHARED, "mbar": SHARED, "offsets": _offsets, "mask": _mask, **_ADDRESS},
    checks=[*_SHAPES, when("multicast", "*", dst="shared::cluster")],
    order_free=True,
    unit="async",
    lane=False,
    proxy="async",
    completes_by="mbarrier",
    arrives=True,
    since=(8, 0),
    unsupported=_unsupported,
    ref=_REF,
)
def cp_async_bulk_tensor_load(
    m: Any, i: Mods, a: Any, tensor: Any, mbar: Any, offsets: Any, mask: Any, policy: Any
) -> None:
    """Copy a box of a tensor into shared memory and complete its bytes, those outside the tensor included.

    Undefined: misaligned operands (here a fault), touching the destination before completion is seen.
    """
    is_cluster = i["dst"] == "shared::cluster"
    for lane in m.lanes():
        _load(m, int(a[lane]), _where(tensor, lane), int(mbar[lane]), is_cluster)


def _load(m: Any, target: int, where: Where, barrier: int, is_cluster: bool) -> None:
    pointer, coords = where

    def perform() -> None:
        tmap = tma.read_map(m, pointer)
        moved = tma.load(m, tmap, coords, m.shared_target(target, is_cluster))
        m.mbarrier(barrier, is_cluster).complete_tx(moved)

    m.start("tma", f"load of the box at {coords} into shared 0x{target:08x}", perform)


def _store(m: Any, source: int, where: Where, op: str) -> Any:
    """Issue a store (or, with `op`, a reduction) of one box and return the operation."""
    pointer, coords = where
    held: list[Any] = []

    def read() -> None:
        tmap = tma.read_map(m, pointer)
        memory, offset = m.shared_target(source)
        tma.check(m, tmap, coords, memory, offset)
        held.extend((tmap, tma.get_box(m, tmap, memory, offset)))

    def write() -> None:
        tma.write_box(m, held[0], coords, held[1], op)

    what = f"{op or 'store'} of the box at {coords} from shared 0x{source:08x}"
    return m.start("tma", what, read, write)


_STORE: dict[str, Any] = {
    "dim": _DIMS,
    "dst": "global",
    "src": "shared::cta",
    "mode": "tile tile::scatter4 im2col_no_offs",
    "completion": "bulk_group",
    "hint": "L2::cache_hint",
    "types": {"a": SHARED, **_ADDRESS},
    "checks": _SHAPES,
    "order_free": True,
    "unit": "async",
    "lane": False,
    "proxy": "async",
    "completes_by": "bulk group",
    "since": (8, 0),
    "unsupported": _unsupported,
}


@instruction(
    "cp.async.bulk.tensor.dim.dst.src{.mode}.completion{.hint} [map, {coords}], [a], policy;",
    ref=_REF,
    **_STORE,
)
def cp_async_bulk_tensor_store(m: Any, i: Mods, tensor: Any, a: Any, policy: Any) -> None:
    """Copy a box from shared memory into a tensor; elements outside the tensor are dropped.

    Undefined: misaligned operands (here a fault), negative coordinates, writing the source before it has
    been read.
    """
    for lane in m.lanes():
        m.bulk_groups.add(_store(m, int(a[lane]), _where(tensor, lane), ""), (lane,))


@instruction(
    "cp.reduce.async.bulk.tensor.dim.dst.src.op{.mode}.completion{.hint} [map, {coords}], [a], policy;",
    op="add min max inc dec and or xor",
    ref="data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor",
    **_STORE,
)
def cp_reduce_async_bulk_tensor(m: Any, i: Mods, tensor: Any, a: Any, policy: Any) -> None:
    """Combine a box of shared memory into a tensor, element by element in the map's type.

    Undefined as for the store, and for an operation that the element type does not have.
    """
    for lane in m.lanes():
        m.bulk_groups.add(_store(m, int(a[lane]), _where(tensor, lane), str(i["op"])), (lane,))


@instruction(
    "cp.async.bulk.prefetch.tensor.dim.level.src{.mode}{.hint} [map, {coords}], offsets, policy;",
    dim=_DIMS,
    level="L2",
    src="global",
    mode=_LOAD_MODES,
    hint="L2::cache_hint",
    types={"offsets": _offsets, **_ADDRESS},
    checks=_SHAPES,
    order_free=True,
    unit="async",
    lane=False,
    proxy="async",
    since=(8, 0),
    ref="data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor",
)
def cp_async_bulk_prefetch_tensor(m: Any, i: Mods, tensor: Any, offsets: Any, policy: Any) -> None:
    """Bring a box of a tensor into the L2; a hint without effect on values."""
