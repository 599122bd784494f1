"""The turns of a cluster's warps natively: who runs next, as `interpreter.turn`, `splits` and the eager
schedule have it, instruction for instruction.

A *gang* is a cluster's warps as words (`GANG`), with a table of the addresses of their words (`WARP`); behind
these lie 32 slots (`SPLIT`), one per split. They are the state of a warp while `compiled_rounds` has handed
it over, and only then. What native code cannot do, a step or a look, is handed back with the place and the
fuel that is left; the turn can be taken up again in the middle.
"""

from __future__ import annotations

from drywell.engine.compiled_layout import (
    DIVIDES,
    EXITS,
    GOES_ON,
    JUMPED,
    LEFT,
    MISSED,
    STATUSES,
    WAITS,
    YIELDS,
)
from drywell.engine.context_words import CONTEXT
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function, Value
from drywell.engine.native.state import block_word, row_pointer, row_word, tmem_word
from drywell.engine.native.turn_words import (
    BARRIER,
    ENDED,
    GANG,
    LANES_ONLY,
    LOOKS,
    LOOKS_WITHIN,
    MBARRIER,
    MEETING,
    MET,
    PAUSED,
    PYTHON,
    QUIET,
    RUNS,
    SHORT,
    SPLIT,
    STEPS,
    WARP,
    Record,
)
from drywell.engine.native.waiting import perform_waiting
from drywell.machine.barrier import BARRIER_WORDS, NUM_BARRIERS, THREADS

ROUNDS = "drywell.turns.rounds"
_MERGE, _CHOOSE, _WAKE, _COUNT, _ENTER, _DRIVE, _RUN, _IS_MET, _FOLLOW = (
    f"drywell.turns.{name}"
    for name in ("merge", "choose", "wake", "count", "enter", "drive", "run", "is_met", "follow")
)
_DIVIDE, _SETTLE, _MAY_EXIT, _EXIT, _TURN = (
    f"drywell.turns.{name}" for name in ("divide", "settle", "may_exit", "exit", "turn")
)


_EVERYWHERE = 1 << 62


def _change(gang: Record) -> None:
    """Note that shared state has changed."""
    gang["has_changed"] = 1
    gang["changes"] = gang["changes"] + 1


def _gang(f: Function) -> Record:
    return Record(f, f["gang"], GANG)


def _warp(f: Function) -> Record:
    return Record(f, f["warp"], WARP)


def _context(f: Function) -> Record:
    return Record(f, _warp(f).pointer("context"), CONTEXT)


def _split(f: Function, number: Value) -> Record:
    return Record(f, f.at(f["warp"], number * len(SPLIT) + len(WARP), I64), SPLIT)


# -------------------------------------------------------------------- splits that join, and the next to run


def _merge() -> Function:
    """Write `WarpState.merge`."""
    f = Function(_MERGE, "void", {"warp": PTR}, is_internal=True)
    count, kept = _warp(f)["num_splits"], f.variable(I64, 0)
    with f.loop(count, 1) as k:
        split = _split(f, k)
        with f.when(split["kind"].is_("eq", RUNS)), f.loop(k) as j:
            first = _split(f, j)
            is_one = first["kind"].is_("eq", RUNS) & split["lanes"].is_("ne", 0)
            is_one = is_one & first["lanes"].is_("ne", 0)
            is_one = is_one & first["pc"].is_("eq", split["pc"]) & first["stack"].is_("eq", split["stack"])
            with f.when(is_one):
                first["lanes"] = first["lanes"] | split["lanes"]
                first["is_parked"] = 0
                jumps, others = first["back_jumps"], split["back_jumps"]
                first["back_jumps"] = jumps.smax(others)
                split["lanes"] = 0
    with f.loop(count) as k:
        split = _split(f, k)
        with f.when(split["lanes"].is_("ne", 0)):
            with f.when(kept.value.is_("ne", k)):
                f.copy(_split(f, kept.value).base, split.base, len(SPLIT) * 8)
            kept.add(1)
    _warp(f)["num_splits"] = kept.value
    f.give()
    return f


