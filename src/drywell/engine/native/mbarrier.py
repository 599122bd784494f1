"""mbarriers natively: the rules of `machine.mbarrier` on its flat words.

What is a fault there leaves, and so does a wait of several lanes for several things that would block. Lanes
that arrive together must name one barrier; one word is changed step by step and stored at the end, when all
have been right. The ledger's entries are not written.
"""

from __future__ import annotations

from dataclasses import dataclass

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import Lanes, vector
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function, Value, Variable
from drywell.engine.native.state import block_word, row_pointer, row_word
from drywell.engine.native.table import Emit, Native, Unit, call, call_waiting, form, lane_value, lanes_at
from drywell.engine.native.turn_words import MBARRIER, MEETING
from drywell.machine.mbarrier import MAX_COUNT, WORD_BYTES
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.windows import OFFSET_MASK, RANK_SHIFT, SHARED_BASE
from drywell.program import operands as ops

_M20 = MAX_COUNT
_M21 = 2 * MAX_COUNT + 1


@dataclass(frozen=True, slots=True)
class Place:
    """A live mbarrier: the row of its CTA, its slot, its word's address."""

    row: Value
    slot: Value
    word: Value


@dataclass(frozen=True, slots=True)
class State:
    """The fields of a word, 64 bits each, `tx` signed; `phases` counts those that have ended since."""

    parity: Variable
    pending: Variable
    tx: Variable
    expected: Variable
    phases: Variable


def row_of(f: Function, block: Value, address: Value, is_cluster: Value) -> Value:
    """Return the row of the CTA that a shared-window address (64 bits) means; leave when it may not be
    reached from here.
    """
    own, rank = block_word(f, block, "row"), block_word(f, block, "rank")
    named = address >> RANK_SHIFT
    row = f.variable(I64, own)
    with f.when(named.is_("ne", rank)):
        f.need(is_cluster)
        f.need(named.is_("ult", block_word(f, block, "num_ctas")))
        other = f.load(I64, block_word(f, block, "rows").as_pointer(), named)
        is_reachable = f.load(I8, row_pointer(f, other.as_pointer(), "reachable"))
        f.need(is_reachable.is_("ne", 0))
        row.set(other)
    return row.value.as_pointer()


def place_of(f: Function, block: Value, address: Value, is_cluster: Value) -> Place:
    """Return the live mbarrier at a shared-window address; leave when there is none."""
    place = _any_place(f, block, address, is_cluster)
    f.need(f.load(I8, row_pointer(f, place.row, "live"), place.slot).is_("ne", 0))
    return place


def _any_place(f: Function, block: Value, address: Value, is_cluster: Value) -> Place:
    """Return where an mbarrier is or may be; leave for an address where none can."""
    row = row_of(f, block, address, is_cluster)
    offset = address & OFFSET_MASK
    f.need((offset & (WORD_BYTES - 1)).is_("eq", 0))
    f.need(offset.is_("uge", RESERVED_BYTES))
    f.need((offset + WORD_BYTES).is_("ule", row_word(f, row, "end")))
    slot = offset >> 3
    return Place(row, slot, f.at(row_pointer(f, row, "words"), slot, I64))


def decoded(f: Function, bits: Value) -> State:
    """Return the fields of a word."""
    signed = ((-(bits >> 21) & _M21) << 43).sar(43)
    fields = (bits >> 63, -(bits >> 43) & _M20, signed, -(bits >> 1) & _M20)
    parity, pending, tx, expected = (f.variable(I64, field) for field in fields)
    return State(parity, pending, tx, expected, f.variable(I32, 0))


def encoded(state: State) -> Value:
    """Return the word of its fields."""
    pending = (-state.pending.value & _M20) << 43
    tx = (-state.tx.value & _M21) << 21
    expected = (-state.expected.value & _M20) << 1
    return state.parity.value << 63 | pending | tx | expected


def change(f: Function, state: State, arrive: Value | int, tx: Value | int, drop: Value | int) -> None:
    """Drop, count bytes, arrive, and end the phase when it is complete; leave when that would be a fault."""
    total = state.tx.value + tx
    f.need((total + MAX_COUNT).is_("ule", 2 * MAX_COUNT))
    before = state.pending.value
    pending = before - arrive
    f.need(pending.is_("ule", MAX_COUNT))
    expected = state.expected.value
    f.need(expected.is_("uge", drop))
    left = expected - drop
    is_over = (pending | total).is_("eq", 0)
    state.expected.set(left)
    state.pending.set(f.choose(is_over, left, pending))
    state.tx.set(total)
    state.parity.set(state.parity.value ^ is_over.zext(I64))
    state.phases.set(state.phases.value + is_over.zext(I32))


