"""Run a linked entry on a machine: build the grid, drive it, say what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from drywell.arch import Gpu
from drywell.base.activity import WarpActivity
from drywell.base.errors import BudgetError, DeadlockError, DrywellError, KernelFault
from drywell.base.events import Observer
from drywell.base.options import Options
from drywell.engine.blas_threads import one_blas_thread
from drywell.engine.compiled_code import compiled_code
from drywell.engine.compiled_layout import Forms, no_form
from drywell.engine.compiled_run import Native
from drywell.engine.native.tensor_core_multiplier import Multiplier
from drywell.engine.remainders import watch_descriptors
from drywell.engine.scheduler import Scheduler
from drywell.engine.threaded import Threaded, compile_executable
from drywell.engine.trace import Trace
from drywell.engine.workers import in_processes, num_workers
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Dim3, Grid, Kernel, num_modelled_sms
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

    It ran in `workers` processes, of which `grid` is the first's; `alone` says why there is only one where
    more were asked for.
    """

    grid: Grid
    executed: int
    activity: tuple[WarpActivity, ...]
    error: DrywellError | None
    workers: int = 1
    alone: str = ""


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
    """Say what each warp did: instructions by unit, and how often each machine instruction."""
    names = sorted({d.unit for d in threaded.declarations if d is not None})
    number = {name: k for k, name in enumerate(names)}
    unit_of = np.array([len(names) if d is None else number[d.unit] for d in threaded.declarations])
    is_site = np.array([d is not None and not d.is_lane for d in threaded.declarations])
    opcodes = {pc: threaded.declarations[pc].opcode for pc in np.flatnonzero(is_site).tolist()}
    out = []
    for state in sorted(
        (*scheduler.finished, *scheduler.states), key=lambda s: (s.warp.cta.linear, s.warp.index)
    ):
        counts = scheduler.counts(state)
        by_unit = np.bincount(unit_of, counts, len(names) + 1).astype(np.int64).tolist()
        units = {name: by_unit[k] for name, k in number.items() if by_unit[k]}
        places = np.flatnonzero(is_site & (counts != 0)).tolist()
        sites = [(threaded.spans[pc], opcodes[pc], int(counts[pc])) for pc in places]
        out.append(WarpActivity(state.warp.cta.index, state.warp.index, units, tuple(sites)))
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
    threaded = compile_executable(executable, addresses)
    if observers:
        watch_descriptors(threaded, executable)
    given = _Given(executable, launch, gmem, addresses, gpu, options, tuple(observers), trace, threaded)
    is_watched = bool(observers) or trace is not None
    count, alone = num_workers(executable, options, *_homes(given), is_watched)
    with one_blas_thread():
        shared = _run_in_shares(given, count) if count > 1 else None
        return shared or replace(_run_share(given, (0, 1)), alone=alone)


@dataclass(frozen=True, slots=True)
class _Given:
    """All that is given to a run."""

    executable: Executable
    launch: Launch
    gmem: GlobalMemory
    addresses: dict[str, int]
    gpu: Gpu
    options: Options
    observers: tuple[Observer, ...]
    trace: Trace | None
    threaded: Threaded


def _homes(given: _Given) -> tuple[int, int]:
    """Return how many clusters the launch has, and how many find SMs of their own."""
    num_ctas, size = prod(given.launch.grid), max(prod(given.launch.cluster), 1)
    return num_ctas // size, num_modelled_sms(given.options, given.gpu, num_ctas) // size


def _run_in_shares(given: _Given, count: int) -> Outcome | None:
    """Run the launch in `count` processes; None when it did not simply come to its end in them."""
    first: list[Grid] = []

    def work(k: int) -> tuple[int, tuple[WarpActivity, ...], Counter[str]] | None:
        outcome = _run_share(given, (k, count))
        first.append(outcome.grid)
        is_plain = outcome.error is None and not outcome.grid.remarks
        return (outcome.executed, outcome.activity, outcome.grid.unsettled) if is_plain else None

    parts = in_processes(count, given.gmem, work)
    executed = sum(part[0] for part in parts or ())
    if parts is None or executed > given.options.max_instructions:
        return None
    (grid,) = first
    grid.unsettled = sum((part[2] for part in parts), Counter())
    warps = (warp for part in parts for warp in part[1])
    activity = sorted(warps, key=lambda w: (*w.cta[::-1], w.warp))
    return Outcome(grid, executed, tuple(activity), None, count)


def _native(given: _Given, grid: Grid, has_forms: bool) -> Native:
    """Return the compiled code of the executable as the warps of a grid run it; with native machine
    instructions where nobody observes: all of them when operations perform at once, else those by which the
    lanes of a warp exchange values.
    """
    from drywell.engine.native.table import native_form, warp_form

    form: Forms = no_form
    if has_forms and not grid.observers:
        form = native_form if grid.options.schedule == "eager" else warp_form
    code = compiled_code(
        given.executable,
        given.addresses,
        form,
        given.threaded.watched,
        bool(grid.observers),
        grid.options.engine == "jit",
    )
    return Native(code, given.threaded, grid)


MOST_RETAKEN = 1_000_000
"""A run that used up a larger budget is not taken again for the sake of its error's words."""


def _tells_of_arrivals(error: DrywellError, budget: int) -> bool:
    """Say whether an error tells who arrived on an mbarrier."""
    if isinstance(error, BudgetError):
        return budget <= MOST_RETAKEN
    return isinstance(error, DeadlockError) or (isinstance(error, KernelFault) and "MBAR" in error.rule)


def _run_share(given: _Given, share: tuple[int, int], has_forms: bool = True) -> Outcome:
    """Run a share of the clusters until it ends or cannot go on. Native arrivals are in no ledger: where an
    error tells of them, the run is taken again without.
    """
    launch = given.launch
    observers, trace, threaded = given.observers, given.trace, given.threaded
    grid = Grid(
        _kernel(given.executable, launch),
        gmem=given.gmem,
        gpu=given.gpu,
        grid_dim=launch.grid,
        block_dim=launch.block,
        cluster_dim=launch.cluster,
        params=launch.params,
        options=given.options,
        observers=observers if trace is None else (*observers, trace),
        is_explicit_cluster=launch.is_explicit_cluster,
        share=share,
    )
    if given.options.engine != "interpreter":
        grid.multiplier = Multiplier()
    if trace is not None:
        trace.attach(grid, given.executable, given.addresses, threaded)
    native = None
    if trace is None and given.options.engine != "interpreter":
        native = _native(given, grid, has_forms)
    may_retake = native is not None and native.is_quiet and share[1] == 1
    before = given.gmem.buffer.data.copy() if may_retake else None
    scheduler = Scheduler(threaded, grid, given.options, lambda: arrivals(given.executable), native)
    error: DrywellError | None = None
    with np.errstate(all="ignore"):
        try:
            scheduler.run()
        except DrywellError as raised:
            error = raised
    if before is not None and error is not None and _tells_of_arrivals(error, given.options.max_instructions):
        given.gmem.buffer.data[:] = before
        return _run_share(given, share, has_forms=False)
    return Outcome(grid, scheduler.interpreter.executed, _activity(threaded, scheduler), error)
