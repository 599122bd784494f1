"""Half-precision arithmetic: add, sub, mul, fma, neg, abs, min, max in f16, f16x2, bf16 and bf16x2.

As in `float`: one rounding, canonical NaNs. Packed types work on their two halves apart.
"""

from __future__ import annotations

from functools import partial

from drywell.isa.declare import Mods, Problem, TypeRule, instruction
from drywell.isa.element import (
    by_element,
    clear_negative,
    constants_not_packed,
    element_format,
    flushed,
    options,
    zero,
)
from drywell.isa.float import magnitude, negated, pick, subtracted, without_nan
from drywell.isa.ops import Ops, Value
from drywell.isa.rules import when

_REF = "half-precision-floating-point-instructions-"
_TYPES = "f16 f16x2 bf16 bf16x2"
_F16 = "f16 f16x2"

declare = partial(instruction, unit="fma", order_free=True, type=_TYPES, since=(4, 2))

_AB: dict[str, TypeRule] = {"a": constants_not_packed(), "b": constants_not_packed()}
_ABC: dict[str, TypeRule] = {**_AB, "c": constants_not_packed()}
_F16_ONLY = (when("ftz", "ftz", type=_F16), when("sat", "sat", type=_F16))


def halves_round_to_nearest(i: Mods) -> Problem | None:
    """Require no rounding or .rn: sums and products of halves have no other."""
    if i["rnd"] in (None, "rn"):
        return None
    return Problem(
        f"'.{i['rnd']}' is not allowed with '.{i['type']}'", "rnd", "it rounds to nearest even", "write '.rn'"
    )


_arithmetic = partial(
    declare, rnd="rn rz rm rp", ftz="ftz", sat="sat", types=_AB, checks=[*_F16_ONLY, halves_round_to_nearest]
)


@_arithmetic("add{.rnd}{.ftz}{.sat}.type d, a, b;", ref=_REF + "add")
def add(o: Ops, a: Value, b: Value) -> Value:
    """Add, rounding to nearest even."""
    return by_element(o, lambda x, y: o.fadd(element_format(o), x, y, **options(o)), a, b)


@_arithmetic("sub{.rnd}{.ftz}{.sat}.type d, a, b;", ref=_REF + "sub")
def sub(o: Ops, a: Value, b: Value) -> Value:
    """Subtract b from a, rounding to nearest even."""
    return by_element(o, lambda x, y: subtracted(o, element_format(o), x, y), a, b)


@_arithmetic("mul{.rnd}{.ftz}{.sat}.type d, a, b;", ref=_REF + "mul")
def mul(o: Ops, a: Value, b: Value) -> Value:
    """Multiply, rounding to nearest even."""
    return by_element(o, lambda x, y: o.fmul(element_format(o), x, y, **options(o)), a, b)


# ---------------------------------------------------------------- fma


def fma_modifiers_agree(i: Mods) -> Problem | None:
    """Require at most one of .sat and .relu, and .oob without .ftz."""
    if i["sat"] and i["relu"]:
        return Problem(
            "'.sat' and '.relu' both clamp the result", "relu", "'.sat' is there already", "keep one of them"
        )
    if i["oob"] and i["ftz"]:
        return Problem("'.oob' does not go with '.ftz'", "ftz", "'.oob' excludes it", "leave one of them out")
    return None


def rounding_exists(i: Mods) -> Problem | None:
    """Require nearest even of f16; bf16 has all four roundings (`ptxas` 13.0; the manual has only `.rn`)."""
    if i["rnd"] == "rn" or str(i["type"]).startswith("bf16"):
        return None
    return Problem(
        f"'.{i['rnd']}' is not allowed with '.{i['type']}'",
        "rnd",
        "f16 rounds to nearest even",
        "write '.rn'",
    )


def bf16_rounds_to_nearest(i: Mods) -> str | None:
    """Say that the roundings of bf16 which only `ptxas` has cannot be executed.

    MEASURED: ptxas 13.0 assembles them, but an H200 then gives numbers that are no rounding of a *
    b + c.
    """
    if i["rnd"] == "rn":
        return None
    spelling = f"fma.{i['rnd']}.{i['type']}"
    return f"{spelling} is not PTX: ptxas takes it, but the hardware computes something else"


def _is_out_of_bounds(o: Ops, a: Value) -> Value:
    """Say where a half is the NaN that tensor loads fill out-of-bounds elements with.

    MEASURED: 0x7ff7 of either sign, for f16 and bf16, as a or b but not as c (H200, all codes
    tried).
    """
    return o.eq(o.and_(a, o.const(0x7FFF, 16)), o.const(0x7FF7, 16))


@declare(
    "fma.rnd{.ftz}{.sat}{.relu}{.oob}.type d, a, b, c;",
    rnd="rn rz rm rp",
    ftz="ftz",
    sat="sat",
    relu="relu",
    oob="oob",
    types=_ABC,
    checks=[*_F16_ONLY, fma_modifiers_agree, rounding_exists],
    unsupported=bf16_rounds_to_nearest,
    ref=_REF + "fma",
)
def fma(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Multiply a and b and add c with a single rounding.

    `.relu` clamps negative results to +0 and makes NaN canonical; `.oob` gives +0 where a or b is
    the out-of-bounds NaN.
    """
    fmt = element_format(o)

    def half(x: Value, y: Value, z: Value) -> Value:
        result = o.ffma(fmt, x, y, z, **options(o))
        if o.i["relu"]:
            result = clear_negative(o, fmt, result)
        if o.i["oob"]:
            result = o.select(o.or_(_is_out_of_bounds(o, x), _is_out_of_bounds(o, y)), zero(o, x), result)
        return result

    return by_element(o, half, a, b, c)


# ---------------------------------------------------------------- sign and order

_signs = partial(
    declare, ftz="ftz", types={"a": constants_not_packed()}, checks=[when("ftz", "ftz", type=_F16)]
)


@_signs("neg{.ftz}.type d, a;", ref=_REF + "neg")
def neg(o: Ops, a: Value) -> Value:
    """Flip the sign; a NaN becomes canonical."""
    fmt = element_format(o)
    return by_element(o, lambda x: negated(o, fmt, flushed(o, fmt, x)), a)


@_signs("abs{.ftz}.type d, a;", ref=_REF + "abs")
def abs_(o: Ops, a: Value) -> Value:
    """Clear the sign; a NaN becomes canonical."""
    fmt = element_format(o)
    return by_element(o, lambda x: without_nan(o, fmt, x, magnitude(o, fmt, flushed(o, fmt, x))), a)


_orders = partial(
    declare,
    unit="alu",
    ftz="ftz",
    NaN="NaN",
    xorsign="xorsign",
    abs="abs",
    types=_AB,
    checks=[when("ftz", "ftz", type=_F16)],
)


@_orders("min{.ftz}{.NaN}{.xorsign.abs}.type d, a, b;", ref=_REF + "min")
def min_(o: Ops, a: Value, b: Value) -> Value:
    """Return the smaller of a and b, -0 below +0; a NaN loses, with `.NaN` it wins.

    `.xorsign.abs` compares magnitudes and puts the exclusive or of the signs on the result.
    """
    return by_element(o, lambda x, y: pick(o, element_format(o), x, y, False), a, b)


@_orders("max{.ftz}{.NaN}{.xorsign.abs}.type d, a, b;", ref=_REF + "max")
def max_(o: Ops, a: Value, b: Value) -> Value:
    """Return the larger of a and b, -0 below +0; NaN and `.xorsign.abs` as for min."""
    return by_element(o, lambda x, y: pick(o, element_format(o), x, y, True), a, b)
