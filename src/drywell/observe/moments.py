"""When it is in a run: the cycles of the clock, or how much has happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from drywell.base.events import Event


class Moments:
    """Tells others who observe a run when it is, and hears of an event before they do. `has_clock` says that
    moments are cycles of a timed run; else they count events.
    """

    def __init__(self) -> None:
        self._clock: Callable[[], int] | None = None
        self._count = 0

    def begin(self, clock: Callable[[], int]) -> None:
        """Take the clock of a timed run."""
        self._clock = clock

    def on(self, event: Event) -> None:
        """Count one event."""
        self._count += 1

    @property
    def has_clock(self) -> bool:
        """Say whether moments are cycles."""
        return self._clock is not None

    @property
    def now(self) -> int:
        """Return the moment that it is, or that it was when the run ended."""
        return self._count if self._clock is None else self._clock()


class FindingMoments:
    """Notes when each of the findings in `found`, which grows, came; the checker hears of events before."""

    def __init__(self, found: Mapping[Any, object], moments: Moments) -> None:
        self._found = found
        self._moments = moments
        self.at: dict[Any, int] = {}

    def on(self, event: Event) -> None:
        """Look whether there are more findings than before."""
        if len(self._found) > len(self.at):
            for key in islice(self._found, len(self.at), None):
                self.at[key] = self._moments.now
