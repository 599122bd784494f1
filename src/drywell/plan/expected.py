"""What is expected of a kernel: cycles at a fixed clock, TFLOP/s at the clock under its load."""

from __future__ import annotations

from drywell import arch
from drywell.arch.timing import timing
from drywell.base.record import record
from drywell.plan.gemm import Launch, predict
from drywell.plan.gemm_config import GemmConfig

_COVERED = {
    "kernel": "the kernel alone, as a profiler does",
    "stream": "the kernel and the gap to the next of its stream",
    "alone": "one launch between two events",
    "host": "a launch and the wait for it, by the host's clock",
}


@record
class Expected:
    """SM cycles at `clock_mhz` (`low_cycles` to `high_cycles`), and the share of the tensor pipes' peak that
    is reached then, 0 to 1; microseconds and TFLOP/s (`low` to `high`) at `loaded_clock_mhz`, the clock that
    is expected under this load.

    `bound` is what limits it; `parts` are names and words under `parts_title`; `rests_on` says on what all
    this rests.
    """

    title: str
    gpu: str
    cycles: float
    low_cycles: float
    high_cycles: float
    clock_mhz: int
    share_of_peak: float
    loaded_clock_mhz: float
    time_us: float
    tflops: float
    low: float
    high: float
    bound: str
    parts_title: str
    parts: tuple[tuple[str, str], ...]
    rests_on: tuple[str, ...]


def expected_of(
    config: GemmConfig,
    gpu: str = "b200",
    *,
    launch: Launch = "stream",
    sustained: bool = False,
    clock_mhz: int | None = None,
) -> Expected:
    """Return what is expected of a configuration: in closed form, twice, at a fixed clock (default: the boost
    clock) and at that under its load. The errors are those of `predict`.

    >>> found = expected_of(GemmConfig(8192, 8192, 8192, tile=(256, 256, 64), stages=6, cta_group=2))
    >>> found.clock_mhz, found.low < found.tflops < found.high, 0.5 < found.share_of_peak < 1
    (1965, True, True)
    """
    machine, t = arch.load(gpu), timing(gpu)
    mhz = clock_mhz or machine.boost_clock_mhz
    fixed = predict(config, gpu, launch=launch, sustained=sustained, clock_mhz=mhz)
    loaded = predict(config, gpu, launch=launch, sustained=sustained)
    spread, full = t.fact("spread"), t.fact("clock_full_sustained_ghz" if sustained else "clock_full_ghz")
    return Expected(
        title=f"GEMM {config.m} x {config.n} x {config.k}, {config.dtype}",
        gpu=machine.title,
        cycles=fixed.cycles,
        low_cycles=fixed.cycles * (1 - t.spread),
        high_cycles=fixed.cycles * (1 + t.spread),
        clock_mhz=mhz,
        share_of_peak=fixed.utilisation,
        loaded_clock_mhz=loaded.clock_mhz,
        time_us=loaded.time_us,
        tflops=loaded.tflops,
        low=loaded.low,
        high=loaded.high,
        bound=fixed.bound,
        parts_title=f"microseconds at {loaded.clock_mhz:.0f} MHz",
        parts=tuple((name, f"{us:8.2f}") for name, us in loaded.breakdown.items()),
        rests_on=(
            f"the closed form of docs/design/prediction.md; nothing was executed. Timed: {_COVERED[launch]}",
            f"+-{spread.value:.0%} [{spread.tag}: {spread.source}]",
            f"the clock falls in a straight line with the load, to {full.value:g} GHz [{full.tag}:"
            f" {full.source}]",
        ),
    )
