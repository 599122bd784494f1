"""Run a linked entry on a machine: build the grid, drive it, say what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drywell.arch import Gpu
from drywell.base.activity import WarpActivity
from drywell.base.errors import BudgetError, DeadlockError, DrywellError, KernelFault
from drywell.base.events import Clocked, Observer
from drywell.base.options import Options
from drywell.base.span import Span
from drywell.engine.activity import Ended, activity_of, told
from drywell.engine.blas_threads import one_blas_thread
from drywell.engine.by_kinds import Alone, Judge, Known, Verdict, facts_of, judge_kinds, known_of, may_compare
from drywell.engine.collector import rare_collections
from drywell.engine.compiled_code import compiled_code
from drywell.engine.compiled_layout import Forms, no_form
from drywell.engine.compiled_run import Native
from drywell.engine.kinds import Kinds
from drywell.engine.lent import lent_threaded
from drywell.engine.native.tensor_core_multiplier import Multiplier
from drywell.engine.remainders import watch_descriptors
from drywell.engine.scheduler import Scheduler
from drywell.engine.threaded import Threaded, compile_executable
from drywell.engine.timed import Tell, TimedScheduler
from drywell.engine.trace import Trace
from drywell.engine.workers import dealt_out, in_processes, num_wanted, num_workers
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Dim3, Grid, Kernel, num_modelled_sms
from drywell.machine.lanes import LANES
from drywell.machine.registers import RegisterLayout
from drywell.machine.smem import SmemSymbol
from drywell.program.arrivals import Arrival, arrivals
from drywell.program.independence import meeting_place
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
    """What a run left: the grid (state as it stands), instructions executed, what each warp had done, and
    the error that ended it, if any.

    It ran in `workers` processes, of which `grid` is the first's; `alone` says why there is only one where
    more were asked for. `verdict` is what there is to say of a launch that was judged by kinds.
    """

    grid: Grid
    executed: int
    ended: tuple[Ended, ...]
    error: DrywellError | None
    workers: int = 1
    alone: str = ""
    verdict: Verdict | None = None

    @property
    def activity(self) -> tuple[WarpActivity, ...]:
        """Return what each warp did, in order."""
        return told(self.ended)


def smem_symbols(executable: Executable) -> tuple[SmemSymbol, ...]:
    """Return the shared variables of a kernel."""
    return tuple(SmemSymbol(name, offset, size) for name, offset, size in executable.shared_symbols)


@lru_cache(maxsize=16)
def _register_layout(widths: tuple[int, ...]) -> RegisterLayout:
    return RegisterLayout(widths)


def _kernel_of(executable: Executable, launch: Launch) -> Kernel:
    """Return what a kernel needs of the machine."""
    start = executable.dynamic_shared_base if launch.dynamic_smem else executable.static_shared_end
    symbols = smem_symbols(executable)
    return Kernel(
        executable.entry.name,
        _register_layout(executable.register_widths),
        start - SHARED_BASE,
        launch.dynamic_smem,
        symbols,
        executable.local_bytes,
        launch.max_registers,
    )


def grid_of(
    executable: Executable,
    launch: Launch,
    gmem: GlobalMemory,
    gpu: Gpu,
    options: Options,
    observers: Sequence[Observer] = (),
    next_home: Callable[[], int | None] | None = None,
) -> Grid:
    """Return the grid of a launch; raises LaunchError for dimensions that cannot be."""
    return Grid(
        _kernel_of(executable, launch),
        gmem=gmem,
        gpu=gpu,
        grid_dim=launch.grid,
        block_dim=launch.block,
        cluster_dim=launch.cluster,
        params=launch.params,
        options=options,
        observers=observers,
        is_explicit_cluster=launch.is_explicit_cluster,
        next_home=next_home,
    )


def place_globals(executable: Executable, gmem: GlobalMemory) -> dict[str, int]:
    """Place the module's global and const variables with their initial bytes; return their addresses."""
    contents = {storage.name: np.zeros(storage.size, np.uint8) for storage in executable.globals}
    addresses = {
        storage.name: gmem.place(storage.name, contents[storage.name], storage.space == "const")
        for storage in executable.globals
    }
    for storage in executable.globals:
        content = contents[storage.name]
        content[:] = np.frombuffer(storage.image(addresses), np.uint8)
        content.setflags(write=False)
        gmem.view(addresses[storage.name], storage.size)[:] = content
    return addresses


