"""What each warp did. Most warps of a grid did the same, so it is said once for equal counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
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

MOST_ALIKE = 4
"""CTAs with different counts that are remembered: so many are compared with each one that ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """What a warp did: its instructions by unit, and how often it executed each machine instruction."""

    units: dict[str, int]
    sites: tuple[tuple[Span, str, int], ...]
    executed: defaultdict[int, int]


@dataclass(slots=True)
class Activity:
    """What warps that run `threaded` did."""

    threaded: Threaded
    _known: dict[bytes, Done] = field(default_factory=dict)
    _alike: list[tuple[bytes, list[Done]]] = field(default_factory=list)
    _names: tuple[str, ...] = ()
    _unit_of: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    _is_site: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def of(self, counts: Counts) -> Done:
        """Return what a warp did that executed each place so often."""
        key = counts.tobytes()
        done = self._known.get(key)
        if done is None:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            done = self._known[key] = self._told(counts)
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

    def _told(self, counts: Counts) -> Done:
        threaded, names = self.threaded, self._units()
        by_unit = np.bincount(self._unit_of, counts, len(names) + 1).astype(np.int64).tolist()
        places = np.flatnonzero(self._is_site & (counts != 0)).tolist()
        opcodes = [threaded.declarations[pc].opcode for pc in places]
        executed = counts[places].tolist()
        return Done(
            {name: by_unit[k] for k, name in enumerate(names) if by_unit[k]},
            tuple(zip([threaded.spans[pc] for pc in places], opcodes, executed, strict=True)),
            defaultdict(int, zip(places, executed, strict=True)),
        )

    def _units(self) -> tuple[str, ...]:
        """Return the names of the units, having sorted the places by them."""
        if not self._names:
            found = self.threaded.declarations
            self._names = tuple(sorted({d.unit for d in found if d is not None}))
            number = {name: k for k, name in enumerate(self._names)}
            self._unit_of = np.array([len(number) if d is None else number[d.unit] for d in found])
            self._is_site = np.array([d is not None and not d.is_lane for d in found])
        return self._names


def told(ended: Iterable[Ended]) -> tuple[WarpActivity, ...]:
    """Say in order what warps did."""
    return tuple([WarpActivity(cta, warp, done.units, done.sites) for _, warp, cta, done in sorted(ended)])
