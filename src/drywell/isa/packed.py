"""Conversions to and from packed types: halves, 8, 6 and 4 bit formats, and cvt.pack.

The first source goes to the upper part. 6-bit codes sit in bytes whose two upper bits are 0, 4-bit
codes in nibbles.
"""

from __future__ import annotations

from functools import partial

from drywell.base.dtypes import TYPES
from drywell.isa.convert import clamp
from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.element import is_negative, unsigned_minimum, zero
from drywell.isa.ops import Ops, Value
from drywell.numerics.formats import FORMATS
from drywell.numerics.rounding import Rounding, rounding_named

_REF = "data-movement-and-conversion-instructions-cvt"
_HALVES = "f16x2 bf16x2"
_BYTES = "e4m3x2 e5m2x2"
_SIX_BITS = "e2m3x2 e3m2x2"

declare = partial(instruction, unit="alu", order_free=True, ref=_REF)


def _element(packed: str | None) -> str:
    """Return the element format of a packed type."""
    return str(packed)[:-2]


def _limit(o: Ops) -> str:
    return "satfinite" if o.i.get("satfinite") else ""


def clear_negative_code(o: Ops, fmt: str, code: Value) -> Value:
    """Replace negative codes of `fmt` by 0 (`.relu`); the canonical NaN is not negative and stays."""
    f = FORMATS[fmt]
    sign = o.const(f.sign_mask, f.container_bits)
    return o.select(o.ne(o.and_(code, sign), zero(o, code)), zero(o, code), code)


def _convert(o: Ops, src: str, dst: str, a: Value, rounding: Rounding) -> Value:
    """Convert one element as the modifiers say."""
    result = o.fconvert(src, dst, a, rounding, _limit(o))
    return clear_negative_code(o, dst, result) if o.i.get("relu") else result


def _join(o: Ops, fmt: str, codes: list[Value]) -> Value:
    """Pack codes, the first one uppermost: nibbles for 4-bit formats, whole containers otherwise."""
    low_first = codes[::-1]
    if FORMATS[fmt].value_bits != 4:
        return o.pack(low_first)
    pairs = zip(low_first[::2], low_first[1::2], strict=True)
    packed = [o.or_(low, o.shl(high, o.const(4, 8))) for low, high in pairs]
    return packed[0] if len(packed) == 1 else o.pack(packed)


def _split(o: Ops, fmt: str, a: Value) -> list[Value]:
    """Return the two codes of a packed value, the upper one first."""
    if FORMATS[fmt].value_bits != 4:
        return o.unpack(a, 2)[::-1]
    return [o.lshr(a, o.const(4, 8)), o.and_(a, o.const(15, 8))]


def _packed(slot: str) -> TypeRule:
    """Return the rule of a register that holds the packed type of `slot`."""
    return lambda i: Op(str(i[slot]), accepts="r")


def _f32(i: Mods) -> Op:
    """Return an f32 source: with f16x2 the register may be wider."""
    return Op("f32", is_relaxed=i.get("dtype") == "f16x2")


def _from_f32(i: Mods) -> Op:
    """Return a register for slot `dtype`: for f16x2 it may be wider."""
    return Op(str(i["dtype"]), accepts="r", is_relaxed=i["dtype"] == "f16x2")


_FROM_TWO: dict[str, TypeRule] = {"d": _from_f32, "a": _f32, "b": _f32}
_BITS = Op("b32", accepts="r")

# ---------------------------------------------------------------- from two f32


@declare(
    "cvt.rnd{.relu}{.satfinite}.dtype.f32 d, a, b;",
    rnd="rn rz",
    relu="relu",
    satfinite="satfinite",
    dtype=_HALVES,
    f32="f32",
    types=_FROM_TWO,
    since=(7, 0),
)
@declare(
    "cvt.rn.satfinite{.relu}.dtype.f32 d, a, b;",
    rn="rn",
    satfinite="satfinite",
    relu="relu",
    dtype=f"{_BYTES} {_SIX_BITS} e2m1x2",
    f32="f32",
    types=_FROM_TWO,
    since=(7, 8),
)
def cvt_pair(o: Ops, a: Value, b: Value) -> Value:
    """Convert two f32 and pack them, a above b.

    `.relu` clamps negative values to +0; `.satfinite` clamps to the largest finite value. NaN
    becomes the format's NaN, or its largest value where it has none.
    """
    fmt, rounding = _element(o.i["dtype"]), rounding_named(o.i.get("rnd"))
    return _join(o, fmt, [_convert(o, "f32", fmt, v, rounding) for v in (a, b)])


