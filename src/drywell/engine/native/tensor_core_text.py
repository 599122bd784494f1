"""Vectors in LLVM IR for the tensor core: what `ir.Function` has for single values, for `<n x T>`."""

from __future__ import annotations

from drywell.engine.native.ir import I1, I32, I64, PTR, Function, Value

FLOAT, DOUBLE = "float", "double"
LANES = 8
"""Columns, or rows of an operand, that one vector holds."""
V8I32, V8FLOAT = f"<{LANES} x i32>", f"<{LANES} x float>"


def vector(count: int, element: str) -> str:
    """Return the type of a vector.

    >>> vector(8, "i32")
    '<8 x i32>'
    """
    return f"<{count} x {element}>"


def shape(kind: str) -> tuple[int, str]:
    """Return how many elements of which type a vector type has.

    >>> shape("<8 x i32>")
    (8, 'i32')
    """
    count, _, element = kind.strip("<>").partition(" x ")
    return int(count), element


class Kernel(Function):
    """A function of vectors; a Python number beside a vector stands for a vector of it."""

    def of(self, kind: str, value: Value | int | float) -> Value:
        """Return a value as it is, or a number as a constant of a type, in every element of a vector."""
        if isinstance(value, Value) or not kind.startswith("<"):
            return super().of(kind, value)  # type: ignore[arg-type]
        element = shape(kind)[1]
        return Value(self, f"splat ({element} {value})", kind)

    def text(self) -> str:
        """Return the function as IR; one that others call stays a function of its own."""
        found = super().text()
        return found.replace(") {", ") noinline {", 1) if self.is_internal else found

    def all_of(self, count: int, value: Value) -> Value:
        """Return a vector that holds one value in every element."""
        return self.splat(value.type, count, value)

    def larger(self, a: Value, b: Value | int) -> Value:
        """Return the elementwise signed maximum."""
        return self._intrinsic2("smax", a, b)

    def larger_unsigned(self, a: Value, b: Value | int) -> Value:
        """Return the elementwise unsigned maximum."""
        return self._intrinsic2("umax", a, b)

    def smaller(self, a: Value, b: Value | int) -> Value:
        """Return the elementwise signed minimum."""
        return self._intrinsic2("smin", a, b)

    def smaller_unsigned(self, a: Value, b: Value | int) -> Value:
        """Return the elementwise unsigned minimum."""
        return self._intrinsic2("umin", a, b)

    def sum_clamped(self, a: Value, b: Value) -> Value:
        """Return the elementwise signed sum, clamped to the type."""
        return self._intrinsic2("sadd.sat", a, b)

    def _intrinsic2(self, name: str, a: Value, b: Value | int) -> Value:
        return self.intrinsic(f"{name}.{suffix(a.type)}", a.type, a, self.of(a.type, b))

    def reduced(self, name: str, a: Value) -> Value:
        """Return `llvm.vector.reduce.<name>` of a vector: smax, smin, or."""
        return self.intrinsic(f"vector.reduce.{name}.{suffix(a.type)}", shape(a.type)[1], a)

    def compared(self, relation: str, a: Value, b: Value | int) -> Value:
        """Compare elementwise by a relation of `icmp`."""
        count = shape(a.type)[0]
        right = self.of(a.type, b)
        return self.let(vector(count, I1), f"icmp {relation} {a.type} {a.text}, {right.text}")

    def picked(self, condition: Value, yes: Value | int, no: Value | int) -> Value:
        """Choose elementwise."""
        kind = next(v.type for v in (yes, no) if isinstance(v, Value))
        left, right = self.of(kind, yes), self.of(kind, no)
        return self.let(
            kind,
            f"select {condition.type} {condition.text}, {kind} {left.text}, {kind} {right.text}",
        )

    def any_of(self, condition: Value) -> Value:
        """Say whether any element of a vector of i1 is set."""
        word = f"i{shape(condition.type)[0]}"
        return condition.bitcast(word).is_("ne", 0)

    def times(self, a: Value, b: Value) -> Value:
        """Multiply floating-point numbers."""
        return self.let(a.type, f"fmul {a.type} {a.text}, {b.text}")

    def plus(self, a: Value, b: Value) -> Value:
        """Add floating-point numbers."""
        return self.let(a.type, f"fadd {a.type} {a.text}, {b.text}")

    def cast(self, operation: str, a: Value, element: str) -> Value:
        """Convert every element to a type: zext, sext, trunc, sitofp, fptosi, fptrunc, fpext."""
        count, own = shape(a.type)
        kind = vector(count, element)
        return a if own == element else self.let(kind, f"{operation} {a.type} {a.text} to {kind}")

    def as_integers(self, a: Value) -> Value:
        """Read the bits of floats as i32."""
        return a.bitcast(vector(shape(a.type)[0], I32))

    def as_floats(self, a: Value) -> Value:
        """Read i32 as the bits of floats."""
        return a.bitcast(vector(shape(a.type)[0], FLOAT))

    def shuffled(self, a: Value, b: Value, order: list[int]) -> Value:
        """Return the elements of `a` followed by `b` at these places."""
        indices = ", ".join(f"i32 {k}" for k in order)
        kind = vector(len(order), shape(a.type)[1])
        mask = f"<{len(order)} x i32> <{indices}>"
        return self.let(kind, f"shufflevector {a.type} {a.text}, {b.type} {b.text}, {mask}")

    def zipped(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return the elements of two vectors by turns, in two vectors."""
        count = shape(a.type)[0]
        order = [k + count * side for k in range(count) for side in (0, 1)]
        return self.shuffled(a, b, order[:count]), self.shuffled(a, b, order[count:])

    def peek(self, kind: str, base: Value, index: Value | int, align: int = 4) -> Value:
        """Read a vector that begins at element `index` of an array of its element type."""
        place = self.at(base, index, shape(kind)[1])
        return self.let(kind, f"load {kind}, ptr {place.text}, align {align}")

    def poke(self, value: Value, base: Value, index: Value | int, align: int = 4) -> None:
        """Write a vector from element `index` of an array of its element type on."""
        place = self.at(base, index, shape(value.type)[1])
        self.do(f"store {value.type} {value.text}, ptr {place.text}, align {align}")

    def spread(self, kind: str, base: Value, index: Value | int) -> Value:
        """Return a vector of `LANES` copies of element `index` of an array."""
        return self.all_of(LANES, self.load(kind, base, index))

    def number(self, base: Value, index: int) -> Value:
        """Read word `index` of a table of i64."""
        return self.load(I64, base, index)

    def pointer(self, base: Value, index: int) -> Value:
        """Read word `index` of a table, an address."""
        return self.load(PTR, base, index)


def suffix(kind: str) -> str:
    """Return how LLVM spells a type in the name of an intrinsic.

    >>> suffix("<8 x i32>"), suffix("<8 x float>")
    ('v8i32', 'v8f32')
    """
    names = {FLOAT: "f32", DOUBLE: "f64"}
    if not kind.startswith("<"):
        return names.get(kind, kind)
    count, element = shape(kind)
    return f"v{count}{names.get(element, element)}"
