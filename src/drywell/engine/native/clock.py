"""The clock natively: what is due next, when ports are free, when results can be read, the instructions of
warps that compiled code executes. What it cannot do it hands back (`engine/timed.py`).

A warp in compiled code executes a chunk when its first instruction is issued; the others of the chunk act on
its registers only, and are issued one by one afterwards.
"""

from __future__ import annotations

from drywell.engine.compiled_layout import JUMPED, STATUSES
from drywell.engine.context_words import CONTEXT
from drywell.engine.native.clock_words import (
    BANK_BYTES,
    BY_HAND,
    CHOOSE,
    CLOCK,
    DUE,
    ENDED,
    EXECUTE,
    IDLE,
    LINE,
    LINE_BYTES,
    LOOK,
    NOBODY,
    NUM_BANKS,
    ONE_CHUNK,
    OPERATIONS,
    PAUSED,
    PERFORM,
    PLACE,
    SMEM,
    TRACK,
)
from drywell.engine.native.ir import I1, I32, I64, PTR, Function, Value
from drywell.engine.native.turn_words import Record
from drywell.machine.lanes import LANES
from drywell.machine.windows import OFFSET_MASK

RUN, PLAN, FOLLOW, SETTLE, WAVEFRONTS = (
    f"drywell.clock.{name}" for name in ("run", "plan", "follow", "settle", "wavefronts")
)
_POP, _SHARED, _GLOBAL, _GO, _IS_OVER, _STEP = (
    f"drywell.clock.{name}" for name in ("pop", "shared", "global", "go", "is_over", "step")
)

DOUBLE = "double"
ALL_LANES = (1 << LANES) - 1
_ONE = 0x3FF0_0000_0000_0000
"""The bits of 1.0."""


def _plus(a: Value, b: Value | int, operation: str = "fadd") -> Value:
    """Add two times."""
    f = a.function
    left, right = (f.of(I64, time).bitcast(DOUBLE) for time in (a, b))
    return f.let(DOUBLE, f"{operation} double {left.text}, {right.text}").bitcast(I64)


def _cycles(count: Value) -> Value:
    """Return a number as a time."""
    return count.function.let(DOUBLE, f"uitofp i64 {count.text} to double").bitcast(I64)


def _clock(f: Function) -> Record:
    return Record(f, f["clock"], CLOCK)


def _track(f: Function) -> Record:
    return Record(f, f["track"], TRACK)


def _place(f: Function, pc: Value) -> Record:
    return Record(f, f.at(_clock(f).pointer("places"), pc * len(PLACE), I64), PLACE)


def _due(f: Function, k: Value) -> Record:
    return Record(f, f.at(_clock(f).pointer("heap"), k * len(DUE), I64), DUE)


def _move(f: Function, source: Value, target: Value) -> None:
    f.copy(_due(f, target).base, _due(f, source).base, len(DUE) * 8)


# -------------------------------------------------------------------- what is due


def _plan() -> Function:
    """Write what plans `who` for a time; there is room for it."""
    f = Function(PLAN, "void", clock=PTR, at=DOUBLE, who=I64)
    clock, at = _clock(f), f["at"].bitcast(I64)
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
    clock, k = _clock(f), f.variable(I64, 0)
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


# -------------------------------------------------------------------- shared memory


