"""Logic and shifts: and, or, xor, not, cnot, lop3, shf, shl, shr."""

from __future__ import annotations

from functools import partial

from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.element import is_signed, shift_left, shift_right, zero
from drywell.isa.ops import Ops, Value

_REF = "logic-and-shift-instructions-"
_BITS = "b16 b32 b64"

declare = partial(instruction, unit="alu", order_free=True)


def logical(i: Mods) -> Op:
    """Return a source of slot `type`; a predicate may be negated."""
    return Op(str(i["type"]), accepts="rip" if i["type"] == "pred" else "ri")


_SOURCES = {"a": logical, "b": logical}


@declare("and.type d, a, b;", type=f"pred {_BITS}", types=_SOURCES, ref=_REF + "and")
def and_(o: Ops, a: Value, b: Value) -> Value:
    """Return the bitwise and of a and b."""
    return o.and_(a, b)


@declare("or.type d, a, b;", type=f"pred {_BITS}", types=_SOURCES, ref=_REF + "or")
def or_(o: Ops, a: Value, b: Value) -> Value:
    """Return the bitwise or of a and b."""
    return o.or_(a, b)


@declare("xor.type d, a, b;", type=f"pred {_BITS}", types=_SOURCES, ref=_REF + "xor")
def xor(o: Ops, a: Value, b: Value) -> Value:
    """Return the bitwise exclusive or of a and b."""
    return o.xor(a, b)


@declare("not.type d, a;", type=f"pred {_BITS}", types={"a": logical}, ref=_REF + "not")
def not_(o: Ops, a: Value) -> Value:
    """Invert every bit of a."""
    return o.not_(a)


@declare("cnot.type d, a;", type=_BITS, ref=_REF + "cnot")
def cnot(o: Ops, a: Value) -> Value:
    """Return 1 where a is 0, else 0: logical negation as C has it."""
    return o.zext(o.eq(a, zero(o, a)), o.width)


def _look_up(o: Ops, a: Value, b: Value, c: Value, table: Value) -> Value:
    """Apply the function whose value for bits a, b, c is bit 4a + 2b + c of `table`, to every bit."""
    one = o.const(1, 32)
    level = [o.sub(o.const(0, 32), o.and_(o.lshr(table, o.const(k, 32)), one)) for k in range(8)]
    for chooser in (c, b, a):
        level = [
            o.xor(low, o.and_(chooser, o.xor(low, high)))
            for low, high in zip(level[::2], level[1::2], strict=True)
        ]
    return level[0]


_TABLE = Op("u32", accepts="i")
_LOP3: dict[str, TypeRule] = {
    "d": Op("b32", accepts="r_"),
    "a": "b32",
    "b": "b32",
    "c": "b32",
    "immLut": _TABLE,
}


@declare("lop3.b32 d, a, b, c, immLut;", types=_LOP3, since=(4, 3), ref=_REF + "lop3")
def lop3(o: Ops, a: Value, b: Value, c: Value, immLut: Value) -> Value:
    """Apply a function of three bits, bit by bit; its truth table f(0xF0, 0xCC, 0xAA) is immLut."""
    return _look_up(o, a, b, c, immLut)


@declare(
    "lop3.BoolOp.b32 d|p, a, b, c, immLut, q;",
    BoolOp="or and",
    types={**_LOP3, "p": Op("pred", accepts="r"), "q": Op("pred", accepts="rip")},
    writes="d p",
    since=(8, 2),
    ref=_REF + "lop3",
)
def lop3_bool(o: Ops, a: Value, b: Value, c: Value, immLut: Value, q: Value) -> tuple[Value, Value]:
    """Apply a function of three bits; p is (d != 0) combined with q by BoolOp."""
    d = _look_up(o, a, b, c, immLut)
    is_set = o.ne(d, zero(o, d))
    return d, o.or_(is_set, q) if o.i["BoolOp"] == "or" else o.and_(is_set, q)


def _funnel_amount(o: Ops, c: Value) -> Value:
    """Return the shift of a funnel: at most 32 with `.clamp`, modulo 32 with `.wrap`; as 64 bits."""
    limit = o.const(32, 32)
    clamped = o.select(o.ult(c, limit), c, limit) if o.i["mode"] == "clamp" else o.and_(c, o.const(31, 32))
    return o.zext(clamped, 64)


_SHF = {"d": "b32", "a": "b32", "b": "b32", "c": "u32"}


@declare("shf.l.mode.b32 d, a, b, c;", mode="clamp wrap", types=_SHF, since=(3, 1), ref=_REF + "shf")
def shf_l(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Shift the 64 bits b:a left by c and return the high half; c is at most 32, or taken modulo 32."""
    return o.unpack(o.shl(o.pack([a, b]), _funnel_amount(o, c)), 2)[1]


@declare("shf.r.mode.b32 d, a, b, c;", mode="clamp wrap", types=_SHF, since=(3, 1), ref=_REF + "shf")
def shf_r(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Shift the 64 bits b:a right by c and return the low half; c is at most 32, or taken modulo 32."""
    return o.trunc(o.lshr(o.pack([a, b]), _funnel_amount(o, c)), 32)


@declare("shl.type d, a, b;", type=_BITS, types={"b": "u32"}, ref=_REF + "shl")
def shl(o: Ops, a: Value, b: Value) -> Value:
    """Shift left by b (32 bits, unsigned); amounts at or beyond the width give 0."""
    return shift_left(o, a, b)


@declare("shr.type d, a, b;", type=f"{_BITS} u16 u32 u64 s16 s32 s64", types={"b": "u32"}, ref=_REF + "shr")
def shr(o: Ops, a: Value, b: Value) -> Value:
    """Shift right by b (32 bits, unsigned), filling with zeros, or with the sign for signed types.

    Amounts at or beyond the width give 0, or the sign in every bit.
    """
    return shift_right(o, a, b, is_signed(o))
