"""Intervals in the Chrome trace event format, as Perfetto and chrome://tracing read it.

Source: "Trace Event Format" (Google), complete events (`ph` X), metadata (`ph` M).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from drywell.base.interval import Interval

_UNIT_TRACKS = {"tensor": 900, "commit": 901, "tma": 902, "tmem_read": 910, "tmem_write": 920}
"""Numbers of the tracks of units, behind those of warps; a Tensor Memory port has one for each of 4 parts."""

_WARPS_OF_PORT = 4
_TRACKS_PER_CTA = 64


def trace_json(intervals: Sequence[Interval], ghz: float) -> str:
    """Return the text of a trace: a process for each SM, a track for each warp and unit; times in us."""
    events = [event for interval in intervals for event in _event(interval, ghz)]
    names = {(e["pid"], e["tid"]): e.pop("track") for e in events}
    for pid in sorted({pid for pid, _ in names}):
        events.append(_name("process_name", pid, 0, f"SM {pid}"))
    for (pid, tid), name in sorted(names.items()):
        order = {"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
        events += [_name("thread_name", pid, tid, name), order]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})


def _event(i: Interval, ghz: float) -> list[dict[str, Any]]:
    tid, track = _track(i)
    args: dict[str, Any] = {"cycles": round(i.cycles, 1), "begin_cycle": round(i.begin, 1)}
    if i.reason:
        args["reason"] = i.reason
    if i.span.line:
        args["line"] = i.span.line
    if i.count:
        args["instructions"] = i.count
    if i.doing == "busy":
        args |= {"issued_cycle": round(i.issued, 1), "done_cycle": round(i.done, 1)}
    name = i.what if i.doing != "stall" else f"waits for {i.awaited}"
    return [
        {
            "name": name or i.unit, "cat": i.doing, "ph": "X", "pid": i.sm, "tid": tid, "track": track,
            "ts": i.begin / ghz / 1000, "dur": i.cycles / ghz / 1000, "args": args,
        }
    ]  # fmt: skip


def _track(i: Interval) -> tuple[int, str]:
    """Return the number and the name of the track that an interval is on."""
    if i.unit == "warp":
        return i.cta * _TRACKS_PER_CTA + 10_000 + i.warp, f"CTA {i.cta} warp {i.warp}"
    number = _UNIT_TRACKS.get(i.unit, 990)
    if i.unit.startswith("tmem"):
        part = i.warp % _WARPS_OF_PORT
        return number + part, f"{i.unit} {part}"
    return number, i.unit


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
