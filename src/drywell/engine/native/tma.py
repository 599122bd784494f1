"""The tensor copy engine natively: boxes in tile mode, between global and shared memory.

What an instruction needs of a tensor map is its plan (`tma_plan`). A copy is made row by row as `machine.tma`
has it; everything is checked before anything moves, and what would be a fault leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import Lanes
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import (
    Place,
    block_of,
    change,
    changed,
    decoded,
    place_of,
    put,
    row_of,
)
from drywell.engine.native.plans import find, miss
from drywell.engine.native.state import block_word, row_pointer, row_word
from drywell.engine.native.table import Emit, Native, Unit, call, form, lane_value
from drywell.engine.native.tma_plan import MAX_RANK, PLAN, field
from drywell.machine import tma
from drywell.machine.mbarrier import MAX_COUNT
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.windows import GLOBAL_BASE, OFFSET_MASK, RANK_SHIFT
from drywell.program import operands as ops

_ROW_BYTES = 4096
"""More than any row of a box has: 256 elements of 8 bytes."""
_SIMPLE = 128
"""Bytes of the rows that most boxes have."""
_AHEAD, _LINE = 16, 64
"""How many rows ahead the processor is told of one; bytes that it fetches at a time."""
_OUTER = range(1, MAX_RANK)


# -------------------------------------------------------------------- the walk


@dataclass(frozen=True, slots=True)
class Inside:
    """The part of a box that lies in the tensor: whether there is one, the address of its first byte on the
    host, where a row of it begins and how long it is, and per outer dimension its first and end and the bytes
    from one to the next.
    """

    has_any: Value
    host: Value
    skip: Value
    length: Value
    lows: Sequence[Value]
    highs: Sequence[Value]
    strides: Sequence[Value]


def plan_at(f: Function, block: Value, address: Value, rank: Value) -> Value:
    """Return the plan of the map at an address; leave when there is none, noting it, or when it is not for
    native code, or of another rank.
    """
    plan = find(f, block, "map", address)
    with f.when(plan.is_("eq", 0)):
        miss(f, block, "map", (address,))
    pointer = plan.as_pointer()
    now = f.load("<8 x i64>", field(f, pointer, "host").as_pointer(), align=8)
    before = f.load("<8 x i64>", f.at(pointer, PLAN["map0"], I64), align=8)
    with f.when(now.differ(before).bitcast(I8).is_("ne", 0)):
        miss(f, block, "map", (address,))
    f.need(field(f, pointer, "is_refused").is_("eq", 0))
    f.need(field(f, pointer, "rank").is_("eq", rank))
    return pointer


def inside(f: Function, plan: Value, coords: Sequence[Value], is_store: bool) -> Inside:
    """Return the part of the box at `coords` (signed, 64 bits) in the tensor; leave when it is not all in one
    array.
    """
    bits, dim = field(f, plan, "bits"), field(f, plan, "dim0")
    f.need((coords[0] * bits & 8 * tma.CHUNK - 1).is_("eq", 0))
    first = coords[0].smax(0)
    last = field(f, plan, "end" if is_store else "dim0").smin(coords[0] + field(f, plan, "box"))
    has_any = first.is_("slt", last)
    address = f.variable(I64, field(f, plan, "address") + (first * bits >> 3))
    extent = f.variable(I64, (last.smin(dim) - first) * bits >> 3)
    lows, highs, strides = [], [], []
    for k in _OUTER:
        start, step = coords[k], field(f, plan, f"step{k}")
        low = f.choose(start.is_("slt", 0), (step - start - 1) // step, 0)
        room = (field(f, plan, f"dim{k}") - start).smax(0)
        high = field(f, plan, f"count{k}").smin((room + step - 1) // step)
        has_any = has_any & low.is_("slt", high)
        stride = field(f, plan, f"stride{k}")
        address.add((start + low * step) * stride)
        extent.add((high - low - 1) * step * stride)
        lows.append(low)
        highs.append(high)
        strides.append(step * stride)
    offset = address.value - GLOBAL_BASE
    length = (last - first) * bits >> 3
    with f.when(has_any):
        f.need(in_global(f, offset, extent.value))
        if is_store:  # whole chunks are written, over the tensor's edge too
            reach = extent.value + length
            f.need((offset + reach).is_("ule", f.load(I64, f["context"], CONTEXT["global_high"])))
    host = f.load(I64, f["context"], CONTEXT["global_data"]) + offset
    skip = (first - coords[0]) * bits >> 3
    return Inside(has_any, host, skip, length, lows, highs, strides)


def in_global(f: Function, offset: Value, size: Value) -> Value:
    """Return whether bytes from an offset of global memory on lie in one array; leave beyond its end."""
    f.need(offset.is_("ult", f.load(I64, f["context"], CONTEXT["global_high"])))
    ends = f.load(PTR, f["context"], CONTEXT["global_ends"])
    return (offset + size).is_("ule", f.load(I64, ends, offset >> 9))


def shared_part(f: Function, row: Value, offset: Value, size: Value) -> None:
    """Leave unless bytes from a window offset on are the CTA's."""
    f.need(offset.is_("uge", RESERVED_BYTES))
    f.need((offset + size).is_("ule", row_word(f, row, "end")))


