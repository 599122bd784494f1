"""Bit counting, bit fields and masks: popc, clz, bfind, fns, brev, bfe, bfi, szext, bmsk."""

from __future__ import annotations

from functools import partial

from drywell.isa.declare import Op, instruction
from drywell.isa.element import (
    is_negative,
    is_signed,
    low_mask,
    shift_left,
    shift_right,
    unsigned_minimum,
    zero,
)
from drywell.isa.ops import Ops, Value

_REF = "integer-arithmetic-instructions-"

declare = partial(instruction, unit="alu", order_free=True)


def _to_word(o: Ops, a: Value) -> Value:
    """Return a count as 32 bits."""
    return a if o.width_of(a) == 32 else o.trunc(a, 32)


@declare("popc.type d, a;", type="b32 b64", types={"d": "u32"}, ref=_REF + "popc")
def popc(o: Ops, a: Value) -> Value:
    """Count the bits set in a, as u32."""
    return _to_word(o, o.popcount(a))


@declare("clz.type d, a;", type="b32 b64", types={"d": "u32"}, ref=_REF + "clz")
def clz(o: Ops, a: Value) -> Value:
    """Count the zero bits above the highest bit set in a, as u32; the width for 0."""
    return _to_word(o, o.clz(a))


@declare("brev.type d, a;", type="b32 b64", ref=_REF + "brev")
def brev(o: Ops, a: Value) -> Value:
    """Reverse the order of the bits of a."""
    return o.bitreverse(a)


@declare(
    "bfind{.shiftamt}.type d, a;",
    shiftamt="shiftamt",
    type="u32 u64 s32 s64",
    types={"d": "u32"},
    ref=_REF + "bfind",
)
def bfind(o: Ops, a: Value) -> Value:
    """Find the highest bit that is not a copy of the sign; 0xFFFFFFFF when there is none.

    `.shiftamt` gives the left shift that brings that bit to the top instead.
    """
    pattern = o.select(is_negative(o, a), o.not_(a), a) if is_signed(o) else a
    leading = o.clz(pattern)
    position = leading if o.i["shiftamt"] else o.sub(o.const(o.width - 1, o.width), leading)
    return _to_word(o, o.select(o.eq(pattern, zero(o, a)), o.const(-1, o.width), position))


def _nth_set(o: Ops, mask: Value, n: Value) -> Value:
    """Return the place of the n-th bit set of 32-bit `mask`, from 0 at the low end; 32 if there is none."""
    place = o.const(0, 32)
    for span in (16, 8, 4, 2, 1):
        below = o.popcount(o.and_(o.lshr(mask, place), o.const((1 << span) - 1, 32)))
        is_above = o.ule(below, n)
        n = o.select(is_above, o.sub(n, below), n)
        place = o.select(is_above, o.add(place, o.const(span, 32)), place)
    found = o.and_(o.lshr(mask, place), o.const(1, 32))
    return o.select(o.and_(o.eq(found, o.const(1, 32)), o.eq(n, o.const(0, 32))), place, o.const(32, 32))


@declare(
    "fns.b32 d, mask, base, offset;",
    types={"d": "b32", "mask": "b32", "base": "b32", "offset": "b32"},
    since=(6, 0),
    ref=_REF + "fns",
)
def fns(o: Ops, mask: Value, base: Value, offset: Value) -> Value:
    """Find the offset-th bit set from `base` on, downwards for a negative offset.

    An offset of 0 asks for `base` itself.

    0xFFFFFFFF when there is no such bit, or `base` is beyond 31. MEASURED: with the offset -2^31, which
    has no opposite, always 0 (H200).
    """
    top, none = o.const(31, 32), o.const(-1, 32)
    in_range = o.ule(base, top)
    at = o.select(in_range, base, top)
    above = o.and_(mask, o.shl(none, at))
    up = _nth_set(o, above, o.sub(offset, o.const(1, 32)))
    from_top = o.sub(top, at)
    below = o.and_(o.bitreverse(mask), o.shl(none, from_top))
    mirrored = _nth_set(o, below, o.not_(offset))
    down = o.select(o.ule(mirrored, top), o.sub(top, mirrored), o.const(32, 32))
    bit = o.and_(o.lshr(mask, at), o.const(1, 32))
    itself = o.select(o.eq(bit, o.const(1, 32)), at, o.const(32, 32))
    signed = o.select(is_negative(o, offset), down, up)
    found = o.select(o.eq(offset, o.const(0, 32)), itself, signed)
    result = o.select(o.and_(in_range, o.ule(found, top)), found, none)
    return o.select(o.eq(offset, o.const(1 << 31, 32)), o.const(0, 32), result)


