"""A unit of compiled code: some chunks of a function as one LLVM function.

    i64 unit(ptr registers, ptr context, i64 pc)

`registers` is a warp's flat register buffer (`machine/registers.py`), `context` as in `llvm_memory`; `pc` is
the chunk to begin with. The result is a place times `STATUSES` plus why it returned (`compiled_layout`).
Each chunk is begun only when there is fuel (for all of it, where turns are exact).

Of a unit there are two variants. In the full one all 32 lanes are active. In the other those of the context's
`mask` are, and jumps and chunks give way to the warp's other lanes as the interpreter does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from drywell.engine.compiled_chunk import ChunkWriter
from drywell.engine.compiled_jumps import jumps_back
from drywell.engine.compiled_layout import BRANCH, GOES_ON, JUMPED, LEFT, NATIVE, STATUSES, Chunk, Layout
from drywell.engine.llvm_memory import word
from drywell.engine.llvm_text import Module, Writer
from drywell.machine.registers import RegisterLayout
from drywell.program import operands as ops

NAME = "drywell.unit"


def write_unit(layout: Layout, number: int, is_full: bool) -> Module:
    """Write a unit's IR; the module's function `NAME` is the unit, its others are what that calls."""
    return _UnitWriter(layout, layout.units[number], is_full).write()


@dataclass(slots=True)
class _UnitWriter:
    layout: Layout
    chunks: tuple[Chunk, ...]
    is_full: bool
    w: Writer = field(init=False)
    starts: set[int] = field(init=False)
    registers: RegisterLayout = field(init=False)
    mask: str = "-1"

    def __post_init__(self) -> None:
        self.registers = RegisterLayout(self.layout.executable.register_widths)
        self.w = Writer(Module())
        self.starts = {chunk.start for chunk in self.chunks}

    def write(self) -> Module:
        w = self.w
        if not self.is_full:
            place = w.let_first(word("mask"))
            w.entry.append(f"  %mask = trunc i64 {w.let_first(f'load i64, ptr {place}')} to i32")
            self.mask = "%mask"
        exact = w.let_first(f"load i64, ptr {w.let_first(word('is_exact'))}")
        w.entry.append(f"  %is_exact = icmp ne i64 {exact}, 0")
        for name in ("runs", "passed"):
            w.entry.append(f"  %{name} = load ptr, ptr {w.let_first(word(name))}")
        for chunk in self.chunks:
            self._chunk(chunk, ChunkWriter(self.layout, self.registers, chunk, w, self.mask))
        cases = " ".join(f"i64 {c.start}, label %c{c.start}" for c in self.chunks if c.is_entered)
        head = [f"define i64 @{NAME}(ptr %registers, ptr %context, i64 %pc) {{", "entry:"]
        ends = [f"  switch i64 %pc, label %elsewhere [ {cases} ]", "elsewhere:", "  unreachable"]
        w.module.functions[NAME] = "\n".join([*head, *w.entry, *ends, *w.lines, "}"])
        return w.module

    # ---------------------------------------------------------------- a chunk
    def _chunk(self, chunk: Chunk, body: ChunkWriter) -> None:
        w, start = self.w, chunk.start
        w.label(f"c{start}")
        if not self.is_full:
            self._give_way(start)
        has_last = chunk.end in (BRANCH, NATIVE) or (chunk.last is not None and chunk.last.guard is not None)
        size = len(chunk.code) + has_last
        fuel_place = w.let(word("fuel"))
        fuel = w.let(f"load i64, ptr {fuel_place}")
        if size:
            needed = w.let(f"select i1 %is_exact, i64 {size}, i64 1")
            enough = w.let(f"icmp sge i64 {fuel}, {needed}")
            w.do(f"br i1 {enough}, label %g{start}, label %t{start}")
            w.label(f"t{start}")
            self._return(start, LEFT)
            w.label(f"g{start}")
        if chunk.code:
            fuel = w.let(f"sub i64 {fuel}, {len(chunk.code)}")
            w.do(f"store i64 {fuel}, ptr {fuel_place}")
            self._count("runs", start)
            body.write()
        if chunk.last is None:
            self._go(chunk.next_pc)
            return
        self._last(chunk, body, fuel, fuel_place)

    def _give_way(self, start: int) -> None:
        """Leave when another split stands in the chunk."""
        w = self.w
        number = w.let(f"load i64, ptr {w.let(word('num_meets'))}")
        w.do(f"br i1 {w.let(f'icmp eq i64 {number}, 0')}, label %a{start}, label %m{start}")
        w.label(f"m{start}")
        meets = w.let(f"call i1 @drywell.meets(ptr %context, i64 {start})")
        w.module.functions.setdefault("drywell.meets", _MEETS)
        w.do(f"br i1 {meets}, label %w{start}, label %a{start}")
        w.label(f"w{start}")
        self._return(start, LEFT)
        w.label(f"a{start}")

    def _last(self, chunk: Chunk, body: ChunkWriter, fuel: str, fuel_place: str) -> None:
        """Write the last instruction of a chunk."""
        w, last, pc = self.w, chunk.last, chunk.end_pc
        assert last is not None
        if last.guard is None and chunk.end not in (BRANCH, NATIVE):
            self._return(pc, LEFT)
            return
        less = w.let(f"sub i64 {fuel}, 1")
        active = self.mask
        if last.guard is not None:
            active = body.active_bits(last)
            is_none = w.let(f"icmp eq i32 {active}, 0")
            w.do(f"br i1 {is_none}, label %p{pc}, label %x{pc}")
            w.label(f"p{pc}")
            w.do(f"store i64 {less}, ptr {fuel_place}")
            self._go(chunk.next_pc)
            w.label(f"x{pc}")
        if chunk.end == BRANCH:
            self._branch(last, pc, active, less, fuel_place, chunk.linked.pc_base)
        elif chunk.end == NATIVE and (self.is_full or last.declaration.converged != "warp"):
            pending = w.let(f"load i64, ptr {w.let(word('pending'))}")
            w.do(f"br i1 {w.let(f'icmp eq i64 {pending}, 0')}, label %n{pc}, label %l{pc}")
            w.label(f"n{pc}")
            done = body.native(last, active)
            w.do(f"br i1 {done}, label %d{pc}, label %l{pc}")
            w.label(f"l{pc}")
            self._return(pc, LEFT)
            w.label(f"d{pc}")
            w.do(f"store i64 {less}, ptr {fuel_place}")
            self._count("runs", pc)
            body.write_results()
            self._go(chunk.next_pc)
        else:
            self._return(pc, LEFT)

    def _branch(
        self, last: ops.Bound, pc: int, active: str, less: str, fuel_place: str, pc_base: int
    ) -> None:
        """Write a branch that some lane takes; it is left to the interpreter when not all do, and when it
        jumps backwards and the split is to give way.
        """
        w = self.w
        target = last.sources[0]
        assert isinstance(target, ops.Target)
        to = target.pc + pc_base
        if last.guard is not None:
            some = w.let(f"icmp ne i32 {active}, {self.mask}")
            w.do(f"br i1 {some}, label %l{pc}, label %b{pc}")
            w.label(f"b{pc}")
        if to <= pc:
            may = jumps_back(w, to, self.registers.nbytes)
            w.do(f"br i1 {may}, label %j{pc}, label %l{pc}")
            w.label(f"j{pc}")
        w.do(f"store i64 {less}, ptr {fuel_place}")
        self._count("runs", pc)
        if not self.is_full:
            limit = w.let(f"load i64, ptr {w.let(word('limit'))}")
            w.do(f"br i1 {w.let(f'icmp slt i64 {to}, {limit}')}, label %s{pc}, label %y{pc}")
            w.label(f"y{pc}")
            self._return(to, JUMPED)
            w.label(f"s{pc}")
        self._go(to)
        if last.guard is not None or to <= pc:
            w.label(f"l{pc}")
            self._return(pc, LEFT)

    # ---------------------------------------------------------------- parts
    def _count(self, kind: str, pc: int) -> None:
        w = self.w
        place = w.let(f"getelementptr i64, ptr %{kind}, i64 {pc}")
        before = w.let(f"load i64, ptr {place}")
        w.do(f"store i64 {w.let(f'add i64 {before}, 1')}, ptr {place}")

    def _go(self, pc: int) -> None:
        """Go on at a place, in this unit or elsewhere."""
        if pc in self.starts:
            self.w.do(f"br label %c{pc}")
        else:
            self._return(pc, GOES_ON)

    def _return(self, pc: int, status: int) -> None:
        self.w.do(f"ret i64 {pc * STATUSES + status}")


_MEETS = f"""\
define internal i1 @drywell.meets(ptr %context, i64 %start) noinline {{
entry:
  %number_place = {word("num_meets")}
  %number = load i64, ptr %number_place
  %meets = {word("meets")}
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %following, %step ]
  %is_last = icmp eq i64 %k, %number
  br i1 %is_last, label %no, label %look
look:
  %place = getelementptr i64, ptr %meets, i64 %k
  %other = load i64, ptr %place
  %is_met = icmp eq i64 %other, %start
  br i1 %is_met, label %yes, label %step
step:
  %following = add i64 %k, 1
  br label %next
no:
  ret i1 false
yes:
  ret i1 true
}}"""
