"""What the lanes of a warp do together, natively: when the lanes that execute it are those of the membermask.

Each such meeting counts as a change of shared state; a split that has to wait for others does not. Shuffles
by constants are shuffles of vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drywell.engine.context_words import word
from drywell.engine.llvm_text import LANES, Lanes, vector
from drywell.engine.native.ir import I8, I32, I64, PTR, Function
from drywell.engine.native.table import ALWAYS, Emit, Native, Unit, form, lanes_at, note_change
from drywell.isa.warp import source_lane
from drywell.program import operands as ops

_NUMBERS = ", ".join(f"i32 {k}" for k in range(LANES))
_W = vector(32)


def splat(unit: Unit, text: str, width: int = 32) -> Lanes:
    """Return a value that is the same in all lanes."""
    w, kind = unit.w, vector(width)
    one = w.let(f"insertelement {kind} poison, i{width} {text}, i64 0")
    return Lanes(w.let(f"shufflevector {kind} {one}, {kind} poison, <32 x i32> zeroinitializer"), width)


def _sources(unit: Unit, instruction: ops.Bound) -> list[Any]:
    pairs = zip(instruction.sources, instruction.source_types, strict=True)
    return [unit.read(operand, op) for operand, op in pairs]


def _met(unit: Unit, instruction: ops.Bound, membermask: Lanes) -> str:
    """Return whether each lane that executes it names just those lanes, and note the change that this is."""
    last = instruction.sources[-1]
    if unit.mask == "-1" and isinstance(last, ops.Immediate) and last.bits & 0xFFFF_FFFF == 0xFFFF_FFFF:
        note_change(unit)
        return ALWAYS
    w = unit.w
    differ = w.let(f"icmp ne {_W} {membermask.text}, {splat(unit, unit.mask).text}")
    wrong = w.let(f"and i32 {w.let(f'bitcast {vector(1)} {differ} to i32')}, {unit.mask}")
    done = w.let(f"icmp eq i32 {wrong}, 0")
    note_change(unit, done)
    return done


def _reduced(unit: Unit, name: str, text: str, neutral: int) -> str:
    """Return the reduction of 32-bit values over the lanes that execute it; `neutral` changes nothing."""
    w = unit.w
    lanes = w.let(f"bitcast i32 {unit.mask} to {vector(1)}")
    held = w.let(f"select {vector(1)} {lanes}, {_W} {text}, {_W} splat (i32 {neutral})")
    return w.intrinsic(f"vector.reduce.{name}.v32i32", "i32", (_W, held))


@form("elect_sync")
def _elect(instruction: ops.Bound) -> Emit:
    return _emit_elect


def _emit_elect(unit: Unit, instruction: ops.Bound) -> Native:
    """Write `isa.warp.elected`: the lanes that are there are those of the membermask."""
    w = unit.w
    done = _met(unit, instruction, *_sources(unit, instruction))
    election = w.let(f"load i64, ptr {w.let(word('election'))}")
    mask, factor = w.let(f"zext i32 {unit.mask} to i64"), w.let(f"lshr i64 {election}, 32")
    total = w.let(f"add i64 {w.let(f'mul i64 {factor}, {mask}')}, {election}")
    bits = w.let(f"trunc i64 {w.let(f'lshr i64 {total}, 27')} to i32")
    flipped = w.let(f"and i32 {bits}, 31")
    order = w.let(f"xor {_W} {splat(unit, flipped).text}, <{_NUMBERS}>")
    first = _reduced(unit, "umin", order, LANES)
    leader = splat(unit, w.let(f"xor i32 {first}, {flipped}"))
    is_leader = Lanes(w.let(f"icmp eq {_W} {leader.text}, <{_NUMBERS}>"), 1)
    return Native(done, (leader, is_leader))


@form("activemask")
def _activemask(instruction: ops.Bound) -> Emit:
    return lambda unit, bound: Native(ALWAYS, (splat(unit, unit.mask),))


# -------------------------------------------------------------------- votes


def _bits(unit: Unit, value: Lanes) -> str:
    whole = unit.w.let(f"bitcast {vector(1)} {value.text} to i32")
    return unit.w.let(f"and i32 {whole}, {unit.mask}")


_DECIDE: dict[str, Callable[[Unit, str], str]] = {
    "all": lambda unit, bits: unit.w.let(f"icmp eq i32 {bits}, {unit.mask}"),
    "any": lambda unit, bits: unit.w.let(f"icmp ne i32 {bits}, 0"),
    "uni": lambda unit, bits: unit.w.let(
        f"or i1 {_DECIDE['all'](unit, bits)}, {unit.w.let(f'icmp eq i32 {bits}, 0')}"
    ),
}


@form("vote_sync")
def _vote(instruction: ops.Bound) -> Emit:
    return _emit_vote


def _emit_vote(unit: Unit, instruction: ops.Bound) -> Native:
    value, membermask = _sources(unit, instruction)
    done = _met(unit, instruction, membermask)
    decided = _DECIDE[str(instruction.mods["mode"])](unit, _bits(unit, value))
    return Native(done, (splat(unit, decided, 1),))


@form("vote_sync_ballot")
def _ballot(instruction: ops.Bound) -> Emit:
    return _emit_ballot


def _emit_ballot(unit: Unit, instruction: ops.Bound) -> Native:
    value, membermask = _sources(unit, instruction)
    return Native(_met(unit, instruction, membermask), (splat(unit, _bits(unit, value)),))


# -------------------------------------------------------------------- reductions

_REDUCTIONS = {
    ("add", "u32"): ("add", 0),
    ("add", "s32"): ("add", 0),
    ("and", "b32"): ("and", 0xFFFF_FFFF),
    ("or", "b32"): ("or", 0),
    ("xor", "b32"): ("xor", 0),
    ("min", "u32"): ("umin", 0xFFFF_FFFF),
    ("max", "u32"): ("umax", 0),
    ("min", "s32"): ("smin", 0x7FFF_FFFF),
    ("max", "s32"): ("smax", 0x8000_0000),
}
"""From operation and type to LLVM's reduction and what changes nothing in it."""


