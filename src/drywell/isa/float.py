"""Floating-point arithmetic in f32, f64, f32x2 and mixed: add, sub, mul, fma, mad, div, signs, order.

One rounding from the exact result, nearest even unless written. `.ftz` flushes subnormal operands
and results to the zero of their sign, `.sat` clamps the result to [+0, 1] (NaN to +0). NaN results
are canonical.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.element import (
    by_element,
    canonical_nan,
    constants_not_packed,
    element_format,
    flushed,
    is_nan,
    options,
)
from drywell.isa.ops import Ops, Value
from drywell.isa.rules import when
from drywell.numerics.formats import FORMATS

_REF = "floating-point-instructions-"
_MIXED_REF = "mixed-precision-floating-point-instructions-"
_ROUNDINGS = "rn rz rm rp"

declare = partial(instruction, unit="fma", order_free=True)

_SINGLE_ONLY = (when("ftz", "ftz", type="f32 f32x2"), when("sat", "sat", type="f32"))
_AB: dict[str, TypeRule] = {"a": constants_not_packed(), "b": constants_not_packed()}
_ABC: dict[str, TypeRule] = {**_AB, "c": constants_not_packed()}


def opposite(o: Ops, fmt: str, a: Value) -> Value:
    """Flip the sign bit, a NaN's too."""
    return o.xor(a, o.const(FORMATS[fmt].sign_mask, FORMATS[fmt].container_bits))


def magnitude(o: Ops, fmt: str, a: Value) -> Value:
    """Clear the sign bit, a NaN's too."""
    return o.and_(a, o.const(FORMATS[fmt].magnitude_mask, FORMATS[fmt].container_bits))


def silenced(o: Ops, fmt: str, a: Value) -> Value:
    """Return what instructions make of a NaN `a`: the canonical one, in f64 the same one made quiet.

    MEASURED: neg, abs, min and max, H200; PTX leaves the payload open.
    """
    return o.or_(a, o.const(1 << 51, 64)) if fmt == "f64" else canonical_nan(o, fmt)


def without_nan(o: Ops, fmt: str, a: Value, result: Value) -> Value:
    """Return `result` where `a` is a number, else what becomes of the NaN."""
    return o.select(is_nan(o, fmt, a), silenced(o, fmt, a), result)


def negated(o: Ops, fmt: str, a: Value) -> Value:
    """Flip the sign of a number; a NaN keeps its own."""
    return without_nan(o, fmt, a, opposite(o, fmt, a))


def subtracted(o: Ops, fmt: str, a: Value, b: Value) -> Value:
    """Return a - b as the modifiers say; the sign of a NaN b matters in f64 only."""
    minus_b = negated(o, fmt, b) if fmt == "f64" else opposite(o, fmt, b)
    return o.fadd(fmt, a, minus_b, **options(o))


# ---------------------------------------------------------------- add, sub, mul, fma


@declare(
    "add{.rnd}{.ftz}{.sat}.type d, a, b;",
    rnd=_ROUNDINGS,
    ftz="ftz",
    sat="sat",
    type="f32 f64 f32x2",
    types=_AB,
    checks=_SINGLE_ONLY,
    ref=_REF + "add",
)
def add(o: Ops, a: Value, b: Value) -> Value:
    """Add; f32x2 adds its two halves."""
    return by_element(o, lambda x, y: o.fadd(element_format(o), x, y, **options(o)), a, b)


@declare(
    "sub{.rnd}{.ftz}{.sat}.type d, a, b;",
    rnd=_ROUNDINGS,
    ftz="ftz",
    sat="sat",
    type="f32 f64 f32x2",
    types=_AB,
    checks=_SINGLE_ONLY,
    ref=_REF + "sub",
)
def sub(o: Ops, a: Value, b: Value) -> Value:
    """Subtract b from a; f32x2 subtracts its two halves."""
    return by_element(o, lambda x, y: subtracted(o, element_format(o), x, y), a, b)


@declare(
    "mul{.rnd}{.ftz}{.sat}.type d, a, b;",
    rnd=_ROUNDINGS,
    ftz="ftz",
    sat="sat",
    type="f32 f64 f32x2",
    types=_AB,
    checks=_SINGLE_ONLY,
    ref=_REF + "mul",
)
def mul(o: Ops, a: Value, b: Value) -> Value:
    """Multiply; f32x2 multiplies its two halves."""
    return by_element(o, lambda x, y: o.fmul(element_format(o), x, y, **options(o)), a, b)


