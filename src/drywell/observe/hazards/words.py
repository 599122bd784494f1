"""Words that threads hand data over with: strong reads and writes, with release, acquire or fences."""

from __future__ import annotations

from typing import Any

from drywell.base.events import Access, Order
from drywell.observe.hazards.agents import Place, WarpClocks
from drywell.observe.hazards.clock import EMPTY, NOTHING, Clock


class Words:
    """What each word that was written strongly carries: to all, and to threads of one CTA."""

    def __init__(self) -> None:
        self._words: dict[tuple[Place, int], tuple[Clock, dict[int, Clock]]] = {}

    def touch(self, warp: WarpClocks, event: Access, place: Place, where: Any, by: Any) -> None:
        """Let a strong write publish what its lane has released, and a strong read take it in."""
        warp.has_strong = True
        step = event.size
        for k, lane in enumerate(event.lanes):
            key = (place, int(where[k * step]))
            if event.is_write:
                self._publish(warp, event, key, lane)
            else:
                self._take(warp, event.order, key, lane)
        if event.is_write and event.order.sem in ("release", "acq_rel", "sc"):
            warp.time += 1

    def _publish(self, warp: WarpClocks, event: Access, key: tuple[Place, int], lane: int) -> None:
        order = event.order
        is_release = order.sem in ("release", "acq_rel", "sc")
        if is_release:
            message = warp.message((lane,))
        else:
            message = (warp.near_fences if order.scope == "cta" else warp.fences)[lane]
        wide, near = self._words.get(key, (EMPTY, {}))
        if not event.is_atomic:
            wide, near = EMPTY, {}
        if order.scope == "cta":
            near = {**near, event.agent.cta: near.get(event.agent.cta, EMPTY).join(message)}
        else:
            wide = wide.join(message)
        self._words[key] = (wide, near)

    def _take(self, warp: WarpClocks, order: Order, key: tuple[Place, int], lane: int) -> None:
        found = self._words.get(key)
        if found is None:
            return
        wide, near = found
        message = wide.join(near.get(warp.agent.cta, EMPTY))
        if order.sem in ("acquire", "acq_rel", "sc"):
            warp.clocks[lane] = warp.clocks[lane].join(message)
        else:
            warp.pending[lane] = warp.pending[lane].join(message)
            sent = Clock(message.before, message.before, NOTHING, NOTHING, NOTHING, message.before)
            warp.clocks[lane] = warp.clocks[lane].join(sent)