def _is_runnable(split: Record) -> Value:
    return split["kind"].is_("eq", RUNS) & split["is_parked"].is_("eq", 0)


def _choose() -> Function:
    """Write `WarpState.choose`: the number of the split, -1 when there is none."""
    f = Function(_CHOOSE, I64, {"warp": PTR}, is_internal=True)
    warp = _warp(f)
    count = warp["num_splits"]
    all_yielded, all_still = f.variable(I64, 1), f.variable(I64, 1)
    best, least = f.variable(I64, -1), f.variable(I64, 0)
    with f.loop(count) as k:
        split = _split(f, k)
        with f.when(_is_runnable(split)):
            all_yielded.set(all_yielded.value & split["has_yielded"])
            all_still.set(all_still.value & split["is_still"])
            order = split["has_yielded"] << 62 | (-split["depth"] + (1 << 20)) << 32 | split["pc"]
            with f.when(best.value.is_("eq", -1) | order.is_("ult", least.value)):
                best.set(k)
                least.set(order)
    with f.when(best.value.is_("ne", -1) & all_yielded.value.is_("ne", 0)):
        warp["rounds"] = warp["rounds"] + 1
        warp["is_still"] = all_still.value
        with f.loop(count) as k:
            split = _split(f, k)
            with f.when(_is_runnable(split)):
                for name in ("has_yielded", "is_still", "back_jumps"):
                    split[name] = 0
    f.give(best.value)
    return f


# -------------------------------------------------------------------- waits


def _wake() -> Function:
    """Write `Interpreter.wake`; 1 when Python must look, and nothing has happened."""
    f = Function(_WAKE, I32, {"gang": PTR, "warp": PTR}, is_internal=True)
    gang, warp = _gang(f), _warp(f)
    count, has_resumed = warp["num_splits"], f.variable(I64, 0)
    with f.loop(count) as k:
        split = _split(f, k)
        with f.when(split["kind"].is_("eq", PYTHON) & gang["changes"].is_("ne", warp["looked"])):
            f.give(1)
        with f.when(split["kind"].is_("eq", MBARRIER)):
            is_live = f.load(I8, split.pointer("live")).is_("ne", 0)
            with f.when(is_live ^ 1):
                f.give(1)
    with f.loop(count) as k:
        split = _split(f, k)
        is_over = f.variable(I64, 0)
        with f.when(split["kind"].is_("eq", MBARRIER)):
            parity = f.load(I64, split.pointer("place")) >> 63
            is_over.set(parity.is_("ne", split["value"]).zext(I64))
        with f.when(split["kind"].is_("eq", BARRIER)):
            completed = f.load(I64, split.pointer("place"))
            is_over.set(completed.is_("sgt", split["value"]).zext(I64))
        with f.when(split["kind"].is_("eq", MET)):
            is_over.set(1)
        with f.when(is_over.value.is_("ne", 0)):
            with f.when(split["result"].is_("sge", 0)):
                register = f.at(warp.pointer("registers"), split["result"])
                with f.each_bit(split["lanes"].trunc(I32)) as lane:
                    f.store(f.of(I8, 1), register, lane)
            split["kind"] = RUNS
            split["pc"] = split["pc"] + 1
            has_resumed.set(1)
    with f.when(has_resumed.value.is_("ne", 0) & count.is_("ugt", 1)):
        f.call(_MERGE, "void", f["warp"])
    f.give(0)
    return f


# -------------------------------------------------------------------- one split runs


