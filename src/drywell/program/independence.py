"""Whether the clusters of a launch may run apart: what lets one of them notice another.

They share global memory. Plain accesses to it order nothing, so whoever passes a value on, or asks who comes
first, needs an instruction that says so: an access or a fence whose scope is wider than a cluster, or one
that reads and writes in one step. Looked for are their marks in the declarations, not their names.
"""

from __future__ import annotations

from drywell.base.last_used import FoundOnce
from drywell.base.span import Span
from drywell.isa.system import EXTERNS
from drywell.program import operands as ops
from drywell.program.link import Executable

_WIDE = ("gpu", "sys", "gl")
_ORDERED = ("volatile", "relaxed", "acquire", "release", "acq_rel", "sc")
_MEMORY_UNITS = ("mem", "async")
_DEPENDS_ON_OTHERS = ("%clock", "%globaltimer", "%smid")
_SILENT = ("__assertfail",)

_met: FoundOnce[tuple[Span, str] | None] = FoundOnce()


def meeting_place(executable: Executable) -> tuple[Span, str] | None:
    """Return the first place at which a cluster may notice another, and what it does there; None when there
    is none, so that clusters may run in any order, or at once. It is looked for once per executable.
    """
    return _met.of(executable, lambda: _meeting_place(executable))


def _meeting_place(executable: Executable) -> tuple[Span, str] | None:
    for linked in executable.functions:
        for instruction in linked.function.code:
            if isinstance(instruction, ops.Bound):
                what = _how_it_meets(instruction)
                if what:
                    return instruction.span, what
    return None


def _how_it_meets(instruction: ops.Bound) -> str:
    """Say how an instruction lets its cluster notice another, '' when it does not."""
    declaration, mods = instruction.declaration, instruction.mods
    leaves = [leaf for operand in instruction.sources for leaf in ops.leaves(operand)]
    for leaf in leaves:
        if isinstance(leaf, ops.Special) and leaf.name.startswith(_DEPENDS_ON_OTHERS):
            return f"reads {leaf.name}"
        if isinstance(leaf, ops.FunctionRef) and leaf.name in EXTERNS and leaf.name not in _SILENT:
            return f"calls {leaf.name}"
    scope = mods.get("scope") or mods.get("level")
    if declaration.unit == "fence":
        return f"orders accesses within .{scope}" if scope in _WIDE else ""
    if declaration.root == "clusterlaunchcontrol":
        return "asks for another cluster"
    space = mods.get("space") or mods.get("dst")
    if declaration.unit not in _MEMORY_UNITS or (space or "global") != "global":
        return ""
    if any(slot.name in ("op", "cas") for slot in declaration.slots):
        return "reads and writes global memory in one step"
    is_ordered = mods.get("sem") in _ORDERED or mods.get("mmio")
    is_narrow = scope in ("cta", "cluster")
    return "orders its access to global memory" if is_ordered and not is_narrow else ""