def run(
    executable: Executable,
    launch: Launch,
    gmem: GlobalMemory,
    addresses: dict[str, int],
    gpu: Gpu,
    options: Options,
    last: ExitStack,
    observers: Sequence[Observer] = (),
    trace: Trace | None = None,
    judge: Judge | None = None,
    tell: Tell | None = None,
) -> Outcome:
    """Run the entry until it ends or cannot go on; the error is in the outcome, with whatever the kernel
    had written left in `gmem`. A `trace` logs every step. `tell` is told of the intervals of a timed run. A
    `judge` may say by the kinds of clusters what the observers would (`by_kinds`); they have then been told
    of nothing. What it leaves for the `last` thing of a launch need not be waited for before.

    KeyboardInterrupt passes through. Raises LaunchError for dimensions that cannot be.
    """
    is_watched = bool(observers) or trace is not None
    with lent_threaded(executable, addresses) as threaded:
        given = _Given(
            executable, launch, gmem, addresses, gpu, options, tuple(observers), trace, threaded, tell
        )
        count, alone = num_workers(executable, options, *_homes(launch, gpu, options), is_watched)
        if judge is not None and (by_kinds := _run_by_kinds(given, judge)) is not None:
            return replace(by_kinds, alone=alone)
        if is_watched:
            given = replace(given, threaded=compile_executable(executable, addresses))
        if observers:
            watch_descriptors(given.threaded, executable)
        last.enter_context(one_blas_thread())  # a thread of BLAS that is started looks for work for 100 ms
        with rare_collections():
            shared = _run_in_shares(given, count, last) if count > 1 else None
            return shared or replace(_run_whole(given), alone=alone)


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
    tell: Tell | None = None


