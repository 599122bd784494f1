"""A small structured builder of LLVM IR: functions of typed values, conditions and loops.

    f = Function("drywell.sum", I64, data=PTR, count=I64)
    total = f.variable(I64, 0)
    with f.loop(f["count"]) as k:
        total.add(f.load(I64, f["data"], k))
    f.give(total.value)

Integers are unsigned unless an operation says otherwise; a Python integer takes the type of the value beside
it. Variables are stack slots, which LLVM's passes turn into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

I1, I8, I16, I32, I64, PTR = "i1", "i8", "i16", "i32", "i64", "ptr"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of LLVM type `type`, called `text` in the function `function`."""

    function: Function
    text: str
    type: str

    def _two(self, operation: str, other: Value | int, result: str | None = None) -> Value:
        right = self.function.of(self.type, other)
        text = f"{operation} {self.type} {self.text}, {right.text}"
        return self.function.let(result or self.type, text)

    def __add__(self, other: Value | int) -> Value:
        return self._two("add", other)

    def __sub__(self, other: Value | int) -> Value:
        return self._two("sub", other)

    def __mul__(self, other: Value | int) -> Value:
        return self._two("mul", other)

    def __and__(self, other: Value | int) -> Value:
        return self._two("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._two("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._two("xor", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._two("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._two("lshr", other)

    def __mod__(self, other: Value | int) -> Value:
        return self._two("urem", other)

    def __floordiv__(self, other: Value | int) -> Value:
        return self._two("udiv", other)

    def __neg__(self) -> Value:
        return self.function.of(self.type, 0) - self

    def sdiv(self, other: Value | int) -> Value:
        """Divide signed, toward zero."""
        return self._two("sdiv", other)

    def sar(self, other: Value | int) -> Value:
        """Shift right, bringing in copies of the top bit."""
        return self._two("ashr", other)

    def is_(self, relation: str, other: Value | int) -> Value:
        """Compare by a relation of `icmp`: eq, ne, ult, ule, ugt, uge, slt, sle, sgt, sge."""
        return self._two(f"icmp {relation}", other, I1)

    def differ(self, other: Value) -> Value:
        """Say for each element of two vectors whether they differ."""
        return self._two("icmp ne", other, f"{self.type.partition(' x ')[0]} x i1>")

    def smax(self, other: Value | int) -> Value:
        """Return the larger of two signed numbers."""
        right = self.function.of(self.type, other)
        return self.function.choose(self.is_("sgt", right), self, right)

    def smin(self, other: Value | int) -> Value:
        """Return the smaller of two signed numbers."""
        right = self.function.of(self.type, other)
        return self.function.choose(self.is_("slt", right), self, right)

    def zext(self, kind: str) -> Value:
        """Widen with zeros."""
        return self._cast("zext", kind)

    def sext(self, kind: str) -> Value:
        """Widen with copies of the top bit."""
        return self._cast("sext", kind)

    def trunc(self, kind: str) -> Value:
        """Keep the low bits."""
        return self._cast("trunc", kind)

    def bitcast(self, kind: str) -> Value:
        """Read the same bits as another type."""
        return self._cast("bitcast", kind)

    def as_pointer(self) -> Value:
        """Read a 64-bit number as an address."""
        return self._cast("inttoptr", PTR)

    def _cast(self, operation: str, kind: str) -> Value:
        if kind == self.type:
            return self
        return self.function.let(kind, f"{operation} {self.type} {self.text} to {kind}")


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of a function."""

    function: Function
    place: Value
    type: str

    @property
    def value(self) -> Value:
        """Return what it holds now."""
        return self.function.load(self.type, self.place)

    def set(self, value: Value | int) -> None:
        """Let it hold another value."""
        self.function.store(self.function.of(self.type, value), self.place)

    def add(self, value: Value | int) -> None:
        """Add to it."""
        self.set(self.value + value)


class Function:
    """One function under construction: `result` is its type (`void` for none), `first` and the rest the types
    of its parameters; `is_internal` says that only functions of its module call it.
    """

    def __init__(
        self,
        name: str,
        result: str,
        first: Mapping[str, str] = MappingProxyType({}),
        /,
        *,
        is_internal: bool = False,
        **parameters: str,
    ) -> None:
        self.name = name
        self.result = result
        types = {**first, **parameters}
        self.parameters = {n: Value(self, f"%{n}", kind) for n, kind in types.items()}
        self.is_internal = is_internal
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._is_left = False
        self.declared: dict[str, str] = {}

    def __getitem__(self, name: str) -> Value:
        return self.parameters[name]

    # values

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def let(self, kind: str, instruction: str) -> Value:
        """Write an instruction and return its value."""
        name = self._fresh("%v")
        self._lines.append(f"  {name} = {instruction}")
        return Value(self, name, kind)

    def do(self, instruction: str) -> None:
        """Write an instruction without a value."""
        self._lines.append(f"  {instruction}")

    def of(self, kind: str, value: Value | int) -> Value:
        """Return a value as it is, or a number as a constant of a type."""
        if isinstance(value, Value):
            if value.type != kind:
                raise TypeError(f"{self.name}: a value of type {value.type} where {kind} is needed")
            return value
        return Value(self, ("null" if kind == PTR else str(int(value))), kind)

    def splat(self, kind: str, count: int, value: Value | int) -> Value:
        """Return a vector that holds one value `count` times."""
        whole = f"<{count} x {kind}>"
        if not isinstance(value, Value):
            return Value(self, f"splat ({kind} {value})", whole)
        one = self.let(whole, f"insertelement {whole} poison, {kind} {value.text}, i64 0")
        zeros = f"<{count} x i32> zeroinitializer"
        return self.let(whole, f"shufflevector {whole} {one.text}, {whole} poison, {zeros}")

    def choose(self, condition: Value, yes: Value | int, no: Value | int) -> Value:
        """Return one of two values."""
        kind = next(v.type for v in (yes, no) if isinstance(v, Value))
        left, right = self.of(kind, yes), self.of(kind, no)
        return self.let(kind, f"select i1 {condition.text}, {kind} {left.text}, {kind} {right.text}")

    def variable(self, kind: str, value: Value | int | None = None) -> Variable:
        """Return a new variable, which holds `value` from here on."""
        found = Variable(self, self.slot(kind), kind)
        if value is not None:
            found.set(value)
        return found

    def slot(self, kind: str) -> Value:
        """Return the address of new stack memory of a type."""
        name = self._fresh("%s")
        self._entry.append(f"  {name} = alloca {kind}")
        return Value(self, name, PTR)

    # memory

    def at(self, base: Value, index: Value | int, kind: str = I8) -> Value:
        """Return the address of element `index` of an array of a type."""
        if isinstance(index, int) and index == 0:
            return base
        step = self.of(I64, index)
        return self.let(PTR, f"getelementptr {kind}, ptr {base.text}, i64 {step.text}")

    def load(self, kind: str, base: Value, index: Value | int = 0, align: int = 0) -> Value:
        """Read element `index` of an array of a type."""
        place = self.at(base, index, kind)
        return self.let(kind, f"load {kind}, ptr {place.text}{f', align {align}' if align else ''}")

    def store(self, value: Value, base: Value, index: Value | int = 0, align: int = 0) -> None:
        """Write element `index` of an array of the value's type."""
        place = self.at(base, index, value.type)
        self.do(f"store {value.type} {value.text}, ptr {place.text}{f', align {align}' if align else ''}")

    def call(self, name: str, kind: str, *arguments: Value) -> Value:
        """Call a function."""
        given = ", ".join(f"{a.type} {a.text}" for a in arguments)
        self.declared.setdefault(name, f"declare {kind} @{name}({', '.join(a.type for a in arguments)})")
        if kind == "void":
            self.do(f"call void @{name}({given})")
            return Value(self, "", kind)
        return self.let(kind, f"call {kind} @{name}({given})")

    def intrinsic(self, name: str, kind: str, *arguments: Value) -> Value:
        """Call `llvm.<name>`."""
        return self.call(f"llvm.{name}", kind, *arguments)

    def copy(self, target: Value, source: Value, size: Value | int) -> None:
        """Copy bytes between places that do not overlap."""
        no = self.of(I1, 0)
        self.intrinsic("memcpy.p0.p0.i64", "void", target, source, self.of(I64, size), no)

    # control

    def label(self, name: str) -> None:
        """Begin a block, in which the one before ends."""
        self.do(f"br label %{name}")
        self._lines.append(f"{name}:")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Write what happens only under a condition."""
        then, after = self._fresh("then"), self._fresh("after")
        self.do(f"br i1 {condition.text}, label %{then}, label %{after}")
        self._lines.append(f"{then}:")
        yield
        self.label(after)

    @contextmanager
    def loop(self, count: Value | int, start: Value | int = 0) -> Iterator[Value]:
        """Write what happens for each number from `start` up to, not including, `count` (64 bits)."""
        end, k = self.of(I64, count), self.variable(I64, start)
        head, body, after = self._fresh("head"), self._fresh("body"), self._fresh("after")
        self.label(head)
        number = k.value
        self.do(f"br i1 {number.is_('ult', end).text}, label %{body}, label %{after}")
        self._lines.append(f"{body}:")
        yield number
        k.set(number + 1)
        self.do(f"br label %{head}")
        self._lines.append(f"{after}:")

    @contextmanager
    def repeat(self) -> Iterator[Callable[[Value], None]]:
        """Write what happens again and again; gives what stops it under a condition."""
        head, after = self._fresh("head"), self._fresh("after")
        self.label(head)

        def stop(condition: Value) -> None:
            on = self._fresh("on")
            self.do(f"br i1 {condition.text}, label %{after}, label %{on}")
            self._lines.append(f"{on}:")

        yield stop
        self.do(f"br label %{head}")
        self._lines.append(f"{after}:")

    @contextmanager
    def each_bit(self, bits: Value) -> Iterator[Value]:
        """Write what happens for each bit that is set in 32, the lowest first; gives its number (64 bits)."""
        left = self.variable(I32, bits)
        head, body, after = self._fresh("head"), self._fresh("body"), self._fresh("after")
        self.label(head)
        now = left.value
        self.do(f"br i1 {now.is_('ne', 0).text}, label %{body}, label %{after}")
        self._lines.append(f"{body}:")
        yield self.lowest_bit(now).zext(I64)
        left.set(now & (now - 1))
        self.do(f"br label %{head}")
        self._lines.append(f"{after}:")

    def lowest_bit(self, bits: Value) -> Value:
        """Return the number of the lowest bit that is set."""
        return self.intrinsic(f"cttz.{bits.type}", bits.type, bits, self.of(I1, 0))

    def need(self, condition: Value) -> None:
        """Return 0 unless a condition holds: nothing has happened."""
        self._is_left = True
        on = self._fresh("on")
        self.do(f"br i1 {condition.text}, label %{on}, label %leave")
        self._lines.append(f"{on}:")

    def give(self, value: Value | int | None = None) -> None:
        """Return; what is written afterwards is not reached."""
        text = "void" if value is None else f"{self.result} {self.of(self.result, value).text}"
        self.do(f"ret {text}")
        self._lines.append(f"{self._fresh('rest')}:")

    def text(self) -> str:
        """Return the function as IR."""
        head = ", ".join(f"{v.type} %{n}" for n, v in self.parameters.items())
        kind = "internal " if self.is_internal else ""
        tail = [f"leave:\n  ret {self.result} 0"] if self._is_left else []
        lines = [*self._entry, *self._lines, "  unreachable", *tail]
        return "\n".join([f"define {kind}{self.result} @{self.name}({head}) {{", "entry:", *lines, "}"])
