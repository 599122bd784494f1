"""Lines of styled text: reports build them, `write` puts them on a stream, in colour on a terminal and
plain elsewhere.

A line is a tuple of pieces; a piece is a text or a (text, style) pair. The styles are those of `rich`:
"bold", "red", "dim"...
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

Piece = str | tuple[str, str]
Line = tuple[Piece, ...]
Lines = tuple[Line, ...]

SEVERITY_STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
    "unsupported": "bold yellow",
}


def plain(lines: Iterable[Line]) -> str:
    """Return the lines without styles, each ended by a newline.

    >>> plain([("all ", ("good", "green"))])
    'all good\\n'
    """
    return "".join("".join(p if isinstance(p, str) else p[0] for p in line).rstrip() + "\n" for line in lines)


def is_colourful(stream: TextIO) -> bool:
    """Tell whether `stream` is a terminal that takes colours; NO_COLOR (set to anything) and TERM=dumb say
    no.
    """
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write(lines: Iterable[Line], stream: TextIO) -> None:
    """Write lines to a stream and flush it. They are never wrapped."""
    if not is_colourful(stream):
        stream.write(plain(lines))
        stream.flush()
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*line))


def columns(
    rows: Sequence[Sequence[Piece]], right: Sequence[int] = (), indent: int = 2, gap: int = 2
) -> Lines:
    """Return rows as lines with their cells in columns, as wide as the widest cell; columns in `right` are
    set flush right.

    >>> plain(columns([["a", "1"], ["bcd", "23"]], right=[1], indent=0))
    'a     1\\nbcd  23\\n'
    """
    widths = [
        max(len(_text(row[k])) for row in rows if k < len(row)) for k in range(max(map(len, rows), default=0))
    ]
    return tuple(_row(row, widths, right, indent, gap) for row in rows)


def _row(row: Sequence[Piece], widths: Sequence[int], right: Sequence[int], indent: int, gap: int) -> Line:
    out: list[Piece] = [" " * indent] if indent else []
    for k, cell in enumerate(row):
        space = " " * (widths[k] - len(_text(cell)))
        before, after = (space, "") if k in right else ("", space if k + 1 < len(row) else "")
        out += [before, cell, after + (" " * gap if k + 1 < len(row) else "")]
    return tuple(p for p in out if _text(p))


def _text(piece: Piece) -> str:
    return piece if isinstance(piece, str) else piece[0]


def wrapped(rows: Iterable[tuple[str, str]], width: int = 80, indent: int = 2, gap: int = 2) -> Lines:
    """Return rows of a word and a text in two columns, the text broken at spaces to stay within `width`.

    >>> plain(wrapped([("a", "one two"), ("bcd", "x")], width=10))
    '  a    one\\n       two\\n  bcd  x\\n'
    """
    given = list(rows)
    first = max((len(word) for word, _ in given), default=0)
    room = max(width - indent - first - gap, 1)
    out: list[list[Piece]] = []
    for word, text in given:
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
        out += [[word if k == 0 else "", line] for k, line in enumerate(lines)]
    return columns(out, indent=indent, gap=gap)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return "1 warp", "2 warps", "1,024 elements".

    >>> counted(2, "entry", "entries"), counted(1, "warp")
    ('2 entries', '1 warp')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def dims(values: Iterable[int]) -> str:
    """Return launch dimensions as people write them: "4", "4x2".

    >>> dims((4, 2, 1)), dims((1, 1, 1))
    ('4x2', '1')
    """
    kept = list(values)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(str, kept))


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers with runs folded: "0-3,8".

    >>> ranges([0, 1, 2, 3, 8])
    '0-3,8'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
