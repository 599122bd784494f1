"""Reciprocals, roots, transcendental functions and approximate division.

ASSUMED: the approximate ones (`.approx`, `.full`) give the float nearest to the exact value. The
manual only bounds their error; the hardware's own bits are not public.
"""

from __future__ import annotations

from functools import partial

from drywell.isa.declare import Mods, Problem, instruction
from drywell.isa.element import by_element, constants_not_packed, element_format, one, options, zero
from drywell.isa.float import magnitude
from drywell.isa.ops import Ops, Value
from drywell.isa.rules import when
from drywell.numerics.formats import FORMATS

_REF = "floating-point-instructions-"
_HALF_REF = "half-precision-floating-point-instructions-"
_ROUNDINGS = "rn rz rm rp"

declare = partial(instruction, unit="mufu", order_free=True)


def _flushes(o: Ops) -> bool:
    return o.i.get("ftz") is not None


def _function(o: Ops, name: str, a: Value) -> Value:
    """Apply an approximate function to each element of slot `type`."""
    return by_element(o, lambda x: o.approx(name, element_format(o), x, _flushes(o)), a)


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
        return _function(o, "rcp", a)
    fmt = element_format(o)
    flushes = fmt == "f32" and _flushes(
        o
    )  # MEASURED: `ptxas` takes rcp.rn.ftz.f64, and nothing is flushed (H200)
    return o.fdiv(fmt, o.const(one(fmt), o.width), a, str(o.i["rnd"]), flushes)


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
    return _function(o, "sqrt", a) if o.i["rnd"] == "approx" else o.fsqrt(element_format(o), a, **options(o))


@declare("rsqrt.approx{.ftz}.type d, a;", approx="approx", ftz="ftz", type="f32 f64", ref=_REF + "rsqrt")
def rsqrt(o: Ops, a: Value) -> Value:
    """Return 1 / sqrt(a) approximately; infinite for zeros, NaN below.

    `.ftz.f64` reads and makes only the upper 32 bits; without `.ftz` f64 has its whole precision.
    """
    if o.width == 64 and not _flushes(o):
        return o.fdiv("f64", o.const(one("f64"), 64), o.fsqrt("f64", a))
    return _function(o, "rsqrt", a)


# ---------------------------------------------------------------- transcendental functions

_single = partial(declare, approx="approx", ftz="ftz", type="f32")


@_single("sin.approx{.ftz}.type d, a;", ref=_REF + "sin")
def sin(o: Ops, a: Value) -> Value:
    """Return the sine of a (radians) approximately; NaN for infinities."""
    return _function(o, "sin", a)


@_single("cos.approx{.ftz}.type d, a;", ref=_REF + "cos")
def cos(o: Ops, a: Value) -> Value:
    """Return the cosine of a (radians) approximately; NaN for infinities."""
    return _function(o, "cos", a)


@_single("lg2.approx{.ftz}.type d, a;", ref=_REF + "lg2")
def lg2(o: Ops, a: Value) -> Value:
    """Return the base-2 logarithm of a approximately; -Inf for zeros, NaN below."""
    return _function(o, "lg2", a)


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
    return _function(o, "ex2", a)


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
    return _function(o, "tanh", a)


# ---------------------------------------------------------------- approximate division

_division = partial(declare, mode="approx full", ftz="ftz", type="f32", since=(1, 4), ref=_REF + "div")


@_division("div.mode{.ftz}.type d, a, b;")
def div_approximate(o: Ops, a: Value, b: Value) -> Value:
    """Divide a by b approximately. `.full` has the whole range of b.

    `.approx` gives 0 of the quotient's sign, or NaN for an infinite a, where 2^126 < |b| < Inf.
    """
    quotient = o.fdiv("f32", a, b, "rn", _flushes(o))
    if o.i["mode"] == "full":
        return quotient
    size = magnitude(o, "f32", b)
    is_beyond = o.and_(
        o.ult(o.const((126 + 127) << 23, 32), size), o.ult(size, o.const(FORMATS["f32"].infinity, 32))
    )
    sign = o.and_(b, o.const(FORMATS["f32"].sign_mask, 32))
    vanished = o.fmul("f32", a, o.or_(sign, zero(o, b)), "rn", _flushes(o))
    return o.select(is_beyond, vanished, quotient)
