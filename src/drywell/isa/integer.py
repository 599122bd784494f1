"""Integer arithmetic: add, sub, mul, mad, mul24, mad24, sad, div, rem, abs, neg, min, max, dp4a, dp2a.

Results wrap unless `.sat` is written. Carries (`.cc`) are in `carry`, bit operations in `bits`.
"""

from __future__ import annotations

from functools import partial

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Mods, TypeRule, instruction
from drywell.isa.element import (
    by_element,
    constants_not_packed,
    is_negative,
    is_signed,
    less,
    zero,
)
from drywell.isa.ops import Ops, Value
from drywell.isa.rules import when

_INTEGERS = "u16 u32 u64 s16 s32 s64"
_PACKED = "u16x2 s16x2"
_REF = "integer-arithmetic-instructions-"

declare = partial(instruction, unit="alu", order_free=True)

_SATURATES_S32 = when("sat", "sat", type="s32")
_SOURCE = constants_not_packed()


def wide(i: Mods) -> str:
    """Return the type of twice the bits of slot `type`, of the same signedness."""
    kind = TYPES[str(i["type"])]
    return f"{kind.name[0]}{kind.bits * 2}"


def saturating_add(o: Ops, a: Value, b: Value) -> Value:
    """Add signed values, clamping to the range of their width."""
    total = o.add(a, b)
    overflows = is_negative(o, o.and_(o.xor(a, total), o.xor(b, total)))
    return o.select(overflows, _limit_behind(o, a), total)


def saturating_sub(o: Ops, a: Value, b: Value) -> Value:
    """Subtract signed values, clamping to the range of their width."""
    difference = o.sub(a, b)
    overflows = is_negative(o, o.and_(o.xor(a, b), o.xor(a, difference)))
    return o.select(overflows, _limit_behind(o, a), difference)


def _limit_behind(o: Ops, a: Value) -> Value:
    """Return the largest value where `a` is not negative, the smallest elsewhere."""
    width = o.width_of(a)
    return o.xor(o.ashr(a, o.const(width - 1, width)), o.const((1 << (width - 1)) - 1, width))


def absolute(o: Ops, a: Value) -> Value:
    """Return the magnitude of a signed value; the most negative one stays."""
    return o.select(is_negative(o, a), o.sub(zero(o, a), a), a)


def high_product(o: Ops, a: Value, b: Value) -> Value:
    """Return the high half of a product of slot `type`."""
    return o.smulh(a, b) if is_signed(o) else o.umulh(a, b)


def wide_product(o: Ops, a: Value, b: Value) -> Value:
    """Return the whole product of slot `type`, twice as wide."""
    width = 2 * o.width
    return (
        o.mul(o.sext(a, width), o.sext(b, width))
        if is_signed(o)
        else o.mul(o.zext(a, width), o.zext(b, width))
    )


# ---------------------------------------------------------------- add, sub


@declare(
    "add{.sat}.type d, a, b;",
    sat="sat",
    type=f"{_INTEGERS} {_PACKED}",
    types={"a": _SOURCE, "b": _SOURCE},
    checks=[_SATURATES_S32],
    ref=_REF + "add",
)
def add(o: Ops, a: Value, b: Value) -> Value:
    """Add; packed types add their halves. `.sat` clamps to the range of s32."""
    return by_element(o, partial(saturating_add, o) if o.i["sat"] else o.add, a, b)


@declare("sub{.sat}.type d, a, b;", sat="sat", type=_INTEGERS, checks=[_SATURATES_S32], ref=_REF + "sub")
def sub(o: Ops, a: Value, b: Value) -> Value:
    """Subtract b from a. `.sat` clamps to the range of s32."""
    return saturating_sub(o, a, b) if o.i["sat"] else o.sub(a, b)


# ---------------------------------------------------------------- mul, mad


@declare("mul.lo.type d, a, b;", type=_INTEGERS, ref=_REF + "mul")
def mul_lo(o: Ops, a: Value, b: Value) -> Value:
    """Multiply, keeping the low half of the product."""
    return o.mul(a, b)


@declare("mul.hi.type d, a, b;", type=_INTEGERS, ref=_REF + "mul")
def mul_hi(o: Ops, a: Value, b: Value) -> Value:
    """Multiply, keeping the high half of the product."""
    return high_product(o, a, b)


