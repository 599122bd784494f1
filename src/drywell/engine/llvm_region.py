"""A region of a function's code as one LLVM function: a straight line of lane instructions, or one loop
of them.

    i32 region(ptr registers, ptr context)

`registers` is a warp's flat register buffer (`machine/registers.py`), `context` as in `llvm_memory`.
All 32 lanes are active. Registers are loaded before their first use (before the loop, if there is one),
are SSA values inside, and those that were written are stored at the end. A guarded instruction selects
between old and new values, and a guarded access leaves the other lanes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from drywell.base.dtypes import TYPES
from drywell.base.errors import UnsupportedError
from drywell.engine.llvm_memory import UnsupportedSpaceError, word
from drywell.engine.llvm_ops import ALL_LANES, LlvmOps
from drywell.engine.llvm_text import Lanes, Module, Writer, constant, vector
from drywell.isa.declare import Op
from drywell.machine.registers import RegisterLayout
from drywell.machine.special import special_type
from drywell.machine.windows import CALL_PARAMS
from drywell.program import operands as ops
from drywell.program.link import Executable, Linked

NAME = "drywell.region"
_MOVING_SPECIALS = ("%clock", "%globaltimer", "%pm")


class Status(IntEnum):
    """Why a region returned: it ran through, an access faulted (registers are not written back), its
    branch diverged, its fuel ran out.

    After DIVERGED the branch itself is still to be executed, after TIRED the region's first
    instruction.
    """

    DONE = 0
    FAULT = 1
    DIVERGED = 2
    TIRED = 3


@dataclass(frozen=True, slots=True)
class Region:
    """Instructions `start` to `stop` of a linked function; a loop when the last one is a branch back to
    the first.
    """

    linked: Linked
    start: int
    stop: int
    is_loop: bool

    @property
    def code(self) -> Sequence[ops.Code]:
        """Return its instructions."""
        return self.linked.function.code[self.start : self.stop]


@dataclass(frozen=True, slots=True)
class RegionText:
    """A region's module, and the special registers it reads: word `specials` of the context is the
    address of a table of their addresses.
    """

    module: Module
    specials: tuple[str, ...]

    @property
    def is_native(self) -> bool:
        """Say whether nothing of it is called back in Python."""
        return not self.module.runtime


def region_at(linked: Linked, start: int) -> Region | None:
    """Return the longest region that begins at instruction `start` of a function; None when that
    instruction is none for it.
    """
    code = linked.function.code
    stop = start
    while stop < len(code) and (instruction := code[stop]) and isinstance(instruction, ops.Bound):
        if _branches_to(instruction, start):
            return Region(linked, start, stop + 1, True)
        if not _is_compilable(instruction):
            break
        stop += 1
    return Region(linked, start, stop, False) if stop > start else None


def _branches_to(instruction: ops.Bound, target: int) -> bool:
    return (
        instruction.declaration.name == "bra"
        and isinstance(to := instruction.sources[0], ops.Target)
        and to.pc == target
    )


def _is_compilable(instruction: ops.Bound) -> bool:
    if not instruction.declaration.is_lane:
        return False
    operands = [o for s in instruction.sources for o in (s if isinstance(s, tuple) else (s,))]
    return not any(isinstance(o, ops.Special) and _is_moving(o.name) for o in operands)


def _is_moving(special: str) -> bool:
    """Say whether a special register changes while a region runs, or is no single value."""
    return special_type(special) not in TYPES or special.startswith(_MOVING_SPECIALS)


def write_region(region: Region, executable: Executable, addresses: Mapping[str, int]) -> RegionText:
    """Write a region's IR; `addresses` are those of the global and const variables.

    Raises UnsupportedError, naming the line, for an instruction that cannot stand in a region.
    """
    return _RegionWriter(region, executable, addresses).write()


@dataclass(slots=True)
class _RegionWriter:
    region: Region
    executable: Executable
    addresses: Mapping[str, int]
    module: Module = field(default_factory=Module)
    w: Writer = field(init=False)
    layout: RegisterLayout = field(init=False)
    values: dict[int, Lanes] = field(default_factory=dict)
    carried: dict[int, tuple[Lanes, str]] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    carries: set[int] = field(default_factory=set)
    specials: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.w = Writer(self.module)
        self.layout = RegisterLayout(self.executable.register_widths)

    # ---------------------------------------------------------------- the function
    def write(self) -> RegionText:
        body = self.region.code[:-1] if self.region.is_loop else self.region.code
        if self.region.is_loop:
            self.carries = {
                k
                for instruction in body
                if isinstance(instruction, ops.Bound)
                for k in self._written_by(instruction)
            }
        for place, instruction in enumerate(body, self.region.start):
            assert isinstance(instruction, ops.Bound)
            self._instruction(instruction, place)
        self._finish()
        lines = [*self.w.entry, "  br label %body", "body:", *self._phis(), *self.w.lines]
        self.module.functions[NAME] = "\n".join(
            [f"define i32 @{NAME}(ptr %registers, ptr %context) {{", "entry:", *lines, "}"]
        )
        return RegionText(self.module, tuple(self.specials))

    def _phis(self) -> list[str]:
        return [
            f"  {name} = phi {vector(first.width)} [ {first.text}, %entry ], [ {last.text}, %again ]"
            for k, (first, name) in self.carried.items()
            for last in (self.values[k],)
        ]

    def _finish(self) -> None:
        w = self.w
        tests_fault = any(name.startswith("drywell.locate.") for name in self.module.functions)
        taken = self._branch_bits() if self.region.is_loop else None
        fuel_place = w.let(word("fuel"))
        fuel = w.let(f"sub i64 {w.let(f'load i64, ptr {fuel_place}')}, {len(self.region.code)}")
        w.do(f"store i64 {fuel}, ptr {fuel_place}")
        if tests_fault:
            fault = w.let(f"load i64, ptr {w.let(word('fault'))}")
            w.do(f"br i1 {w.let(f'icmp eq i64 {fault}, 0')}, label %good, label %fault")
            w.label("fault")
            w.do(f"ret i32 {int(Status.FAULT)}")
        else:
            w.do("br label %good")
        w.label("good")
        status = str(int(Status.DONE)) if taken is None else self._back_edge(taken, fuel)
        for k in sorted(self.written):
            self._store(k)
        w.do(f"ret i32 {status}")

    def _branch_bits(self) -> str:
        """Return, as 32 bits, which lanes go round again."""
        branch = self.region.code[-1]
        assert isinstance(branch, ops.Bound)
        guard = self._guard(branch)
        return self.w.let(f"bitcast {vector(1)} {(guard or ALL_LANES).text} to i32")

    def _back_edge(self, taken: str, fuel: str) -> str:
        """Write the branch and begin the block behind the loop; return the status it is entered with."""
        w = self.w
        w.do(f"switch i32 {taken}, label %leave [ i32 -1, label %round i32 0, label %done ]")
        w.label("done")
        w.do("br label %leave")
        w.label("round")
        w.do(f"br i1 {w.let(f'icmp sgt i64 {fuel}, 0')}, label %again, label %leave")
        w.label("again")
        w.do("br label %body")
        w.label("leave")
        ways = {"good": Status.DIVERGED, "done": Status.DONE, "round": Status.TIRED}
        return w.let("phi i32 " + ", ".join(f"[ {int(status)}, %{block} ]" for block, status in ways.items()))

    # ---------------------------------------------------------------- one instruction
    def _instruction(self, instruction: ops.Bound, place: int) -> None:
        if not _is_compilable(instruction):
            raise UnsupportedError(
                f"'{instruction.declaration.name}' cannot be compiled as part of a region", instruction.span
            )
        guard = self._guard(instruction)
        chosen = instruction.mods.get("type")
        o = LlvmOps(instruction.mods, TYPES.get(str(chosen)), self.w, guard or ALL_LANES, place)
        sources = [
            self._read(s, t) for s, t in zip(instruction.sources, instruction.source_types, strict=True)
        ]
        try:
            result = instruction.declaration.semantics(o, *sources)
        except UnsupportedSpaceError as error:
            raise UnsupportedError(str(error), instruction.span) from None
        results = (result,) if len(instruction.destinations) == 1 else result or ()
        for destination, op, value in zip(
            instruction.destinations, instruction.destination_types, results, strict=True
        ):
            self._write_operand(destination, op, value, guard)

    def _guard(self, instruction: ops.Bound) -> Lanes | None:
        if instruction.guard is None:
            return None
        guard = self._register(instruction.guard)
        return self._negated(guard) if instruction.is_guard_negated else guard

    def _negated(self, p: Lanes) -> Lanes:
        return Lanes(self.w.let(f"xor {vector(1)} {p.text}, {constant(1, 1).text}"), 1)

    # ---------------------------------------------------------------- registers
    def _index(self, register: ops.Register) -> int:
        return register.index + self.region.linked.register_base

    def _register(self, register: ops.Register) -> Lanes:
        k = self._index(register)
        if k not in self.values:
            first = self._load("%registers", self.layout.offsets[k], self.layout.widths[k])
            if k in self.carries:
                name = f"%carried{k}"
                self.carried[k] = (first, name)
                first = Lanes(name, first.width)
            self.values[k] = first
        return self.values[k]

    def _load(self, base: str, offset: int, width: int) -> Lanes:
        w = self.w
        place = w.let_first(f"getelementptr i8, ptr {base}, i64 {offset}")
        if width > 1:
            return Lanes(w.let_first(f"load {vector(width)}, ptr {place}, align {min(width // 8, 8)}"), width)
        whole = w.let_first(f"load {vector(8)}, ptr {place}, align 1")
        return Lanes(w.let_first(f"icmp ne {vector(8)} {whole}, zeroinitializer"), 1)

    def _store(self, k: int) -> None:
        w, value = self.w, self.values[k]
        place = w.let(f"getelementptr i8, ptr %registers, i64 {self.layout.offsets[k]}")
        text, width = (
            (w.let(f"zext {vector(1)} {value.text} to {vector(8)}"), 8)
            if value.width == 1
            else (value.text, value.width)
        )
        w.do(f"store {vector(width)} {text}, ptr {place}, align {min(width // 8, 8)}")

    def _written_by(self, instruction: ops.Bound) -> set[int]:
        elements = [
            e for d in instruction.destinations for e in (d.elements if isinstance(d, ops.Group) else (d,))
        ]
        return {self._index(e) for e in elements if isinstance(e, ops.Register)}

    # ---------------------------------------------------------------- operands
    def _read(self, operand: Any, op: Any) -> Any:
        match operand:
            case None:
                return None
            case tuple():
                return tuple(self._read(o, t) for o, t in zip(operand, op, strict=True))
            case ops.Register():
                return self._resized(self._register(operand), TYPES[op.type].bits)
            case ops.Negated():
                return self._negated(self._register(operand.register))
            case ops.Immediate():
                return constant(operand.bits, TYPES[op.type].bits)
            case ops.Special():
                return self._special(operand.name)
            case ops.Symbol():
                return self._symbol(operand, TYPES[op.type].bits)
            case ops.Memory():
                return self._memory(operand)
            case ops.Group():
                element = _element(operand, op)
                return tuple(self._read(e, element) for e in operand.elements)
        raise UnsupportedError(f"an operand of kind {type(operand).__name__} cannot stand in a region")

    def _resized(self, value: Lanes, width: int, is_signed: bool = False) -> Lanes:
        if value.width == width:
            return value
        operation = "trunc" if value.width > width else "sext" if is_signed else "zext"
        return Lanes(self.w.let(f"{operation} {vector(value.width)} {value.text} to {vector(width)}"), width)

    def _special(self, name: str) -> Lanes:
        kind = special_type(name) or ""
        if name not in self.specials:
            self.specials.append(name)
        number = self.specials.index(name)
        base = self.w.let_first(f"load i64, ptr {self.w.let_first(word('specials'))}")
        slot = self.w.let_first(
            f"getelementptr i64, ptr {self.w.let_first(f'inttoptr i64 {base} to ptr')}, i64 {number}"
        )
        place = self.w.let_first(f"inttoptr i64 {self.w.let_first(f'load i64, ptr {slot}')} to ptr")
        return self._load(place, 0, TYPES[kind].bits)

    def _symbol(self, symbol: ops.Symbol, width: int) -> Lanes:
        space, name = symbol.space, symbol.name
        if space in ("global", "const"):
            return constant(self.addresses[name] + symbol.offset, width)
        place = self.executable.places[space, name] + symbol.offset + (CALL_PARAMS if space == "frame" else 0)
        if space != "shared":
            return constant(place, width)
        base = self.w.let_first(f"load i64, ptr {self.w.let_first(word('shared_base'))}")
        whole = self.w.let_first(f"add i64 {base}, {place}")
        one = self.w.let_first(f"insertelement {vector(64)} poison, i64 {whole}, i64 0")
        every = self.w.let_first(
            f"shufflevector {vector(64)} {one}, {vector(64)} poison, <32 x i32> zeroinitializer"
        )
        return self._resized(Lanes(every, 64), width)

    def _memory(self, operand: ops.Memory) -> Lanes:
        base, offset = operand.base, operand.offset
        if base is None:
            return constant(offset, 64)
        if isinstance(base, ops.Symbol):
            width = 32 if base.space in ("shared", "local") else 64
            return self._symbol(ops.Symbol(base.space, base.name, base.offset + offset), width)
        value = self._register(base)
        if offset == 0:
            return value
        return Lanes(
            self.w.let(f"add {vector(value.width)} {value.text}, {constant(offset, value.width).text}"),
            value.width,
        )

    def _write_operand(self, operand: Any, op: Op, value: Any, guard: Lanes | None) -> None:
        if isinstance(operand, ops.Group):
            element = _element(operand, op)
            for one, part in zip(operand.elements, value, strict=True):
                self._write_operand(one, element, part, guard)
        elif isinstance(operand, ops.Register):
            k = self._index(operand)
            new = self._resized(value, self.layout.widths[k], TYPES[op.type].kind == "signed")
            if guard is not None:
                old = self._register(operand)
                kind = vector(new.width)
                new = Lanes(
                    self.w.let(f"select {vector(1)} {guard.text}, {kind} {new.text}, {kind} {old.text}"),
                    new.width,
                )
            self.values[k] = new
            self.written.add(k)


def _element(group: ops.Group, op: Op) -> Op:
    """Return what each element of a brace list must be, as the interpreter has it."""
    width = TYPES[op.type].bits if op.count is not None else TYPES[op.type].bits // len(group.elements)
    is_signed = TYPES[op.type].kind == "signed" and op.count is not None
    return Op(f"{'s' if is_signed else 'b'}{width}", is_relaxed=op.is_relaxed) if width > 1 else Op("pred")
