"""One kernel on two machines of its own, interpreted and compiled, with what each left behind."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drywell.arch import load as load_gpu
from drywell.base.options import DEFAULT
from drywell.base.span import Source
from drywell.engine.jit import Compiled, Context, compile_region, context_of
from drywell.engine.llvm_region import Status, region_at
from drywell.engine.run import place_globals
from drywell.engine.scheduler import Scheduler
from drywell.engine.threaded import PASSED, compile_executable
from drywell.isa import registry  # noqa: F401  (declares every instruction)
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.lanes import FULL
from drywell.machine.outcome import Exit, Jump
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol
from drywell.machine.warp import Warp
from drywell.program.arrivals import arrivals
from drywell.program.link import SHARED_BASE, Executable, link
from drywell.program.module import check_module
from drywell.ptx import parse

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def linked(text: str, entry: str = "k") -> Executable:
    tree, problems = parse(Source("test.ptx", HEADER + text))
    program = check_module(tree, Source("test.ptx", HEADER + text))
    assert [] == [str(d) for d in (*problems, *program.diagnostics)]
    return link(program, entry)


@dataclass
class Machine:
    """A grid with the kernel's arrays in its memory; parameters are the arrays' addresses, then the
    scalars as u32.
    """

    executable: Executable
    grid: Grid
    addresses: dict[str, int]
    compiled: dict[int, Compiled] = field(default_factory=dict)
    statuses: Counter[Status] = field(default_factory=Counter)

    def memory(self) -> bytes:
        return self.grid.gmem.buffer.data.tobytes()

    def content(self, name: str) -> np.ndarray:
        array = next(a for a in self.grid.gmem.arrays if a.name == name)
        return self.grid.gmem.content(array)


def machine(
    executable: Executable,
    arrays: Mapping[str, np.ndarray] | None = None,
    scalars: Sequence[int] = (),
    grid: int = 1,
    block: int = 32,
) -> Machine:
    gmem = GlobalMemory()
    addresses = place_globals(executable, gmem)
    pointers = [gmem.place(name, array.copy()) for name, array in (arrays or {}).items()]
    params = b"".join(
        [*(struct.pack("<Q", p) for p in pointers), *(struct.pack("<I", s & 0xFFFFFFFF) for s in scalars)]
    )
    symbols = tuple(SmemSymbol(*s) for s in executable.shared_symbols)
    kernel = Kernel(
        executable.entry.name,
        RegisterLayout(executable.register_widths),
        executable.static_shared_end - SHARED_BASE,
        0,
        symbols,
        executable.local_bytes,
    )
    whole = Grid(
        kernel,
        gmem=gmem,
        gpu=load_gpu("b200"),
        grid_dim=(grid, 1, 1),
        block_dim=(block, 1, 1),
        params=params.ljust(executable.param_bytes, b"\0"),
    )
    return Machine(executable, whole, addresses)


def interpret(m: Machine) -> list[Warp]:
    """Run the kernel by the interpreter and return its warps, in order."""
    threaded = compile_executable(m.executable, m.addresses)
    scheduler = Scheduler(threaded, m.grid, DEFAULT, arrivals(m.executable))
    with np.errstate(all="ignore"):
        scheduler.run()
    return sorted((s.warp for s in scheduler.finished), key=lambda w: (w.cta.linear, w.index))


def run_compiled(m: Machine, optimise: int = 0) -> list[Warp]:
    """Run the kernel warp by warp: regions compiled, branches between them interpreted. No warp may
    diverge or wait.
    """
    warps = [warp for cta in m.grid.admit() for warp in cta.warps]
    for warp in warps:
        _run_warp(m, warp, optimise)
    return warps


def _run_warp(m: Machine, warp: Warp, optimise: int) -> None:
    threaded, entry = compile_executable(m.executable, m.addresses), m.executable.functions[0]
    warp.call_params.grow(m.executable.frame_bytes)
    warp.mask, context, pc = FULL, context_of(warp), threaded.entry_pc
    while True:
        if pc not in m.compiled and (region := region_at(entry, pc)) is not None:
            m.compiled[pc] = compile_region(region, m.executable, m.addresses, optimise)
        if pc in m.compiled:
            pc = _run_region(m, warp, m.compiled[pc], context)
        held = threaded.steps[pc](warp)
        if held is None or held is PASSED:
            pc += 1
        elif isinstance(held.outcome, Jump) and held.mask is None:
            pc = int(held.outcome.targets)
        else:
            assert isinstance(held.outcome, Exit) or type(held.outcome).__name__ == "Return"
            return


def _run_region(m: Machine, warp: Warp, compiled: Compiled, context: Context) -> int:
    """Run a region and return the place where interpretation goes on."""
    status = compiled.run_warp(warp, context)
    m.statuses[status] += 1
    assert status is Status.DONE, (status, context.fault)
    return compiled.region.stop


def same_registers(left: Sequence[Warp], right: Sequence[Warp], names: Sequence[str]) -> list[str]:
    """Return the registers in which two runs differ, as `warp 0 %r3`."""
    return [
        f"warp {a.index} {name}"
        for a, b in zip(left, right, strict=True)
        for name, x, y in zip(names, a.values, b.values, strict=True)
        if x.tobytes() != y.tobytes()
    ]
