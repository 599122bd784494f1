"""`tcgen05.alloc`, `dealloc` and `relinquish_alloc_permit` of one CTA natively, on the words that
`machine.tmem` keeps. What has to wait, is a fault, or must be chosen at random leaves.
"""

from __future__ import annotations

from drywell.engine.llvm_text import Lanes, vector
from drywell.engine.native.barriers import is_same
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import block_of, changed
from drywell.engine.native.state import block_word, row_pointer, row_word
from drywell.engine.native.table import Emit, Native, Unit, call, form, lane_value
from drywell.engine.native.turn_words import Record
from drywell.engine.native.waiting import perform_waiting
from drywell.isa.tcgen05 import cta_group
from drywell.layout.tmem import GRANULE_COLS, NUM_COLS, NUM_LANES
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.tmem_words import HOLDING, NUM_GRANULES, OF_SM
from drywell.machine.windows import OFFSET_MASK, RANK_SHIFT, SHARED_BASE
from drywell.program import operands as ops

_ALLOC, _FREE, _RELINQUISH = (f"drywell.native.tmem.{name}" for name in ("alloc", "free", "relinquish"))
_PARAMETERS = {"context": PTR, "mask": I32, "address": I64, "num_cols": I64, "agree": I1}
_SLOT_BYTES = 4


def _holding(f: Function) -> tuple[Value, Record]:
    """Return the row of the CTA, and what it holds; leave unless all lanes of the warp are there."""
    f.need(f["mask"].is_("eq", -1))
    perform_waiting(f, block_of(f))
    row = block_word(f, block_of(f), "row").as_pointer()
    return row, Record(f, row_pointer(f, row, "tmem"), HOLDING)


