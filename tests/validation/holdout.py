"""Predict rows of ladders.csv with parameters that never saw their source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from drywell.arch.timing import timing
from validation.fit import fit_ladders, tflops, with_numbers
from validation.ladders import Row, rows, scored
from validation.scores import errors, mape, spearman


@dataclass(frozen=True, slots=True)
class Holdout:
    """The rows of one set, each predicted without those of its group, and each group's parameters."""

    rows: tuple[Row, ...]
    tflops: tuple[float, ...]
    parameters: dict[str, dict[str, float]]

    @property
    def measured(self) -> tuple[float, ...]:
        """What the rows reached, in TFLOP/s."""
        return tuple(row.measured_tflops for row in self.rows)

    @property
    def mape(self) -> float:
        """Mean absolute error, in per cent."""
        return mape(self.tflops, self.measured)

    @property
    def spearman(self) -> float:
        """Rank correlation over all rows."""
        return spearman(self.tflops, self.measured)

    def error_quantile(self, share: float) -> float:
        """Return the absolute error, in per cent, that `share` of the rows keep."""
        return float(100 * np.quantile(np.abs(errors(self.tflops, self.measured)), share))

    def steps(self) -> tuple[tuple[str, str, bool], ...]:
        """Return each step of a ladder, from one row to its source's next: is its sign predicted."""
        of_source: dict[str, list[int]] = {}
        for index, row in enumerate(self.rows):
            of_source.setdefault(row.source, []).append(index)
        return tuple(
            (
                self.rows[a].id,
                self.rows[b].id,
                np.sign(self.measured[b] - self.measured[a]) == np.sign(self.tflops[b] - self.tflops[a]),
            )
            for indices in of_source.values()
            for a, b in pairwise(indices)
        )


@cache
def by_source() -> Holdout:
    """Leave out one source of the score at a time."""
    return leave_out(scored(), lambda row: row.source)


@cache
def by_author() -> Holdout:
    """Leave out all sources of one author at a time."""
    return leave_out(scored(), lambda row: row.author)


@cache
def everything() -> Holdout:
    """Leave out one author at a time with no row excluded."""
    return leave_out(rows(), lambda row: row.author)


def leave_out(chosen: Sequence[Row], group: Callable[[Row], str]) -> Holdout:
    """Predict each of `chosen` with LADDERS fitted on the rows of all other groups."""
    t = timing("b200")
    predicted: dict[str, float] = {}
    parameters: dict[str, dict[str, float]] = {}
    for held in dict.fromkeys(map(group, chosen)):
        fitted = fit_ladders(t, [row for row in chosen if group(row) != held])
        parameters[held] = fitted
        predicted |= {row.id: tflops(row, with_numbers(t, fitted)) for row in chosen if group(row) == held}
    return Holdout(tuple(chosen), tuple(predicted[row.id] for row in chosen), parameters)