def _count() -> Function:
    """Write `Interpreter._count`."""
    parameters = {"gang": PTR, "warp": PTR, "number": I64, "target": I64}
    f = Function(_COUNT, "void", parameters, is_internal=True)
    gang, warp, split = _gang(f), _warp(f), _split(f, f["number"])
    count = split["back_jumps"] + 1
    split["back_jumps"] = count
    before = count - 1
    looks = (count & before).is_("eq", 0) | (before & (before - 1)).is_("eq", 0)
    with f.when(looks):
        given = f"ptr {warp.pointer('registers').text}, i64 {gang['register_bytes'].text}"
        digest = f.let(I64, f"call i64 {gang.pointer('digest').text}({given}, i64 {f['target'].text})")
        split["is_still"] = digest.is_("eq", split["seen"]).zext(I64)
        split["seen"] = digest
    is_many = count.is_("sgt", _context(f)["patience"]).zext(I64)
    split["has_yielded"] = split["has_yielded"] | split["is_still"] | is_many
    f.give()
    return f


def _enter() -> Function:
    """Write what compiled code is told of a split that runs: its lanes, and where the others stand."""
    f = Function(_ENTER, "void", {"gang": PTR, "warp": PTR, "number": I64}, is_internal=True)
    gang, context, split = _gang(f), _context(f), _split(f, f["number"])
    is_full = split["lanes"].is_("eq", 0xFFFF_FFFF)
    context["units"] = f.choose(is_full, gang["full"], gang["masked"])
    context["mask"] = split["lanes"]
    context["back_jumps"], context["seen"] = split["back_jumps"], split["seen"]
    limit, count = f.variable(I64, _EVERYWHERE), f.variable(I64, 0)
    live, may_meet = f.variable(I64, split["lanes"]), f.variable(I64, 1)
    meets = f.at(context.base, CONTEXT["meets"], I64)
    with f.loop(_warp(f)["num_splits"]) as k, f.when(k.is_("ne", f["number"])):
        other = _split(f, k)
        live.set(live.value | other["lanes"])
        with f.when(other["kind"].is_("uge", LANES_ONLY)):
            may_meet.set(0)
        with f.when(other["kind"].is_("eq", RUNS)):
            with f.when(other["stack"].is_("eq", split["stack"])):
                f.store(f.load(I64, gang.pointer("chunks"), other["pc"]), meets, count.value)
                count.add(1)
            is_first = other["is_parked"].is_("eq", 0) & other["has_yielded"].is_("eq", 0)
            with f.when(is_first & other["depth"].is_("sge", split["depth"])):
                is_deeper = other["depth"].is_("sgt", split["depth"])
                limit.set(limit.value.smin(f.choose(is_deeper, 0, other["pc"])))
        is_inert = other["kind"].is_("eq", LANES_ONLY) | other["kind"].is_("eq", MEETING)
        with f.when(other["kind"].is_("ne", RUNS) & (is_inert ^ 1)):
            limit.set(0)
    context["limit"], context["num_meets"] = limit.value, count.value
    context["live"], context["may_meet"] = live.value, may_meet.value
    f.give()
    return f