def _alloc_function() -> Function:
    """Write `i32 f(context, mask, address, num_cols, agree)`: `TensorMemory.alloc` for one CTA that need not
    wait.
    """
    f = Function(_ALLOC, I32, _PARAMETERS)
    row, holding = _holding(f)
    address, num_cols = f["address"], f["num_cols"]
    offset = address & OFFSET_MASK
    f.need(f["agree"] & (address >> RANK_SHIFT).is_("eq", block_word(f, block_of(f), "rank")))
    f.need((offset & _SLOT_BYTES - 1).is_("eq", 0) & offset.is_("uge", RESERVED_BYTES))
    f.need((offset + _SLOT_BYTES).is_("ule", row_word(f, row, "end")))
    f.need((num_cols & num_cols - 1).is_("eq", 0) & num_cols.is_("uge", GRANULE_COLS))
    f.need(num_cols.is_("ule", holding["last_cols"]) & holding["relinquished"].is_("eq", 0))
    f.need(holding["sm"].is_("ne", 0))
    sm = Record(f, holding.pointer("sm"), OF_SM)
    f.need(sm["cells"].is_("ne", 0) & sm["is_plain"].is_("ne", 0))
    f.need(sm["permit"].is_("eq", 0) | sm["permit"].is_("eq", holding["cta"]))
    granule, mask = _lowest(f, sm["map"], num_cols // GRANULE_COLS)
    sm["map"], sm["permit"] = sm["map"] | mask, holding["cta"]
    holding["mine"], holding["starts"] = holding["mine"] | mask, holding["starts"] | f.of(I64, 1) << granule
    holding["cells"], holding["written"] = sm["cells"], sm["written"]
    holding["last_cols"], holding["is_used"] = num_cols, 1
    f.store(num_cols, f.at(holding.base, granule + HOLDING["sizes"], I64))
    _freshen(f, sm, granule * GRANULE_COLS, num_cols)
    f.store((granule * GRANULE_COLS).trunc(I32), f.at(row_pointer(f, row, "data"), offset))
    changed(f)
    f.give(1)
    return f


def _lowest(f: Function, taken: Value, count: Value) -> tuple[Value, Value]:
    """Return the lowest of the aligned places where `count` granules are free, and their mask; leave when
    there is none.
    """
    found, block = f.variable(I64, -1), (f.of(I64, 1) << count) - 1
    with f.loop(NUM_GRANULES) as granule:
        is_free = (granule & count - 1).is_("eq", 0) & (taken & block << granule).is_("eq", 0)
        with f.when(is_free & found.value.is_("eq", -1)):
            found.set(granule)
    f.need(found.value.is_("ne", -1))
    return found.value, block << found.value


def _freshen(f: Function, sm: Record, col: Value, num_cols: Value) -> None:
    """Make the cells of columns fresh."""
    fill, flag = f.splat(I32, 8, sm["fill"].trunc(I32)), f.splat(I8, GRANULE_COLS, sm["flag"].trunc(I8))
    cells, written = sm.pointer("cells"), sm.pointer("written")
    with f.loop(NUM_LANES) as lane:
        first = lane * NUM_COLS + col
        line, flags = f.at(cells, first, I32), f.at(written, first)
        with f.loop(num_cols // 8) as k:
            f.store(fill, line, k, align=4)
        with f.loop(num_cols // GRANULE_COLS) as k:
            f.store(flag, flags, k, align=1)


def _free_function() -> Function:
    """Write `i32 f(context, mask, address, num_cols, agree)`: `TensorMemory.dealloc` of a CTA's own."""
    f = Function(_FREE, I32, _PARAMETERS)
    _, holding = _holding(f)
    granule, num_cols = (f["address"] & 0xFFFF) // GRANULE_COLS, f["num_cols"]
    f.need(f["agree"] & granule.is_("ult", NUM_GRANULES) & holding["is_paired"].is_("eq", 0))
    f.need((holding["starts"] >> granule & 1).is_("ne", 0) & holding["sm"].is_("ne", 0))
    f.need(f.load(I64, holding.base, granule + HOLDING["sizes"]).is_("eq", num_cols))
    kept = ((f.of(I64, 1) << num_cols // GRANULE_COLS) - 1 << granule) ^ -1
    sm = Record(f, holding.pointer("sm"), OF_SM)
    sm["map"], holding["mine"] = sm["map"] & kept, holding["mine"] & kept
    holding["starts"] = holding["starts"] & (f.of(I64, 1) << granule ^ -1)
    changed(f)
    f.give(1)
    return f


def _relinquish_function() -> Function:
    """Write `i32 f(context, mask)`: `TensorMemory.relinquish`."""
    f = Function(_RELINQUISH, I32, context=PTR, mask=I32)
    _, holding = _holding(f)
    f.need(holding["sm"].is_("ne", 0))
    sm = Record(f, holding.pointer("sm"), OF_SM)
    holding["relinquished"], holding["is_used"] = 1, 1
    with f.when(sm["permit"].is_("eq", holding["cta"])):
        sm["permit"] = 0
    changed(f)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the functions of allocation."""
    return _alloc_function(), _free_function(), _relinquish_function()


def _is_of_one(instruction: ops.Bound) -> bool:
    return cta_group(instruction.mods) in (None, 1)


@form("tcgen05_alloc")
def _alloc(instruction: ops.Bound) -> Emit | None:
    return _emit_alloc if _is_of_one(instruction) else None


def _emit_alloc(unit: Unit, instruction: ops.Bound) -> Native:
    w = unit.w
    address, num_cols = (
        unit.read(*pair) for pair in zip(instruction.sources, instruction.source_types, strict=True)
    )
    agree = w.let(f"and i1 {is_same(unit, address)}, {is_same(unit, num_cols)}")
    if address.width == 32:
        address = Lanes(w.let(f"zext {vector(32)} {address.text} to {vector(64)}"), 64)
    if not instruction.mods["shared::cta"]:
        address = Lanes(w.let(f"xor {vector(64)} {address.text}, splat (i64 {SHARED_BASE})"), 64)
    given = lane_value(unit, address, 64), lane_value(unit, num_cols, 64), (I1, agree)
    return Native(call(unit, _ALLOC, *given))


@form("tcgen05_dealloc")
def _free(instruction: ops.Bound) -> Emit | None:
    return _emit_free if _is_of_one(instruction) else None


def _emit_free(unit: Unit, instruction: ops.Bound) -> Native:
    address, num_cols = (
        unit.read(*pair) for pair in zip(instruction.sources, instruction.source_types, strict=True)
    )
    agree = unit.w.let(f"and i1 {is_same(unit, address)}, {is_same(unit, num_cols)}")
    given = lane_value(unit, address, 64), lane_value(unit, num_cols, 64), (I1, agree)
    return Native(call(unit, _FREE, *given))


@form("tcgen05_relinquish_alloc_permit")
def _relinquish(instruction: ops.Bound) -> Emit:
    return lambda unit, bound: Native(call(unit, _RELINQUISH))