@form("redux_sync")
def _redux(instruction: ops.Bound) -> Emit:
    return _emit_redux


def _emit_redux(unit: Unit, instruction: ops.Bound) -> Native:
    value, membermask = _sources(unit, instruction)
    done = _met(unit, instruction, membermask)
    name, neutral = _REDUCTIONS[str(instruction.mods["op"]), str(instruction.mods["type"])]
    return Native(done, (splat(unit, _reduced(unit, name, value.text, neutral)),))


_REDUX_F32 = "drywell.native.warp.redux_f32"

#: f32: magnitude, the size of an infinity, the NaN that arithmetic gives.
_MAGNITUDE, _INFINITY, _NAN = 0x7FFF_FFFF, 0x7F80_0000, 0x7FFF_FFFF


def _redux_f32_function() -> Function:
    """Write `i32 f(mask, values, is_max, keeps_nan)`: the smallest or largest f32, -0 below +0, NaNs last.

    Numbers are compared as integers: of negative ones the magnitude bits are flipped over.
    """
    f = Function(_REDUX_F32, I32, mask=I32, values=PTR, is_max=I64, keeps_nan=I64)
    is_max, num_nans = f["is_max"].is_("ne", 0), f.variable(I32, 0)
    least = f.choose(is_max, f.of(I32, -(1 << 31)), (1 << 31) - 1)
    best = f.variable(I32, least)
    with f.each_bit(f["mask"]) as lane:
        word = f.load(I32, f["values"], lane)
        is_nan = (word & _MAGNITUDE).is_("ugt", _INFINITY)
        key = word ^ (word.sar(31) & _MAGNITUDE)
        chosen = f.choose(is_max, best.value.smax(key), best.value.smin(key))
        best.set(f.choose(is_nan, best.value, chosen))
        num_nans.add(is_nan.zext(I32))
    count = f.intrinsic("ctpop.i32", I32, f["mask"])
    most = f.choose(f["keeps_nan"].is_("ne", 0), f.of(I32, 1), count)
    key = best.value
    f.give(f.choose(num_nans.value.is_("uge", most), f.of(I32, _NAN), key ^ (key.sar(31) & _MAGNITUDE)))
    return f


@form("redux_sync_f32")
def _redux_f32(instruction: ops.Bound) -> Emit:
    return _emit_redux_f32


def _emit_redux_f32(unit: Unit, instruction: ops.Bound) -> Native:
    w, mods, (value, membermask) = unit.w, instruction.mods, _sources(unit, instruction)
    done = _met(unit, instruction, membermask)
    if mods["abs"]:
        value = Lanes(w.let(f"and {_W} {value.text}, splat (i32 {_MAGNITUDE})"), 32)
    _, values = lanes_at(unit, "reduced", value)
    w.module.declare(_REDUX_F32, f"declare i32 @{_REDUX_F32}(i32, ptr, i64, i64)")
    how = f"i64 {int(mods['op'] == 'max')}, i64 {int(bool(mods['NaN']))}"
    result = w.let(f"call i32 @{_REDUX_F32}(i32 {unit.mask}, ptr {values}, {how})")
    return Native(done, (splat(unit, result),))


# -------------------------------------------------------------------- shuffles


@form("shfl_sync")
def _shuffle(instruction: ops.Bound) -> Emit:
    step, limits = instruction.sources[1:3]
    is_constant = isinstance(step, ops.Immediate) and isinstance(limits, ops.Immediate)
    return _emit_constant_shuffle if is_constant else _emit_shuffle


def _emit_constant_shuffle(unit: Unit, instruction: ops.Bound) -> Native:
    w, (value, _, _, membermask) = unit.w, _sources(unit, instruction)
    step, limits = (o.bits for o in instruction.sources[1:3] if isinstance(o, ops.Immediate))
    mode = str(instruction.mods["mode"])
    found = [source_lane(mode, lane, step, limits) for lane in range(LANES)]
    order = ", ".join(f"i32 {lane}" for lane, _ in found)
    taken = w.let(f"shufflevector {_W} {value.text}, {_W} poison, <32 x i32> <{order}>")
    is_in_range = ", ".join(f"i1 {str(is_in).lower()}" for _, is_in in found)
    done = _met(unit, instruction, membermask)
    return Native(done, (Lanes(taken, 32), Lanes(f"<{is_in_range}>", 1)))