def _drive() -> Function:
    """Write what runs compiled code from a place on, unit after unit, for as long as there is some."""
    f = Function(_DRIVE, I64, {"warp": PTR, "pc": I64}, is_internal=True)
    context = _context(f)
    registers, units = _warp(f).pointer("registers"), context.pointer("units")
    pc = f.variable(I64, f["pc"])
    result = f.variable(I64, 0)
    with f.repeat() as stop:
        unit = f.load(PTR, units, pc.value)
        result.set(pc.value * STATUSES + GOES_ON)
        stop(unit.is_("eq", 0))
        given = f"ptr {registers.text}, ptr {context.base.text}, i64 {pc.value.text}"
        result.set(f.let(I64, f"call i64 {unit.text}({given})"))
        stop((result.value & STATUSES - 1).is_("ne", GOES_ON))
        pc.set(result.value // STATUSES)
    f.give(result.value)
    return f


def _run() -> Function:
    """Write `Interpreter._run` for the chosen split; 1 plus a status when Python must go on."""
    f = Function(_RUN, I32, {"gang": PTR, "warp": PTR}, is_internal=True)
    gang, warp, context = _gang(f), _warp(f), _context(f)
    number = warp["chosen"]
    split = _split(f, number)
    with f.repeat():
        f.call(_ENTER, "void", f["gang"], f["warp"], number)
        result = f.call(_DRIVE, I64, f["warp"], split["pc"])
        perform_waiting(f, context.pointer("machine"))
        status, is_on = result & STATUSES - 1, f.variable(I64, 0)
        split["pc"] = result // STATUSES
        split["back_jumps"], split["seen"] = context["back_jumps"], context["seen"]
        warp["has_run"] = 1
        with f.when(context["changed"].is_("ne", 0)):
            context["changed"] = 0
            _change(gang)
        with f.when(status.is_("ugt", GOES_ON)):
            how = f.call(_FOLLOW, I32, f["gang"], f["warp"], status)
            with f.when(how.is_("eq", _FOLLOWED)):
                f.give(0)
            with f.when(how.is_("eq", _REFUSED)):
                f.give(1 + LEFT)
            is_on.set(1)
        with f.when(status.is_("ne", MISSED)):
            with f.when(f.call(_IS_MET, I1, f["warp"], number)):
                f.call(_MERGE, "void", f["warp"])
                f.give(0)
            is_end = f.load(I8, gang.pointer("ends"), split["pc"]).is_("ne", 0)
            with f.when(context["fuel"].is_("sle", 0) & is_end):
                f.give(0)
        with f.when(is_on.value.is_("eq", 0)):
            f.give((status + 1).trunc(I32))
    return f


def _is_met() -> Function:
    """Write whether a split has come to where another stands that does not wait."""
    f = Function(_IS_MET, I1, {"warp": PTR, "number": I64}, is_internal=True)
    split = _split(f, f["number"])
    with f.loop(_warp(f)["num_splits"]) as k, f.when(k.is_("ne", f["number"])):
        other = _split(f, k)
        is_one = other["kind"].is_("eq", RUNS) & other["stack"].is_("eq", split["stack"])
        with f.when(is_one & other["pc"].is_("eq", split["pc"])):
            f.give(1)
    f.give(0)
    return f


_FOLLOWED, _ON, _REFUSED = range(3)
"""What becomes of a split: who runs next is to be chosen; it goes on; Python must take the step."""


def _follow() -> Function:
    """Write what becomes of a split that has jumped, waits, exits, is to divide or to give way."""
    f = Function(_FOLLOW, I32, {"gang": PTR, "warp": PTR, "status": I64}, is_internal=True)
    warp, context, status = _warp(f), _context(f), f["status"]
    split = _split(f, warp["chosen"])
    with f.when(status.is_("eq", WAITS)):
        for name in ("kind", "place", "live", "value", "result"):
            split[name] = context[f"wait_{name}"]
        is_meeting, given = split["kind"].is_("eq", MEETING), (f["gang"], f["warp"], split["value"])
        with f.when(is_meeting), f.when(f.call(_SETTLE, I1, *given)):
            split["kind"], split["pc"] = RUNS, split["pc"] + 1
            f.give(_ON)
    with f.when(status.is_("eq", EXITS)), f.when(f.call(_MAY_EXIT, I1, f["warp"]) ^ 1):
        f.give(_REFUSED)
    with f.when(status.is_("uge", DIVIDES)):
        pc, target = split["pc"], context["target"]
        context["fuel"] = context["fuel"] - 1
        runs = context.pointer("runs")
        f.store(f.load(I64, runs, pc) + 1, runs, pc)
        is_part = status.is_("eq", DIVIDES) | context["taken"].is_("ne", split["lanes"])
        with f.when(status.is_("ne", YIELDS) & is_part):
            f.call(_DIVIDE, "void", f["warp"], context["taken"])
        with f.when(status.is_("eq", EXITS)):
            f.call(_EXIT, "void", f["gang"], f["warp"])
        with f.when(status.is_("ne", EXITS)):
            with f.when(target.is_("sle", pc)):
                f.call(_COUNT, "void", f["gang"], f["warp"], warp["chosen"], target)
            split["pc"] = target
    f.call(_MERGE, "void", f["warp"])
    f.give(_FOLLOWED)
    return f


def _divide() -> Function:
    """Write `WarpState.divide`: the chosen split keeps the lanes `taken`, the others go on behind."""
    f = Function(_DIVIDE, "void", {"warp": PTR, "taken": I64}, is_internal=True)
    warp = _warp(f)
    split, count = _split(f, warp["chosen"]), warp["num_splits"]
    other = _split(f, count)
    for name in SPLIT:
        other[name] = 0
    other["lanes"] = split["lanes"] & (f["taken"] ^ -1)
    other["pc"], other["depth"], other["stack"] = split["pc"] + 1, split["depth"], split["stack"]
    split["lanes"] = f["taken"]
    warp["num_splits"] = count + 1
    f.give()
    return f


def _settle() -> Function:
    """Write whether the lanes `members` have all come to their meeting but those that have exited; if so it
    is over for all, and shared state has changed.
    """
    f = Function(_SETTLE, I1, {"gang": PTR, "warp": PTR, "members": I64}, is_internal=True)
    count = _warp(f)["num_splits"]
    away = f.variable(I64, 0)
    with f.loop(count) as k:
        split = _split(f, k)
        is_here = split["kind"].is_("eq", MEETING) & split["value"].is_("eq", f["members"])
        away.set(away.value | f.choose(is_here, 0, split["lanes"]))
    with f.when((away.value & f["members"]).is_("ne", 0)):
        f.give(0)
    with f.loop(count) as k:
        split = _split(f, k)
        with f.when(split["kind"].is_("eq", MEETING) & split["value"].is_("eq", f["members"])):
            split["kind"] = MET
    _change(_gang(f))
    f.give(1)
    return f


# -------------------------------------------------------------------- lanes that end


def _may_exit() -> Function:
    """Write whether the lanes `taken` of the chosen split may end here: no barrier notices, nothing that
    Python knows, and the CTA goes on or leaves no Tensor Memory taken.
    """
    f = Function(_MAY_EXIT, I1, {"warp": PTR}, is_internal=True)
    context = _context(f)
    block = context.pointer("machine")
    row = block_word(f, block, "row").as_pointer()
    may = context["may_meet"].is_("ne", 0)
    may = may & f.load(I64, row_pointer(f, row, "has_cluster_arrivals")).is_("eq", 0)
    open_ = f.variable(I64, 0)
    with f.loop(NUM_BARRIERS) as k:
        open_.set(open_.value | f.load(I64, row_pointer(f, row, "barriers"), k * BARRIER_WORDS + THREADS))
    ended = f.load(I64, row_pointer(f, row, "ended")) | f.of(I64, 1) << block_word(f, block, "warp")
    everyone = (f.of(I64, 1) << row_word(f, row, "num_warps")) - 1
    is_last = ended.is_("eq", everyone) & context["taken"].is_("eq", context["live"])
    f.give(may & open_.value.is_("eq", 0) & ((is_last ^ 1) | tmem_word(f, row, "mine").is_("eq", 0)))
    return f


def _exit() -> Function:
    """Write `WarpState.leave` for the chosen split."""
    f = Function(_EXIT, "void", {"gang": PTR, "warp": PTR}, is_internal=True)
    gang, context, warp = _gang(f), _context(f), _warp(f)
    split = _split(f, warp["chosen"])
    split["lanes"] = 0
    with f.loop(warp["num_splits"]) as k:
        other = _split(f, k)
        other["is_parked"] = 0
        with f.when(other["kind"].is_("eq", MEETING)):
            f.call(_SETTLE, I1, f["gang"], f["warp"], other["value"])
    with f.when(context["taken"].is_("eq", context["live"])):
        block = context.pointer("machine")
        row = block_word(f, block, "row").as_pointer()
        ended = row_pointer(f, row, "ended")
        warps = f.load(I64, ended) | f.of(I64, 1) << block_word(f, block, "warp")
        f.store(warps, ended)
        with f.when(warps.is_("eq", (f.of(I64, 1) << row_word(f, row, "num_warps")) - 1)):
            f.store(f.of(I8, 0), row_pointer(f, row, "reachable"))
            gang["has_ended"] = 1
    gang["exits"] = gang["exits"] + 1
    _change(gang)
    f.give()
    return f


# -------------------------------------------------------------------- turns and rounds


def _turn() -> Function:
    """Write `Interpreter.turn`, or the rest of one; 0 when it is over, else 1 plus why Python must go on."""
    f = Function(_TURN, I32, {"gang": PTR, "warp": PTR}, is_internal=True)
    gang, warp, context = _gang(f), _warp(f), _context(f)
    with f.when(gang["is_within"].is_("eq", 0)):
        context["fuel"] = gang["turn"]
        with f.when(f.call(_WAKE, I32, f["gang"], f["warp"]).is_("ne", 0)):
            f.give(1 + LOOKS)
        warp["chosen"] = f.call(_CHOOSE, I64, f["warp"])
        warp["before"] = warp["rounds"]
    with f.repeat() as stop:
        stop(warp["chosen"].is_("slt", 0))
        stop(context["fuel"].is_("sle", 0))
        stop(warp["rounds"].is_("ne", warp["before"]))
        left = f.call(_RUN, I32, f["gang"], f["warp"])
        with f.when(left.is_("ne", 0)):
            f.give(left + STEPS)
        with f.when(f.call(_WAKE, I32, f["gang"], f["warp"]).is_("ne", 0)):
            f.give(1 + LOOKS_WITHIN)
        warp["chosen"] = f.call(_CHOOSE, I64, f["warp"])
    f.give(0)
    return f


_LOOK_COSTS = 8
"""What a turn counts for besides its instructions when work is measured."""


def _rounds() -> Function:
    """Write `i64 rounds(gang)`: rounds of turns, from where the gang stands; why they return."""
    f = Function(ROUNDS, I64, gang=PTR)
    gang = _gang(f)
    with f.repeat():
        with f.when(gang["next"].is_("eq", gang["num_warps"])):
            gang["rounds"], gang["next"] = gang["rounds"] - 1, 0
            with f.when(gang["has_changed"].is_("eq", 0)):
                f.give(QUIET)
            with f.when(gang["has_ended"].is_("ne", 0) | gang["rounds"].is_("eq", 0)):
                f.give(ENDED)
            gang["has_changed"] = 0
        with f.when(gang["is_within"].is_("eq", 0)):
            with f.when(gang["executed"].is_("sgt", gang["room"])):
                f.give(SHORT)
            with f.when(gang["work"].is_("sle", 0)):
                f.give(PAUSED)
        warp = Record(f, f.load(PTR, gang.pointer("warps"), gang["next"]), WARP)
        why = f.call(_TURN, I32, f["gang"], warp.base)
        with f.when(why.is_("ne", 0)):
            f.give((why - 1).zext(I64))
        spent = gang["turn"] - f.load(I64, warp.pointer("context"), CONTEXT["fuel"])
        gang["executed"], gang["work"] = gang["executed"] + spent, gang["work"] - spent - _LOOK_COSTS
        gang["is_within"], gang["next"] = 0, gang["next"] + 1
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions of turns."""
    assert LEFT < MISSED < GOES_ON < JUMPED  # those that `_run` hands back come first
    parts = (_merge, _choose, _wake, _count, _enter, _drive, _run, _is_met, _follow, _divide, _settle)
    return tuple(part() for part in (*parts, _may_exit, _exit, _turn, _rounds))
