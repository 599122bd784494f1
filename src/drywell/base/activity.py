"""What one warp did in a run, for the reports."""

from __future__ import annotations

from drywell.base.record import record
from drywell.base.span import Span


@record
class WarpActivity:
    """What one warp did: warp instructions per unit, and where it did its asynchronous and waiting work.

    `cta` is (x, y, z); `sites` are (place, instruction, times executed) in program order.
    """

    cta: tuple[int, int, int]
    warp: int
    units: dict[str, int]
    sites: tuple[tuple[Span, str, int], ...]
