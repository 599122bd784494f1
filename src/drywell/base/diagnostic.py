"""What is said to the user: diagnostics about a text, findings about a run, and how one is printed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from drywell.base.span import NOWHERE, Source, Span


class Severity(StrEnum):
    """How bad it is: only an error makes a run or a module not ok."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing wrong with a text or an argument; `at` is the short remark printed under the caret."""

    code: str
    message: str
    span: Span = NOWHERE
    severity: Severity = Severity.ERROR
    at: str = ""
    notes: tuple[str, ...] = ()
    hint: str = ""

    def render(self, source: Source | None = None) -> str:
        """Print as `file:line:col: severity[CODE]: message`, with the line and a caret when `source` is
        given.
        """
        place = f"{self.span}: " if self.span.line else (f"{self.span.file}: " if self.span.file else "")
        out = [f"{place}{self.severity}[{self.code}]: {self.message}"]
        if source is not None and self.span.line:
            text = source.line(self.span.line).replace("\t", " ")
            gutter = f"{self.span.line:5d} | "
            out.append(gutter + text)
            caret = " " * (self.span.col - 1) + "^" * max(1, self.span.length)
            out.append(" " * 5 + " | " + caret + (f" {self.at}" if self.at else ""))
        out += [f"  note: {note}" for note in self.notes]
        if self.hint:
            out.append(f"  hint: {self.hint}")
        return "\n".join(out)

    def __str__(self) -> str:
        return self.render()


@dataclass(frozen=True, slots=True)
class Finding:
    """One judgement about a run. `cta` is (x, y, z); `lanes` are lane ids; `other` is the other party's
    place; `count` folds repeats.
    """

    rule: str
    severity: Severity
    message: str
    span: Span = NOWHERE
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lanes: tuple[int, ...] = ()
    cycle: int | None = None
    other: Span | None = None
    hint: str = ""
    count: int = 1
