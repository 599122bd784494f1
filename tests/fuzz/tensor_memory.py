"""What every piece of work in Tensor Memory begins and ends with."""

from __future__ import annotations

from fuzz.drawing import Draw
from fuzz.statements import lines


def registers(count: int) -> str:
    """Return a list of the registers that a piece of work has for itself."""
    return "{" + ", ".join(f"%v{k}" for k in range(count)) + "}"


def own_lanes() -> str:
    """Return what leaves the address of a warp's own lanes in %y2."""
    return lines("and.b32 %y2, %w, 3;", "shl.b32 %y2, %y2, 21;", "add.u32 %y2, %y2, %tm;")


def _by_first_warp(draw: Draw, text: str) -> str:
    label = draw.name("A")
    return lines("setp.ne.u32 %z0, %w, 0;", f"@%z0 bra {label};", text, f"{label}:")


def allocated(draw: Draw, columns: int) -> str:
    """Return what allocates columns and leaves their address in %tm."""
    alloc = f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};"
    return lines(_by_first_warp(draw, alloc), "bar.sync 0;", "ld.shared.b32 %tm, [slot];")


def freed(draw: Draw, columns: int) -> str:
    """Return what frees columns when all warps are through with them."""
    free = f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, {columns};"
    return lines("tcgen05.fence::before_thread_sync;", "bar.sync 0;", _by_first_warp(draw, free))
