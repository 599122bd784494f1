"""What is expected of a launch or of a configuration, in lines of text."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from drywell.report.text import Lines

if TYPE_CHECKING:
    from drywell.plan.expected import Expected

WIDTH = 104


def prediction_lines(found: Expected) -> Lines:
    """Return cycles and share of the peak at a fixed clock, then TFLOP/s with its range, then the reasons."""
    lines = [
        f"{found.title} on {found.gpu}",
        f"  cycles    {found.cycles:>11,.0f} at {found.clock_mhz} MHz"
        f" ({found.low_cycles:,.0f} to {found.high_cycles:,.0f})",
        f"  of peak   {found.share_of_peak:>11.1%} of what all tensor pipes can do in these cycles",
    ]
    if found.tflops:
        lines.append(
            f"  TFLOP/s   {found.tflops:>11,.0f} ({found.low:,.0f} to {found.high:,.0f}),"
            f" {found.time_us:,.1f} us at {found.loaded_clock_mhz:.0f} MHz, as expected under this load"
        )
    else:
        lines.append(f"  time      {found.time_us:>11,.1f} us; no tensor operations, so no TFLOP/s")
    lines.append(f"  bound by  {found.bound:>11}")
    lines.append(f"  {found.parts_title}")
    width = max((len(name) for name, _ in found.parts), default=0)
    lines += [f"    {name:<{width}}  {value}" for name, value in found.parts]
    lines.append("  rests on")
    for ground in found.rests_on:
        lines += wrap(ground, WIDTH, initial_indent="    - ", subsequent_indent="      ")
    return tuple((line,) for line in lines)
