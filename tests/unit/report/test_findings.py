"""A finding is shown with the lines of both parties, as much of their texts as is at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drywell.base.diagnostic import Edit, Finding, Party, Place, Severity
from drywell.base.span import NOWHERE, Source, Span
from drywell.report.findings import MOST_COLUMNS, excerpt, finding_lines, sources_of, told_apart
from drywell.report.text import plain

PTX = Source("k.ptx", "\tld.shared.b32 %r1, [%r2];\n\tst.shared.b32 [%r2], %r3;\n")
CUDA = Source("k.cu", "int a;\n  s[0] = x;\n")
FINDING = Finding(
    "MEM-RACE",
    Severity.ERROR,
    "warp 1 reads tile (4 bytes) while warp 0 may still write it",
    Span("k.ptx", 1, 2, 13, "k.cu:9"),
    (0, 2, 0),
    1,
    tuple(range(32)),
    other=Span("k.ptx", 2, 2, 13, "k.cu:2"),
    hint="put a barrier between them",
    other_party=Party("", (0, 2, 0), 0, (4,)),
    place=Place("shared", "tile", 4),
    note="nothing orders the two accesses",
)


def shown(finding: Finding, *texts: Source) -> list[str]:
    return plain(finding_lines([finding], sources_of(*texts))).splitlines()


def test_both_parties_have_their_line_who_was_there_and_the_authors_line() -> None:
    assert shown(FINDING, PTX, CUDA) == [
        "k.ptx:1:2: error[MEM-RACE]: warp 1 reads tile (4 bytes) while warp 0 may still write it",
        "    1 |  ld.shared.b32 %r1, [%r2];",
        "      |  ^^^^^^^^^^^^^ CTA 0,2,0, warp 1",
        "      = compiled from k.cu:9",
        "    2 |  st.shared.b32 [%r2], %r3;",
        "      |  ^^^^^^^^^^^^^ CTA 0,2,0, warp 0, lane 4",
        "      = k.cu:2: s[0] = x;",
        "  note: nothing orders the two accesses",
        "  hint: put a barrier between them",
    ]


def test_without_the_text_the_places_are_named() -> None:
    assert shown(FINDING)[1:3] == [
        "  note: k.ptx:1:2: CTA 0,2,0, warp 1, compiled from k.cu:9",
        "  note: k.ptx:2:2: CTA 0,2,0, warp 0, lane 4, compiled from k.cu:2",
    ]


def test_one_line_that_is_both_parties_is_shown_once() -> None:
    lines = shown(replace(FINDING, other=FINDING.span), PTX)
    assert 1 == sum(line.startswith("    1 |") for line in lines)
    assert "  note: the other party is at the same line: CTA 0,2,0, warp 0, lane 4" in lines


def test_a_finding_without_a_place_still_says_who() -> None:
    lines = shown(replace(FINDING, span=NOWHERE, other=None, note="", hint=""))
    assert lines == [
        "error[MEM-RACE]: warp 1 reads tile (4 bytes) while warp 0 may still write it",
        "  note: CTA 0,2,0, warp 1",
    ]


def test_a_report_of_its_own_is_not_dressed_up() -> None:
    report = Finding("DEADLOCK", Severity.ERROR, "error[DEADLOCK]: nobody can go on\n  warp 0 waits", NOWHERE)
    assert shown(report, PTX) == report.message.split("\n")


@pytest.mark.parametrize(("severity", "most"), [(Severity.ERROR, 10), (Severity.WARNING, 5)])
def test_of_many_places_of_one_rule_the_first_are_shown_and_the_others_counted(
    severity: Severity, most: int
) -> None:
    many = [
        replace(FINDING, severity=severity, span=Span("k.ptx", 100 + k, 1), other=Span("k.ptx", 200 + k, 1))
        for k in range(14)
    ]
    other = replace(FINDING, rule="TMEM-RACE")
    lines = plain(finding_lines([*many, other])).splitlines()
    heads = [line for line in lines if line.startswith("k.ptx:")]
    assert len(heads) == most + 1
    rest = f"{severity}[MEM-RACE]: {14 - most} more places (all of them with --json or --sarif)"
    assert rest in lines
    assert lines.index(rest) < lines.index(heads[-1])


def test_what_one_rule_says_of_one_place_stands_together() -> None:
    at_one_place = [replace(FINDING, other=Span("k.ptx", 200 + k, 1)) for k in range(12)]
    lines = plain(finding_lines([FINDING, *at_one_place], sources_of(PTX))).splitlines()
    assert 1 == sum("error[MEM-RACE]" in line for line in lines)
    said = "200, 201, 202, 203, 204, 205, 206, 207 and 4 more (all of them with --json or --sarif)"
    assert f"  note: the same with lines {said}" in lines


def test_what_one_party_does_to_many_places_stands_together() -> None:
    places = [replace(FINDING, span=Span("k.ptx", 100 + k, 1)) for k in range(2)]
    lines = plain(finding_lines([FINDING, *places], sources_of(PTX))).splitlines()
    assert 1 == sum("error[MEM-RACE]" in line for line in lines)
    assert "  note: the same at lines 100, 101" in lines


def test_notes_of_one_rule_are_two_quiet_lines() -> None:
    notes = [
        replace(FINDING, severity=Severity.NOTE, span=Span("k.ptx", 100 + k, 1), count=3) for k in range(4)
    ]
    assert plain(finding_lines(notes, sources_of(PTX, CUDA))).splitlines() == [
        "k.ptx:100:1: note[MEM-RACE]: warp 1 reads tile (4 bytes) while warp 0 may still write it (12 times)",
        "  hint: put a barrier between them",
    ]


def test_prose_is_folded_at_120_columns_and_set_in() -> None:
    message = "warp 1 reads " + "a place with a long name " * 8 + "too early"
    lines = shown(replace(FINDING, message=message, note="", hint=message), PTX)
    assert all(len(line) <= 120 for line in lines)
    assert lines[1].startswith("    ")
    whole = " ".join(line.strip() for line in lines)
    assert 2 == whole.count(message)


@pytest.mark.parametrize("column", [1, 60, 150, 290])
@pytest.mark.parametrize("length", [1, 10, 200])
def test_an_excerpt_of_a_long_line_holds_the_place(column: int, length: int) -> None:
    text = "".join(chr(ord("a") + k % 26) for k in range(300))
    part, at = excerpt(text, column, length)
    assert len(part) <= MOST_COLUMNS
    assert text[column - 1] == part[at - 1]
    seen = min(length, len(text) - column + 1, MOST_COLUMNS - 2 * len("..."))
    assert text[column - 1 : column - 1 + seen] == part[at - 1 : at - 1 + seen]
    whole = part.removeprefix("...").removesuffix("...")
    assert whole in text


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place("tmem", "tmem[lane 0, col 64]"), "tmem[lane 0, col 64]"),
        (Place("tmem", "tmem[lane 0, col 64]", 1025), "tmem[lane 0, col 64] and 1,024 more cells"),
        (Place("shared", "tile+4", 1), "tile+4"),
        (Place("global", "A+0x40", 4096), "A+0x40 (4,096 bytes)"),
    ],
)
def test_a_place_says_how_much_of_it(place: Place, text: str) -> None:
    assert text == str(place)


def test_what_one_edit_may_repair_stands_together_and_counts_once() -> None:
    edit = Edit("behind", Span("k.ptx", 7, 1), "fence.proxy.async")
    pairs = [
        replace(FINDING, span=Span("k.ptx", 100 + k, 1), other=Span("k.ptx", 200 + k, 1), edits=(edit,))
        for k in range(3)
    ]
    assert told_apart(pairs) == pairs[:1]
    assert "  note: the same at lines 101, 102" in plain(finding_lines(pairs)).splitlines()


def test_the_hint_of_a_group_is_the_one_that_may_do_for_all_of_it() -> None:
    stores = [Span("k.ptx", 200 + k, 1) for k in range(3)]
    pairs = [
        replace(FINDING, other=store, edits=(Edit("behind", store, "fence"),), hint=f"behind {store.line}")
        for store in stores
    ]
    hints = [line for line in plain(finding_lines(pairs)).splitlines() if "hint" in line]
    assert hints == ["  hint: behind 202"]
