"""Reports are plain where nobody sees colours, and coloured on a terminal."""

from __future__ import annotations

import doctest
import io
import pkgutil
from importlib import import_module

import pytest

import drywell.report
from drywell.base.diagnostic import Diagnostic, Finding, Severity
from drywell.base.span import Source, Span
from drywell.report.diagnostics import diagnostic_lines, summary
from drywell.report.document import EXIT_CODES, document, encode
from drywell.report.findings import finding_lines, sources_of
from drywell.report.run import comparison_lines, printed_lines, verdict_line
from drywell.report.text import columns, plain, write

SOURCE = Source("k.ptx", "first\n  add.u33 %a, %b;\nthird")
DIAGNOSTIC = Diagnostic(
    "E0301",
    "'.u33' is not a type",
    Span("k.ptx", 2, 7, 3),
    at="not a type",
    notes=("types are b8 to b128",),
    hint="write .u32",
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(drywell.report.__path__)])
def test_the_examples_of_the_docstrings_are_right(name: str) -> None:
    assert doctest.testmod(import_module(f"drywell.report.{name}")).failed == 0


def test_a_diagnostic_has_place_line_caret_note_and_hint() -> None:
    assert plain(diagnostic_lines([DIAGNOSTIC], SOURCE)) == (
        "k.ptx:2:7: error[E0301]: '.u33' is not a type\n"
        "    2 |   add.u33 %a, %b;\n"
        "      |       ^^^ not a type\n"
        "  note: types are b8 to b128\n"
        "  hint: write .u32\n"
    )


def test_an_excerpt_of_another_file_is_not_shown() -> None:
    assert "|" not in plain(diagnostic_lines([DIAGNOSTIC], Source("other.ptx", SOURCE.text)))


def test_colours_change_nothing_but_the_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    lines = (*diagnostic_lines([DIAGNOSTIC], SOURCE), (("[bold]", "red"), " C[3,5] " + "x" * 300))
    terminal, pipe = Terminal(), io.StringIO()
    write(lines, terminal)
    write(lines, pipe)
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b" not in pipe.getvalue()
    uncoloured = "".join(
        part.partition("m")[2] if k else part for k, part in enumerate(terminal.getvalue().split("\x1b["))
    )
    assert pipe.getvalue() == uncoloured


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_color_and_a_dumb_terminal_are_respected(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    terminal = Terminal()
    write([(("red", "red"),)], terminal)
    assert terminal.getvalue() == "red\n"


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    lines = columns([["a", ("12", "bold"), "x"], ["bcd", "3", ""]], right=[1], indent=1)
    assert plain(lines) == " a    12  x\n bcd   3\n"


def test_a_finding_says_who_where_and_from_which_line_of_the_author() -> None:
    span = Span("k.ptx", 2, 3, 3, "k.cu:17")
    finding = Finding(
        "GMEM-OOB", Severity.ERROR, "write past x", span, (1, 0, 0), 2, (0, 1, 2, 5), hint="grow x", count=3
    )
    text = plain(finding_lines([finding], sources_of(SOURCE)))
    for word in (
        "k.ptx:2:3: error[GMEM-OOB]: write past x\n",
        "    2 |   add.u33",
        "^^^ CTA 1,0,0, warp 2, lanes 0-2,5\n",
        "      = compiled from k.cu:17\n",
        "note: it happened 3 times",
        "hint: grow x",
    ):
        assert word in text


def test_a_summary_counts_by_severity() -> None:
    warning = Diagnostic("E0300", "odd", severity=Severity.WARNING)
    assert summary([DIAGNOSTIC, warning, DIAGNOSTIC]) == "2 errors, 1 warning"
    assert summary([]) == "nothing wrong"


def test_very_many_printed_lines_are_cut_and_counted() -> None:
    text = plain(printed_lines("line\n" * 250))
    assert text.count("| line\n") == 200
    assert "and 50 more lines" in text
    assert plain(printed_lines("")) == ""


class Compared:
    """A comparison, as `host` makes them."""

    def __init__(self, num_wrong: int, is_exact: bool) -> None:
        self.buffer, self.num_wrong, self.num_elements, self.is_exact = "C", num_wrong, 4096, is_exact
        self.first, self.first_found, self.first_expected, self.largest_error = (3, 5), 1.5, -2.0, 3.5


def test_a_comparison_says_how_it_is_right_or_where_it_is_wrong() -> None:
    assert plain(comparison_lines(Compared(0, True), "A @ B.T")) == (
        "  ok     C: all 4,096 elements equal bit for bit with A @ B.T\n"
    )
    assert (
        plain(comparison_lines(Compared(0, False)))
        == "  ok     C: all 4,096 elements agree (largest error 3.5)\n"
    )
    assert "agree with what is expected (" in plain(comparison_lines(Compared(0, False), "A + " * 20 + "B"))
    assert plain(comparison_lines(Compared(12, True))) == (
        "  WRONG  C: 12 of 4,096 elements do not agree\n"
        "         the first is C[3,5] = 1.5, expected -2; the largest error is 3.5\n"
    )


def test_every_verdict_has_an_exit_code_and_a_sentence() -> None:
    assert [code for _, code in sorted(EXIT_CODES.items())] == [2, 3, 0, 1, 1, 1, 1, 0, 3]
    for verdict in EXIT_CODES:
        assert plain([verdict_line(verdict)]).startswith(f"{verdict}: ")
        assert document(verdict) == {"verdict": verdict, "findings": (), "stats": {}}
    with pytest.raises(ValueError, match="'perfect' is not a verdict"):
        document("perfect")


def test_json_is_one_line_and_has_no_nan() -> None:
    text = encode(
        document("fault", [Finding("R", Severity.ERROR, "m")], {"x": float("nan")}, "why", [DIAGNOSTIC])
    )
    assert "\n" not in text
    assert '"x":null' in text
    assert '"severity":"error"' in text
