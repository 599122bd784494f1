"""A real grid of one CTA to execute single instructions on, and the few words the tests need for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell import arch
from drywell.base.dtypes import TYPES
from drywell.base.errors import KernelFault
from drywell.base.span import Span
from drywell.engine.numpy_ops import NumpyOps
from drywell.isa.declare import Declaration, Mods
from drywell.isa.decode import Mismatch, decode, problems
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol

SMEM = 0x400
"""The first byte a kernel may use of its shared memory."""
TILE = 0x800
"""A place for tiles, 1024-byte aligned as swizzles like it."""


def grid_of(block: int = 32, local: int = 0, max_registers: int | None = None, **arrays: Any) -> Grid:
    gmem = GlobalMemory()
    for name, content in arrays.items():
        gmem.place(name, content)
    symbols = (SmemSymbol("bar", SMEM, 0x400), SmemSymbol("tile", TILE, 0x10000))
    kernel = Kernel(
        "k",
        RegisterLayout((32,)),
        static_smem_bytes=0x10400,
        symbols=symbols,
        local_bytes=local,
        max_registers=max_registers,
    )
    grid = Grid(kernel, gmem=gmem, gpu=arch.load("b200"), grid_dim=(1, 1, 1), block_dim=(block, 1, 1))
    grid.admit()
    for warp in warps(grid):
        warp.span = Span("k.ptx", 7, 3)
    return grid


def warps(grid: Grid) -> tuple[Any, ...]:
    return grid.clusters[0].ctas[0].warps


def one_warp(**keywords: Any) -> Any:
    return warps(grid_of(**keywords))[0]


def address(warp: Any, name: str) -> int:
    return next(a.address for a in warp.grid.gmem.arrays if a.name == name)


def array(warp: Any, name: str, dtype: str) -> Any:
    found = next(a for a in warp.grid.gmem.arrays if a.name == name)
    return warp.grid.gmem.content(found).view(dtype)


def smem(warp: Any, offset: int, count: int, dtype: str) -> Any:
    return warp.cta.smem.data[offset : offset + count * np.dtype(dtype).itemsize].view(dtype)


def bound(spelling: str) -> tuple[Declaration, Mods]:
    found = decode(tuple(spelling.split(".")))
    assert not isinstance(found, Mismatch), found
    assert not problems(*found)
    return found


def refusal(spelling: str) -> str:
    """What is said against a spelling: the mismatch's or the first problem's message and hint."""
    found = decode(tuple(spelling.split(".")))
    if isinstance(found, Mismatch):
        return f"{found.message}; {found.hint}"
    return "; ".join(f"{p.message}; {p.hint}" for p in problems(*found))


def every(value: Any, dtype: str = "u4") -> Any:
    return np.full(32, value, dtype)


def act(warp: Any, spelling: str, *sources: Any, lanes: Any = None) -> Any:
    """Execute one instruction with all live lanes of a warp, or with the given ones."""
    declaration, mods = bound(spelling)
    warp.mask = warp.live.copy() if lanes is None else np.isin(np.arange(32), list(lanes))
    with np.errstate(all="ignore"):
        if not declaration.is_lane:
            return declaration.semantics(warp, mods, *sources)
        ops = NumpyOps(mods, TYPES.get(mods.get("type") or ""))
        ops.m = warp
        return declaration.semantics(ops, *sources)


def perform(grid: Grid, stages: int | None = None) -> None:
    """Let asynchronous operations take effect, oldest first: all of them, or that many stages."""
    while len(grid.pending) and stages != 0:
        runnable = grid.pending.runnable()
        if not runnable:
            return
        grid.pending.advance(runnable[0])
        stages = None if stages is None else stages - 1


def fault_of(warp: Any, spelling: str, *sources: Any, lanes: Any = None) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        act(warp, spelling, *sources, lanes=lanes)
    return caught.value
