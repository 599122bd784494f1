"""Elements of packed values, and the bits of float formats: what several arithmetic families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Mods, Op, TypeRule
from drywell.isa.ops import Ops, Value
from drywell.numerics.formats import FORMATS

#: Formats of the packed and scalar types that have arithmetic, by PTX type.
FORMAT_OF = {
    "f16": "f16",
    "f16x2": "f16",
    "bf16": "bf16",
    "bf16x2": "bf16",
    "f32": "f32",
    "f32x2": "f32",
    "f64": "f64",
}


def constants_not_packed(slot: str = "type") -> TypeRule:
    """Return the rule of a source of slot `slot`: a register, or a constant unless the type is packed."""

    def rule(i: Mods) -> Op:
        name = str(i[slot])
        return Op(name, accepts="r" if TYPES[name].lanes > 1 else "ri")

    return rule


def by_element(o: Ops, function: Callable[..., Value], *values: Value) -> Value:
    """Apply `function` to each element of values of slot `type`: once, or per half."""
    lanes = 1 if o.type is None else o.type.lanes
    if lanes == 1:
        return function(*values)
    columns = zip(*(o.unpack(v, lanes) for v in values), strict=True)
    return o.pack([function(*column) for column in columns])


def element_format(o: Ops) -> str:
    """Return the float format of one element of slot `type`."""
    return FORMAT_OF[str(o.type)]


def options(o: Ops) -> dict[str, Any]:
    """Return the keywords of a float operation from slots `rnd` (default rn), `ftz` and `sat`."""
    found: dict[str, Any] = {"rounding": o.i.get("rnd") or "rn", "ftz": o.i.get("ftz") is not None}
    if o.i.get("sat") is not None:
        found["sat"] = True
    return found


def is_signed(o: Ops) -> bool:
    """Say whether slot `type` is a signed integer type."""
    return o.type is not None and o.type.kind == "signed"


def less(o: Ops, a: Value, b: Value) -> Value:
    """Compare a < b as slot `type` says, signed or unsigned."""
    return o.slt(a, b) if is_signed(o) else o.ult(a, b)


def zero(o: Ops, like: Value) -> Value:
    """Return 0 of the width of `like`."""
    return o.const(0, o.width_of(like))


def is_negative(o: Ops, a: Value) -> Value:
    """Say where the highest bit is set."""
    return o.slt(a, zero(o, a))


def unsigned_minimum(o: Ops, a: Value, b: Value) -> Value:
    """Return the smaller of two unsigned values."""
    return o.select(o.ult(a, b), a, b)


def shift_amount(o: Ops, b: Value, width: int) -> tuple[Value, Value]:
    """Return a shift amount below `width`, in `width` bits, and where the given one was below."""
    limit = o.const(width, o.width_of(b))
    fits = o.ult(b, limit)
    bounded = o.select(fits, b, zero(o, b))
    have = o.width_of(b)
    return (
        bounded if have == width else o.trunc(bounded, width) if have > width else o.zext(bounded, width)
    ), fits


def shift_left(o: Ops, a: Value, b: Value) -> Value:
    """Shift left by an unsigned amount of any size; 0 from the width of `a` on."""
    amount, fits = shift_amount(o, b, o.width_of(a))
    return o.select(fits, o.shl(a, amount), zero(o, a))


def shift_right(o: Ops, a: Value, b: Value, signed: bool) -> Value:
    """Shift right by an unsigned amount of any size; from the width on zeros or signs are left."""
    width = o.width_of(a)
    amount, fits = shift_amount(o, b, width)
    if not signed:
        return o.select(fits, o.lshr(a, amount), zero(o, a))
    return o.ashr(a, o.select(fits, amount, o.const(width - 1, width)))


def low_mask(o: Ops, count: Value, width: int) -> Value:
    """Return `width`-bit masks of the `count` lowest bits (all of them from the width on)."""
    return o.not_(shift_left(o, o.const(-1, width), count))


def is_nan(o: Ops, fmt: str, a: Value) -> Value:
    """Say where `a` of format `fmt` is a NaN."""
    f = FORMATS[fmt]
    magnitude = o.and_(a, o.const(f.magnitude_mask, f.container_bits))
    return o.ult(o.const(f.infinity, f.container_bits), magnitude)


def canonical_nan(o: Ops, fmt: str) -> Value:
    """Return the NaN that arithmetic in `fmt` makes."""
    f = FORMATS[fmt]
    assert f.canonical_nan is not None
    return o.const(f.canonical_nan, f.container_bits)


def flush(o: Ops, fmt: str, a: Value) -> Value:
    """Replace subnormals by the zero of their sign (`.ftz`)."""
    f = FORMATS[fmt]
    magnitude = o.and_(a, o.const(f.magnitude_mask, f.container_bits))
    small = o.ult(magnitude, o.const(1 << f.mantissa_bits, f.container_bits))
    return o.select(small, o.and_(a, o.const(f.sign_mask, f.container_bits)), a)


def flushed(o: Ops, fmt: str, a: Value) -> Value:
    """Return `a`, its subnormals flushed where the instruction has `.ftz`."""
    return flush(o, fmt, a) if o.i.get("ftz") else a


def clear_negative(o: Ops, fmt: str, a: Value) -> Value:
    """Replace negative values and -0 by +0 (`.relu`); a NaN becomes canonical."""
    kept = o.select(is_negative(o, a), zero(o, a), a)
    return o.select(is_nan(o, fmt, a), canonical_nan(o, fmt), kept)


def one(fmt: str) -> int:
    """Return the code of 1.0."""
    return FORMATS[fmt].bias << FORMATS[fmt].mantissa_bits
