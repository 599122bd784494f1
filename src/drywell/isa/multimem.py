"""multimem: loads, stores and reductions through an address that stands for one location on each of
several GPUs.

ASSUMED: Drywell models one GPU, so every array in device memory counts as a multicast object whose only
member that GPU is: a load finds one replica and combines nothing, a store and a reduction reach that one.
Hardware needs an address made by `cuMulticastCreate`; here an ordinary one will do. Source of the rules:
PTX ISA, multimem.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.isa.atomic import Bytes, as_bytes, combined
from drywell.isa.declare import Check, Mods, Op, instruction
from drywell.isa.operand import VECTOR, address, loaded, stored
from drywell.isa.ops import Ops, Value
from drywell.isa.place import order_of
from drywell.isa.rules import rule, when

_SCOPES = "cta cluster gpu sys"
_FP8 = "e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4"
_HALVES = "f16 bf16 f16x2 bf16x2"
_ALONE = "b32 b64 u32 u64 s32 s64 f64"
_OPS = "add min max and or xor"

#: Widths of a vector that each type has: the whole is at most 128 bits and at least 32. Source: tried,
# ptxas 13.0.
_VECTORS = (
    ("f32", "- v2 v4"),
    ("f16 bf16", "v2 v4 v8"),
    ("f16x2 bf16x2 e4m3x4 e5m2x4", "- v2 v4"),
    ("e4m3x2 e5m2x2", "v2 v4 v8"),
    ("e4m3 e5m2", "v4 v8"),
    (_ALONE, "-"),
)
_SHAPES: tuple[Check, ...] = tuple(when("type", types, vec=vec) for types, vec in _VECTORS)
_ORDER = (when("sem", "- weak", scope="-"), when("sem", "relaxed acquire release", scope=_SCOPES))


def _arithmetic(halves: str) -> tuple[Check, ...]:
    """Return which types each operation has; `halves` are the small formats it takes."""
    return (
        when("op", "add", type=f"u32 u64 s32 f32 f64 {halves}"),
        when("op", "min max", type=f"u32 u64 s32 s64 {halves}"),
        when("op", "and or xor", type="b32 b64"),
    )


def _element(op: Op, accepts: str) -> Op:
    return Op(op.type, count=op.count, accepts=accepts)


_COMMON: dict[str, Any] = {
    "order_free": True,
    "unit": "mem",
    "since": (8, 1),
}


@instruction(
    "multimem.ld_reduce{.sem}{.scope}{.space}.op{.acc}{.vec}.type d, [a];",
    sem="weak relaxed acquire",
    scope=_SCOPES,
    space="global",
    op=_OPS,
    acc="acc::f32 acc::f16",
    vec="v2 v4 v8",
    type=f"{_ALONE} f32 {_HALVES} {_FP8}",
    types={"d": lambda i: _element(loaded(i), "r_" if i["vec"] else "r"), "a": address()},
    checks=[
        *_ORDER,
        *_SHAPES,
        *_arithmetic(f"{_HALVES} {_FP8}"),
        when("acc", "acc::f32", op="add", type=_HALVES),
        when("acc", "acc::f16", op="add", type=_FP8),
    ],
    ref="data-movement-and-conversion-instructions-multimem",
    **_COMMON,
)
def multimem_ld_reduce(o: Ops, a: Value) -> Value | list[Value]:
    """Load from every replica of a multicast address and return the values combined.

    There is one replica, so its bits come back as they are, in whatever precision they would have been
    combined. Faults where the address is not a multiple of the whole access or lies outside global memory.
    """
    values = o.load("global", a, o.width, VECTOR[o.i["vec"]])
    return values if o.i["vec"] else values[0]


@instruction(
    "multimem.st{.sem}{.scope}{.space}{.vec}.type [a], b;",
    sem="weak relaxed release",
    scope=_SCOPES,
    space="global",
    vec="v2 v4 v8",
    type=f"{_ALONE} f32 {_HALVES} {_FP8}",
    types={"b": lambda i: _element(stored(i), "ri"), "a": address()},
    checks=[*_ORDER, *_SHAPES],
    ref="data-movement-and-conversion-instructions-multimem",
    **_COMMON,
)
def multimem_st(o: Ops, a: Value, b: Value | tuple[Value, ...]) -> None:
    """Store to every replica of a multicast address: here one.

    Faults as the load does.
    """
    o.store("global", a, list(b) if isinstance(b, tuple) else [b])


@instruction(
    "multimem.red{.sem}{.scope}{.space}.op{.vec}.type [a], b;",
    sem="relaxed release",
    scope=_SCOPES,
    space="global",
    op=_OPS,
    vec="v2 v4 v8",
    type=f"{_ALONE} f32 {_HALVES}",
    types={"b": lambda i: _element(stored(i), "ri"), "a": address()},
    checks=[
        *_ORDER,
        *_SHAPES,
        *_arithmetic(_HALVES),
        rule(
            "op: min max",
            f"type: {_HALVES}",
            "vec: -",
            reason="minimum and maximum of halves exist only as vectors",
            hint="write .v2, .v4 or (of f16 and bf16) .v8",
            at="op",
        ),
    ],
    lane=False,
    ref="data-movement-and-conversion-instructions-multimem",
    **_COMMON,
)
def multimem_red(m: Any, i: Mods, a: Any, b: Any) -> None:
    """Combine a value into every replica of a multicast address: here `red.global` at that address.

    A vector's elements are separate atomics. Faults as the load does.
    """
    data = as_bytes(b)

    def step(old: Bytes, lanes: NDArray[np.bool_]) -> Bytes:
        return combined(str(i["op"]), str(i["type"]), old, data)

    m.update("global", a, data.shape[1], step, order=order_of(i, "relaxed"))