@declare(
    "cvt.rnd{.satfinite}.ue8m0x2.f32 d, a, b;",
    rnd="rz rp",
    satfinite="satfinite",
    ue8m0x2="ue8m0x2",
    f32="f32",
    types={**_FROM_TWO, "d": Op("ue8m0x2", accepts="r")},
    since=(8, 6),
)
def cvt_scales(o: Ops, a: Value, b: Value) -> Value:
    """Convert two f32 to powers of two, toward zero or upwards, and pack them, a above b.

    ASSUMED: the sign is dropped, and what is too small becomes 2^-127.
    """
    rounding = rounding_named(o.i["rnd"])
    return o.pack([o.fconvert("f32", "ue8m0", v, rounding, _limit(o)) for v in (b, a)])


# ---------------------------------------------------------------- stochastic rounding


def stochastic(o: Ops, fmt: str, a: Value, random: Value, num_bits: int) -> Value:
    """Round f32 `a` to `fmt`, up where `num_bits` of `random` added to what is cut off carry over.

    The random bits are aligned with the top of the bits that are cut off, subnormal results
    included (ASSUMED: the manual only gives the number of bits).
    """
    f = FORMATS[fmt]
    size = o.and_(a, o.const(0x7FFFFFFF, 32))
    field = o.lshr(size, o.const(23, 32))
    exponent = o.select(o.eq(field, zero(o, a)), o.const(1, 32), field)
    hidden = o.select(o.eq(field, zero(o, a)), zero(o, a), o.const(1 << 23, 32))
    significand = o.or_(o.and_(size, o.const((1 << 23) - 1, 32)), hidden)
    # a = significand * 2^(exponent - 150); `cut` of its bits lie below the last place of the result
    subnormal = o.sub(o.const(f.min_exponent - f.mantissa_bits + 150, 32), exponent)
    normal = o.const(23 - f.mantissa_bits, 32)
    cut = o.select(o.slt(normal, subnormal), subnormal, normal)
    shift = o.add(o.zext(unsigned_minimum(o, cut, o.const(42, 32)), 64), o.const(16, 64))
    extended = o.shl(o.zext(significand, 64), o.const(16, 64))
    noise = o.shl(random, o.sub(shift, o.const(num_bits, 64)))
    kept = o.lshr(o.add(extended, noise), shift)
    scale = o.add(o.zext(o.add(exponent, cut), 64), o.const(1023 - 150, 64))
    exact = o.fmul("f64", o.int_to_f(kept, False, "f64", "rn"), o.shl(scale, o.const(52, 64)))
    rounded = o.fconvert("f64", fmt, exact, "rn", _limit(o))
    sign = o.select(is_negative(o, a), o.const(f.sign_mask, f.container_bits), o.const(0, f.container_bits))
    special = o.ule(o.const(FORMATS["f32"].infinity, 32), size)
    result = o.select(special, o.fconvert("f32", fmt, a, "rn", _limit(o)), o.or_(rounded, sign))
    return clear_negative_code(o, fmt, result) if o.i.get("relu") else result


def _field(o: Ops, rbits: Value, *places: int, bits: int) -> Value:
    """Return fields of rbits put together, the last one lowest, in 64 bits."""
    mask, out = o.const((1 << bits) - 1, 32), o.const(0, 32)
    for place in places:
        part = o.and_(o.lshr(rbits, o.const(place, 32)), mask)
        out = o.or_(o.shl(out, o.const(bits, 32)), part)
    return o.zext(out, 64)


@declare(
    "cvt.rs{.relu}{.satfinite}.dtype.f32 d, a, b, rbits;",
    rs="rs",
    relu="relu",
    satfinite="satfinite",
    dtype=_HALVES,
    f32="f32",
    types={**_FROM_TWO, "rbits": _BITS},
    since=(8, 7),
)
def cvt_stochastic_pair(o: Ops, a: Value, b: Value, rbits: Value) -> Value:
    """Convert two f32 with stochastic rounding and pack them, a above b.

    The random bits of b are the low half of rbits and those of a the high half: 13 of each for f16,
    16 for bf16.
    """
    fmt = _element(o.i["dtype"])
    count = 13 if fmt == "f16" else 16
    values = [(a, _field(o, rbits, 16, bits=count)), (b, _field(o, rbits, 0, bits=count))]
    return _join(o, fmt, [stochastic(o, fmt, v, random, count) for v, random in values])


@declare(
    "cvt.rs.satfinite{.relu}.dtype.f32 d, a, rbits;",
    rs="rs",
    satfinite="satfinite",
    relu="relu",
    dtype="e4m3x4 e5m2x4 e2m3x4 e3m2x4 e2m1x4",
    f32="f32",
    types={"d": _packed("dtype"), "a": Op("f32", count=4), "rbits": _BITS},
    since=(8, 7),
)
def cvt_stochastic_four(o: Ops, a: tuple[Value, ...], rbits: Value) -> Value:
    """Convert four f32 with stochastic rounding and pack them, the first uppermost.

    The first two use the high half of rbits and the last two the low half; e2m1 takes one byte of
    each half instead: the upper ones for the first two (ASSUMED: joined to 16 bits).
    """
    fmt = _element(o.i["dtype"])
    if fmt == "e2m1":
        upper, lower = _field(o, rbits, 24, 8, bits=8), _field(o, rbits, 16, 0, bits=8)
    else:
        upper, lower = _field(o, rbits, 16, bits=16), _field(o, rbits, 0, bits=16)
    randoms = (upper, upper, lower, lower)
    return _join(o, fmt, [stochastic(o, fmt, v, r, 16) for v, r in zip(a, randoms, strict=True)])


