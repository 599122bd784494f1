"""Edits of PTX texts: where new lines go, and where each line was before."""

from __future__ import annotations

import pytest

from drywell.base.diagnostic import Edit, EditKind
from drywell.base.span import Span
from drywell.host.editing import Draft, drafts

TEXT = """\
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k() {
    .reg .pred %p;
    .reg .b32 %r;
    @%p bra END;
    mov.u32 %r, 1;  // one
    @%p mov.u32 %r, 2; mov.u32 %r, 3;
END:
    bar.sync 0;
    ret;
}
"""


def span_of(words: str, text: str = TEXT) -> Span:
    at = text.index(words)
    line = text.count("\n", 0, at) + 1
    return Span("k.ptx", line, at - text.rfind("\n", 0, at), len(words))


def edited(kind: EditKind, words: str, text: str = "", **more: object) -> list[Draft]:
    edit = Edit(kind, span_of(words), text, **more)  # type: ignore[arg-type]
    return list(drafts(Draft.of(TEXT), edit))


def line(draft: Draft, number: int) -> str:
    return draft.text.split("\n")[number - 1]


def test_a_line_goes_behind_an_instruction_with_its_indentation() -> None:
    (draft,) = edited("behind", "mov.u32 %r, 1", "membar.cta")
    assert line(draft, 9) == "    membar.cta;"
    assert line(draft, 8).endswith("// one")
    assert [draft.origin(Span("k", n, 1)) for n in (8, 10, 14)] == [8, 9, 13]
    assert draft.origin(Span("k", 9, 1)) < 0


def test_two_instructions_get_two_lines_and_the_guard_where_it_is_asked_for() -> None:
    (draft,) = edited("behind", "bra END", "membar.cta + membar.gl", is_guarded=True)
    assert [line(draft, 8), line(draft, 9)] == ["    @%p membar.cta;", "    @%p membar.gl;"]


def test_an_instruction_amid_a_line_gets_its_neighbour_on_that_line() -> None:
    (draft,) = edited("behind", "mov.u32 %r, 2", "membar.cta")
    assert line(draft, 9) == "    @%p mov.u32 %r, 2; membar.cta; mov.u32 %r, 3;"
    (draft,) = edited("before", "mov.u32 %r, 3", "membar.cta")
    assert line(draft, 9) == "    @%p mov.u32 %r, 2; membar.cta; mov.u32 %r, 3;"
    assert draft.origins == Draft.of(TEXT).origins


def test_a_line_goes_before_an_instruction_and_its_guard() -> None:
    (draft,) = edited("before", "bra END", "membar.cta")
    assert [line(draft, 7), line(draft, 8)] == ["    membar.cta;", "    @%p bra END;"]
    assert draft.origin(Span("k", 8, 1)) == 7


def test_a_barrier_is_tried_before_the_branches_on_the_way_too() -> None:
    here, before_the_branch = edited("meet", "mov.u32 %r, 1", "bar.sync 0")
    assert line(here, 8) == "    bar.sync 0;"
    assert line(before_the_branch, 7) == "    bar.sync 0;"


def test_words_and_last_operands_are_replaced() -> None:
    (draft,) = edited("replace", "bar.sync 0", "1", old="0")
    assert line(draft, 11) == "    bar.sync 1;"
    (draft,) = edited("operand", "mov.u32 %r, 1", "7")
    assert line(draft, 8) == "    mov.u32 %r, 7;  // one"
    assert edited("replace", "bar.sync 0", "x", old="missing") == []


def test_an_instruction_moves_without_its_guard_and_its_line_goes_with_it() -> None:
    (draft,) = edited("move", "bar.sync 0", to=span_of("bra END"))
    assert line(draft, 8) == "    bar.sync 0;"
    assert line(draft, 12) == "    ret;"
    assert draft.origins[8:11] == (8, 9, 10)


def test_a_deleted_instruction_takes_its_line_along_unless_something_else_is_on_it() -> None:
    (draft,) = edited("drop", "mov.u32 %r, 1")
    assert draft.text == TEXT.replace("    mov.u32 %r, 1;  // one\n", "")
    assert draft.origin(Span("k", 8, 1)) == 9
    (draft,) = edited("drop", "mov.u32 %r, 2")
    assert line(draft, 9) == "     mov.u32 %r, 3;"


def test_line_ends_stay_those_of_the_text() -> None:
    text = TEXT.replace("\n", "\r\n")
    edit = Edit("behind", span_of("bar.sync 0", text), "membar.cta")
    (draft,) = drafts(Draft.of(text), edit)
    assert "    bar.sync 0;\r\n    membar.cta;\r\n" in draft.text


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Edit("behind", span_of("ret"), "x"), "put x behind line 12"),
        (Edit("replace", span_of("ret"), ".a", ".b"), "write .a for .b in line 12"),
        (Edit("move", span_of("ret"), to=span_of("bra END")), "move line 12 behind line 7"),
        (Edit("drop", span_of("ret")), "delete line 12"),
    ],
)
def test_an_edit_reads_as_the_words_of_a_hint(edit: Edit, words: str) -> None:
    assert str(edit) == words
