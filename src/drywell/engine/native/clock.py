"""The clock natively: what is due next, when ports are free, when results can be read, the instructions of
warps that compiled code executes. What it cannot do it hands back (`engine/timed.py`).

A warp in compiled code executes a chunk when its first instruction is issued; the others of the chunk act on
its registers only, and are issued one by one afterwards.
"""

from __future__ import annotations

from drywell.engine.compiled_layout import JUMPED, STATUSES
from drywell.engine.context_words import CONTEXT
from drywell.engine.native.clock_memory import (
    DOUBLE,
    GLOBAL,
    ONE,
    SHARED,
    clock_of,
    memory,
    memory_of,
    place_of,
    plus,
    there_of,
    track_of,
)
from drywell.engine.native.clock_words import (
    BY_HAND,
    CHOOSE,
    DUE,
    ENDED,
    EXECUTE,
    IDLE,
    LOOK,
    NOBODY,
    ONE_CHUNK,
    OPERATIONS,
    PAUSED,
    PERFORM,
    SMEM,
    STORES,
)
from drywell.engine.native.ir import I1, I64, PTR, Function, Value
from drywell.engine.native.turn_words import Record
from drywell.machine.lanes import LANES

RUN, PLAN, FOLLOW, SETTLE = (f"drywell.clock.{name}" for name in ("run", "plan", "follow", "settle"))
_POP, _GO, _IS_OVER, _STEP = (f"drywell.clock.{name}" for name in ("pop", "go", "is_over", "step"))

ALL_LANES = (1 << LANES) - 1


def _due(f: Function, k: Value) -> Record:
    return Record(f, f.at(clock_of(f).pointer("heap"), k * len(DUE), I64), DUE)


def _move(f: Function, source: Value, target: Value) -> None:
    f.copy(_due(f, target).base, _due(f, source).base, len(DUE) * 8)


# -------------------------------------------------------------------- what is due


def _plan() -> Function:
    """Write what plans `who` for a time; there is room for it."""
    f = Function(PLAN, "void", clock=PTR, at=DOUBLE, who=I64)
    clock, at = clock_of(f), f["at"].bitcast(I64)
    k = f.variable(I64, clock["size"])
    clock["size"] = k.value + 1
    with f.repeat() as stop:
        stop(k.value.is_("eq", 0))
        above = (k.value - 1) >> 1
        stop(at.is_("uge", _due(f, above)["at"]))
        _move(f, above, k.value)
        k.set(above)
    due, number = _due(f, k.value), clock["planned"] + 1
    clock["planned"] = number
    due["at"], due["number"], due["who"] = at, number, f["who"]
    f.give()
    return f


def _is_before(one: Record, other: Record) -> Value:
    a, b = one["at"], other["at"]
    return a.is_("ult", b) | a.is_("eq", b) & one["number"].is_("ult", other["number"])


def _pop() -> Function:
    """Write what takes out what is due first; the time is not before that."""
    f = Function(_POP, I64, clock=PTR, is_internal=True)
    clock, k = clock_of(f), f.variable(I64, 0)
    first, last = _due(f, k.value), clock["size"] - 1
    who = first["who"]
    clock["now"], clock["size"] = clock["now"].smax(first["at"]), last
    with f.repeat() as stop:
        below = f.variable(I64, k.value * 2 + 1)
        stop(below.value.is_("uge", last))
        right = below.value + 1
        with f.when(right.is_("ult", last)), f.when(_is_before(_due(f, right), _due(f, below.value))):
            below.set(right)
        stop(_is_before(_due(f, last), _due(f, below.value)))
        _move(f, below.value, k.value)
        k.set(below.value)
    with f.when(k.value.is_("ne", last)):
        _move(f, last, k.value)
    f.give(who)
    return f


# -------------------------------------------------------------------- a warp


