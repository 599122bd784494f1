"""Where Drywell means to differ from an H200, each with its row of DEVIATIONS.md."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oracle.hardware.replay import Difference


@dataclass(frozen=True, slots=True)
class Known:
    """Differences that stand: `experiment` and `part` are patterns for the whole name; `row` is theirs in
    DEVIATIONS.md; `why` says what the H200 does and why Drywell does not.

    Every experiment that the pattern names must differ, so that no row outlives its difference.
    """

    experiment: str
    part: str
    row: str
    why: str

    def names(self, experiment: str) -> bool:
        """Say whether it is about an experiment."""
        return re.fullmatch(self.experiment, experiment) is not None

    def covers(self, difference: Difference) -> bool:
        """Say whether it accounts for a difference."""
        return self.names(difference.experiment) and re.fullmatch(self.part, difference.part) is not None


KNOWN: tuple[Known, ...] = (
    Known(
        "bulk/fault (load|store) size",
        "ended",
        "A33",
        "the manual leaves such a size undefined; the H200 rounds it down, Drywell reports it",
    ),
    Known(
        "bulk/fault send to itself",
        "ended",
        "A26",
        "the manual leaves it undefined; the H200 carries it out, Drywell reports it",
    ),
    Known(
        "constants/shifts",
        r"sh[lr]\.[bs]16 .*, 0x10000;",
        "P14",
        "the compiler cuts the constant to 16 bits; Drywell shifts all bits out, as the manual says",
    ),
    Known(
        "mbarrier/undefined_(arrive_none|no_complete_completes|init_0)",
        "ended",
        "A5",
        "the manual leaves it undefined; the H200 goes on, Drywell reports it",
    ),
    Known(
        "barriers/fault_number_16",
        "ended",
        "A5",
        "the manual has no such barrier; the H200 goes on, Drywell reports it",
    ),
)
