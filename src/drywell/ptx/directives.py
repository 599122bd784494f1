"""The directives that the tree keeps as words: where they stand, how they are read and printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from drywell.base.record import record
from drywell.ptx.cursor import Cursor, suggestion
from drywell.ptx.lexer import DOT, END, NAME, NUMBER, STRING
from drywell.ptx.literals import read_integer
from drywell.ptx.tree import Directive

Place = Literal["module", "header", "body"]
"""Beside functions, between a function's parameters and its body, or among statements."""

Arguments = Literal["integers", "strings", "names", "words", "file", "loc"]


@record
class Form:
    """Where a directive may stand, its arguments (`least` to `most`), and whether `;` ends it."""

    places: tuple[Place, ...]
    arguments: Arguments
    least: int = 0
    most: int = 0
    semicolon: bool = False


_HEADER: tuple[Place, ...] = ("header",)
DIRECTIVES: dict[str, Form] = {
    "maxnreg": Form(_HEADER, "integers", 1, 1),
    "maxntid": Form(_HEADER, "integers", 1, 3),
    "reqntid": Form(_HEADER, "integers", 1, 3),
    "minnctapersm": Form(_HEADER, "integers", 1, 1),
    "maxnctapersm": Form(_HEADER, "integers", 1, 1),
    "reqnctapercluster": Form(_HEADER, "integers", 1, 3),
    "explicitcluster": Form(_HEADER, "integers"),
    "maxclusterrank": Form(_HEADER, "integers", 1, 1),
    "blocksareclusters": Form(_HEADER, "integers"),
    "noreturn": Form(_HEADER, "integers"),
    "abi_preserve": Form(_HEADER, "integers", 1, 1),
    "abi_preserve_control": Form(_HEADER, "integers", 1, 1),
    "language": Form(_HEADER, "integers", 1, 1),
    "pragma": Form(("module", "header", "body"), "strings", 1, 99, semicolon=True),
    "alias": Form(("module",), "names", 2, 2, semicolon=True),
    "calltargets": Form(("body",), "names", 1, 1 << 30, semicolon=True),
    "callprototype": Form(("body",), "words", 0, 1 << 30, semicolon=True),
    "file": Form(("module",), "file", 2, 4),
    "loc": Form(("body",), "loc", 3, 9),
}
"""Every directive but those with nodes of their own.

Source: PTX manual, "Directives"; `.language` and `.explicitcluster` as compilers write them.
"""

_PLACE_NAMES: dict[Place, str] = {
    "module": "outside functions",
    "header": "between a function's parameters and its '{'",
    "body": "inside a function's body",
}


def read_directive(c: Cursor, place: Place, others: tuple[str, ...] = ()) -> Directive:
    """Read the directive at the cursor; `others` are further words that hints may propose."""
    i = c.i
    name = c.text[1:]
    form = DIRECTIVES.get(name)
    if form is None:
        known = [f".{word}" for word, known in DIRECTIVES.items() if place in known.places]
        c.fail(
            "E0130",
            f"the directive '.{name}' is not known {_PLACE_NAMES[place]}",
            at="not known",
            hint=suggestion(f".{name}", [*known, *others]),
        )
    if place not in form.places:
        c.fail(
            "E0132",
            f"'.{name}' cannot stand {_PLACE_NAMES[place]}",
            at="in the wrong place",
            hint=f"move it {' or '.join(_PLACE_NAMES[p] for p in form.places)}",
        )
    c.i += 1
    arguments = _READERS[form.arguments](c)
    if not form.least <= len(arguments) <= form.most:
        _wrong_count(c, i, name, form, len(arguments))
    if form.semicolon:
        c.end_statement()
    return Directive(name, arguments, c.span(i))


def _wrong_count(c: Cursor, i: int, name: str, form: Form, found: int) -> None:
    needed = str(form.least) if form.least == form.most else f"{form.least} to {form.most}"
    needed = f"at least {form.least}" if form.most >= 1 << 30 else needed
    noun = {"strings": "string", "names": "name", "integers": "integer"}.get(form.arguments, "argument")
    c.report(
        "E0131",
        f"'.{name}' takes {needed} {noun}{'' if needed == '1' else 's'}, found {found}",
        span=c.span_to(i, max(c.i - 1, i)),
        at=f"{needed} needed",
    )


