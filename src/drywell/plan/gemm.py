"""The closed-form time of a GEMM on a whole GPU: main loop, epilogue, waves, memory, launch and the clock.

docs/design/prediction.md says where each formula is from; docs/validation.md what it is worth.
"""

from __future__ import annotations

from typing import Literal

from drywell.arch import Gpu, load
from drywell.arch.tensor_pipe import mma_interval_cycles, mma_overhead_cycles
from drywell.arch.timing import Timing, timing
from drywell.base.errors import UnsupportedError
from drywell.base.record import record
from drywell.plan.gemm_config import ROW_BLOCK, GemmConfig
from drywell.plan.power import clock_under, load_on_clock
from drywell.plan.traffic import Traffic, traffic

Launch = Literal["kernel", "stream", "alone", "host"]
"""What the time covers beside the kernel: nothing (a profiler's duration), the gap to a stream's next
launch, events around one launch, or a launch and the wait for it by the host's clock.
"""

BOUNDS = {
    "tensor": "the tensor pipe works nearly all the time",
    "tma": "the copy engine takes longer for the rows of a step than the pipe for its mma",
    "l2": "L2 takes longer to deliver a step than the pipe for its mma",
    "dram": "DRAM takes longer for the loads and stores of a step than the pipe for its mma",
    "latency": "a load's way from issue to mma is longer than the stages in flight can hide",
    "mma_wait": "one thread waits for each mma before it goes on",
    "epilogue": "reading the accumulators and storing C takes longer than the main loop",
    "launch": "launch and first load take longer than the main loop",
}
"""What limits a prediction, and what that means."""

PARTS = {
    "tensor": "the tensor pipe works",
    "mainloop_stall": "it waits within the main loop",
    "launch": "launch, and the cold start of the first load",
    "fill": "a tile's first load, with nothing under it",
    "epilogue": "reading and storing C, with no main loop under it",
    "handover": "between two tiles of a CTA",
    "setup": "barriers, allocation, the gap between CTAs",
}
"""The parts of the time of a prediction, and what happens in them."""

_TMEM_CELL_BYTES = 4
_WARPS_OF_BLOCK = 4
_STORE_BYTES = 16
"""What a lane stores at once, in a row of its own; an SM sends one such store a cycle on its way."""

_ROUNDS = 16


@record
class Prediction:
    """What a configuration is expected to do: one call, microseconds, SM cycles at `clock_mhz`, TFLOP/s.

    `bound` names what limits it, one of `BOUNDS`, and `breakdown` splits `time_us` into the `PARTS`.
    `utilisation` is the share of the tensor pipe's cycles in use. `low` and `high` are TFLOP/s that nine in
    ten kernels keep.
    """

    tflops: float
    cycles: float
    time_us: float
    clock_mhz: float
    utilisation: float
    bound: str
    breakdown: dict[str, float]
    low: float
    high: float

    def __str__(self) -> str:
        """Return it in one line."""
        return (
            f"{three(self.tflops)} TFLOP/s ({three(self.low)} to {three(self.high)}), bound by {self.bound}:"
            f" {three(self.time_us)} us, {self.cycles:,.0f} cycles at {self.clock_mhz:.0f} MHz"
        )


def three(value: float) -> str:
    """Return a number with three digits at least, as people write it.

    >>> three(1404.4), three(66.04), three(4.5), three(0.34597)
    ('1,404', '66.0', '4.50', '0.346')
    """
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


@record
class _Work:
    """What does not depend on the clock: one K step and one epilogue, in cycles, and the traffic."""

    config: GemmConfig
    t: Timing
    moved: Traffic
    sm_count: int
    ctas_per_sm: int
    mma: float
    tensor: float
    tail: float
    epilogue: float
    drain: float
    overhead_ns: float


def predict(
    config: GemmConfig,
    gpu: str = "b200",
    *,
    launch: Launch = "stream",
    sustained: bool = False,
    clock_mhz: float | None = None,
) -> Prediction:
    """Predict the time of one call of `config` on `gpu`, in closed form.

    The clock falls with the load unless `clock_mhz` fixes it; `sustained` says that the GPU has been under
    load for half a second or longer. LaunchError says what does not fit; UnsupportedError is for A in Tensor
    Memory. TypeError is for what is no GemmConfig: `predict_launch` predicts a launch file.

    Example:
        >>> run = predict(GemmConfig(8192, 8192, 8192, tile=(256, 256, 64), stages=6, cta_group=2, raster=8))
        >>> run.bound, 1000 < run.low < run.tflops < run.high < 2000
        ('tensor', True)
    """
    if not isinstance(config, GemmConfig):
        raise TypeError(f"predict takes a GemmConfig, not {config!r}; predict_launch takes a launch file")
    return evaluate(config, load(gpu), timing(gpu), launch, sustained, clock_mhz)


