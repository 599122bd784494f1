"""cp.async.bulk.tensor, its reduction and its prefetch: boxes of a tensor map moved by the TMA unit.

Each lane that executes one issues an operation of its own. A load performs at one moment (copy, then
complete_tx), a store at two (read shared memory, then write global memory). Source: PTX ISA, "Tensor
copy"; the walk, the swizzles and the fills are `machine.tma`'s.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from drywell.base.events import Work
from drywell.base.record import record
from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.multicast import Landing, landings
from drywell.isa.operand import GLOBAL, SHARED, policy
from drywell.isa.rules import when
from drywell.machine import tma
from drywell.machine.flow import Flow
from drywell.machine.interleave import sliced
from drywell.machine.queue import Traffic
from drywell.machine.tensor_map import TensorMap
from drywell.machine.tma_flow import BoxFlow

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


@record
class Where:
    """What of a tensor one lane moves: the map's address, the coordinates, how, and the im2col operand."""

    pointer: int
    coords: tuple[int, ...]
    mode: str
    offsets: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"box at {self.coords}" if self.mode == "tile" else f".{self.mode} box at {self.coords}"


def _vector(values: Any, lane: int, dtype: Any) -> tuple[int, ...]:
    """Return the numbers of a brace list, or of a single register, that a lane gives."""
    parts = values if isinstance(values, tuple) else (values,)
    return tuple(int(np.asarray(v)[lane].astype(dtype)) for v in parts)


def _where(i: Mods, address: tuple[Any, Any], lane: int, offsets: Any = None) -> Where:
    """Return what a lane moves; its coordinates are signed, the im2col operand is not."""
    pointer, coords = address
    extra = () if offsets is None else _vector(offsets, lane, np.uint16)
    return Where(int(pointer[lane]), _vector(coords, lane, np.int32), str(i["mode"] or "tile"), extra)


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
    ref=_REF,
)
def cp_async_bulk_tensor_load(
    m: Any, i: Mods, a: Any, tensor: Any, mbar: Any, offsets: Any, mask: Any, policy: Any
) -> None:
    """Copy a box of a tensor into shared memory and complete its bytes, those outside the tensor included.

    With `.multicast::cluster` it lands in every CTA of the mask, in each at a moment of its own; with
    `.cta_group::2` the mbarrier may be the pair peer's.
    Undefined: misaligned operands (here a fault), touching the destination before completion is seen.
    """
    is_pair = i["cta_group"] == "cta_group::2"
    is_cluster = i["dst"] == "shared::cluster"
    for lane in m.lanes():
        where, target = _where(i, tensor, lane, offsets), int(a[lane])
        what = f"load of the {where} into shared 0x{target:08x}"
        lands = landings(m, lane, target, int(mbar[lane]), mask, what, is_pair)
        stages = (_landing(m, where, at, is_cluster, is_cluster or is_pair) for at in lands)
        op = m.start("tma", what, *stages, work=Work("load"), lanes=(lane,))
        op.traffic = partial(_traffic, m, where)


def _landing(m: Any, where: Where, at: Landing, is_cluster: bool, tells_cluster: bool) -> Any:
    """Return the stage that brings a box to one CTA and tells its mbarrier."""

    def perform() -> None:
        tmap = tma.read_map(m, where.pointer)
        target = m.shared_target(at.data, is_cluster)
        moved = tma.load(m, tmap, where.coords, target, mode=where.mode, offsets=where.offsets)
        if m.grid.observers:
            _flow_is(m, _box_flow(tmap, where, target).loaded)
        m.mbarrier(at.barrier, tells_cluster).complete_tx(moved)

    return perform


def _traffic(m: Any, where: Where) -> Traffic:
    """Return what a copy of a box moves."""
    tmap, coords = sliced(tma.read_map(m, where.pointer), where.coords)
    box = tma.box_of(tmap, where.mode, where.offsets)
    spans = partial(tma.spans, tmap, coords, where.mode, where.offsets)
    return Traffic(box.rows, box.row_bytes, where, spans)


def _box_flow(tmap: TensorMap, where: Where, at: tuple[Any, int], is_reduction: bool = False) -> BoxFlow:
    """Return which bytes belong together in a copy of the box to or from `at`."""
    memory, offset = at
    tmap, coords = sliced(tmap, where.coords)
    return BoxFlow(tmap, coords, memory.cta.linear, offset, where.mode, where.offsets, is_reduction)


def _flow_is(m: Any, flow: Flow) -> None:
    """Note where what the operation being performed writes comes from."""
    m.grid.pending.performing.flows += (flow,)


def _store(m: Any, lane: int, source: int, where: Where, op: str) -> Any:
    """Issue a store (or, with `op`, a reduction) of one box and return the operation."""
    held: list[Any] = []

    def read() -> None:
        tmap = tma.read_map(m, where.pointer)
        memory, offset = m.shared_target(source)
        box = tma.check_store(m, tmap, where.coords, memory, offset, where.mode, op)
        if m.grid.observers:
            _flow_is(m, _box_flow(tmap, where, (memory, offset), bool(op)).stored)
        tmap, coords = sliced(tmap, where.coords)
        held.extend((tmap, coords, tma.get_box(m, tmap, memory, offset, box)))

    def write() -> None:
        tmap, coords, data = held
        tma.write_box(m, tmap, coords, data, op, where.mode)

    what = f"{op or 'store'} of the {where} from shared 0x{source:08x}"
    issued = m.start("tma", what, read, write, work=Work("reduce" if op else "store"), lanes=(lane,))
    issued.traffic = partial(_traffic, m, where)
    return issued


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
        m.bulk_groups.add(_store(m, lane, int(a[lane]), _where(i, tensor, lane), ""), (lane,))


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
        op = _store(m, lane, int(a[lane]), _where(i, tensor, lane), str(i["op"]))
        m.bulk_groups.add(op, (lane,))


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
