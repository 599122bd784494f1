"""Barriers of threads natively: `bar.sync`, `bar.arrive` and `bar.warp.sync`."""

from __future__ import annotations

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import Lanes, vector
from drywell.engine.native.ir import I1, I32, I64, PTR, Function
from drywell.engine.native.mbarrier import block_of, changed, first_lane, others, wait_for
from drywell.engine.native.state import block_word, row_pointer, row_word
from drywell.engine.native.table import (
    ALWAYS,
    Emit,
    Native,
    Unit,
    call,
    call_waiting,
    form,
    lane_value,
    lanes_at,
    note_change,
)
from drywell.engine.native.turn_words import BARRIER, MEETING
from drywell.machine.barrier import (
    ARRIVED,
    BARRIER_WORDS,
    COMPLETED,
    IS_FOR_ALL,
    NUM_BARRIERS,
    THERE,
    THREADS,
)
from drywell.machine.lanes import LANES
from drywell.program import operands as ops

_SYNC, _ARRIVE = "drywell.native.barrier.sync", "drywell.native.barrier.arrive"
_MEET = "drywell.native.barrier.meet"


def _function(is_sync: bool) -> Function:
    """Write `i32 f(context, mask, number, threads, agree)`: `threads` 0 means all of the CTA, `agree` that
    all lanes give the same. 2 when a warp has come and waits for others.
    """
    f = Function(_SYNC if is_sync else _ARRIVE, I32, context=PTR, mask=I32, number=I64, threads=I64, agree=I1)
    live, mask = f.load(I64, f["context"], CONTEXT["live"]).trunc(I32), f["mask"]
    f.need((mask.is_("eq", -1) | live.is_("ne", 0)) & f["agree"])
    f.need(f["number"].is_("ult", NUM_BARRIERS) & (f["threads"] & LANES - 1).is_("eq", 0))
    if not is_sync:
        f.need(f["threads"].is_("ne", 0))
    block = block_of(f)
    row = block_word(f, block, "row").as_pointer()
    barrier = f.at(row_pointer(f, row, "barriers"), f["number"] * BARRIER_WORDS, I64)
    num_warps, warp = row_word(f, row, "num_warps"), block_word(f, block, "warp")
    bit, masks = f.of(I64, 1) << warp, f.at(row_pointer(f, row, "arrivals"), f["number"] * LANES, I32)
    is_for_all = f["threads"].is_("eq", 0)
    wanted = f.choose(is_for_all, num_warps * LANES, f["threads"])
    threads = f.load(I64, barrier, THREADS)
    f.need(threads.is_("eq", 0) | threads.is_("eq", wanted))
    before = f.load(I32, masks, warp)
    f.need((before & mask).is_("eq", 0))
    now = before | mask
    is_there = (live & (now ^ -1)).is_("eq", 0)
    is_for_all = f.choose(threads.is_("eq", 0), is_for_all, f.load(I64, barrier, IS_FOR_ALL).is_("ne", 0))
    there = f.load(I64, barrier, THERE) | f.choose(is_there, bit, 0)
    everyone = (f.of(I64, 1) << num_warps) - 1
    ended = f.load(I64, row_pointer(f, row, "ended"))
    count = f.intrinsic("ctpop.i64", I64, there) * LANES
    is_over = f.choose(is_for_all, (there | ended).is_("eq", everyone), count.is_("uge", wanted))
    completed = f.load(I64, barrier, COMPLETED)
    with f.when(is_over.is_("eq", 0)):
        if is_sync:
            place = f.let(I64, f"ptrtoint ptr {barrier.text} to i64")
            wait_for(f, BARRIER, place, f.of(I64, 0), completed)
        arrived = f.load(I64, barrier, ARRIVED) | bit
        words = {THREADS: wanted, ARRIVED: arrived, THERE: there, IS_FOR_ALL: is_for_all.zext(I64)}
        for word, value in words.items():
            f.store(value, barrier, word)
        f.store(now, masks, warp)
        changed(f)
        f.give(2 if is_sync else 1)
    f.store(completed + 1, barrier, COMPLETED)
    for word in (THREADS, ARRIVED, THERE, IS_FOR_ALL):
        f.store(f.of(I64, 0), barrier, word)
    f.store(f.splat(I32, LANES, 0), masks, align=4)
    changed(f)
    f.give(1)
    return f


def _meet_function() -> Function:
    """Write `i32 f(context, mask, members)`: the lanes of a warp, 32 bits each, that are to meet; 2 when
    others of its lanes are still to come.
    """
    f = Function(_MEET, I32, context=PTR, mask=I32, members=PTR)
    members, mask = f.load(I32, f["members"], first_lane(f)), f["mask"]
    f.need(others(f, f["members"], members).is_("eq", 0))
    f.need((mask & (members ^ -1)).is_("eq", 0))
    with f.when(mask.is_("ne", members)):
        none = f.of(I64, 0)
        wait_for(f, MEETING, none, none, members.zext(I64))
        f.give(2)
    changed(f)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions of barriers."""
    return _function(True), _function(False), _meet_function()


@form("bar_sync")
def _bar_sync(instruction: ops.Bound) -> Emit:
    return lambda unit, bound: call_waiting(unit, _SYNC, *_arguments(unit, bound))


@form("bar_arrive")
def _bar_arrive(instruction: ops.Bound) -> Emit:
    return lambda unit, bound: Native(call(unit, _ARRIVE, *_arguments(unit, bound)))


@form("bar_warp_sync")
def _bar_warp_sync(instruction: ops.Bound) -> Emit:
    return _emit_meeting


def _emit_meeting(unit: Unit, instruction: ops.Bound) -> Native:
    (members,) = instruction.sources
    is_all = isinstance(members, ops.Immediate) and members.bits & 0xFFFF_FFFF == 0xFFFF_FFFF
    if is_all and unit.mask == "-1":
        note_change(unit)
        return Native(ALWAYS)
    value = unit.read(members, instruction.source_types[0])
    return call_waiting(unit, _MEET, lanes_at(unit, "members", value))


def _arguments(unit: Unit, instruction: ops.Bound) -> tuple[tuple[str, str], ...]:
    numbers, agree = [], "true"
    for operand, op in zip(instruction.sources, instruction.source_types, strict=True):
        value: Lanes | None = unit.read(operand, op)
        numbers.append((I64, "0") if value is None else lane_value(unit, value, 64))
        if value is not None and not isinstance(operand, ops.Immediate):
            agree = unit.w.let(f"and i1 {agree}, {is_same(unit, value)}")
    return (*numbers, (I1, agree))


def is_same(unit: Unit, value: Lanes) -> str:
    """Return the text of an i1: whether all lanes have one value."""
    w, kind = unit.w, vector(value.width)
    zeros = "<32 x i32> zeroinitializer"
    first = w.let(f"shufflevector {kind} {value.text}, {kind} poison, {zeros}")
    differs = w.let(f"icmp ne {kind} {value.text}, {first}")
    return w.let(f"icmp eq i32 {w.let(f'bitcast {vector(1)} {differs} to i32')}, 0")
