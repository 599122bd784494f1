"""Conversions of one value: cvt between integers, between floats, from one to the other, and to tf32.

Integers are extended as the source's sign says or cut off; `.sat` clamps them. Floats become
integers with clamping always. A destination register may be wider than its type: the result is
extended as that type says. Source registers may be wider too: their low bits count. Packed results
are in `packed`.
"""

from __future__ import annotations

from functools import partial

from drywell.base.dtypes import TYPES, PtxType
from drywell.isa.declare import Mods, Op, Problem, TypeRule, instruction
from drywell.isa.element import canonical_nan, clear_negative, is_nan
from drywell.isa.ops import Ops, Value
from drywell.isa.rules import when
from drywell.numerics.rounding import rounding_named

_REF = "data-movement-and-conversion-instructions-cvt"
_INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64"
_FLOATS = "f16 bf16 f32 f64"
_ROUNDINGS = "rn rz rm rp"
_TO_INTEGRAL = "rni rzi rmi rpi"

declare = partial(instruction, unit="alu", order_free=True, ref=_REF)


def converted_to(i: Mods) -> Op:
    """Return the destination: a register as wide as slot `dtype` or, without bf16, wider."""
    return Op(str(i["dtype"]), accepts="r", is_relaxed="bf16" not in (i["dtype"], i["atype"]))


def converted_from(i: Mods) -> Op:
    """Return the source: a constant, or a register as wide as slot `atype` or, without bf16, wider."""
    return Op(str(i["atype"]), is_relaxed="bf16" not in (i["dtype"], i["atype"]))


def integer_from(i: Mods) -> Op:
    """Return the source of an integer conversion: also a special register."""
    return Op(str(i["atype"]), accepts="riv", is_relaxed=True)


_TYPES: dict[str, TypeRule] = {"d": converted_to, "a": converted_from}

# ---------------------------------------------------------------- integer to integer