def put(f: Function, place: Place, state: State) -> None:
    """Store a state that a place has come to."""
    f.store(encoded(state), place.word)
    phase = f.at(row_pointer(f, place.row, "phases"), place.slot, I32)
    f.store(f.load(I32, phase) + state.phases.value, phase)
    changed(f)


def changed(f: Function) -> None:
    """Note that the state that warps share has changed."""
    f.store(f.of(I64, 1), f["context"], CONTEXT["changed"])


def block_of(f: Function) -> Value:
    """Return the warp's block."""
    return f.load(PTR, f["context"], CONTEXT["machine"])


def first_lane(f: Function) -> Value:
    """Return the lowest lane of the mask, 64 bits."""
    return f.lowest_bit(f["mask"]).zext(I64)


def others(f: Function, values: Value, first: Value) -> Value:
    """Return the lanes of the mask whose value in an array is not `first`, in 32 bits."""
    kind = f"<32 x {first.type}>"
    all_values = f.load(kind, values)
    differs = all_values.differ(f.splat(first.type, 32, first))
    return differs.bitcast(I32) & f["mask"]


# -------------------------------------------------------------------- life

_INIT, _INVAL = "drywell.native.mbarrier.init", "drywell.native.mbarrier.inval"


def _init_function() -> Function:
    f = Function(_INIT, I32, context=PTR, mask=I32, address=I64, count=I64)
    f.need((f["mask"] & f["mask"] - 1).is_("eq", 0))
    count = f["count"]
    f.need((count - 1).is_("ult", MAX_COUNT))
    place = _any_place(f, block_of(f), f["address"], f.of(I1, 0))
    f.store((-count & _M20) << 43 | (-count & _M20) << 1, place.word)
    f.store(f.of(I8, 1), row_pointer(f, place.row, "live"), place.slot)
    f.store(f.of(I32, 0), row_pointer(f, place.row, "phases"), place.slot)
    changed(f)
    f.give(1)
    return f


def _inval_function() -> Function:
    f = Function(_INVAL, I32, context=PTR, mask=I32, address=I64)
    f.need((f["mask"] & f["mask"] - 1).is_("eq", 0))
    place = place_of(f, block_of(f), f["address"], f.of(I1, 0))
    f.store(f.load(I64, place.word), row_pointer(f, place.row, "data"), place.slot)
    f.store(f.of(I8, 0), row_pointer(f, place.row, "live"), place.slot)
    changed(f)
    f.give(1)
    return f


# -------------------------------------------------------------------- arrivals


@dataclass(frozen=True, slots=True)
class Arrival:
    """What an operation does with its operand, a count or bytes: how many times it arrives, counts bytes and
    drops, and what it arrives and drops besides. `is_open` says that the phase must not end.
    """

    is_count: bool
    arrive: tuple[int, int] = (0, 0)
    tx: int = 0
    drop: tuple[int, int] = (0, 0)
    is_open: bool = False


ARRIVALS = {
    "mbarrier_arrive": Arrival(True, arrive=(1, 0)),
    "mbarrier_arrive_no_complete": Arrival(True, arrive=(1, 0), is_open=True),
    "mbarrier_arrive_expect_tx": Arrival(False, arrive=(0, 1), tx=1),
    "mbarrier_arrive_drop": Arrival(True, arrive=(1, 0), drop=(1, 0)),
    "mbarrier_arrive_drop_no_complete": Arrival(True, arrive=(1, 0), drop=(1, 0), is_open=True),
    "mbarrier_arrive_drop_expect_tx": Arrival(False, arrive=(0, 1), tx=1, drop=(0, 1)),
    "mbarrier_expect_tx": Arrival(False, tx=1),
    "mbarrier_complete_tx": Arrival(False, tx=-1),
}
"""The operations, by declaration."""

_ARRIVE = "drywell.native.mbarrier.arrive"
_FLAGS = ("is_cluster", "is_count", "is_open", "arrive_by", "arrive", "tx_by", "drop_by", "drop")


