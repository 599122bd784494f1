"""What is expected of a kernel: cycles at a fixed clock, TFLOP/s at the clock under its load."""

from __future__ import annotations

from textwrap import wrap

from drywell import arch
from drywell.arch.timing import Timing, timing
from drywell.base.record import record
from drywell.plan.gemm import BOUNDS, PARTS, Launch, predict, three
from drywell.plan.gemm_config import GemmConfig

_WIDTH = 104

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

    `bound` is what limits it at `loaded_clock_mhz`, `why` the same in words; `parts` are names and words
    under `parts_title`; `rests_on` says on what all this rests.
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
    why: str
    parts_title: str
    parts: tuple[tuple[str, str], ...]
    rests_on: tuple[str, ...]

    @property
    def text(self) -> str:
        """Cycles and share of the peak at a fixed clock, TFLOP/s with its range, and the grounds."""
        lines = [
            f"{self.title} on {self.gpu}",
            f"  cycles    {self.cycles:>11,.0f} at {self.clock_mhz} MHz"
            f" ({self.low_cycles:,.0f} to {self.high_cycles:,.0f})",
            f"  of peak   {self.share_of_peak:>11.1%} of what all tensor pipes can do in these cycles",
            f"  time      {three(self.time_us):>11} us; no tensor operations, so no TFLOP/s",
        ]
        if self.tflops:
            lines[-1] = (
                f"  TFLOP/s   {three(self.tflops):>11} ({three(self.low)} to {three(self.high)}),"
                f" {three(self.time_us)} us at {self.loaded_clock_mhz:.0f} MHz, as expected under this load"
            )
        lines += wrap(f"  bound by  {self.bound:>11}: {self.why}", _WIDTH, subsequent_indent=" " * 25)
        lines.append(f"  {self.parts_title}")
        width = max((len(name) for name, _ in self.parts), default=0)
        lines += [f"    {name:<{width}}  {value}" for name, value in self.parts]
        lines.append("  rests on")
        for ground in self.rests_on:
            lines += wrap(ground, _WIDTH, initial_indent="    - ", subsequent_indent="      ")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the text."""
        return self.text


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
    at_fixed = "" if fixed.bound == loaded.bound else f"; at {mhz} MHz, {fixed.bound}: {BOUNDS[fixed.bound]}"
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
        bound=loaded.bound,
        why=BOUNDS[loaded.bound] + at_fixed,
        parts_title=f"microseconds at {loaded.clock_mhz:.0f} MHz",
        parts=tuple((name, f"{us:8.2f}  {PARTS[name]}") for name, us in loaded.breakdown.items()),
        rests_on=(
            f"the closed form of docs/design/prediction.md; nothing was executed. Timed: {_COVERED[launch]}",
            range_ground(t),
            clock_ground(t, loaded.clock_mhz, sustained),
        ),
    )


def range_ground(t: Timing) -> str:
    """Say how wide the range is, and what that rests on."""
    spread = t.fact("spread")
    return f"+-{spread.value:.0%} [{spread.tag}: {spread.source}]"


def clock_ground(t: Timing, mhz: float, sustained: bool) -> str:
    """Say how the clock was found, and what that rests on."""
    full = t.fact("clock_full_sustained_ghz" if sustained else "clock_full_ghz")
    return (
        f"{mhz:.0f} MHz under load: the clock falls in a straight line with the use of tensor pipe, L2 and"
        f" DRAM, through {full.value * 1000:.0f} MHz [{full.tag}: {full.source}]"
    )
