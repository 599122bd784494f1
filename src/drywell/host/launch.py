"""Load a module and launch a kernel: the two calls everything else is built on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from drywell import arch
from drywell.base.errors import LaunchError, UnsupportedError
from drywell.base.events import Observer
from drywell.engine.run import place_globals, run, wants_workers
from drywell.engine.trace import Trace
from drywell.host.arguments import arrays_of, build_params
from drywell.host.checking import judging_of, watch_of
from drywell.host.module import Kernel, Module, check, load
from drywell.host.options import read_options
from drywell.host.placement import Placement
from drywell.host.result import Result, Verdict, conclude
from drywell.host.shape import shape_of
from drywell.machine.gmem import GlobalMemory
from drywell.observe.hazards.declared import Declared
from drywell.program.link import link

__all__ = ["Kernel", "Module", "Result", "Verdict", "check", "launch", "load"]


def launch(
    kernel: Kernel,
    *,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] | None = None,
    dynamic_smem: int = 0,
    args: Sequence[Any] = (),
    gpu: str = "b200",
    check: str = "ptx",
    numerics: str = "exact",
    engine: str = "auto",
    schedule: str | None = None,
    observe: Sequence[str] = (),
    max_instructions: int = 10**9,
    seed: int | None = None,
    sms: int | None = None,
    workers: int | None = None,
    executor: Any = None,
    switches: Mapping[str, Any] | None = None,
    names: Mapping[int, str] | None = None,
    trace: Trace | None = None,
    declared: Sequence[Declared] = (),
    observers: Sequence[Observer] = (),
    clock_mhz: int | None = None,
) -> Result:
    """Run a kernel on the modelled GPU; arrays in `args` are read and written in place.

    `args` holds one value per parameter: NumPy arrays, CPU torch tensors or DLPack objects for pointers,
    numbers, `tensor_map(...)`, `packed(...)`, None for a null pointer. `check` is how much the hazard checker
    looks for (`off`, `hw`, `ptx`, `strict`; docs/design/checker.md). `schedule` is when asynchronous work
    completes: eager, lazy, seeded, timed (None: what `seed`, `clock_mhz` or observe=("timeline",) asks for,
    else eager).
    `workers` is how many processes may share the clusters (None: as many as there are cores, for a grid that
    is worth it); they do with check="off", nothing observed, the eager schedule and a kernel whose clusters
    cannot notice each other, otherwise one process runs them all, as `Result.alone` says.
    `switches` sets the hardware questions of DEVIATIONS.md by name. `names` gives arrays (by `id`) their
    names in messages. A `trace` logs the run step by step, for `why`; `declared` is what the
    checker holds Tensor Memory against; `observers` are told of every event (`base.events`). `clock_mhz` is
    the SM clock of the timed schedule (None: the GPU's boost clock).

    Raises LaunchError (bad arguments), UnsupportedError, KernelFault, DeadlockError, BudgetError; what had
    happened is in `error.result`, and the caller's arrays hold what the kernel had written.
    """
    if executor is not None:
        raise UnsupportedError("executors do not exist yet")
    options = read_options(
        gpu,
        numerics,
        engine,
        schedule,
        "timeline" in observe or clock_mhz is not None,
        seed,
        sms,
        workers,
        max_instructions,
        dict(switches or {}),
    )
    machine, executable = _clocked(arch.load(gpu), clock_mhz), link(kernel.module.program, kernel.name)
    shape = shape_of(executable, machine, grid, block, cluster, dynamic_smem)
    is_watched = check != "off" or bool(observe) or bool(observers) or trace is not None
    gmem = GlobalMemory(wants_workers(shape, machine, options, is_watched))
    placement = Placement(gmem, math.prod(shape.grid), dict(names or {}), arrays_of(args))
    ghz = machine.boost_clock_mhz / 1000
    watch = watch_of(check, observe, executable, gmem, shape.grid, declared, ghz, observers)
    tell = None if watch.timeline is None else watch.timeline.on
    with ExitStack() as last:
        with _written_back(gmem):
            params = build_params(executable.params, args, placement, executable.param_bytes)
            addresses, shape = place_globals(executable, gmem), replace(shape, params=params)
            judge = None if observers else judging_of(check, observe, executable, gmem, shape.grid, declared)
            given = executable, shape, gmem, addresses, machine, options, last, watch.observers
            outcome = run(*given, trace, judge, tell)
        result = conclude(outcome, watch)
        if not outcome.grid.observers:
            outcome.grid.let_go_of_all()
        placement.refuse_lost_writes()
        return result


def _clocked(gpu: arch.Gpu, clock_mhz: int | None) -> arch.Gpu:
    """Return a GPU at another clock."""
    if clock_mhz is None:
        return gpu
    if clock_mhz < 1:
        raise LaunchError(f"clock_mhz={clock_mhz}: a clock has at least 1 MHz")
    return replace(gpu, boost_clock_mhz=clock_mhz)


@contextmanager
def _written_back(gmem: GlobalMemory) -> Iterator[None]:
    """Write the caller's arrays whatever happens; LaunchError when this machine's memory is too small."""
    try:
        yield
    except MemoryError as error:
        hint = "shrink the variables of the module, the arrays or the grid"
        message = f"the launch does not fit into the memory of this machine: {error}"
        raise LaunchError(f"{message}\n  hint: {hint}") from None
    finally:
        gmem.write_back()
