"""Atomics: atom, red, and their asynchronous relatives st.async and red.async.

A warp's lanes act one after the other, lowest first; each reads, combines and writes in one step. Memory
order and scope need no work: every access takes effect in program order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.dtypes import TYPES
from drywell.base.events import Work
from drywell.isa.declare import Mods, Op, Problem, instruction
from drywell.isa.multicast import Landing, landings, require_other_cta
from drywell.isa.operand import VECTOR, address, loaded, place, policy, stored
from drywell.isa.place import is_cluster, order_of, shared_address
from drywell.isa.rules import rule, when
from drywell.machine.reduce import combine
from drywell.machine.windows import space_of

_SHARED = "shared shared::cta shared::cluster"
_HALVES = "f16 bf16 f16x2 bf16x2"
_TYPES = f"b32 b64 b128 u32 u64 s32 s64 f32 f64 {_HALVES}"
_SCOPES = "cta cluster gpu sys"

_OPS = {
    "add": f"u32 u64 s32 f32 f64 {_HALVES}",
    "min": f"u32 u64 s32 s64 {_HALVES}",
    "max": f"u32 u64 s32 s64 {_HALVES}",
    "and": "b32 b64",
    "or": "b32 b64",
    "xor": "b32 b64",
    "inc": "u32",
    "dec": "u32",
    "exch": "b32 b64 b128",
}

_LEGAL = (
    *(when("op", op, type=types) for op, types in _OPS.items()),
    when("type", _HALVES, noftz="noftz"),
    when("noftz", "noftz", type=_HALVES),
    when("hint", "*", space="- global"),
    when("vec", "*", space="- global", op="add min max"),
    rule(
        "vec: *",
        "op: min max",
        "type: u32 u64 s32 s64",
        reason="integer minimum and maximum have no vector form",
    ),
    when("vec", "v2 v4", type=f"f32 {_HALVES}"),
    when("vec", "v8", type="f16 bf16"),
    rule(
        "op: min max",
        f"type: {_HALVES}",
        "vec: -",
        reason="minimum and maximum of halves exist only as vectors",
        hint="write .v2, .v4 or (of f16 and bf16) .v8",
        at="op",
    ),
)


def _result(i: Mods) -> Op:
    op = loaded(i)
    return Op(op.type, count=op.count, accepts="r_")


def _source(i: Mods) -> Op:
    op = stored(i)
    return Op(op.type, count=op.count)


Bytes = NDArray[np.uint8]
Step = Callable[[Bytes, NDArray[np.bool_]], Bytes]


def combined(
    op: str, type_name: str, old: Bytes, new: Bytes, in_global: NDArray[np.bool_] | None = None
) -> Bytes:
    """Return the bytes (uint8[n, size]) that `op` of a PTX type leaves where `old` was and `new` comes.

    `in_global` marks the rows that lie in global memory (default: all), where sums of f32 flush subnormals
    and those of f64 keep NaNs as they are.
    """
    if op == "exch":
        return new
    if type_name not in ("f32", "f64") or in_global is None or in_global.all():
        return combine(op, type_name, old, new)
    shared = combine(op, type_name, old, new, is_global=False)
    return np.where(in_global[:, None], combine(op, type_name, old, new), shared)


def as_bytes(values: Any) -> Bytes:
    """Return a register, or a tuple of registers, as uint8[32, size]: a lane's elements one after the
    other."""
    parts = values if isinstance(values, tuple) else (values,)
    return np.concatenate([np.ascontiguousarray(p).view(np.uint8).reshape(32, -1) for p in parts], axis=1)


def _in_global(space: str, addresses: NDArray[Any]) -> NDArray[np.bool_]:
    """Say per lane whether an access goes to global memory, where float sums are not those of shared memory.

    SPEC: an f32 sum flushes subnormals on global memory, on shared memory not. Source: PTX ISA, atom,
    "Floating-point operation .add".
    """
    if space:
        return np.full(32, space == "global")
    return np.array([space_of(int(a)) == "global" for a in addresses])


def _update(m: Any, i: Mods, a: Any, step: Step, size: int) -> Bytes:
    """Apply `step` to `size` bytes of each active lane, lowest lane first; return the bytes before."""
    old: Bytes = m.update(str(i["space"] or ""), a, size, step, order=order_of(i, "relaxed"))
    return old


def _values(i: Mods, old: Bytes, dtype: Any) -> Any:
    """Turn the old bytes into the destination: one value, or a list for a vector."""
    count = VECTOR[i.get("vec")]
    columns = old.reshape(32, count, -1)
    out = [np.ascontiguousarray(columns[:, k]).view(dtype)[:, 0] for k in range(count)]
    return out if i.get("vec") else out[0]


def _apply(m: Any, i: Mods, a: Any, b: Any) -> Bytes:
    data = as_bytes(b)
    in_global = _in_global(str(i["space"] or ""), a)

    def step(old: Bytes, lanes: NDArray[np.bool_]) -> Bytes:
        return combined(str(i["op"]), str(i["type"]), old, data, in_global)

    return _update(m, i, a, step, data.shape[1])


_SLOTS: dict[str, Any] = {
    "space": f"global {_SHARED}",
    "noftz": "noftz",
    "hint": "L2::cache_hint",
    "vec": "v2 v4 v8",
    "type": _TYPES,
}


@instruction(
    "atom{.sem}{.scope}{.space}.op{.noftz}{.hint}{.vec}.type d, [a], b, policy;",
    sem="relaxed acquire release acq_rel",
    scope=_SCOPES,
    op="add min max and or xor inc dec exch",
    types={"d": _result, "a": address(), "b": _source, "policy": policy},
    checks=_LEGAL,
    order_free=True,
    unit="mem",
    lane=False,
    ref="parallel-synchronization-and-communication-instructions-atom",
    **_SLOTS,
)
def atom(m: Any, i: Mods, a: Any, b: Any, policy: Any) -> Any:
    """Combine memory with an operand in one step and return what was there before.

    A vector's elements are separate atomics. Undefined when the location is also reached by plain stores.
    """
    return _values(i, _apply(m, i, a, b), (b[0] if isinstance(b, tuple) else b).dtype)


@instruction(
    "atom{.sem}{.scope}{.space}.cas.type d, [a], b, c;",
    sem="relaxed acquire release acq_rel",
    scope=_SCOPES,
    space=f"global {_SHARED}",
    type="b16 b32 b64 b128",
    types={"d": lambda i: Op(str(i["type"]), accepts="r_"), "a": address()},
    order_free=True,
    unit="mem",
    lane=False,
    ref="parallel-synchronization-and-communication-instructions-atom",
)
def atom_cas(m: Any, i: Mods, a: Any, b: Any, c: Any) -> Any:
    """Write the third operand where memory equals the second; return what was there before."""
    wanted, new = as_bytes(b), as_bytes(c)

    def step(old: Bytes, lanes: NDArray[np.bool_]) -> Bytes:
        return np.where((old == wanted).all(axis=1)[:, None], new, old)

    return _values(i, _update(m, i, a, step, wanted.shape[1]), b.dtype)


@instruction(
    "red{.sem}{.scope}{.space}.op{.noftz}{.hint}{.vec}.type [a], b, policy;",
    sem="relaxed release",
    scope=_SCOPES,
    op="add min max and or xor inc dec",
    types={"a": address(), "b": _source, "policy": policy},
    checks=[c for c in _LEGAL if "'exch'" not in (c.__doc__ or "")],
    order_free=True,
    unit="mem",
    lane=False,
    ref="parallel-synchronization-and-communication-instructions-red",
    **_SLOTS,
)
def red(m: Any, i: Mods, a: Any, b: Any, policy: Any) -> None:
    """Combine memory with an operand in one step.

    A vector's elements are separate atomics. Undefined when the location is also reached by plain stores.
    """
    _apply(m, i, a, b)


_VECTOR_WORDS = "b32 b64 u32 u64 s32 s64 f32 f64"


def vector_of_128_bits(i: Mods) -> Problem | None:
    """Require at most 128 bits in one st.async."""
    bits = TYPES[str(i["type"])].bits * VECTOR[i["vec"]]
    if bits <= 128:
        return None
    return Problem(
        f"'.{i['vec']}.{i['type']}' is {bits} bits, the limit is 128", "vec", f"{bits} bits", "use .v2"
    )


@instruction(
    "st.async{.weak}{.space}.mbarrier::complete_tx::bytes{.vec}.type [a], b, [mbar];",
    weak="weak",
    space=_SHARED,
    vec="v2 v4",
    type=_VECTOR_WORDS,
    types={"b": _source, "a": place(), "mbar": place()},
    checks=[vector_of_128_bits],
    order_free=True,
    unit="async",
    since=(8, 1),
    completes_by="mbarrier",
    ref="data-movement-and-conversion-instructions-st-async",
)
@instruction(
    "red.async.sem.scope{.space}.mbarrier::complete_tx::bytes.op.type [a], b, [mbar];",
    sem="relaxed",
    scope="cluster",
    space="shared::cluster",
    op="inc dec min max and or xor add",
    type="u32 s32 u64 b32",
    types={"b": _source, "a": place(), "mbar": place()},
    checks=[
        when("op", "inc dec", type="u32"),
        when("op", "min max", type="u32 s32"),
        when("op", "and or xor", type="b32"),
        when("op", "add", type="u32 s32 u64"),
    ],
    order_free=True,
    unit="async",
    since=(8, 1),
    completes_by="mbarrier",
    ref="parallel-synchronization-and-communication-instructions-red-async",
)
def store_async(m: Any, i: Mods, a: Any, b: Any, mbar: Any) -> None:
    """Store or reduce into another CTA's shared memory, at some later moment, and complete as many bytes on
    an mbarrier there.

    Undefined, here a fault: an mbarrier in another CTA than the data, a misaligned address, a reduction in
    the executing CTA itself. Also undefined, and not looked for: a store in a cluster of one CTA.
    """
    data, space, op = as_bytes(b), i["space"], i.get("op")
    for lane in m.lanes():
        target, barrier = shared_address(m, space, a, lane), shared_address(m, space, mbar, lane)
        what = f"{op or 'store'} of {data.shape[1]} bytes into shared 0x{target:08x}"
        (at,) = landings(m, lane, target, barrier, None, what)
        if op:
            require_other_cta(m, lane, target, what)
        stage = partial(_arrive_with, m, i, at, data[lane].copy(), is_cluster(space))
        m.start("bulk", what, stage, work=Work("reduce" if op else "copy", kind="st.async"), lanes=(lane,))


def _arrive_with(m: Any, i: Mods, at: Landing, data: Bytes, is_remote: bool) -> None:
    """Write one lane's bytes and tell the mbarrier of as many."""
    if at.data % data.size:
        m.fault(
            "MISALIGNED",
            f"a store of {data.size} bytes at shared 0x{at.data:08x}, which is no multiple of {data.size}",
        )
    view = m.shared(at.data, data.size, cluster=is_remote, write=True)
    op = i.get("op")
    view[:] = combine(str(op), str(i["type"]), view, data) if op else data
    m.mbarrier(at.barrier, is_remote).complete_tx(data.size)