@declare(
    "fma.rnd{.ftz}{.sat}.type d, a, b, c;",
    rnd=_ROUNDINGS,
    ftz="ftz",
    sat="sat",
    type="f32 f64 f32x2",
    types=_ABC,
    checks=_SINGLE_ONLY,
    since=(1, 4),
    ref=_REF + "fma",
)
def fma(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Multiply a and b and add c with a single rounding; f32x2 does so for its two halves."""
    return by_element(o, lambda x, y, z: o.ffma(element_format(o), x, y, z, **options(o)), a, b, c)


@declare(
    "mad.rnd{.ftz}{.sat}.type d, a, b, c;",
    rnd=_ROUNDINGS,
    ftz="ftz",
    sat="sat",
    type="f32 f64",
    checks=[when("ftz", "ftz", type="f32"), when("sat", "sat", type="f32")],
    ref=_REF + "mad",
)
def mad(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Multiply a and b and add c with a single rounding: the same as fma on this target."""
    return o.ffma(element_format(o), a, b, c, **options(o))


# ---------------------------------------------------------------- mixed precision


def _narrow(name: str) -> TypeRule:
    """Return the rule of a half operand, slot `name`; bf16 lies in integer registers."""
    return lambda i: Op("u16" if i[name] == "bf16" else "f16")


_MIXED: dict[str, TypeRule] = {"d": "f32", "a": _narrow("atype"), "c": "f32"}


@declare(
    "add{.rnd}{.sat}.f32.atype d, a, c;",
    rnd=_ROUNDINGS,
    sat="sat",
    f32="f32",
    atype="f16 bf16",
    types=_MIXED,
    since=(8, 6),
    ref=_MIXED_REF + "add",
)
def add_mixed(o: Ops, a: Value, c: Value) -> Value:
    """Add a half a, taken as f32, and an f32 c."""
    return o.fadd("f32", o.fconvert(str(o.i["atype"]), "f32", a), c, **options(o))


@declare(
    "sub{.rnd}{.sat}.f32.atype d, a, c;",
    rnd=_ROUNDINGS,
    sat="sat",
    f32="f32",
    atype="f16 bf16",
    types=_MIXED,
    since=(8, 6),
    ref=_MIXED_REF + "sub",
)
def sub_mixed(o: Ops, a: Value, c: Value) -> Value:
    """Subtract an f32 c from a half a, taken as f32."""
    return subtracted(o, "f32", o.fconvert(str(o.i["atype"]), "f32", a), c)


@declare(
    "fma.rnd{.sat}.f32.abtype d, a, b, c;",
    rnd=_ROUNDINGS,
    sat="sat",
    f32="f32",
    abtype="f16 bf16",
    types={"d": "f32", "a": _narrow("abtype"), "b": _narrow("abtype"), "c": "f32"},
    since=(8, 6),
    ref=_MIXED_REF + "fma",
)
def fma_mixed(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Multiply two halves and add an f32 c, with a single rounding to f32."""
    x, y = (o.fconvert(str(o.i["abtype"]), "f32", v) for v in (a, b))
    return o.ffma("f32", x, y, c, **options(o))


# ---------------------------------------------------------------- div


@declare(
    "div.rnd{.ftz}.type d, a, b;",
    rnd=_ROUNDINGS,
    ftz="ftz",
    type="f32 f64",
    checks=[when("ftz", "ftz", type="f32")],
    since=(1, 4),
    ref=_REF + "div",
)
def div(o: Ops, a: Value, b: Value) -> Value:
    """Divide a by b, rounded once; a finite number by zero is infinite, 0/0 is NaN."""
    return o.fdiv(element_format(o), a, b, **options(o))


# ---------------------------------------------------------------- sign and order


@declare(
    "abs{.ftz}.type d, a;",
    ftz="ftz",
    type="f32 f64",
    checks=[when("ftz", "ftz", type="f32")],
    ref=_REF + "abs",
)
def abs_(o: Ops, a: Value) -> Value:
    """Clear the sign; a NaN becomes canonical, in f64 it keeps sign and payload."""
    fmt = element_format(o)
    return without_nan(o, fmt, a, magnitude(o, fmt, flushed(o, fmt, a)))


@declare(
    "neg{.ftz}.type d, a;",
    ftz="ftz",
    type="f32 f64",
    checks=[when("ftz", "ftz", type="f32")],
    ref=_REF + "neg",
)
def neg(o: Ops, a: Value) -> Value:
    """Flip the sign; a NaN becomes canonical, in f64 it keeps sign and payload."""
    return negated(o, element_format(o), flushed(o, element_format(o), a))


@declare("copysign.type d, a, b;", type="f32 f64", since=(2, 0), ref=_REF + "copysign")
def copysign(o: Ops, a: Value, b: Value) -> Value:
    """Return b with the sign of a."""
    fmt = element_format(o)
    sign = o.and_(a, o.const(FORMATS[fmt].sign_mask, o.width))
    return o.or_(sign, magnitude(o, fmt, b))


def pick(o: Ops, fmt: str, a: Value, b: Value, is_maximum: bool) -> Value:
    """Return the smaller or larger of two floats, -0 below +0; a NaN loses, with `.NaN` it wins.

    `.xorsign.abs` compares magnitudes and gives the result the exclusive or of the two signs. Two
    NaNs give the canonical one, in f64 the second.
    """
    a, b = flushed(o, fmt, a), flushed(o, fmt, b)
    sign = None
    if o.i.get("xorsign"):
        sign = o.and_(o.xor(a, b), o.const(FORMATS[fmt].sign_mask, FORMATS[fmt].container_bits))
    if o.i.get("abs"):
        a, b = magnitude(o, fmt, a), magnitude(o, fmt, b)
    is_less, is_equal, is_unordered = o.fcmp(fmt, a, b)
    chosen = o.select(is_less, b, a) if is_maximum else o.select(is_less, a, b)
    zeros: Callable[[Value, Value], Value] = o.and_ if is_maximum else o.or_
    chosen = o.select(is_equal, zeros(a, b), chosen)
    if sign is not None:
        chosen = o.or_(chosen, sign)
    if o.i.get("NaN"):
        return o.select(is_unordered, canonical_nan(o, fmt), chosen)
    number = o.select(is_nan(o, fmt, a), b, a)
    if sign is not None:
        number = o.or_(number, sign)
    return o.select(is_unordered, without_nan(o, fmt, number, number), chosen)


def pick_of_three(o: Ops, fmt: str, a: Value, b: Value, c: Value | None, is_maximum: bool) -> Value:
    """Return the smallest or largest of two or three floats."""
    first = pick(o, fmt, a, b, is_maximum)
    return first if c is None else pick(o, fmt, first, c, is_maximum)


def _third(i: Mods) -> Op | None:
    """Return the rule of an optional third operand: only f32 has one."""
    return Op("f32") if i["type"] == "f32" else None


_MIN_MAX = partial(declare, unit="alu", ftz="ftz", NaN="NaN")
_WITH_THIRD = partial(
    _MIN_MAX,
    type="f32 f64",
    types={"c": _third},
    checks=[when("ftz", "ftz", type="f32"), when("NaN", "NaN", type="f32")],
)
_F32: dict[str, TypeRule] = dict.fromkeys("dab", "f32")


@_WITH_THIRD("min{.ftz}{.NaN}.type d, a, b{, c};", ref=_REF + "min")
@_MIN_MAX(
    "min{.ftz}{.NaN}.abs.f32 d, a, b, c;",
    abs="abs",
    types={**_F32, "c": "f32"},
    since=(8, 8),
    ref=_REF + "min",
)
@_MIN_MAX(
    "min{.ftz}{.NaN}.xorsign.abs.f32 d, a, b;",
    xorsign="xorsign",
    abs="abs",
    types=_F32,
    since=(7, 2),
    ref=_REF + "min",
)
def min_(o: Ops, a: Value, b: Value, c: Value | None = None) -> Value:
    """Return the smallest of two or three floats, -0 below +0.

    A NaN loses against a number, with `.NaN` it wins; `.abs` compares magnitudes, `.xorsign.abs`
    magnitudes with the exclusive or of the signs on the result.
    """
    return pick_of_three(o, "f64" if o.width == 64 else "f32", a, b, c, False)


@_WITH_THIRD("max{.ftz}{.NaN}.type d, a, b{, c};", ref=_REF + "max")
@_MIN_MAX(
    "max{.ftz}{.NaN}.abs.f32 d, a, b, c;",
    abs="abs",
    types={**_F32, "c": "f32"},
    since=(8, 8),
    ref=_REF + "max",
)
@_MIN_MAX(
    "max{.ftz}{.NaN}.xorsign.abs.f32 d, a, b;",
    xorsign="xorsign",
    abs="abs",
    types=_F32,
    since=(7, 2),
    ref=_REF + "max",
)
def max_(o: Ops, a: Value, b: Value, c: Value | None = None) -> Value:
    """Return the largest of two or three floats, -0 below +0; NaN, `.abs` and `.xorsign.abs` as for min."""
    return pick_of_three(o, "f64" if o.width == 64 else "f32", a, b, c, True)
