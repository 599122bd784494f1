"""Read the operands of an instruction."""

from __future__ import annotations

from collections.abc import Callable

from drywell.base.span import Span
from drywell.ptx.constants import PRECEDENCE, continue_constant, read_constant, read_number
from drywell.ptx.cursor import MAX_NESTING, Cursor
from drywell.ptx.lexer import NAME, NUMBER, STRING
from drywell.ptx.tree import Address, Integer, Name, Not, Offset, Operand, Pair, Sink, Tuple, Vector

_PLAIN_END = frozenset((",", ";", "]", "}", ")"))
"""Marks that end an operand made of one token."""


def read_operands(c: Cursor) -> tuple[Operand, ...]:
    """Read operands up to the `;` of the statement, which stays; none when it comes at once."""
    if c.kind in (";", "}") or (c.begins_statement(c.i) and not _is_lone_name(c)):
        return ()
    operands = [read_operand(c)]
    while c.accept(","):
        operands.append(read_operand(c))
    return tuple(operands)


def _is_lone_name(c: Cursor) -> bool:
    """Return whether a name on a new line is an operand after all: `bar.sync` and `barrier_id;` below it."""
    if c.kind != NAME or "." in c.text:
        return False
    return c.kinds[c.i + 1] in (",", ";", "|", "+")


def read_operand(c: Cursor, depth: int = 0) -> Operand:
    """Read one operand, or a pair of them joined by `|`."""
    i = c.i
    kind = c.kinds[i]
    if kind == NAME and c.kinds[i + 1] in _PLAIN_END and c.texts[i] != "_":
        c.i = i + 1
        text = c.texts[i]
        return Name(text, Span(c.file, c.lines[i], c.cols[i], len(text), c.loc))
    first = _single(c, depth)
    if c.kinds[c.i] != "|":
        return first
    c.i += 1
    second = _single(c, depth)
    return Pair(first, second, c.span_to(i, c.i - 1))


def _single(c: Cursor, depth: int) -> Operand:
    reader = _READERS.get(c.kinds[c.i])
    if reader is None:
        message = f"an operand is needed here, found {c.shown()}"
        c.fail("E0120", message, at="not an operand", hint=_hint(c), span=c.gap())
    if depth > MAX_NESTING:
        c.fail("E0116", f"the operand is nested more than {MAX_NESTING} deep")
    return reader(c, depth)


def _hint(c: Cursor) -> str:
    """Return what most likely led to a token that begins no operand."""
    if c.kinds[c.i - 1] == "," and c.kind in (";", "]", "}", ")"):
        return f"delete the ',' before {c.shown()}, or add the operand that is missing"
    if c.kind == STRING:
        return "a string can only stand in a directive: put it in a .global array and name that"
    return ""


def _name(c: Cursor, depth: int) -> Operand:
    i = c.i
    text, span = c.texts[i], c.span()
    c.i = i + 1
    if text == "_":
        return Sink(span)
    if c.kind not in ("+", "-"):
        return Name(text, span)
    sign = c.kind
    if sign == "-":
        _report_minus(c, text)
    c.i += sign == "+"
    if c.kind == NAME:
        c.fail(
            "E0121",
            f"only a constant can be added to {c.shown(i)}, found {c.shown()}",
            at="not a constant",
            hint="add the two in a register with an instruction of its own, and use that",
        )
    offset = read_constant(c, 1, depth)
    if not isinstance(offset, Integer):
        c.fail(
            "E0121",
            f"the offset of {c.shown(i)} is a float",
            span=offset.span,
            at="must be an integer",
        )
    return Offset(Name(text, span), offset.value, c.span_to(i, c.i - 1))


def _report_minus(c: Cursor, text: str) -> None:
    wanted = f"{text}+-{c.texts[c.i + 1]}" if c.kinds[c.i + 1] == NUMBER else f"{text}+-..."
    c.report(
        "E0121",
        "an offset is added with '+', found '-'",
        at="ptxas does not read this",
        hint=f"write {wanted}",
    )


def _number(c: Cursor, depth: int) -> Operand:
    if c.kinds[c.i + 1] in _PLAIN_END:
        return read_number(c)
    return read_constant(c, 1, depth)


