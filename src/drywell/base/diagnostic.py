"""What is said to the user: diagnostics about a text, findings about a run, and how one is printed."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from drywell.base.record import record
from drywell.base.span import NOWHERE, Source, Span


class Severity(StrEnum):
    """How bad it is: only an error makes a run or a module not ok."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@record
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


@record
class Place:
    """The memory that a finding is about: `name` is its first byte or cell (`A+0x40`, `tmem[lane 0, col
    64]`), `count` how many of them: cells of Tensor Memory, bytes elsewhere.
    """

    space: str
    name: str
    count: int = 1

    def __str__(self) -> str:
        if self.count < 2:
            return self.name
        if self.space == "tmem":
            return f"{self.name} and {self.count - 1:,} more cells"
        return f"{self.name} ({self.count:,} bytes)"


@record
class Party:
    """Who did something: `what` is the operation ("tcgen05.mma.kind::f16 128x128x16"), or "" for a
    thread's own access; `cta` is (x, y, z), `lanes` are lane ids.
    """

    what: str = ""
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lanes: tuple[int, ...] = ()


EditKind = Literal["behind", "before", "meet", "replace", "operand", "move", "drop"]
"""Where the text of an edit goes: on a line behind or before an instruction; before it, or before a branch on
the way to it, where every thread of the CTA comes by; into the instruction, or as its last operand; `move`
and `drop` take the instruction itself elsewhere, or away.
"""

_WORDS: dict[EditKind, str] = {
    "behind": "put {text} behind line {line}",
    "before": "put {text} before line {line}",
    "meet": "put {text} before line {line}, where every thread still passes",
    "replace": "write {text} for {old} in line {line}",
    "operand": "write {text} as the last operand of line {line}",
    "move": "move line {line} behind line {to}",
    "drop": "delete line {line}",
}


@record
class Edit:
    """One change of a PTX text, at the instruction of `span`; printed, it is the words of a hint.

    `text` holds instructions without their semicolons, ` + ` between them; `old` is what "replace"
    replaces, `to` the instruction behind which "move" puts it. With `is_guarded` the new instructions get
    the guard of the one they stand behind.

    >>> str(Edit("behind", Span("k.ptx", 7, 5), "fence.proxy.async"))
    'put fence.proxy.async behind line 7'
    """

    kind: EditKind
    span: Span
    text: str = ""
    old: str = ""
    to: Span | None = None
    is_guarded: bool = False

    def __str__(self) -> str:
        to = 0 if self.to is None else self.to.line
        return _WORDS[self.kind].format(text=self.text, line=self.span.line, old=self.old, to=to)

    @property
    def turn(self) -> int:
        """Return its turn among edits for several accesses: first the one that may do for all of them, behind
        the last access or before the first.
        """
        return self.span.line if self.kind in ("before", "meet") else -self.span.line


@record
class Cause:
    """What another finding follows from: the rule and the place of the finding that leads."""

    rule: str
    span: Span

    def __str__(self) -> str:
        return f"{self.rule} at line {self.span.line}"


@record
class Finding:
    """One judgement about a run. `cta` is (x, y, z); `lanes` are lane ids; `other` is where the other party
    stands in the text and `other_party` who it is; `place` the common memory; `note` says, a line each, what
    would have made it right and how far that got; `count` folds repeats. `edits` are changes of the text that
    may repair it, each by itself, the likeliest first. With a `cause` it says of an operation what that
    finding says first: one repair does for both.
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
    other_party: Party | None = None
    place: Place | None = None
    note: str = ""
    edits: tuple[Edit, ...] = ()
    cause: Cause | None = None