def _homes(launch: Launch, gpu: Gpu, options: Options) -> tuple[int, int]:
    """Return how many clusters a launch has, and how many find SMs of their own."""
    num_ctas, size = prod(launch.grid), max(prod(launch.cluster), 1)
    num_clusters = num_ctas // size
    return num_clusters, min(num_modelled_sms(options, gpu, num_ctas) // size, num_clusters)


def wants_workers(launch: Launch, gpu: Gpu, options: Options, is_watched: bool) -> bool:
    """Say whether a launch is to be shared out over processes, if its clusters cannot notice each other."""
    return num_wanted(options, *_homes(launch, gpu, options), is_watched)[0] > 1


def _run_in_shares(given: _Given, count: int, last: ExitStack) -> Outcome | None:
    """Run the launch in `count` processes; None when it did not simply come to its end in them."""
    if not given.gmem.share():
        return None
    with dealt_out(_homes(given.launch, given.gpu, given.options)[1]) as next_home:
        share = _Share.of(given, next_home)

        def work(k: int) -> tuple[int, list[Any], Counter[str]] | None:
            outcome = share.run()
            if outcome.error is not None or outcome.grid.remarks:
                return None
            ended = [(*who, done.counts) for *who, done in outcome.ended]
            return outcome.executed, ended, outcome.grid.unsettled

        parts = in_processes(count, given.gmem, work, last)
    executed = sum(part[0] for part in parts or ())
    if parts is None:
        return None
    if executed > given.options.max_instructions:
        given.gmem.restore()
        return None
    share.grid.unsettled = sum((part[2] for part in parts), Counter())
    did = cache(activity_of(given.threaded).of)  # equal counts of a worker are one object
    ended = [(cta, warp, index, did(counts)) for part in parts for cta, warp, index, counts in part[1]]
    return Outcome(share.grid, executed, tuple(ended), None, count)


@dataclass(slots=True)
class _Telling:
    """Asks a run to tell what its clusters do: all of them, or only the one whose first CTA is `cluster`. The
    run leaves `kinds` behind. Of the stores at `compared` it is told whether they change anything.
    """

    divisions: dict[int, int]
    compared: frozenset[Span]
    cluster: int | None = None
    kinds: Kinds | None = None

    def begin(self, given: _Given, grid: Grid) -> Kinds:
        """Take note of a grid that is about to run."""
        if self.cluster is not None:
            grid.confine(self.cluster)
        self.kinds = Kinds(grid, given.executable, given.addresses)
        self.kinds.attach(given.threaded, self.divisions, self.compared)
        return self.kinds


def _run_by_kinds(given: _Given, judge: Judge) -> Outcome | None:
    """Run a launch without observers and judge one cluster of each kind; None, with global memory as it was,
    when that cannot be done.
    """
    options, launch = given.options, given.launch
    is_plain = options.schedule == "eager" and options.engine != "interpreter" and given.trace is None
    num_clusters, _ = _homes(launch, given.gpu, options)
    num_warps = -(-prod(launch.block) // LANES) * prod(launch.cluster)
    if not is_plain or not may_compare(given.executable, num_clusters, num_warps):
        return None
    way = launch.block, launch.cluster, launch.dynamic_smem, launch.max_registers, launch.is_explicit_cluster
    known = known_of(given.executable, (way, given.gpu.name, replace(options, workers=None), judge.key))
    this = launch.grid, launch.params, judge.names
    if this in known.refused:
        return None
    before_it = known.compared
    with one_blas_thread(), rare_collections():
        outcome, compared = _judged(given, judge, known), known.compared
        if outcome is None and compared != before_it:
            outcome = _judged(given, judge, known)
    if outcome is None:
        known.refused.add(this)
    return outcome


def _judged(given: _Given, judge: Judge, known: Known) -> Outcome | None:
    """Run a launch and judge its kinds of clusters; None, memory being as before, when that cannot be."""
    gmem, first = given.gmem, _Telling(facts_of(given.executable).divisions, known.compared)
    outcome, verdict = _run_telling(given, first, ()), None
    after: list[NDArray[np.uint8]] = []

    def alone(cluster: int, observer: Observer) -> Alone:
        if not after:
            after.append(gmem.buffer.data.copy())
        gmem.restore()
        telling = replace(first, cluster=cluster, kinds=None)
        rerun = _run_telling(given, telling, (observer,))
        assert telling.kinds is not None
        rerun.grid.let_go_of_all()
        return Alone(rerun.error is None and not rerun.grid.remarks, telling.kinds)

    if outcome.error is None and not outcome.grid.remarks and first.kinds is not None:
        verdict = judge_kinds(first.kinds, known, judge, alone)
    if verdict is None:
        outcome.grid.let_go_of_all()
        gmem.restore()
        return None
    for data in after:
        gmem.buffer.data[:] = data
    return replace(outcome, verdict=verdict)


def _run_telling(given: _Given, telling: _Telling, observers: tuple[Observer, ...]) -> Outcome:
    """Run a launch, or one cluster of it, that tells what clusters do."""
    threaded = compile_executable(given.executable, given.addresses)
    if observers:
        watch_descriptors(threaded, given.executable)
    try:
        return _run_whole(replace(given, observers=observers, threaded=threaded), telling)
    finally:
        threaded.steps.clear()  # they know it: nothing is left for the garbage collector


def native_of(
    executable: Executable,
    addresses: dict[str, int],
    threaded: Threaded,
    grid: Grid,
    has_forms: bool = True,
    telling: _Telling | None = None,
) -> Native:
    """Return the compiled code of an executable as the warps of a grid run it; with native machine
    instructions where nobody observes: all of them when operations perform at once, else those that act on
    their warp alone.
    """
    from drywell.engine.native.table import native_form, timed_form, warp_form

    schedule = grid.options.schedule
    form: Forms = no_form
    if has_forms and not grid.observers:
        form = {"eager": native_form, "timed": timed_form}.get(schedule, warp_form)
    code = compiled_code(
        executable,
        addresses,
        form,
        threaded.watched,
        bool(grid.observers),
        grid.options.engine == "jit",
        None if telling is None else telling.divisions,
        schedule == "timed",
    )
    return Native(code, threaded, grid, None if telling is None else telling.kinds)


MOST_RETAKEN = 1_000_000
"""A run that used up a larger budget is not taken again for the sake of its error's words."""


def _tells_of_arrivals(error: DrywellError, budget: int) -> bool:
    """Say whether an error tells who arrived on an mbarrier."""
    if isinstance(error, BudgetError):
        return budget <= MOST_RETAKEN
    return isinstance(error, DeadlockError) or (isinstance(error, KernelFault) and "MBAR" in error.rule)


def _scheduler(given: _Given, grid: Grid, native: Native | None) -> Scheduler:
    """Return what drives a grid."""
    executable, options = given.executable, given.options

    def sites() -> tuple[Arrival, ...]:
        return arrivals(executable)

    if options.schedule == "timed":
        return TimedScheduler(given.threaded, grid, options, sites, executable, given.tell, native=native)
    return Scheduler(given.threaded, grid, options, sites, native, lambda: meeting_place(executable) is None)


def _give_clock(grid: Grid) -> None:
    """Tell those who observe a timed run when it is."""
    for observer in grid.observers:
        if isinstance(observer, Clocked):
            observer.begin(lambda: grid.clock)


@dataclass(frozen=True, slots=True)
class _Share:
    """Clusters of a launch that are about to run: their grid, its compiled code, and what drives them. Made
    before processes are forked it is made once, and there is less that they have to copy.
    """

    grid: Grid
    native: Native | None
    scheduler: Scheduler

    @classmethod
    def of(
        cls,
        given: _Given,
        next_home: Callable[[], int | None] | None = None,
        has_forms: bool = True,
        telling: _Telling | None = None,
    ) -> Self:
        """Return all clusters of a launch, or those of one home after the other."""
        observers, trace, options = given.observers, given.trace, given.options
        grid = grid_of(
            given.executable,
            given.launch,
            given.gmem,
            given.gpu,
            options,
            observers if trace is None else (*observers, trace),
            next_home,
        )
        if telling is not None:
            telling.begin(given, grid)
        if options.engine != "interpreter":
            grid.multiplier = Multiplier()
        if trace is not None:
            trace.attach(grid, given.executable, given.addresses, given.threaded)
        native = None
        if options.schedule == "timed":
            _give_clock(grid)
        if trace is None and options.engine != "interpreter":
            native = native_of(given.executable, given.addresses, given.threaded, grid, has_forms, telling)
        return cls(grid, native, _scheduler(given, grid, native))

    def run(self) -> Outcome:
        """Run them until they end or cannot go on."""
        error: DrywellError | None = None
        with np.errstate(all="ignore"):
            try:
                self.scheduler.run()
            except DrywellError as raised:
                error = raised
        executed, told = self.scheduler.interpreter.executed, self.scheduler.told()
        self.scheduler.close()
        return Outcome(self.grid, executed, told, error)


def _run_whole(given: _Given, telling: _Telling | None = None) -> Outcome:
    """Run all clusters. Native arrivals are in no ledger: where an error tells of them, the run is taken
    again without. With `telling` it is not, and tells what clusters do.
    """
    share = _Share.of(given, telling=telling)
    outcome = share.run()
    error, budget = outcome.error, given.options.max_instructions
    is_quiet = share.native is not None and share.native.is_quiet and telling is None
    if is_quiet and error is not None and _tells_of_arrivals(error, budget):
        given.gmem.restore()
        return _Share.of(given, has_forms=False).run()
    return outcome
