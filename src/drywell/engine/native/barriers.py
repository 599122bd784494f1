"""`bar.sync` natively: the warp that completes a named barrier goes on; one that has to wait leaves."""

from __future__ import annotations

from drywell.engine.llvm_text import Lanes, vector
from drywell.engine.native.ir import I1, I32, I64, PTR, Function
from drywell.engine.native.mbarrier import block_of, changed
from drywell.engine.native.state import block_word, row_pointer, row_word
from drywell.engine.native.table import Emit, Native, Unit, call, form, lane_value
from drywell.machine.barrier import ARRIVED, COMPLETED, IS_FOR_ALL, NUM_BARRIERS, THERE, THREADS
from drywell.machine.lanes import LANES
from drywell.program import operands as ops

_SYNC = "drywell.native.barrier.sync"
_WORDS = 5


def _sync_function() -> Function:
    """Write `i32 f(context, mask, number, threads, agree)`: `threads` 0 means all of the CTA, `agree` that
    all lanes give the same.
    """
    f = Function(_SYNC, I32, context=PTR, mask=I32, number=I64, threads=I64, agree=I1)
    f.need(f["mask"].is_("eq", -1) & f["agree"])
    f.need(f["number"].is_("ult", NUM_BARRIERS) & (f["threads"] & LANES - 1).is_("eq", 0))
    block = block_of(f)
    row = block_word(f, block, "row").as_pointer()
    barrier = f.at(row_pointer(f, row, "barriers"), f["number"] * _WORDS, I64)
    num_warps, bit = row_word(f, row, "num_warps"), f.of(I64, 1) << block_word(f, block, "warp")
    is_for_all = f["threads"].is_("eq", 0)
    wanted = f.choose(is_for_all, num_warps * LANES, f["threads"])
    threads = f.load(I64, barrier, THREADS)
    f.need(threads.is_("eq", 0) | threads.is_("eq", wanted))
    f.need((f.load(I64, barrier, ARRIVED) & bit).is_("eq", 0))
    is_for_all = f.choose(threads.is_("eq", 0), is_for_all, f.load(I64, barrier, IS_FOR_ALL).is_("ne", 0))
    there = f.load(I64, barrier, THERE) | bit
    everyone = (f.of(I64, 1) << num_warps) - 1
    ended = f.load(I64, row_pointer(f, row, "ended"))
    count = f.intrinsic("ctpop.i64", I64, there) * LANES
    f.need(f.choose(is_for_all, (there | ended).is_("eq", everyone), count.is_("uge", wanted)))
    f.store(f.load(I64, barrier, COMPLETED) + 1, barrier, COMPLETED)
    for word in (THREADS, ARRIVED, THERE, IS_FOR_ALL):
        f.store(f.of(I64, 0), barrier, word)
    changed(f)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the function of named barriers."""
    return (_sync_function(),)


@form("bar_sync")
def _bar_sync(instruction: ops.Bound) -> Emit:
    return _emit


def _emit(unit: Unit, instruction: ops.Bound) -> Native:
    numbers, agree = [], "true"
    for operand, op in zip(instruction.sources, instruction.source_types, strict=True):
        value: Lanes | None = unit.read(operand, op)
        numbers.append((I64, "0") if value is None else lane_value(unit, value, 64))
        if value is not None and not isinstance(operand, ops.Immediate):
            agree = unit.w.let(f"and i1 {agree}, {_is_same(unit, value)}")
    return Native(call(unit, _SYNC, *numbers, (I1, agree)))


def _is_same(unit: Unit, value: Lanes) -> str:
    """Say whether all lanes have one value."""
    w, kind = unit.w, vector(value.width)
    zeros = "<32 x i32> zeroinitializer"
    first = w.let(f"shufflevector {kind} {value.text}, {kind} poison, {zeros}")
    differs = w.let(f"icmp ne {kind} {value.text}, {first}")
    return w.let(f"icmp eq i32 {w.let(f'bitcast {vector(1)} {differs} to i32')}, 0")
