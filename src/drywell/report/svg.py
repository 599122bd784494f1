"""A picture as SVG: rectangles and words, told apart by colour and by label, legible on light and dark pages.

A picture paints its own background, so that it reads wherever it is put: in a notebook, in a page, as a file.
It follows the reader's preference for light or dark where a style sheet is honoured, and is light elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal

FILLS = ("#56b4e9", "#e69f00", "#3fbf97", "#d98cb8", "#f0e442", "#e8825a", "#a6cee3", "#b9b9b9")
"""Fills that carry black words in both themes and differ for the colour-blind (after Okabe and Ito)."""

ON_FILL = "#0d1013"
INKS: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#171b1e"),
    "ink": ("#16191c", "#e8eaec"),
    "muted": ("#555c63", "#a9b1b8"),
    "line": ("#c9c9c4", "#454d54"),
    "empty": ("#efefec", "#23292e"),
    "held": ("#dcdcd6", "#353d43"),
}
"""Colours of a picture's own parts: (light, dark)."""

Ink = Literal["paper", "ink", "muted", "line", "empty", "held"]
Anchor = Literal["start", "middle", "end"]
SANS = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SIZE = 12
_WIDE, _WIDE_MONO = 0.56, 0.62
"""Width of a character in its own size, on average and at most."""


def text_width(text: str, size: float = SIZE, mono: bool = False) -> float:
    """Return about how wide a text is, rather too wide than too narrow."""
    return len(text) * size * (_WIDE_MONO if mono else _WIDE)


class Picture:
    """Gathers the parts of a picture `width` wide; `label` says in words what it shows."""

    def __init__(self, width: float, label: str) -> None:
        self.width = width
        self.label = label
        self._parts: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, edge: bool = False, title: str = ""
    ) -> None:
        """Add a rectangle, in a colour or in one of INKS, with a title for those who point at it."""
        body = f"><title>{escape(title)}</title></rect>" if title else "/>"
        at = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        self._parts.append(f"<rect {at}{_painted(fill, 'line' if edge else '')}{body}")

    def line(self, x: float, y: float, to_x: float, to_y: float, ink: Ink = "line") -> None:
        """Add a line."""
        at = f'x1="{_n(x)}" y1="{_n(y)}" x2="{_n(to_x)}" y2="{_n(to_y)}"'
        self._parts.append(f"<line {at}{_painted('', ink)}/>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        ink: str = "ink",
        *,
        anchor: Anchor = "start",
        size: float = SIZE,
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """Add words whose base line is at y."""
        more = ' font-weight="600"' if bold else ""
        more += f' font-family="{escape(MONO)}"' if mono else ""
        more += f' font-size="{_n(size)}"' if size != SIZE else ""
        more += f' text-anchor="{anchor}"' if anchor != "start" else ""
        at = f'x="{_n(x)}" y="{_n(y)}"'
        self._parts.append(f"<text {at}{_painted(ink)}{more}>{escape(text)}</text>")

    def legend(self, x: float, y: float, rows: Sequence[tuple[str, str, str]]) -> float:
        """Add rows of (fill, sign, words) from y down, and return where they end."""
        for fill, sign, words in rows:
            if fill:
                self.rect(x, y, 20, 14, fill, edge=True)
                ink = ON_FILL if fill in FILLS else "muted"
                self.text(x + 10, y + 11, sign, ink, anchor="middle", size=11)
            self.text(x + 28 if fill else x, y + 11, words)
            y += 20
        return y

    def svg(self, height: float) -> str:
        """Return the picture as one SVG element."""
        size = f'viewBox="0 0 {_n(self.width)} {_n(height)}" width="{_n(self.width)}" height="{_n(height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drywell" {size} role="img" '
            f'aria-label="{escape(self.label)}" font-family="{escape(SANS)}" font-size="{SIZE}" '
            f'style="max-width:100%;height:auto">{_STYLE}'
            f'<rect class="paper" width="100%" height="100%" rx="6" fill="{INKS["paper"][0]}"/>'
            + "".join(self._parts)
            + "</svg>\n"
        )


def _style() -> str:
    dark = "".join(
        f".drywell [fill].{ink}{{fill:{colours[1]}}}.drywell [stroke].{ink}-edge{{stroke:{colours[1]}}}"
        for ink, colours in INKS.items()
    )
    return f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>"


_STYLE = _style()


def _painted(fill: str = "", stroke: str = "") -> str:
    """Return the attributes that paint with colours or INKS; for these a class lets dark pages override."""
    words = {"fill": (fill, fill), "stroke": (stroke, f"{stroke}-edge")}
    classes = " ".join(name for ink, name in words.values() if ink in INKS)
    paints = "".join(
        f' {what}="{INKS[ink][0] if ink in INKS else ink}"' for what, (ink, _) in words.items() if ink
    )
    return (f' class="{classes}"' if classes else "") + paints


def _n(value: float) -> str:
    """Return a number with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
