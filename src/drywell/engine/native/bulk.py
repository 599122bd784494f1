"""Bulk copies without a tensor map natively: contiguous bytes, between global and shared memory and CTAs."""

from __future__ import annotations

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import Lanes
from drywell.engine.native.ir import I1, I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import block_of, changed, place_of, row_of
from drywell.engine.native.state import block_word, row_pointer
from drywell.engine.native.table import Emit, Native, Unit, call, form, lane_value
from drywell.engine.native.tma import (
    Ranks,
    check_bytes,
    check_ranks,
    complete,
    in_global,
    landing,
    need_one_lane,
    shared_part,
)
from drywell.isa.bulk import GRAIN_BYTES
from drywell.machine.mbarrier import MAX_COUNT
from drywell.machine.windows import GLOBAL_BASE, OFFSET_MASK, RANK_SHIFT
from drywell.program import operands as ops

_LOAD, _STORE, _SEND = (f"drywell.native.bulk.{name}" for name in ("load", "store", "send"))


def _need_grains(f: Function) -> None:
    """Leave unless size and addresses are multiples of 16 bytes, and there is something to copy."""
    need_one_lane(f)
    odd = (f["size"] | f["target"] | f["source"]) & (GRAIN_BYTES - 1)
    f.need(odd.is_("eq", 0) & f["size"].is_("ne", 0))


def _global_bytes(f: Function, address: Value, size: Value) -> Value:
    """Return where bytes of global memory lie; leave unless they are in one array."""
    offset = address - GLOBAL_BASE
    f.need(in_global(f, offset, size))
    return f.at(f.load(PTR, f["context"], CONTEXT["global_data"]), offset)


def _shared_bytes(f: Function, block: Value, address: Value, size: Value, is_cluster: Value) -> Value:
    """Return where bytes of shared memory lie; leave unless a CTA that can be reached has them."""
    row, offset = row_of(f, block, address, is_cluster), address & OFFSET_MASK
    shared_part(f, row, offset, size)
    return f.at(row_pointer(f, row, "data"), offset)


def _load_function() -> Function:
    f = Function(
        _LOAD, I32, context=PTR, mask=I32, target=I64, source=I64, size=I64, barrier=I64, ranks=I64,
        is_multicast=I1, is_cluster=I1,
    )  # fmt: skip
    _need_grains(f)
    block, size, is_cluster = block_of(f), f["size"], f["is_cluster"]
    f.need(size.is_("ule", MAX_COUNT))
    to = Ranks(f["target"], f["barrier"], f["ranks"], f["is_multicast"], f.of(I1, 0))
    ranks, source = check_ranks(f, block, to), _global_bytes(f, f["source"], size)
    for is_check in (True, False):
        with f.each_bit(ranks) as rank:
            data, barrier = landing(f, to, rank)
            target = _shared_bytes(f, block, data, size, is_cluster)
            place = place_of(f, block, barrier, is_cluster)
            if is_check:
                check_bytes(f, place, size, f.of(I64, 1))
            else:
                f.copy(target, source, size)
                complete(f, place, size)
    f.give(1)
    return f


def _store_function() -> Function:
    f = Function(_STORE, I32, context=PTR, mask=I32, target=I64, source=I64, size=I64)
    _need_grains(f)
    source = _shared_bytes(f, block_of(f), f["source"], f["size"], f.of(I1, 0))
    f.copy(_global_bytes(f, f["target"], f["size"]), source, f["size"])
    changed(f)
    f.give(1)
    return f


def _send_function() -> Function:
    f = Function(_SEND, I32, context=PTR, mask=I32, target=I64, source=I64, size=I64, barrier=I64)
    _need_grains(f)
    block, size, yes = block_of(f), f["size"], f.of(I1, 1)
    f.need(size.is_("ule", MAX_COUNT))
    owner = f["target"] >> RANK_SHIFT
    f.need(owner.is_("ne", block_word(f, block, "rank")))
    f.need(owner.is_("eq", f["barrier"] >> RANK_SHIFT))
    source = _shared_bytes(f, block, f["source"], size, f.of(I1, 0))
    target = _shared_bytes(f, block, f["target"], size, yes)
    place = place_of(f, block, f["barrier"], yes)
    check_bytes(f, place, size, f.of(I64, 1))
    f.copy(target, source, size)
    complete(f, place, size)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions of bulk copies."""
    return _load_function(), _store_function(), _send_function()


# -------------------------------------------------------------------- what a region writes


def _values(unit: Unit, instruction: ops.Bound, count: int) -> list[tuple[str, str]]:
    """Return the first operands, of the lowest lane that executes it, as arguments of 64 bits."""
    pairs = list(zip(instruction.sources, instruction.source_types, strict=True))[:count]
    return [lane_value(unit, unit.read(*pair), 64) for pair in pairs]


@form("cp_async_bulk_load")
def _load(instruction: ops.Bound) -> Emit:
    return _emit_load


def _emit_load(unit: Unit, instruction: ops.Bound) -> Native:
    mask: Lanes | None = unit.read(instruction.sources[4], instruction.source_types[4])
    done = call(
        unit,
        _LOAD,
        *_values(unit, instruction, 4),
        (I64, "0") if mask is None else lane_value(unit, mask, 64),
        (I1, str(int(mask is not None))),
        (I1, str(int(instruction.mods["dst"] == "shared::cluster"))),
    )
    return Native(done)


@form("cp_async_bulk_store")
def _store(instruction: ops.Bound) -> Emit | None:
    return _emit_store if instruction.mods["cp_mask"] is None else None


def _emit_store(unit: Unit, instruction: ops.Bound) -> Native:
    return Native(call(unit, _STORE, *_values(unit, instruction, 3)))


@form("cp_async_bulk_to_cta")
def _send(instruction: ops.Bound) -> Emit:
    return _emit_send


def _emit_send(unit: Unit, instruction: ops.Bound) -> Native:
    return Native(call(unit, _SEND, *_values(unit, instruction, 4)))
