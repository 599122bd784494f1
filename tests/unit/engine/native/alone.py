"""Every machine instruction that has a native form, as compiled code of its own: the interpreter runs the
kernel and tries the native form first at each step of one.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drywell.base.dtypes import TYPES
from drywell.engine import lent
from drywell.engine import threaded as threads
from drywell.engine.compiled_context import GridContext
from drywell.engine.context_words import CONTEXT
from drywell.engine.jit import compile_function
from drywell.engine.llvm_text import Lanes, Module, Writer, constant, vector
from drywell.engine.native.learn import Tables
from drywell.engine.native.state import Blocks, Machine
from drywell.engine.native.table import NativeForm, native_form
from drywell.isa.declare import Op
from drywell.machine.registers import RegisterLayout
from drywell.machine.windows import CALL_PARAMS, RANK_SHIFT
from drywell.program import operands as ops

_ENDS = ("exit", "ret")
"""What has a form only where turns are native: lanes end between two instructions."""


@dataclass
class OneInstruction:
    """Writes `i32 one(registers, context, mask, rank)` for one instruction."""

    compiler: Any
    w: Writer = field(default_factory=lambda: Writer(Module()))
    mask: str = "%mask"

    def __post_init__(self) -> None:
        self.layout = RegisterLayout(self.compiler.operands.executable.register_widths)

    def place(self, register: ops.Register) -> int:
        return self.layout.offsets[self.compiler.operands.index_of(register)]

    def _address(self, register: ops.Register) -> str:
        return self.w.let(f"getelementptr i8, ptr %registers, i64 {self.place(register)}")

    def _load(self, register: ops.Register) -> Lanes:
        width, place = register.type.bits, self._address(register)
        if register.type.kind == "pred":
            whole = self.w.let(f"load {vector(8)}, ptr {place}, align 1")
            return Lanes(self.w.let(f"icmp ne {vector(8)} {whole}, zeroinitializer"), 1)
        return Lanes(self.w.let(f"load {vector(width)}, ptr {place}, align {min(width // 8, 8)}"), width)

    def _resized(self, value: Lanes, width: int) -> Lanes:
        if value.width == width:
            return value
        how = "trunc" if value.width > width else "zext"
        return Lanes(self.w.let(f"{how} {vector(value.width)} {value.text} to {vector(width)}"), width)

    def read(self, operand: Any, op: Any) -> Any:
        match operand:
            case None:
                return None
            case tuple():
                return tuple(self.read(o, t) for o, t in zip(operand, op, strict=True))
            case ops.Register():
                return self._resized(self._load(operand), TYPES[op.type].bits)
            case ops.Negated():
                value = self._load(operand.register)
                return Lanes(self.w.let(f"xor {vector(1)} {value.text}, splat (i1 true)"), 1)
            case ops.Immediate():
                return constant(operand.bits, TYPES[op.type].bits)
            case ops.Symbol():
                return self._symbol(operand, TYPES[op.type].bits)
            case ops.Memory():
                return self._memory(operand)
            case ops.Group():
                width = TYPES[op.type].bits
                element = Op(f"b{width if op.count is not None else width // len(operand.elements)}")
                return tuple(self.read(e, element) for e in operand.elements)
        raise NotImplementedError(type(operand))

    def _symbol(self, symbol: ops.Symbol, width: int) -> Lanes:
        if symbol.space in ("global", "const"):
            return constant(self.compiler.operands.addresses[symbol.name] + symbol.offset, width)
        places = self.compiler.operands.executable.places
        place = places[symbol.space, symbol.name] + symbol.offset
        if symbol.space != "shared":
            return constant(place + (CALL_PARAMS if symbol.space == "frame" else 0), width)
        whole = self.w.let(f"add i64 {self.w.let(f'shl i64 %rank, {RANK_SHIFT}')}, {place}")
        one = self.w.let(f"insertelement {vector(64)} poison, i64 {whole}, i64 0")
        zeros = "<32 x i32> zeroinitializer"
        every = self.w.let(f"shufflevector {vector(64)} {one}, {vector(64)} poison, {zeros}")
        return self._resized(Lanes(every, 64), width)

    def _memory(self, operand: ops.Memory) -> Lanes:
        base, offset = operand.base, operand.offset
        if base is None:
            return constant(offset, 64)
        if isinstance(base, ops.Symbol):
            width = 32 if base.space in ("shared", "local") else 64
            return self._symbol(ops.Symbol(base.space, base.name, base.offset + offset), width)
        value = self._load(base)
        step = constant(offset, value.width).text
        return Lanes(self.w.let(f"add {vector(value.width)} {value.text}, {step}"), value.width)

    def _write(self, operand: Any, value: Any) -> None:
        if isinstance(operand, ops.Group):
            for element, part in zip(operand.elements, value, strict=True):
                self._write(element, part)
        elif isinstance(operand, ops.Register):
            lanes, old = self.w.let(f"bitcast i32 {self.mask} to {vector(1)}"), self._load(operand)
            value = self._resized(value, old.width)
            kind = vector(old.width)
            new = self.w.let(f"select {vector(1)} {lanes}, {kind} {value.text}, {kind} {old.text}")
            if old.width == 1:
                new, kind = self.w.let(f"zext {kind} {new} to {vector(8)}"), vector(8)
            self.w.do(f"store {kind} {new}, ptr {self._address(operand)}, align 1")

    def module(self, instruction: ops.Bound, form: NativeForm) -> Module:
        native = form.emit(self, instruction)
        self.w.do(f"br i1 {native.done}, label %go, label %no")
        self.w.label("go")
        if native.results:
            for operand, value in zip(instruction.destinations, native.results, strict=True):
                if value is not None:
                    self._write(operand, value)
        self.w.do("ret i32 1")
        self.w.label("no")
        self.w.do("ret i32 0")
        self.w.module.functions["one"] = "\n".join(
            [
                "define i32 @one(ptr %registers, ptr %context, i32 %mask, i64 %rank) {",
                "entry:",
                *self.w.entry,
                "  br label %body",
                "body:",
                *self.w.lines,
                "}",
            ]
        )
        return self.w.module


class Native:
    """Tries native forms first; counts by declaration how often one did it and how often it left."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self._kept: list[Any] = []
        self._contexts: dict[int, tuple[Any, Any, Machine]] = {}
        self._tables: dict[int, tuple[Any, Tables]] = {}

    def step(self, compiler: Any, instruction: ops.Bound, inner: Any) -> Any:
        form = native_form(instruction)
        if form is None or instruction.declaration.name in _ENDS:
            return inner
        code = compile_function(OneInstruction(compiler).module(instruction, form), "one")
        self._kept.append(code)
        pointers = [ctypes.c_void_p] * 2
        function = code.function("one", *pointers, ctypes.c_uint32, ctypes.c_uint64)
        name = instruction.declaration.name

        def step(w: Any) -> Any:
            if w.grid.observers or w.grid.options.schedule != "eager" or len(w.grid.pending):
                return inner(w)
            context, machine = self._context(w)
            bits = int(np.packbits(w.mask, bitorder="little").view("<u4")[0])
            context[CONTEXT["changed"]] = 0
            is_done = function(w.registers.ctypes.data, context.ctypes.data, bits, w.cta.rank)
            (self.done if is_done else self.left)[name] += 1
            if not is_done:
                if machine.missed:
                    machine.learn(w)
                return inner(w)
            w.grid.version += int(context[CONTEXT["changed"]])
            return None

        return step

    def _context(self, w: Any) -> tuple[Any, Machine]:
        found = self._contexts.get(id(w))
        if found is None or found[0] is not w:
            grid, tables = self._tables.get(id(w.grid), (None, None))
            if tables is None or grid is not w.grid:
                tables = Tables()
                self._tables[id(w.grid)] = w.grid, tables
            common, machine = GridContext(w.grid), Blocks(w.cta, tables).machines[w.index]
            self._kept.append(common)
            context = common.words.copy()
            context[CONTEXT["machine"]] = machine.address
            found = self._contexts[id(w)] = w, context, machine
        return found[1:]


@contextmanager
def native_first() -> Iterator[Native]:
    """Let kernels that are run meanwhile try the native forms first."""
    native, original = Native(), threads.Compiler._machine_step
    lent._idle.clear()
    threads.Compiler._machine_step = lambda self, i: native.step(self, i, original(self, i))  # type: ignore
    try:
        yield native
    finally:
        threads.Compiler._machine_step = original  # type: ignore[method-assign]
        lent._idle.clear()