@declare("mul.wide.type d, a, b;", type="u16 u32 s16 s32", types={"d": wide}, ref=_REF + "mul")
def mul_wide(o: Ops, a: Value, b: Value) -> Value:
    """Multiply into a result of twice the width."""
    return wide_product(o, a, b)


@declare("mad.lo.type d, a, b, c;", type=_INTEGERS, ref=_REF + "mad")
def mad_lo(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Multiply a and b and add c to the low half of the product."""
    return o.add(o.mul(a, b), c)


@declare(
    "mad.hi{.sat}.type d, a, b, c;", sat="sat", type=_INTEGERS, checks=[_SATURATES_S32], ref=_REF + "mad"
)
def mad_hi(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Add c to the high half of the product of a and b; `.sat` clamps to the range of s32."""
    high = high_product(o, a, b)
    return saturating_add(o, high, c) if o.i["sat"] else o.add(high, c)


@declare("mad.wide.type d, a, b, c;", type="u16 u32 s16 s32", types={"d": wide, "c": wide}, ref=_REF + "mad")
def mad_wide(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Multiply into twice the width and add c, which is as wide as the product."""
    return o.add(wide_product(o, a, b), c)


def _product24(o: Ops, a: Value, b: Value, shift: int) -> Value:
    """Return 32 bits, from bit `shift` on, of the 48-bit product of the low 24 bits of a and b."""
    if is_signed(o):
        eight = o.const(8, 32)
        x, y = (o.sext(o.ashr(o.shl(v, eight), eight), 64) for v in (a, b))
    else:
        mask = o.const(0xFFFFFF, 32)
        x, y = (o.zext(o.and_(v, mask), 64) for v in (a, b))
    return o.trunc(o.lshr(o.mul(x, y), o.const(shift, 64)), 32)


@declare("mul24.lo.type d, a, b;", type="u32 s32", ref=_REF + "mul24")
def mul24_lo(o: Ops, a: Value, b: Value) -> Value:
    """Multiply the low 24 bits of a and b and keep bits 31:0 of the product."""
    return _product24(o, a, b, 0)


@declare("mul24.hi.type d, a, b;", type="u32 s32", ref=_REF + "mul24")
def mul24_hi(o: Ops, a: Value, b: Value) -> Value:
    """Multiply the low 24 bits of a and b and keep bits 47:16 of the product."""
    return _product24(o, a, b, 16)


@declare("mad24.lo.type d, a, b, c;", type="u32 s32", ref=_REF + "mad24")
def mad24_lo(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Add c to bits 31:0 of the product of the low 24 bits of a and b."""
    return o.add(_product24(o, a, b, 0), c)


@declare(
    "mad24.hi{.sat}.type d, a, b, c;", sat="sat", type="u32 s32", checks=[_SATURATES_S32], ref=_REF + "mad24"
)
def mad24_hi(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Add c to bits 47:16 of the 24-bit product of a and b; `.sat` clamps to the range of s32."""
    high = _product24(o, a, b, 16)
    return saturating_add(o, high, c) if o.i["sat"] else o.add(high, c)


# ---------------------------------------------------------------- sad, div, rem, abs, neg


@declare("sad.type d, a, b, c;", type=_INTEGERS, ref=_REF + "sad")
def sad(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Add c and the distance of a and b."""
    return o.add(c, o.select(less(o, a, b), o.sub(b, a), o.sub(a, b)))


def _divisor(o: Ops, b: Value) -> tuple[Value, Value]:
    """Return b with 1 in place of 0, and where it was 0."""
    is_zero = o.eq(b, zero(o, b))
    return o.select(is_zero, o.const(1, o.width_of(b)), b), is_zero


@declare("div.type d, a, b;", type=_INTEGERS, ref=_REF + "div")
def div(o: Ops, a: Value, b: Value) -> Value:
    """Divide a by b, toward zero; the most negative number divided by -1 is itself.

    By zero the manual leaves the result open. MEASURED: all bits set, in every width and signedness
    (H200).
    """
    divisor, is_zero = _divisor(o, b)
    quotient = o.sdiv(a, divisor) if is_signed(o) else o.udiv(a, divisor)
    return o.select(is_zero, o.const(-1, o.width), quotient)


@declare("rem.type d, a, b;", type=_INTEGERS, ref=_REF + "rem")
def rem(o: Ops, a: Value, b: Value) -> Value:
    """Return the remainder of a divided by b, with the sign of a.

    By zero the manual leaves the result open. MEASURED: all bits set, in every width and signedness
    (H200).
    """
    divisor, is_zero = _divisor(o, b)
    rest = o.srem(a, divisor) if is_signed(o) else o.urem(a, divisor)
    return o.select(is_zero, o.const(-1, o.width), rest)


@declare("abs.type d, a;", type="s16 s32 s64", ref=_REF + "abs")
def abs_(o: Ops, a: Value) -> Value:
    """Return the magnitude of a; the most negative number stays."""
    return absolute(o, a)


@declare("neg.type d, a;", type="s16 s32 s64", ref=_REF + "neg")
def neg(o: Ops, a: Value) -> Value:
    """Negate a; the most negative number stays."""
    return o.sub(zero(o, a), a)


# ---------------------------------------------------------------- min, max

_RELU = when("relu", "relu", type="s32 s16x2")


def _clamp_at_zero(o: Ops, a: Value) -> Value:
    """Return 0 for negative values where the instruction has `.relu`."""
    return o.select(is_negative(o, a), zero(o, a), a) if o.i["relu"] else a


@declare(
    "min{.relu}.type d, a, b;",
    relu="relu",
    type=f"{_INTEGERS} {_PACKED}",
    types={"a": _SOURCE, "b": _SOURCE},
    checks=[_RELU],
    ref=_REF + "min",
)
def min_(o: Ops, a: Value, b: Value) -> Value:
    """Return the smaller of a and b, half by half for packed types; `.relu` clamps negative results to 0."""
    return by_element(o, lambda x, y: _clamp_at_zero(o, o.select(less(o, x, y), x, y)), a, b)


@declare(
    "max{.relu}.type d, a, b;",
    relu="relu",
    type=f"{_INTEGERS} {_PACKED}",
    types={"a": _SOURCE, "b": _SOURCE},
    checks=[_RELU],
    ref=_REF + "max",
)
def max_(o: Ops, a: Value, b: Value) -> Value:
    """Return the larger of a and b, half by half for packed types; `.relu` clamps negative results to 0."""
    return by_element(o, lambda x, y: _clamp_at_zero(o, o.select(less(o, x, y), y, x)), a, b)


# ---------------------------------------------------------------- dp4a, dp2a


def _extended(o: Ops, a: Value, count: int, kind: str | None) -> list[Value]:
    """Return the `count` parts of a 32-bit value, extended to 32 bits as signed or unsigned."""
    extend = o.sext if kind == "s32" else o.zext
    return [extend(part, 32) for part in o.unpack(a, count)]


def _dot(o: Ops, c: Value, pairs: list[tuple[Value, Value]]) -> Value:
    total = c
    for x, y in pairs:
        total = o.add(total, o.mul(x, y))
    return total


def _accumulator(i: Mods) -> str:
    """Return the type of c and d: signed when one of the factors is."""
    return "s32" if "s32" in (i["atype"], i["btype"]) else "u32"


_DOT: dict[str, TypeRule] = {"d": _accumulator, "a": "atype", "b": "btype", "c": _accumulator}


@declare(
    "dp4a.atype.btype d, a, b, c;",
    atype="u32 s32",
    btype="u32 s32",
    types=_DOT,
    since=(5, 0),
    ref=_REF + "dp4a",
)
def dp4a(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Add to c the dot product of the four bytes of a and of b; the sum wraps."""
    x, y = _extended(o, a, 4, o.i["atype"]), _extended(o, b, 4, o.i["btype"])
    return _dot(o, c, list(zip(x, y, strict=True)))


@declare(
    "dp2a.lo.atype.btype d, a, b, c;",
    atype="u32 s32",
    btype="u32 s32",
    types=_DOT,
    since=(5, 0),
    ref=_REF + "dp2a",
)
def dp2a_lo(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Add to c the dot product of the two halves of a and the two low bytes of b; the sum wraps."""
    x, y = _extended(o, a, 2, o.i["atype"]), _extended(o, b, 4, o.i["btype"])
    return _dot(o, c, list(zip(x, y[:2], strict=True)))


@declare(
    "dp2a.hi.atype.btype d, a, b, c;",
    atype="u32 s32",
    btype="u32 s32",
    types=_DOT,
    since=(5, 0),
    ref=_REF + "dp2a",
)
def dp2a_hi(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Add to c the dot product of the two halves of a and the two high bytes of b; the sum wraps."""
    x, y = _extended(o, a, 2, o.i["atype"]), _extended(o, b, 4, o.i["btype"])
    return _dot(o, c, list(zip(x, y[2:], strict=True)))