@dataclass(frozen=True, slots=True)
class _Walk:
    """What the rows of one copy have in common; `spare` is a row of what fills the outside, or scratch."""

    f: Function
    shared: Value
    spare: Value
    held: Value
    row_bytes: Value
    skip: Value
    length: Value
    is_plain: Value
    is_level: Value
    swizzle: tuple[tuple[Value, Value], ...]

    def swizzled(self, at: Value) -> Value:
        """Return where a window offset is in shared memory, from its beginning."""
        for shift, bits in self.swizzle:
            at = at ^ (at >> shift & bits)
        return at


def _walk_function(is_store: bool) -> Function:
    """Write `void f(plan, host, skip, length, bounds, shared, offset)`: move the rows of a box, everything
    being right. `bounds` holds low, high and stride of each outer dimension.
    """
    names = {"plan": PTR, "has_any": I1, "host": I64, "skip": I64, "length": I64, "bounds": PTR}
    f = Function(_WALK[is_store], "void", names, is_internal=True, shared=PTR, offset=I64)
    plan, at = f["plan"], f.variable(I64, f["offset"])
    swizzle = tuple((field(f, plan, f"shift{k}"), field(f, plan, f"bits{k}")) for k in range(2))
    is_plain = field(f, plan, "is_tf32").is_("eq", 0)
    spare, held = (f.slot(f"[{_ROW_BYTES} x i8]") for _ in range(2))
    given = (f["skip"], f["length"], is_plain, field(f, plan, "is_level").is_("ne", 0), swizzle)
    walk = _Walk(f, f["shared"], spare, held, field(f, plan, "row_bytes"), *given)
    if not is_store:
        fill = field(f, plan, "fill")
        with f.loop(walk.row_bytes >> 3) as k:
            f.store(fill, spare, k)
    bounds = [[f.load(I64, f["bounds"], 3 * (k - 1) + n) for n in range(3)] for k in _OUTER]
    pitch, place, is_inside = field(f, plan, "pitch"), f.variable(I64), f.variable(I1)
    fourth, third, second, first = (field(f, plan, f"count{k}") for k in (4, 3, 2, 1))
    with f.when(_is_simple(walk, bounds, (first, second, third, fourth))):
        with f.loop(fourth) as i4, f.loop(third) as i3, f.loop(second) as i2:
            outer = sum((i * bound[2] for i, bound in zip((i2, i3, i4), bounds[1:], strict=True)), f["host"])
            _simple_rows(walk, is_store, (outer, bounds[0][2]), (at.value, pitch), first)
            at.add(first * pitch)
        f.give()
    ahead = bounds[0][2] * _AHEAD
    with f.loop(fourth) as i4, f.loop(third) as i3, f.loop(second) as i2, f.loop(first) as i1:
        place.set(f["host"])
        is_inside.set(f["has_any"])
        for (low, high, stride), i in zip(bounds, (i1, i2, i3, i4), strict=True):
            place.add((i - low) * stride)
            is_inside.set(is_inside.value & i.is_("uge", low) & i.is_("ult", high))
        if not is_store:
            _fetch(f, (place.value + ahead).as_pointer(), walk.row_bytes)
        move = _store_row if is_store else _load_row
        move(walk, place.value.as_pointer(), is_inside.value, at.value)
        at.add(pitch)
    f.give()
    return f


