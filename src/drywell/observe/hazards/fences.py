"""What fences do to a clock."""

from __future__ import annotations

from collections.abc import Callable

from drywell.observe.hazards.clock import FENCED, Clock, Known, joined


def _shared_fence(clock: Clock, known: Known, space: str) -> Clock:
    shared = joined(clock.shared, known) if space in ("", "shared") else clock.shared
    far = joined(clock.global_, known) if space in ("", "global") else clock.global_
    return Clock(clock.seen, clock.control, shared, far, clock.maps, clock.before, clock.after)


def _map_release(clock: Clock, known: Known, space: str) -> Clock:
    maps = joined(clock.maps, known)
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, maps, clock.before, clock.after)


def _map_acquire(clock: Clock, known: Known, space: str) -> Clock:
    maps = joined(clock.maps, {-key: value for key, value in clock.maps.items() if key > 0})
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, maps, clock.before, clock.after)


def before(clock: Clock, known: Known) -> Clock:
    """Send on what the thread itself has done, `known`; what others did they send on themselves."""
    before = joined(clock.before, known)
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, clock.maps, before, clock.after)


def _after(clock: Clock, known: Known, space: str) -> Clock:
    after = joined(clock.after, clock.before)
    after = joined(after, {FENCED + c: value for c, value in clock.seen.items() if c > 0})
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, clock.maps, clock.before, after)


FENCES: dict[str, Callable[[Clock, Known, str], Clock]] = {
    "proxy.async": _shared_fence,
    "tensormap.release": _map_release,
    "tensormap.acquire": _map_acquire,
    "tcgen05.after": _after,
}
