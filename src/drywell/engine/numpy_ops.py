"""The operation set of lane instructions on NumPy arrays: what the interpreter executes.

A value is an array of shape (..., lanes) of bool, uint8, uint16, uint32, uint64 or B128; constants
have shape (1,) and broadcast.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.dtypes import PtxType
from drywell.isa.declare import Mods
from drywell.isa.place import order_of
from drywell.machine.registers import B128, lane_dtype
from drywell.numerics import conversion, mufu, softfloat
from drywell.numerics.rounding import Rounding

Array = NDArray[Any]

_SIGNED: dict[int, Any] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4"), 8: np.dtype("<i8")}
_UNSIGNED: dict[int, Any] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<u8")}
_REVERSED = np.array([int(f"{k:08b}"[::-1], 2) for k in range(256)], np.uint8)
_FLOATS: dict[str, Any] = {"f16": np.dtype("<f2"), "f32": np.dtype("<f4"), "f64": np.dtype("<f8")}


@lru_cache(maxsize=4096)
def _constant(value: int, width: int) -> Array:
    if width == 128:
        array = np.zeros(1, B128)
        array["lo"], array["hi"] = value & (2**64 - 1), (value >> 64) & (2**64 - 1)
    else:
        array = np.array([value & ((1 << width) - 1)], np.uint64).astype(lane_dtype(width))
    array.setflags(write=False)
    return array


def _signed(a: Array) -> Array:
    return a.view(_SIGNED[a.dtype.itemsize])


def _magnitude(a: Array) -> Array:
    return np.abs(_signed(a)).view(a.dtype)


class NumpyOps:
    """Implements `drywell.isa.ops.Ops` for one bound instruction; `m` is its warp (memory only)."""

    __slots__ = ("i", "m", "order", "type", "width")

    def __init__(self, mods: Mods, type: PtxType | None) -> None:
        self.i = mods
        self.order = order_of(mods)
        self.type = type
        self.width = 0 if type is None else type.bits
        self.m: Any = None

    # ------------------------------------------------------------ constants and widths
    def const(self, value: int, width: int) -> Array:
        """Return the low `width` bits of `value`, for every lane."""
        return _constant(value, width)

    def width_of(self, a: Array) -> int:
        """Return the bits per lane, 1 for predicates."""
        return 1 if a.dtype == np.bool_ else a.dtype.itemsize * 8

    def zext(self, a: Array, width: int) -> Array:
        """Extend with zeros."""
        if width != 128:
            return a.astype(lane_dtype(width))
        out = np.zeros(a.shape, B128)
        out["lo"] = a
        return out

    def sext(self, a: Array, width: int) -> Array:
        """Extend with the sign bit; a predicate becomes all ones where it holds."""
        if a.dtype == np.bool_:
            a = np.where(a, np.uint8(255), np.uint8(0))
        if width != 128:
            return _signed(a).astype(_SIGNED[width // 8]).view(lane_dtype(width))
        out = np.zeros(a.shape, B128)
        wide = _signed(a).astype(np.int64)
        out["lo"], out["hi"] = wide, wide >> 63
        return out

    def trunc(self, a: Array, width: int) -> Array:
        """Keep the low `width` bits."""
        if a.dtype == B128:
            a = a["lo"]
        return (a & a.dtype.type(1)).astype(np.bool_) if width == 1 else a.astype(lane_dtype(width))

    def pack(self, parts: list[Array]) -> Array:
        """Join parts of one width, the low part first; always a fresh array."""
        size = parts[0].dtype.itemsize * len(parts)
        joined = np.stack(np.broadcast_arrays(*parts), axis=-1)
        return joined.view(B128 if size == 16 else _UNSIGNED[size])[..., 0]

    def unpack(self, a: Array, count: int) -> list[Array]:
        """Split into `count` parts of one width, the low part first."""
        part = _UNSIGNED[a.dtype.itemsize // count]
        split = np.ascontiguousarray(a).view(part).reshape(*a.shape, count)
        return [split[..., k] for k in range(count)]

    # ------------------------------------------------------------ integers
    def add(self, a: Array, b: Array) -> Array:
        """Add, wrapping."""
        return a + b

    def sub(self, a: Array, b: Array) -> Array:
        """Subtract, wrapping."""
        return a - b

    def mul(self, a: Array, b: Array) -> Array:
        """Multiply, keeping the low half."""
        return a * b

    def umulh(self, a: Array, b: Array) -> Array:
        """Return the high half of the unsigned product."""
        size = a.dtype.itemsize
        if size < 8:
            wide = _UNSIGNED[size * 2]
            product: Array = (a.astype(wide) * b) >> wide.type(size * 8)
            return product.astype(a.dtype)
        low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
        a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
        middle = a1 * b0 + (a0 * b0 >> half)
        high: Array = a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)
        return high

    def smulh(self, a: Array, b: Array) -> Array:
        """Return the high half of the signed product."""
        none = a.dtype.type(0)
        high = self.umulh(a, b)
        return high - np.where(_signed(a) < 0, b, none) - np.where(_signed(b) < 0, a, none)

    def udiv(self, a: Array, b: Array) -> Array:
        """Divide unsigned; `b` is nowhere 0."""
        return a // b

    def sdiv(self, a: Array, b: Array) -> Array:
        """Divide signed, toward zero; the most negative number by -1 is itself."""
        quotient = _magnitude(a) // _magnitude(b)
        return np.where(_signed(a ^ b) < 0, a.dtype.type(0) - quotient, quotient)

    def urem(self, a: Array, b: Array) -> Array:
        """Return the unsigned remainder; `b` is nowhere 0."""
        return a % b

    def srem(self, a: Array, b: Array) -> Array:
        """Return the remainder with the dividend's sign."""
        rest = _magnitude(a) % _magnitude(b)
        return np.where(_signed(a) < 0, a.dtype.type(0) - rest, rest)

    def and_(self, a: Array, b: Array) -> Array:
        """Return a & b."""
        return a & b

    def or_(self, a: Array, b: Array) -> Array:
        """Return a | b."""
        return a | b

    def xor(self, a: Array, b: Array) -> Array:
        """Return a ^ b."""
        return a ^ b

    def not_(self, a: Array) -> Array:
        """Return ~a."""
        return ~a

    def shl(self, a: Array, b: Array) -> Array:
        """Shift left by less than the width."""
        return a << b

    def lshr(self, a: Array, b: Array) -> Array:
        """Shift right by less than the width, zeros coming in."""
        return a >> b

    def ashr(self, a: Array, b: Array) -> Array:
        """Shift right by less than the width, signs coming in."""
        return (_signed(a) >> _signed(b)).view(a.dtype)

    def popcount(self, a: Array) -> Array:
        """Count the bits set."""
        return np.bitwise_count(a).astype(a.dtype)

    def clz(self, a: Array) -> Array:
        """Count the zeros above the highest bit set; the width for 0."""
        smeared, shift = a, 1
        while shift < a.dtype.itemsize * 8:
            smeared = smeared | (smeared >> a.dtype.type(shift))
            shift *= 2
        return np.bitwise_count(~smeared).astype(a.dtype)

    def bitreverse(self, a: Array) -> Array:
        """Reverse the order of the bits."""
        split = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
        return np.ascontiguousarray(_REVERSED[split[..., ::-1]]).view(a.dtype)[..., 0]

    def eq(self, a: Array, b: Array) -> Array:
        """Say where a == b."""
        truth: Array = a == b
        return truth

    def ne(self, a: Array, b: Array) -> Array:
        """Say where a != b."""
        truth: Array = a != b
        return truth

    def ult(self, a: Array, b: Array) -> Array:
        """Say where a < b, unsigned."""
        return a < b

    def ule(self, a: Array, b: Array) -> Array:
        """Say where a <= b, unsigned."""
        return a <= b

    def slt(self, a: Array, b: Array) -> Array:
        """Say where a < b, signed."""
        return _signed(a) < _signed(b)

    def sle(self, a: Array, b: Array) -> Array:
        """Say where a <= b, signed."""
        return _signed(a) <= _signed(b)

    def select(self, p: Array, a: Array, b: Array) -> Array:
        """Return a where p holds, else b."""
        return np.where(p, a, b)

    # ------------------------------------------------------------ floats
    def fadd(
        self, fmt: str, a: Array, b: Array, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
    ) -> Array:
        """Return a + b, rounded once."""
        return softfloat.add(fmt, a, b, rounding, ftz, sat)

    def fmul(
        self, fmt: str, a: Array, b: Array, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False
    ) -> Array:
        """Return a * b, rounded once."""
        return softfloat.mul(fmt, a, b, rounding, ftz, sat)

    def ffma(
        self,
        fmt: str,
        a: Array,
        b: Array,
        c: Array,
        rounding: Rounding = "rn",
        ftz: bool = False,
        sat: bool = False,
    ) -> Array:
        """Return a * b + c, rounded once."""
        return softfloat.fma(fmt, a, b, c, rounding, ftz, sat)

    def fdiv(self, fmt: str, a: Array, b: Array, rounding: Rounding = "rn", ftz: bool = False) -> Array:
        """Return a / b, rounded once."""
        return softfloat.div(fmt, a, b, rounding, ftz)

    def fsqrt(self, fmt: str, a: Array, rounding: Rounding = "rn", ftz: bool = False) -> Array:
        """Return the square root, rounded once."""
        return softfloat.sqrt(fmt, a, rounding, ftz)

    def fcmp(self, fmt: str, a: Array, b: Array, ftz: bool = False) -> tuple[Array, Array, Array]:
        """Say where a < b, where a == b (-0 equals +0), and where one is a NaN."""
        if ftz:
            a, b = conversion.flush_subnormals(fmt, a), conversion.flush_subnormals(fmt, b)
        if fmt == "bf16":
            a, b, fmt = a.astype(np.uint32) << np.uint32(16), b.astype(np.uint32) << np.uint32(16), "f32"
        x, y = a.view(_FLOATS[fmt]), b.view(_FLOATS[fmt])
        with np.errstate(invalid="ignore"):
            return x < y, x == y, (x != x) | (y != y)

    def fconvert(
        self, src: str, dst: str, a: Array, rounding: Rounding = "rn", sat: str = "", ftz: bool = False
    ) -> Array:
        """Convert codes of one format to another, rounded once."""
        limits = {"satfinite": sat == "satfinite", "sat": sat == "sat"}
        return conversion.convert(a, src, dst, rounding, **limits, ftz=ftz)

    def fround(self, fmt: str, a: Array, rounding: Rounding, ftz: bool = False) -> Array:
        """Round to an integral value of the same format."""
        return conversion.round_to_integral(fmt, a, rounding, ftz=ftz)

    def f_to_int(
        self, fmt: str, a: Array, width: int, is_signed: bool, rounding: Rounding, ftz: bool = False
    ) -> Array:
        """Convert to an integer, clamped to its range; NaN as the manual says."""
        return conversion.to_integer(a, fmt, width, is_signed, rounding, ftz=ftz)

    def int_to_f(self, a: Array, is_signed: bool, fmt: str, rounding: Rounding) -> Array:
        """Convert an integer to a float, rounded once."""
        return conversion.from_integer(fmt, _signed(a) if is_signed else a, rounding)

    def mufu(self, name: str, fmt: str, a: Array) -> Array:
        """Ask the multifunction unit."""
        return mufu.apply(name, fmt, a)

    # ------------------------------------------------------------ memory
    def load(self, space: str, address: Array, width: int, count: int = 1) -> list[Array]:
        """Load `count` consecutive elements of `width` bits at each active lane's address."""
        size = width // 8
        data = self.m.load(space, address, size * count, order=self.order)
        dtype = lane_dtype(width)
        if count == 1:
            return [data.view(dtype)[:, 0]]
        split = data.view(dtype)
        return [split[:, k] for k in range(count)]

    def store(self, space: str, address: Array, values: list[Array]) -> None:
        """Store the elements one after the other at each active lane's address."""
        joined = np.stack(np.broadcast_arrays(address, *values)[1:], axis=-1)
        bytes_ = np.ascontiguousarray(joined).view(np.uint8)
        self.m.store(space, address, bytes_, order=self.order)
