"""`cp.async` natively: 4, 8 or 16 bytes of each lane from global to shared memory."""

from __future__ import annotations

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import LANES, Lanes, vector
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function
from drywell.engine.native.mbarrier import block_of, changed, row_of
from drywell.engine.native.state import row_word
from drywell.engine.native.table import Emit, Native, Unit, call, form, lanes_at
from drywell.engine.native.tma import in_global, shared_part
from drywell.machine.windows import GLOBAL_BASE, OFFSET_MASK
from drywell.program import operands as ops

_COPY = "drywell.native.copy"


def _copy_function() -> Function:
    """Write `i32 f(context, mask, targets, sources, wanted, size)`: arrays of 64-bit lanes; of each lane the
    first `wanted` bytes come from global memory, the others are zeros.
    """
    f = Function(_COPY, I32, context=PTR, mask=I32, targets=PTR, sources=PTR, wanted=PTR, size=I64)
    block, size = block_of(f), f["size"]
    froms, tos = f.slot(f"[{LANES} x i64]"), f.slot(f"[{LANES} x i64]")
    data = f.load(I64, f["context"], CONTEXT["global_data"])
    with f.each_bit(f["mask"]) as lane:
        target, source = f.load(I64, f["targets"], lane), f.load(I64, f["sources"], lane)
        wanted = f.load(I64, f["wanted"], lane)
        f.need(wanted.is_("ule", size))
        f.need((target & size - 1).is_("eq", 0))
        row, offset = row_of(f, block, target, f.of(I1, 0)), target & OFFSET_MASK
        shared_part(f, row, offset, size)
        with f.when(wanted.is_("ne", 0)):
            f.need(in_global(f, source - GLOBAL_BASE, wanted))
            f.need(wanted.is_("ne", size) | (source & size - 1).is_("eq", 0))
        f.store(data + (source - GLOBAL_BASE), froms, lane)
        f.store(row_word(f, row, "data") + offset, tos, lane)
    with f.each_bit(f["mask"]) as lane:
        to, wanted = f.load(PTR, tos, lane), f.load(I64, f["wanted"], lane)
        f.copy(to, f.load(PTR, froms, lane), wanted)
        zeros = f.of(I8, 0)
        f.intrinsic("memset.p0.i64", "void", f.at(to, wanted), zeros, size - wanted, f.of(I1, 0))
    changed(f)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the function of copies."""
    return (_copy_function(),)


@form("cp_async")
def _cp_async(instruction: ops.Bound) -> Emit | None:
    return _emit if isinstance(instruction.sources[2], ops.Immediate) else None


def _emit(unit: Unit, instruction: ops.Bound) -> Native:
    pairs = list(zip(instruction.sources, instruction.source_types, strict=True))
    size = instruction.sources[2]
    assert isinstance(size, ops.Immediate)
    target, source, chosen = (unit.read(*pairs[k]) for k in (0, 1, 3))
    done = call(
        unit,
        _COPY,
        lanes_at(unit, "target", _wide(unit, target)),
        lanes_at(unit, "source", _wide(unit, source)),
        lanes_at(unit, "wanted", _wanted(unit, chosen, size.bits, _is_predicate(instruction.sources[3]))),
        (I64, str(size.bits)),
    )
    return Native(done)


def _is_predicate(operand: object) -> bool:
    register = operand.register if isinstance(operand, ops.Negated) else operand
    return isinstance(register, ops.Register) and register.type.kind == "pred"


def _wanted(unit: Unit, chosen: Lanes | None, size: int, is_predicate: bool) -> Lanes:
    """Return the bytes each lane reads: all, those of the source size, or none where a predicate is set."""
    if chosen is None:
        return Lanes(f"splat (i64 {size})", 64)
    if not is_predicate:
        return _wide(unit, chosen)
    kind = vector(chosen.width)
    is_set = unit.w.let(f"icmp ne {kind} {chosen.text}, zeroinitializer")
    choice = f"{vector(64)} zeroinitializer, {vector(64)} splat (i64 {size})"
    return Lanes(unit.w.let(f"select {vector(1)} {is_set}, {choice}"), 64)


def _wide(unit: Unit, value: Lanes) -> Lanes:
    if value.width == 64:
        return value
    return Lanes(unit.w.let(f"zext {vector(value.width)} {value.text} to {vector(64)}"), 64)
