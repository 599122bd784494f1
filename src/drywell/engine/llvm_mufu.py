"""The multifunction unit as LLVM IR over 32 lanes, bit for bit what `drywell.numerics.mufu` computes.

The interpolator's sums stay below 2^53 and are made in doubles, exactly; each function of the unit is a
function of the module, written when it is called first.
"""

from __future__ import annotations

from collections.abc import Callable

from drywell.engine.llvm_floats import Floats
from drywell.engine.llvm_text import Lanes, Writer, constant, vector
from drywell.numerics import mufu

_MAGNITUDE, _SIGN = 0x7FFFFFFF, 0x80000000
_MANTISSA, _HIDDEN = 0x7FFFFF, 0x800000
_INFINITY, _NAN, _ONE = 0x7F800000, 0x7FFFFFFF, 0x3F800000
_XL = 0x1FFFF


class Mufu(Floats):
    """Writes the unit's functions with `w`, on codes in `Lanes`."""

    def result(self, name: str, fmt: str, a: Lanes) -> Lanes:
        """Return function `name` of codes of f32, f16 or bf16; f64, whose upper halves count, is called."""
        if fmt == "f64":
            return self._called("mufu", (name, fmt), [a], (), a.width)
        if fmt == "f32":
            return self._unit(name, a)
        codes = self._codes("float", self.value(fmt, a, "float"))
        return self._cut_to_half(fmt, self._unit(name, codes))

    def _unit(self, name: str, code: Lanes) -> Lanes:
        def write(w: Writer, parameters: list[Lanes]) -> Lanes:
            return _FUNCTIONS[name](Mufu(w), parameters[0])

        return self.w.function(f"drywell.mufu.{name}", 32, [code], write)

    # ---------------------------------------------------------------- small parts
    def _split(self, code: Lanes) -> tuple[Lanes, Lanes]:
        """Return magnitudes, subnormals flushed, and signs."""
        size = self._integer("and", code, _MAGNITUDE)
        flushed = self._choose(self._compare("ult", size, _HIDDEN), constant(0, 32), size)
        return flushed, self._integer("and", code, _SIGN)

    def _where(self, p: str, chosen: int, other: Lanes) -> Lanes:
        return self._choose(p, constant(chosen, other.width), other)

    def _finished(self, result: Lanes, x: Lanes, is_nan: str | None = None) -> Lanes:
        bad = self._compare("ugt", x, _INFINITY)
        return self._where(bad if is_nan is None else self._any("or", bad, is_nan), _NAN, result)

    def _below_zero(self, x: Lanes, sign: Lanes) -> str:
        return self._any("and", self._compare("ne", x, 0), self._compare("ne", sign, 0))

    def _double(self, operation: str, a: str, b: str | float) -> str:
        right = b if isinstance(b, str) else f"splat (double {b!r})"
        return self.w.let(f"{operation} {vector('double')} {a}, {right}")

    def _from_integer(self, a: Lanes) -> str:
        return self.w.let(f"sitofp {vector(32)} {a.text} to {vector('double')}")

    def _whole(self, kind: str, a: str) -> Lanes:
        """Return numbers of an LLVM float type, all within 32 bits, without their fractions."""
        return Lanes(self.w.let(f"fptosi {vector(kind)} {a} to {vector(32)}"), 32)

    def _looked_up(self, table: str, kind: str, values: list[str], index: Lanes) -> str:
        """Return the elements of a constant array of the module."""
        whole = ", ".join(f"{kind} {v}" for v in values)
        self.w.module.declare(table, f"@{table} = internal constant [{len(values)} x {kind}] [{whole}]")
        at = self.w.let(f"getelementptr {kind}, ptr @{table}, {vector(32)} {index.text}")
        name = f"masked.gather.v32{'f64' if kind == 'double' else kind}.v32p0"
        every, none = (vector(1), constant(1, 1).text), (vector(kind), "poison")
        return self.w.intrinsic(name, vector(kind), (vector("ptr"), at), every, none)

    # ---------------------------------------------------------------- the interpolator
    def _square(self, xl: Lanes) -> str:
        """Return the unit's square in units of 2^19: a row of partial products for each bit from 10 on."""
        total = constant(0, 32)
        for i in range(10, 17):
            rest = self._integer("lshr", self._integer("and", xl, (1 << i) - 1), 18 - i)
            row = self._integer("add", rest, 1 << 2 * i - 19)
            is_set = self._integer("ashr", self._integer("shl", xl, 31 - i), 31)
            total = self._integer("add", total, self._integer("and", row, is_set))
        return self._from_integer(total)

    def _sum(self, name: str, segment: Lanes, xl: Lanes) -> str:
        """Return the sums at `xl` of `segment` as doubles."""
        table = mufu.SEGMENTS[name]
        columns = {"c0": table.c0, "c1": table.c1, "c2": 4 * table.c2}  # the square is in units of 4 here
        c0, c1, c2 = (
            self._looked_up(f"drywell.mufu.{name}.{key}", "double", [f"{v}.0" for v in column], segment)
            for key, column in columns.items()
        )
        linear = self._double("fadd", c0, self._double("fmul", c1, self._from_integer(xl)))
        return self._double("fadd", linear, self._double("fmul", c2, self._square(xl)))

    def _cut(self, sums: str, places: int) -> Lanes:
        return self._whole("double", self._double("fmul", sums, 2.0**-places))

    def _float(self, value: str) -> Lanes:
        """Return non-negative doubles as f32 codes of 24 bits, the rest cut; all normal or zero."""
        wide = self._integer("sub", self._integer("lshr", self._codes("double", value), 29), 896 << 23)
        cut = Lanes(self.w.let(f"trunc {vector(64)} {wide.text} to {vector(32)}"), 32)
        return self._where(self._fcmp("oeq", "double", value, "zeroinitializer"), 0, cut)

    # ---------------------------------------------------------------- the functions
    def rcp(self, code: Lanes) -> Lanes:
        """Return 1 / x."""
        x, sign = self._split(code)
        segment = self._integer("and", self._integer("lshr", x, 16), 0x7F)
        cut = self._cut(
            self._sum("rcp", segment, self._integer("shl", self._integer("and", x, 0xFFFF), 1)), 17
        )
        result = self._integer("add", cut, (253 << 23) - _HIDDEN)
        result = self._integer("sub", result, self._integer("and", x, _INFINITY))
        result = self._where(self._compare("slt", result, _HIDDEN), 0, result)
        result = self._where(self._compare("eq", x, _INFINITY), 0, result)
        result = self._where(self._compare("eq", x, 0), _INFINITY, result)
        return self._finished(self._integer("or", result, sign), x)

    def _root(self, name: str, x: Lanes, places: int) -> tuple[Lanes, Lanes]:
        """Return 24 bits of a root or its reciprocal, and half the exponent."""
        segment = self._integer("and", self._integer("lshr", x, 17), 0x7F)
        cut = self._cut(self._sum(name, segment, self._integer("and", x, _XL)), places)
        half = self._integer("lshr", self._integer("add", x, _HIDDEN), 24)
        return cut, self._integer("sub", half, 64)

    def rsq(self, code: Lanes) -> Lanes:
        """Return 1 / sqrt(x)."""
        x, sign = self._split(code)
        cut, half = self._root("rsq", x, 17)
        is_power = self._compare("eq", self._integer("and", x, 0xFFFFFF), _HIDDEN)
        cut = self._where(is_power, 2 * _HIDDEN, cut)
        exponent = self._integer("shl", self._integer("sub", constant(125, 32), half), 23)
        result = self._where(self._compare("eq", x, _INFINITY), 0, self._integer("add", exponent, cut))
        zero = self._integer("or", sign, _INFINITY)
        result = self._choose(self._compare("eq", x, 0), zero, result)
        return self._finished(result, x, self._below_zero(x, sign))

    def sqrt(self, code: Lanes) -> Lanes:
        """Return the square root of x."""
        x, sign = self._split(code)
        cut, half = self._root("sqrt", x, 18)
        exponent = self._integer("shl", self._integer("add", half, 126), 23)
        result = self._integer("add", exponent, cut)
        result = self._where(self._compare("eq", x, _INFINITY), _INFINITY, result)
        result = self._choose(self._compare("eq", x, 0), sign, result)
        return self._finished(result, x, self._below_zero(x, sign))

    def lg2(self, code: Lanes) -> Lanes:
        """Return log2(x)."""
        x, sign = self._split(code)
        segment = self._integer("and", self._integer("lshr", x, 17), 0x3F)
        exponent = self._from_integer(self._integer("sub", self._integer("lshr", x, 23), 127))
        fraction = self._sum("lg2", segment, self._integer("and", x, _XL))
        total = self._double("fadd", fraction, self._double("fmul", exponent, 2.0**40))
        is_negative = self._fcmp("olt", "double", total, "zeroinitializer")
        complement = self._double("fsub", "splat (double -1.0)", total)
        kind = vector("double")
        size = self.w.let(f"select {vector(1)} {is_negative}, {kind} {complement}, {kind} {total}")
        size = self.w.intrinsic("trunc.v32f64", kind, (kind, self._double("fmul", size, 2.0**-4)))
        result = self._float(self._double("fmul", size, 2.0**-36))
        result = self._choose(is_negative, self._integer("or", result, _SIGN), result)
        result = self._where(self._compare("eq", x, _ONE), 0, result)
        result = self._where(self._compare("eq", x, _INFINITY), _INFINITY, result)
        result = self._where(self._compare("eq", x, 0), _INFINITY | _SIGN, result)
        return self._finished(result, x, self._below_zero(x, sign))

    def _limited(self, x: Lanes, limit: int) -> str:
        """Return the numbers of x, none above that of `limit`."""
        least = self._where(self._compare("ugt", x, limit), limit, x)
        return self.w.let(f"bitcast {vector(32)} {least.text} to {vector('float')}")

    def _single(self, operation: str, a: str, b: str) -> str:
        return self.w.let(f"{operation} {vector('float')} {a}, {b}")

    def ex2(self, code: Lanes) -> Lanes:
        """Return 2^x."""
        x, sign = self._split(code)
        number = self._limited(x, mufu.EX2_LIMIT)
        size = self._whole("float", self._single("fmul", number, f"splat (float {2.0**23!r})"))
        is_whole = self._compare("eq", self._integer("and", size, _MANTISSA), 0)
        step = self._where(is_whole, 1, constant(0, 32))
        opposite = self._integer("add", self._integer("xor", size, -1), step)
        fixed = self._choose(self._compare("ne", sign, 0), opposite, size)
        segment = self._integer("and", self._integer("lshr", fixed, 17), 0x3F)
        cut = self._cut(self._sum("ex2", segment, self._integer("and", fixed, _XL)), 17)
        exponent = self._integer("add", self._integer("ashr", fixed, 23), 126)
        result = self._integer("add", self._integer("shl", exponent, 23), cut)
        result = self._where(self._compare("slt", result, _HIDDEN), 0, result)
        return self._finished(result, x)

    def _sine(self, x: Lanes, quarters: int) -> Lanes:
        number = self._limited(x, 0x4B800000)
        kind = vector("float")
        rest = self._single("fsub", number, self.w.intrinsic("trunc.v32f32", kind, (kind, number)))
        fixed = self._whole("float", self._single("fmul", rest, f"splat (float {2.0**25!r})"))
        quarter = self._integer("add", self._integer("lshr", fixed, 23), quarters)
        odd = self._integer("sub", constant(0, 32), self._integer("and", quarter, 1))
        argument = self._integer("and", self._integer("xor", fixed, odd), _MANTISSA)
        total = self._sum("sin", self._integer("lshr", argument, 17), self._integer("and", argument, _XL))
        sign = self._integer("shl", self._integer("and", quarter, 2), 30)
        return self._integer("or", self._float(self._double("fmul", total, 2.0**-41)), sign)

    def sin(self, code: Lanes) -> Lanes:
        """Return the sine of x turns."""
        x, sign = self._split(code)
        result = self._integer("xor", self._sine(x, 0), sign)
        return self._finished(result, x, self._compare("eq", x, _INFINITY))

    def cos(self, code: Lanes) -> Lanes:
        """Return the cosine of x turns."""
        x, _ = self._split(code)
        return self._finished(self._sine(x, 1), x, self._compare("eq", x, _INFINITY))

    def tanh(self, code: Lanes) -> Lanes:
        """Return the hyperbolic tangent of x."""
        x = self._integer("and", code, _MAGNITUDE)
        power = self._integer("sub", self._integer("lshr", x, 23), 119)
        power = self._where(self._compare("slt", power, 0), 0, power)
        power = self._where(self._compare("sgt", power, 10), 10, power)
        first, cut = (
            Lanes(self._looked_up(f"drywell.mufu.tanh.{name}", "i32", [str(v) for v in values], power), 32)
            for name, values in (("first", mufu.TANH_FIRST), ("cut", mufu.TANH_CUT))
        )
        argument = self._integer("lshr", self._integer("and", x, _MANTISSA), cut)
        segment = self._integer("add", first, self._integer("lshr", argument, 17))
        total = self._sum("tanh", segment, self._integer("and", argument, _XL))
        result = self._float(self._double("fmul", total, 2.0**-41))
        result = self._choose(self._compare("ult", x, 0x3B800000), x, result)
        result = self._where(self._compare("uge", x, 0x41000000), _ONE, result)
        return self._finished(self._integer("or", result, self._integer("and", code, _SIGN)), x)

    # ---------------------------------------------------------------- halves
    def _cut_to_half(self, fmt: str, word: Lanes) -> Lanes:
        """Return f32 codes as those of f16 or bf16, cut; f16 is infinite from 2^16 on."""
        if fmt == "f16":
            word = self._as_f16(word)
        else:
            word = self._integer("lshr", word, 16)
        return Lanes(self.w.let(f"trunc {vector(32)} {word.text} to {vector(16)}"), 16)

    def _as_f16(self, word: Lanes) -> Lanes:
        size = self._integer("and", word, _MAGNITUDE)
        normal = self._integer("lshr", self._integer("sub", size, 112 << 23), 13)
        places = self._integer("sub", constant(126, 32), self._integer("lshr", size, 23))
        places = self._where(self._compare("ugt", places, 31), 31, places)
        hidden = self._integer("or", self._integer("and", size, _MANTISSA), _HIDDEN)
        cut = self._choose(
            self._compare("ult", size, 0x38800000), self._integer("lshr", hidden, places), normal
        )
        cut = self._where(self._compare("uge", size, 0x47800000), 0x7C00, cut)
        sign = self._integer("and", self._integer("lshr", word, 16), 0x8000)
        return self._where(self._compare("ugt", size, _INFINITY), 0x7FFF, self._integer("or", cut, sign))


_FUNCTIONS: dict[str, Callable[[Mufu, Lanes], Lanes]] = {
    "rcp": Mufu.rcp,
    "rsq": Mufu.rsq,
    "sqrt": Mufu.sqrt,
    "lg2": Mufu.lg2,
    "ex2": Mufu.ex2,
    "sin": Mufu.sin,
    "cos": Mufu.cos,
    "tanh": Mufu.tanh,
}
