"""multimem: loads, stores and reductions through a multicast address of several GPUs. They bind; no run
has such an address."""

from __future__ import annotations

from typing import Any

from drywell.isa.declare import Check, Mods, Op, instruction
from drywell.isa.operand import address, loaded, stored
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


def _missing(i: Mods) -> str | None:
    return "multimem needs a multicast address of several GPUs, and Drywell runs one"


def _refuse(m: Any) -> None:
    m.fault("UNSUPPORTED", str(_missing(m)))


def _element(op: Op, accepts: str) -> Op:
    return Op(op.type, count=op.count, accepts=accepts)


_COMMON: dict[str, Any] = {
    "order_free": True,
    "unit": "mem",
    "lane": False,
    "since": (8, 1),
    "targets": (),
    "unsupported": _missing,
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
def multimem_ld_reduce(m: Any, i: Mods, a: Any) -> None:
    """Load from every replica of a multicast address and return the values combined."""
    _refuse(m)


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
def multimem_st(m: Any, i: Mods, a: Any, b: Any) -> None:
    """Store to every replica of a multicast address."""
    _refuse(m)


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
    ref="data-movement-and-conversion-instructions-multimem",
    **_COMMON,
)
def multimem_red(m: Any, i: Mods, a: Any, b: Any) -> None:
    """Combine a value into every replica of a multicast address."""
    _refuse(m)