# ---------------------------------------------------------------- between packed types


@declare(
    "cvt.rn.satfinite{.relu}.dtype.f16x2 d, a;",
    rn="rn",
    satfinite="satfinite",
    relu="relu",
    dtype=f"{_BYTES} e2m1x2",
    f16x2="f16x2",
    types={"d": _packed("dtype"), "a": Op("f16x2", accepts="r")},
    since=(7, 8),
)
def cvt_from_halves(o: Ops, a: Value) -> Value:
    """Convert both halves of f16x2 to a narrow format and pack them."""
    fmt = _element(o.i["dtype"])
    return _join(o, fmt, [_convert(o, "f16", fmt, v, "rn") for v in o.unpack(a, 2)[::-1]])


@declare(
    "cvt.rn{.relu}.f16x2.atype d, a;",
    rn="rn",
    relu="relu",
    f16x2="f16x2",
    atype=f"{_BYTES} {_SIX_BITS} e2m1x2",
    types={"d": Op("f16x2", accepts="r"), "a": _packed("atype")},
    since=(7, 8),
)
def cvt_to_halves(o: Ops, a: Value) -> Value:
    """Convert two numbers of a narrow format to f16x2, exactly; `.relu` clamps negative ones to +0."""
    fmt = _element(o.i["atype"])
    return o.pack([_convert(o, fmt, "f16", v, "rn") for v in _split(o, fmt, a)[::-1]])


@declare(
    "cvt.rnd{.satfinite}.ue8m0x2.bf16x2 d, a;",
    rnd="rz rp",
    satfinite="satfinite",
    ue8m0x2="ue8m0x2",
    bf16x2="bf16x2",
    types={"d": Op("ue8m0x2", accepts="r"), "a": Op("b32", accepts="r")},
    since=(8, 6),
)
def cvt_halves_to_scales(o: Ops, a: Value) -> Value:
    """Convert both halves of bf16x2 to powers of two, toward zero or upwards."""
    rounding = rounding_named(o.i["rnd"])
    return o.pack([o.fconvert("bf16", "ue8m0", v, rounding, _limit(o)) for v in o.unpack(a, 2)])


@declare(
    "cvt.rn.bf16x2.ue8m0x2 d, a;",
    rn="rn",
    bf16x2="bf16x2",
    ue8m0x2="ue8m0x2",
    types={"d": Op("b32", accepts="r"), "a": Op("ue8m0x2", accepts="r")},
    since=(8, 6),
)
def cvt_scales_to_halves(o: Ops, a: Value) -> Value:
    """Convert two powers of two to bf16x2, exactly; 0xFF is NaN."""
    return o.pack([o.fconvert("ue8m0", "bf16", v) for v in o.unpack(a, 2)])


# ---------------------------------------------------------------- cvt.pack

_PACK_REF = "data-movement-and-conversion-instructions-cvt-pack"


def _clamped(o: Ops, a: Value) -> tuple[Value, int]:
    """Return an s32 clamped to slot `dtype`, cut to its bits, and how many these are."""
    name = str(o.i["dtype"])
    bits = int(name[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
    return o.and_(clamp(o, a, TYPES["s32"], low, high), o.const((1 << bits) - 1, 32)), bits


_S32 = Op("s32", is_relaxed=True)
_PACK: dict[str, TypeRule] = {"d": Op("u32", accepts="r", is_relaxed=True), "a": _S32, "b": _S32}


@declare(
    "cvt.pack.sat.dtype.s32 d, a, b;",
    sat="sat",
    dtype="u16 s16",
    s32="s32",
    types=_PACK,
    since=(6, 5),
    ref=_PACK_REF,
)
@declare(
    "cvt.pack.sat.dtype.s32.b32 d, a, b, c;",
    sat="sat",
    dtype="u8 s8 u4 s4 u2 s2",
    s32="s32",
    b32="b32",
    types={**_PACK, "c": Op("b32", is_relaxed=True)},
    since=(6, 5),
    ref=_PACK_REF,
)
def cvt_pack(o: Ops, a: Value, b: Value, c: Value | None = None) -> Value:
    """Clamp two s32 to a narrow integer type and pack them, a above b; the low bits of c come above both."""
    upper, bits = _clamped(o, a)
    lower, _ = _clamped(o, b)
    pair = o.or_(o.shl(upper, o.const(bits, 32)), lower)
    return pair if c is None else o.or_(pair, o.shl(c, o.const(2 * bits, 32)))
