"""Compare what a kernel left in an array with what was expected, element by element."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.diagnostic import Finding, Severity
from drywell.host.arrays import DTYPES
from drywell.numerics import from_float64, to_float64

FLOATS = ("f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2")
"""The formats whose buffers are read and written as values; those of other formats are codes."""

_AT_ONCE = 1 << 12
"""How many numbers are rounded together: arrays of so few bytes are not asked of the system each time."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a buffer compares with what was expected: elements that differ, and the first and worst of them.

    `is_exact`: equal bit for bit after rounding to the buffer's format; `largest_error` is over all
    elements that are finite; `there` says what the wrong elements hold instead, '' when that is not plain.
    """

    buffer: str
    num_wrong: int
    num_elements: int
    first: tuple[int, ...] = ()
    first_found: float = 0.0
    first_expected: float = 0.0
    largest_error: float = 0.0
    is_exact: bool = False
    there: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether every element is as expected."""
        return self.num_wrong == 0

    def __str__(self) -> str:
        if self.ok:
            return f"{self.buffer}: all {self.num_elements} elements as expected"
        at = ",".join(map(str, self.first))
        return (
            f"{self.buffer}: {self.num_wrong} of {self.num_elements} elements differ; the first is "
            f"{self.buffer}[{at}] = "
            f"{self.first_found:g}, expected {self.first_expected:g}{self.largest}"
        )

    @property
    def largest(self) -> str:
        """Say how large the largest error is; '' when all that is wrong is no number."""
        return f"; the largest error is {self.largest_error:g}" if self.largest_error else ""


def decode(array: NDArray[Any], fmt: str) -> NDArray[np.float64]:
    """Return an array's values in float64."""
    codes = np.ascontiguousarray(array).view(np.dtype(f"u{array.dtype.itemsize}"))
    return np.asarray(to_float64(fmt, codes), np.float64).reshape(array.shape)


def encode(values: NDArray[Any], fmt: str) -> NDArray[Any]:
    """Return numbers, taken as float64, rounded to a format, as an array of its dtype."""
    dtype, numbers = DTYPES[fmt], np.ascontiguousarray(values).reshape(-1)
    codes = np.empty(numbers.size, np.dtype(f"u{dtype.itemsize}"))
    for first in range(0, numbers.size, _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        codes[block] = from_float64(fmt, numbers[block].astype(np.float64, copy=False))
    return codes.view(dtype).reshape(np.shape(values))


def compare_exactly(name: str, found: NDArray[Any], expected: NDArray[Any], fmt: str) -> Comparison:
    """Compare values bit for bit with what is expected, rounded to the format; a NaN is as good as "
    "another."""
    rounded = decode(encode(expected, fmt), fmt) if fmt in FLOATS else np.asarray(expected, np.float64)
    right = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return _comparison(name, found, rounded, ~right, True)


def compare_within(
    name: str, found: NDArray[Any], expected: NDArray[Any], tolerance: float | NDArray[Any], rtol: float = 0.0
) -> Comparison:
    """Compare values with what is expected, to within `tolerance + rtol * |expected|`, element by element;
    NaN equals NaN.
    """
    with np.errstate(invalid="ignore"):
        right = np.abs(found - expected) <= tolerance + rtol * np.abs(expected)
    right |= (found == expected) | (np.isnan(found) & np.isnan(expected))
    return _comparison(name, found, expected, ~right, False)


def _comparison(
    name: str, found: NDArray[Any], expected: NDArray[Any], wrong: NDArray[Any], is_exact: bool
) -> Comparison:
    with np.errstate(invalid="ignore"):
        errors = np.abs(found - expected)
    largest = float(np.max(errors, initial=0.0, where=np.isfinite(errors)))
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return Comparison(name, 0, found.size, largest_error=largest, is_exact=is_exact)
    first = tuple(int(k) for k in np.argwhere(wrong)[0])
    return Comparison(
        name,
        count,
        found.size,
        first,
        float(found[first]),
        float(expected[first]),
        largest,
        is_exact,
        what_is_there(found, expected, wrong),
    )


def what_is_there(found: NDArray[Any], expected: NDArray[Any], wrong: NDArray[np.bool_]) -> str:
    """Say what wrong elements hold instead of what was expected: NaN, zeros, or other elements' values.

    >>> want = np.arange(64.0).reshape(8, 8)
    >>> what_is_there(np.roll(want, 2, axis=1), want, np.ones((8, 8), bool))
    'they hold what belongs 2 columns to the left (6 of 8 looked at)'
    """
    values = found[wrong]
    if np.isnan(values).all():
        return "they are NaN: fresh Tensor Memory reads as that"
    if (values == 0).all():
        return "they are zero"
    if found.ndim > 2:
        return ""
    places = np.argwhere(wrong)
    chosen = places[np.linspace(0, len(places) - 1, min(_LOOKED_AT, len(places))).astype(int)]
    votes: Counter[tuple[int, ...]] = Counter()
    for place in chosen:
        same = np.argwhere(expected == found[tuple(place)])
        if 0 < len(same) <= _MOST_ALIKE:
            votes.update({tuple(int(k) for k in other - place) for other in same})
    if not votes:
        return ""
    shift, count = votes.most_common(1)[0]
    if 2 * count < len(chosen):
        return ""
    return f"they hold what belongs {_direction(shift)} ({count} of {len(chosen)} looked at)"


_LOOKED_AT = 64
_MOST_ALIKE = 4096
_WORDS = (("row", "above", "below"), ("column", "to the left", "to the right"))


def _direction(shift: tuple[int, ...]) -> str:
    """Return a shift of indices in words."""
    parts = []
    for step, (noun, before, behind) in zip(shift, _WORDS[2 - len(shift) :], strict=True):
        if step:
            parts.append(f"{abs(step)} {noun}{'s' if abs(step) > 1 else ''} {before if step < 0 else behind}")
    return " and ".join(parts) or "there"


def mismatch(comparison: Comparison) -> Finding:
    """Return the finding that a wrong buffer is."""
    c = comparison
    at = ",".join(map(str, c.first))
    there = f"; {c.there}" if c.there else ""
    return Finding(
        "OUTPUT-MISMATCH",
        Severity.ERROR,
        f"{c.num_wrong:,} of {c.num_elements:,} elements of {c.buffer} are not as expected: the first is"
        f" {c.buffer}[{at}] = {c.first_found:g}, expected {c.first_expected:g}{c.largest}{there}",
        hint=f"follow that element back to the inputs: drywell why LAUNCH.toml '{c.buffer}[{at}]'",
    )