def integer_range(kind: PtxType) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type.

    >>> integer_range(TYPES["s8"])
    (-128, 127)
    """
    if kind.kind == "signed":
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    return 0, (1 << kind.bits) - 1


def sat_has_something_to_clamp(i: Mods) -> Problem | None:
    """Allow .sat only where the destination cannot hold every source value."""
    if i["sat"] is None:
        return None
    low, high = integer_range(TYPES[str(i["dtype"])])
    source = integer_range(TYPES[str(i["atype"])])
    if low <= source[0] and source[1] <= high:
        message = f"'.sat' is not allowed from '.{i['atype']}' to '.{i['dtype']}': every value fits"
        return Problem(message, "sat", "nothing to clamp", "leave '.sat' out")
    return None


def clamp(o: Ops, a: Value, source: PtxType, low: int, high: int) -> Value:
    """Return `a`, an integer of type `source`, clamped to low..high, in the same width."""
    least, most = integer_range(source)
    below = o.slt if source.kind == "signed" else o.ult
    if low > least:
        bound = o.const(low, source.bits)
        a = o.select(below(a, bound), bound, a)
    if high < most:
        bound = o.const(high, source.bits)
        a = o.select(below(bound, a), bound, a)
    return a


def resize(o: Ops, a: Value, source: PtxType, width: int) -> Value:
    """Return an integer of type `source` in `width` bits: cut off, or extended as its sign says."""
    if width == source.bits:
        return a
    if width < source.bits:
        return o.trunc(a, width)
    return o.sext(a, width) if source.kind == "signed" else o.zext(a, width)


@declare(
    "cvt{.sat}.dtype.atype d, a;",
    sat="sat",
    dtype=_INTEGERS,
    atype=_INTEGERS,
    types={"d": converted_to, "a": integer_from},
    checks=[sat_has_something_to_clamp],
)
def cvt_integer(o: Ops, a: Value) -> Value:
    """Convert an integer by extending it or cutting it off; `.sat` clamps to the new range instead."""
    source, target = TYPES[str(o.i["atype"])], TYPES[str(o.i["dtype"])]
    if o.i["sat"]:
        a = clamp(o, a, source, *integer_range(target))
    return resize(o, a, source, target.bits)


# ---------------------------------------------------------------- integer and float


@declare(
    "cvt.rnd{.ftz}{.sat}.dtype.atype d, a;",
    rnd=_TO_INTEGRAL,
    ftz="ftz",
    sat="sat",
    dtype=_INTEGERS,
    atype=_FLOATS,
    types=_TYPES,
    checks=[when("ftz", "ftz", atype="f32"), when("sat", "sat", atype="f16 f32 f64")],
    unit="mufu",
)
def cvt_to_integer(o: Ops, a: Value) -> Value:
    """Round a float to an integer, clamped to the range of the result with or without `.sat`.

    NaN gives 0, but 2^(n-1) from f64 or to 64 bits, where n are the bits of the result.
    """
    target = TYPES[str(o.i["dtype"])]
    rounding = rounding_named(o.i["rnd"])
    flushes = o.i["ftz"] is not None
    return o.f_to_int(str(o.i["atype"]), a, target.bits, target.kind == "signed", rounding, flushes)


@declare(
    "cvt.rnd{.ftz}{.sat}.dtype.atype d, a;",
    rnd=_ROUNDINGS,
    ftz="ftz",
    sat="sat",
    dtype=_FLOATS,
    atype=_INTEGERS,
    types=_TYPES,
    checks=[when("ftz", "ftz", dtype="f32"), when("sat", "sat", dtype="f16 f32 f64")],
    unit="mufu",
)
def cvt_from_integer(o: Ops, a: Value) -> Value:
    """Convert an integer to a float, rounded once; `.sat` clamps to [0, 1]. `.ftz` has nothing to flush."""
    fmt = str(o.i["dtype"])
    is_signed = TYPES[str(o.i["atype"])].kind == "signed"
    result = o.int_to_f(a, is_signed, fmt, rounding_named(o.i["rnd"]))
    return o.fconvert(fmt, fmt, result, sat="sat") if o.i["sat"] else result


# ---------------------------------------------------------------- float to float

_PRECISION = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}


def rounding_fits_the_formats(i: Mods) -> Problem | None:
    """Require a rounding to narrow, none to widen, an integral one or none within a format.

    Between bf16 and f16 and from bf16 to wider formats a rounding may stand though nothing or
    little is rounded.
    """
    source, target, given = str(i["atype"]), str(i["dtype"]), i["rnd"]
    if source == target:
        allowed, reason = ("", *_TO_INTEGRAL.split()), "it only rounds to an integral value"
    elif "bf16" in (source, target) and source not in ("f32", "f64"):
        allowed, reason = ("", *_ROUNDINGS.split()), "it does not round to an integral value"
    elif _PRECISION[target] > _PRECISION[source]:
        allowed, reason = ("",), "nothing is rounded"
    else:
        allowed, reason = tuple(_ROUNDINGS.split()), "it must say how it rounds"
    if (given or "") in allowed:
        return None
    what = f"'.{given}' is not allowed" if given else "a rounding is needed"
    words = [f"'.{word}'" for word in allowed if word]
    hint = "write " + " or ".join(words + ["no rounding"] * ("" in allowed))
    return Problem(f"{what} from '.{source}' to '.{target}': {reason}", "rnd", reason, hint)


def ftz_needs_f32(i: Mods) -> Problem | None:
    """Allow .ftz only where one side is f32."""
    if i["ftz"] is None or "f32" in (i["dtype"], i["atype"]):
        return None
    return Problem(
        f"'.ftz' is not allowed from '.{i['atype']}' to '.{i['dtype']}'",
        "ftz",
        "neither is '.f32'",
        "leave it out",
    )


def sat_excludes_bf16(i: Mods) -> Problem | None:
    """Allow .sat only without bf16 on either side."""
    if i["sat"] is None or "bf16" not in (i["dtype"], i["atype"]):
        return None
    return Problem(
        "'.sat' is not allowed with '.bf16'", "sat", "bf16 does not saturate", "clamp with max and min"
    )


def _cut_nan(o: Ops, a: Value) -> Value:
    """Return the bf16 NaN of an f64 NaN: sign and top of the payload stay. MEASURED (H200)."""
    sign = o.and_(o.trunc(o.lshr(a, o.const(48, 64)), 16), o.const(0x8000, 16))
    payload = o.and_(o.trunc(o.lshr(a, o.const(45, 64)), 16), o.const(0x7F, 16))
    return o.or_(o.or_(sign, payload), o.const(0x7FC0, 16))


_FROM_F32 = (
    when("relu", "relu", atype="f32", dtype="f16 bf16", rnd="rn rz", ftz="-", sat="-"),
    when("satfinite", "satfinite", atype="f32", dtype="f16 bf16", rnd="rn rz", ftz="-", sat="-"),
)


@declare(
    "cvt{.rnd}{.ftz}{.sat}{.relu}{.satfinite}.dtype.atype d, a;",
    rnd=f"{_ROUNDINGS} {_TO_INTEGRAL}",
    ftz="ftz",
    sat="sat",
    relu="relu",
    satfinite="satfinite",
    dtype=_FLOATS,
    atype=_FLOATS,
    types=_TYPES,
    checks=[rounding_fits_the_formats, ftz_needs_f32, sat_excludes_bf16, *_FROM_F32],
    unit="mufu",
)
def cvt_float(o: Ops, a: Value) -> Value:
    """Convert between float formats, or round to an integral value within one (`.rni` to `.rpi`).

    `.sat` clamps to [0, 1] (NaN to 0), `.relu` negative values to +0, `.satfinite` what is too
    large to the largest finite value.
    """
    source, target = str(o.i["atype"]), str(o.i["dtype"])
    rounding, flushes = rounding_named(o.i["rnd"]), o.i["ftz"] is not None
    limit = "sat" if o.i["sat"] else "satfinite" if o.i["satfinite"] else ""
    if o.i["rnd"] in _TO_INTEGRAL.split():
        integral = o.fround(source, a, rounding, flushes)
        return o.fconvert(source, source, integral, sat=limit) if limit else integral
    if source == target and not limit and not flushes and source in ("f32", "f64"):
        return a  # MEASURED: a plain move, NaNs as they are (H200)
    # MEASURED: to f16 `.ftz` does not flush the f32 operand; from bf16 it makes NaNs canonical (H200)
    result = o.fconvert(source, target, a, rounding, limit, flushes and target != "f16")
    if (source, target) == ("f64", "bf16"):
        return o.select(is_nan(o, source, a), _cut_nan(o, a), result)
    if flushes and source == "bf16":
        result = o.select(is_nan(o, target, result), canonical_nan(o, target), result)
    return clear_negative(o, target, result) if o.i["relu"] else result


@declare(
    "cvt.rnd{.satfinite}{.relu}.tf32.f32 d, a;",
    rnd="rn rz rna",
    satfinite="satfinite",
    relu="relu",
    tf32="tf32",
    f32="f32",
    types={"d": Op("tf32", accepts="r"), "a": Op("f32", accepts="r")},
    checks=[when("rnd", "rna", relu="-")],
    since=(7, 0),
)
def cvt_tf32(o: Ops, a: Value) -> Value:
    """Round f32 to tf32: 10 bits of mantissa, the low 13 bits of the result 0.

    `.relu` clamps negative values to +0, `.satfinite` what is too large to the largest finite
    value.
    """
    limit = "satfinite" if o.i["satfinite"] else ""
    result = o.fconvert("f32", "tf32", a, rounding_named(o.i["rnd"]), limit)
    return clear_negative(o, "tf32", result) if o.i["relu"] else result
