"""The instructions of one chunk as LLVM IR: calls of the functions of their forms, guards, native forms.

Registers are always in the buffer: an instruction reads and writes them there, so compiled code can be
left at any one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drywell.base.dtypes import TYPES
from drywell.engine.compiled_layout import MISSED, STATUSES, Chunk, Layout
from drywell.engine.compiled_ops import call_op, element_of, load_lanes, store_lanes
from drywell.engine.context_words import word
from drywell.engine.llvm_ops import LlvmOps
from drywell.engine.llvm_text import Lanes, Writer, constant, vector
from drywell.isa.declare import Mods, Op
from drywell.machine.registers import RegisterLayout
from drywell.machine.special import special_type
from drywell.machine.windows import CALL_PARAMS
from drywell.program import operands as ops

if TYPE_CHECKING:
    from drywell.engine.compiled_told import Call, Teller


@dataclass(slots=True)
class ChunkWriter:
    """Writes the instructions of `chunk` with `w`. `mask` is the text of an i32, the lanes that execute;
    that of a native form while one is written.
    """

    layout: Layout
    registers: RegisterLayout
    chunk: Chunk
    w: Writer
    mask: str
    written: tuple[ops.Bound, tuple[Any, ...], str | None] | None = None
    calls: tuple[Call, ...] = ()

    def write(self) -> None:
        """Write the lane instructions."""
        teller = self._teller() if self.layout.is_told else None
        self._tell_begin()
        for pc, instruction in enumerate(self.chunk.code, self.chunk.start):
            active = self.mask
            if instruction.guard is not None:
                active = self.active_bits(instruction)
                self._count_if_passed(active, pc)
            calls = self._told(teller, pc, instruction, active) if teller is not None else ()
            done = call_op(self.w, instruction, self._arguments(instruction), active)
            if done:
                self._go_on_if(done, pc)
            if teller is not None:
                teller.tell(calls)

    def _teller(self) -> Teller:
        from drywell.engine.compiled_told import Teller

        return Teller(self)

    def _told(self, teller: Teller, pc: int, instruction: ops.Bound, active: str) -> tuple[Call, ...]:
        """Read what is to be told of a lane instruction when it has been done."""
        register = self.layout.divisions.get(pc)
        if register is not None:
            return teller.divided(pc, register, active)
        return teller.read(pc, instruction, active) if instruction.declaration.unit == "mem" else ()

    def _go_on_if(self, done: str, pc: int) -> None:
        """Leave at `pc` unless its access was made."""
        w = self.w
        w.do(f"br i1 {done}, label %o{pc}, label %f{pc}")
        w.label(f"f{pc}")
        place = w.let(word("fuel"))
        back = w.let(f"add i64 {w.let(f'load i64, ptr {place}')}, {self.chunk.end_pc - pc}")
        w.do(f"store i64 {back}, ptr {place}")
        w.do(f"ret i64 {pc * STATUSES + MISSED}")
        w.label(f"o{pc}")

    def _count_if_passed(self, active: str, pc: int) -> None:
        w = self.w
        place = w.let(f"getelementptr i64, ptr %passed, i64 {pc}")
        one = w.let(f"zext i1 {w.let(f'icmp eq i32 {active}, 0')} to i64")
        count = w.let(f"add i64 {w.let(f'load i64, ptr {place}')}, {one}")
        w.do(f"store i64 {count}, ptr {place}")

    # ---------------------------------------------------------------- arguments of forms
    def _arguments(self, instruction: ops.Bound) -> Iterator[str]:
        """Give what the function of an instruction's form is called with, in the order of `compiled_ops`."""
        for source, kind in zip(instruction.sources, instruction.source_types, strict=True):
            yield from self._of_source(source, kind)
        for destination in instruction.destinations:
            for one in destination.elements if isinstance(destination, ops.Group) else (destination,):
                if isinstance(one, ops.Register):
                    yield f"ptr {self._address(one)}"

    def _of_source(self, operand: Any, op: Any) -> Iterator[str]:
        match operand:
            case tuple():
                for one, kind in zip(operand, op, strict=True):
                    yield from self._of_source(one, kind)
            case ops.Group():
                element = element_of(operand, op)
                for one in operand.elements:
                    yield from self._of_source(one, element)
            case ops.Register():
                yield f"ptr {self._address(operand)}"
            case ops.Negated():
                yield f"ptr {self._address(operand.register)}"
            case ops.Special():
                yield f"ptr {self._special_address(operand.name)}"
            case ops.Immediate() if TYPES[op.type].bits < 128:
                yield f"i64 {operand.bits & (1 << TYPES[op.type].bits) - 1}"
            case ops.Symbol():
                yield f"i64 {self._symbol_word(operand)}"
            case ops.Memory(base=ops.Register() as base):
                yield f"ptr {self._address(base)}"
                yield f"i64 {operand.offset}"
            case ops.Memory():
                yield f"i64 {self._memory_word(operand)}"

    def _address(self, register: ops.Register) -> str:
        return self.w.let(f"getelementptr i8, ptr %registers, i64 {self.place(register)}")

    def _special_address(self, name: str) -> str:
        w = self.w
        table = w.let(f"load ptr, ptr {w.let(word('specials'))}")
        slot = w.let(f"getelementptr ptr, ptr {table}, i64 {self.layout.specials.index(name)}")
        return w.let(f"load ptr, ptr {slot}")

    def _symbol_word(self, symbol: ops.Symbol) -> str:
        """Return the address of a symbol as the text of an i64."""
        space, name = symbol.space, symbol.name
        if space in ("global", "const"):
            return str(self.layout.addresses[name] + symbol.offset)
        place = self.layout.executable.places[space, name] + symbol.offset
        if space != "shared":
            return str(place + (CALL_PARAMS if space == "frame" else 0))
        w = self.w
        base = w.let(f"load i64, ptr {w.let(word('shared_base'))}")
        return w.let(f"add i64 {base}, {place}")

    def _memory_word(self, operand: ops.Memory) -> str:
        base = operand.base
        if isinstance(base, ops.Symbol):
            return self._symbol_word(ops.Symbol(base.space, base.name, base.offset + operand.offset))
        return str(operand.offset)

    # ---------------------------------------------------------------- the last instruction
    def active_bits(self, instruction: ops.Bound) -> str:
        """Return the lanes that execute a guarded instruction, as the text of an i32."""
        assert instruction.guard is not None
        guard = self._register(instruction.guard)
        if instruction.is_guard_negated:
            guard = self._negated(guard)
        bits = self.w.let(f"bitcast {vector(1)} {guard.text} to i32")
        return bits if self.mask == "-1" else self.w.let(f"and i32 {bits}, {self.mask}")

    def native(self, instruction: ops.Bound, active: str) -> Any:
        """Write a machine instruction's native form for the lanes `active`, and return what it has written
        (`native.table.Native`). What it gives is still to be stored (`write_results`).
        """
        form = self.layout.forms(instruction)
        if self.layout.is_told:
            self.calls = self._teller().read(self.chunk.end_pc, instruction, active)
        before, self.mask = self.mask, active
        made = form.emit(self, instruction)
        self.mask = before
        lanes = None if active == "-1" else self.w.let(f"bitcast i32 {active} to {vector(1)}")
        self.written = instruction, made.results, lanes
        return made

    def result_place(self, instruction: ops.Bound) -> int:
        """Return where the one register lies that an instruction writes, -1 for none."""
        registers = [d for d in instruction.destinations if isinstance(d, ops.Register)]
        return self.place(registers[0]) if registers else -1

    def tell(self) -> None:
        """Tell, where clusters are to be compared, that the machine instruction has been executed."""
        if self.layout.is_told:
            self._teller().tell(self.calls)

    def tell_passed(self) -> None:
        """Tell that lanes pass over the last instruction, where the chunk begins with it."""
        last = self.chunk.last
        if not self.chunk.code and last is not None and last.declaration.is_lane:
            self._tell_begin()

    def _tell_begin(self) -> None:
        """Tell that lanes begin the chunk."""
        if self.layout.is_told and self.chunk.start in self.layout.told_starts:
            self._teller().entered(self.chunk.start)

    def write_results(self) -> None:
        """Store what the native form gave."""
        assert self.written is not None
        instruction, results, lanes = self.written
        if results:
            pairs = zip(instruction.destinations, instruction.destination_types, strict=True)
            for (destination, op), value in zip(pairs, results, strict=True):
                if value is not None:
                    self._write(destination, op, value, lanes)

    def place(self, register: ops.Register) -> int:
        """Return the offset in bytes of a register in the buffer."""
        return self.registers.offsets[self._index(register)]

    def read_index(self, index: int) -> Lanes:
        """Return the lanes of the register with an index in the buffer."""
        place = self.w.let(f"getelementptr i8, ptr %registers, i64 {self.registers.offsets[index]}")
        return load_lanes(self.w, place, self.registers.widths[index])

    def _index(self, register: ops.Register) -> int:
        return register.index + self.chunk.linked.register_base

    def _register(self, register: ops.Register) -> Lanes:
        return load_lanes(self.w, self._address(register), self.registers.widths[self._index(register)])

    def _negated(self, p: Lanes) -> Lanes:
        return Lanes(self.w.let(f"xor {vector(1)} {p.text}, {constant(1, 1).text}"), 1)

    # ---------------------------------------------------------------- operands of native forms
    def read(self, operand: Any, op: Any) -> Any:
        """Return a source as the lanes' values: one, or a tuple for a brace list or an address of two parts;
        None for one that is not there.
        """
        match operand:
            case tuple():
                return tuple(self.read(o, t) for o, t in zip(operand, op, strict=True))
            case ops.Group():
                element = element_of(operand, op)
                return tuple(self.read(e, element) for e in operand.elements)
            case ops.Register():
                return self._resized(self._register(operand), TYPES[op.type].bits)
            case ops.Negated():
                return self._negated(self._register(operand.register))
            case ops.Immediate():
                return constant(operand.bits, TYPES[op.type].bits)
            case ops.Special():
                width = TYPES[special_type(operand.name) or ""].bits
                return load_lanes(self.w, self._special_address(operand.name), width)
            case ops.Symbol():
                return self._every(self._symbol_word(operand), TYPES[op.type].bits)
            case ops.Memory(base=ops.Register() as base, offset=0):
                return self._register(base)
            case ops.Memory(base=ops.Register() as base):
                value = self._register(base)
                step = constant(operand.offset, value.width)
                text = f"add {vector(value.width)} {value.text}, {step.text}"
                return Lanes(self.w.let(text), value.width)
            case ops.Memory():
                symbol = operand.base
                is_short = isinstance(symbol, ops.Symbol) and symbol.space in ("shared", "local")
                return self._every(self._memory_word(operand), 32 if is_short else 64)
        return None

    def _every(self, text: str, width: int) -> Lanes:
        """Return the low bits of an i64 in every lane."""
        if not text.startswith("%"):
            return constant(int(text), width)
        w, kind = self.w, vector(64)
        first = w.let(f"insertelement {kind} poison, i64 {text}, i64 0")
        every = w.let(f"shufflevector {kind} {first}, {kind} poison, <32 x i32> zeroinitializer")
        return self._resized(Lanes(every, 64), width)

    def _resized(self, value: Lanes, width: int, is_signed: bool = False) -> Lanes:
        if value.width == width:
            return value
        operation = "trunc" if value.width > width else "sext" if is_signed else "zext"
        return Lanes(self.w.let(f"{operation} {vector(value.width)} {value.text} to {vector(width)}"), width)

    def _write(self, operand: Any, op: Op, value: Any, lanes: str | None) -> None:
        if isinstance(operand, ops.Group):
            element = element_of(operand, op)
            if isinstance(value, Lanes):  # one wide value that the list takes apart
                value = LlvmOps(Mods({}), None, self.w).unpack(value, len(operand.elements))
            for one, part in zip(operand.elements, value, strict=True):
                self._write(one, element, part, lanes)
        elif isinstance(operand, ops.Register):
            width = self.registers.widths[self._index(operand)]
            new = self._resized(value, width, TYPES[op.type].kind == "signed")
            store_lanes(self.w, self._address(operand), new, lanes)