_COUNT = Op("u32", range=(0, 255))


def _restricted(o: Ops, a: Value) -> Value:
    """Return a position or length: of 32-bit fields bits 7:0 count.

    MEASURED: of 64-bit fields all 32 bits count (H200). The manual restricts both to 0..255.
    """
    return o.and_(a, o.const(0xFF, 32)) if o.width == 32 else a


@declare(
    "bfe.type d, a, b, c;",
    type="u32 u64 s32 s64",
    types={"b": _COUNT, "c": _COUNT},
    since=(2, 0),
    ref=_REF + "bfe",
)
def bfe(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Extract c bits of a from bit b on, extended by the field's highest bit if signed, else by zeros.

    What lies beyond the top counts as copies of the top bit if signed, else as zeros. A length of 0
    gives 0.
    """
    width = o.width
    position, length = _restricted(o, b), _restricted(o, c)
    limit = o.const(width, 32)
    inside_position = unsigned_minimum(o, position, limit)
    inside = o.sub(limit, inside_position)
    mask = low_mask(o, unsigned_minimum(o, length, inside), width)
    field = o.and_(shift_right(o, a, position, False), mask)
    if not is_signed(o):
        return field
    reach = unsigned_minimum(o, length, limit)
    last = unsigned_minimum(o, o.sub(o.add(inside_position, reach), o.const(1, 32)), o.const(width - 1, 32))
    sign = o.and_(shift_right(o, a, last, False), o.const(1, width))
    has_sign = o.and_(o.eq(sign, o.const(1, width)), o.ne(length, o.const(0, 32)))
    return o.select(has_sign, o.or_(field, o.not_(mask)), field)


@declare(
    "bfi.type f, a, b, c, d;",
    type="b32 b64",
    types={"c": _COUNT, "d": _COUNT},
    writes="f",
    since=(2, 0),
    ref=_REF + "bfi",
)
def bfi(o: Ops, a: Value, b: Value, c: Value, d: Value) -> Value:
    """Insert the d low bits of a into b at bit c; what lies beyond the top is dropped."""
    position = _restricted(o, c)
    mask = shift_left(o, low_mask(o, _restricted(o, d), o.width), position)
    return o.or_(o.and_(shift_left(o, a, position), mask), o.and_(b, o.not_(mask)))


@declare(
    "szext.mode.type d, a, b;",
    mode="clamp wrap",
    type="u32 s32",
    types={"b": "u32"},
    since=(7, 6),
    ref=_REF + "szext",
)
def szext(o: Ops, a: Value, b: Value) -> Value:
    """Extend the b low bits of a, by zeros or by their highest bit.

    From 32 on `.clamp` leaves a as it is and `.wrap` takes b modulo 32. A count of 0 gives 0.
    """
    thirty_one = o.const(31, 32)
    count = b if o.i["mode"] == "clamp" else o.and_(b, thirty_one)
    mask = low_mask(o, count, 32)
    field = o.and_(a, mask)
    if not is_signed(o):
        return field
    place = o.and_(o.sub(count, o.const(1, 32)), thirty_one)
    sign = o.and_(o.lshr(a, place), o.const(1, 32))
    has_sign = o.and_(o.eq(sign, o.const(1, 32)), o.ne(count, o.const(0, 32)))
    return o.select(has_sign, o.or_(field, o.not_(mask)), field)


@declare(
    "bmsk.mode.b32 d, a, b;",
    mode="clamp wrap",
    types={"d": "u32", "a": "u32", "b": "u32"},
    since=(7, 6),
    ref=_REF + "bmsk",
)
def bmsk(o: Ops, a: Value, b: Value) -> Value:
    """Make a mask of b bits from bit a on; bits beyond 31 fall away. `.wrap` takes a and b modulo 32."""
    if o.i["mode"] == "wrap":
        a, b = o.and_(a, o.const(31, 32)), o.and_(b, o.const(31, 32))
    return shift_left(o, low_mask(o, b, 32), a)