def evaluate(
    config: GemmConfig, gpu: Gpu, t: Timing, launch: Launch, sustained: bool, clock_mhz: float | None = None
) -> Prediction:
    """Predict with the numbers of `t`; `predict` with the GPU's own."""
    config.check(gpu)
    if config.a_in_tmem:
        raise UnsupportedError("a GEMM with A in Tensor Memory is not predicted: threads write A each step")
    w = _work(config, gpu, t, launch)
    ghz = clock_mhz / 1000 if clock_mhz else clock_under(t, gpu, 1.0, sustained)
    for _ in range(_ROUNDS):
        step, bound = _step(w, ghz)
        parts = _parts(w, step, ghz)
        cycles = sum(parts.values())
        if clock_mhz:
            break
        last, ghz = ghz, clock_under(t, gpu, _load(w, cycles, ghz), sustained)
        if abs(ghz - last) < 1e-6:
            break
    return _prediction(w, parts, bound, ghz)


def _work(c: GemmConfig, gpu: Gpu, t: Timing, launch: Launch) -> _Work:
    """Count the cycles of one K step on the tensor pipe and of one tile's epilogue."""
    ctas = c.resident_ctas(gpu)
    M, N = c.mma_shape
    mma = c.mmas_per_step * mma_interval_cycles(t, M, N, c.cta_group)
    overhead_us = {
        "kernel": 0.0, "stream": t.launch_stream_us, "alone": t.launch_alone_us, "host": t.launch_host_us,
    }[launch]  # fmt: skip
    epilogue, drain = _epilogue_cycles(c, t)
    return _Work(
        config=c,
        t=t,
        moved=traffic(c, gpu, t, ctas),
        sm_count=gpu.sm_count,
        ctas_per_sm=ctas,
        mma=mma,
        tensor=mma + c.scale_bytes / t.scale_copy_bytes_per_cycle,
        tail=mma_overhead_cycles(t, M, c.cta_group, block_scaled=c.scale_vec is not None),
        epilogue=epilogue,
        drain=drain,
        overhead_ns=overhead_us * 1000 + t.first_load_ns,
    )


