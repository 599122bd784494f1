"""Instructions that move nothing: fences, groups of copies of which none is in flight, hints."""

from __future__ import annotations

from drywell.engine.native.table import Emit, Native, Unit, form, nothing
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


@form("tcgen05_wait_ld", "tcgen05_wait_st")
def _await_tmem(instruction: ops.Bound) -> Emit:
    """Ask for the whole warp: its loads and stores are done."""
    return _by_the_whole_warp


def _by_the_whole_warp(unit: Unit, instruction: ops.Bound) -> Native:
    return Native(unit.w.let(f"icmp eq i32 {unit.mask}, -1"))
