"""Memory for the clock, natively: ports of shared memory, of L1, L2 and DRAM, and the lines of L1."""

from __future__ import annotations

from drywell.engine.native.clock_words import (
    BANK_BYTES,
    CLOCK,
    GRAIN_BYTES,
    L1,
    LINE,
    LINE_BYTES,
    LOADED,
    MEMORY,
    NUM_BANKS,
    PLACE,
    SECTOR_BYTES,
    SMEM,
    STORED,
    STORES,
    TRACK,
)
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function, Value
from drywell.engine.native.plans import SPREAD
from drywell.engine.native.turn_words import Record
from drywell.machine.lanes import LANES
from drywell.machine.windows import GLOBAL_BASE, OFFSET_MASK

WAVEFRONTS, SHARED, GLOBAL, _LINES, _FRESH, _LOOK_UP = (
    f"drywell.clock.{name}" for name in ("wavefronts", "shared", "global", "lines", "fresh", "look_up")
)

DOUBLE = "double"
ONE = 0x3FF0_0000_0000_0000
"""The bits of 1.0."""

_SECTORS, _GRAINS = LINE_BYTES // SECTOR_BYTES, LINE_BYTES // GRAIN_BYTES
_PER_GRAIN = _SECTORS // _GRAINS


def plus(a: Value, b: Value | int, operation: str = "fadd") -> Value:
    """Add two times."""
    f = a.function
    left, right = (f.of(I64, time).bitcast(DOUBLE) for time in (a, b))
    return f.let(DOUBLE, f"{operation} double {left.text}, {right.text}").bitcast(I64)


def times(a: Value, b: Value) -> Value:
    """Multiply a time."""
    return plus(a, b, "fmul")


def as_time(count: Value) -> Value:
    """Return a number as a time."""
    return count.function.let(DOUBLE, f"uitofp i64 {count.text} to double").bitcast(I64)


def clock_of(f: Function) -> Record:
    """Return the words of the clock."""
    return Record(f, f["clock"], CLOCK)


def track_of(f: Function) -> Record:
    """Return the words of the warp."""
    return Record(f, f["track"], TRACK)


def place_of(f: Function, pc: Value) -> Record:
    """Return the words of a place."""
    return Record(f, f.at(clock_of(f).pointer("places"), pc * len(PLACE), I64), PLACE)


def memory_of(f: Function) -> Record:
    """Return the words of L2 and DRAM."""
    return Record(f, clock_of(f).pointer("memory"), MEMORY)


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
    track, address = track_of(f), f.variable(I64)
    place = place_of(f, track["pc"])
    base = f.at(track.pointer("registers"), place["address"])
    with f.when(place["is_wide"].is_("ne", 0)):
        address.set(f.load(I64, base, lane))
    with f.when(place["is_wide"].is_("eq", 0)):
        address.set(f.load(I32, base, lane).zext(I64))
    return address.value + place["offset"]


