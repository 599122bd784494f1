"""Lane instructions as functions over the register buffer: one per form, shared by all programs.

    void op(ptr register, i64 constant, ..., i32 active)

A *form* is an instruction without the numbers in it: its declaration, modifiers, and what kind of operand
stands where. Its function gets the address of each register and the value of each constant, and stores
results in the lanes of `active` (there is none where all lanes are active). An access also gets the
context, and gives an i1: false when it could not be made and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from drywell.base.dtypes import TYPES
from drywell.engine.llvm_ops import LlvmOps
from drywell.engine.llvm_text import Lanes, Module, Writer, constant, vector
from drywell.isa.declare import Mods, Op
from drywell.machine.special import special_type
from drywell.program import operands as ops

Shape = tuple[Any, ...]
"""What kind of operand stands somewhere: a word, then widths or the shapes inside."""

_known: dict[Any, tuple[str, Module]] = {}


def element_of(group: ops.Group, op: Op) -> Op:
    """Return what each element of a brace list must be, as the interpreter has it."""
    width = TYPES[op.type].bits if op.count is not None else TYPES[op.type].bits // len(group.elements)
    is_signed = TYPES[op.type].kind == "signed" and op.count is not None
    return Op(f"{'s' if is_signed else 'b'}{width}", is_relaxed=op.is_relaxed) if width > 1 else Op("pred")


def source_shape(operand: Any, op: Any) -> Shape:
    """Return the shape of a source."""
    match operand:
        case tuple():
            return ("list", *(source_shape(o, t) for o, t in zip(operand, op, strict=True)))
        case ops.Group():
            element = element_of(operand, op)
            return ("list", *(source_shape(e, element) for e in operand.elements))
        case ops.Register():
            return ("register", _width(operand), TYPES[op.type].bits)
        case ops.Negated():
            return ("negated",)
        case ops.Special():
            return ("register", *[TYPES[special_type(operand.name) or ""].bits] * 2)
        case ops.Immediate() if TYPES[op.type].bits == 128:
            return ("constant", operand.bits, 128)
        case ops.Immediate() | ops.Symbol():
            return ("word", TYPES[op.type].bits)
        case ops.Memory(base=ops.Register() as base):
            return ("address", _width(base))
        case ops.Memory():
            symbol = operand.base
            is_short = isinstance(symbol, ops.Symbol) and symbol.space in ("shared", "local")
            return ("word", 32 if is_short else 64)
    return ("none",)


def _width(register: ops.Register) -> int:
    return 1 if register.type.kind == "pred" else register.type.bits


def _destination_shape(operand: Any, op: Op) -> Shape:
    match operand:
        case ops.Group():
            element = element_of(operand, op)
            return ("list", *(_destination_shape(e, element) for e in operand.elements))
        case ops.Register():
            return ("register", _width(operand), TYPES[op.type].kind == "signed")
    return ("none",)


def op_function(instruction: ops.Bound, is_masked: bool) -> tuple[str, Module]:
    """Return the name of the function of a lane instruction, and the module that has it."""
    sources = tuple(
        source_shape(s, t) for s, t in zip(instruction.sources, instruction.source_types, strict=True)
    )
    destinations = tuple(
        _destination_shape(d, t)
        for d, t in zip(instruction.destinations, instruction.destination_types, strict=True)
    )
    declaration = instruction.declaration
    mods = tuple(instruction.mods.items())
    key = (declaration.syntax, declaration.name, mods, sources, destinations, is_masked)
    found = _known.get(key)
    if found is None:
        name = f"drywell.op.{declaration.name}.{sha256(repr(key).encode()).hexdigest()[:24]}"
        writer = _OpWriter(name, instruction, sources, destinations, is_masked)
        found = _known[key] = name, writer.write()
    return found


@dataclass(slots=True)
class _OpWriter:
    name: str
    instruction: ops.Bound
    sources: tuple[Shape, ...]
    destinations: tuple[Shape, ...]
    is_masked: bool
    w: Writer = field(default_factory=lambda: Writer(Module()))
    parameters: list[str] = field(default_factory=list)

    def write(self) -> Module:
        """Return a module of the function and what it calls."""
        w, instruction = self.w, self.instruction
        is_access = instruction.declaration.unit == "mem"
        o = LlvmOps(
            instruction.mods,
            TYPES.get(str(instruction.mods.get("type"))),
            w,
            "%active" if self.is_masked else "-1",
            self._give_up_unless if is_access else None,
        )
        result = instruction.declaration.semantics(o, *map(self._source, self.sources))
        results = (result,) if len(self.destinations) == 1 else result or ()
        for shape, value in zip(self.destinations, results, strict=True):
            self._store(shape, value)
        heads = [*(["ptr %context"] if is_access else []), *self.parameters]
        heads += ["i32 %active"] if self.is_masked else []
        kind, end = ("i1", "ret i1 true") if is_access else ("void", "ret void")
        entry = list(w.entry)
        if self.is_masked:
            entry.append("  %lanes = bitcast i32 %active to <32 x i1>")
        head = f"define internal {kind} @{self.name}({', '.join(heads)}) noinline {{"
        w.module.functions[self.name] = "\n".join([head, "entry:", *entry, *w.lines, f"  {end}", "}"])
        return w.module

    def _give_up_unless(self, done: str) -> None:
        w, behind = self.w, len(self.w.lines)
        w.do(f"br i1 {done}, label %o{behind}, label %f{behind}")
        w.label(f"f{behind}")
        w.do("ret i1 false")
        w.label(f"o{behind}")

    def _parameter(self, kind: str) -> str:
        name = f"%a{len(self.parameters)}"
        self.parameters.append(f"{kind} {name}")
        return name

    def _source(self, shape: Shape) -> Any:
        """Return an operand's value from the parameters that its shape stands for."""
        match shape:
            case ("list", *inner):
                return tuple(map(self._source, inner))
            case ("register", width, wanted):
                return self._resized(load_lanes(self.w, self._parameter("ptr"), width), wanted)
            case ("negated",):
                value = load_lanes(self.w, self._parameter("ptr"), 1)
                return Lanes(self.w.let(f"xor {vector(1)} {value.text}, {constant(1, 1).text}"), 1)
            case ("constant", bits, width):
                return constant(bits, width)
            case ("word", width):
                return self._every(self._parameter("i64"), width)
            case ("address", width):
                base = load_lanes(self.w, self._parameter("ptr"), width)
                step = self._every(self._parameter("i64"), width)
                return Lanes(self.w.let(f"add {vector(width)} {base.text}, {step.text}"), width)
        return None

    def _every(self, word: str, width: int) -> Lanes:
        """Return a 64-bit word's low bits in every lane."""
        w, kind = self.w, vector(width)
        one = word if width == 64 else w.let(f"trunc i64 {word} to i{width}")
        first = w.let(f"insertelement {kind} poison, i{width} {one}, i64 0")
        return Lanes(w.let(f"shufflevector {kind} {first}, {kind} poison, <32 x i32> zeroinitializer"), width)

    def _resized(self, value: Lanes, width: int, is_signed: bool = False) -> Lanes:
        if value.width == width:
            return value
        operation = "trunc" if value.width > width else "sext" if is_signed else "zext"
        return Lanes(self.w.let(f"{operation} {vector(value.width)} {value.text} to {vector(width)}"), width)

    def _store(self, shape: Shape, value: Any) -> None:
        match shape:
            case ("list", *inner):
                if isinstance(value, Lanes):  # one wide value that the list takes apart
                    value = LlvmOps(Mods({}), None, self.w).unpack(value, len(inner))
                for one, part in zip(inner, value, strict=True):
                    self._store(one, part)
            case ("register", width, is_signed):
                place = self._parameter("ptr")
                lanes = "%lanes" if self.is_masked else None
                store_lanes(self.w, place, self._resized(value, width, is_signed), lanes)


