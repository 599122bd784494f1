"""Loads, stores and what steers the caches: ld, ldu, st, st.bulk, prefetch, applypriority, discard,
createpolicy.

Memory order (`.relaxed`, `.acquire`, `.release`, `.volatile`, `.mmio`) needs no work here: a warp's
accesses take effect in program order, which is stronger than PTX asks. Cache operators and eviction hints
change no value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Mods, Op, Problem, instruction
from drywell.isa.operand import VECTOR, address, loaded, place, policy, stored
from drywell.isa.ops import Ops, Value
from drywell.isa.place import shared_address
from drywell.isa.rules import rule, when

_TYPES = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_SHARED = "shared shared::cta shared::cluster"
_SCOPES = "cta cluster gpu sys"
_L1 = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
_L2 = "L2::evict_normal L2::evict_first L2::evict_last"
_PREFETCH = "L2::64B L2::128B L2::256B"


def _bits(i: Mods) -> int:
    return TYPES[str(i["type"])].bits * VECTOR[i["vec"]]


def vector_fits(i: Mods) -> Problem | None:
    """Require at most 128 bits, or 256 as .v8 of 32 bits or .v4 of 64 bits in global memory."""
    bits = _bits(i)
    is_wide = bits == 256 and i["vec"] in ("v4", "v8") and i["type"] != "b128"
    if is_wide and i["space"] not in (None, "global"):
        message = f"'.{i['vec']}.{i['type']}' is 256 bits, which only global memory takes"
        return Problem(message, "vec", "256 bits", "split it into 128-bit accesses")
    if bits > 128 and not is_wide:
        hint = "the limit is 128 bits, or 256 bits as .v8 of a 32-bit or .v4 of a 64-bit type"
        return Problem(f"'.{i['vec']}.{i['type']}' is {bits} bits", "vec", f"{bits} bits", hint)
    return None


def l2_priority_needs_256_bits(i: Mods) -> Problem | None:
    """Require a 256-bit access where an L2 eviction priority is given."""
    if i["l2"] is None or _bits(i) == 256:
        return None
    message = f"'.{i['l2']}' needs a 256-bit access"
    return Problem(
        message, "l2", f"the access is {_bits(i)} bits", "use .v8.b32 or .v4.b64, or a cache policy"
    )


_ORDER = (
    when("mmio", "mmio", sem="relaxed", scope="sys", space="- global", hint="-", l1="-", l2="-", vec="-"),
    when("sem", "- weak volatile", scope="-"),
    when("sem", "relaxed acquire release", scope=_SCOPES, space=f"- global {_SHARED}", cop="-"),
    when("sem", "volatile", space=f"- global {_SHARED}", cop="-", l1="-", hint="-"),
    when("cop", "*", l1="-"),
    when("l1", "*", space="- global"),
    when("l2", "*", space="- global"),
    when("hint", "*", space="- global"),
    vector_fits,
    l2_priority_needs_256_bits,
)


@instruction(
    "ld{.sem}{.mmio}{.scope}{.space}{.cop}{.nc}{.l1}{.l2}{.hint}{.prefetch}{.vec}.type d, [a], policy;",
    sem="weak volatile relaxed acquire",
    mmio="mmio",
    scope=_SCOPES,
    space=f"const global local param param::entry param::func {_SHARED}",
    cop="ca cg cs lu cv",
    nc="nc",
    l1=_L1,
    l2=_L2,
    hint="L2::cache_hint",
    prefetch=_PREFETCH,
    vec="v2 v4 v8",
    type=_TYPES,
    types={"d": loaded, "a": address(), "policy": policy},
    checks=[
        *_ORDER,
        when("mmio", "mmio", prefetch="-"),
        when("prefetch", "*", space="- global"),
        when("nc", "nc", space="global", sem="-", cop="- ca cg cs"),
        when("vec", "v8", type="b32 u32 s32 f32"),
    ],
    order_free=True,
    unit="mem",
    ref="data-movement-and-conversion-instructions-ld",
)
def ld(o: Ops, a: Value, policy: Value | None) -> Value | list[Value]:
    """Load one value or a vector; a wider register gets it extended as its type says.

    Faults when the address is not a multiple of the access size or lies in no live range.
    """
    values = o.load(_window(o.i["space"]), a, o.width, VECTOR[o.i["vec"]])
    return values if o.i["vec"] else values[0]


def _window(space: str | None) -> str:
    return (space or "").removesuffix("::entry").removesuffix("::func")


@instruction(
    "ldu{.space}{.vec}.type d, [a];",
    space="global",
    vec="v2 v4",
    type=_TYPES,
    types={"d": loaded, "a": address()},
    checks=[vector_fits, rule("vec: v4", "type: b64 u64 s64 f64", reason="ldu reads at most 128 bits")],
    order_free=True,
    unit="mem",
    ref="data-movement-and-conversion-instructions-ldu",
)
def ldu(o: Ops, a: Value) -> Value | list[Value]:
    """Load read-only data from an address that is the same in every lane.

    Undefined when the lanes' addresses differ or the data changes during the kernel; here each lane reads
    its own.
    """
    values = o.load(_window(o.i["space"]), a, o.width, VECTOR[o.i["vec"]])
    return values if o.i["vec"] else values[0]


def _stored(i: Mods) -> Op:
    """Return what st stores; in a 256-bit store an element may be left as it is (`_`)."""
    op = stored(i)
    return replace(op, accepts="ri_") if op.count and _bits(i) == 256 else op


@instruction(
    "st{.sem}{.mmio}{.scope}{.space}{.cop}{.l1}{.l2}{.hint}{.vec}.type [a], b, policy;",
    sem="weak volatile relaxed release",
    mmio="mmio",
    scope=_SCOPES,
    space=f"global local param param::func {_SHARED}",
    cop="wb cg cs wt",
    l1=_L1,
    l2=_L2,
    hint="L2::cache_hint",
    vec="v2 v4 v8",
    type=_TYPES,
    types={"b": _stored, "a": address(), "policy": policy},
    checks=_ORDER,
    order_free=True,
    unit="mem",
    ref="data-movement-and-conversion-instructions-st",
)
def st(o: Ops, a: Value, b: Value | tuple[Value | None, ...], policy: Value | None) -> None:
    """Store one value or a vector; of a wider register the low bits.

    Faults when the address is not a multiple of the access size or lies in no live range.
    """
    values = b if isinstance(b, tuple) else (b,)
    cut = [v if v is None or o.width_of(v) == o.width else o.trunc(v, o.width) for v in values]
    space = _window(o.i["space"])
    if all(value is not None for value in cut):
        o.store(space, a, cut)
        return
    step = o.width // 8
    for k, value in enumerate(cut):
        if value is not None:
            o.store(space, o.add(a, o.const(k * step, o.width_of(a))), [value])


def _cleared(i: Mods) -> Op:
    """Return the address of st.bulk: where `.shared::cta` is written it is a register."""
    return Op("addr", accepts="r" if i["space"] else "rs")


@instruction(
    "st.bulk{.weak}{.space} [a], size, initval;",
    weak="weak",
    space="shared::cta",
    types={
        "a": _cleared,
        "size": Op("u64", multiple_of=8),
        "initval": Op("u64", accepts="i", range=(0, 0)),
    },
    order_free=True,
    unit="smem",
    lane=False,
    since=(8, 6),
    ref="data-movement-and-conversion-instructions-st-bulk",
)
def st_bulk(m: Any, i: Mods, a: Any, size: Any, initval: Any) -> None:
    """Set a stretch of shared memory to zero.

    Undefined when the address or the size is not a multiple of 8 bytes.
    """
    for lane in m.lanes():
        where, count = shared_address(m, i["space"], a, lane), int(size[lane])
        if count % 8 or where % 8:
            m.fault(
                "MISALIGNED",
                f"st.bulk of {count} bytes at {where:#x}: both must be multiples of 8",
                "align the address and round the size",
                lanes=(lane,),
            )
        m.shared(where, count, write=True)[:] = 0


@instruction(
    "prefetch{.space}.level [a];",
    space="global local",
    level="L1 L2 L2::evict_last L2::evict_normal",
    types={"a": address()},
    checks=[when("level", "L2::evict_last L2::evict_normal", space="- global")],
    order_free=True,
    unit="mem",
    lane=False,
    ref="data-movement-and-conversion-instructions-prefetch-prefetchu",
)
@instruction(
    "prefetchu.level [a];",
    level="L1",
    types={"a": Op("addr64", accepts="r")},
    order_free=True,
    unit="mem",
    lane=False,
    ref="data-movement-and-conversion-instructions-prefetch-prefetchu",
)
@instruction(
    "prefetch{.space}.tensormap [a];",
    space="const param",
    types={"a": place()},
    order_free=True,
    unit="mem",
    lane=False,
    proxy="tensormap",
    ref="data-movement-and-conversion-instructions-prefetch-prefetchu",
)
def prefetch(m: Any, i: Mods, a: Any) -> None:
    """Bring a cache line or a tensor map nearer; a hint without effect on values."""


@instruction(
    "applypriority{.space}.level [a], size;",
    space="global",
    level="L2::evict_normal",
    types={"a": address(), "size": Op("u32", accepts="i", range=(128, 128))},
    order_free=True,
    unit="mem",
    lane=False,
    ref="data-movement-and-conversion-instructions-applypriority",
)
def applypriority(m: Any, i: Mods, a: Any, size: Any) -> None:
    """Give a cache line the normal eviction priority again; a hint without effect on values."""


@instruction(
    "discard{.space}.level [a], size;",
    space="global",
    level="L2",
    types={"a": address(), "size": Op("u32", accepts="i", range=(128, 128))},
    order_free=True,
    unit="mem",
    lane=False,
    ref="data-movement-and-conversion-instructions-discard",
)
def discard(m: Any, i: Mods, a: Any, size: Any) -> None:
    """Allow a 128-byte line of L2 to be dropped without being written back.

    Reading the line afterwards before a write is undefined; here its bytes stay.
    """


#: ASSUMED: the words CUTLASS passes for its cache hints; a policy only steers the L2, no value depends on it.
_POLICIES = {
    "L2::evict_last": 0x14F0000000000000,
    "L2::evict_normal": 0x1000000000000000,
    "L2::evict_first": 0x12F0000000000000,
    "L2::evict_unchanged": 0x1000000000000000,
}


@instruction(
    "createpolicy.fractional.primary{.secondary}.b64 d{, fraction};",
    primary="L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged",
    secondary="L2::evict_first L2::evict_unchanged",
    types={"d": Op("u64", accepts="r"), "fraction": "f32"},
    order_free=True,
    unit="alu",
    ref="data-movement-and-conversion-instructions-createpolicy",
)
def createpolicy_fractional(o: Ops, fraction: Value | None) -> Value:
    """Make a cache policy that gives part of the accesses one eviction priority.

    The word is opaque; the fraction is not kept, since no value depends on it.
    """
    return o.const(_POLICIES[str(o.i["primary"])], 64)


@instruction(
    "createpolicy.range{.space}.primary{.secondary}.b64 d, [a], primary_size, total_size;",
    space="global",
    primary="L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged",
    secondary="L2::evict_first L2::evict_unchanged",
    types={"d": Op("u64", accepts="r"), "a": place(), "primary_size": "u32", "total_size": "u32"},
    order_free=True,
    unit="alu",
    ref="data-movement-and-conversion-instructions-createpolicy",
)
def createpolicy_range(o: Ops, a: Value, primary_size: Value, total_size: Value) -> Value:
    """Make a cache policy for a range of addresses.

    The word is opaque; the range is not kept, since no value depends on it.
    """
    return o.const(_POLICIES[str(o.i["primary"])], 64)


@instruction(
    "createpolicy.cvt.L2.b64 d, a;",
    types={"d": Op("u64", accepts="r"), "a": "u64"},
    order_free=True,
    unit="alu",
    ref="data-movement-and-conversion-instructions-createpolicy",
)
def createpolicy_cvt(o: Ops, a: Value) -> Value:
    """Turn an access property of the CUDA API into a cache policy, here the same word."""
    return a
