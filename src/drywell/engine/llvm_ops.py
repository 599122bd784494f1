"""The operation set of lane instructions as LLVM IR: the compiler's half of "one semantics, two back ends".

Calling a semantics function with an `LlvmOps` writes its instructions, over 32 lanes, through a `Writer`.
"""

from __future__ import annotations

from collections.abc import Callable

from drywell.base.dtypes import PtxType
from drywell.engine import llvm_memory
from drywell.engine.llvm_floats import Floats
from drywell.engine.llvm_mufu import Mufu
from drywell.engine.llvm_text import Lanes, Writer, constant, vector
from drywell.isa.declare import Mods

ALL_LANES = "-1"


class LlvmOps:
    """Implements `drywell.isa.ops.Ops` for one bound instruction.

    Loads and stores are made for the lanes of `mask` (the text of an i32), with the function's `%context`;
    `note` is given the i1 that says whether an access could be made.
    """

    __slots__ = ("floats", "i", "mask", "note", "type", "w", "width")

    def __init__(
        self,
        mods: Mods,
        type: PtxType | None,
        writer: Writer,
        mask: str = ALL_LANES,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.i = mods
        self.type = type
        self.width = 0 if type is None else type.bits
        self.w = writer
        self.floats = Floats(writer)
        self.mask = mask
        self.note = note

    # ------------------------------------------------------------ constants and widths
    def const(self, value: int, width: int) -> Lanes:
        """Return the low `width` bits of `value`, in every lane."""
        return constant(value, width)

    def width_of(self, a: Lanes) -> int:
        """Return the bits per lane, 1 for predicates."""
        return a.width

    def _resized(self, operation: str, a: Lanes, width: int) -> Lanes:
        if a.width == width:
            return a
        return Lanes(self.w.let(f"{operation} {vector(a.width)} {a.text} to {vector(width)}"), width)

    def zext(self, a: Lanes, width: int) -> Lanes:
        """Extend with zeros."""
        return self._resized("zext", a, width)

    def sext(self, a: Lanes, width: int) -> Lanes:
        """Extend with the sign bit; a predicate becomes all ones where it holds."""
        return self._resized("sext", a, width)

    def trunc(self, a: Lanes, width: int) -> Lanes:
        """Keep the low `width` bits."""
        return self._resized("trunc", a, width)

    def pack(self, parts: list[Lanes]) -> Lanes:
        """Join parts of one width, the low part first."""
        each = parts[0].width
        whole = self.zext(parts[0], each * len(parts))
        for k, part in enumerate(parts[1:], 1):
            whole = self.or_(whole, self.shl(self.zext(part, whole.width), constant(each * k, whole.width)))
        return whole

    def unpack(self, a: Lanes, count: int) -> list[Lanes]:
        """Split into `count` parts of one width, the low part first."""
        each = a.width // count
        return [self.trunc(self.lshr(a, constant(each * k, a.width)) if k else a, each) for k in range(count)]

    # ------------------------------------------------------------ integers
    def _binary(self, operation: str, a: Lanes, b: Lanes) -> Lanes:
        return Lanes(self.w.let(f"{operation} {vector(a.width)} {a.text}, {b.text}"), a.width)

    def _compare(self, relation: str, a: Lanes, b: Lanes) -> Lanes:
        return Lanes(self.w.let(f"icmp {relation} {vector(a.width)} {a.text}, {b.text}"), 1)

    def add(self, a: Lanes, b: Lanes) -> Lanes:
        """Add, wrapping."""
        return self._binary("add", a, b)

    def sub(self, a: Lanes, b: Lanes) -> Lanes:
        """Subtract, wrapping."""
        return self._binary("sub", a, b)

    def mul(self, a: Lanes, b: Lanes) -> Lanes:
        """Multiply, keeping the low half."""
        return self._binary("mul", a, b)

    def umulh(self, a: Lanes, b: Lanes) -> Lanes:
        """Return the high half of the unsigned product."""
        wide = self.mul(self.zext(a, 2 * a.width), self.zext(b, 2 * a.width))
        return self.trunc(self.lshr(wide, constant(a.width, wide.width)), a.width)

    def smulh(self, a: Lanes, b: Lanes) -> Lanes:
        """Return the high half of the signed product."""
        wide = self.mul(self.sext(a, 2 * a.width), self.sext(b, 2 * a.width))
        return self.trunc(self.lshr(wide, constant(a.width, wide.width)), a.width)

    def udiv(self, a: Lanes, b: Lanes) -> Lanes:
        """Divide unsigned; `b` is nowhere 0."""
        return self._binary("udiv", a, b)

    def _no_overflow(self, b: Lanes) -> tuple[Lanes, Lanes]:
        """Return where a signed divisor is -1, which the machine cannot divide everything by, and the
        divisor with 1 there.
        """
        is_minus_one = self.eq(b, constant(-1, b.width))
        return is_minus_one, self.select(is_minus_one, constant(1, b.width), b)

    def sdiv(self, a: Lanes, b: Lanes) -> Lanes:
        """Divide signed, toward zero; the most negative number by -1 is itself."""
        is_minus_one, divisor = self._no_overflow(b)
        return self.select(is_minus_one, self.sub(constant(0, a.width), a), self._binary("sdiv", a, divisor))

    def urem(self, a: Lanes, b: Lanes) -> Lanes:
        """Return the unsigned remainder; `b` is nowhere 0."""
        return self._binary("urem", a, b)

    def srem(self, a: Lanes, b: Lanes) -> Lanes:
        """Return the remainder with the dividend's sign."""
        return self._binary("srem", a, self._no_overflow(b)[1])  # by 1 as by -1 the remainder is 0

    def and_(self, a: Lanes, b: Lanes) -> Lanes:
        """Return a & b."""
        return self._binary("and", a, b)

    def or_(self, a: Lanes, b: Lanes) -> Lanes:
        """Return a | b."""
        return self._binary("or", a, b)

    def xor(self, a: Lanes, b: Lanes) -> Lanes:
        """Return a ^ b."""
        return self._binary("xor", a, b)

    def not_(self, a: Lanes) -> Lanes:
        """Return ~a."""
        return self._binary("xor", a, constant(-1, a.width))

    def shl(self, a: Lanes, b: Lanes) -> Lanes:
        """Shift left by less than the width."""
        return self._binary("shl", a, b)

    def lshr(self, a: Lanes, b: Lanes) -> Lanes:
        """Shift right by less than the width, zeros coming in."""
        return self._binary("lshr", a, b)

    def ashr(self, a: Lanes, b: Lanes) -> Lanes:
        """Shift right by less than the width, signs coming in."""
        return self._binary("ashr", a, b)

    def _intrinsic(self, name: str, a: Lanes, *flags: tuple[str, str]) -> Lanes:
        kind = vector(a.width)
        return Lanes(self.w.intrinsic(f"{name}.v32i{a.width}", kind, (kind, a.text), *flags), a.width)

    def popcount(self, a: Lanes) -> Lanes:
        """Count the bits set."""
        return self._intrinsic("ctpop", a)

    def clz(self, a: Lanes) -> Lanes:
        """Count the zeros above the highest bit set; the width for 0."""
        return self._intrinsic("ctlz", a, ("i1", "false"))

    def bitreverse(self, a: Lanes) -> Lanes:
        """Reverse the order of the bits."""
        return self._intrinsic("bitreverse", a)

    def eq(self, a: Lanes, b: Lanes) -> Lanes:
        """Say where a == b."""
        return self._compare("eq", a, b)

    def ne(self, a: Lanes, b: Lanes) -> Lanes:
        """Say where a != b."""
        return self._compare("ne", a, b)

    def ult(self, a: Lanes, b: Lanes) -> Lanes:
        """Say where a < b, unsigned."""
        return self._compare("ult", a, b)

    def ule(self, a: Lanes, b: Lanes) -> Lanes:
        """Say where a <= b, unsigned."""
        return self._compare("ule", a, b)

    def slt(self, a: Lanes, b: Lanes) -> Lanes:
        """Say where a < b, signed."""
        return self._compare("slt", a, b)

    def sle(self, a: Lanes, b: Lanes) -> Lanes:
        """Say where a <= b, signed."""
        return self._compare("sle", a, b)

    def select(self, p: Lanes, a: Lanes, b: Lanes) -> Lanes:
        """Return a where p holds, else b."""
        kind = vector(a.width)
        return Lanes(self.w.let(f"select {vector(1)} {p.text}, {kind} {a.text}, {kind} {b.text}"), a.width)

    # ------------------------------------------------------------ floats
    def fadd(
        self, fmt: str, a: Lanes, b: Lanes, rounding: str = "rn", ftz: bool = False, sat: bool = False
    ) -> Lanes:
        """Return a + b, rounded once."""
        return self.floats.arithmetic("add", fmt, [a, b], rounding, ftz, sat)

    def fmul(
        self, fmt: str, a: Lanes, b: Lanes, rounding: str = "rn", ftz: bool = False, sat: bool = False
    ) -> Lanes:
        """Return a * b, rounded once."""
        return self.floats.arithmetic("mul", fmt, [a, b], rounding, ftz, sat)

    def ffma(
        self,
        fmt: str,
        a: Lanes,
        b: Lanes,
        c: Lanes,
        rounding: str = "rn",
        ftz: bool = False,
        sat: bool = False,
    ) -> Lanes:
        """Return a * b + c, rounded once."""
        return self.floats.arithmetic("fma", fmt, [a, b, c], rounding, ftz, sat)

    def fdiv(self, fmt: str, a: Lanes, b: Lanes, rounding: str = "rn", ftz: bool = False) -> Lanes:
        """Return a / b, rounded once."""
        return self.floats.arithmetic("div", fmt, [a, b], rounding, ftz)

    def fsqrt(self, fmt: str, a: Lanes, rounding: str = "rn", ftz: bool = False) -> Lanes:
        """Return the square root, rounded once."""
        return self.floats.arithmetic("sqrt", fmt, [a], rounding, ftz)

    def fcmp(self, fmt: str, a: Lanes, b: Lanes, ftz: bool = False) -> tuple[Lanes, Lanes, Lanes]:
        """Say where a < b, where a == b (-0 equals +0), and where one is a NaN."""
        return self.floats.compare(fmt, a, b, ftz)

    def fconvert(
        self, src: str, dst: str, a: Lanes, rounding: str = "rn", sat: str = "", ftz: bool = False
    ) -> Lanes:
        """Convert codes of one format to another, rounded once."""
        return self.floats.convert(src, dst, a, rounding, sat, ftz)

    def fround(self, fmt: str, a: Lanes, rounding: str, ftz: bool = False) -> Lanes:
        """Round to an integral value of the same format."""
        return self.floats.round(fmt, a, rounding, ftz)

    def f_to_int(
        self, fmt: str, a: Lanes, width: int, is_signed: bool, rounding: str, ftz: bool = False
    ) -> Lanes:
        """Convert to an integer, clamped to its range; NaN as the manual says."""
        return self.floats.to_integer(fmt, a, width, is_signed, rounding, ftz)

    def int_to_f(self, a: Lanes, is_signed: bool, fmt: str, rounding: str) -> Lanes:
        """Convert an integer to a float, rounded once."""
        return self.floats.from_integer(a, is_signed, fmt, rounding)

    def mufu(self, name: str, fmt: str, a: Lanes) -> Lanes:
        """Ask the multifunction unit."""
        return Mufu(self.w).result(name, fmt, a)

    # ------------------------------------------------------------ memory
    def load(self, space: str, address: Lanes, width: int, count: int = 1) -> list[Lanes]:
        """Load `count` consecutive elements of `width` bits at each active lane's address; 0 in other
        lanes.
        """
        done, values = llvm_memory.load(self.w, space, self.zext(address, 64), self.mask, width, count)
        if self.note is not None:
            self.note(done)
        return values

    def store(self, space: str, address: Lanes, values: list[Lanes]) -> None:
        """Store the elements one after the other at each active lane's address."""
        done = llvm_memory.store(self.w, space, self.zext(address, 64), self.mask, values)
        if self.note is not None:
            self.note(done)