def _arrival() -> Function:
    """Write `i32 f(context, mask, addresses, amounts, states, ...)`: arrays of 64-bit values; the rest says
    which operation it is.
    """
    flags = dict.fromkeys(_FLAGS, I64)
    pointers = {"context": PTR, "mask": I32, "addresses": PTR, "amounts": PTR, "states": PTR}
    f = Function(_ARRIVE, I32, pointers | flags)
    address = f.load(I64, f["addresses"], first_lane(f))
    f.need(others(f, f["addresses"], address).is_("eq", 0))
    place = place_of(f, block_of(f), address, f["is_cluster"].is_("ne", 0))
    state = decoded(f, f.load(I64, place.word))
    is_count = f["is_count"].is_("ne", 0)
    with f.each_bit(f["mask"]) as lane:
        f.store(encoded(state) & ~0xFFFF_FFFF, f["states"], lane)
        amount = f.load(I64, f["amounts"], lane)
        least = is_count.zext(I64)
        f.need((amount - least).is_("ule", -least + MAX_COUNT))
        arrive = amount * f["arrive_by"] + f["arrive"]
        before = state.phases.value
        change(f, state, arrive, amount * f["tx_by"], amount * f["drop_by"] + f["drop"])
        f.need(f["is_open"].is_("eq", 0) | state.phases.value.is_("eq", before))
    put(f, place, state)
    f.give(1)
    return f


# -------------------------------------------------------------------- waits


def _test(is_waiting: bool) -> Function:
    """Write `i32 f(context, mask, addresses, parities, over)`: which lanes' phases are over, in 32 bits.

    With `is_waiting` it gives 2 when none is and all wait for one.
    """
    name = f"drywell.native.mbarrier.{'try' if is_waiting else 'test'}"
    f = Function(name, I32, context=PTR, mask=I32, addresses=PTR, parities=PTR, over=PTR)
    block, over = block_of(f), f.variable(I32, 0)
    first = first_lane(f)
    differing = (others(f, f[name], f.load(I64, f[name], first)) for name in ("addresses", "parities"))
    is_mixed = next(differing) | next(differing)
    todo = f.choose(is_mixed.is_("eq", 0), f["mask"] & -f["mask"], f["mask"])
    with f.each_bit(todo) as lane:
        place = place_of(f, block, f.load(I64, f["addresses"], lane), f.of(I1, 0))
        wanted = f.load(I64, f["parities"], lane) & 1
        is_over = (f.load(I64, place.word) >> 63).is_("ne", wanted)
        over.set(over.value | is_over.zext(I32) << lane.trunc(I32))
    with f.when(is_mixed.is_("eq", 0) & over.value.is_("ne", 0)):
        over.set(f["mask"])
    if is_waiting:
        with f.when(over.value.is_("eq", 0)):
            f.need(is_mixed.is_("eq", 0))
            place = place_of(f, block, f.load(I64, f["addresses"], first), f.of(I1, 0))
            live = f.at(row_pointer(f, place.row, "live"), place.slot)
            wait_for(f, MBARRIER, place.word, live, f.load(I64, f["parities"], first) & 1)
            f.give(2)
    f.store(over.value, f["over"])
    f.give(1)
    return f


def wait_for(f: Function, kind: int, place: Value, live: Value, value: Value) -> None:
    """Say what the split waits for (`turn_words.SPLIT`); leave where it may not."""
    for may in ("may_wait", "may_meet") if kind == MEETING else ("may_wait",):
        f.need(f.load(I64, f["context"], CONTEXT[may]).is_("ne", 0))
    words = {"kind": f.of(I64, kind), "place": place, "live": live, "value": value}
    for name, word in words.items():
        f.store(word, f.at(f["context"], CONTEXT[f"wait_{name}"], I64))


def functions() -> tuple[Function, ...]:
    """Return the functions of mbarriers."""
    return _init_function(), _inval_function(), _arrival(), _test(True), _test(False)


# -------------------------------------------------------------------- what a region writes


def shared_lanes(unit: Unit, operand: object, op: object, is_generic: bool) -> Lanes:
    """Return the shared-window addresses, 64 bits, that an operand gives; a generic one that is not in
    shared memory gives one that no CTA has.
    """
    w, value = unit.w, unit.read(operand, op)
    if value.width == 32:
        return Lanes(w.let(f"zext {vector(32)} {value.text} to {vector(64)}"), 64)
    if not is_generic:
        return Lanes(w.let(f"and {vector(64)} {value.text}, splat (i64 {0xFFFF_FFFF})"), 64)
    return Lanes(w.let(f"xor {vector(64)} {value.text}, splat (i64 {SHARED_BASE})"), 64)


