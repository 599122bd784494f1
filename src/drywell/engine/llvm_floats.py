"""Floating-point operations as LLVM IR over 32 lanes, bit for bit what `drywell.numerics` computes.

f32 and f64 to nearest are the machine's own operations; f16 and bf16 go through a wider type, where a
second rounding does no harm; every other rounding of f16, bf16 and f32 goes through a double that holds
the exact value or that value rounded to odd (see `_through_double`). What is left (directed f64, the
small formats) is called at run time; `RuntimeCall` says so.
"""

from __future__ import annotations

from drywell.engine.llvm_text import Lanes, RuntimeCall, Writer, constant, vector
from drywell.numerics.formats import FORMATS

TYPES = {"f16": "half", "f32": "float", "f64": "double"}
_SUFFIX = {"half": "v32f16", "float": "v32f32", "double": "v32f64"}
_BITS = {"half": 16, "float": 32, "double": 64}
_BINARY = {"add": "fadd", "mul": "fmul", "div": "fdiv"}
_INTEGRAL = {"rn": "roundeven", "rz": "trunc", "rm": "floor", "rp": "ceil"}
_QUIET_F64 = 1 << 51

#: In which order the operands' NaNs are looked for in f64; numerics/softfloat.py has the measurement.
_NAN_ORDER = {"add": (1, 0), "mul": (1, 0), "div": (0, 1), "sqrt": (0,), "fma": (1, 2, 0)}

#: Where a nearest result is evaluated when not in the format's own type: sums and roots of bf16 need no
#: more than f32.
_EVALUATED_IN = {("f16", "fma"): "double", ("bf16", "add"): "float", ("bf16", "sqrt"): "float"}

#: NaNs keep sign and upper payload in these conversions; bf16 to f32 is a plain shift.
_PAYLOAD_KEPT = {
    ("f16", "f64"),
    ("bf16", "f64"),
    ("f32", "f64"),
    ("f64", "f64"),
    ("f64", "f16"),
    ("f64", "f32"),
}


