"""What a notebook shows: layouts, Tensor Memory, timelines and results as HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import Protocol

from drywell.base.diagnostic import Finding
from drywell.layout.atoms import Atom
from drywell.layout.match import Match
from drywell.layout.named import ComposeLayout, TileLayout
from drywell.observe.handovers import Handover
from drywell.observe.roles import WarpRole
from drywell.observe.tensor_memory import TmemMap, TmemSnapshot
from drywell.observe.timeline import Timeline
from drywell.report.findings import finding_lines
from drywell.report.handovers import handover_table, role_table
from drywell.report.layout import match_lines
from drywell.report.pictures import layout_picture, picture, timeline_picture, tmem_picture
from drywell.report.run import verdict_line
from drywell.report.svg import INKS, MONO, SANS
from drywell.report.text import Line, Lines, counted

MOST_MAPS = 2
"""CTAs of which a result shows the Tensor Memory: those of a pair."""
STYLES = {
    "red": ("#a93a00", "#ff9a68"),
    "yellow": ("#7a5200", "#f1c75b"),
    "green": ("#00704f", "#58d3a7"),
    "cyan": ("#0a5a9c", "#6cb8f0"),
    "blue": ("#0a5a9c", "#6cb8f0"),
    "magenta": ("#8a3570", "#e29ac8"),
    "dim": INKS["muted"],
}
"""Colours of words on paper, by the styles of `report.text`: (light, dark)."""


@singledispatch
def html_of(value: object) -> str:
    """Return a value as HTML that needs nothing else; TypeError for what there is no picture of."""
    raise TypeError(f"there is no picture of a {type(value).__name__}")


@html_of.register
def _(value: Atom) -> str:
    name = "" if value.name == str(value.layout) else f"{value.name}: "
    shape = " x ".join(map(str, value.shape))
    title: Line = ((str(value.layout), "bold"), f"   {name}{shape}, elements of {value.element_bits} bits")
    return card(pre((title,)), layout_picture(value))


@html_of.register(TileLayout)
@html_of.register(ComposeLayout)
def _(value: TileLayout | ComposeLayout) -> str:
    return html_of(Atom(str(value), value, value.shape))


@html_of.register
def _(value: Match) -> str:
    return card(pre(match_lines(value)))


@html_of.register(TmemSnapshot)
@html_of.register(Timeline)
def _(value: TmemSnapshot | Timeline) -> str:
    return card(picture(value))


class Ran(Protocol):
    """What a launch did; `drywell.host.result.Result` is one."""

    @property
    def verdict(self) -> str: ...  # noqa: D102
    @property
    def findings(self) -> tuple[Finding, ...]: ...  # noqa: D102
    @property
    def executed(self) -> int: ...  # noqa: D102
    @property
    def printed(self) -> str: ...  # noqa: D102
    @property
    def activity(self) -> Sequence[object]: ...  # noqa: D102
    @property
    def tmem_map(self) -> TmemMap | None: ...  # noqa: D102
    @property
    def roles(self) -> tuple[WarpRole, ...]: ...  # noqa: D102
    @property
    def handovers(self) -> tuple[Handover, ...]: ...  # noqa: D102
    @property
    def timeline(self) -> Timeline | None: ...  # noqa: D102


def result_lines(result: Ran) -> Lines:
    """Return a result in lines: the verdict, what the kernel printed, the findings."""
    work = f"  {counted(result.executed, 'warp instruction')} by {counted(len(result.activity), 'warp')}"
    head: Lines = (verdict_line(result.verdict, result.findings), (work,))
    if result.printed:
        head += ((), *(("  | ", line) for line in result.printed.splitlines()))
    return (*head, *finding_lines(result.findings))


def result_html(result: Ran) -> str:
    """Return a result: verdict, findings, and what was observed of Tensor Memory, roles and the clock."""
    parts = [pre(result_lines(result))]
    if result.tmem_map is not None:
        ctas = list(dict.fromkeys(one.cta for one in result.tmem_map.allocations))[:MOST_MAPS]
        parts += [tmem_picture(result.tmem_map.snapshot(cta), cta) for cta in ctas]
    if result.roles:
        parts.append(pre((*role_table(result.roles), (), *handover_table(result.handovers))))
    if result.timeline is not None and result.timeline.events:
        first = result.roles[0].cta if result.roles else None
        names = [role.name for role in result.roles if role.cta == first]
        parts.append(timeline_picture(result.timeline, names=names))
    return card(*parts)


def card(*parts: str) -> str:
    """Return parts one below the other on paper of their own, legible on light and on dark pages."""
    paint = f"background:{INKS['paper'][0]};color:{INKS['ink'][0]}"
    style = f"{paint};font-family:{SANS};padding:8px;overflow:auto"
    return f'{_STYLE}<div class="drywell-card" style="{escape(style)}">{"".join(parts)}</div>'


def pre(lines: Lines) -> str:
    """Return lines of styled text as they are, in colour."""
    body = "\n".join("".join(map(_piece, line)) for line in lines)
    style = f"font-family:{MONO};font-size:12px;margin:0 0 8px;white-space:pre;color:inherit;background:none"
    return f'<pre style="{escape(style)}">{body}</pre>'


def _piece(piece: str | tuple[str, str]) -> str:
    if isinstance(piece, str):
        return escape(piece)
    text, words = piece[0], piece[1].split()
    colour = next((word for word in words if word in STYLES), "")
    css = (f"color:{STYLES[colour][0]};" if colour else "") + ("font-weight:600" if "bold" in words else "")
    kind = f' class="{colour}"' if colour else ""
    return f'<span{kind} style="{css}">{escape(text)}</span>'


def _style() -> str:
    words = "".join(f".drywell-card .{name}{{color:{dark}!important}}" for name, (_, dark) in STYLES.items())
    paper = f".drywell-card{{background:{INKS['paper'][1]}!important;color:{INKS['ink'][1]}!important}}"
    return f"<style>@media (prefers-color-scheme: dark){{{paper}{words}}}</style>"


_STYLE = _style()