def _settle() -> Function:
    """Write what notes when the results of an instruction can be read: `latency` after its operands, which it
    need not have waited for where it stands, as ptxas moves it within its block.
    """
    f = Function(SETTLE, "void", clock=PTR, track=PTR, pc=I64, latency=DOUBLE)
    clock, track = clock_of(f), track_of(f)
    place, readable, registers = place_of(f, f["pc"]), track.pointer("readable"), clock.pointer("registers")
    there = there_of(f, place)
    when = plus(there, f["latency"].bitcast(I64))
    with f.loop(place["num_results"]) as k:
        f.store(when, readable, f.load(I64, registers, place["results"] + k))
    track["settled"] = track["settled"].smax(there)
    track["read"] = track["read"].smax(plus(there, place["reads"]))
    with f.when(place["lands"].is_("ne", 0)):
        track["drained"] = track["drained"].smax(when)
        with f.when(place["num_results"].is_("ne", 0)):
            track["landed"] = track["landed"].smax(when)
    f.give()
    return f


def _follow() -> Function:
    """Write what plans the next instruction of a warp, that at `pc`: it issues `after` what was before it,
    and as late as `timed_costs.Cost` says.
    """
    f = Function(FOLLOW, "void", clock=PTR, track=PTR, who=I64, after=DOUBLE)
    clock, track = clock_of(f), track_of(f)
    place, readable = place_of(f, track["pc"]), track.pointer("readable")
    due = f.variable(I64, f["after"].bitcast(I64))
    with f.when(place["yields"].is_("ne", 0) & track["lanes"].is_("ne", ALL_LANES)):
        due.set(plus(due.value, place["yields"]))
        track["begun"] = due.value
    is_machine = place["pipe"].is_("slt", 0)
    with f.when(is_machine | place["block"].is_("ne", 0)):
        due.set(due.value.smax(track["settled"]))
    with f.when(place["rewrites"].is_("ne", 0)):
        due.set(due.value.smax(track["read"]))
    with f.when(place["ends"].is_("ne", 0)):
        due.set(due.value.smax(track["landed"]))
    with f.when(is_machine):
        registers = clock.pointer("registers")
        with f.loop(place["num_touched"]) as k:
            register = f.load(I64, registers, place["touched"] + k)
            due.set(due.value.smax(plus(f.load(I64, readable, register), place["lead"])))
    f.call(PLAN, "void", f["clock"], due.value.bitcast(DOUBLE), f["who"])
    f.give()
    return f


def _go() -> Function:
    """Write what executes the chunk that begins at the next instruction of a warp in compiled code; whether
    that could be.
    """
    f = Function(_GO, I1, track=PTR, drive=PTR, is_internal=True)
    track = track_of(f)
    context = Record(f, track.pointer("context"), CONTEXT)
    context["fuel"] = 1
    given = f"ptr {context.base.text}, i64 {track['pc'].text}"
    result = f.let(I64, f"call i64 {f['drive'].text}({given})")
    done = f.of(I64, 1) - context["fuel"]
    track["left"], track["next"], track["result"] = done, result // STATUSES, result
    f.give(done.is_("sgt", 0))
    return f


def _is_over() -> Function:
    """Write whether behind a chunk another split of its warp may join the one that runs, or go first."""
    f = Function(_IS_OVER, I1, track=PTR, is_internal=True)
    track = track_of(f)
    with f.when(track["runs"].is_("eq", ONE_CHUNK)):
        f.give(1)
    with f.when(track["lanes"].is_("eq", ALL_LANES)):
        f.give(0)
    context, pc = Record(f, track.pointer("context"), CONTEXT), track["next"]
    with f.when((track["result"] & STATUSES - 1).is_("eq", JUMPED) | pc.is_("sge", context["limit"])):
        f.give(1)
    meets = f.at(context.base, CONTEXT["meets"], I64)
    with f.loop(context["num_meets"]) as k, f.when(f.load(I64, meets, k).is_("eq", pc)):
        f.give(1)
    f.give(0)
    return f


