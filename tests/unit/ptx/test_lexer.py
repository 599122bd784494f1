"""Tokens: how the text is cut, and where each piece says it stands."""

from __future__ import annotations

import pytest

from drywell.base.span import Source
from drywell.ptx.lexer import DOT, END, NAME, NUMBER, STRING, lex


def cut(text: str) -> list[tuple[str, str]]:
    """Return (kind, spelling) of each token but the last."""
    tokens, found = lex(Source("t", text))
    assert found == []
    assert tokens.kinds[-1] == END
    return list(zip(tokens.kinds, tokens.texts, strict=True))[:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcgen05.ld.b32{%r1}", [(NAME, "tcgen05.ld.b32"), ("{", "{"), (NAME, "%r1"), ("}", "}")]),
        ("a.b::c .L2::hint", [(NAME, "a.b::c"), (DOT, ".L2::hint")]),
        (".32x32b", [(DOT, ".32x32b")]),
        ("%tid.x,_|%p", [(NAME, "%tid.x"), (",", ","), (NAME, "_"), ("|", "|"), (NAME, "%p")]),
        ("$L__BB0_4:", [(NAME, "$L__BB0_4"), (":", ":")]),
        ("_$_str[11]", [(NAME, "_$_str"), ("[", "["), (NUMBER, "11"), ("]", "]")]),
        ("0x1F 0f3F800000", [(NUMBER, "0x1F"), (NUMBER, "0f3F800000")]),
        ("1.5e-3 .5 7U", [(NUMBER, "1.5e-3"), (NUMBER, ".5"), (NUMBER, "7U")]),
        ("%r<10>", [(NAME, "%r"), ("<", "<"), (NUMBER, "10"), (">", ">")]),
        ("1<<4 % 3", [(NUMBER, "1"), ("<<", "<<"), (NUMBER, "4"), ("%", "%"), (NUMBER, "3")]),
        ('"a // b \\" c"', [(STRING, '"a // b \\" c"')]),
        ("a/* b\n// c\n*/d// e", [(NAME, "a"), (NAME, "d")]),
        ("a /**/ b /***/ c", [(NAME, "a"), (NAME, "b"), (NAME, "c")]),
    ],
)
def test_text_is_cut_into(text: str, expected: list[tuple[str, str]]) -> None:
    assert expected == cut(text)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_token_stands_where_it_says(newline: str) -> None:
    text = newline.join(["\tmov.u32 %r1,", "/* two", "lines */ 7; // x", "", "  ret;"])
    tokens, _ = lex(Source("t", text))
    lines = text.split(newline)
    for k in range(len(tokens.kinds) - 1):
        line = lines[tokens.lines[k] - 1]
        assert tokens.texts[k] == line[tokens.cols[k] - 1 :][: len(tokens.texts[k])]
    assert [1, 1, 1, 3, 3, 5, 5, 5] == tokens.lines


def test_a_byte_order_mark_is_no_token() -> None:
    assert [(NAME, "a")] == cut("\ufeffa")


def test_text_outside_ascii_is_welcome_in_comments_only() -> None:
    assert [(NAME, "a")] == cut("a // é\n/* ü */")
    _, found = lex(Source("t", "aé b"))
    assert [("E0101", 2)] == [(d.code, d.span.col) for d in found]


def test_nothing_but_white_space_and_comments_is_lost() -> None:
    text = "".join(map(chr, range(33, 127))).replace('"', "").replace("//", "")
    tokens, found = lex(Source("t", text))
    covered = sum(map(len, tokens.texts)) + sum(d.span.length for d in found)
    assert len(text) == covered
