"""Reciprocals, roots, transcendental functions and approximate division.

The approximate ones (`.approx`, `.full`) give Hopper's bits: the multifunction unit's (numerics/mufu.py), and
around it the instructions that `ptxas` 13.0 emits, for sm_90a and sm_100a alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from drywell.isa.declare import Mods, Problem, instruction
from drywell.isa.element import (
    by_element,
    constants_not_packed,
    element_format,
    is_nan,
    one,
    options,
    zero,
)
from drywell.isa.float import magnitude
from drywell.isa.ops import Ops, Value
from drywell.isa.rules import when
from drywell.numerics.formats import FORMATS
from drywell.numerics.rounding import rounding_named

_REF = "floating-point-instructions-"
_HALF_REF = "half-precision-floating-point-instructions-"
_ROUNDINGS = "rn rz rm rp"

declare = partial(instruction, unit="mufu", order_free=True)


def _flushes(o: Ops) -> bool:
    return o.i.get("ftz") is not None


def power_of_two(fmt: str, exponent: int) -> int:
    """Return the code of a normal power of two.

    >>> hex(power_of_two("f32", -1))
    '0x3f000000'
    """
    return (FORMATS[fmt].bias + exponent) << FORMATS[fmt].mantissa_bits


def _unit(o: Ops, name: str, a: Value) -> Value:
    """Ask the multifunction unit for each element of slot `type`."""
    return by_element(o, lambda x: o.mufu(name, element_format(o), x), a)


def _is_tiny(o: Ops, a: Value) -> Value:
    """Say where f32 codes are zeros or subnormal."""
    return o.ult(magnitude(o, "f32", a), o.const(1 << FORMATS["f32"].mantissa_bits, 32))


def _power(o: Ops, exponent: int) -> Value:
    return o.const(power_of_two("f32", exponent), 32)


def _scaled_up(o: Ops, name: str, a: Value, undo: Callable[[Value], Value]) -> Value:
    """Ask the unit, without .ftz for 2^24 a where a is subnormal, and `undo` that."""
    if _flushes(o):
        return o.mufu(name, "f32", a)
    is_tiny = _is_tiny(o, a)
    result = o.mufu(name, "f32", o.select(is_tiny, o.fmul("f32", a, _power(o, 24)), a))
    return o.select(is_tiny, undo(result), result)


# ---------------------------------------------------------------- rcp, sqrt, rsqrt


def approximate_f64_flushes(i: Mods) -> Problem | None:
    """Require .ftz of rcp.approx in f64: there is no other approximation."""
    if i["type"] == "f64" and i["rnd"] == "approx" and not i["ftz"]:
        return Problem(
            "'rcp.approx.f64' needs '.ftz'", "type", "it flushes subnormals", "write 'rcp.approx.ftz.f64'"
        )
    return None


@declare(
    "rcp.rnd{.ftz}.type d, a;",
    rnd=f"approx {_ROUNDINGS}",
    ftz="ftz",
    type="f32 f64",
    checks=[approximate_f64_flushes],
    ref=_REF + "rcp",
)
def rcp(o: Ops, a: Value) -> Value:
    """Return 1 / a, rounded once, or approximately with `.approx`; infinite for zeros.

    `.approx.ftz.f64` reads and makes only the upper 32 bits, the lower are 0.
    """
    if o.i["rnd"] == "approx":
        return o.mufu("rcp", element_format(o), a) if _flushes(o) else _scaled_rcp(o, a)
    fmt = element_format(o)
    flushes = fmt == "f32" and _flushes(
        o
    )  # MEASURED: `ptxas` takes rcp.rn.ftz.f64, and nothing is flushed (H200)
    return o.fdiv(fmt, o.const(one(fmt), o.width), a, rounding_named(o.i["rnd"]), flushes)


def _scaled_rcp(o: Ops, a: Value) -> Value:
    """Return 1 / a with a scaled where it is subnormal or its reciprocal is."""
    is_large = o.ult(_power(o, 126), magnitude(o, "f32", a))
    scale = o.select(_is_tiny(o, a), _power(o, 24), o.select(is_large, _power(o, -2), _power(o, 0)))
    return o.fmul("f32", o.mufu("rcp", "f32", o.fmul("f32", a, scale)), scale)


@declare(
    "sqrt.rnd{.ftz}.type d, a;",
    rnd=f"approx {_ROUNDINGS}",
    ftz="ftz",
    type="f32 f64",
    checks=[when("ftz", "ftz", type="f32"), when("rnd", "approx", type="f32")],
    ref=_REF + "sqrt",
)
def sqrt(o: Ops, a: Value) -> Value:
    """Return the square root of a, rounded once, or approximately with `.approx`; -0 for -0, NaN below."""
    if o.i["rnd"] != "approx":
        return o.fsqrt(element_format(o), a, **options(o))
    return _scaled_up(o, "sqrt", a, lambda y: o.fmul("f32", y, _power(o, -12)))


@declare("rsqrt.approx{.ftz}.type d, a;", approx="approx", ftz="ftz", type="f32 f64", ref=_REF + "rsqrt")
def rsqrt(o: Ops, a: Value) -> Value:
    """Return 1 / sqrt(a) approximately; infinite for zeros, NaN below.

    `.ftz.f64` reads and makes only the upper 32 bits; without `.ftz` one step refines that to 52 or 53.
    """
    if o.width == 64:
        return o.mufu("rsq", "f64", a) if _flushes(o) else _refined_rsqrt(o, a)
    return _scaled_up(o, "rsq", a, lambda y: o.fmul("f32", y, _power(o, 12)))


def _refined_rsqrt(o: Ops, a: Value) -> Value:
    """Return y + (3/8 e + 1/2) y e, where y is the unit's result and e = 1 - a y^2; specials apart."""
    f = FORMATS["f64"]
    sign, infinity = o.const(f.sign_mask, 64), o.const(f.infinity, 64)
    is_tiny = o.ult(a, o.const(1 << f.mantissa_bits, 64))
    x = o.select(is_tiny, o.fmul("f64", a, o.const(power_of_two("f64", 54), 64)), a)
    y = o.mufu("rsq", "f64", x)
    e = o.ffma("f64", o.xor(o.fmul("f64", y, y), sign), x, o.const(one("f64"), 64))
    factor = o.ffma("f64", e, o.const(0x3FD8000000000000, 64), o.const(power_of_two("f64", -1), 64))
    root = o.ffma("f64", factor, o.fmul("f64", y, e), y)
    root = o.select(is_tiny, o.fmul("f64", root, o.const(power_of_two("f64", 27), 64)), root)
    root = o.select(o.eq(a, infinity), zero(o, a), root)
    root = o.select(o.ult(infinity, a), o.const(0xFFF8000000000000, 64), root)
    root = o.select(o.eq(magnitude(o, "f64", a), zero(o, a)), o.or_(a, infinity), root)
    return o.select(is_nan(o, "f64", a), o.fadd("f64", a, a), root)