def _integer(c: Cursor) -> int:
    text = c.expect(NUMBER, f"in '{c.texts[c.begin]}'")
    value = read_integer(text)
    if value is None:
        c.fail(
            "E0131",
            f"an integer is needed here, found {text}",
            span=c.span(c.i - 1),
            at="not an integer",
        )
    return value[0]


def _integers(c: Cursor) -> tuple[str | int, ...]:
    if c.kind != NUMBER:
        return ()
    values = [_integer(c)]
    while c.accept(","):
        values.append(_integer(c))
    return tuple(values)


def _strings(c: Cursor) -> tuple[str | int, ...]:
    values = [c.expect(STRING, "in '.pragma'")]
    while c.accept(","):
        values.append(c.expect(STRING, "in '.pragma'"))
    return tuple(values)


def _names(c: Cursor) -> tuple[str | int, ...]:
    values = [c.expect(NAME, "here")]
    while c.accept(","):
        values.append(c.expect(NAME, "after ','"))
    return tuple(values)


def _words(c: Cursor) -> tuple[str | int, ...]:
    """Read everything up to the `;` as spelt."""
    i = c.i
    while c.kind not in (";", END, "}", "{") and not c.begins_statement(c.i):
        c.i += 1
    return tuple(c.texts[i : c.i])


def _file(c: Cursor) -> tuple[str | int, ...]:
    """Read `number "name"`, and a time stamp and a size when they follow."""
    values: list[str | int] = [_integer(c), c.expect(STRING, "in '.file'")]
    while c.accept(","):
        values.append(_integer(c))
    return tuple(values)


def _loc(c: Cursor) -> tuple[str | int, ...]:
    """Read `file line column`, and `, function_name F, inlined_at file line column` behind it."""
    values: list[str | int] = [_integer(c), _integer(c), _integer(c)]
    if c.kind == "," and c.texts[c.i + 1] == "function_name":
        name = c.texts[c.i + 2]
        c.i += 2
        c.expect(NAME, "after 'function_name'")
        if c.accept("+"):
            name += f"+{_integer(c)}"
        values += ["function_name", name]
    if c.kind == "," and c.texts[c.i + 1] == "inlined_at":
        c.i += 2
        values += ["inlined_at", _integer(c), _integer(c), _integer(c)]
    return tuple(values)


_READERS: dict[Arguments, Callable[[Cursor], tuple[str | int, ...]]] = {
    "integers": _integers,
    "strings": _strings,
    "names": _names,
    "words": _words,
    "file": _file,
    "loc": _loc,
}


def print_directive(directive: Directive) -> str:
    """Return a directive as PTX text, with its `;` where it has one."""
    form = DIRECTIVES[directive.name]
    words = [str(argument) for argument in directive.arguments]
    if form.arguments == "loc":
        text = (
            " ".join(words)
            .replace(" function_name", ", function_name")
            .replace(" inlined_at", ", inlined_at")
        )
    elif form.arguments == "file":
        text = f"{words[0]} {', '.join(words[1:])}"
    else:
        text = (" " if form.arguments == "words" else ", ").join(words)
    return f".{directive.name}{' ' if text else ''}{text}{';' if form.semicolon else ''}"


def skip_section(c: Cursor) -> None:
    """Step over `.section .debug_x { ... }`, which the tree does not keep."""
    c.i += 1
    if c.kind not in (DOT, NAME):
        c.fail("E0131", f"'.section' needs the section's name, found {c.shown()}", at="not a name")
    name = c.text
    c.i += 1
    if c.kind != "{":
        c.fail(
            "E0110",
            f"'{{' is needed after '.section {name}', found {c.shown()}",
            at="'{' is missing",
        )
    c.skip_braces(f"section '{name}'")
