"""Compute constant expressions of numbers: `(1 << 4) + 3`.

Arithmetic is in 64 bits, unsigned when an operand is.
Source: PTX manual, "Constant Expressions" and "Integer Constant Expression Evaluation".
"""

from __future__ import annotations

from collections.abc import Callable

from drywell.ptx.cursor import MAX_NESTING, Cursor
from drywell.ptx.lexer import NUMBER
from drywell.ptx.literals import number_problem, read_float, read_integer
from drywell.ptx.tree import Float, Integer

PRECEDENCE = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
"""How tightly each binary operator binds."""


def _quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "<<": lambda a, b: a << b if 0 <= b < 64 else 0,
    ">>": lambda a, b: a >> b if 0 <= b < 64 else (-1 if a < 0 else 0),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "+": lambda a: a,
    "-": lambda a: -a,
    "~": lambda a: ~a,
    "!": lambda a: int(a == 0),
}


def read_number(c: Cursor) -> Integer | Float:
    """Read the number at the cursor, without sign."""
    text, span = c.text, c.span()
    integer = read_integer(text)
    if integer is not None:
        value, unsigned = integer
        if value >> 64:
            c.fail(
                "E0104",
                f"the number {text} does not fit 64 bits",
                at=f"needs {value.bit_length()} bits",
            )
        c.i += 1
        return Integer(value, unsigned, span)
    real = read_float(text)
    if real is None:
        remark, hint = number_problem(text)
        c.fail("E0104", f"the number '{text}' cannot be read", at=remark, hint=hint)
    c.i += 1
    return Float(real[0], real[1], span)


def read_constant(c: Cursor, least: int = 1, depth: int = 0) -> Integer | Float:
    """Read a constant expression whose operators bind at least as tightly as `least`."""
    return continue_constant(c, _unary(c, depth), least, depth)


def continue_constant(c: Cursor, left: Integer | Float, least: int, depth: int = 0) -> Integer | Float:
    """Read on behind the first operand `left` of a constant expression."""
    while PRECEDENCE.get(c.kind, 0) >= least:
        mark, place = c.kind, c.i
        c.i += 1
        right = read_constant(c, PRECEDENCE[mark] + 1, depth + 1)
        if isinstance(left, Float) or isinstance(right, Float):
            c.fail(
                "E0122",
                f"'{mark}' has a floating-point operand; only integers can be computed with",
                span=c.span(place),
                at="needs integers",
                hint="write the result as one number",
            )
        if mark in "/%" and right.value == 0:
            c.fail("E0122", "the constant expression divides by zero", span=right.span, at="is 0")
        left = _folded(_BINARY[mark](left.value, right.value), left, right)
    if c.kind == "?":
        c.fail(
            "E0122",
            "constant expressions with '?' are not read",
            hint="write the value that it has",
        )
    return left


def _unary(c: Cursor, depth: int) -> Integer | Float:
    if depth > MAX_NESTING:
        c.fail("E0116", f"the constant expression is nested more than {MAX_NESTING} deep")
    if c.kind == NUMBER:
        return read_number(c)
    place = c.i
    if c.accept("("):
        inner = read_constant(c, 1, depth + 1)
        c.expect(")", f"to close the '(' of column {c.cols[place]}")
        return inner
    mark = c.kind
    if mark not in _UNARY:
        c.fail("E0122", f"a number is needed here, found {c.shown()}", at="not a number")
    c.i += 1
    operand = _unary(c, depth + 1)
    span = c.span_to(place, c.i - 1)
    if isinstance(operand, Integer):
        value = _UNARY[mark](operand.value)
        return Integer(
            value if mark == "-" and value >= -(1 << 63) else _wrapped(value, operand.unsigned),
            operand.unsigned,
            span,
        )
    return _signed(c, mark, operand, place)


def _signed(c: Cursor, mark: str, operand: Float, place: int) -> Float:
    """Apply a sign to a float literal; only decimal ones can have one."""
    if mark not in "+-":
        c.fail(
            "E0122",
            f"'{mark}' needs an integer, found the float {c.shown(c.i - 1)}",
            span=c.span(place),
        )
    bits = operand.bits ^ ((mark == "-") << (operand.width - 1))
    spelt = c.texts[c.i - 1]
    if spelt[:2].lower() in ("0f", "0d"):
        written = f"{spelt[:2]}{bits:0{operand.width // 4}X}"
        c.report(
            "E0104",
            f"a number given as bits has no sign, found '{mark}{spelt}'",
            span=c.span(place),
            at="the sign belongs in the bits",
            hint=f"write {written}",
        )
    return Float(bits, operand.width, c.span_to(place, c.i - 1))


def _folded(value: int, left: Integer, right: Integer) -> Integer:
    unsigned = left.unsigned or right.unsigned or max(left.value, right.value) >> 63 == 1
    return Integer(_wrapped(value, unsigned), left.unsigned or right.unsigned, left.span)


def _wrapped(value: int, unsigned: bool) -> int:
    value &= (1 << 64) - 1
    return value if unsigned or not value >> 63 else value - (1 << 64)
