"""`tcgen05.ld`, `st` and `commit` natively, on the cells of Tensor Memory and the register buffer.

The cell of register r in thread l is the sum of a step of l and a step of r, whatever the shape. 32x32b and
16x32bx2 are transpositions of blocks. What is a fault, or depends on an option, leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from drywell.engine.llvm_text import LANES, Lanes, vector
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import (
    ARRIVALS,
    block_of,
    change,
    changed,
    decoded,
    emit_arrivals,
    others,
    place_of,
    put,
)
from drywell.engine.native.state import block_word, tmem_word
from drywell.engine.native.table import (
    Emit,
    Native,
    Unit,
    call,
    constants,
    form,
    lane_value,
    lanes_at,
    only_registers,
)
from drywell.engine.native.waiting import perform_waiting
from drywell.layout.fragment import SHAPES, cols_touched, fragment, num_registers
from drywell.layout.tmem import GRANULE_COLS, NUM_COLS, NUM_PARTITIONS, PARTITION_LANES
from drywell.machine.windows import OFFSET_MASK, RANK_SHIFT, SHARED_BASE
from drywell.program import operands as ops

_BLOCK = 16
_ROW = f"<{_BLOCK} x i32>"
_LD, _ST = "drywell.native.tmem.ld", "drywell.native.tmem.st"
_PARAMETERS = {
    "context": PTR,
    "mask": I32,
    "addresses": PTR,
    "registers": PTR,
    "places": PTR,
    "lane_steps": PTR,
    "register_steps": PTR,
    "count": I64,
    "num_rows": I64,
    "num_cols": I64,
    "is_row": I1,
    "is_packed": I1,
    "split": I32,
}
"""Of both: `places` are the registers' offsets in the buffer, the steps are in cells; `num_rows` lanes and
`num_cols` columns are one window; `is_row` says that register r of a thread is column r of a lane of its own,
`is_packed` that it is two halves; `split`, when it is not 0, lies between the windows of the lower and the
upper threads."""


def _address(f: Function) -> Value:
    """Return the address that all threads give; leave when they do not, or are not all there."""
    f.need(f["mask"].is_("eq", -1))
    address = f.load(I32, f["addresses"], 0)
    f.need(others(f, f["addresses"], address).is_("eq", 0))
    return address


def _base(f: Function, block: Value, row: Value, address: Value) -> Value:
    """Return the number of a window's first cell; leave where its lanes or columns are not the warp's."""
    taddr = address.zext(I64)
    lane, col = taddr >> 16, taddr & 0xFFFF
    partition = block_word(f, block, "warp") & NUM_PARTITIONS - 1
    is_inside = (lane >> 5).is_("eq", partition)
    f.need(is_inside | block_word(f, block, "is_lenient").is_("ne", 0))
    within = lane & (PARTITION_LANES - 1)
    f.need((within & (f["num_rows"] - 1)).is_("eq", 0))
    owned(f, row, col, f["num_cols"])
    return (partition * PARTITION_LANES + within) * NUM_COLS + col


def owned(f: Function, row: Value, col: Value, num_cols: Value) -> None:
    """Leave unless columns are the CTA's."""
    end = col + num_cols
    f.need(end.is_("ule", NUM_COLS))
    first, last = col // GRANULE_COLS, (end - 1) // GRANULE_COLS
    one = f.of(I64, 1)
    wanted = (one << last + 1) - (one << first)
    held = tmem_word(f, row, "mine")
    f.need((held & wanted).is_("eq", wanted))


def _register(f: Function, number: Value) -> Value:
    """Return the address of a register by its number in the list."""
    return f.at(f["registers"], f.load(I32, f["places"], number).zext(I64))