def _signed(c: Cursor, depth: int) -> Operand:
    if c.kinds[c.i + 1] == NAME:
        c.fail(
            "E0120",
            f"the sign '{c.kind}' needs a number, found {c.shown(c.i + 1)}",
            hint="negate the register with an instruction of its own",
        )
    return read_constant(c, 1, depth)


def _not(c: Cursor, depth: int) -> Operand:
    i = c.i
    if c.kinds[i + 1] in (NUMBER, "(", "-", "~", "!"):
        return read_constant(c, 1, depth)
    c.i += 1
    operand = _single(c, depth + 1)
    return Not(operand, c.span_to(i, c.i - 1))


def _listed(c: Cursor, depth: int, closer: str, least: int) -> list[Operand]:
    """Read at least `least` operands up to `closer`, with the opening mark at the cursor."""
    opener = c.i
    c.i += 1
    elements: list[Operand] = []
    if not least and c.accept(closer):
        return elements
    elements.append(_element(c, depth, opener))
    while c.accept(","):
        elements.append(_element(c, depth, opener))
    if c.kind != closer:
        mark, col = c.kinds[opener], c.cols[opener]
        c.fail(
            "E0110",
            f"',' or '{closer}' is needed after {c.shown(c.i - 1)}, found {c.shown()}",
            at=f"'{closer}' is missing: '{mark}' opens at column {col}",
            span=c.after_previous(),
        )
    c.i += 1
    return elements


def _element(c: Cursor, depth: int, opener: int) -> Operand:
    """Read one operand of the list that token `opener` opens; only vectors stand inside another list."""
    mark = c.kinds[opener]
    if c.kind == "[" or (c.kind == mark and mark == "{"):
        noun, closer = (
            ("an address" if c.kind == "[" else "a vector"),
            {"{": "}", "[": "]"}.get(mark, ")"),
        )
        c.fail(
            "E0120",
            f"{noun} cannot stand inside the '{mark}' of column {c.cols[opener]}",
            at=f"is '{closer}' missing before this?",
        )
    return read_operand(c, depth + 1)


def _vector(c: Cursor, depth: int) -> Operand:
    i = c.i
    elements = _listed(c, depth, "}", 1)
    return Vector(tuple(elements), c.span_to(i, c.i - 1))


def _address(c: Cursor, depth: int) -> Operand:
    i = c.i
    parts = _listed(c, depth, "]", 1)
    if not isinstance(parts[0], Name | Offset | Integer):
        c.fail(
            "E0121",
            "an address begins with a register, a symbol or an integer",
            span=c.span(i + 1),
            at=f"found {c.shown(i + 1)}",
        )
    return Address(tuple(parts), c.span_to(i, c.i - 1))


def _parenthesised(c: Cursor, depth: int) -> Operand:
    """Read the list of a call, or a constant expression that begins with a parenthesis."""
    i = c.i
    if c.kinds[i + 1] in (NUMBER, "(", "-", "~"):
        inner = _constant_group(c, depth)
        if inner is not None:
            return inner
    elements = _listed(c, depth, ")", 0)
    return Tuple(tuple(elements), c.span_to(i, c.i - 1))


def _constant_group(c: Cursor, depth: int) -> Operand | None:
    """Read `(constant) operator ...`; None, with the cursor back at the `(`, when it is a list."""
    i = c.i
    closer, level = i, 0
    while c.kinds[closer] not in (";", "end"):
        level += (c.kinds[closer] == "(") - (c.kinds[closer] == ")")
        if level == 0:
            break
        closer += 1
    if c.kinds[closer + 1 if closer + 1 < len(c.kinds) else closer] not in PRECEDENCE:
        return None
    c.i += 1
    inner = read_constant(c, 1, depth + 1)
    c.expect(")", f"to close the '(' of column {c.cols[i]}")
    return continue_constant(c, inner, 1, depth)


_READERS: dict[str, Callable[[Cursor, int], Operand]] = {
    NAME: _name,
    NUMBER: _number,
    "-": _signed,
    "+": _signed,
    "~": _signed,
    "!": _not,
    "{": _vector,
    "[": _address,
    "(": _parenthesised,
}