def _step() -> Function:
    """Write what lets a warp issue its next instruction when the ports it needs are free, and executes it if
    it is in compiled code; 0, or 1 plus why Python must go on.
    """
    f = Function(_STEP, I64, clock=PTR, track=PTR, who=I64, is_internal=True)
    clock, track = clock_of(f), track_of(f)
    with f.when(track["runs"].is_("eq", NOBODY)):
        f.give(1 + EXECUTE)
    pc, now, ports, lane = track["pc"], clock["now"], track.pointer("ports"), track["sub"]
    place = place_of(f, pc)
    pipe, slot = place["pipe"], f.at(ports, lane, I64)
    is_smem = pipe.is_("eq", SMEM)
    own = f.choose(pipe.is_("slt", 0) | is_smem, slot, f.at(ports, pipe + lane, I64))
    free = f.variable(I64, f.load(I64, slot).smax(f.load(I64, own)))
    with f.when(place["stores"].is_("ne", 0)):
        full = plus(now, memory_of(f)["store_queue"])
        ahead = f.load(I64, ports, STORES).smax(full)
        free.set(free.value.smax(plus(now, plus(ahead, full, "fsub"))))
    with f.when(free.value.is_("sgt", now)):
        f.call(PLAN, "void", f["clock"], free.value.bitcast(DOUBLE), f["who"])
        f.give(0)
    f.store(plus(now, place["cycles"]), own)
    f.store(plus(now, ONE), slot)
    latency, is_done = f.variable(I64, place["latency"]), f.variable(I1, 0)
    with f.when(is_smem):
        latency.set(plus(latency.value, f.call(SHARED, I64, f["clock"], f["track"])))
    with f.when(place["is_global"].is_("ne", 0)):
        latency.set(f.call(GLOBAL, I64, f["clock"], f["track"]))
    with f.when(track["runs"].is_("ne", BY_HAND) & clock["executed"].is_("ult", clock["budget"])):
        is_done.set(1)
        with f.when(track["left"].is_("eq", 0)):
            is_done.set(f.call(_GO, I1, f["track"], clock.pointer("drive")))
    with f.when(is_done.value ^ 1):
        clock["latency"] = latency.value
        f.give(1 + EXECUTE)
    context = Record(f, track.pointer("context"), CONTEXT)
    has_changed = context["changed"].is_("ne", 0)
    context["changed"] = 0
    clock["has_changed"] = clock["has_changed"] | has_changed.zext(I64)
    clock["quiet"] = f.choose(has_changed, f.of(I64, 0), clock["quiet"] + 1)
    clock["executed"], clock["work"] = clock["executed"] + 1, clock["work"] - 1
    track["count"] = track["count"] + 1
    f.call(SETTLE, "void", f["clock"], f["track"], pc, latency.value.bitcast(DOUBLE))
    left = track["left"] - 1
    behind = f.choose(left.is_("eq", 0), track["next"], pc + 1)
    track["left"], track["pc"] = left, behind
    after = plus(now, place["blocks"])
    after = f.choose(behind.is_("eq", pc + 1), after, plus(after, place["leaps"]))
    track["begun"] = f.choose(place["block"].is_("ne", 0), after, track["begun"])
    with f.when(left.is_("eq", 0)), f.when(f.call(_IS_OVER, I1, f["track"])):
        clock["after"] = after
        f.give(1 + CHOOSE)
    f.call(FOLLOW, "void", f["clock"], f["track"], f["who"], after.bitcast(DOUBLE))
    with f.when(clock["quiet"].is_("sgt", clock["look_after"]) & clock["pending"].is_("eq", 0)):
        f.give(1 + LOOK)
    f.give(0)
    return f


def _run() -> Function:
    """Write the clock's loop: why it returns."""
    f = Function(RUN, I64, clock=PTR)
    clock = clock_of(f)
    with f.repeat():
        with f.when(clock["size"].is_("eq", 0)):
            f.give(IDLE)
        with f.when(clock["work"].is_("sle", 0)):
            f.give(PAUSED)
        with f.when(clock["now"].is_("uge", clock["end"])):
            f.give(ENDED)
        who = f.call(_POP, I64, f["clock"])
        clock["who"] = who
        with f.when(who.is_("uge", OPERATIONS)):
            f.give(PERFORM)
        track = f.load(PTR, clock.pointer("tracks"), who)
        why = f.call(_STEP, I64, f["clock"], track, who)
        with f.when(why.is_("ne", 0)):
            f.give(why - 1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions of the clock."""
    parts = _plan, _pop, _settle, _follow, _go, _is_over, _step, _run
    return *memory(), *(part() for part in parts)