def _wide(unit: Unit, value: Lanes | None, otherwise: int) -> Lanes:
    """Return an operand with 64 bits, a constant when it is not there."""
    if value is None:
        return Lanes(f"splat (i64 {otherwise})", 64)
    if value.width == 64:
        return value
    return Lanes(unit.w.let(f"zext {vector(value.width)} {value.text} to {vector(64)}"), 64)


@form("mbarrier_init", "mbarrier_inval")
def _life(instruction: ops.Bound) -> Emit:
    return _emit_life


def _emit_life(unit: Unit, instruction: ops.Bound) -> Native:
    address, *count = zip(instruction.sources, instruction.source_types, strict=True)
    where = shared_lanes(unit, *address, instruction.mods["space"] is None)
    numbers = [lane_value(unit, unit.read(*pair), 64) for pair in count]
    name = _INIT if instruction.declaration.name == "mbarrier_init" else _INVAL
    return Native(call(unit, name, lane_value(unit, where, 64), *numbers))


def _flags(arrival: Arrival, is_cluster: bool) -> tuple[tuple[str, str], ...]:
    numbers = (is_cluster, arrival.is_count, arrival.is_open, *arrival.arrive, arrival.tx, *arrival.drop)
    return tuple((I64, str(int(n))) for n in numbers)


@form(*ARRIVALS)
def _arrive(instruction: ops.Bound) -> Emit:
    return _emit_arrival


def _emit_arrival(unit: Unit, instruction: ops.Bound) -> Native:
    space = instruction.mods["space"]
    address, *rest = zip(instruction.sources, instruction.source_types, strict=True)
    where = shared_lanes(unit, *address, space is None)
    amount = unit.read(*rest[0]) if rest else None
    arrival, is_cluster = ARRIVALS[instruction.declaration.name], space == "shared::cluster"
    done, states = emit_arrivals(unit, where, _wide(unit, amount, 1), arrival, is_cluster)
    if not instruction.destinations:
        return Native(done)
    return Native(done, (Lanes(unit.w.let(f"load {vector(64)}, ptr {states}"), 64),))


def emit_arrivals(
    unit: Unit, addresses: Lanes, amounts: Lanes, arrival: Arrival, is_cluster: bool
) -> tuple[str, str]:
    """Write the call that arrives; return whether it was done, and the pointer to the states before."""
    states = lanes_at(unit, "states", Lanes("zeroinitializer", 64))
    where, how_much = lanes_at(unit, "address", addresses), lanes_at(unit, "amount", amounts)
    done = call(unit, _ARRIVE, where, how_much, states, *_flags(arrival, is_cluster))
    return done, states[1]


def _wait_form(is_waiting: bool, is_state: bool) -> Emit:
    def emit(unit: Unit, instruction: ops.Bound) -> Native:
        w, (address, parity) = unit.w, instruction.sources[:2]
        kinds = instruction.source_types
        where = shared_lanes(unit, address, kinds[0], instruction.mods["space"] is None)
        wanted = _wide(unit, unit.read(parity, kinds[1]), 0)
        if is_state:
            wanted = Lanes(w.let(f"lshr {vector(64)} {wanted.text}, splat (i64 63)"), 64)
        over = w.slot("native over", "i32")
        made = call_waiting(
            unit,
            f"drywell.native.mbarrier.{'try' if is_waiting else 'test'}",
            lanes_at(unit, "address", where),
            lanes_at(unit, "amount", wanted),
            ("ptr", over),
        )
        bits = w.let(f"load i32, ptr {over}")
        result = Lanes(w.let(f"bitcast i32 {bits} to {vector(1)}"), 1)
        return Native(made.done, (result,), made.waits if is_waiting else "")

    return emit


@form("mbarrier_test_wait")
def _test_wait(instruction: ops.Bound) -> Emit:
    return _wait_form(False, True)


@form("mbarrier_test_wait_parity")
def _test_wait_parity(instruction: ops.Bound) -> Emit:
    return _wait_form(False, False)


@form("mbarrier_try_wait")
def _try_wait(instruction: ops.Bound) -> Emit:
    return _wait_form(True, True)


@form("mbarrier_try_wait_parity")
def _try_wait_parity(instruction: ops.Bound) -> Emit:
    return _wait_form(True, False)
