"""The operation set `o` that lane instructions are written over.

A value is one bit pattern per lane of some width (1 for predicates, 8, 16, 32, 64, 128). The interpreter
implements the set on NumPy arrays, the LLVM emitter as IR over <32 x iN>. A semantics function is
straight-line: it may branch on modifiers and types (they are known when it is bound) but never on a lane's
value. Integer operations take two values of one width and wrap. Shift amounts must be below the width and
divisors non-zero: use `select` around them. Floats are bit patterns with a format name (f16, bf16, f32,
f64).
"""

from __future__ import annotations

from typing import Any, Protocol

from drywell.base.dtypes import PtxType
from drywell.isa.declare import Mods
from drywell.numerics.rounding import Rounding

Value = Any


class Ops(Protocol):
    """What a lane instruction may do. `i` are its modifiers, `type` the PTX type of slot `type` (None
    without one), `width` its bits.
    """

    i: Mods
    type: PtxType | None
    width: int

    # constants and widths
    def const(self, value: int, width: int) -> Value:
        """Return the low `width` bits of value, in every lane."""

    def width_of(self, a: Value) -> int:
        """Return the width of a value in bits."""

    def zext(self, a: Value, width: int) -> Value:
        """Widen with zeros."""

    def sext(self, a: Value, width: int) -> Value:
        """Widen with copies of the top bit."""

    def trunc(self, a: Value, width: int) -> Value:
        """Keep the low `width` bits."""

    def pack(self, parts: list[Value]) -> Value:
        """Put parts side by side, the low part first; the width is their sum."""

    def unpack(self, a: Value, count: int) -> list[Value]:
        """Cut into `count` equal parts, the low part first."""

    # integers; and_, or_, xor, not_ and select also work on width 1
    def add(self, a: Value, b: Value) -> Value:
        """Add, wrapping."""

    def sub(self, a: Value, b: Value) -> Value:
        """Subtract, wrapping."""

    def mul(self, a: Value, b: Value) -> Value:
        """Multiply and keep the low half."""

    def umulh(self, a: Value, b: Value) -> Value:
        """Multiply unsigned and keep the high half."""

    def smulh(self, a: Value, b: Value) -> Value:
        """Multiply signed and keep the high half."""

    def udiv(self, a: Value, b: Value) -> Value:
        """Divide unsigned."""

    def sdiv(self, a: Value, b: Value) -> Value:
        """Divide signed, toward zero; the least number by -1 wraps to itself."""

    def urem(self, a: Value, b: Value) -> Value:
        """Return the unsigned remainder."""

    def srem(self, a: Value, b: Value) -> Value:
        """Return the remainder with the sign of the dividend."""

    def and_(self, a: Value, b: Value) -> Value:
        """Combine bits by and."""

    def or_(self, a: Value, b: Value) -> Value:
        """Combine bits by or."""

    def xor(self, a: Value, b: Value) -> Value:
        """Combine bits by exclusive or."""

    def not_(self, a: Value) -> Value:
        """Flip every bit."""

    def shl(self, a: Value, b: Value) -> Value:
        """Shift left."""

    def lshr(self, a: Value, b: Value) -> Value:
        """Shift right, bringing in zeros."""

    def ashr(self, a: Value, b: Value) -> Value:
        """Shift right, bringing in copies of the top bit."""

    def popcount(self, a: Value) -> Value:
        """Count the ones; same width."""

    def clz(self, a: Value) -> Value:
        """Count the leading zeros (the width for 0); same width."""

    def bitreverse(self, a: Value) -> Value:
        """Reverse the order of the bits."""

    def eq(self, a: Value, b: Value) -> Value:
        """Compare for equality; comparisons give width 1."""

    def ne(self, a: Value, b: Value) -> Value:
        """Compare for inequality."""

    def ult(self, a: Value, b: Value) -> Value:
        """Compare unsigned, less."""

    def ule(self, a: Value, b: Value) -> Value:
        """Compare unsigned, less or equal."""

    def slt(self, a: Value, b: Value) -> Value:
        """Compare signed, less."""

    def sle(self, a: Value, b: Value) -> Value:
        """Compare signed, less or equal."""

    def select(self, p: Value, a: Value, b: Value) -> Value:
        """Take `a` where p, else `b`."""

    # floats; results are canonical NaNs
    def fadd(
        self, fmt: str, a: Value, b: Value, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
    ) -> Value:
        """Add; `sat` clamps to [0, 1]."""

    def fmul(
        self, fmt: str, a: Value, b: Value, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
    ) -> Value:
        """Multiply."""

    def ffma(
        self,
        fmt: str,
        a: Value,
        b: Value,
        c: Value,
        rounding: Rounding = "rn",
        ftz: bool = False,
        sat: bool = False,
    ) -> Value:
        """Multiply and add with one rounding."""

    def fdiv(self, fmt: str, a: Value, b: Value, rounding: Rounding = "rn", ftz: bool = False) -> Value:
        """Divide."""

    def fsqrt(self, fmt: str, a: Value, rounding: Rounding = "rn", ftz: bool = False) -> Value:
        """Take the square root."""

    def fcmp(self, fmt: str, a: Value, b: Value, ftz: bool = False) -> tuple[Value, Value, Value]:
        """Return (less, equal, unordered)."""

    def fconvert(
        self, src: str, dst: str, a: Value, rounding: Rounding = "rn", sat: str = "", ftz: bool = False
    ) -> Value:
        """Convert between any two formats of numerics, codes in the low bits.

        `sat` is '', 'sat' ([0, 1]) or 'satfinite'; rounding also rna.
        """

    def fround(self, fmt: str, a: Value, rounding: Rounding, ftz: bool = False) -> Value:
        """Round to an integral value."""

    def f_to_int(
        self, fmt: str, a: Value, width: int, is_signed: bool, rounding: Rounding, ftz: bool = False
    ) -> Value:
        """Convert to an integer, saturating; NaN as the manual says (cvt)."""

    def int_to_f(self, a: Value, is_signed: bool, fmt: str, rounding: Rounding) -> Value:
        """Convert an integer to a float."""

    def mufu(self, name: str, fmt: str, a: Value) -> Value:
        """Ask the multifunction unit for rcp, rsq, sqrt, lg2, ex2, sin or cos (of turns), or tanh.

        f32; ex2 and tanh also f16 and bf16; rcp and rsq also f64, where it reads and makes upper halves.
        """

    # memory; addresses are 32- or 64-bit values
    # a space is '', global, shared, shared::cta, shared::cluster, local, param or const
    def load(self, space: str, address: Value, width: int, count: int = 1) -> list[Value]:
        """Read `count` consecutive elements of `width` bits."""

    def store(self, space: str, address: Value, values: list[Value]) -> None:
        """Write consecutive elements."""
