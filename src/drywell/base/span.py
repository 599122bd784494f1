"""Places in a source text, and the excerpt that shows one to a reader."""

from __future__ import annotations

from drywell.base.record import record


@record
class Source:
    """A text and the name it goes by in messages (`gemm.ptx`, or `<string>`)."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """Return line `number` (counted from 1) without its newline, '' when there is none."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@record
class Span:
    """A stretch of one line: `line` and `col` count from 1, `length` is in characters (at least 1).

    `loc` is the place in the author's own source that a `.loc` directive names for it ("kernel.py:40"), ''
    when none does.
    """

    file: str
    line: int
    col: int
    length: int = 1
    loc: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


NOWHERE = Span("", 0, 0)
