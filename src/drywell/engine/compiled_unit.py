"""A unit of compiled code: some chunks of a function as one LLVM function.

    i64 unit(ptr registers, ptr context, i64 pc)

`registers` is a warp's flat register buffer (`machine/registers.py`), `context` as in `context_words`, `pc`
the chunk to begin with. The result is a place times `STATUSES` plus why it returned (`compiled_layout`).
Each chunk is begun only when there is fuel (for all of it, where turns are exact).

Of a unit there are two variants. In the full one all 32 lanes are active. In the other those of the context's
`mask` are, and jumps and chunks give way to the warp's other lanes as the interpreter does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from drywell.engine.compiled_chunk import ChunkWriter
from drywell.engine.compiled_jumps import jumps_back
from drywell.engine.compiled_layout import (
    BRANCH,
    DIVIDES,
    EXITS,
    GOES_ON,
    JUMPED,
    LEFT,
    NATIVE,
    STATUSES,
    UNIT_NAME,
    WAITS,
    YIELDS,
    Chunk,
    Layout,
)
from drywell.engine.context_words import word
from drywell.engine.llvm_text import Module, Writer, vector
from drywell.machine.registers import RegisterLayout
from drywell.program import operands as ops


def write_unit(layout: Layout, number: int, is_full: bool) -> Module:
    """Write a unit's IR; the module's function `UNIT_NAME` is the unit, its others are what that calls."""
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
        head = [f"define i64 @{UNIT_NAME}(ptr %registers, ptr %context, i64 %pc) {{", "entry:"]
        ends = [f"  switch i64 %pc, label %elsewhere [ {cases} ]", "elsewhere:", "  unreachable"]
        w.module.functions[UNIT_NAME] = "\n".join([*head, *w.entry, *ends, *w.lines, "}"])
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
            body.tell_passed()
            w.do(f"store i64 {less}, ptr {fuel_place}")
            self._go(chunk.next_pc)
            w.label(f"x{pc}")
        if chunk.end == BRANCH and isinstance(last.sources[-1], ops.Targets):
            self._branch_by_index(last, pc, active, less, fuel_place, body)
        elif chunk.end == BRANCH:
            self._branch(last, pc, active, less, fuel_place, chunk.linked.pc_base)
        elif chunk.end == NATIVE and (self.is_full or last.declaration.converged != "warp"):
            pending = w.let(f"load i64, ptr {w.let(word('pending'))}")
            w.do(f"br i1 {w.let(f'icmp eq i64 {pending}, 0')}, label %n{pc}, label %l{pc}")
            w.label(f"n{pc}")
            self._native(chunk, body, active, less, fuel_place)
            w.label(f"l{pc}")
            self._return(pc, LEFT)
        else:
            self._return(pc, LEFT)

    def _native(self, chunk: Chunk, body: ChunkWriter, active: str, less: str, fuel_place: str) -> None:
        """Write a machine instruction that some lane executes; where it cannot be done, the code branches."""
        w, last, pc = self.w, chunk.last, chunk.end_pc
        assert last is not None
        if last.guard is not None and self.layout.forms(last).waits:  # a split waits as a whole
            is_whole = w.let(f"icmp eq i32 {active}, {self.mask}")
            w.do(f"br i1 {is_whole}, label %e{pc}, label %l{pc}")
            w.label(f"e{pc}")
        made = body.native(last, active)
        if made.exits:
            self._exit(chunk, active)
            return
        w.do(f"br i1 {made.done}, label %d{pc}, label %l{pc}")
        w.label(f"d{pc}")
        w.do(f"store i64 {less}, ptr {fuel_place}")
        self._count("runs", pc)
        body.tell()
        if made.waits:
            w.do(f"br i1 {made.waits}, label %h{pc}, label %o{pc}")
            w.label(f"h{pc}")
            self._store("wait_result", body.result_place(last))
            self._return(pc, WAITS)
            w.label(f"o{pc}")
        body.write_results()
        self._go(chunk.next_pc)

    def _exit(self, chunk: Chunk, active: str) -> None:
        """Write the end of lanes; that of a function other than the kernel is left to the interpreter."""
        assert chunk.last is not None
        if chunk.last.declaration.name == "ret" and not chunk.linked.function.is_entry:
            self._return(chunk.end_pc, LEFT)
            return
        self._store("taken", self.w.let(f"zext i32 {active} to i64"))
        self._return(chunk.end_pc, EXITS)

    def _branch(
        self, last: ops.Bound, pc: int, active: str, less: str, fuel_place: str, pc_base: int
    ) -> None:
        """Write a branch that some lane takes; it is left to others when not all do, and when it jumps
        backwards and the split is to give way.
        """
        w = self.w
        target = last.sources[0]
        assert isinstance(target, ops.Target)
        to = target.pc + pc_base
        if last.guard is not None:
            some = w.let(f"icmp ne i32 {active}, {self.mask}")
            w.do(f"br i1 {some}, label %k{pc}, label %b{pc}")
            w.label(f"k{pc}")
            self._store("taken", w.let(f"zext i32 {active} to i64"))
            self._store("target", to)
            self._return(pc, DIVIDES)
            w.label(f"b{pc}")
        if to <= pc:
            may = jumps_back(w, to, self.registers.nbytes)
            w.do(f"br i1 {may}, label %j{pc}, label %l{pc}")
            w.label(f"l{pc}")
            self._store("target", to)
            self._return(pc, YIELDS)
            w.label(f"j{pc}")
        self._jump(pc, to, less, fuel_place)

    def _branch_by_index(
        self, last: ops.Bound, pc: int, active: str, less: str, fuel_place: str, body: ChunkWriter
    ) -> None:
        """Write a branch that all lanes take to one place further on; others are left to the interpreter."""
        w, targets = self.w, last.sources[-1]
        assert isinstance(targets, ops.Targets)
        index = body.read(last.sources[0], last.source_types[0])
        lane = w.intrinsic("cttz.i32", "i32", ("i32", active), ("i1", "true"))
        first = w.let(f"extractelement {vector(32)} {index.text}, i32 {lane}")
        one = w.let(f"insertelement {vector(32)} poison, i32 {first}, i64 0")
        zeros = f"{vector(32)} zeroinitializer"
        every = w.let(f"shufflevector {vector(32)} {one}, {vector(32)} poison, {zeros}")
        differs = w.let(f"icmp ne {vector(32)} {index.text}, {every}")
        others = w.let(f"and i32 {w.let(f'bitcast {vector(1)} {differs} to i32')}, {active}")
        rest = w.let(f"xor i32 {active}, {self.mask}")
        is_one = w.let(f"icmp eq i32 {w.let(f'or i32 {others}, {rest}')}, 0")
        w.do(f"br i1 {is_one}, label %b{pc}, label %l{pc}")
        w.label(f"b{pc}")
        base = body.chunk.linked.pc_base
        places = {k: target + base for k, target in enumerate(targets.pcs) if target + base > pc}
        cases = " ".join(f"i32 {k}, label %b{pc}.{k}" for k in places)
        w.do(f"switch i32 {first}, label %l{pc} [ {cases} ]")
        for k, to in places.items():
            w.label(f"b{pc}.{k}")
            self._jump(pc, to, less, fuel_place, f".{k}")
        w.label(f"l{pc}")
        self._return(pc, LEFT)

    def _jump(self, pc: int, to: int, less: str, fuel_place: str, which: str = "") -> None:
        """Write a jump that is taken; `which` tells several at one place apart."""
        w = self.w
        w.do(f"store i64 {less}, ptr {fuel_place}")
        self._count("runs", pc)
        if not self.is_full:
            limit = w.let(f"load i64, ptr {w.let(word('limit'))}")
            w.do(f"br i1 {w.let(f'icmp slt i64 {to}, {limit}')}, label %s{pc}{which}, label %y{pc}{which}")
            w.label(f"y{pc}{which}")
            self._return(to, JUMPED)
            w.label(f"s{pc}{which}")
        self._go(to)

    # ---------------------------------------------------------------- parts
    def _count(self, kind: str, pc: int) -> None:
        w = self.w
        place = w.let(f"getelementptr i64, ptr %{kind}, i64 {pc}")
        before = w.let(f"load i64, ptr {place}")
        w.do(f"store i64 {w.let(f'add i64 {before}, 1')}, ptr {place}")

    def _store(self, name: str, value: str | int) -> None:
        w = self.w
        w.do(f"store i64 {value}, ptr {w.let(word(name))}")

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