class Floats:
    """Writes float operations with `w`; values are codes in `Lanes`, or names of vectors of an LLVM
    float type.
    """

    def __init__(self, w: Writer) -> None:
        self.w = w

    # ---------------------------------------------------------------- small parts
    def _integer(self, operation: str, a: Lanes, b: Lanes | int) -> Lanes:
        right = constant(b, a.width) if isinstance(b, int) else b
        return Lanes(self.w.let(f"{operation} {vector(a.width)} {a.text}, {right.text}"), a.width)

    def _compare(self, relation: str, a: Lanes, b: Lanes | int) -> str:
        right = constant(b, a.width) if isinstance(b, int) else b
        return self.w.let(f"icmp {relation} {vector(a.width)} {a.text}, {right.text}")

    def _choose(self, p: str, a: Lanes, b: Lanes) -> Lanes:
        kind = vector(a.width)
        return Lanes(self.w.let(f"select {vector(1)} {p}, {kind} {a.text}, {kind} {b.text}"), a.width)

    def _any(self, operation: str, p: str, q: str) -> str:
        return self.w.let(f"{operation} {vector(1)} {p}, {q}")

    def _fcmp(self, relation: str, kind: str, a: str, b: str) -> str:
        return self.w.let(f"fcmp {relation} {vector(kind)} {a}, {b}")

    def _magnitude(self, kind: str, a: str) -> str:
        return self.w.intrinsic(f"fabs.{_SUFFIX[kind]}", vector(kind), (vector(kind), a))

    def _codes(self, kind: str, a: str) -> Lanes:
        return Lanes(self.w.let(f"bitcast {vector(kind)} {a} to {vector(_BITS[kind])}"), _BITS[kind])

    def _resize(self, a: str, kind: str, wanted: str) -> str:
        if kind == wanted:
            return a
        return self.w.let(
            f"{'fpext' if _BITS[kind] < _BITS[wanted] else 'fptrunc'} {vector(kind)} {a} to {vector(wanted)}"
        )

    def value(self, fmt: str, a: Lanes, wanted: str) -> str:
        """Return codes of f16, bf16, f32 or f64 as the float type `wanted`, which holds them exactly
        (NaN payloads apart).
        """
        kind = TYPES.get(fmt, "float")
        if fmt == "bf16":
            a = self._integer("shl", Lanes(self.w.let(f"zext {vector(16)} {a.text} to {vector(32)}"), 32), 16)
        return self._resize(self.w.let(f"bitcast {vector(a.width)} {a.text} to {vector(kind)}"), kind, wanted)

    def flush(self, fmt: str, a: Lanes) -> Lanes:
        """Return codes with subnormals replaced by the zero of their sign."""
        f = FORMATS[fmt]
        small = self._compare("ult", self._integer("and", a, f.magnitude_mask), 1 << f.mantissa_bits)
        return self._choose(small, self._integer("and", a, f.sign_mask), a)

    def is_nan(self, fmt: str, a: Lanes) -> str:
        """Return where codes are NaN."""
        f = FORMATS[fmt]
        return self._compare("ugt", self._integer("and", a, f.magnitude_mask), f.infinity)

    def clamp_unit(self, fmt: str, a: Lanes) -> Lanes:
        """Return codes clamped to [+0, 1], NaN as +0."""
        f = FORMATS[fmt]
        one = constant(f.bias << f.mantissa_bits, a.width)
        low = self._any(
            "or", self._compare("ne", self._integer("and", a, f.sign_mask), 0), self.is_nan(fmt, a)
        )
        return self._choose(low, constant(0, a.width), self._choose(self._compare("ult", a, one), a, one))

    def _canonical(self, fmt: str, result: Lanes, nan: str) -> Lanes:
        return self._choose(nan, constant(FORMATS[fmt].canonical_nan or 0, result.width), result)

    # ---------------------------------------------------------------- rounding
    def _narrow(self, value: str, kind: str, wanted: str, rounding: str) -> Lanes:
        """Return the codes of a value rounded from one LLVM type to a narrower one; rounding may be
        `odd`.

        The machine rounds to nearest; where that went the wrong way the code moves by one, which also
        takes an overflow back from Inf.
        """
        nearest = self._resize(value, kind, wanted)
        codes = self._codes(wanted, nearest)
        if rounding == "rn" or kind == wanted:
            return codes
        back, exact = self._magnitude(kind, self._resize(nearest, wanted, kind)), self._magnitude(kind, value)
        down, up = self._fcmp("ogt", kind, back, exact), self._fcmp("olt", kind, back, exact)
        no = constant(0, 1).text
        if rounding == "rz":
            up = no
        elif rounding == "odd":
            even = self._compare("eq", self._integer("and", codes, 1), 0)
            down, up = self._any("and", down, even), self._any("and", up, even)
        else:
            inward = self._compare("sge" if rounding == "rm" else "slt", self._codes(kind, value), 0)
            down = self._any("and", down, inward)
            up = self._any("and", up, self._any("xor", inward, constant(1, 1).text))
        step = self._choose(
            down,
            constant(-1, codes.width),
            self._choose(up, constant(1, codes.width), constant(0, codes.width)),
        )
        return self._integer("add", codes, step)

    def _from_word(self, word: Lanes, rounding: str) -> Lanes:
        """Return the bf16 codes of f32 codes that are no NaN."""
        if rounding == "rn":
            odd = self._integer("and", self._integer("lshr", word, 16), 1)
            word = self._integer("add", self._integer("add", word, 0x7FFF), odd)
        elif rounding in ("rm", "rp"):
            away = self._compare("slt" if rounding == "rm" else "sge", word, 0)
            word = self._integer("add", word, self._choose(away, constant(0xFFFF, 32), constant(0, 32)))
        return Lanes(
            self.w.let(f"trunc {vector(32)} {self._integer('lshr', word, 16).text} to {vector(16)}"), 16
        )

    def rounded(self, fmt: str, value: str, kind: str, rounding: str) -> Lanes:
        """Return the codes of a float vector in `fmt`, rounded once, NaN canonical."""
        if fmt == "bf16":
            codes = self._from_word(self._narrow(value, kind, "float", "odd"), rounding)
        elif fmt == "f16" and kind == "double":  # the machine has no step from double to half
            odd = self._narrow(value, kind, "float", "odd")
            codes = self._narrow(
                self.w.let(f"bitcast {vector(32)} {odd.text} to {vector('float')}"), "float", "half", rounding
            )
        else:
            codes = self._narrow(value, kind, TYPES[fmt], rounding)
        return self._canonical(fmt, codes, self._fcmp("uno", kind, value, value))

    # ---------------------------------------------------------------- arithmetic
    def arithmetic(
        self,
        operation: str,
        fmt: str,
        operands: list[Lanes],
        rounding: str = "rn",
        ftz: bool = False,
        sat: bool = False,
    ) -> Lanes:
        """Return add, mul, div, sqrt or fma of codes."""
        if fmt == "f64" and rounding != "rn":
            return self._called(
                f"f{operation}",
                (fmt,),
                operands,
                self._tail(operation, rounding, ftz, sat),
                operands[0].width,
            )
        if ftz:
            operands = [self.flush(fmt, o) for o in operands]
        if rounding != "rn":
            result = self._through_double(operation, fmt, operands, rounding, ftz)
        elif ftz and operation in ("mul", "div", "fma"):
            result = self._flushed(operation, fmt, operands)
        else:
            result = self._nearest(operation, fmt, operands)
            result = self.flush(fmt, result) if ftz else result
        return self.clamp_unit(fmt, result) if sat else result

    def _tail(self, operation: str, rounding: str, ftz: bool, sat: bool) -> tuple[object, ...]:
        return (rounding, ftz) if operation in ("div", "sqrt") else (rounding, ftz, sat)

    def _nearest(self, operation: str, fmt: str, operands: list[Lanes]) -> Lanes:
        kind = _EVALUATED_IN.get(
            (fmt, operation), "double" if fmt == "bf16" else {"f16": "float"}.get(fmt, TYPES.get(fmt, ""))
        )
        values = [self.value(fmt, o, kind) for o in operands]
        if operation == "fma" and fmt in ("f16", "bf16"):
            value = self._add_to_odd(
                self.w.let(f"fmul {vector('double')} {values[0]}, {values[1]}"), values[2]
            )
        elif operation in _BINARY:
            value = self.w.let(f"{_BINARY[operation]} {vector(kind)} {values[0]}, {values[1]}")
        else:
            value = self.w.intrinsic(
                f"{operation}.{_SUFFIX[kind]}", vector(kind), *((vector(kind), v) for v in values)
            )
        if fmt != "f64":
            return self.rounded(fmt, value, kind, "rn")
        return self._propagated(self._codes("double", value), [operands[i] for i in _NAN_ORDER[operation]])

    def _propagated(self, result: Lanes, operands: list[Lanes]) -> Lanes:
        """Replace f64 NaNs by the first operand that is one, made quiet."""
        chosen = constant(FORMATS["f64"].canonical_nan or 0, 64)
        for operand in reversed(operands):
            chosen = self._choose(
                self.is_nan("f64", operand), self._integer("or", operand, _QUIET_F64), chosen
            )
        return self._choose(self.is_nan("f64", result), chosen, result)

    def _add_to_odd(self, x: str, y: str) -> str:
        """Return the sum of doubles rounded to odd: an inexact one gets the neighbour whose last bit is
        1 (Boldo and Melquiond, 2008).
        """

        def double(operation: str, a: str, b: str) -> str:
            return self.w.let(f"{operation} {vector('double')} {a}, {b}")

        total = double("fadd", x, y)
        part = double("fsub", total, x)
        error = double(
            "fadd", double("fsub", x, double("fsub", total, part)), double("fsub", y, part)
        )  # exact: Knuth's TwoSum
        codes = self._codes("double", total)
        inexact = self._fcmp("one", "double", error, "zeroinitializer")
        moves = self._any("and", inexact, self._compare("eq", self._integer("and", codes, 1), 0))
        inward = self._compare("slt", self._integer("xor", codes, self._codes("double", error)), 0)
        step = self._choose(inward, constant(-1, 64), constant(1, 64))
        moved = self._choose(moves, self._integer("add", codes, step), codes)
        return self.w.let(f"bitcast {vector(64)} {moved.text} to {vector('double')}")

    def _through_double(
        self, operation: str, fmt: str, operands: list[Lanes], rounding: str, ftz: bool
    ) -> Lanes:
        """Return a result of f16, bf16 or f32 by way of a double, rounded once as asked.

        Products are exact, sums are rounded to odd. A quotient or root of 24-bit numbers that is not on
        the grid of 25 bits lies further from it than a double's rounding error, so that the nearest
        double is on the same side.
        """
        values = [self.value(fmt, o, "double") for o in operands]
        if operation in ("add", "fma"):
            first = (
                self.w.let(f"fmul {vector('double')} {values[0]}, {values[1]}")
                if operation == "fma"
                else values[0]
            )
            value = self._signed_zero(self._add_to_odd(first, values[-1]), first, values[-1], rounding)
        elif operation in _BINARY:
            value = self.w.let(f"{_BINARY[operation]} {vector('double')} {values[0]}, {values[1]}")
        else:
            value = self.w.intrinsic("sqrt.v32f64", vector("double"), (vector("double"), values[0]))
        result = self.rounded(fmt, value, "double", rounding)
        if not ftz:
            return result
        return self._choose(
            self._is_tiny(fmt, value, rounding), self._integer("and", result, FORMATS[fmt].sign_mask), result
        )

    def _signed_zero(self, total: str, x: str, y: str, rounding: str) -> str:
        """Return a sum whose zeros have the right sign: toward minus infinity, -0 unless both terms are
        +0.
        """
        if rounding != "rm":
            return total
        signs = self._integer(
            "and", self._integer("or", self._codes("double", x), self._codes("double", y)), 1 << 63
        )
        zero = self._fcmp("oeq", "double", total, "zeroinitializer")
        codes = self._choose(zero, signs, self._codes("double", total))
        return self.w.let(f"bitcast {vector(64)} {codes.text} to {vector('double')}")

    def _is_tiny(self, fmt: str, value: str, rounding: str) -> str:
        """Return where a value is below the smallest normal number after rounding with an unbounded
        exponent (`rounding.is_tiny`).
        """
        f = FORMATS[fmt]
        smallest = (f.min_exponent + 1023) << 52
        ulp = 1 << (
            52 - f.mantissa_bits
        )  # of numbers just below 2^min_exponent, in units of a double's last place
        codes = self._integer("and", self._codes("double", value), (1 << 63) - 1)
        if rounding == "rn":
            return self._compare("ult", codes, smallest - ulp // 2)
        if rounding == "rz":
            return self._compare("ult", codes, smallest)
        away = self._compare("slt" if rounding == "rm" else "sge", self._codes("double", value), 0)
        return self._compare(
            "ult", codes, self._choose(away, constant(smallest - ulp + 1, 64), constant(smallest, 64))
        )

    def _flushed(self, operation: str, fmt: str, operands: list[Lanes]) -> Lanes:
        """Return a nearest result with tiny ones flushed: a function that takes the long way only for
        the smallest normal number.
        """
        f = FORMATS[fmt]

        def write(w: Writer, parameters: list[Lanes]) -> Lanes:
            floats = Floats(w)
            fast = floats.flush(fmt, floats._nearest(operation, fmt, parameters))
            kind = vector(fast.width)
            edge = floats._compare("eq", floats._integer("and", fast, f.magnitude_mask), 1 << f.mantissa_bits)
            bits = w.let(f"bitcast {vector(1)} {edge} to i32")
            none = w.let(f"icmp eq i32 {bits}, 0")
            w.entry, w.lines = [*w.entry, *w.lines, f"  br i1 {none}, label %done, label %edge"], ["edge:"]
            slow = floats._through_double(operation, fmt, parameters, "rn", ftz=True)
            w.do("br label %done")
            w.label("done")
            return Lanes(w.let(f"phi {kind} [ {fast.text}, %entry ], [ {slow.text}, %edge ]"), fast.width)

        return self.w.function(f"drywell.{operation}.{fmt}.ftz", operands[0].width, operands, write)

    def compare(self, fmt: str, a: Lanes, b: Lanes, ftz: bool) -> tuple[Lanes, Lanes, Lanes]:
        """Return (less, equal, unordered)."""
        if ftz:
            a, b = self.flush(fmt, a), self.flush(fmt, b)
        kind = "double" if fmt == "f64" else "float"
        x, y = self.value(fmt, a, kind), self.value(fmt, b, kind)
        less, equal, unordered = (
            Lanes(self._fcmp(relation, kind, x, y), 1) for relation in ("olt", "oeq", "uno")
        )
        return less, equal, unordered

    # ---------------------------------------------------------------- conversions
    def convert(self, src: str, dst: str, a: Lanes, rounding: str, sat: str, ftz: bool) -> Lanes:
        """Return codes of one format as codes of another."""
        is_native = (
            {src, dst} <= {"f16", "bf16", "f32", "f64"}
            and rounding != "rna"
            and not (ftz and (src, dst) == ("f64", "f32"))
        )
        if not is_native:
            return self._called(
                "fconvert", (src, dst), [a], (rounding, sat, ftz), FORMATS[dst].container_bits
            )
        if ftz and src == "f32":
            a = self.flush("f32", a)
            if dst == "f64":  # the flushing multiplication makes NaNs canonical, too
                a = self._canonical("f32", a, self.is_nan("f32", a))
        kind = "double" if "f64" in (src, dst) else "float"
        result = self.rounded(dst, self.value(src, a, kind), kind, rounding)
        result = self._choose(self.is_nan(src, a), self._moved_nan(src, dst, a), result)
        f = FORMATS[dst]
        if sat == "satfinite":
            infinite = self._compare("eq", self._integer("and", result, f.magnitude_mask), f.infinity)
            finite = self._integer("or", self._integer("and", result, f.sign_mask), f.max_finite)
            result = self._choose(infinite, finite, result)
        if ftz and dst == "f32":
            result = self.flush("f32", result)
        return self.clamp_unit(dst, result) if sat == "sat" else result

    def _moved_nan(self, src: str, dst: str, a: Lanes) -> Lanes:
        """Return what the NaNs among `a` become."""
        f, g = FORMATS[src], FORMATS[dst]
        if (src, dst) == ("bf16", "f32"):
            return self._integer(
                "shl", Lanes(self.w.let(f"zext {vector(16)} {a.text} to {vector(32)}"), 32), 16
            )
        if (src, dst) not in _PAYLOAD_KEPT:
            return constant(g.canonical_nan or 0, g.container_bits)
        wide = (
            a if a.width == 64 else Lanes(self.w.let(f"zext {vector(a.width)} {a.text} to {vector(64)}"), 64)
        )
        shift = g.mantissa_bits - f.mantissa_bits
        payload = self._integer("and", wide, (1 << f.mantissa_bits) - 1)
        payload = (
            self._integer("shl", payload, shift) if shift >= 0 else self._integer("lshr", payload, -shift)
        )
        sign = self._integer("shl", self._integer("lshr", wide, f.container_bits - 1), g.container_bits - 1)
        whole = self._integer(
            "or", self._integer("or", payload, sign), g.infinity | (1 << (g.mantissa_bits - 1))
        )
        return (
            whole
            if g.container_bits == 64
            else Lanes(
                self.w.let(f"trunc {vector(64)} {whole.text} to {vector(g.container_bits)}"), g.container_bits
            )
        )

    def _integral(self, fmt: str, a: Lanes, rounding: str, ftz: bool) -> tuple[str, str, Lanes]:
        if ftz and fmt == "f32":
            a = self.flush("f32", a)
        kind = "double" if fmt == "f64" else "float"
        value = self.w.intrinsic(
            f"{_INTEGRAL[rounding]}.{_SUFFIX[kind]}", vector(kind), (vector(kind), self.value(fmt, a, kind))
        )
        return value, kind, a

    def round(self, fmt: str, a: Lanes, rounding: str, ftz: bool) -> Lanes:
        """Return codes rounded to integral values."""
        value, kind, a = self._integral(fmt, a, rounding, ftz)
        result = self.rounded(fmt, value, kind, "rn")
        return self._propagated(result, [a]) if fmt == "f64" else result

    def to_integer(self, fmt: str, a: Lanes, width: int, is_signed: bool, rounding: str, ftz: bool) -> Lanes:
        """Return codes as integers, clamped to the range; NaN gives 0, or 2^(width-1) from f64 or to 64
        bits.
        """
        value, kind, a = self._integral(fmt, a, rounding, ftz)
        name = f"fpto{'s' if is_signed else 'u'}i.sat.v32i{width}.{_SUFFIX[kind]}"
        result = Lanes(self.w.intrinsic(name, vector(width), (vector(kind), value)), width)
        if fmt != "f64" and width != 64:
            return result
        return self._choose(self._fcmp("uno", kind, value, value), constant(1 << (width - 1), width), result)

    def from_integer(self, a: Lanes, is_signed: bool, fmt: str, rounding: str) -> Lanes:
        """Return integers as codes, rounded once."""
        is_direct = rounding == "rn" and fmt in ("f32", "f64")
        if not (is_direct or (a.width <= 32 and fmt in ("f16", "bf16", "f32", "f64"))):
            return self._called("int_to_f", (), [a], (is_signed, fmt, rounding), FORMATS[fmt].container_bits)
        kind = TYPES[fmt] if is_direct else "double"  # a double holds 32 bits exactly
        value = self.w.let(f"{'s' if is_signed else 'u'}itofp {vector(a.width)} {a.text} to {vector(kind)}")
        return self._codes(kind, value) if is_direct else self.rounded(fmt, value, kind, rounding)

    # ---------------------------------------------------------------- what is called
    def _called(
        self,
        method: str,
        before: tuple[object, ...],
        operands: list[Lanes],
        after: tuple[object, ...],
        width: int,
    ) -> Lanes:
        widths = tuple(o.width for o in operands)
        words = [method, *before, *(f"i{w}" for w in widths), *after]
        name = "drywell." + ".".join(str(int(w) if isinstance(w, bool) else w or "no") for w in words)
        return self.w.runtime(RuntimeCall(name, method, before, after, widths, width), operands)