def load_lanes(w: Writer, place: str, width: int) -> Lanes:
    """Load a register of `width` bits."""
    if width > 1:
        return Lanes(w.let(f"load {vector(width)}, ptr {place}, align {min(width // 8, 8)}"), width)
    whole = w.let(f"load {vector(8)}, ptr {place}, align 1")
    return Lanes(w.let(f"icmp ne {vector(8)} {whole}, zeroinitializer"), 1)


def store_lanes(w: Writer, place: str, value: Lanes, lanes: str | None) -> None:
    """Store a register, in the lanes of a vector of i1 if one is given."""
    text, width = value.text, value.width
    if lanes is not None:
        old, kind = load_lanes(w, place, width), vector(width)
        text = w.let(f"select {vector(1)} {lanes}, {kind} {text}, {kind} {old.text}")
    if width == 1:
        text, width = w.let(f"zext {vector(1)} {text} to {vector(8)}"), 8
    w.do(f"store {vector(width)} {text}, ptr {place}, align {min(width // 8, 8)}")


def call_op(w: Writer, instruction: ops.Bound, arguments: Iterator[str], active: str) -> str:
    """Write the call of an instruction's function for the lanes `active`; return the i1 of an access,
    else ''.
    """
    name, module = op_function(instruction, active != "-1")
    is_access = instruction.declaration.unit == "mem"
    given = [*(["ptr %context"] if is_access else []), *arguments]
    given += [f"i32 {active}"] if active != "-1" else []
    call = f"call {'i1' if is_access else 'void'} @{name}({', '.join(given)})"
    if name not in w.module.functions:
        w.module.functions[name] = module.functions[name]
        w.module.libraries[name] = module
    if is_access:
        return w.let(call)
    w.do(call)
    return ""