def _emit_shuffle(unit: Unit, instruction: ops.Bound) -> Native:
    w, (value, step, limits, membermask) = unit.w, _sources(unit, instruction)
    result = lanes_at(unit, "shuffled", Lanes("zeroinitializer", 32))
    mode = _MODES.index(str(instruction.mods["mode"]))
    slots = [lanes_at(unit, f"shuffle {k}", v) for k, v in enumerate((value, step, limits))]
    given = ", ".join(f"ptr {place}" for _, place in (*slots, result))
    w.module.declare(_SHUFFLE, f"declare i32 @{_SHUFFLE}(i64, ptr, ptr, ptr, ptr)")
    bits = w.let(f"call i32 @{_SHUFFLE}(i64 {mode}, {given})")
    is_in_range = Lanes(w.let(f"bitcast i32 {bits} to {vector(1)}"), 1)
    taken = Lanes(w.let(f"load {_W}, ptr {result[1]}"), 32)
    return Native(_met(unit, instruction, membermask), (taken, is_in_range))


_MODES = ("up", "down", "bfly", "idx")
_SHUFFLE = "drywell.native.warp.shuffle"


def _shuffle_function() -> Function:
    """Write `i32 f(mode, values, steps, limits, results)`: 32-bit lanes; which lanes were in range."""
    f = Function(_SHUFFLE, I32, mode=I64, values=PTR, steps=PTR, limits=PTR, results=PTR)
    mode, in_range = f["mode"], f.variable(I32, 0)
    with f.loop(LANES) as lane64:
        lane = lane64.trunc(I32)
        step, limits = f.load(I32, f["steps"], lane64) & 31, f.load(I32, f["limits"], lane64)
        segment = limits >> 8 & 31
        low, outside = lane & segment, segment ^ 31
        highest = low | (limits & outside)
        target = f.choose(mode.is_("eq", 0), lane - step, lane + step)
        target = f.choose(mode.is_("eq", 2), lane ^ step, target)
        target = f.choose(mode.is_("eq", 3), low | (step & outside), target)
        is_in = f.choose(mode.is_("eq", 0), target.is_("sge", highest), target.is_("sle", highest))
        source = f.choose(is_in, target, lane)
        f.store(f.load(I32, f["values"], source.zext(I64)), f["results"], lane64)
        in_range.set(in_range.value | is_in.zext(I32) << lane)
    f.give(in_range.value)
    return f


# -------------------------------------------------------------------- matches

_MATCH = "drywell.native.warp.match"


def _match_function() -> Function:
    """Write `i32 f(mask, values, results)`: for each lane of the mask those that hold its 64-bit value; 1
    when all do.
    """
    f = Function(_MATCH, I32, mask=I32, values=PTR, results=PTR)
    is_one = f.variable(I8, 1)
    all_values = f.load("<32 x i64>", f["values"])
    with f.each_bit(f["mask"]) as lane:
        own = f.load(I64, f["values"], lane)
        differs = all_values.differ(f.splat(I64, LANES, own)).bitcast(I32)
        same = (differs ^ -1) & f["mask"]
        f.store(same, f["results"], lane)
        is_one.set(f.choose(same.is_("eq", f["mask"]), is_one.value, 0))
    f.give(is_one.value.zext(I32))
    return f


@form("match_any_sync", "match_all_sync")
def _match(instruction: ops.Bound) -> Emit:
    return _emit_match


def _emit_match(unit: Unit, instruction: ops.Bound) -> Native:
    w, (value, membermask) = unit.w, _sources(unit, instruction)
    if value.width == 32:
        value = Lanes(w.let(f"zext {_W} {value.text} to {vector(64)}"), 64)
    _, values = lanes_at(unit, "matched", value)
    _, results = lanes_at(unit, "matches", Lanes("zeroinitializer", 32))
    w.module.declare(_MATCH, f"declare i32 @{_MATCH}(i32, ptr, ptr)")
    is_one = w.let(f"call i32 @{_MATCH}(i32 {unit.mask}, ptr {values}, ptr {results})")
    done = _met(unit, instruction, membermask)
    if instruction.declaration.name == "match_any_sync":
        return Native(done, (Lanes(w.let(f"load {_W}, ptr {results}"), 32),))
    same = w.let(f"icmp ne i32 {is_one}, 0")
    found = w.let(f"select i1 {same}, i32 {unit.mask}, i32 0")
    return Native(done, (splat(unit, found), splat(unit, same, 1)))


def functions() -> tuple[Function, ...]:
    """Return the functions of shuffles, matches and reductions of f32."""
    return _shuffle_function(), _match_function(), _redux_f32_function()
