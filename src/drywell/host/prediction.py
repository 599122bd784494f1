"""How long a launch takes on a whole GPU: all its clusters by the clock, or some that stand for the rest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from drywell import arch
from drywell.arch.timing import Timing, timing
from drywell.base.errors import BudgetError, DeadlockError, LaunchError
from drywell.base.options import Options
from drywell.base.record import record
from drywell.engine.run import place_globals
from drywell.engine.timed_sample import Given, Ran, Reuse, Sampled, Wanted, look, run_sample
from drywell.host.arguments import arrays_of, build_params
from drywell.host.budget import budget
from drywell.host.launch_file import LaunchFile, launch_file_of
from drywell.host.placement import Placement
from drywell.host.shape import shape_of
from drywell.machine.gmem import GlobalMemory
from drywell.observe.timeline import UNITS, Timeline
from drywell.plan.expected import Expected, clock_ground, range_ground
from drywell.plan.power import clock_under, load_on_clock
from drywell.plan.traffic import missing
from drywell.program.independence import meeting_place
from drywell.program.link import link
from drywell.report.text import counted

BOUND_FROM, SHARED_BOUND_FROM = 0.85, 0.7
"""The use of a unit from which it is called the bound: of the steady state; of L2 and DRAM, of the whole
launch, in which they are filled and drained, too.
"""

ROUNDS = 2
"""Waves that a sample runs: the first, in which all is cold, and one like all the others."""

MAX_INSTRUCTIONS = 400_000
"""Warp instructions that a prediction executes at most by itself: some forty seconds."""


@record
class _Plan:
    """How a launch lies on a GPU: its clusters, the homes for one (`cluster_size` SMs each), how many share a
    home, how many run side by side, in how many waves.
    """

    num_clusters: int
    cluster_size: int
    num_homes: int
    per_home: int
    num_active: int
    waves: int
    occupancy: str

    @property
    def layers(self) -> int:
        """Return how many clusters the fullest home has in all, one after the other or side by side."""
        return -(-self.num_clusters // self.num_homes)


@record
class _Measured:
    """What a launch does as a whole, found by executing `num_executed` of its clusters."""

    cycles: float
    flops: float
    full_cycles: float
    loaded_bytes: float
    fetched_bytes: float
    used_cycles: dict[str, float]
    sampling: float
    num_executed: int
    notes: tuple[str, ...]
    timeline: Timeline


def predict_launch(
    what: LaunchFile | str | Path,
    gpu: arch.Gpu | str | None = None,
    *,
    clock_mhz: int | None = None,
    sustained: bool = False,
    max_instructions: int = MAX_INSTRUCTIONS,
) -> Expected:
    """Predict how long a launch takes on `gpu` (a name, or numbers like it; default: the launch file's) by
    executing it by the clock: whole where that takes at most `max_instructions` warp instructions, else a
    sample of its clusters.

    `clock_mhz` is the SM clock at which cycles are counted (default: the boost clock); `sustained` says that
    the GPU has been under load for half a second or longer. Raises what a launch raises; BudgetError when
    even a sample takes more instructions, or the clusters of a launch that is too large meet.
    """
    launch = launch_file_of(what, "predict_launch")
    machine = gpu if isinstance(gpu, arch.Gpu) else arch.load(gpu or launch.gpu)
    if clock_mhz is not None:
        if clock_mhz <= 0:
            raise LaunchError(f"clock_mhz={clock_mhz}: a clock is more than 0 MHz")
        machine = replace(machine, boost_clock_mhz=clock_mhz)
    given, plan = given_of(launch, machine, max_instructions), _plan(launch, machine)
    try:
        measured = _measured(given, plan)
    except BudgetError:
        raise BudgetError(
            f"{launch.path}: even a few of its {plan.num_clusters} clusters take more than {max_instructions}"
            " warp instructions\n  hint: give more (--instructions, max_instructions=; some 100,000/s),"
            " or predict a launch with less to do in a cluster"
        ) from None
    return _prediction(launch, given, plan, measured, sustained)


def given_of(launch: LaunchFile, gpu: arch.Gpu, max_instructions: int) -> Given:
    """Place what a launch takes in global memory."""
    executable = link(launch.module.program, launch.entry)
    shape = shape_of(executable, gpu, launch.grid, launch.block, launch.cluster, launch.dynamic_smem)
    gmem = GlobalMemory()
    placement = Placement(gmem, math.prod(shape.grid), launch.names, arrays_of(launch.args))
    params = build_params(executable.params, launch.args, placement, executable.param_bytes)
    addresses = place_globals(executable, gmem)
    options = Options(gpu.name, "timed", numerics="fast", max_instructions=max_instructions)
    outputs = tuple(launch.expect)
    return Given(executable, replace(shape, params=params), gmem, addresses, gpu, options, outputs)


def _plan(launch: LaunchFile, gpu: arch.Gpu) -> _Plan:
    size = math.prod(launch.cluster or (1,))
    num_clusters = math.prod(launch.grid) // size
    num_homes = gpu.sm_count // size
    found = budget(launch, gpu)
    per_home = max(1, found.ctas_per_sm)
    slots = num_homes * per_home
    waves = -(-num_clusters // slots)
    held, in_last = counted(per_home, "CTA"), num_clusters - (waves - 1) * slots
    partial = f", the last of {in_last} of {slots} clusters" if 1 < waves and in_last < slots else ""
    occupancy = f"{counted(waves, 'wave')}{partial}: an SM can hold {held} at once, bounded by {found.bound}"
    return _Plan(num_clusters, size, num_homes, per_home, min(num_clusters, slots), waves, occupancy)


# -------------------------------------------------------------------- what is executed
def _measured(given: Given, plan: _Plan) -> _Measured:
    """Execute the launch, or a sample of it."""
    num_sms = min(given.gpu.sm_count, plan.num_clusters * plan.cluster_size)
    everything = Wanted(tuple(range(plan.num_clusters)), num_sms)
    if plan.num_clusters == 1:
        return _in_full(given, everything)
    try:
        pilot = run_sample(given, Wanted((0,), plan.cluster_size, 1 / plan.num_active))
        if pilot.executed * plan.num_clusters <= given.options.max_instructions:
            with suppress(BudgetError):
                return _in_full(given, everything)
        found = _sampled(given, plan, pilot)
    except DeadlockError:  # clusters that wait for others
        return _in_full(given, everything)
    met = meeting_place(given.executable)
    if met is None:
        return found
    place, what = met
    note = f"clusters may notice each other (line {place.line} {what}): a sample does not see that"
    return replace(found, notes=(*found.notes, note))


def _in_full(given: Given, wanted: Wanted) -> _Measured:
    timeline = Timeline(given.gpu.boost_clock_mhz / 1000)
    all_of_it = run_sample(given, wanted, timeline.on)
    num = len(wanted.clusters)
    note = f"{'its only cluster' if num == 1 else f'all {num} clusters'} executed by the clock"
    return _Measured(
        all_of_it.cycles, all_of_it.flops, all_of_it.full_cycles, all_of_it.loaded_bytes,
        all_of_it.fetched_bytes, all_of_it.used_cycles, 0.0, num, (note,), timeline,
    )  # fmt: skip


def _sampled(given: Given, plan: _Plan, pilot: Sampled) -> _Measured:
    """Execute some clusters, spread over the first wave, and those that come to their SMs behind them."""
    active = min(plan.num_active, plan.num_homes)
    homes = sorted({0, active // 2, active - 1})
    reuse = look(given, range(plan.num_active), given.gpu.sm_count)
    miss, thread_miss, said = _misses(given, plan, pilot, reuse)
    share = len(homes) / active

    def of(layers: int, tell: Timeline | None = None) -> tuple[Wanted, Sampled]:
        numbers = [home + plan.num_homes * layer for layer in range(layers) for home in homes]
        chosen = tuple(number for number in numbers if number < plan.num_clusters)
        wanted = Wanted(chosen, len(homes) * plan.cluster_size, share, miss, thread_miss)
        return wanted, run_sample(given, wanted, None if tell is None else tell.on)

    rounds, timeline = min(plan.waves, ROUNDS), Timeline(given.gpu.boost_clock_mhz / 1000)
    wanted, sample = of(min(rounds * plan.per_home, plan.layers), timeline)
    cycles = sample.cycles
    if plan.waves > rounds:  # the last may be a part of a wave; all others take as long as the second
        in_last = plan.layers - (plan.waves - 1) * plan.per_home
        last = of(plan.per_home + in_last)[1] if in_last < plan.per_home else sample
        cycles = last.cycles + (plan.waves - rounds) * (sample.cycles - of(plan.per_home)[1].cycles)
    num, whole = len(wanted.clusters), plan.num_clusters / len(wanted.clusters)
    if sample.written:
        whole = 1 / sample.written
    used_cycles = {unit: used * share * whole for unit, used in sample.used_cycles.items()}
    operations = (
        f"operations counted by what the sample wrote, {sample.written:.2%} of the outputs"
        if sample.written
        else "every cluster taken to do as much as those executed: nothing is expected of an output"
    )
    notes = (
        f"{num} of {plan.num_clusters} clusters executed by the clock, on {len(homes)} of {active} places and"
        f" {rounds} of {counted(plan.waves, 'wave')}; the others taken to be alike",
        *said,
        operations,
    )
    return _Measured(
        cycles, sample.flops * whole, sample.full_cycles * whole, sample.loaded_bytes * whole,
        sample.fetched_bytes * whole, used_cycles, _spread(sample.clusters[: len(homes)]), num, notes,
        timeline,
    )  # fmt: skip


def _spread(clusters: Sequence[Ran]) -> float:
    """Return how far clusters that do as much are from their middle, as a share of the longest."""
    by_work: dict[float, list[float]] = defaultdict(list)
    for one in clusters:
        by_work[one.flops].append(one.end - one.begin)
    longest = max((one.end - one.begin for one in clusters), default=1.0)
    return max((max(of) - min(of) for of in by_work.values()), default=0.0) / 2 / longest


def _misses(
    given: Given, plan: _Plan, pilot: Sampled, reuse: Reuse | None
) -> tuple[float, float, tuple[str, ...]]:
    """Return which share of copies and of loads by threads misses L2, and what is to be said of it."""
    if reuse is None:
        return 0.0, 0.0, ("nothing is loaded from global memory",)
    t, found, said = timing(given.gpu.name), [], []
    placed = float(sum(array.nbytes for array in given.gmem.arrays if array.name not in given.outputs))
    for what, new_share, operand_bytes, loaded in (
        ("copies", reuse.new_share, reuse.operand_bytes, pilot.loaded_bytes - pilot.thread_bytes),
        ("threads", reuse.thread_share, placed, pilot.thread_bytes),
    ):
        if new_share is None:
            found.append(0.0)
            continue
        of_all = min(new_share, operand_bytes / (loaded * plan.num_clusters)) if loaded else new_share
        found.append(missing(t, new_share, of_all, operand_bytes))
        said.append(
            f"{what}: {new_share:.0%} of what {plan.num_active} clusters load side by side nobody else has"
            f" loaded, seen as they begin; operands of {operand_bytes / 1e6:.0f} MB, L2 of {t.l2_mb:g}:"
            f" {found[-1]:.0%} of the loads taken to miss it"
        )
    return found[0], found[1], tuple(said)


# -------------------------------------------------------------------- what it says
def _prediction(launch: LaunchFile, given: Given, plan: _Plan, m: _Measured, sustained: bool) -> Expected:
    gpu, t = given.gpu, timing(given.gpu.name)
    ghz = _clock(given, t, m, sustained)
    error = math.hypot(t.spread, m.sampling)
    use = m.full_cycles / (gpu.sm_count * m.cycles)
    time_us = m.cycles / ghz / 1000
    tflops = m.flops / time_us / 1e6
    used = _used(m.timeline) | {unit: cycles / m.cycles for unit, cycles in m.used_cycles.items()}
    bound, why = _bound(used)
    return Expected(
        title=f"{launch.entry} of {launch.module.name}",
        gpu=gpu.title,
        cycles=m.cycles,
        low_cycles=m.cycles * (1 - error),
        high_cycles=m.cycles * (1 + error),
        clock_mhz=gpu.boost_clock_mhz,
        share_of_peak=use,
        loaded_clock_mhz=ghz * 1000,
        time_us=time_us,
        tflops=tflops,
        low=tflops * (1 - error),
        high=tflops * (1 + error),
        bound=bound,
        why=why,
        parts_title="used in the steady state of the first SM; l2 and dram by all, from start to end",
        parts=tuple((unit, f"{share:6.1%}") for unit, share in used.items()),
        rests_on=(*m.notes, plan.occupancy, *_grounds(t, m, ghz, sustained)),
    )


def _used(timeline: Timeline) -> dict[str, float]:
    """Return the use of units in the steady state of the first SM."""
    if not timeline.sms:
        return {}
    steady = timeline.phases().steady
    return {unit: timeline.utilisation(unit, timeline.sms[0], steady) for unit in UNITS}


def _bound(used: dict[str, float]) -> tuple[str, str]:
    """Name the unit that is in use nearly always, or say that all wait for each other; and say why."""
    for unit in sorted(used, key=used.__getitem__, reverse=True):
        enough, when = (BOUND_FROM, "steady state") if unit in UNITS else (SHARED_BOUND_FROM, "launch")
        if used[unit] >= enough:
            return unit, f"in use for {used[unit]:.0%} of the {when}"
    return "latency", f"no unit is in use for {BOUND_FROM:.0%} of the steady state: they wait for each other"


def _clock(given: Given, t: Timing, m: _Measured, sustained: bool) -> float:
    """Return the SM clock under the load of the launch, in GHz."""
    gpu = given.gpu
    if not m.full_cycles:
        return gpu.boost_clock_mhz / 1000
    use = m.full_cycles / (gpu.sm_count * m.cycles)
    stored = sum(array.nbytes for array in given.gmem.arrays if array.name in given.outputs)
    moved = m.fetched_bytes + stored
    ghz = clock_under(t, arch.load(gpu.name), 1.0, sustained)
    for _ in range(16):
        dram_use = moved * ghz / (m.cycles * t.dram_tb_per_s * 1000)
        load = load_on_clock(t, use, m.loaded_bytes / m.full_cycles, dram_use)
        ghz = clock_under(t, arch.load(gpu.name), load, sustained)
    return ghz


def _grounds(t: Timing, m: _Measured, ghz: float, sustained: bool) -> tuple[str, ...]:
    """Say what the error bar and the clock rest on."""
    apart = f"; with {m.sampling:.1%}, by which the executed clusters differ" if m.sampling else ""
    clock = (
        clock_ground(t, ghz * 1000, sustained) if m.full_cycles else "the boost clock: no tensor operation"
    )
    return (
        f"the range is that of the closed form on published GEMMs, {range_ground(t)}{apart}",
        clock,
        "nobody has held this kernel against a B200",
    )
