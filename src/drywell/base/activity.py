"""What one warp did in a run, for the reports."""

from __future__ import annotations

from dataclasses import dataclass

from drywell.base.span import Span


@dataclass(frozen=True, slots=True)
class WarpActivity:
    """What one warp did: warp instructions per unit, and where it did its asynchronous and waiting work.

    `cta` is (x, y, z); `sites` are (place, instruction, times executed) in program order.
    """

    cta: tuple[int, int, int]
    warp: int
    units: dict[str, int]
    sites: tuple[tuple[Span, str, int], ...]