def _wavefronts() -> Function:
    """Write `timed_costs.wavefronts` of the words at `words`, each the first of a lane."""
    f = Function(WAVEFRONTS, I64, words=PTR, count=I64, size=I64)
    each = f.choose(f["size"].is_("ult", 2 * BANK_BYTES), f.of(I64, 1), f["size"] // BANK_BYTES)
    at_once = f.of(I64, NUM_BANKS) // each
    at_once = f.choose(at_once.is_("eq", 0), f.of(I64, 1), at_once)
    used, of_bank = f.slot(f"[{LANES * NUM_BANKS} x i64]"), f.slot(f"[{NUM_BANKS} x i64]")
    total, lane = f.variable(I64, 0), f.variable(I64, 0)
    with f.repeat() as stop:
        stop(lane.value.is_("uge", f["count"]))
        num_used, most = f.variable(I64, 0), f.variable(I64, 0)
        with f.loop(NUM_BANKS) as bank:
            f.store(f.of(I64, 0), of_bank, bank)
        left = f["count"] - lane.value
        with f.loop(left.smin(at_once)) as k, f.loop(each) as j:
            word = f.load(I64, f["words"], lane.value + k) + j
            is_new = f.variable(I1, 1)
            with f.loop(num_used.value) as other:
                is_new.set(is_new.value & f.load(I64, used, other).is_("ne", word))
            with f.when(is_new.value):
                f.store(word, used, num_used.value)
                num_used.add(1)
                bank = word & NUM_BANKS - 1
                in_bank = f.load(I64, of_bank, bank) + 1
                f.store(in_bank, of_bank, bank)
                most.set(most.value.smax(in_bank))
        total.add(most.value)
        lane.add(at_once)
    f.give(total.value)
    return f


def _address(f: Function, lane: Value) -> Value:
    """Return the address that a lane of the next instruction of a warp touches."""
    track, address = _track(f), f.variable(I64)
    place = _place(f, track["pc"])
    base = f.at(track.pointer("registers"), place["address"])
    with f.when(place["is_wide"].is_("ne", 0)):
        address.set(f.load(I64, base, lane))
    with f.when(place["is_wide"].is_("eq", 0)):
        address.set(f.load(I32, base, lane).zext(I64))
    return address.value + place["offset"]


def _shared() -> Function:
    """Write what puts an access on the port of shared memory; how long it queues and is served."""
    f = Function(_SHARED, I64, clock=PTR, track=PTR, is_internal=True)
    clock, track = _clock(f), _track(f)
    place, cycles, words = _place(f, track["pc"]), f.variable(I64, 1), f.slot(f"[{LANES} x i64]")
    with f.when(place["address"].is_("sge", 0)):
        count = f.variable(I64, 0)
        with f.each_bit(track["lanes"].trunc(I32)) as lane:
            f.store((_address(f, lane) & OFFSET_MASK) // BANK_BYTES, words, count.value)
            count.add(1)
        cycles.set(f.call(WAVEFRONTS, I64, words, count.value, place["size"]))
    port, now, served = f.at(track.pointer("ports"), SMEM, I64), clock["now"], _cycles(cycles.value)
    begin = now.smax(f.load(I64, port))
    f.store(_plus(begin, served), port)
    queued = _plus(_plus(begin, now, "fsub"), served)
    f.give(_plus(queued, _ONE, "fsub"))
    return f


def _there(f: Function, place: Record) -> Value:
    """Write when the operands of an instruction are there, and it where they are wanted: now, or at the
    beginning of its block where it `moves`.
    """
    clock, track = _clock(f), _track(f)
    readable, registers = track.pointer("readable"), clock.pointer("registers")
    there = f.variable(I64, f.choose(place["moves"].is_("ne", 0), track["begun"], clock["now"]))
    with f.loop(place["num_sources"]) as k:
        register = f.load(I64, registers, place["sources"] + k)
        there.set(there.value.smax(f.load(I64, readable, register)))
    return there.value


def _global() -> Function:
    """Write the latency of an access of global memory that caches. The line that its first lane touches is in
    L1, or comes there.
    """
    f = Function(_GLOBAL, I64, clock=PTR, track=PTR, is_internal=True)
    clock, track = _clock(f), _track(f)
    place = _place(f, track["pc"])
    there = _there(f, place)
    number = _address(f, f.lowest_bit(track["lanes"])) // LINE_BYTES
    line = Record(f, f.at(track.pointer("lines"), number % clock["num_lines"] * len(LINE), I64), LINE)
    latency = f.variable(I64, place["latency"])
    with f.when(line["number"].is_("eq", number)):
        wait = _plus(line["since"].smax(there), there, "fsub")
        latency.set(f.choose(place["stores"].is_("ne", 0), latency.value, place["hit"].smax(wait)))
    with f.when(line["number"].is_("ne", number)):
        line["since"] = f.choose(place["stores"].is_("ne", 0), there, _plus(there, latency.value))
    line["number"] = number
    f.give(latency.value)
    return f


# -------------------------------------------------------------------- a warp


def _settle() -> Function:
    """Write what notes when the results of an instruction can be read: `latency` after its operands, which it
    need not have waited for where it stands, as ptxas moves it within its block.
    """
    f = Function(SETTLE, "void", clock=PTR, track=PTR, pc=I64, latency=DOUBLE)
    clock, track = _clock(f), _track(f)
    place, readable, registers = _place(f, f["pc"]), track.pointer("readable"), clock.pointer("registers")
    there = _there(f, place)
    when = _plus(there, f["latency"].bitcast(I64))
    with f.loop(place["num_results"]) as k:
        f.store(when, readable, f.load(I64, registers, place["results"] + k))
    track["settled"] = track["settled"].smax(there)
    track["read"] = track["read"].smax(_plus(there, place["reads"]))
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
    clock, track = _clock(f), _track(f)
    place, readable = _place(f, track["pc"]), track.pointer("readable")
    due = f.variable(I64, f["after"].bitcast(I64))
    with f.when(place["yields"].is_("ne", 0) & track["lanes"].is_("ne", ALL_LANES)):
        due.set(_plus(due.value, place["yields"]))
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
            due.set(due.value.smax(_plus(f.load(I64, readable, register), place["lead"])))
    f.call(PLAN, "void", f["clock"], due.value.bitcast(DOUBLE), f["who"])
    f.give()
    return f


def _go() -> Function:
    """Write what executes the chunk that begins at the next instruction of a warp in compiled code; whether
    that could be.
    """
    f = Function(_GO, I1, track=PTR, drive=PTR, is_internal=True)
    track = _track(f)
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
    track = _track(f)
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
    clock, track = _clock(f), _track(f)
    with f.when(track["runs"].is_("eq", NOBODY)):
        f.give(1 + EXECUTE)
    pc, now, ports, lane = track["pc"], clock["now"], track.pointer("ports"), track["sub"]
    place = _place(f, pc)
    pipe, slot = place["pipe"], f.at(ports, lane, I64)
    is_smem = pipe.is_("eq", SMEM)
    own = f.choose(pipe.is_("slt", 0) | is_smem, slot, f.at(ports, pipe + lane, I64))
    free = f.load(I64, slot).smax(f.load(I64, own))
    with f.when(free.is_("sgt", now)):
        f.call(PLAN, "void", f["clock"], free.bitcast(DOUBLE), f["who"])
        f.give(0)
    f.store(_plus(now, place["cycles"]), own)
    f.store(_plus(now, _ONE), slot)
    latency, is_done = f.variable(I64, place["latency"]), f.variable(I1, 0)
    with f.when(is_smem):
        latency.set(_plus(latency.value, f.call(_SHARED, I64, f["clock"], f["track"])))
    with f.when(place["caches"].is_("ne", 0)):
        latency.set(f.call(_GLOBAL, I64, f["clock"], f["track"]))
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
    after = _plus(now, place["blocks"])
    after = f.choose(behind.is_("eq", pc + 1), after, _plus(after, place["leaps"]))
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
    clock = _clock(f)
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
    parts = _plan, _pop, _wavefronts, _shared, _global, _settle, _follow, _go, _is_over, _step, _run
    return tuple(part() for part in parts)