def _later(m: Any, what: str, act: Callable[[], Any]) -> None:
    m.start("bulk", what, act, work=Work("copy", kind="st.async"))


@instruction(
    "st.async{.mmio}.sem.scope{.space}.type [a], b;",
    mmio="mmio",
    sem="release",
    scope="gpu sys",
    space="global",
    type=f"b8 b16 u8 u16 s8 s16 {_VECTOR_WORDS}",
    types={"b": _source, "a": place()},
    order_free=True,
    unit="async",
    lane=False,
    since=(8, 7),
    ref="data-movement-and-conversion-instructions-st-async",
)
def st_async_global(m: Any, i: Mods, a: Any, b: Any) -> None:
    """Store to global memory at some later moment, releasing what the thread did before."""
    mask, where, data = m.mask.copy(), np.array(a), as_bytes(b)
    order = order_of(i)
    _later(m, "st.async", lambda: m.store("", where, data, mask=mask, order=order))


@instruction(
    "red.async{.mmio}.sem.scope{.space}.op.type [a], b;",
    mmio="mmio",
    sem="release",
    scope="gpu sys",
    space="global",
    op="add",
    type="u32 s32 u64 s64",
    types={"b": _source, "a": place()},
    order_free=True,
    unit="async",
    lane=False,
    since=(8, 7),
    ref="parallel-synchronization-and-communication-instructions-red-async",
)
def red_async_global(m: Any, i: Mods, a: Any, b: Any) -> None:
    """Add to global memory at some later moment, releasing what the thread did before."""
    mask, where, data = m.mask.copy(), np.array(a), as_bytes(b)

    def step(old: Bytes, lanes: NDArray[np.bool_]) -> Bytes:
        return combined("add", str(i["type"]), old, data)

    order = order_of(i)
    _later(m, "red.async", lambda: m.update("", where, data.shape[1], step, mask=mask, order=order))
