"""tensormap.replace and tensormap.cp_fenceproxy: changing the 128 bytes of a tensor map, and publishing
them."""

from __future__ import annotations

from typing import Any

from drywell.base.events import Order
from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.operand import GLOBAL, SHARED, place
from drywell.isa.targets import HOPPER_AND_LATER
from drywell.machine.tensor_map import MAP_BYTES, replace

_REF = "data-movement-and-conversion-instructions-tensormap-replace"
_LAST_ORDINAL = 4
#: The highest code of each field that holds one. Source: PTX ISA, tensormap.replace; ptxas 13.0 for sm_100a.
_LAST_CODE = {
    "elemtype": 15,
    "interleave_layout": 2,
    "swizzle_mode": 3,
    "swizzle_atomicity": 3,
    "fill_mode": 1,
}


def _code(i: Mods) -> Op:
    return Op("u32", accepts="i", range=(0, _LAST_CODE[str(i["field"])]))


_COMMON: dict[str, Any] = {
    "space": "global shared::cta",
    "order_free": True,
    "unit": "async",
    "lane": False,
    "since": (8, 3),
    "targets": HOPPER_AND_LATER,
    "ref": _REF,
}
_VALUE: dict[str, TypeRule] = {"a": place(), "value": "type"}
_INDEXED: dict[str, TypeRule] = {**_VALUE, "ord": Op("u32", accepts="i", range=(0, _LAST_ORDINAL))}


def _replace(m: Any, i: Mods, a: Any, value: Any, ordinal: Any = None) -> None:
    """Set one field of the map each lane points at; generic accesses of all 128 bytes."""
    field = str(i["field"])
    for lane in m.lanes():
        where, nth = int(a[lane]), 0 if ordinal is None else int(ordinal[lane])
        if field == "global_stride" and nth == _LAST_ORDINAL:
            m.fault(
                "TMA-MAP", "tensormap.replace of global_stride 4: a map has strides 0 to 3", lanes=(lane,)
            )
        space = i["space"] or ""
        raw = bytearray(m.bytes_at(space, where, MAP_BYTES).tobytes())
        replace(raw, field, int(value[lane]), nth)
        m.bytes_at(space, where, MAP_BYTES, write=True)[:] = memoryview(raw)


@instruction(
    "tensormap.replace.tile.field{.space}.b1024.type [a], value;",
    tile="tile",
    field="global_address",
    type="b64",
    types=_VALUE,
    **_COMMON,
)
@instruction(
    "tensormap.replace.tile.field{.space}.b1024.type [a], value;",
    tile="tile",
    field="rank",
    type="b32",
    types=_VALUE,
    **_COMMON,
)
def tensormap_replace(m: Any, i: Mods, a: Any, value: Any) -> None:
    """Set the address or the rank (less one) of a tensor map. Undefined while an operation uses the map."""
    _replace(m, i, a, value)


@instruction(
    "tensormap.replace.tile.field{.space}.b1024.type [a], ord, value;",
    tile="tile",
    field="box_dim global_dim element_stride",
    type="b32",
    types={**_INDEXED, "value": "u32"},
    **_COMMON,
)
@instruction(
    "tensormap.replace.tile.field{.space}.b1024.type [a], ord, value;",
    tile="tile",
    field="global_stride",
    type="b64",
    types=_INDEXED,
    **_COMMON,
)
def tensormap_replace_indexed(m: Any, i: Mods, a: Any, ord: Any, value: Any) -> None:
    """Set a size, box or stride of one dimension of a tensor map, in its natural unit (strides in bytes).

    MEASURED: sizes and boxes are stored less one, strides divided by 16 (H200). Undefined while the map is
    in use.
    """
    _replace(m, i, a, value, ord)


@instruction(
    "tensormap.replace.tile.field{.space}.b1024.type [a], value;",
    tile="tile",
    field=" ".join(_LAST_CODE),
    type="b32",
    types={"a": place(), "value": _code},
    **_COMMON,
)
def tensormap_replace_code(m: Any, i: Mods, a: Any, value: Any) -> None:
    """Set the element type, interleave, swizzle or fill of a tensor map by its code. Undefined while it is
    in use."""
    _replace(m, i, a, value)


@instruction(
    "tensormap.cp_fenceproxy.dst.src.kind.sem.scope.sync.aligned [a], [b], size;",
    dst="global",
    src="shared::cta",
    kind="tensormap::generic",
    sem="release",
    scope="cta cluster gpu sys",
    types={"a": GLOBAL, "b": SHARED, "size": Op("u32", accepts="i", range=(MAP_BYTES, MAP_BYTES))},
    order_free=True,
    unit="async",
    lane=False,
    converged="warp",
    proxy="tensormap",
    since=(8, 3),
    ref="parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy",
)
def tensormap_cp_fenceproxy(m: Any, i: Mods, a: Any, b: Any, size: Any) -> None:
    """Copy a tensor map from shared to global memory with the whole warp and release it to the tensormap
    proxy.

    Undefined when the lanes give different operands; the lowest lane's are taken.
    """
    lane = m.one_lane()
    for what, value in (("destination", int(a[lane])), ("source", int(b[lane]))):
        if value % MAP_BYTES:
            m.fault(
                "TMA-ALIGN", f"tensormap.cp_fenceproxy: the {what} 0x{value:x} is not aligned to 128 bytes"
            )
    data = m.shared(int(b[lane]), MAP_BYTES).copy()
    m.global_bytes(int(a[lane]), MAP_BYTES, write=True)[:] = data
    m.fenced("tensormap.release", Order("release", str(i["scope"])))
