"""Extended-precision arithmetic over the carry bit: add.cc, addc, sub.cc, subc, mad.cc, madc.

The carry `CC.CF` is one hidden bit per lane, `Warp.carry`; it is not kept across calls (SPEC: PTX
ISA, "Extended Precision Arithmetic Instructions"). These act on the warp because they read or write
that bit. A subtraction adds the complement: after `sub.cc` the bit is 1 where nothing was borrowed
(MEASURED: sub.cc followed by addc, H200; the manual speaks of the borrow, which differs only where
the two kinds are mixed).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.isa.declare import Mods, instruction
from drywell.isa.rules import when

_REF = "extended-precision-arithmetic-instructions-"
_WIDE = "u32 s32 u64 s64"
_ALL = f"u16 s16 {_WIDE}"
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

Values = NDArray[Any]

declare = partial(instruction, unit="alu", order_free=True, lane=False)

_CHECKS = (when("cc", "cc", type=_WIDE, sat="-"), when("sat", "sat", type="s32"))
_CC = when("cc", "cc", type=_WIDE)


def _sum(m: Any, i: Mods, a: Values, b: Values, carry_in: Values | None) -> Values:
    """Return a + b + carry; leave the carry out in the warp where `.cc` is written."""
    total: Values = a + b
    carry = total < a
    if carry_in is not None:
        total = total + carry_in
        carry |= total < carry_in
    if i["cc"]:
        np.copyto(m.carry, carry, where=m.mask)
    return total


def _carry(m: Any, like: Values) -> Values:
    return np.asarray(m.carry.astype(like.dtype))


def saturation_has_no_meaning(i: Mods) -> str | None:
    """Say that `.sat` on a carry form cannot be executed."""
    return "'.sat' with a carry is taken by ptxas but described nowhere" if i["sat"] else None


def _high(i: Mods, a: Values, b: Values) -> Values:
    """Return the high half of the product of slot `type`.

    MEASURED: of 16-bit types, which the manual does not have here, it is that of the 32-bit product of
    words: nothing but the sign (H200).
    """
    is_signed, size = str(i["type"]).startswith("s"), a.dtype.itemsize
    if size == 2:
        product = a.view(np.int16).astype(np.int32) * b.view(np.int16)
        return np.asarray(np.where(is_signed & (product < 0), 0xFFFF, 0).astype(np.uint16))
    if size < 8:
        wide = np.dtype(f"{'i' if is_signed else 'u'}{size * 2}")
        narrow = np.dtype(f"{'i' if is_signed else 'u'}{size}")
        product = a.view(narrow).astype(wide) * b.view(narrow).astype(wide)
        return np.asarray((product >> wide.type(size * 8)).astype(narrow).view(a.dtype))
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    high: Values = a1 * b1 + (middle >> _HALF) + ((a0 * b1 + (middle & _LOW)) >> _HALF)
    if is_signed:
        none = np.uint64(0)
        high = high - np.where(a.view(np.int64) < 0, b, none) - np.where(b.view(np.int64) < 0, a, none)
    return high


_SAT: dict[str, Any] = {"unsupported": saturation_has_no_meaning}


@declare("add.cc.type d, a, b;", cc="cc", type=_WIDE, ref=_REF + "add-cc")
def add_cc(m: Any, i: Mods, a: Values, b: Values) -> Values:
    """Add and write the carry out to CC.CF."""
    return _sum(m, i, a, b, None)


@declare(
    "addc{.cc}{.sat}.type d, a, b;", cc="cc", sat="sat", type=_ALL, checks=_CHECKS, **_SAT, ref=_REF + "addc"
)
def addc(m: Any, i: Mods, a: Values, b: Values) -> Values:
    """Add a, b and CC.CF; `.cc` writes the carry out."""
    return _sum(m, i, a, b, _carry(m, a))


@declare("sub.cc.type d, a, b;", cc="cc", type=_WIDE, ref=_REF + "sub-cc")
def sub_cc(m: Any, i: Mods, a: Values, b: Values) -> Values:
    """Subtract b from a and write to CC.CF that nothing was borrowed."""
    return _sum(m, i, a, ~b, np.ones_like(a))


@declare(
    "subc{.cc}{.sat}.type d, a, b;", cc="cc", sat="sat", type=_ALL, checks=_CHECKS, **_SAT, ref=_REF + "subc"
)
def subc(m: Any, i: Mods, a: Values, b: Values) -> Values:
    """Subtract b and the borrow left in CC.CF from a; `.cc` writes CC.CF again."""
    return _sum(m, i, a, ~b, _carry(m, a))


@declare("mad.lo.cc.type d, a, b, c;", cc="cc", type=_WIDE, since=(3, 0), ref=_REF + "mad-cc")
def mad_lo_cc(m: Any, i: Mods, a: Values, b: Values, c: Values) -> Values:
    """Add c to the low half of a * b and write the carry out to CC.CF."""
    return _sum(m, i, a * b, c, None)


@declare("mad.hi.cc.type d, a, b, c;", cc="cc", type=_WIDE, since=(3, 0), ref=_REF + "mad-cc")
def mad_hi_cc(m: Any, i: Mods, a: Values, b: Values, c: Values) -> Values:
    """Add c to the high half of a * b and write the carry out to CC.CF."""
    return _sum(m, i, _high(i, a, b), c, None)


@declare("madc.lo{.cc}.type d, a, b, c;", cc="cc", type=_ALL, checks=[_CC], since=(3, 0), ref=_REF + "madc")
def madc_lo(m: Any, i: Mods, a: Values, b: Values, c: Values) -> Values:
    """Add c and CC.CF to the low half of a * b; `.cc` writes the carry out."""
    return _sum(m, i, a * b, c, _carry(m, a))


@declare(
    "madc.hi{.cc}{.sat}.type d, a, b, c;",
    cc="cc",
    sat="sat",
    type=_ALL,
    checks=_CHECKS,
    **_SAT,
    since=(3, 0),
    ref=_REF + "madc",
)
def madc_hi(m: Any, i: Mods, a: Values, b: Values, c: Values) -> Values:
    """Add c and CC.CF to the high half of a * b; `.cc` writes the carry out."""
    return _sum(m, i, _high(i, a, b), c, _carry(m, a))
