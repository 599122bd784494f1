"""One kernel on two machines of its own, interpreted and compiled, with what each left behind."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drywell.arch import load as load_gpu
from drywell.base.options import DEFAULT, Options
from drywell.base.span import Source
from drywell.engine.compiled_code import CompiledCode, compiled_code
from drywell.engine.compiled_layout import no_form
from drywell.engine.compiled_run import Native
from drywell.engine.run import place_globals
from drywell.engine.scheduler import Scheduler
from drywell.engine.threaded import Step, compile_executable
from drywell.isa import registry  # noqa: F401  (declares every instruction)
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol
from drywell.machine.warp import Warp
from drywell.program.arrivals import arrivals
from drywell.program.link import SHARED_BASE, Executable, link
from drywell.program.module import check_module
from drywell.ptx import parse

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def linked(text: str, entry: str = "k") -> Executable:
    source = Source("test.ptx", HEADER + text)
    tree, problems = parse(source)
    program = check_module(tree, source, is_as_written=True)
    assert [] == [str(d) for d in (*problems, *program.diagnostics)]
    return link(program, entry)


@dataclass
class Machine:
    """A grid with the kernel's arrays in its memory; parameters are the arrays' addresses, then the
    scalars as u32. `interpreted` are the opcodes of the instructions that were not executed by compiled code,
    `counts` how often each warp executed each place.
    """

    executable: Executable
    grid: Grid
    addresses: dict[str, int]
    interpreted: set[str] = field(default_factory=set)
    counts: list[list[int]] = field(default_factory=list)

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


def interpret(m: Machine, options: Options = DEFAULT) -> list[Warp]:
    """Run the kernel by the interpreter and return its warps, in order."""
    return _run(m, options, None)


def run_compiled(m: Machine, options: Options = DEFAULT, is_eager: bool = True) -> list[Warp]:
    """Run the kernel compiled, from the first touch on or where it is hot, and return its warps, in order."""
    observed = bool(m.grid.observers)
    return _run(m, options, compiled_code(m.executable, m.addresses, no_form, (), observed, is_eager))


def _run(m: Machine, options: Options, code: CompiledCode | None) -> list[Warp]:
    m.grid.options = options
    threaded = compile_executable(m.executable, m.addresses)
    for pc, declaration in enumerate(threaded.declarations):
        if declaration is not None:
            threaded.steps[pc] = _noting(threaded.steps[pc], declaration.opcode, m.interpreted)
    native = None if code is None else Native(code, threaded, m.grid)
    scheduler = Scheduler(threaded, m.grid, options, lambda: arrivals(m.executable), native)
    try:
        with np.errstate(all="ignore"):
            scheduler.run()
    finally:
        states = sorted(
            (*scheduler.finished, *scheduler.states), key=lambda s: (s.warp.cta.linear, s.warp.index)
        )
        m.counts = [scheduler.counts(state).tolist() for state in states]
    return [state.warp for state in states]


def _noting(step: Step, opcode: str, noted: set[str]) -> Step:
    def note(warp: Warp) -> object:
        noted.add(opcode)
        return step(warp)

    return note


def same_registers(left: Sequence[Warp], right: Sequence[Warp], names: Sequence[str]) -> list[str]:
    """Return the registers in which two runs differ, as `warp 0 %r3`."""
    return [
        f"warp {a.index} {name}"
        for a, b in zip(left, right, strict=True)
        for name, x, y in zip(names, a.values.all(), b.values.all(), strict=True)
        if x.tobytes() != y.tobytes()
    ]
