"""Instructions that move no data: fences, groups of copies of which none is in flight, hints, `setmaxnreg`,
the end of lanes.
"""

from __future__ import annotations

from drywell.engine.context_words import CONTEXT
from drywell.engine.native.ir import I1, I32, I64, PTR, Function
from drywell.engine.native.state import block_word, row_pointer
from drywell.engine.native.table import Emit, Native, Unit, call, form, nothing
from drywell.machine.lanes import LANES
from drywell.program import operands as ops


@form(
    "membar",
    "fence",
    "fence_proxy",
    "fence_proxy_tensormap_acquire",
    "griddepcontrol",
    "tcgen05_fence",
    "cp_async_commit_group",
    "cp_async_wait_group",
    "cp_async_wait_all",
    "cp_async_bulk_commit_group",
    "cp_async_bulk_wait_group",
    "cp_async_bulk_prefetch",
    "cp_async_bulk_prefetch_tensor",
    "prefetch",
    "applypriority",
    "discard",
    "nanosleep",
    "pmevent",
)
def _effectless(instruction: ops.Bound) -> Emit:
    """Write nothing: what is issued is done at once, so no group waits."""
    return nothing


@form("exit", "ret")
def _ends(instruction: ops.Bound) -> Emit:
    """Write nothing: lanes end between two instructions."""
    return lambda unit, bound: Native("false", exits=True)


@form("tcgen05_wait_ld", "tcgen05_wait_st")
def _await_tmem(instruction: ops.Bound) -> Emit:
    """Ask for the whole warp: its loads and stores are done."""
    return _by_the_whole_warp


_SET = "drywell.native.registers.set"


def _set_function() -> Function:
    """Write `i32 f(context, mask, count, is_increase)`: `Cta.set_max_registers` for a count that may be."""
    f = Function(_SET, I32, context=PTR, mask=I32, count=I64, is_increase=I1)
    block = f.load(PTR, f["context"], CONTEXT["machine"])
    pool = row_pointer(f, block_word(f, block, "row").as_pointer(), "pool")
    own, count, is_increase = block_word(f, block, "warp") + 1, f["count"], f["is_increase"]
    have = f.load(I64, pool, own)
    with f.when(have.is_("eq", 0)):
        f.give(1)
    wanted, free = (count - have) * LANES, f.load(I64, pool)
    f.need(f.choose(is_increase, wanted.is_("sge", 0), wanted.is_("sle", 0)))
    f.need((is_increase ^ 1) | wanted.is_("sle", free))
    f.store(free - wanted, pool)
    f.store(count, pool, own)
    f.store(f.of(I64, 1), f["context"], CONTEXT["changed"])
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the function of setmaxnreg."""
    return (_set_function(),)


@form("setmaxnreg")
def _setmaxnreg(instruction: ops.Bound) -> Emit | None:
    (count,) = instruction.sources
    if not isinstance(count, ops.Immediate) or count.bits % 8 or not 24 <= count.bits <= 256:
        return None
    given = (I64, str(count.bits)), (I1, str(instruction.mods["action"] == "inc").lower())
    return lambda unit, bound: Native(call(unit, _SET, *given))


def _by_the_whole_warp(unit: Unit, instruction: ops.Bound) -> Native:
    return Native(unit.w.let(f"icmp eq i32 {unit.mask}, -1"))
