"""Damaged texts: cut off, with pieces lost or strange. Nothing crashes; what is kept can be printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.base.span import Source
from drywell.ptx import CODES, parse, print_module

TRAPS = (Path(__file__).parents[1] / "ptx" / "parse" / "traps.ptx").read_text()
_SPELT = (
    "{ } ( ) [ ] , ; : | + - @ ! < > = . \" /* */ // 0f 0x1 0x1G 1.5 -1 (1+ _ %r1 % $ # ' \\ \n \t \x7f é "
    ".reg .b32 .param .entry .func .visible .extern .global .loc .pragma .section .file .version .target "
    ".branchtargets .attribute( L: @p @!p mov.b32 {%r1, [%rd1+ generic( .align .v4 .ptr .noreturn"
)
PIECES = _SPELT.split(" ")


def examine(text: str) -> None:
    """Parse `text` and check what must hold whatever it says."""
    source = Source("damaged.ptx", text)
    module, found = parse(source)
    lines = text.split("\n")
    for diagnostic in found:
        assert diagnostic.code in CODES
        assert diagnostic.message
        assert diagnostic.render(source).startswith("damaged.ptx:")
        line, col = diagnostic.span.line, diagnostic.span.col
        assert line == 0 or (line <= len(lines) and col + diagnostic.span.length <= len(lines[line - 1]) + 2)
    assert sorted(found, key=lambda d: (d.span.line, d.span.col)) == list(found)
    whole = replace(module, version=(9, 0), target=("sm_100a",))
    again, complaints = parse(Source("printed.ptx", print_module(whole)))
    assert whole == again
    assert {d.code for d in complaints} <= {d.code for d in found}


@given(st.integers(0, len(TRAPS)))
@settings(max_examples=60)
def test_a_text_cut_off_anywhere_is_reported(end: int) -> None:
    examine(TRAPS[:end])


@pytest.mark.parametrize("end", range(0, 400, 7))
def test_a_text_cut_off_near_its_beginning_is_reported(end: int) -> None:
    examine(TRAPS[:end])


edits = st.tuples(
    st.integers(0, len(TRAPS)), st.integers(0, 30), st.lists(st.sampled_from(PIECES), max_size=3)
)


@given(st.lists(edits, min_size=1, max_size=6))
@settings(max_examples=120)
def test_a_text_with_pieces_lost_and_put_in_is_read(changes: list[tuple[int, int, list[str]]]) -> None:
    text = TRAPS
    for place, lost, pieces in changes:
        text = text[:place] + " ".join(pieces) + text[place + lost :]
    examine(text)


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.booleans())
@settings(max_examples=200)
def test_tokens_in_any_order_are_read(pieces: list[str], is_inside: bool) -> None:
    inside = ".version 9.0\n.target sm_100a\n.entry k()\n{\n" if is_inside else ""
    examine(inside + " ".join(pieces))


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_any_text_at_all_is_read(text: str) -> None:
    examine(text)


@given(st.sampled_from(["{", "(", "[", "!", "{a,", "[a,", "-", "~", ".entry k {", "@"]), st.integers(1, 3000))
@settings(max_examples=40)
def test_endless_repetition_is_read(piece: str, count: int) -> None:
    head = ".version 9.0\n.target sm_100a\n.entry k()\n{\nop "
    text = head + piece * count
    parse(Source("repeated.ptx", text))
