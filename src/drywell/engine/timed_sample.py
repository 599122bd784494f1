"""A timed run of some of the clusters of a launch, with what the others leave of L2 and DRAM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from drywell.arch import Gpu
from drywell.arch.timing import timing
from drywell.base.errors import BudgetError
from drywell.base.options import Options
from drywell.base.record import record
from drywell.engine.lent import lent_threaded
from drywell.engine.native.clock_words import MEMORY
from drywell.engine.native.tensor_core_multiplier import Multiplier
from drywell.engine.run import Launch, grid_of, native_of
from drywell.engine.timed import Tell, TimedScheduler
from drywell.engine.timed_units import Flight, Units
from drywell.machine.gmem import GlobalArray, GlobalMemory
from drywell.machine.queue import AsyncOp, Traffic
from drywell.machine.tensor_map import ELEMENT_TYPES
from drywell.machine.tma import read_map
from drywell.program.arrivals import arrivals
from drywell.program.link import Executable

LOOK_FOR, LOOK_ON = 8_000, 400
"""Cycles from the start of a launch after which nobody is expected to load for the first time, and those for
which all are looked at when they have.
"""


_UNTOUCHED = 0xDB
"""What each byte of an output holds before."""


@record
class Wanted:
    """What a sample is of: clusters by number in launch order, the SMs that they have to themselves, the
    share of L2 and DRAM that goes with these, and those of copies and of loads by threads that miss L2 (None:
    what is loaded for the first time).
    """

    clusters: tuple[int, ...]
    num_sms: int
    share: float = 1.0
    miss: float | None = None
    thread_miss: float | None = None


@record
class Ran:
    """One cluster from `begin` to `end`, in cycles, and its operations of the tensor pipe."""

    begin: float
    end: float
    flops: float


@record
class Sampled:
    """What a sample did: cycles until all was done; its clusters, in order of ending; operations of the
    tensor pipes and the cycles these take at their peak, all SMs added up; bytes loaded from L2, those of
    them that threads loaded and that came from DRAM; the cycles that the sample's share of L2 and of DRAM was
    in use; warp instructions; how many clusters were taken over by running ones; the share of the outputs'
    bytes that were written.
    """

    cycles: float
    clusters: tuple[Ran, ...]
    flops: float
    full_cycles: float
    loaded_bytes: float
    thread_bytes: float
    fetched_bytes: float
    used_cycles: dict[str, float]
    executed: int
    num_taken_over: int
    written: float


@record
class Reuse:
    """What clusters that run side by side share of their loads: the share of the bytes that nobody else has
    loaded before, and the bytes of the tensors that they load from; that share of what threads load (None:
    nothing is loaded so).
    """

    new_share: float | None
    operand_bytes: float
    thread_share: float | None


@record
class Given:
    """A launch as a sample takes it; `outputs` are the names of the arrays that it has to write."""

    executable: Executable
    launch: Launch
    gmem: GlobalMemory
    addresses: dict[str, int]
    gpu: Gpu
    options: Options
    outputs: tuple[str, ...] = ()


class _SampledUnits(Units):
    """Units whose loads miss L2 at a given rate, evenly."""

    def __init__(self, wanted: Wanted, given: Given) -> None:
        super().__init__(timing(given.gpu.name), given.gpu.boost_clock_mhz / 1000, wanted.share)
        self.flops_of: dict[Any, float] = defaultdict(float)
        self._miss = wanted.miss
        self._owed = 0.0  # loads that should have missed and have not
        if wanted.thread_miss is not None:
            self.times[MEMORY["miss"]] = wanted.thread_miss

    def fly(self, op: AsyncOp, now: float) -> Flight:
        """Put an operation on its unit, and note whose it is."""
        before = self.flops
        flight = super().fly(op, now)
        if self.flops > before:
            self.flops_of[op.warp.cluster.origin] += self.flops - before
        return flight

    def fetched(self, op: AsyncOp, traffic: Traffic) -> int:
        """Return how many bytes of a load come from DRAM: all of them, as often as was asked for."""
        if self._miss is None:
            return super().fetched(op, traffic)
        self._owed += self._miss
        is_due = self._owed >= 1.0
        self._owed -= is_due
        return is_due * traffic.rows * traffic.row_bytes


class _LookingUnits(Units):
    """Units that note what each cluster loads: the names of the boxes and their bytes."""

    def __init__(self, given: Given) -> None:
        super().__init__(timing(given.gpu.name), given.gpu.boost_clock_mhz / 1000)
        self.loads: dict[Any, dict[Any, list[tuple[Any, int]]]] = {}
        self.operands: dict[Any, float] = {}

    def fetched(self, op: AsyncOp, traffic: Traffic) -> int:
        """Note a load."""
        key, num_bytes = traffic.key, traffic.rows * traffic.row_bytes
        pointer = getattr(key, "pointer", None)
        by_tensor = self.loads.setdefault(op.warp.cluster.origin, {})
        by_tensor.setdefault(pointer, []).append((key, num_bytes))
        if pointer is not None and pointer not in self.operands:
            tensor = read_map(op.warp, pointer)
            self.operands[pointer] = prod(tensor.global_dim) * ELEMENT_TYPES[tensor.elemtype].bits / 8
        return 0

    def thread_share(self) -> float | None:
        """Return which share of the bytes that threads load nobody else has loaded before."""
        loaded = self.loaded_bytes - self.copied_bytes
        return float(self.words[MEMORY["fetched"]]) / loaded if loaded else None

    def new_share(self) -> float | None:
        """Return which share of the bytes nobody else has loaded before; of each tensor as many loads of each
        cluster count as all of those that load from it have made.
        """
        if not self.loads:
            return None
        new = total = 0.0
        for pointer in {pointer for by_tensor in self.loads.values() for pointer in by_tensor}:
            mine = [by_tensor[pointer] for by_tensor in self.loads.values() if pointer in by_tensor]
            most = min(map(len, mine))
            taken = [load for loads in mine for load in loads[:most]]
            share = sum(size for _, size in set(taken)) / sum(size for _, size in taken)
            weight = sum(size for loads in mine for _, size in loads)
            new, total = new + share * weight, total + weight
        return new / total


class _Sampler(TimedScheduler):
    """Notes when clusters begin and end."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.began: dict[int, tuple[Any, float]] = {}
        self.spans: list[tuple[Any, float, float]] = []

    def _admit(self) -> bool:
        known = len(self.gangs)
        begun = super()._admit()
        for gang in self.gangs[known:]:
            self.began[id(gang)] = gang.ctas[0].cluster.origin, self.now
        return begun

    def _reap(self, gangs: Any) -> None:
        before = list(gangs)
        super()._reap(gangs)
        for gang in before:
            if gang.has_ended and id(gang) in self.began:
                self.spans.append((*self.began.pop(id(gang)), self.now))

    def look(self, num_clusters: int) -> None:
        """Run until that many clusters have loaded something and a little on, none is expected to, or the
        budget is spent.
        """
        assert isinstance(self.units, _LookingUnits)
        self._admit()
        end, has_all = self.now + LOOK_FOR, False
        with suppress(BudgetError):
            while self._go_on(end):
                if not has_all and len(self.units.loads) >= num_clusters:
                    end, has_all = min(end, self.now + LOOK_ON), True


