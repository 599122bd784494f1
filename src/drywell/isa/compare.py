"""Comparison and selection: setp, set, selp, slct, testp; integers, floats and packed halves.

A comparison with a NaN is unordered: `eq` to `ge` (and `ne`) are false then, `equ` to `geu` true.
-0 equals +0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Mods, Op, Problem, TypeRule, instruction
from drywell.isa.element import FORMAT_OF, constants_not_packed, is_negative, one, zero
from drywell.isa.ops import Ops, Value
from drywell.isa.rules import when
from drywell.numerics.formats import FORMATS

_REF = "comparison-and-selection-instructions-"
_HALF_REF = "half-precision-comparison-instructions-"
_ORDER = "eq ne lt le gt ge"
_UNSIGNED = "lo ls hi hs"
_UNORDERED = "equ neu ltu leu gtu geu num nan"
_COMPARISONS = f"{_ORDER} {_UNSIGNED} {_UNORDERED}"
_BOOLEANS = "and or xor"
_INTEGERS = "b16 b32 b64 u16 u32 u64 s16 s32 s64"
_HALVES = "f16 bf16 f16x2 bf16x2"

declare = partial(instruction, unit="alu", order_free=True)

# ---------------------------------------------------------------- legality


def comparison_exists(slot: str) -> Callable[[Mods], Problem | None]:
    """Return the check: CmpOp is one that operands of the type in `slot` have."""

    def comparison_exists_for_type(i: Mods) -> Problem | None:
        """Allow eq and ne for bits, six for signed, lo to hs too for unsigned, unordered for floats."""
        name, given = str(i[slot]), str(i["CmpOp"])
        allowed = _comparisons_of(name)
        if given in allowed:
            return None
        hint = f"'.{name}' has {', '.join('.' + word for word in allowed)}"
        return Problem(f"'.{given}' does not compare '.{name}' values", "CmpOp", f"not for '.{name}'", hint)

    return comparison_exists_for_type


def _comparisons_of(name: str) -> tuple[str, ...]:
    extra = {"bits": "eq ne", "unsigned": f"{_ORDER} {_UNSIGNED}", "signed": _ORDER}
    return tuple(extra.get(TYPES[name].kind, f"{_ORDER} {_UNORDERED}").split())


def combined_with(slot: str) -> TypeRule:
    """Return the rule of operand c: there exactly with a BoolOp; `ptxas` takes no constant with bf16."""

    def rule(i: Mods) -> Op | None:
        if i["BoolOp"] is None:
            return None
        return Op("pred", accepts="rp" if str(i[slot]).startswith("bf16") else "rip")

    return rule


def second_predicate(i: Mods) -> Op | None:
    """Return the rule of q: scalar halves have no second result."""
    return None if i["type"] in ("f16", "bf16") else Op("pred", accepts="r_")


# ---------------------------------------------------------------- meaning


def _integer_test(o: Ops, name: str, comparison: str, a: Value, b: Value) -> Value:
    """Compare integers: the operator decides the order, `lt` to `ge` also the type."""
    if comparison in ("eq", "ne"):
        return o.eq(a, b) if comparison == "eq" else o.ne(a, b)
    below, up_to = (o.slt, o.sle) if TYPES[name].kind == "signed" else (o.ult, o.ule)
    if comparison in ("lt", "lo"):
        return below(a, b)
    if comparison in ("le", "ls"):
        return up_to(a, b)
    return below(b, a) if comparison in ("gt", "hi") else up_to(b, a)


def _float_test(o: Ops, fmt: str, comparison: str, a: Value, b: Value) -> Value:
    """Compare floats by the three outcomes less, equal, unordered."""
    is_less, is_equal, is_unordered = o.fcmp(fmt, a, b, o.i.get("ftz") is not None)
    match comparison:
        case "eq":
            return is_equal
        case "neu":
            return o.not_(is_equal)
        case "lt":
            return is_less
        case "geu":
            return o.not_(is_less)
        case "le":
            return o.or_(is_less, is_equal)
        case "gtu":
            return o.not_(o.or_(is_less, is_equal))
        case "nan":
            return is_unordered
        case "num":
            return o.not_(is_unordered)
        case "equ":
            return o.or_(is_equal, is_unordered)
        case "ne":
            return o.not_(o.or_(is_equal, is_unordered))
        case "ltu":
            return o.or_(is_less, is_unordered)
        case "ge":
            return o.not_(o.or_(is_less, is_unordered))
        case "leu":
            return o.or_(o.or_(is_less, is_equal), is_unordered)
    return o.not_(o.or_(o.or_(is_less, is_equal), is_unordered))  # gt


def _tests(o: Ops, name: str, a: Value, b: Value) -> list[Value]:
    """Return the outcome of CmpOp for each element of values of type `name`."""
    comparison, lanes = str(o.i["CmpOp"]), TYPES[name].lanes
    if TYPES[name].kind != "float":
        return [_integer_test(o, name, comparison, a, b)]
    if lanes == 1:
        return [_float_test(o, FORMAT_OF[name], comparison, a, b)]
    columns = zip(o.unpack(a, lanes), o.unpack(b, lanes), strict=True)
    return [_float_test(o, FORMAT_OF[name], comparison, x, y) for x, y in columns]


def _combine(o: Ops, test: Value, c: Value | None) -> Value:
    """Combine an outcome with c by BoolOp."""
    if c is None:
        return test
    return {"and": o.and_, "or": o.or_, "xor": o.xor}[str(o.i["BoolOp"])](test, c)


_SETP: dict[str, TypeRule] = {
    "p": Op("pred", accepts="r_"),
    "q": second_predicate,
    "c": combined_with("type"),
    "a": constants_not_packed(),
    "b": constants_not_packed(),
}
_FTZ = when("ftz", "ftz", type="f16 f16x2 f32")


@declare(
    "setp.CmpOp{.BoolOp}{.ftz}.type p{|q}, a, b, c;",
    CmpOp=_COMPARISONS,
    BoolOp=_BOOLEANS,
    ftz="ftz",
    type=f"{_INTEGERS} f32 f64",
    types=_SETP,
    writes="p q",
    checks=[comparison_exists("type"), _FTZ],
    ref=_REF + "setp",
)
@declare(
    "setp.CmpOp{.BoolOp}{.ftz}.type p{|q}, a, b, c;",
    CmpOp=_COMPARISONS,
    BoolOp=_BOOLEANS,
    ftz="ftz",
    type=_HALVES,
    types=_SETP,
    writes="p q",
    checks=[comparison_exists("type"), _FTZ],
    since=(4, 2),
    ref=_HALF_REF + "setp",
)
def setp(o: Ops, a: Value, b: Value, c: Value | None) -> tuple[Value, Value]:
    """Compare a and b into predicates: p is the outcome combined with c, q its negation combined with c.

    For packed halves p is the outcome of the low half and q that of the high half.
    """
    tests = _tests(o, str(o.i["type"]), a, b)
    second = tests[1] if len(tests) == 2 else o.not_(tests[0])
    return _combine(o, tests[0], c), _combine(o, second, c)


def set_result(i: Mods) -> str:
    """Return the type of what set writes: bf16 results lie in integer registers."""
    return {"bf16": "u16", "bf16x2": "u32"}.get(str(i["dtype"]), str(i["dtype"]))


_SET: dict[str, TypeRule] = {
    "d": set_result,
    "a": constants_not_packed("stype"),
    "b": constants_not_packed("stype"),
    "c": combined_with("stype"),
}
_SET_CHECKS = (
    comparison_exists("stype"),
    when("ftz", "ftz", stype="f16 f16x2 f32", dtype="u16 s16 u32 s32 f16 f16x2 f32"),
    when("stype", f"{_INTEGERS} f32 f64", dtype="u32 s32 f16 bf16 f32"),
    when("stype", "f16", dtype="u16 s16 u32 s32 f16 bf16"),
    when("stype", "bf16", dtype="u16 s16 u32 s32 bf16"),
    when("stype", "f16x2", dtype="u32 s32 f16x2"),
    when("stype", "bf16x2", dtype="u32 s32 bf16x2"),
)
_SET_RESULTS = "u16 s16 u32 s32 f16 bf16 f32 f16x2 bf16x2"


@declare(
    "set.CmpOp{.BoolOp}{.ftz}.dtype.stype d, a, b, c;",
    CmpOp=_COMPARISONS,
    BoolOp=_BOOLEANS,
    ftz="ftz",
    dtype=_SET_RESULTS,
    stype=f"{_INTEGERS} f32 f64",
    types=_SET,
    checks=_SET_CHECKS,
    ref=_REF + "set",
)
@declare(
    "set.CmpOp{.BoolOp}{.ftz}.dtype.stype d, a, b, c;",
    CmpOp=_COMPARISONS,
    BoolOp=_BOOLEANS,
    ftz="ftz",
    dtype=_SET_RESULTS,
    stype=_HALVES,
    types=_SET,
    checks=_SET_CHECKS,
    since=(4, 2),
    ref=_HALF_REF + "set",
)
def set_(o: Ops, a: Value, b: Value, c: Value | None) -> Value:
    """Compare a and b into a number: 1.0 for float results, all ones for integers, else 0.

    Packed halves give two results of half the width each.
    """
    tests = [_combine(o, test, c) for test in _tests(o, str(o.i["stype"]), a, b)]
    dtype = TYPES[str(o.i["dtype"])]
    width = dtype.bits // len(tests)
    yes = o.const(one(FORMAT_OF[dtype.name]) if dtype.kind == "float" else -1, width)
    results = [o.select(test, yes, o.const(0, width)) for test in tests]
    return results[0] if len(results) == 1 else o.pack(results)


_SELECTED = f"{_INTEGERS} f32 f64"


@declare("selp.type d, a, b, c;", type=_SELECTED, types={"c": Op("pred", accepts="rip")}, ref=_REF + "selp")
def selp(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Return a where the predicate c holds, else b."""
    return o.select(c, a, b)


