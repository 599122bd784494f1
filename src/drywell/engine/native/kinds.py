"""What clusters do, natively: a running digest per cluster, and a log of the global memory they touch.

A *state*, one per cluster, holds the digest, two words that every instruction told is mixed into, and where
the tables and the log lie. Addresses in global memory go into digests by array, relative to the first one
that the cluster used there (its *anchor*), so clusters that do the same elsewhere have equal digests. What
cannot be put so raises a flag of the state: the launch is then judged whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import LANES
from drywell.engine.native.ir import I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import block_of
from drywell.engine.native.tma import plan_at
from drywell.engine.native.tma_plan import field
from drywell.engine.told import IS_UNNOTED, IS_WRITE, MAY_BE_GLOBAL
from drywell.machine.windows import GLOBAL_BASE

STATE = {
    name: k
    for k, name in enumerate(
        (
            "first",
            "second",
            "flags",
            "cluster",
            "log",
            "context",
            "numbers",
            "starts",
            "ends",
            "anchors",
            "arrays",
        )
    )
}
"""The words of a state: the digest; what is wrong (`STRANGE`, `FULL`); the cluster's number; the log; a
context with the window of global memory; the number of the array in each granule of it (0: none), and by
number where arrays begin and end, the cluster's anchors (0: none) and its digests."""

STRANGE, FULL = 1, 2
"""Flags: an access that cannot be put relative to an array; the log has no room."""

COUNT, CAPACITY, ENTRIES = 0, 1, 2
"""The log: how many entries it has and can have, then the entries, of `ENTRY` words."""
ENTRY = 5
"""Of an entry: cluster << 2 | is a box << 1 | is written; then the bytes from one address to another, or a
map's address and its five coordinates of 32 bits."""

SAY, LANES32, LANES64, ACCESS, BOX = (
    f"drywell.native.kinds.{name}" for name in ("say", "lanes32", "lanes64", "access", "box")
)
_WALK, _NOTE = (f"drywell.native.kinds.{name}" for name in ("walk", "note"))
_ODD = 0x9E37_79B9_7F4A_7C15
_ODDS = (0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB, 0xD6E8_FEB8_6659_FD93, 0xFF51_AFD7_ED55_8CCD)
_VECTOR = f"<{LANES} x i64>"
_BITS = f"<{LANES} x i1>"


