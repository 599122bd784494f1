"""How lanes that name each other in a membermask come together and exchange values."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.machine.barrier import Meeting
from drywell.machine.outcome import Wait

Lanes = NDArray[Any]
#: What one lane gets: from the values brought, the lanes that brought them, and the lane.
PerLane = Callable[[tuple[Lanes, ...], NDArray[np.bool_], int], tuple[Any, ...]]


def _meetings(
    m: Any, membermask: Lanes, values: tuple[Lanes, ...], key: Hashable
) -> dict[Meeting, tuple[int, ...]]:
    """Let the active lanes arrive, those of one mask together; return each meeting with its lanes."""
    groups: dict[int, list[int]] = {}
    if (membermask == membermask[0]).all():
        groups[int(membermask[0]) & 0xFFFF_FFFF] = list(m.lanes())
    else:
        for lane in m.lanes():
            groups.setdefault(int(membermask[lane]) & 0xFFFF_FFFF, []).append(lane)
    out: dict[Meeting, tuple[int, ...]] = {}
    for members, lanes in groups.items():
        mask = np.zeros(32, np.bool_)
        mask[lanes] = True
        meeting = m.meetings.get((key, members))
        if meeting is None:
            meeting = m.meetings[key, members] = Meeting(m, key, members)
        out[meeting.join(mask, values)] = tuple(lanes)
    return out


def gather(
    m: Any, membermask: Lanes, values: tuple[Lanes, ...], give: PerLane, dtypes: tuple[Any, ...], key: Any
) -> Any:
    """Bring the active lanes together with the lanes of their membermasks and give each its results.

    `give(values, members, lane)` returns one result per entry of `dtypes`. Lanes of one warp may name
    different masks (cooperative groups do). The outcome is a Wait while a named lane is still away. Fault
    WARP-MASK for a lane outside its own mask, which PTX leaves undefined.
    """
    meetings = _meetings(m, membermask, values, key)

    def results() -> Any:
        out = tuple(np.zeros(32, dtype) for dtype in dtypes)
        for meeting, lanes in meetings.items():
            meeting.leave(lanes)
            for lane in lanes if out else ():
                for column, value in zip(out, give(meeting.values, meeting.arrived, lane), strict=True):
                    column[lane] = value
        return (out[0] if len(out) == 1 else out) if out else None

    away = [meeting for meeting in meetings if not meeting.is_complete]
    if not away:
        return results()
    return Wait(lambda: all(meeting.is_complete for meeting in away), results, away[0].reason())
