"""Read the declarations of registers, variables and parameters."""

from __future__ import annotations

from drywell.base.dtypes import TYPES
from drywell.base.record import record
from drywell.base.span import Span
from drywell.ptx.constants import read_constant
from drywell.ptx.cursor import MAX_NESTING, Cursor, Unreadable, suggestion
from drywell.ptx.lexer import DOT, END, NAME, NUMBER
from drywell.ptx.literals import read_integer
from drywell.ptx.operands import read_operand
from drywell.ptx.tree import (
    Float,
    Initial,
    Integer,
    Name,
    Offset,
    Registers,
    Tuple,
    Variable,
    Vector,
)

SPACES = (".global", ".const", ".shared", ".local", ".param")
"""The state spaces of variables, as spelt."""

LINKAGE = (".extern", ".visible", ".weak", ".common")
"""Words before a variable or a function."""

_VECTORS = (".v2", ".v4", ".v8")
_OPAQUE_TYPES = ("texref", "samplerref", "surfref")
_POINTER_SPACES = (".global", ".const", ".shared", ".local")
_MOST_NUMBERED = 1 << 20


@record
class _Head:
    """What a declaration says before its names."""

    space: str
    type: str
    align: int | None
    vector: str
    linkage: tuple[str, ...]
    ptr: tuple[str, int | None] | None


def read_registers(c: Cursor) -> Registers:
    """Read `.reg .type names;`."""
    i = c.i
    c.i += 1
    _align(c)
    vector = _vector(c)
    kind = _type(c, "registers")
    names = [_register_name(c)]
    while c.accept(","):
        names.append(_register_name(c))
    c.end_statement()
    return Registers(kind, tuple(names), vector, c.span(i))


def _register_name(c: Cursor) -> tuple[str, int | None]:
    name = c.expect(NAME, "for the register")
    return name, _count(c)


def _count(c: Cursor) -> int | None:
    """Read the `<count>` of numbered names, None when there is none."""
    if not c.accept("<"):
        return None
    place = c.i
    count = _natural(c, "for the number of names between '<' and '>'")
    if count > _MOST_NUMBERED:
        c.fail(
            "E0134",
            f"{count} names are declared at once",
            span=c.span(place),
            at=f"at most {_MOST_NUMBERED}",
        )
    c.expect(">", "behind the number of names")
    return count


def read_variables(c: Cursor, linkage: tuple[str, ...] = ()) -> tuple[Variable, ...]:
    """Read `.space .type names;`: one Variable for each name, numbered names spelt out."""
    head = _head(c, linkage)
    variables = list(_variable(c, head))
    while c.accept(","):
        variables += _variable(c, head)
    c.end_statement()
    return tuple(variables)


def _variable(c: Cursor, head: _Head) -> list[Variable]:
    span = c.span()
    name = c.expect(NAME, "for the variable")
    count = _count(c)
    if count is not None:
        return [_made(head, f"{name}{n}", (), None, span) for n in range(count)]
    shape = _shape(c)
    init = read_initial(c) if c.accept("=") else None
    return [_made(head, name, shape, init, span)]


def _made(
    head: _Head, name: str, shape: tuple[int | None, ...], init: Initial | None, span: Span
) -> Variable:
    return Variable(
        head.space,
        head.type,
        name,
        shape,
        head.align,
        head.vector,
        head.linkage,
        head.ptr,
        init,
        span,
    )


def read_parameters(c: Cursor) -> tuple[Variable, ...]:
    """Read `( parameters )`; what cannot be read is reported and left out."""
    c.expect("(", "before the parameters")
    params: list[Variable] = []
    if c.accept(")"):
        return ()
    while True:
        c.begin = c.i
        try:
            params.append(_parameter(c))
            if c.kind not in (",", ")"):
                _unfinished(c)
        except Unreadable:
            c.skip_to((",", ")", "{", ";"))
        if c.accept(","):
            continue
        if c.kind == ")":
            c.i += 1
        return tuple(params)


def _unfinished(c: Cursor) -> None:
    c.fail(
        "E0110",
        f"',' or ')' is needed after the parameter, found {c.shown()}",
        at="',' or ')' is missing",
        span=c.after_previous(),
    )


def _parameter(c: Cursor) -> Variable:
    linkage: tuple[str, ...] = ()
    while c.kind == DOT and c.text in (".hidden", *LINKAGE):
        if c.text != ".hidden":
            c.report("E0132", f"'{c.text}' cannot stand before a parameter", hint="delete it")
        else:
            linkage += ("hidden",)
        c.i += 1
    if c.kind != DOT or c.text not in (".param", ".reg"):
        c.fail("E0134", f"a parameter begins with '.param', found {c.shown()}", at="not '.param'")
    head = _head(c, linkage)
    span = c.span()
    name = c.expect(NAME, "for the parameter")
    return _made(head, name, _shape(c), None, span)


def _head(c: Cursor, linkage: tuple[str, ...]) -> _Head:
    """Read `.space .attribute .align N .vN .type .ptr`, in the one order that PTX has."""
    space = c.text[1:]
    c.i += 1
    linkage += read_attributes(c)
    align = _align(c)
    vector = _vector(c)
    kind = _type(c, f".{space} variable")
    ptr = None
    if c.kind == DOT and c.text == ".ptr":
        c.i += 1
        ptr_space = ""
        if c.kind == DOT and c.text in _POINTER_SPACES:
            ptr_space = c.text[1:]
            c.i += 1
        ptr = (ptr_space, _align(c))
    if c.kind == DOT:
        c.fail(
            "E0134",
            f"'{c.text}' cannot stand behind the type '.{kind}'",
            at="in the wrong place",
            hint="the order is .space .align N .vN .type .ptr .space .align N name",
        )
    return _Head(space, kind, align, vector, linkage, ptr)


