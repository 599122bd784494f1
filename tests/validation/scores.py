"""Errors and rank correlation of predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def errors(predicted: Sequence[float] | Floats, measured: Sequence[float] | Floats) -> Floats:
    """Return the relative errors, signed."""
    return np.asarray(predicted, float) / np.asarray(measured, float) - 1


def mape(predicted: Sequence[float] | Floats, measured: Sequence[float] | Floats) -> float:
    """Return the mean absolute relative error, in per cent."""
    return float(100 * np.abs(errors(predicted, measured)).mean())


def ranks(values: Sequence[float] | Floats) -> Floats:
    """Return the rank of each value from 0; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(((ends - counts) + (ends - 1))[inverse] / 2, float)


def spearman(predicted: Sequence[float] | Floats, measured: Sequence[float] | Floats) -> float:
    """Return Spearman's rank correlation."""
    return float(np.corrcoef(ranks(predicted), ranks(measured))[0, 1])
