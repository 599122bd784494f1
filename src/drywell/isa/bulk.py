"""cp.async.bulk and cp.reduce.async.bulk: copies and reductions of contiguous bytes, without a tensor map.

Each lane that executes one issues an operation of its own. Source: PTX ISA, "Asynchronous copy: bulk copy".
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from drywell.base.events import Work
from drywell.isa.async_copy import wait_for
from drywell.isa.declare import Mods, Op, instruction
from drywell.isa.multicast import Landing, landings, require_other_cta
from drywell.isa.operand import GLOBAL, SHARED, policy
from drywell.isa.rules import when
from drywell.machine.outcome import Wait
from drywell.machine.queue import Traffic
from drywell.machine.reduce import combine

_REF = "data-movement-and-conversion-instructions-cp-async-bulk"
_BYTES = Op("u32", multiple_of=16)
_MASK = Op("u16")
GRAIN_BYTES = 16
_ROW_BYTES = 128
"""The bytes that a copy engine moves in one request."""


def only_with(slot: str, op: Op) -> Any:
    """Return the type rule of an operand that is there exactly when modifier `slot` is."""
    return lambda i: op if i[slot] else None


def _traffic(address: int, size: int) -> Traffic:
    """Return what a copy of bytes from or to `address` moves."""
    spans = np.array([address], np.int64), size
    return Traffic(-(-size // _ROW_BYTES), min(size, _ROW_BYTES), (address, size), lambda: spans)


def _check(m: Any, size: int, **addresses: int) -> None:
    """Fault TMA-ALIGN unless the size and both addresses are multiples of 16, which PTX asks for."""
    for name, value in (("size", size), *addresses.items()):
        if value % GRAIN_BYTES:
            m.fault(
                "TMA-ALIGN",
                f"a bulk copy of {size} bytes whose {name} {value:#x} is not a multiple of {GRAIN_BYTES}",
                f"align the {name} to {GRAIN_BYTES} bytes",
            )


@instruction(
    "cp.async.bulk.dst.src.completion{.multicast}{.hint} [a], [b], size, [mbar], mask, policy;",
    dst="shared::cluster shared::cta",
    src="global",
    completion="mbarrier::complete_tx::bytes",
    multicast="multicast::cluster",
    hint="L2::cache_hint",
    types={
        "a": SHARED,
        "b": GLOBAL,
        "size": _BYTES,
        "mbar": SHARED,
        "mask": only_with("multicast", _MASK),
        "policy": policy,
    },
    checks=[when("multicast", "*", dst="shared::cluster")],
    order_free=True,
    unit="async",
    proxy="async",
    completes_by="mbarrier",
    arrives=True,
    since=(8, 0),
    ref=_REF,
)
def cp_async_bulk_load(m: Any, i: Mods, a: Any, b: Any, size: Any, mbar: Any, mask: Any, policy: Any) -> None:
    """Copy bytes from global to shared memory and complete as many on the mbarrier.

    With `.multicast::cluster` they land in every CTA of the mask, in each at a moment of its own.
    Undefined: addresses or size off 16 bytes (here a fault), touching either side before completion is seen.
    """
    is_cluster = i["dst"] == "shared::cluster"
    for lane in m.lanes():
        target, source, count = int(a[lane]), int(b[lane]), int(size[lane])
        _check(m, count, destination=target, source=source)
        what = f"copy of {count} bytes into shared 0x{target:08x}"
        lands = landings(m, lane, target, int(mbar[lane]), mask, what)
        stages = (_landing(m, source, count, at, is_cluster) for at in lands)
        op = m.start("bulk", what, *stages, work=Work("load"), lanes=(lane,))
        op.traffic = partial(_traffic, source, count)


def _landing(m: Any, source: int, size: int, at: Landing, is_cluster: bool) -> Any:
    """Return the stage that brings the bytes to one CTA and tells its mbarrier."""

    def perform() -> None:
        data = m.global_bytes(source, size, proxy="async")
        m.shared(at.data, size, cluster=is_cluster, write=True, proxy="async")[:] = data
        m.mbarrier(at.barrier, is_cluster).complete_tx(size)

    return perform


@instruction(
    "cp.async.bulk.dst.src.completion [a], [b], size, [mbar];",
    dst="shared::cluster",
    src="shared::cta",
    completion="mbarrier::complete_tx::bytes",
    types={"a": SHARED, "b": SHARED, "size": _BYTES, "mbar": SHARED},
    order_free=True,
    unit="async",
    proxy="async",
    completes_by="mbarrier",
    arrives=True,
    since=(8, 0),
    ref=_REF,
)
def cp_async_bulk_to_cta(m: Any, i: Mods, a: Any, b: Any, size: Any, mbar: Any) -> None:
    """Copy bytes into another CTA's shared memory and complete as many on an mbarrier there.

    Undefined, here a fault: the executing CTA as destination, an mbarrier in a third CTA, addresses or size
    off 16 bytes. Also undefined: writing the source before completion is seen.
    """
    for lane in m.lanes():
        _send(m, lane, int(a[lane]), int(b[lane]), int(size[lane]), int(mbar[lane]))


def _send(
    m: Any, lane: int, target: int, source: int, size: int, mbar: int, op: str = "", type_name: str = ""
) -> None:
    """Issue a copy (or a reduction) into another CTA: read at one moment, write and tell at a later one."""
    _check(m, size, destination=target, source=source)
    what = f"{op or 'copy'} of {size} bytes from shared 0x{source:08x} into shared 0x{target:08x}"
    require_other_cta(m, lane, target, what)
    (at,) = landings(m, lane, target, mbar, None, what)
    held: list[Any] = []

    def read() -> None:
        held.append(m.shared(source, size, proxy="async").copy())

    def write() -> None:
        view = m.shared(at.data, size, cluster=True, write=True, proxy="async")
        view[:] = _written(view, held[0], op, type_name, 0xFFFF)
        m.mbarrier(at.barrier, True).complete_tx(size)

    work = Work("reduce" if op else "copy", kind="to cta")
    issued = m.start("bulk", what, read, write, work=work, lanes=(lane,))
    issued.traffic = partial(_traffic, source, size)


@instruction(
    "cp.async.bulk.dst.src.completion{.hint}{.cp_mask} [a], [b], size, policy, mask;",
    dst="global",
    src="shared::cta",
    completion="bulk_group",
    hint="L2::cache_hint",
    cp_mask="cp_mask",
    types={"a": GLOBAL, "b": SHARED, "size": _BYTES, "policy": policy, "mask": only_with("cp_mask", _MASK)},
    order_free=True,
    unit="async",
    proxy="async",
    completes_by="bulk group",
    since=(8, 0),
    ref=_REF,
)
def cp_async_bulk_store(m: Any, i: Mods, a: Any, b: Any, size: Any, policy: Any, mask: Any) -> None:
    """Copy bytes from shared to global memory; with `.cp_mask`, byte k of each 16 only where bit k is set.

    Undefined: addresses or size off 16 bytes (here a fault), writing the source before it has been read.
    """
    for lane in m.lanes():
        chosen = 0xFFFF if mask is None else int(mask[lane])
        op = _store(m, lane, int(a[lane]), int(b[lane]), int(size[lane]), byte_mask=chosen)
        m.bulk_groups.add(op, (lane,))


def _written(old: Any, new: Any, op: str, type_name: str, byte_mask: int) -> Any:
    """Return the bytes a bulk store leaves where `old` was: combined by `op`, or those that `byte_mask`
    lets through."""
    if op:
        return combine(op, type_name, old, new, ftz=False)
    keep = np.tile(byte_mask >> np.arange(GRAIN_BYTES) & 1, old.size // GRAIN_BYTES).astype(np.bool_)
    return np.where(keep, new, old)


def _store(
    m: Any,
    lane: int,
    target: int,
    source: int,
    size: int,
    op: str = "",
    type_name: str = "",
    byte_mask: int = 0xFFFF,
) -> Any:
    """Issue a copy (or a reduction) of shared into global memory: read at one moment, write at a later
    one."""
    _check(m, size, destination=target, source=source)
    held: list[Any] = []

    def read() -> None:
        held.append(m.shared(source, size, proxy="async").copy())

    def write() -> None:
        view = m.global_bytes(target, size, write=True, proxy="async")
        view[:] = _written(view, held[0], op, type_name, byte_mask)

    what = f"{op or 'copy'} of {size} bytes from shared 0x{source:08x}"
    work = Work("reduce" if op else "store")
    issued = m.start("bulk", what, read, write, work=work, lanes=(lane,))
    issued.traffic = partial(_traffic, target, size)
    return issued


@instruction(
    "cp.async.bulk.prefetch.level.src{.hint} [a], size, policy;",
    level="L2",
    src="global",
    hint="L2::cache_hint",
    types={"a": GLOBAL, "size": _BYTES, "policy": policy},
    order_free=True,
    unit="async",
    proxy="async",
    since=(8, 0),
    ref=_REF + "-prefetch",
)
def cp_async_bulk_prefetch(m: Any, i: Mods, a: Any, size: Any, policy: Any) -> None:
    """Bring bytes of global memory into the L2; a hint without effect on values."""


_GLOBAL_OPS = (
    when("op", "add", type="u32 s32 u64 f32 f64 f16 bf16"),
    when("op", "min max", type="u32 s32 u64 s64 f16 bf16", noftz="-"),
    when("op", "inc dec", type="u32"),
    when("op", "and or xor", type="b32 b64"),
    when("noftz", "noftz", op="add", type="f16 bf16"),
)


def sums_of_halves_keep_subnormals(i: Mods) -> str | None:
    """Require `.noftz` on a sum of f16 or bf16."""
    if i["op"] == "add" and i["type"] in ("f16", "bf16") and not i["noftz"]:
        return f"'.add.{i['type']}' needs '.noftz'"
    return None


@instruction(
    "cp.reduce.async.bulk.dst.src.completion{.hint}.op{.noftz}.type [a], [b], size, policy;",
    dst="global",
    src="shared::cta",
    completion="bulk_group",
    hint="L2::cache_hint",
    op="add min max inc dec and or xor",
    noftz="noftz",
    type="b32 b64 u32 u64 s32 s64 f16 bf16 f32 f64",
    types={"a": GLOBAL, "b": SHARED, "size": _BYTES, "policy": policy},
    checks=[*_GLOBAL_OPS, sums_of_halves_keep_subnormals],
    order_free=True,
    unit="async",
    proxy="async",
    completes_by="bulk group",
    since=(8, 0),
    ref="data-movement-and-conversion-instructions-cp-reduce-async-bulk",
)
def cp_reduce_async_bulk(m: Any, i: Mods, a: Any, b: Any, size: Any, policy: Any) -> None:
    """Combine bytes of shared memory into global memory, element by element.

    MEASURED (H200): f32 sums keep subnormals, though the manual says that they flush them. Undefined as for
    the plain bulk store.
    """
    for lane in m.lanes():
        op = _store(m, lane, int(a[lane]), int(b[lane]), int(size[lane]), str(i["op"]), str(i["type"]))
        m.bulk_groups.add(op, (lane,))


@instruction(
    "cp.reduce.async.bulk.dst.src.completion.op.type [a], [b], size, [mbar];",
    dst="shared::cluster",
    src="shared::cta",
    completion="mbarrier::complete_tx::bytes",
    op="add min max inc dec and or xor",
    type="b32 u32 s32 u64",
    types={"a": SHARED, "b": SHARED, "size": _BYTES, "mbar": SHARED},
    checks=[
        when("op", "add", type="u32 s32 u64"),
        when("op", "min max", type="u32 s32"),
        when("op", "inc dec", type="u32"),
        when("op", "and or xor", type="b32"),
    ],
    order_free=True,
    unit="async",
    proxy="async",
    completes_by="mbarrier",
    arrives=True,
    since=(8, 0),
    ref="data-movement-and-conversion-instructions-cp-reduce-async-bulk",
)
def cp_reduce_async_bulk_to_cta(m: Any, i: Mods, a: Any, b: Any, size: Any, mbar: Any) -> None:
    """Combine bytes into another CTA's shared memory and complete as many on an mbarrier there.

    Undefined as for the copy.
    """
    op, type_name = str(i["op"]), str(i["type"])
    for lane in m.lanes():
        _send(m, lane, int(a[lane]), int(b[lane]), int(size[lane]), int(mbar[lane]), op, type_name)


@instruction(
    "cp.async.bulk.commit_group;", order_free=True, unit="sync", since=(8, 0), ref=_REF + "-commit-group"
)
def cp_async_bulk_commit_group(m: Any, i: Mods) -> None:
    """Close the thread's group of bulk operations; an empty group counts too."""
    m.bulk_groups.commit(m.mask)


@instruction(
    "cp.async.bulk.wait_group{.read} n;",
    read="read",
    types={"n": Op("u32", accepts="i")},
    order_free=True,
    unit="sync",
    waits=True,
    since=(8, 0),
    ref=_REF + "-wait-group",
)
def cp_async_bulk_wait_group(m: Any, i: Mods, n: Any) -> Wait | None:
    """Wait until at most the `n` newest bulk groups of the thread are unfinished.

    With `.read` a group counts as finished once its sources have been read. Other threads' groups are not
    awaited.
    """
    is_read = i["read"] is not None
    awaited = m.bulk_groups.awaited(m.mask, int(n[m.one_lane()]))
    return wait_for(m, awaited, "cp.async.bulk.wait_group", is_read, even_none=True)