def _epilogue_cycles(c: GemmConfig, t: Timing) -> tuple[float, float]:
    """Return the cycles from a finished accumulator to its last store, and from there until it has left."""
    cols = c.accumulator_cols * _WARPS_OF_BLOCK / c.epilogue_warps
    subtiles = -(-cols // c.epilogue_cols)
    read = ROW_BLOCK * _TMEM_CELL_BYTES / (t.tmem_read_bytes_per_cycle_per_warp * _WARPS_OF_BLOCK)
    write = ROW_BLOCK * c.c_bytes / t.smem_bytes_per_cycle
    if c.epilogue == "direct":
        stores = ROW_BLOCK * (c.c_bytes - 2) / _STORE_BYTES  # the wait was measured with those of two bytes
        return subtiles * t.tmem_load_wait_cycles + cols * (read + write + stores), 0.0
    last_rows = ROW_BLOCK * c.epilogue_cols * c.c_bytes / 128
    return (
        subtiles * t.epilogue_subtile_cycles + cols * (read + write),
        t.store_drain_cycles + last_rows * t.tma_row_cycles,
    )


def _step(w: _Work, ghz: float) -> tuple[float, str]:
    """Return the cycles of one K step of one CTA, and what bounds it."""
    c, t, moved = w.config, w.t, w.moved
    loaded = moved.active_ctas * moved.step_bytes
    stored = moved.active_ctas * moved.output_bytes / moved.num_steps
    copy = moved.step_rows * moved.row_cycles
    l2 = loaded / t.l2_tb_per_s / 1000 * ghz
    dram = loaded * moved.miss / t.dram_tb_per_s / 1000 * ghz
    arrival = _fill(w, ghz) + max(copy, l2, dram)
    wake = t.commit_cycles + t.wake_cycles
    chain = arrival + w.tensor + w.tail + wake
    if c.stages == 1:
        return max(chain, w.tensor * w.ctas_per_sm, copy * w.ctas_per_sm, l2), "latency"
    ahead = c.lookahead or c.stages
    waits = {
        "tensor": w.tensor * w.ctas_per_sm,
        "tma": copy * w.ctas_per_sm,
        "l2": l2,
        "dram": dram + stored / t.dram_tb_per_s / 1000 * ghz,
        "latency": chain / ahead,
    }
    if not c.warp_specialized:
        waits["mma_wait"] = w.tensor + w.tail + wake
        if ahead < c.stages:
            waits["latency"] = (arrival + wake) / ahead
    return _queued(t, *waits.values()), max(waits, key=waits.__getitem__)


def _fill(w: _Work, ghz: float) -> float:
    """Return the cycles from the issue of a load to its first byte."""
    return (w.t.tma_latency_ns + w.moved.miss * w.t.dram_extra_latency_ns) * ghz


def _queued(t: Timing, *times: float) -> float:
    """Join the times of units that wait for each other: the longest, and more where others are as long."""
    longest = max(times)
    power = sum((time / longest) ** t.queue_norm for time in times)
    return float(longest * power ** (1 / t.queue_norm))


def _parts(w: _Work, step: float, ghz: float) -> dict[str, float]:
    """Return the cycles of a call by part; `tensor` are those in which the pipe works."""
    c, t, moved = w.config, w.t, w.moved
    waves, steps = moved.num_waves, moved.num_steps
    fill = _fill(w, ghz) + moved.step_rows * moved.row_cycles
    parts = {
        "tensor": waves * steps * w.tensor,
        "mainloop_stall": waves * steps * (step - w.tensor),
        "launch": w.overhead_ns * ghz,
    }
    if not c.persistent:
        parts["fill"] = waves * fill
        parts["epilogue"] = waves * (w.epilogue + w.drain)
        parts["setup"] = (waves * (t.cta_setup_ns + t.cta_gap_ns) - t.cta_gap_ns) * ghz
        return parts
    main = steps * step
    handover = t.tile_handover_ns * ghz if c.accumulators > 1 else 0.0
    exposed = (
        _queued(t, main + handover, w.epilogue + w.tail) - main - handover
        if c.accumulators > 1
        else w.epilogue
    )
    parts["fill"] = fill
    parts["epilogue"] = waves * exposed + w.epilogue + w.drain
    parts["handover"] = (waves - 1) * handover
    parts["setup"] = t.cta_setup_ns * ghz
    return parts


def _load(w: _Work, cycles: float, ghz: float) -> float:
    """Return the load that the clock falls with."""
    t, moved = w.t, w.moved
    ctas = moved.num_tiles * w.config.cta_group
    use = ctas * moved.num_steps * w.mma / (w.sm_count * cycles)
    dram_bytes = ctas * (moved.step_bytes * moved.miss * moved.num_steps + moved.output_bytes)
    dram_use = dram_bytes / (t.dram_tb_per_s * 1000) * ghz / cycles
    return load_on_clock(t, use, moved.step_bytes / w.mma, dram_use)


def _prediction(w: _Work, parts: dict[str, float], bound: str, ghz: float) -> Prediction:
    """Turn cycles into what a reader asks for."""
    c, moved = w.config, w.moved
    cycles = sum(parts.values())
    time_us = cycles / ghz / 1000
    tflops = 2 * c.m * c.n * c.k / time_us / 1e6
    busy = moved.num_tiles * c.cta_group * moved.num_steps * w.mma
    loop = parts["tensor"] + parts["mainloop_stall"]
    others = {name: part for name, part in parts.items() if name in ("epilogue", "launch")}
    heaviest = max(others, key=others.__getitem__)
    return Prediction(
        tflops=tflops,
        cycles=cycles,
        time_us=time_us,
        clock_mhz=ghz * 1000,
        utilisation=busy / (w.sm_count * cycles),
        bound=bound if loop >= others[heaviest] else heaviest,
        breakdown={name: part / ghz / 1000 for name, part in parts.items()},
        low=tflops * (1 - w.t.spread),
        high=tflops * (1 + w.t.spread),
    )