# ---------------------------------------------------------------- transcendental functions


def _turns(o: Ops, a: Value) -> Value:
    """Return an angle of a radians in turns: times the f32 next to 1/(2 pi), toward zero."""
    return o.fmul("f32", a, o.const(0x3E22F983, 32), "rz")


_single = partial(declare, approx="approx", ftz="ftz", type="f32")


@_single("sin.approx{.ftz}.type d, a;", ref=_REF + "sin")
def sin(o: Ops, a: Value) -> Value:
    """Return the sine of a (radians) approximately; NaN for infinities, poor for large a."""
    return o.mufu("sin", "f32", _turns(o, a))


@_single("cos.approx{.ftz}.type d, a;", ref=_REF + "cos")
def cos(o: Ops, a: Value) -> Value:
    """Return the cosine of a (radians) approximately; NaN for infinities, poor for large a."""
    return o.mufu("cos", "f32", _turns(o, a))


@_single("lg2.approx{.ftz}.type d, a;", ref=_REF + "lg2")
def lg2(o: Ops, a: Value) -> Value:
    """Return the base-2 logarithm of a approximately; -Inf for zeros, NaN below."""
    return _scaled_up(o, "lg2", a, lambda y: o.fadd("f32", y, o.const(0xC1C00000, 32)))  # - 24


@_single("ex2.approx{.ftz}.type d, a;", ref=_REF + "ex2")
@declare(
    "ex2.approx.type d, a;",
    approx="approx",
    type="f16 f16x2",
    types={"a": constants_not_packed()},
    since=(7, 0),
    ref=_HALF_REF + "ex2",
)
@declare(
    "ex2.approx.ftz.type d, a;",
    approx="approx",
    ftz="ftz",
    type="bf16 bf16x2",
    types={"a": constants_not_packed()},
    since=(7, 8),
    ref=_HALF_REF + "ex2",
)
def ex2(o: Ops, a: Value) -> Value:
    """Return 2 to the power a approximately; +0 for -Inf."""
    if o.i.get("type") != "f32" or _flushes(o):
        return _unit(o, "ex2", a)
    is_low, _, _ = o.fcmp("f32", a, o.const(0xC2FC0000, 32))  # below -126 the result is subnormal
    root = o.mufu("ex2", "f32", o.select(is_low, o.fmul("f32", a, _power(o, -1)), a))
    return o.select(is_low, o.fmul("f32", root, root), root)


@declare("tanh.approx.type d, a;", approx="approx", type="f32", since=(7, 0), ref=_REF + "tanh")
@declare(
    "tanh.approx.type d, a;",
    approx="approx",
    type="f16 f16x2 bf16 bf16x2",
    types={"a": constants_not_packed()},
    since=(7, 0),
    ref=_HALF_REF + "tanh",
)
def tanh(o: Ops, a: Value) -> Value:
    """Return the hyperbolic tangent of a approximately."""
    return _unit(o, "tanh", a)


# ---------------------------------------------------------------- approximate division

_division = partial(declare, mode="approx full", ftz="ftz", type="f32", since=(1, 4), ref=_REF + "div")


@_division("div.mode{.ftz}.type d, a, b;")
def div_approximate(o: Ops, a: Value, b: Value) -> Value:
    """Multiply a by the unit's 1 / b. `.full` has the whole range of b.

    `.approx` gives 0 of the quotient's sign, or NaN for an infinite a, where 2^126 < |b| < Inf. Both are
    scaled first where |b| is subnormal and not flushed, and with `.full` where it is beyond 2^126.
    """
    flushes, is_full = _flushes(o), o.i["mode"] == "full"
    scale = _power(o, 0) if flushes else o.select(_is_tiny(o, b), _power(o, 24), _power(o, 0))
    if is_full:
        scale = o.select(o.ult(_power(o, 126), magnitude(o, "f32", b)), _power(o, -2), scale)
    if is_full or not flushes:
        a, b = (o.fmul("f32", x, scale, "rn", flushes) for x in (a, b))
    return o.fmul("f32", a, o.mufu("rcp", "f32", b), "rn", flushes)
