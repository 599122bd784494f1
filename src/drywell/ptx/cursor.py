"""The parser's place in the tokens, its way of complaining, and its ways back to firm ground."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

from drywell.base.diagnostic import Diagnostic
from drywell.base.span import Source, Span
from drywell.ptx.lexer import DOT, END, NAME, NUMBER, STRING, Tokens

MAX_NESTING = 60
"""Deepest nesting of blocks, or of operands, that is read."""

_OPEN_ENDED = frozenset((",", "{", "[", "(", "|", "+", "@", "!"))
"""Marks after which a statement cannot be over."""

_LINKAGE = frozenset((".extern", ".visible", ".weak", ".common"))
_ITEM_STARTS = _LINKAGE | {
    ".entry",
    ".func",
    ".global",
    ".const",
    ".section",
    ".file",
    ".alias",
    ".version",
    ".target",
    ".address_size",
}
_STATEMENT_STARTS = _ITEM_STARTS | {
    ".reg",
    ".param",
    ".local",
    ".shared",
    ".loc",
    ".pragma",
    ".branchtargets",
}


class Unreadable(Exception):
    """The statement being read was given up; its diagnostic is recorded."""


class Cursor:
    """A position `i` in the token columns, with the diagnostics found so far.

    `begin` is the first token of the statement being read, `loc` the author's place that goes into
    spans, `open` the tokens of the braces not closed yet.
    """

    __slots__ = (
        "_unreadable_lines",
        "begin",
        "cols",
        "diagnostics",
        "file",
        "i",
        "kinds",
        "lines",
        "loc",
        "open",
        "texts",
    )

    def __init__(self, source: Source, tokens: Tokens, diagnostics: list[Diagnostic]) -> None:
        self.file = source.name
        self.kinds, self.texts, self.lines, self.cols = (
            tokens.kinds,
            tokens.texts,
            tokens.lines,
            tokens.cols,
        )
        self.diagnostics = diagnostics
        self._unreadable_lines = frozenset(d.span.line for d in diagnostics)
        self.i = self.begin = 0
        self.loc = ""
        self.open: list[int] = []

    @property
    def kind(self) -> str:
        """The kind of the current token."""
        return self.kinds[self.i]

    @property
    def text(self) -> str:
        """The spelling of the current token."""
        return self.texts[self.i]

    def span(self, i: int | None = None) -> Span:
        """Return the place of token `i` (the current one by default)."""
        k = self.i if i is None else i
        return Span(self.file, self.lines[k], self.cols[k], len(self.texts[k]) or 1, self.loc)

    def span_to(self, first: int, last: int) -> Span:
        """Return the place of tokens `first` to `last`, as far as they stand on one line."""
        line, col = self.lines[first], self.cols[first]
        while last > first and self.lines[last] != line:
            last -= 1
        return Span(self.file, line, col, self.cols[last] + len(self.texts[last]) - col or 1, self.loc)

    def after_previous(self) -> Span:
        """Return the place just behind the previous token: where something is missing."""
        k = max(self.i - 1, 0)
        return Span(self.file, self.lines[k], self.cols[k] + len(self.texts[k]), 1, self.loc)

    def gap(self) -> Span:
        """Return where something is missing: the current token, or the end of the line before it."""
        is_below = self.i > self.begin and self.starts_line(self.i)
        return self.after_previous() if is_below else self.span()

    def shown(self, i: int | None = None) -> str:
        """Return token `i` as messages name it: quoted, or 'the end of the text'."""
        k = self.i if i is None else i
        if self.kinds[k] == END:
            return "the end of the text"
        return self.texts[k] if self.kinds[k] == STRING else f"'{self.texts[k]}'"

    def report(
        self,
        code: str,
        message: str,
        *,
        at: str = "",
        hint: str = "",
        span: Span | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        """Record one error at `span` (the current token by default) and go on.

        Nothing is added to a line with unreadable characters: what follows from them is no news.
        """
        place = self.span() if span is None else span
        if place.line not in self._unreadable_lines:
            self.diagnostics.append(Diagnostic(code, message, place, at=at, hint=hint, notes=notes))

    def fail(
        self, code: str, message: str, *, at: str = "", hint: str = "", span: Span | None = None
    ) -> NoReturn:
        """Record one error and give up the statement: raises Unreadable."""
        self.report(code, message, at=at, hint=hint, span=span)
        raise Unreadable

    def expect(self, kind: str, purpose: str) -> str:
        """Step over a token of `kind` and return its text; otherwise fail, saying what it is for."""
        if self.kinds[self.i] != kind:
            wanted = _KIND_NAMES.get(kind, f"'{kind}'")
            message = f"{wanted} is needed {purpose}, found {self.shown()}"
            self.fail("E0110", message, at=f"not {wanted}", span=self.gap())
        self.i += 1
        return self.texts[self.i - 1]

    def accept(self, kind: str) -> bool:
        """Step over a token of `kind` if it is the current one."""
        if self.kinds[self.i] != kind:
            return False
        self.i += 1
        return True

    def end_statement(self) -> None:
        """Step over the `;` of a statement; report it when it is missing."""
        if self.kinds[self.i] == ";":
            self.i += 1
            return
        if self.kinds[self.i] in ("}", END) or self.begins_statement(self.i):
            is_new_line = self.kinds[self.i] != END and self.starts_line(self.i)
            found = f", which begins line {self.lines[self.i]}" if is_new_line else ""
            self.report(
                "E0111",
                f"a statement must end in ';' before {self.shown()}{found}",
                at="';' is missing",
                hint="add ';' here",
                span=self.after_previous(),
            )
            return
        self.fail(
            "E0110",
            f"',' or ';' is needed after {self.shown(self.i - 1)}, found {self.shown()}",
            at="the statement does not go on like this",
            hint="put ',' between two operands and ';' between two statements",
        )

    def starts_line(self, i: int) -> bool:
        """Return whether token `i` is the first of its line."""
        return i == 0 or self.lines[i] != self.lines[i - 1]

    def begins_statement(self, i: int) -> bool:
        """Return whether token `i`, met where a statement should be over, looks like the next one."""
        if not self.starts_line(i) or (i and self.kinds[i - 1] in _OPEN_ENDED):
            return False
        kind, text = self.kinds[i], self.texts[i]
        if kind == NAME:
            return self.kinds[i + 1] == ":" or text[0].isalpha()
        if kind == "{":
            return self.begins_block(i)
        return kind == "@" or (kind == DOT and text in _STATEMENT_STARTS)

    def begins_block(self, i: int) -> bool:
        """Return whether the `{` at token `i` opens a block rather than a vector operand."""
        if self.kinds[i + 1] in (DOT, "@", "{"):
            return True
        return self.kinds[i + 1] == NAME and self.kinds[i + 2] not in (",", "}", "|", "+")

    def begins_item(self, i: int) -> bool:
        """Return whether token `i` is a directive of a module's level, on a new line or statement."""
        if self.kinds[i] != DOT or self.texts[i] not in _ITEM_STARTS:
            return False
        return self.starts_line(i) or self.kinds[i - 1] in ("}", ";")

    def begins_function(self, i: int) -> bool:
        """Return whether token `i` begins an `.entry` or `.func`."""
        if self.kinds[i] != DOT:
            return False
        while self.texts[i] in _LINKAGE:
            i += 1
        return self.kinds[i] == DOT and self.texts[i] in (".entry", ".func")

    def skip_statement(self) -> None:
        """Go on to the next statement of a body: behind `;`, or before the block's `}` or a start."""
        before = self.kinds[self.begin : self.i]
        depth = before.count("{") - before.count("}")
        while self.kinds[self.i] != END:
            kind = self.kinds[self.i]
            if kind == ";":
                self.i += 1
                break
            if self.i > self.begin and self.begins_statement(self.i):
                break
            if self.kinds[self.begin] == DOT and self.i > self.begin and self._begins_directive(self.i):
                break
            if kind == "}" and depth <= 0:
                break
            depth += (kind == "{") - (kind == "}")
            self.i += 1

    def skip_item(self) -> None:
        """Go on to the next item of a module: behind this one's `;` or `}`, or before a likely start.

        Behind something that is no item at all nothing counts but the start of one.
        """
        is_item = self.kinds[self.begin] == DOT
        is_function = self.begins_function(self.begin)
        self.i += self.i == self.begin and self.kinds[self.i] != END
        while self.kinds[self.i] != END and not self.begins_item(self.i):
            if is_item and self.kinds[self.i] == "{":
                self.skip_braces("the item")
                self.accept(";")
                return
            if is_item and self.accept(";"):
                return
            if is_item and not is_function and self._begins_directive(self.i):
                return
            self.i += 1

    def _begins_directive(self, i: int) -> bool:
        """Return whether token `i` is any word with a dot on a new line, nothing before it being open."""
        return self.kinds[i] == DOT and self.starts_line(i) and self.kinds[i - 1] not in _OPEN_ENDED

    def skip_to(self, kinds: Iterable[str]) -> None:
        """Go on to the next token of one of `kinds`, or to the end."""
        stops = {*kinds, END}
        while self.kinds[self.i] not in stops:
            self.i += 1

    def skip_braces(self, what: str) -> None:
        """Step over a `{ ... }` unread; `what` names it if it is never closed."""
        opener = self.i
        depth = 0
        while self.kinds[self.i] != END:
            depth += (self.kinds[self.i] == "{") - (self.kinds[self.i] == "}")
            self.i += 1
            if depth == 0:
                return
        self.report("E0112", f"the '{{' of {what} is never closed", span=self.span(opener), at="opens here")


_KIND_NAMES = {
    NAME: "a name",
    DOT: "a word that begins with '.'",
    NUMBER: "a number",
    STRING: "a string",
    END: "the end",
}


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the hint 'did you mean ...?' for a word that is nearly one of `known`, or ''."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f"did you mean '{near[0]}'?" if near else ""