def read_attributes(c: Cursor) -> tuple[str, ...]:
    """Read `.attribute(...)` words as one spelling each: `attribute(.managed)`."""
    words: tuple[str, ...] = ()
    while c.kind == DOT and c.text == ".attribute":
        i = c.i
        c.i += 1
        c.expect("(", "after '.attribute'")
        depth = 1
        while depth:
            if c.kind in (END, ";", "{"):
                c.fail(
                    "E0110",
                    f"')' is needed to close '.attribute(', found {c.shown()}",
                    at="')' is missing",
                )
            depth += (c.kind == "(") - (c.kind == ")")
            c.i += 1
        words += ("".join(c.texts[i : c.i])[1:],)
    return words


def _align(c: Cursor) -> int | None:
    if c.kind != DOT or c.text != ".align":
        return None
    c.i += 1
    place = c.i
    align = _natural(c, "after '.align'")
    if align < 1 or align & (align - 1):
        c.report(
            "E0134",
            f"an alignment is a power of two, found {align}",
            span=c.span(place),
            at="not a power of two",
        )
    return align


def _vector(c: Cursor) -> str:
    if c.kind != DOT or c.text not in _VECTORS:
        return ""
    c.i += 1
    return c.texts[c.i - 1][1:]


def _type(c: Cursor, what: str) -> str:
    """Read `.type`."""
    word = c.text[1:]
    if c.kind != DOT:
        c.fail(
            "E0134",
            f"the type of the {what} is needed, found {c.shown()}",
            at="not a type",
            hint="write a type such as .b32 before the name",
        )
    if word not in TYPES and word not in _OPAQUE_TYPES:
        known = [f".{name}" for name in (*TYPES, "align", "v2", "v4")]
        c.fail("E0133", f"'.{word}' is not a type", at="not a type", hint=suggestion(f".{word}", known))
    c.i += 1
    return word


def _natural(c: Cursor, purpose: str) -> int:
    place = c.i
    text = c.expect(NUMBER, purpose)
    value = read_integer(text)
    if value is None or value[0] >> 63:
        c.fail(
            "E0134",
            f"an integer is needed {purpose}, found {text}",
            span=c.span(place),
            at="not an integer",
        )
    return value[0]


def _shape(c: Cursor) -> tuple[int | None, ...]:
    """Read array extents, `[4][8]`; an open one, `[]`, is None."""
    extents: list[int | None] = []
    while c.accept("["):
        if c.accept("]"):
            extents.append(None)
            continue
        extents.append(_natural(c, "for the extent of the array"))
        c.expect("]", "behind the extent of the array")
    return tuple(extents)


def read_initial(c: Cursor, depth: int = 0) -> Initial:
    """Read an initialiser: a constant, a symbol, a list in braces, `generic(s)` or `0xFF(s)`."""
    if depth > MAX_NESTING:
        c.fail("E0116", f"the initialiser is nested more than {MAX_NESTING} deep")
    i = c.i
    if c.kind == "{":
        return _initial_list(c, depth)
    if c.kind in (NAME, NUMBER) and c.kinds[i + 1] == "(":
        return _applied(c, depth)
    if c.kind in (NUMBER, "-", "+", "~", "!", "("):
        return read_constant(c)
    if c.kind != NAME:
        c.fail("E0135", f"a value is needed in the initialiser, found {c.shown()}", at="not a value")
    value = read_operand(c)
    if not isinstance(value, Name | Offset):
        c.fail("E0135", "the value must be a constant or a symbol", span=c.span(i), at="neither")
    return value


def _initial_list(c: Cursor, depth: int) -> Vector:
    i = c.i
    c.i += 1
    values: list[Initial] = []
    while c.kind != "}" or values:
        values.append(read_initial(c, depth + 1))
        if not c.accept(","):
            break
    c.expect("}", f"to close the '{{' of column {c.cols[i]}")
    return Vector(tuple(values), c.span_to(i, c.i - 1))


def _applied(c: Cursor, depth: int) -> Tuple:
    """Read `generic(symbol)` or `0xFF(symbol)` as the list of its two parts.

    The offset of `generic(symbol)+4` goes with the symbol.
    """
    i = c.i
    outer: Name | Integer | Float
    if c.kind == NAME:
        outer = Name(c.text, c.span())
        if c.text != "generic":
            c.fail(
                "E0135",
                f"an initialiser has 'generic(symbol)', found '{c.text}('",
                at="not 'generic'",
            )
        c.i += 1
    else:
        value = read_integer(c.text)
        if value is None:
            c.fail("E0135", f"a mask is an integer, found {c.text}", at="not an integer")
        outer = Integer(value[0], value[1], c.span())
        c.i += 1
    c.i += 1
    inner = read_initial(c, depth + 1)
    c.expect(")", f"to close the '(' of column {c.cols[i + 1]}")
    if isinstance(outer, Name) and isinstance(inner, Name) and c.kind == "+":
        c.i += 1
        offset = read_constant(c)
        if isinstance(offset, Float):
            c.fail("E0135", "the offset of an address is an integer", span=offset.span, at="not an integer")
        inner = Offset(inner, offset.value, inner.span)
    elif isinstance(outer, Name) and not isinstance(inner, Name):
        c.fail(
            "E0135",
            "'generic' takes a symbol alone",
            span=c.span(i),
            at="holds something else",
            hint="write an offset behind the ')': generic(symbol)+4",
        )
    return Tuple((outer, inner), c.span_to(i, c.i - 1))
