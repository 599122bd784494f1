"""The timeline of a run on one screen."""

from __future__ import annotations

from typing import Any

from drywell.observe.timeline import UNITS, StallSum, Step, Timeline
from drywell.report.text import Lines, counted, plain, ranges

WIDTH = 60
"""Columns of the picture."""

WIDEST = 110
MOST_STALLS, MOST_STEPS = 6, 8


def timeline_lines(timeline: Timeline, cta: int = 0) -> Lines:
    """Return what the first SM did: phases, use of units, a picture by warp, waits, the critical path."""
    if not timeline.events:
        return (("timeline: the run was stopped before anything had come to an end",),)
    sm = next((i.sm for i in timeline.events if i.cta == cta), timeline.sms[0])
    phases = timeline.phases(sm)
    steady = phases.steady
    said = f"from the first to the last work of {phases.unit}" if phases.unit else "all, as no unit works"
    lines = [
        f"timeline: {timeline.cycles:,.0f} cycles, {timeline.ns / 1000:.2f} us at {timeline.ghz:g} GHz;"
        f" SM {sm} of {len(timeline.sms)}",
        f"  fill {phases.fill[1]:,.0f}, steady {steady[1] - steady[0]:,.0f},"
        f" drain {phases.drain[1] - phases.drain[0]:,.0f} cycles; steady: {said}",
        "  used in the steady state: "
        + ", ".join(f"{unit} {timeline.utilisation(unit, sm, steady):.0%}" for unit in UNITS),
        *_overlap(timeline, cta),
        "",
        *_picture(timeline, sm, cta),
        "",
        *_waits(timeline.stalls(cta), cta),
        "  critical path, longest parts",
    ]
    total = timeline.cycles
    for name, cycles in _longest(timeline.critical_path())[:MOST_STEPS]:
        lines.append(f"    {cycles:>9,.0f} cycles {cycles / total:>4.0%}  {name[:80]}")
    return tuple((line,) for line in lines)


def timeline_text(timeline: Timeline) -> str:
    """Return the same as text."""
    return plain(timeline_lines(timeline)).rstrip()


def timeline_facts(timeline: Timeline) -> dict[str, Any]:
    """Return the same of the first SM and all CTAs as values for JSON; times in cycles, use from 0 to 1."""
    phases = timeline.phases()
    sm = timeline.sms[0] if timeline.sms else 0
    return {
        "cycles": timeline.cycles,
        "ghz": timeline.ghz,
        "num_sms": len(timeline.sms),
        "phases": phases,
        "used": {unit: timeline.utilisation(unit, sm, phases.steady) for unit in UNITS},
        "stalls": timeline.stalls(),
        "critical_path": timeline.critical_path(),
    }


def _waits(stalls: tuple[StallSum, ...], cta: int) -> list[str]:
    """Say what the warps of a CTA waited for longest; those that waited for one thing are one line."""
    alike: dict[tuple[str, str], list[StallSum]] = {}
    for stall in stalls:
        alike.setdefault((stall.kind, stall.reason), []).append(stall)
    lines = [f"  longest waits of CTA {cta} (of several warps, the one that waits longest)"] if alike else []
    for same in list(alike.values())[:MOST_STALLS]:
        first, warps = same[0], sorted(stall.warp for stall in same)
        more = f" and {len(first.lines) - 1} more" if len(first.lines) > 1 else ""
        said = (
            f"    {first.cycles:>9,.0f} cycles in {counted(first.count, 'wait')},"
            f" warp{'s' * (len(warps) > 1)} {ranges(warps)}, line {first.lines[0]}{more}: {first.reason}"
        )
        lines.append(said if len(said) <= WIDEST else f"{said[: WIDEST - 3]}...")
    return lines


def _overlap(timeline: Timeline, cta: int) -> list[str]:
    """Say how far the epilogues of a CTA lie under its other tiles, when it makes several."""
    found = timeline.tiles(cta).overlap()
    if not found.count:
        return []
    return [
        f"  epilogue of a tile: {found.cycles:,.0f} cycles a warp, {found.held_cycles:,.0f} of them with the"
        " accumulator held;",
        f"    under the main loop of another tile {found.under_loop:.0%} (held: {found.held_under_loop:.0%}),"
        f" under multiplications {found.under_mma:.0%}",
    ]


def _picture(timeline: Timeline, sm: int, cta: int) -> list[str]:
    """Draw who works when."""
    rows: dict[str, list[float]] = {}
    scale = timeline.cycles / WIDTH
    for i in timeline.events:
        if i.sm != sm or i.doing == "stall" or (i.unit == "warp" and i.cta != cta) or i.unit == "commit":
            continue
        row = rows.setdefault(f"warp {i.warp}" if i.unit == "warp" else i.unit, [0.0] * WIDTH)
        first, last = int(i.begin / scale), min(int(i.end / scale), WIDTH - 1)
        for column in range(first, last + 1):
            left, right = max(i.begin, column * scale), min(i.end, (column + 1) * scale)
            row[column] += max(0.0, right - left) / scale
    order = sorted(rows, key=lambda name: (not name.startswith("warp"), len(name), name))  # 10 behind 9
    legend = f"  a column is {scale:,.0f} cycles: # at work for most of it, + for some, . for 5% or less"
    return [legend, *(f"  {name:>10} |{''.join(map(_shade, rows[name]))}|" for name in order)]


def _shade(share: float) -> str:
    return "#" if share > 0.5 else "+" if share > 0.05 else "." if share > 0 else " "


def _longest(path: tuple[Step, ...]) -> list[tuple[str, float]]:
    """Return the parts of the critical path by who did what, the longest first."""
    sums: dict[str, float] = {}
    for step in path:
        what = step.what.partition(" of the ")[0] if step.who in ("tma", "bulk") else step.what
        name = f"{step.who}: {what}"
        sums[name] = sums.get(name, 0.0) + step.end - step.begin
    return sorted(sums.items(), key=lambda item: -item[1])
