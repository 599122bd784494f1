"""Cut a PTX text into tokens with one regular expression; comments and white space are dropped."""

from __future__ import annotations

import re
from dataclasses import field

from drywell.base.diagnostic import Diagnostic
from drywell.base.record import record
from drywell.base.span import Source, Span

NAME = "name"
"""Kind of `%r1`, `%tid.x`, `$L__BB0_4`, `_` and of an opcode with its modifiers, `add.s32`."""
DOT = "dot"
"""Kind of a word that begins with a dot: `.reg`, `.b32`, `.L2::cache_hint`."""
NUMBER = "number"
STRING = "string"
END = "end"
"""Kind of the one token after the last; it stands just behind the last token of the text."""

_MASTER = re.compile(
    r"""[ \t\r\f\v]*(?:
      (?P<name>(?:[A-Za-z_]|[$%](?=[\w$]))[\w$]*(?:(?:\.|::)[\w$]+)*)
    | (?P<mark>[,;\[\]{}()])
    | (?P<newline>\n)
    | (?P<number>(?:\d+\.?\d*|\.\d+)[eE][+-]\d+ | \d[\w.]* | \.\d+(?!\w))
    | (?P<dot>\.\d*[A-Za-z_]\w*(?:::\w+)*)
    | (?P<comment>//[^\n]*)
    | (?P<block>/\*(?:[^*]|\*(?!/))*(?P<closed>\*/)?)
    | (?P<punct><<|>>|[:|+\-@!<>=~*/&^?.]|%(?=\s))
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<open_string>"[^\n]*)
    | (?P<bad>[^\s\w"$%\[\]{}(),;:|+\-@!<>=~*/&^?.]+|\S)
    )""",
    re.ASCII | re.VERBOSE,
)


@record
class Tokens:
    """The tokens of a text as columns of equal length; the last token is END.

    A token's kind is NAME, DOT, NUMBER, STRING or END, and of a punctuation mark the mark itself.
    `lines` and `cols` count from 1.
    """

    kinds: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    cols: list[int] = field(default_factory=list)


def lex(source: Source) -> tuple[Tokens, list[Diagnostic]]:
    """Return the tokens of `source` and what could not be read, which leaves no token."""
    tokens, found = Tokens(), []
    add_kind, add_text = tokens.kinds.append, tokens.texts.append
    add_line, add_col = tokens.lines.append, tokens.cols.append
    line, start = 1, 0
    byte_order_mark = source.text.startswith("\ufeff")
    for match in _MASTER.finditer(source.text, 1 if byte_order_mark else 0):
        kind = match.lastgroup
        if kind in _KEPT:
            text = match[kind]
            add_kind(text if kind in _MARKS else kind)
            add_text(text)
            add_line(line)
            add_col(match.start(kind) - start + 1)
        elif kind == "newline":
            line += 1
            start = match.end()
        elif kind and kind != "comment":
            text, begin = match[kind], match.start(kind)
            span = Span(source.name, line, begin - start + 1, len(text.split("\n", 1)[0]) or 1)
            if match["closed"] is None:
                found.append(_unreadable(str(kind), text, span))
            if "\n" in text:
                line += text.count("\n")
                start = begin + text.rindex("\n") + 1
    _end(tokens)
    return tokens, found


_MARKS = ("mark", "punct")
_KEPT = frozenset((NAME, DOT, NUMBER, STRING, *_MARKS))


def _end(tokens: Tokens) -> None:
    """Put the END token just behind the last one."""
    line, col = 1, 1
    if tokens.kinds:
        line, col = tokens.lines[-1], tokens.cols[-1] + len(tokens.texts[-1])
    tokens.kinds.append(END)
    tokens.texts.append("")
    tokens.lines.append(line)
    tokens.cols.append(col)


def _unreadable(kind: str, text: str, span: Span) -> Diagnostic:
    """Say what is wrong with the stretch `text` that the master expression gave `kind`."""
    if kind == "open_string":
        return Diagnostic(
            "E0102",
            "the string is not closed on its line",
            span,
            at="'\"' is missing",
            hint="close the string with '\"'; a string cannot go on over the end of a line",
        )
    if kind == "block":
        return Diagnostic(
            "E0103",
            "the comment is never closed: everything after it is lost",
            Span(span.file, span.line, span.col, 2),
            at="'*/' is missing",
            hint="close the comment with '*/'",
        )
    shown = text if text.isprintable() else " ".join(f"0x{ord(char):02x}" for char in text[:8])
    noun = "character" if len(text) == 1 else "characters"
    hint = _CHARACTER_HINTS.get(text[0], "delete it, or put it in a comment")
    return Diagnostic("E0101", f"PTX does not use the {noun} '{shown}'", span, at="not PTX", hint=hint)


_CHARACTER_HINTS = {
    "#": "PTX has no preprocessor lines: give the text as the preprocessor left it",
    "'": "PTX has no character literals: write the number",
    "%": "a register's name needs letters or digits after '%'",
    "$": "a name needs letters or digits after '$'",
}
