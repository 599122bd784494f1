"""PTX texts under edit: instructions put in, taken away or changed by their places, and where each line was
in the text as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from drywell.base.diagnostic import Edit, EditKind
from drywell.base.span import Source, Span
from drywell.ptx import parse
from drywell.ptx.tree import Block, Function, Instruction, Label, Module, Name

_GUARD = re.compile(r"@!?[%\w$.]+\s*$")
_PLACES = 6
"""How many branches on the way to an instruction a barrier is tried before."""

_new_lines = count(1)
Change = tuple[int, int, str]
"""A stretch of the text, from an offset to an offset, and what comes in its place."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A text under edit; `origins` are, for each line, the number it had at first, below 0 for new ones."""

    text: str
    origins: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Draft:
        """Return the draft of a text as it came."""
        return cls(text, tuple(range(1, text.count("\n") + 2)))

    def origin(self, span: Span | None) -> int:
        """Return the number that a line had at first, below 0 for a new one, 0 for no place."""
        return self.origins[span.line - 1] if span is not None and span.line else 0

    def at(self, span: Span) -> int:
        """Return the offset of a place."""
        start = 0
        for _ in range(span.line - 1):
            start = self.text.index("\n", start) + 1
        return start + span.col - 1

    def extent(self, span: Span) -> tuple[int, int]:
        """Return where an instruction begins, with its guard, and where it ends, behind its semicolon."""
        start = self.at(span)
        end = self.text.index(";", start) + 1
        found = _GUARD.search(self.text[:start].rsplit(";", 1)[-1].rsplit("\n", 4)[-1])
        return start - (len(found.group(0)) if found else 0), end

    def changed(self, *changes: Change) -> Draft:
        """Return the draft with stretches replaced, each within the lines it begins and ends in."""
        text, origins = self.text, list(self.origins)
        for start, end, new in sorted(changes, reverse=True):
            first = text.count("\n", 0, start)
            lost = text.count("\n", start, end)
            more = new.count("\n")
            text = text[:start] + new + text[end:]
            if lost == more:
                continue
            is_above = start == 0 or text[start - 1] == "\n"  # whole lines come before the line at `start`
            at = first if is_above else first + 1
            origins[at : at + lost] = [-next(_new_lines) for _ in range(more)]
        return Draft(text, tuple(origins))

    def without(self, span: Span) -> Change:
        """Return the change that takes an instruction away, its line too when nothing else is on it."""
        start, end = self.extent(span)
        line = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", end)
        if not self.text[line:start].strip() and stop >= 0 and _is_blank(self.text[end:stop]):
            return line, stop + 1, ""
        return start, end, ""

    def put_behind(self, span: Span, text: str) -> Change:
        """Return the change that puts instructions behind one, on lines of their own where its line ends."""
        start, end = self.extent(span)
        stop = self.text.find("\n", end)
        if stop < 0 or not _is_blank(self.text[end:stop]):
            return end, end, " " + " ".join(_statements(text))
        return stop + 1, stop + 1, self._lines(start, text)

    def put_before(self, span: Span, text: str) -> Change:
        """Return the change that puts instructions before one, on lines of their own where it begins one."""
        start, _ = self.extent(span)
        line = self.text.rfind("\n", 0, start) + 1
        if self.text[line:start].strip():
            return start, start, " ".join(_statements(text)) + " "
        return line, line, self._lines(start, text)

    def _lines(self, start: int, text: str) -> str:
        """Return instructions as lines with the indentation and the line end of that at `start`."""
        line = self.text.rfind("\n", 0, start) + 1
        indent = re.match(r"[ \t]*", self.text[line:])
        end = "\r\n" if "\r\n" in self.text[:4096] else "\n"
        return "".join(f"{indent[0] if indent else ''}{one}{end}" for one in _statements(text))


def _is_blank(rest: str) -> bool:
    return not rest.strip() or rest.lstrip().startswith("//")


def _statements(text: str) -> list[str]:
    return [f"{one};" for one in text.split(" + ")]


def flat(module: Module, entry: str = "") -> list[Instruction | Label]:
    """Return the instructions and labels of an entry ('': of all functions) in order, nested blocks too."""
    out: list[Instruction | Label] = []

    def walk(block: Block) -> None:
        for statement in block.statements:
            if isinstance(statement, Block):
                walk(statement)
            elif isinstance(statement, (Instruction, Label)):
                out.append(statement)

    for item in module.items:
        if isinstance(item, Function) and item.body is not None and entry in ("", item.name):
            walk(item.body)
    return out


# edits


def drafts(draft: Draft, edit: Edit) -> Iterator[Draft]:
    """Yield the texts that an edit can give, the likeliest first; none where it does not fit the text."""
    yield from _ACTS[edit.kind](draft, edit)


def _behind(draft: Draft, edit: Edit) -> Iterator[Draft]:
    text = edit.text
    if edit.is_guarded:
        start, _ = draft.extent(edit.span)
        guard = draft.text[start : draft.at(edit.span)]
        text = " + ".join(guard + one for one in text.split(" + "))
    yield draft.changed(draft.put_behind(edit.span, text))


def _before(draft: Draft, edit: Edit) -> Iterator[Draft]:
    yield draft.changed(draft.put_before(edit.span, edit.text))


def _meet(draft: Draft, edit: Edit) -> Iterator[Draft]:
    """Put it before the instruction itself, then before the branches and exits on the way to it."""
    yield from _before(draft, edit)
    for tree in _turnings(draft, edit.span)[:_PLACES]:
        yield draft.changed(draft.put_before(tree.span, edit.text))


def _turnings(draft: Draft, span: Span) -> list[Instruction]:
    """Return the guarded branches forward and exits before an instruction, the nearest first."""
    out: list[Instruction] = []
    seen: set[str] = set()
    for tree in flat(parse(Source(span.file, draft.text))[0]):
        if isinstance(tree, Label):
            seen.add(tree.name)
        elif (tree.span.line, tree.span.col) == (span.line, span.col):
            return out[::-1]
        elif tree.guard is not None and tree.words[0].text in ("bra", "ret", "exit"):
            targets = {operand.text for operand in tree.operands if isinstance(operand, Name)}
            if not targets & seen:
                out.append(tree)
    return []


def _replace(draft: Draft, edit: Edit) -> Iterator[Draft]:
    start, end = draft.extent(edit.span)
    at = draft.text.rfind(edit.old, start, end)
    if at >= 0:
        yield draft.changed((at, at + len(edit.old), edit.text))


def _operand(draft: Draft, edit: Edit) -> Iterator[Draft]:
    for tree in flat(parse(Source(edit.span.file, draft.text))[0]):
        if (tree.span.line, tree.span.col) == (edit.span.line, edit.span.col):
            assert isinstance(tree, Instruction)
            last = tree.operands[-1].span
            yield draft.changed((draft.at(last), draft.at(last) + last.length, edit.text))


def _move(draft: Draft, edit: Edit) -> Iterator[Draft]:
    assert edit.to is not None
    _, end = draft.extent(edit.span)
    own = draft.text[draft.at(edit.span) : end - 1]
    yield draft.changed(draft.without(edit.span), draft.put_behind(edit.to, own))


def _drop(draft: Draft, edit: Edit) -> Iterator[Draft]:
    yield draft.changed(draft.without(edit.span))


_ACTS: dict[EditKind, Callable[[Draft, Edit], Iterator[Draft]]] = {
    "behind": _behind,
    "before": _before,
    "meet": _meet,
    "replace": _replace,
    "operand": _operand,
    "move": _move,
    "drop": _drop,
}