_WALK = {True: "drywell.native.tma.put", False: "drywell.native.tma.get"}


def _is_simple(walk: _Walk, bounds: Sequence[Sequence[Value]], counts: Sequence[Value]) -> Value:
    """Return whether a whole box of `_SIMPLE` bytes a row is to be moved as it is."""
    f = walk.f
    found = f["has_any"] & walk.is_level & walk.is_plain & walk.row_bytes.is_("eq", _SIMPLE)
    found = found & walk.length.is_("eq", _SIMPLE)
    for (low, high, _), count in zip(bounds, counts, strict=True):
        found = found & low.is_("eq", 0) & high.is_("eq", count)
    return found


def _simple_rows(
    walk: _Walk, is_store: bool, outside: tuple[Value, Value], inside: tuple[Value, Value], count: Value
) -> None:
    """Move rows of `_SIMPLE` bytes; of each memory where they begin, and how far from one to the next."""
    f = walk.f
    (first, stride), (start, pitch) = outside, inside
    with f.loop(count) as i:
        row, at = (first + i * stride).as_pointer(), start + i * pitch
        flipped = walk.swizzled(at) ^ at
        chunks = [f.at(row, 16 * k) for k in range(_SIMPLE // 16)]
        places = [f.at(walk.shared, (at + 16 * k) ^ flipped) for k in range(_SIMPLE // 16)]
        if not is_store:
            _fetch(f, f.at(row, stride * _AHEAD), walk.row_bytes)
        sources, targets = (places, chunks) if is_store else (chunks, places)
        found = [f.load("<16 x i8>", place, align=1) for place in sources]
        for chunk, place in zip(found, targets, strict=True):
            f.store(chunk, place, align=1)


def _fetch(f: Function, row: Value, size: Value) -> None:
    """Let the first bytes of a row come near, which will be read: rows lie far apart."""
    for at in (f.of(I64, 0), (size - 1).smin(_LINE), (size - 1).smin(2 * _LINE)):
        kind = (f.of(I32, 0), f.of(I32, 3), f.of(I32, 1))  # to be read, into every cache, data
        f.intrinsic("prefetch.p0", "void", f.at(row, at), *kind)


def _store_row(walk: _Walk, row: Value, is_inside: Value, at: Value) -> None:
    """Move one row from window offset `at` to global memory."""
    f = walk.f
    with f.when(is_inside):
        _chunks(walk, walk.spare, at, False)
        f.copy(row, f.at(walk.spare, walk.skip), walk.length)


def _load_row(walk: _Walk, row: Value, is_inside: Value, at: Value) -> None:
    """Move one row from global memory, or what fills the outside, to window offset `at`."""
    f = walk.f
    is_whole = walk.length.is_("eq", walk.row_bytes) & is_inside & walk.is_plain
    source = f.variable(PTR, f.choose(is_whole, row, walk.held))
    with f.when(is_whole.is_("eq", 0)):
        f.copy(walk.held, walk.spare, walk.row_bytes)
        with f.when(is_inside):
            f.copy(f.at(walk.held, walk.skip), row, walk.length)
            with f.when(walk.is_plain.is_("eq", 0)):
                _round_to_tf32(f, f.at(walk.held, walk.skip), walk.length >> 2)
    _chunks(walk, source.value, at, True)


def _chunks(walk: _Walk, row: Value, at: Value, is_into_shared: bool) -> None:
    """Copy a row chunk by chunk, swizzled in shared memory."""
    f = walk.f

    def move(k: Value, swizzled: Value) -> None:
        plain, inside = f.at(row, k << 4), f.at(walk.shared, swizzled)
        target, source = (inside, plain) if is_into_shared else (plain, inside)
        f.store(f.load("<16 x i8>", source, align=1), target, align=1)

    with f.when(walk.is_level):
        flipped = walk.swizzled(at) ^ at
        with f.loop(walk.row_bytes >> 4) as k:
            move(k, (at + (k << 4)) ^ flipped)
    with f.when(walk.is_level ^ 1), f.loop(walk.row_bytes >> 4) as k:
        move(k, walk.swizzled(at + (k << 4)))


def _round_to_tf32(f: Function, words: Value, count: Value) -> None:
    """Round to 10 fraction bits, to nearest even; a NaN becomes 0x7fffe000."""
    with f.loop(count) as k:
        word = f.load(I32, words, k, align=1)
        rounded = word + 0xFFF + (word >> 13 & 1) & 0xFFFF_E000
        is_nan = (word & 0x7FFF_FFFF).is_("ugt", 0x7F80_0000)
        f.store(f.choose(is_nan, f.of(I32, 0x7FFF_E000), rounded), words, k, align=1)


def _walk_with(f: Function, plan: Value, part: Inside, row: Value, offset: Value, is_store: bool) -> None:
    bounds = f.slot(f"[{3 * len(_OUTER)} x i64]")
    for k, values in enumerate(zip(part.lows, part.highs, part.strides, strict=True)):
        for n, value in enumerate(values):
            f.store(value, bounds, 3 * k + n)
    numbers = (plan, part.has_any, part.host, part.skip, part.length, bounds)
    f.call(_WALK[is_store], "void", *numbers, row_pointer(f, row, "data"), offset)


# -------------------------------------------------------------------- landings


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where a copy lands: with `is_multicast` in the CTAs `mask`, else where `data` says; data and mbarrier
    at these addresses. `is_pair` lets the mbarrier be the pair peer's.
    """

    data: Value
    barrier: Value
    mask: Value
    is_multicast: Value
    is_pair: Value


def check_ranks(f: Function, block: Value, to: Ranks) -> Value:
    """Return the ranks to land in as 32 bits; leave for what would be a fault."""
    owner, teller = to.data >> RANK_SHIFT, to.barrier >> RANK_SHIFT
    apart = owner ^ teller
    f.need(to.is_multicast | apart.is_("eq", 0) | (to.is_pair & apart.is_("eq", 1)))
    f.need(owner.is_("ult", 32))
    ranks = f.choose(to.is_multicast, to.mask, f.of(I64, 1) << owner)
    f.need((ranks >> block_word(f, block, "num_ctas")).is_("eq", 0) & ranks.is_("ne", 0))
    return ranks.trunc(I32)


def landing(f: Function, to: Ranks, rank: Value) -> tuple[Value, Value]:
    """Return the shared-window addresses of data and mbarrier of one rank."""
    teller = to.barrier >> RANK_SHIFT
    told = f.choose(to.is_pair, (rank & ~1) | (teller & 1), rank)
    told = f.choose(to.is_multicast, told, teller)
    data = (rank << RANK_SHIFT) | (to.data & OFFSET_MASK)
    return data, (told << RANK_SHIFT) | (to.barrier & OFFSET_MASK)


def check_bytes(f: Function, place: Place, size: Value, times: Value) -> None:
    """Leave unless an mbarrier can count `size` bytes down as often as that."""
    state = decoded(f, f.load(I64, place.word))
    f.need((state.tx.value + MAX_COUNT - size * times).is_("sge", 0))


def complete(f: Function, place: Place, size: Value) -> None:
    """Count bytes down on an mbarrier that has been checked."""
    state = decoded(f, f.load(I64, place.word))
    change(f, state, 0, -size, 0)
    put(f, place, state)


_LOAD, _STORE = "drywell.native.tma.load", "drywell.native.tma.store"
_COORDS = {f"c{k}": I32 for k in range(MAX_RANK)}


def _coords(f: Function) -> list[Value]:
    return [f[name].sext(I64) for name in _COORDS]


def need_one_lane(f: Function) -> None:
    """Leave unless one lane executes it."""
    f.need((f["mask"] & f["mask"] - 1).is_("eq", 0))


def _load_function() -> Function:
    head = {"context": PTR, "mask": I32, "map": I64, "rank": I64}
    tail = {"data": I64, "barrier": I64, "ranks": I64, "is_multicast": I1, "is_cluster": I1, "is_pair": I1}
    f = Function(_LOAD, I32, head | _COORDS | tail)
    need_one_lane(f)
    block, coords = block_of(f), _coords(f)
    plan = plan_at(f, block, f["map"], f["rank"])
    part = inside(f, plan, coords, False)
    to = Ranks(f["data"], f["barrier"], f["ranks"], f["is_multicast"], f["is_pair"])
    ranks, size = check_ranks(f, block, to), field(f, plan, "num_bytes")
    f.need((f["data"] & tma.SMEM_ALIGN - 1).is_("eq", 0))
    times = f.intrinsic("ctpop.i32", I32, ranks).zext(I64)
    tells_cluster = f["is_cluster"] | f["is_pair"]
    for is_check in (True, False):
        with f.each_bit(ranks) as rank:
            data, barrier = landing(f, to, rank)
            row = row_of(f, block, data, f["is_cluster"])
            place = place_of(f, block, barrier, tells_cluster)
            if is_check:
                shared_part(f, row, data & OFFSET_MASK, field(f, plan, "footprint"))
                check_bytes(f, place, size, times)
            else:
                _walk_with(f, plan, part, row, data & OFFSET_MASK, False)
                complete(f, place, size)
    f.give(1)
    return f


def _store_function() -> Function:
    head = {"context": PTR, "mask": I32, "map": I64, "rank": I64}
    f = Function(_STORE, I32, head | _COORDS, data=I64)
    need_one_lane(f)
    block, coords = block_of(f), _coords(f)
    plan = plan_at(f, block, f["map"], f["rank"])
    for coord in coords:
        f.need(coord.is_("sge", 0))
    part = inside(f, plan, coords, True)
    row = row_of(f, block, f["data"], f.of(I1, 0))
    offset = f["data"] & OFFSET_MASK
    f.need((offset & tma.SMEM_ALIGN - 1).is_("eq", 0))
    shared_part(f, row, offset, field(f, plan, "footprint"))
    _walk_with(f, plan, part, row, offset, True)
    changed(f)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions of the tensor copy engine."""
    return _walk_function(False), _walk_function(True), _load_function(), _store_function()


# -------------------------------------------------------------------- what a region writes


def _is_tile(instruction: ops.Bound) -> bool:
    return instruction.mods["mode"] in (None, "tile")


def _where(unit: Unit, operand: Any, op: Any) -> list[tuple[str, str]]:
    """Return the arguments that say which box is meant: the map, the rank, the coordinates."""
    pointer, coords = unit.read(operand, op)
    parts = coords if isinstance(coords, tuple) else (coords,)
    numbers = [lane_value(unit, c, 32) for c in parts]
    numbers += [(I32, "0")] * (MAX_RANK - len(parts))
    return [lane_value(unit, pointer, 64), (I64, str(len(parts))), *numbers]


@form("cp_async_bulk_tensor_load")
def _load(instruction: ops.Bound) -> Emit | None:
    return _emit_load if _is_tile(instruction) else None


def _emit_load(unit: Unit, instruction: ops.Bound) -> Native:
    pairs = list(zip(instruction.sources, instruction.source_types, strict=True))
    target, tensor, barrier, _, ranks, _ = pairs
    mods = instruction.mods
    mask: Lanes | None = unit.read(*ranks)
    done = call(
        unit,
        _LOAD,
        *_where(unit, *tensor),
        *(lane_value(unit, unit.read(*pair), 64) for pair in (target, barrier)),
        (I64, "0") if mask is None else lane_value(unit, mask, 64),
        (I1, str(int(mask is not None))),
        (I1, str(int(mods["dst"] == "shared::cluster"))),
        (I1, str(int(mods["cta_group"] == "cta_group::2"))),
    )
    return Native(done)


@form("cp_async_bulk_tensor_store")
def _store(instruction: ops.Bound) -> Emit | None:
    return _emit_store if _is_tile(instruction) else None


def _emit_store(unit: Unit, instruction: ops.Bound) -> Native:
    tensor, source, _ = zip(instruction.sources, instruction.source_types, strict=True)
    data = lane_value(unit, unit.read(*source), 64)
    return Native(call(unit, _STORE, *_where(unit, *tensor), data))
