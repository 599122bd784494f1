"""What each warp did. Most warps of a grid did the same, so it is said once for equal counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drywell.base.activity import WarpActivity
from drywell.base.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drywell.engine.threaded import Threaded

Counts = NDArray[np.int64]

Ended = tuple[int, int, tuple[int, int, int], "Done"]
"""A warp that has ended: the number of its CTA, its own, the index of its CTA, what it did."""

MOST_KNOWN = 1024
"""Different counts that are remembered."""

MOST_KEPT = 64
"""Of so many the next run finds what they say."""

MOST_ALIKE = 4
"""CTAs with different counts that are remembered: so many are compared with each one that ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """What a warp did: how often it executed each place, as bytes; which says its instructions by unit, and
    how often it executed each machine instruction.
    """

    counts: bytes
    units: dict[str, int]
    sites: tuple[tuple[Span, str, int], ...]
    executed: defaultdict[int, int]


def activity_of(threaded: Threaded) -> Activity:
    """Return what tells what warps did that run `threaded`, kept with it."""
    if threaded.activity is None or threaded.activity.num_known > MOST_KEPT:
        threaded.activity = Activity(threaded)
    return threaded.activity


class Activity:
    """Says what warps did that run `threaded`."""

    def __init__(self, threaded: Threaded) -> None:
        self._spans, self._declarations = threaded.spans, threaded.declarations
        self._known: dict[bytes, Done] = {}
        self._alike: list[tuple[bytes, list[Done]]] = []
        self._names: tuple[str, ...] = ()
        self._unit_of: Counts = np.zeros(0, np.int64)
        self._is_site: NDArray[np.bool_] = np.zeros(0, np.bool_)

    @property
    def num_known(self) -> int:
        """Return how many different counts are remembered."""
        return len(self._known)

    def of(self, counts: bytes) -> Done:
        """Return what a warp did that executed each place so often (int64)."""
        done = self._known.get(counts)
        if done is None:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            done = self._known[counts] = self._told(counts)
        return done

    def alike(self, counts: Counts) -> list[Done] | None:
        """Return what the warps of a CTA did whose counts were the same as these, None when none is known."""
        found = counts.tobytes()
        for k, (other, done) in enumerate(self._alike):
            if other == found:
                if k:
                    self._alike.insert(0, self._alike.pop(k))
                return done
        return None

    def note(self, counts: Counts, done: list[Done]) -> None:
        """Remember what the warps of a CTA did that has these counts."""
        self._alike.insert(0, (counts.tobytes(), done))
        del self._alike[MOST_ALIKE:]

    def _told(self, executed: bytes) -> Done:
        names, counts = self._units(), np.frombuffer(executed, np.int64)
        by_unit = np.bincount(self._unit_of, counts, len(names) + 1).astype(np.int64).tolist()
        places = np.flatnonzero(self._is_site & (counts != 0)).tolist()
        opcodes = [self._declarations[pc].opcode for pc in places]
        times = counts[places].tolist()
        return Done(
            executed,
            {name: by_unit[k] for k, name in enumerate(names) if by_unit[k]},
            tuple(zip([self._spans[pc] for pc in places], opcodes, times, strict=True)),
            defaultdict(int, zip(places, times, strict=True)),
        )

    def _units(self) -> tuple[str, ...]:
        """Return the names of the units, having sorted the places by them."""
        if not self._names:
            found = self._declarations
            self._names = tuple(sorted({d.unit for d in found if d is not None}))
            number = {name: k for k, name in enumerate(self._names)}
            self._unit_of = np.array([len(number) if d is None else number[d.unit] for d in found])
            self._is_site = np.array([d is not None and not d.is_lane for d in found])
        return self._names


def told(ended: Iterable[Ended]) -> tuple[WarpActivity, ...]:
    """Say in order what warps did."""
    return tuple([WarpActivity(cta, warp, done.units, done.sites) for _, warp, cta, done in sorted(ended)])