def _shared() -> Function:
    """Write what puts an access on the port of shared memory; how long it queues and is served."""
    f = Function(SHARED, I64, clock=PTR, track=PTR, is_internal=True)
    clock, track = clock_of(f), track_of(f)
    place, cycles, words = place_of(f, track["pc"]), f.variable(I64, 1), f.slot(f"[{LANES} x i64]")
    with f.when(place["address"].is_("sge", 0)):
        count = f.variable(I64, 0)
        with f.each_bit(track["lanes"].trunc(I32)) as lane:
            f.store((_address(f, lane) & OFFSET_MASK) // BANK_BYTES, words, count.value)
            count.add(1)
        cycles.set(f.call(WAVEFRONTS, I64, words, count.value, place["size"]))
    port, now, served = f.at(track.pointer("ports"), SMEM, I64), clock["now"], as_time(cycles.value)
    begin = now.smax(f.load(I64, port))
    f.store(plus(begin, served), port)
    queued = plus(plus(begin, now, "fsub"), served)
    f.give(plus(queued, ONE, "fsub"))
    return f


def there_of(f: Function, place: Record) -> Value:
    """Write when the operands of an instruction are there, and it where they are wanted: now, or at the
    beginning of its block where it `moves`.
    """
    clock, track = clock_of(f), track_of(f)
    readable, registers = track.pointer("readable"), clock.pointer("registers")
    there = f.variable(I64, f.choose(place["moves"].is_("ne", 0), track["begun"], clock["now"]))
    with f.loop(place["num_sources"]) as k:
        register = f.load(I64, registers, place["sources"] + k)
        there.set(there.value.smax(f.load(I64, readable, register)))
    return there.value


# -------------------------------------------------------------------- global memory


def _line(f: Function, number: Value) -> Record:
    """Return the place of a line in L1: spread, so that arrays walked together do not meet in one."""
    lines, k = track_of(f).pointer("lines"), (number * SPREAD >> 40) % clock_of(f)["num_lines"]
    return Record(f, f.at(lines, k * len(LINE), I64), LINE)


def _ones(bits: Value) -> Value:
    return bits.function.intrinsic("ctpop.i64", I64, bits)


def _take(free: Value, issued: Value, at: Value, taken: Value) -> Value:
    """Write what takes a port, free at `free`, from `issued` on; when it serves what is there `at`."""
    f = free.function
    before = f.load(I64, free)
    f.store(plus(before.smax(issued), taken), free)
    return before.smax(at)


def _move_through(memory: Record, unit: str, sectors: Value, issued: Value, at: Value) -> Value:
    """Write what moves sectors through L2 or DRAM; when they are through."""
    taken = times(as_time(sectors), memory[f"{unit}_sector"])
    memory[f"{unit}_used"] = plus(memory[f"{unit}_used"], taken)
    return plus(_take(memory.f.at(memory.base, MEMORY[unit], I64), issued, at, taken), taken)


def _from_dram(memory: Record, asked: Value, fresh: Value) -> Value:
    """Return how many of the sectors that L2 is asked for come from DRAM: those that nobody has touched, or
    all so often that it is the given share of all sectors.
    """
    f, all_of_them = memory.f, as_time(asked)
    owed = plus(memory["owed"], times(all_of_them, memory["miss"].smax(0)))
    is_due = owed.is_("uge", all_of_them)
    memory["owed"] = f.choose(is_due, plus(owed, all_of_them, "fsub"), owed)
    return f.choose(memory["miss"].is_("slt", 0), fresh, f.choose(is_due, asked, f.of(I64, 0)))


def _lines() -> Function:
    """Write what notes the lines of global memory that an access touches at `numbers`, and the sectors of
    each at `sectors`, one bit each; how many lines.
    """
    f = Function(_LINES, I64, clock=PTR, track=PTR, numbers=PTR, sectors=PTR, is_internal=True)
    track, count = track_of(f), f.variable(I64, 0)
    place, numbers, sectors = place_of(f, track["pc"]), f["numbers"], f["sectors"]
    num_bytes = memory_of(f)["num_bytes"]
    with f.each_bit(track["lanes"].trunc(I32)) as lane:
        is_on = f.variable(I64, 1)
        with f.when(place["guard"].is_("sge", 0)):
            guard = f.load(I8, f.at(track.pointer("registers"), place["guard"]), lane)
            is_on.set(guard.zext(I64) ^ place["negated"])
        offset = _address(f, lane) - GLOBAL_BASE
        with f.when(is_on.value.is_("ne", 0) & offset.is_("ult", num_bytes)):
            number, k = offset // LINE_BYTES, f.variable(I64, count.value)
            with f.repeat() as stop:
                stop(k.value.is_("eq", 0))
                stop(f.load(I64, numbers, k.value - 1).is_("eq", number))
                k.add(-1)
            with f.when(k.value.is_("eq", 0)):
                f.store(number, numbers, count.value)
                f.store(f.of(I64, 0), sectors, count.value)
                count.add(1)
                k.set(count.value)
            touched = f.of(I64, 1) << (offset // SECTOR_BYTES) % _SECTORS
            f.store(f.load(I64, sectors, k.value - 1) | touched, sectors, k.value - 1)
    f.give(count.value)
    return f


def _fresh() -> Function:
    """Write what loads or stores some sectors of a line in L2; how many DRAM moves for that."""
    f = Function(_FRESH, I64, clock=PTR, number=I64, sectors=I64, loads=I1, is_internal=True)
    count = f.variable(I64, 0)
    done = f.choose(f["loads"], f.of(I8, LOADED), f.of(I8, STORED))
    enough = f.choose(f["loads"], f.of(I8, LOADED | STORED), f.of(I8, STORED))
    for grain in range(_GRAINS):
        bits = (1 << _PER_GRAIN) - 1 << grain * _PER_GRAIN
        with f.when((f["sectors"] & bits).is_("ne", 0)):
            at = f.at(memory_of(f).pointer("touched"), f["number"] * _GRAINS + grain)
            known = f.load(I8, at)
            with f.when((known & enough).is_("eq", 0)):
                f.store(known | done, at)
                count.add(_PER_GRAIN)
    f.give(count.value)
    return f


def _look_up() -> Function:
    """Write what looks up in L1 some sectors of a line, and brings them there; those that L2 is asked for.
    Stores pass through L1.
    """
    f = Function(_LOOK_UP, I64, clock=PTR, track=PTR, number=I64, sectors=I64, there=I64, is_internal=True)
    place, line = place_of(f, track_of(f)["pc"]), _line(f, f["number"])
    with f.when(place["caches"].is_("eq", 0)):
        f.give(f["sectors"])
    is_there = line["number"].is_("eq", f["number"] + 1)
    held = f.choose(is_there, line["sectors"], f.of(I64, 0))
    line["number"], line["sectors"] = f["number"] + 1, held | f["sectors"]
    line["since"] = f.choose(is_there, line["since"], f["there"])
    f.give(f.choose(place["stores"].is_("ne", 0), f["sectors"], f["sectors"] & (held ^ -1)))
    return f


def _global() -> Function:
    """Write the latency of an access of global memory, which takes the ports of L1, L2 and DRAM: they are
    busy from its issue on, though it is served when its operands are there.
    """
    f = Function(GLOBAL, I64, clock=PTR, track=PTR, is_internal=True)
    clock, track, memory = clock_of(f), track_of(f), memory_of(f)
    place, numbers, sectors = place_of(f, track["pc"]), *(f.slot(f"[{LANES} x i64]") for _ in range(2))
    loads = place["stores"].is_("eq", 0)
    count = f.call(_LINES, I64, f["clock"], f["track"], numbers, sectors)
    with f.when(count.is_("eq", 0)):
        f.give(place["latency"])
    there = there_of(f, place)
    touched, asked, fresh, end = (f.variable(I64, of) for of in (0, 0, 0, there))
    with f.loop(count) as k:
        number, wanted = f.load(I64, numbers, k), f.load(I64, sectors, k)
        missing = f.call(_LOOK_UP, I64, f["clock"], f["track"], number, wanted, there)
        f.store(missing, sectors, k)
        touched.add(_ones(wanted))
        asked.add(_ones(missing))
        fresh.add(f.call(_FRESH, I64, f["clock"], number, missing, loads))
        with f.when(place["caches"].is_("ne", 0)):
            end.set(end.value.smax(_line(f, number)["since"]))
    with f.when(loads):
        fresh.set(_from_dram(memory, asked.value, fresh.value))
        memory["loaded"] = memory["loaded"] + asked.value * SECTOR_BYTES
        memory["fetched"] = memory["fetched"] + fresh.value * SECTOR_BYTES
    ports, issued = track.pointer("ports"), clock["now"].smin(there)
    served = times(as_time(count), memory["line"])
    begin = _take(f.at(ports, L1, I64), issued, there, served)
    done = f.variable(I64, plus(begin, served))
    latency = f.variable(I64, f.choose(asked.value.is_("eq", 0), place["hit"], place["latency"]))
    with f.when(asked.value.is_("ne", 0)):
        done.set(done.value.smax(_move_through(memory, "l2", asked.value, issued, begin)))
    with f.when(loads ^ 1):
        free, taken = f.at(ports, STORES, I64), times(as_time(touched.value), memory["store_sector"])
        done.set(done.value.smax(plus(_take(free, issued, begin, taken), taken)))
        f.store(f.load(I64, free).smax(memory["l2"]), free)
    with f.when(fresh.value.is_("ne", 0)):
        done.set(done.value.smax(_move_through(memory, "dram", fresh.value, issued, begin)))
        with f.when(loads):
            latency.set(plus(latency.value, memory["far"]))
    done.set(plus(done.value, ONE, "fsub"))
    end.set(end.value.smax(plus(done.value, latency.value)))
    with f.when(loads & place["caches"].is_("ne", 0)), f.loop(count) as k:
        is_asked = f.load(I64, sectors, k).is_("ne", 0)
        with f.when(is_asked):
            _line(f, f.load(I64, numbers, k))["since"] = end.value
    f.give(plus(end.value, there, "fsub"))
    return f


def memory() -> tuple[Function, ...]:
    """Return the functions of memory."""
    return _wavefronts(), _shared(), _lines(), _fresh(), _look_up(), _global()
