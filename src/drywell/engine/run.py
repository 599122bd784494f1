"""Run a linked entry on a machine: build the grid, drive it, say what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drywell.arch import Gpu
from drywell.base.activity import WarpActivity
from drywell.base.errors import DrywellError
from drywell.base.events import Observer
from drywell.base.options import Options
from drywell.engine.scheduler import Scheduler
from drywell.engine.threaded import Threaded, compile_executable
from drywell.engine.trace import Trace
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Dim3, Grid, Kernel
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol
from drywell.program.arrivals import arrivals
from drywell.program.link import SHARED_BASE, Executable


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything a launch needs besides the program: dimensions, parameter bytes, sizes."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    params: bytes
    dynamic_smem: int
    max_registers: int | None
    is_explicit_cluster: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left: the grid (state as it stands), instructions executed, what each warp did, and the
    error that ended it, if any.
    """

    grid: Grid
    executed: int
    activity: tuple[WarpActivity, ...]
    error: DrywellError | None


def smem_symbols(executable: Executable) -> tuple[SmemSymbol, ...]:
    """Return the shared variables of a kernel."""
    return tuple(SmemSymbol(name, offset, size) for name, offset, size in executable.shared_symbols)


def _kernel(executable: Executable, launch: Launch) -> Kernel:
    start = executable.dynamic_shared_base if launch.dynamic_smem else executable.static_shared_end
    symbols = smem_symbols(executable)
    return Kernel(
        executable.entry.name,
        RegisterLayout(executable.register_widths),
        start - SHARED_BASE,
        launch.dynamic_smem,
        symbols,
        executable.local_bytes,
        launch.max_registers,
    )


def place_globals(executable: Executable, gmem: GlobalMemory) -> dict[str, int]:
    """Place the module's global and const variables with their initial bytes; return their addresses."""
    addresses: dict[str, int] = {}
    for storage in executable.globals:
        content = np.zeros(storage.size, np.uint8)
        content.setflags(write=False)
        addresses[storage.name] = gmem.place(storage.name, content, storage.space == "const")
    for storage in executable.globals:
        view = gmem.view(addresses[storage.name], storage.size)
        view[:] = np.frombuffer(storage.image(addresses), np.uint8)
    return addresses


def _activity(threaded: Threaded, scheduler: Scheduler) -> tuple[WarpActivity, ...]:
    out = []
    for state in sorted(
        (*scheduler.finished, *scheduler.states), key=lambda s: (s.warp.cta.linear, s.warp.index)
    ):
        units: Counter[str] = Counter()
        sites = []
        for pc, count in enumerate(state.counts):
            declaration = threaded.declarations[pc]
            if count and declaration is not None:
                units[declaration.unit] += count
                if not declaration.is_lane:
                    sites.append((threaded.spans[pc], declaration.opcode, count))
        out.append(WarpActivity(state.warp.cta.index, state.warp.index, dict(units), tuple(sites)))
    return tuple(out)


def run(
    executable: Executable,
    launch: Launch,
    gmem: GlobalMemory,
    addresses: dict[str, int],
    gpu: Gpu,
    options: Options,
    observers: Sequence[Observer] = (),
    trace: Trace | None = None,
) -> Outcome:
    """Run the entry until it ends or cannot go on; the error is in the outcome, with whatever the kernel
    had written left in `gmem`. A `trace` logs every step.

    KeyboardInterrupt passes through. Raises LaunchError for dimensions that cannot be.
    """
    grid = Grid(
        _kernel(executable, launch),
        gmem=gmem,
        gpu=gpu,
        grid_dim=launch.grid,
        block_dim=launch.block,
        cluster_dim=launch.cluster,
        params=launch.params,
        options=options,
        observers=observers if trace is None else (*observers, trace),
        is_explicit_cluster=launch.is_explicit_cluster,
    )
    threaded = compile_executable(executable, addresses)
    if trace is not None:
        trace.attach(grid, executable, addresses, threaded)
    scheduler = Scheduler(threaded, grid, options, arrivals(executable))
    error: DrywellError | None = None
    with np.errstate(all="ignore"):
        try:
            scheduler.run()
        except DrywellError as raised:
            error = raised
    return Outcome(grid, scheduler.interpreter.executed, _activity(threaded, scheduler), error)