def run_sample(given: Given, wanted: Wanted, tell: Tell | None = None) -> Sampled:
    """Run a sample by the clock; global memory is put back. The errors are those of a launch."""
    with lent_threaded(given.executable, given.addresses) as threaded, np.errstate(all="ignore"):
        units = _SampledUnits(wanted, given)
        driver = _driver(given, wanted, threaded, tell, units)
        for array in _outputs(given):
            given.gmem.content(array)[:] = _UNTOUCHED
        try:
            driver.run()
            return Sampled(
                driver.now,
                tuple(Ran(begin, end, units.flops_of[who]) for who, begin, end in driver.spans),
                units.flops,
                units.full_cycles,
                units.loaded_bytes,
                units.loaded_bytes - units.copied_bytes,
                float(units.words[MEMORY["fetched"]]),
                {unit: float(units.times[MEMORY[f"{unit}_used"]]) for unit in ("l2", "dram")},
                driver.interpreter.executed,
                driver.grid.num_cancelled // driver.grid.cluster_size,
                _written(given),
            )
        finally:
            _put_back(given, driver)


def _outputs(given: Given) -> list[GlobalArray]:
    return [array for array in given.gmem.arrays if array.name in given.outputs]


def _written(given: Given) -> float:
    """Return the share of the outputs that was written, looked at eight bytes at a time: some of these are
    not what they were.
    """
    written = total = 0
    for array in _outputs(given):
        content = given.gmem.content(array)
        words = content[: len(content) // 8 * 8].view(np.uint64)
        written += int(np.count_nonzero(words != int.from_bytes([_UNTOUCHED] * 8)))
        total += len(words)
    return written / total if total else 0.0


def look(given: Given, clusters: Sequence[int], num_sms: int) -> Reuse | None:
    """Let clusters begin, all side by side, and say what they share of what they load at first; None when
    they load nothing. Global memory is put back.
    """
    wanted = Wanted(tuple(clusters), num_sms)
    with lent_threaded(given.executable, given.addresses) as threaded, np.errstate(all="ignore"):
        units = _LookingUnits(given)
        driver = _driver(given, wanted, threaded, None, units)
        try:
            driver.look(len(clusters))
        finally:
            _put_back(given, driver)
    found = Reuse(units.new_share(), sum(units.operands.values()), units.thread_share())
    return None if found.new_share is found.thread_share is None else found


def _driver(given: Given, wanted: Wanted, threaded: Any, tell: Tell | None, units: Units) -> _Sampler:
    """Return what drives a grid that has only the clusters of a sample."""
    launch, options = given.launch, replace(given.options, schedule="timed", sms=wanted.num_sms)
    grid = grid_of(given.executable, launch, given.gmem, given.gpu, options)
    grid.multiplier = Multiplier()
    grid.confine(*(_first_cta(launch, number) for number in wanted.clusters))
    native = None
    if options.engine != "interpreter":
        native = native_of(given.executable, given.addresses, threaded, grid)
    sites = partial(arrivals, given.executable)
    return _Sampler(threaded, grid, options, sites, given.executable, tell, units, native)


def _first_cta(launch: Launch, number: int) -> int:
    """Return the number of the first CTA of a cluster."""
    (gx, gy, _), (cx, cy, cz) = launch.grid, launch.cluster
    across, along = gx // cx, gy // cy
    x, y, z = number % across * cx, number // across % along * cy, number // (across * along) * cz
    return x + gx * (y + gy * z)


def _put_back(given: Given, driver: _Sampler) -> None:
    driver.close()
    driver.grid.let_go_of_all()
    given.gmem.restore()