@declare(
    "slct{.ftz}.dtype.ctype d, a, b, c;",
    ftz="ftz",
    dtype=_SELECTED,
    ctype="s32 f32",
    types={"d": "dtype", "a": "dtype", "b": "dtype", "c": "ctype"},
    checks=[when("ftz", "ftz", ctype="f32")],
    ref=_REF + "slct",
)
def slct(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Return a where c >= 0, else b; for a float -0 counts as 0 and a NaN selects b."""
    if o.i["ctype"] == "s32":
        return o.select(is_negative(o, c), b, a)
    is_less, _, is_unordered = o.fcmp("f32", c, zero(o, c), o.i["ftz"] is not None)
    return o.select(o.or_(is_less, is_unordered), b, a)


@declare(
    "testp.op.type p, a;",
    op="finite infinite number notanumber normal subnormal",
    type="f32 f64",
    types={"p": Op("pred", accepts="r")},
    writes="p",
    since=(2, 0),
    ref="floating-point-instructions-testp",
)
def testp(o: Ops, a: Value) -> Value:
    """Say whether a has a property; zeros count as normal, NaN and infinities do not."""
    f = FORMATS[str(o.i["type"])]
    magnitude = o.and_(a, o.const(f.magnitude_mask, o.width))
    infinity, smallest = o.const(f.infinity, o.width), o.const(1 << f.mantissa_bits, o.width)
    is_tiny = o.and_(o.ult(magnitude, smallest), o.ne(magnitude, zero(o, a)))
    match o.i["op"]:
        case "finite":
            return o.ult(magnitude, infinity)
        case "infinite":
            return o.eq(magnitude, infinity)
        case "number":
            return o.ule(magnitude, infinity)
        case "notanumber":
            return o.ult(infinity, magnitude)
        case "subnormal":
            return is_tiny
    return o.and_(o.ult(magnitude, infinity), o.not_(is_tiny))