def factors() -> tuple[int, ...]:
    """Return the odd 64-bit number that each lane's value is multiplied by."""
    out, word = [], 1
    for _ in range(LANES):
        word = (word * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((word ^ word >> 29) | 1)
    return tuple(out)


def folded(f: Function, word: Value, value: Value) -> Value:
    """Mix a value into a word."""
    mixed = (word ^ value) * _ODD
    return mixed ^ mixed >> 32


def _flag(f: Function, bits: int) -> None:
    flags = f.load(I64, f["state"], STATE["flags"])
    f.store(flags | bits, f["state"], STATE["flags"])


def _say_function() -> Function:
    """Write `void say(state, warp, place, word)`: mix what some lanes did at a place into the digest; `place`
    is that of the code << 32 | the lanes. What no lane did is not told.
    """
    f = Function(SAY, "void", state=PTR, warp=I64, place=I64, word=I64)
    with f.when(f["place"].trunc(I32).is_("eq", 0)):
        f.give()
    place, word = f["place"] ^ f["warp"], f["word"]
    for name, (one, two) in (("first", _ODDS[:2]), ("second", _ODDS[2:])):
        before = f.load(I64, f["state"], STATE[name])
        mixed = (before ^ place) * one
        mixed = ((mixed ^ mixed >> 32) + word) * two
        f.store(mixed ^ mixed >> 29, f["state"], STATE[name])
    f.give()
    return f


# -------------------------------------------------------------------- vectors of lanes
def _bits(f: Function, mask: Value) -> Value:
    return mask.bitcast(_BITS)


def _sum(f: Function, values: Value, mask: Value) -> Value:
    """Return the sum of the active lanes' values times their factors."""
    numbers = ", ".join(f"i64 {n}" for n in factors())
    product = f.let(_VECTOR, f"mul {_VECTOR} {values.text}, <{numbers}>")
    kept = f"select {_BITS} {_bits(f, mask).text}, {_VECTOR} {product.text}, {_VECTOR} zeroinitializer"
    return f.intrinsic("vector.reduce.add.v32i64", I64, f.let(_VECTOR, kept))


def _all_active(f: Function, relation: str, values: Value, bound: Value, mask: Value) -> Value:
    """Return whether a relation to a vector holds in all active lanes."""
    holds = f.let(_BITS, f"icmp {relation} {_VECTOR} {values.text}, {bound.text}").bitcast(I32)
    return (mask & (holds ^ -1)).is_("eq", 0)


def _lanes_function(name: str, width: int) -> Function:
    """Write `i64 lanes(values, mask)`: one word for the active lanes' values."""
    f = Function(name, I64, values=PTR, mask=I32)
    kind, mask = f"i{width}", f["mask"]
    with f.when((mask & mask - 1).is_("eq", 0) & mask.is_("ne", 0)):
        lane = f.lowest_bit(mask).zext(I64)
        table = f.slot(_VECTOR)
        f.store(_constant(f, factors()), table)
        f.give(f.load(kind, f["values"], lane).zext(I64) * f.load(I64, table, lane))
    values = f.load(f"<{LANES} x {kind}>", f["values"], align=width // 8)
    f.give(_sum(f, values if width == 64 else values.zext(_VECTOR), mask))
    return f


def _constant(f: Function, numbers: Sequence[int]) -> Value:
    return Value(f, "<" + ", ".join(f"i64 {n}" for n in numbers) + ">", _VECTOR)


# -------------------------------------------------------------------- the log
def _note_function() -> Function:
    """Write `void note(state, kind, a, b, c, d)`: add an entry to the log, unless the last one is the same
    or bytes that end where these begin.
    """
    f = Function(_NOTE, "void", state=PTR, kind=I64, a=I64, b=I64, c=I64, d=I64, is_internal=True)
    log = f.load(PTR, f["state"], STATE["log"])
    count = f.load(I64, log, COUNT)
    head = f.load(I64, f["state"], STATE["cluster"]) << 2 | f["kind"]
    with f.when(count.is_("ne", 0)):
        last = f.at(log, (count - 1) * ENTRY + ENTRIES, I64)
        start, end = f.load(I64, last, 1), f.load(I64, last, 2)
        with f.when(f.load(I64, last).is_("eq", head) & f["kind"].is_("ult", 2)):
            with f.when(start.is_("eq", f["a"]) & end.is_("eq", f["b"])):
                f.give()
            with f.when(end.is_("eq", f["a"])):
                f.store(f["b"], last, 2)
                f.give()
    with f.when(count.is_("uge", f.load(I64, log, CAPACITY))):
        _flag(f, FULL)
        f.give()
    entry = f.at(log, count * ENTRY + ENTRIES, I64)
    for k, value in enumerate((head, f["a"], f["b"], f["c"], f["d"])):
        f.store(value, entry, k)
    f.store(count + 1, log, COUNT)
    f.give()
    return f


def _note_bytes(f: Function, start: Value, end: Value) -> None:
    zero = f.of(I64, 0)
    f.call(_NOTE, "void", f["state"], f["how"] & IS_WRITE, start, end, zero, zero)


# -------------------------------------------------------------------- accesses
def _access_function() -> Function:
    """Write `void access(state, warp, place, addresses, mask, size, how)`: tell that lanes accessed `size`
    bytes each at 64-bit addresses.
    """
    f = Function(
        ACCESS, "void", state=PTR, warp=I64, place=I64, addresses=PTR, mask=I32, size=I64, how=I64
    )  # fmt: skip
    mask = f["mask"]
    place = f["place"] | mask.zext(I64)
    with f.when(mask.is_("eq", 0)):
        f.give()
    first = f.load(I64, f["addresses"], f.lowest_bit(mask).zext(I64))
    values = f.load(_VECTOR, f["addresses"], align=8)
    number = f.variable(I64, 0)
    context = f.load(PTR, f["state"], STATE["context"])
    high = f.load(I64, context, CONTEXT["global_high"])
    offset = first - GLOBAL_BASE
    with f.when((f["how"] & MAY_BE_GLOBAL).is_("ne", 0) & offset.is_("ult", high)):
        number.set(_number(f, offset))
    with f.when(number.value.is_("eq", 0)):
        _raw(f, place, values, high)
        f.give()
    _relative(f, place, first, values, number.value)
    f.give()
    return f


def _say(f: Function, place: Value, word: Value) -> None:
    f.call(SAY, "void", f["state"], f["warp"], place, word)


def _number(f: Function, offset: Value) -> Value:
    """Return the number of the array at an offset of global memory."""
    return f.load(I64, f.load(PTR, f["state"], STATE["numbers"]), offset >> 9)


def _raw(f: Function, place: Value, values: Value, high: Value) -> None:
    """Tell addresses that are the same in every cluster: of shared memory, or a lane's own."""
    with f.when((f["how"] & MAY_BE_GLOBAL).is_("ne", 0)):
        offsets = f.let(_VECTOR, f"sub {_VECTOR} {values.text}, splat (i64 {GLOBAL_BASE})")
        is_apart = _all_active(f, "uge", offsets, f.splat(I64, LANES, high), f["mask"])
        with f.when(is_apart.is_("eq", 0)):
            _flag(f, STRANGE)
    _say(f, place, _sum(f, values, f["mask"]))


def _relative(f: Function, place: Value, first: Value, values: Value, number: Value) -> None:
    """Tell addresses in one array of global memory, and note the bytes."""
    mask, size = f["mask"], f["size"]
    start = f.load(I64, f.load(PTR, f["state"], STATE["starts"]), number)
    end = f.load(I64, f.load(PTR, f["state"], STATE["ends"]), number)
    from_start = f.let(_VECTOR, f"sub {_VECTOR} {values.text}, {f.splat(I64, LANES, start).text}")
    is_in_it = _all_active(f, "ult", from_start, f.splat(I64, LANES, end - start), mask)
    with f.when(is_in_it.is_("eq", 0)):
        _flag(f, STRANGE)
    deltas = f.let(_VECTOR, f"sub {_VECTOR} {values.text}, {f.splat(I64, LANES, first).text}")
    word = folded(f, _sum(f, deltas, mask), _from_anchor(f, number, first))
    _say(f, place, number)
    _say_of_array(f, number, folded(f, word, size))
    with f.when((f["how"] & IS_UNNOTED).is_("ne", 0)):
        f.give()
    lane = f.lowest_bit(mask)
    ones, back = mask >> lane, f.splat(I64, LANES, size * lane.zext(I64))
    sizes, lanes = f.splat(I64, LANES, size), _constant(f, range(LANES))
    whole = f.let(_VECTOR, f"mul {_VECTOR} {sizes.text}, {lanes.text}")
    row = f.let(_VECTOR, f"sub {_VECTOR} {whole.text}, {back.text}")
    with f.when(_all_active(f, "eq", deltas, row, mask) & (ones & ones + 1).is_("eq", 0)):
        _note_bytes(f, first, first + size * f.intrinsic("ctpop.i32", I32, mask).zext(I64))
        f.give()
    with f.when(_all_active(f, "eq", deltas, f.splat(I64, LANES, 0), mask)):
        _note_bytes(f, first, first + size)
        f.give()
    with f.each_bit(mask) as lane:
        own = f.load(I64, f["addresses"], lane)
        _note_bytes(f, own, own + size)


def _say_of_array(f: Function, number: Value, word: Value) -> None:
    """Mix a word into the digest of the addresses in an array; in which order, the cluster's digest tells."""
    arrays = f.load(PTR, f["state"], STATE["arrays"])
    f.store(folded(f, f.load(I64, arrays, number), word), arrays, number)


def _from_anchor(f: Function, number: Value, address: Value) -> Value:
    """Return an address of an array as seen from the cluster's anchor in it, which it may become."""
    anchors = f.load(PTR, f["state"], STATE["anchors"])
    anchor = f.variable(I64, f.load(I64, anchors, number))
    with f.when(anchor.value.is_("eq", 0)):
        f.store(address, anchors, number)
        anchor.set(address)
    return folded(f, number, address - anchor.value)


# -------------------------------------------------------------------- boxes
NUM_COORDS, _NUM_MAP_WORDS = 5, 8
_COORDS = {f"c{k}": I32 for k in range(NUM_COORDS)}


def _box_function() -> Function:
    """Write `void box(state, warp, place, map, rank, c0..c4, mask, how)`: tell that a box was copied."""
    head = {"state": PTR, "warp": I64, "place": I64, "map": I64, "rank": I64}
    f = Function(BOX, "void", head | _COORDS, mask=I32, how=I64)
    coords = [f[name] for name in _COORDS]
    context = f.load(PTR, f["state"], STATE["context"])
    given = (f["state"], context, f["map"], f["rank"], *coords)
    word = f.variable(I64, 0)
    is_told = f.call(_WALK, I32, *given, word.place)
    with f.when(is_told.is_("eq", 0)):
        _flag(f, STRANGE)
    _say(f, f["place"] | f["mask"].zext(I64), word.value)
    pairs = [coords[k].zext(I64) | coords[k + 1].zext(I64) << 32 for k in (0, 2)]
    kind = (f["how"] & IS_WRITE) | 2
    f.call(_NOTE, "void", f["state"], kind, f["map"], *pairs, coords[4].zext(I64))
    f.give()
    return f


def _walk_function() -> Function:
    """Write `i32 walk(state, context, map, rank, c0..c4, word)`: put into `word` which map it is, and tell of
    its array where the box lies from the anchor, and where it is cut off; 0 when the map cannot be followed.
    """
    head = {"state": PTR, "context": PTR, "map": I64, "rank": I64}
    f = Function(_WALK, I32, head | _COORDS, is_internal=True, word=PTR)
    coords = [f[name].sext(I64) for name in _COORDS]
    plan = plan_at(f, block_of(f), f["map"], f["rank"])
    address = field(f, plan, "address")
    offset, high = address - GLOBAL_BASE, f.load(I64, f["context"], CONTEXT["global_high"])
    f.need(offset.is_("ult", high))
    number = _number(f, offset)
    f.need(number.is_("ne", 0))
    origin = f.variable(I64, address + (coords[0] * field(f, plan, "bits")).sar(3))
    for k in range(1, NUM_COORDS):
        origin.add(coords[k] * field(f, plan, f"stride{k}"))
    word = number
    for k in range(_NUM_MAP_WORDS):
        word = folded(f, word, field(f, plan, f"map{k}"))
    f.store(word, f["word"])
    word = _from_anchor(f, number, origin.value)
    for k, coord in enumerate(coords):
        count = field(f, plan, f"count{k}") if k else field(f, plan, "box")
        step = field(f, plan, f"step{k}") if k else f.of(I64, 1)
        last = coord + (count - 1) * step
        is_whole = coord.is_("sge", 0) & last.is_("slt", field(f, plan, f"dim{k}"))
        word = folded(f, word, f.choose(is_whole, f.of(I64, 0), coord | 1 << 40))
    _say_of_array(f, number, word)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions by which clusters are told apart."""
    lanes = (_lanes_function(LANES32, 32), _lanes_function(LANES64, 64))
    return _say_function(), *lanes, _note_function(), _access_function(), _walk_function(), _box_function()
