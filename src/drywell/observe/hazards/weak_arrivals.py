"""Arrivals that order less than the other party needs: where an arrive would have to be made a release."""

from __future__ import annotations

from dataclasses import dataclass, field

from drywell.base.diagnostic import Edit
from drywell.base.events import Agent, Arrived, BarrierChanged, Event, Order
from drywell.base.span import Span
from drywell.observe.hazards.agents import Conflict
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.repairs import releasing

_ARRIVALS = ("arrive", "arrive.expect", "drop")


@dataclass(slots=True)
class WeakArrivals:
    """Remembers, by warp, where arrivals are relaxed, or of .cta scope at another CTA's barrier."""

    happens: Happens
    _last: dict[int, dict[Span, int]] = field(default_factory=dict)

    def on(self, event: Event) -> None:
        """Take note of one event."""
        if isinstance(event, BarrierChanged):
            if event.what in _ARRIVALS and not event.agent.operation:
                self._arrived(event.agent, event.order, event.agent.cta != event.home, event.span)
        elif isinstance(event, Arrived):
            self._arrived(event.agent, event.order, False, event.span)

    def finish(self) -> None:
        """Say nothing: it is asked."""

    def repairs(self, conflict: Conflict) -> tuple[Edit, ...]:
        """Return the edits of which one makes the earlier party's arrive order its accesses."""
        last = self._last.get(conflict.earlier.warp, {})
        spans = [span for span, moment in last.items() if moment >= conflict.earlier.moment]
        return tuple(edit for span in spans for edit in releasing(span))

    def _arrived(self, agent: Agent, order: Order, is_far: bool, span: Span) -> None:
        if order.sem == "relaxed" or (is_far and order.scope == "cta"):
            self._last.setdefault(self.happens.warp_of(agent).base, {})[span] = self.happens.moment