def _transposed(f: Function, rows: Sequence[Value]) -> list[Value]:
    """Return the columns of a square block given by its rows."""
    now = list(rows)
    step = len(now) // 2
    while step:
        for k in (k for k in range(len(now)) if not k & step):
            first, second = now[k], now[k + step]
            upper = [j if not j & step else _BLOCK + j - step for j in range(_BLOCK)]
            lower = [j + step if not j & step else _BLOCK + j for j in range(_BLOCK)]
            now[k], now[k + step] = _mixed(f, first, second, upper), _mixed(f, first, second, lower)
        step //= 2
    return now


def _mixed(f: Function, first: Value, second: Value, order: Sequence[int]) -> Value:
    chosen = ", ".join(f"i32 {k}" for k in order)
    text = f"shufflevector {_ROW} {first.text}, {_ROW} {second.text}, <{_BLOCK} x i32> <{chosen}>"
    return f.let(_ROW, text)


def _blocks(f: Function, cells: Value, upper: Value, is_load: bool) -> None:
    """Move squares of 16 threads by 16 columns; the cells of the upper threads lie `upper` further on."""
    with f.loop(f["count"] // _BLOCK) as across, f.loop(LANES // _BLOCK) as down:
        corner = f.at(cells, down * upper + across * _BLOCK, I32)
        in_cells = [f.at(corner, k * NUM_COLS, I32) for k in range(_BLOCK)]
        numbers = [across * _BLOCK + k for k in range(_BLOCK)]
        in_registers = [f.at(_register(f, number), down * _BLOCK, I32) for number in numbers]
        sources, targets = (in_cells, in_registers) if is_load else (in_registers, in_cells)
        rows = [f.load(_ROW, place, align=4) for place in sources]
        for place, column in zip(targets, _transposed(f, rows), strict=True):
            f.store(column, place, align=4)


_ALL = f"<{LANES} x i32>"
_PLACES = f"<{LANES} x ptr>"
_EVERY = f"<{LANES} x i1> splat (i1 true)"


def _each(f: Function, cells: Value, upper: Value, use: Callable[[Value, Value], None]) -> None:
    """Write what is to be done with each register: its address and those of its cells, one for each thread;
    the cells of the upper threads lie `upper` further on.
    """
    is_upper = f"<{LANES} x i1> <{', '.join(f'i1 {int(k >= LANES // 2)}' for k in range(LANES))}>"
    further = f.splat(I32, LANES, upper.trunc(I32))
    moved = f.let(_ALL, f"select {is_upper}, {_ALL} {further.text}, {_ALL} zeroinitializer")
    steps = f.load(_ALL, f["lane_steps"], align=4) + moved
    with f.loop(f["count"]) as number:
        own = steps + f.splat(I32, LANES, f.load(I32, f["register_steps"], number))
        places = f.let(_PLACES, f"getelementptr i32, ptr {cells.text}, {_ALL} {own.text}")
        use(_register(f, number), places)


def _gathered(f: Function, places: Value) -> Value:
    every, none = Value(f, _EVERY.partition("> ")[2], f"<{LANES} x i1>"), Value(f, "zeroinitializer", _ALL)
    return f.intrinsic(f"masked.gather.v{LANES}i32.v{LANES}p0", _ALL, places, every, none)


def _load_each(f: Function, cells: Value, upper: Value) -> None:
    """Load register by register."""

    def plain(register: Value, places: Value) -> None:
        f.store(_gathered(f, places), register, align=4)

    def packed(register: Value, places: Value) -> None:
        others = f.let(_PLACES, f"getelementptr i32, {_PLACES} {places.text}, i64 1")
        low, high = f.splat(I32, LANES, 0xFFFF), f.splat(I32, LANES, 16)
        both = (_gathered(f, places) & low) | _gathered(f, others) << high
        f.store(both, register, align=4)

    with f.when(f["is_packed"]):
        _each(f, cells, upper, packed)
        f.give(1)
    _each(f, cells, upper, plain)


def _store_each(f: Function, cells: Value, upper: Value) -> None:
    """Store register by register."""

    def use(register: Value, places: Value) -> None:
        value, every = f.load(_ALL, register, align=4), Value(f, _EVERY.partition("> ")[2], f"<{LANES} x i1>")
        f.intrinsic(f"masked.scatter.v{LANES}i32.v{LANES}p0", "void", value, places, every)

    _each(f, cells, upper, use)


def _mark(f: Function, written: Value, upper: Value) -> None:
    """Mark the cells of the windows as written: a store fills them."""
    with f.loop(f.choose(f["split"].is_("eq", 0), f.of(I64, 1), 2)) as window, f.loop(f["num_rows"]) as lane:
        place = f.at(written, lane * NUM_COLS + window * upper)
        f.intrinsic("memset.p0.i64", "void", place, f.of(I8, 1), f["num_cols"], f.of(I1, 0))


def _upper(f: Function, block: Value, row: Value, address: Value, base: Value, is_load: bool) -> Value:
    """Return how many cells the window of the upper threads lies further on; leave when a store's windows
    share cells.
    """
    upper = f.variable(I64, 0)
    with f.when(f["split"].is_("ne", 0)):
        second = _base(f, block, row, address + f["split"])
        upper.set(second - base)
        if not is_load:
            apart = (second & NUM_COLS - 1) - (base & NUM_COLS - 1)
            distance = apart.smax(-apart)
            is_other_half = (second ^ base).is_("uge", NUM_COLS)
            f.need(is_other_half | distance.is_("uge", f["num_cols"]))
    return upper.value


def _access(name: str, is_load: bool) -> Function:
    f = Function(name, I32, _PARAMETERS)
    block, address = block_of(f), _address(f)
    perform_waiting(f, block)
    row = block_word(f, block, "row").as_pointer()
    base = _base(f, block, row, address)
    upper = _upper(f, block, row, address, base, is_load)
    cells = f.at(tmem_word(f, row, "cells").as_pointer(), base, I32)
    changed(f)
    if not is_load:
        _mark(f, f.at(tmem_word(f, row, "written").as_pointer(), base), upper)
    with f.when(f["is_row"] & (f["count"] & (_BLOCK - 1)).is_("eq", 0)):
        is_whole = f["num_rows"].is_("eq", LANES)
        _blocks(f, cells, f.choose(is_whole, f.of(I64, _BLOCK * NUM_COLS), upper), is_load)
        f.give(1)
    if is_load:
        _load_each(f, cells, upper)
    else:
        _store_each(f, cells, upper)
    f.give(1)
    return f


# -------------------------------------------------------------------- what a region writes


def _steps(shape: str, num: int, is_packed: bool) -> tuple[list[int], list[int]]:
    """Return the step of each lane and of each register, in cells."""
    f = fragment(shape, num, is_packed)
    cell = np.asarray(f.lane) * NUM_COLS + np.asarray(f.col)
    return (cell[:, 0] - cell[0, 0]).tolist(), cell[0].tolist()


_TWO = "16x32bx2"
"""The shape of two windows, which its syntax line has as a word."""


def _emit_access(unit: Unit, instruction: ops.Bound, name: str, group: ops.Operand) -> str:
    mods = instruction.mods
    shape, num = str(mods.get("shape") or _TWO), int(str(mods["num"])[1:])
    is_packed = mods.get("pack::16b") is not None
    split = instruction.sources[1] if shape == _TWO else None
    numbers = num_registers(shape, num), SHAPES[shape].num_rows, cols_touched(shape, num, is_packed)
    assert isinstance(group, ops.Group)
    places = [unit.place(r) for r in group.elements if isinstance(r, ops.Register)]
    return call(
        unit,
        name,
        lanes_at(unit, "taddr", unit.read(instruction.sources[0], instruction.source_types[0])),
        (PTR, "%registers"),
        *(constants(unit, table) for table in (places, *_steps(shape, num, is_packed))),
        *((I64, str(n)) for n in numbers),
        (I1, str(int(shape in ("32x32b", _TWO) and not is_packed))),
        (I1, str(int(is_packed))),
        (I32, str(split.bits & 0xFFFF_FFFF if isinstance(split, ops.Immediate) else 0)),
    )


def _is_split(instruction: ops.Bound) -> bool:
    """Say whether the two windows of a shape that has two are apart, or it has one."""
    if instruction.mods.get("shape"):
        return True
    split = instruction.sources[1]
    return isinstance(split, ops.Immediate) and split.bits & 0xFFFF_FFFF != 0


@form("tcgen05_ld", "tcgen05_ld_16x32bx2")
def _ld(instruction: ops.Bound) -> Emit | None:
    is_plain = only_registers(instruction.destinations[0]) and _is_split(instruction)
    return _emit_ld if is_plain else None


def _emit_ld(unit: Unit, instruction: ops.Bound) -> Native:
    return Native(_emit_access(unit, instruction, _LD, instruction.destinations[0]), (None,))


@form("tcgen05_st", "tcgen05_st_16x32bx2")
def _st(instruction: ops.Bound) -> Emit | None:
    group = instruction.sources[-1]
    is_plain = instruction.mods["unpack::16b"] is None and _is_split(instruction)
    return _emit_st if is_plain and isinstance(group, ops.Group) and only_registers(group) else None


def _emit_st(unit: Unit, instruction: ops.Bound) -> Native:
    group = instruction.sources[-1]
    assert isinstance(group, ops.Group)
    return Native(_emit_access(unit, instruction, _ST, group))


# -------------------------------------------------------------------- commit

_COMMIT = "drywell.native.tcgen05.commit"


@form("tcgen05_commit")
def _commit(instruction: ops.Bound) -> Emit | None:
    return _emit_commit


def _commit_address(unit: Unit, instruction: ops.Bound) -> Lanes:
    """Return the shared-window addresses of the mbarrier; one that no CTA has for what is a fault."""
    w = unit.w
    value = unit.read(instruction.sources[0], instruction.source_types[0])
    if value.width == 32:
        value = Lanes(w.let(f"zext {vector(32)} {value.text} to {vector(64)}"), 64)
    if instruction.mods["shared::cluster"]:
        return value
    return Lanes(w.let(f"xor {vector(64)} {value.text}, splat (i64 {SHARED_BASE})"), 64)


def _emit_commit(unit: Unit, instruction: ops.Bound) -> Native:
    where = _commit_address(unit, instruction)
    done, _ = emit_arrivals(unit, where, Lanes("splat (i64 1)", 64), ARRIVALS["mbarrier_arrive"], True)
    return Native(done)


@form("tcgen05_commit_multicast")
def _commit_multicast(instruction: ops.Bound) -> Emit:
    return _emit_commit_multicast


def _emit_commit_multicast(unit: Unit, instruction: ops.Bound) -> Native:
    where = _commit_address(unit, instruction)
    ranks = unit.read(instruction.sources[1], instruction.source_types[1])
    return Native(call(unit, _COMMIT, lane_value(unit, where, 64), lane_value(unit, ranks, 64)))


def _commit_function() -> Function:
    """Write `i32 f(context, mask, address, ranks)`: arrive once in each CTA named."""
    f = Function(_COMMIT, I32, context=PTR, mask=I32, address=I64, ranks=I64)
    f.need((f["mask"] & f["mask"] - 1).is_("eq", 0))
    block, ranks = block_of(f), f["ranks"]
    f.need((ranks >> block_word(f, block, "num_ctas")).is_("eq", 0) & ranks.is_("ne", 0))
    f.need((f["address"] >> 32).is_("eq", 0))
    for is_check in (True, False):
        with f.each_bit(ranks.trunc(I32)) as rank:
            address = rank << RANK_SHIFT | f["address"] & OFFSET_MASK
            place = place_of(f, block, address, f.of(I1, 1))
            state = decoded(f, f.load(I64, place.word))
            change(f, state, 1, 0, 0)
            if not is_check:
                put(f, place, state)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions of Tensor Memory."""
    return _access(_LD, True), _access(_ST, False), _commit_function()
