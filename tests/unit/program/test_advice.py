"""What `drywell verify` warns of in programs that assemble: exactly the lines of tests/ptx/verify/advice that
say `// warning[E0340]: words of the message`, and nothing in real kernels.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import drywell
from drywell.base.diagnostic import Severity
from drywell.host.launch import check
from drywell.isa.abstract import NOTHING, Value, literal, special
from drywell.program.advice import advice

TESTS = Path(__file__).parents[2]
PROGRAMS = sorted((TESTS / "ptx" / "verify" / "advice").glob("*.ptx"))
KERNELS = sorted(
    path
    for folder in (TESTS / "corpus", Path(drywell.__file__).parent)
    for path in folder.rglob("*.ptx")
    if not path.name.startswith("zoo")  # forms with 0 for every descriptor
)
MARK = re.compile(r"// warning\[(E\d{4})\]: (.*?)\s*$")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_exactly_the_marked_lines_are_warned_of(path: Path) -> None:
    program, problems, source = check(path)
    assert program is not None
    assert [p for p in problems if p.severity is Severity.ERROR] == []
    marks = {
        n: match.groups() for n, line in enumerate(source.text.split("\n"), 1) if (match := MARK.search(line))
    }
    found = {d.span.line: d for d in advice(program)}
    assert {n: code for n, (code, _) in marks.items()} == {n: d.code for n, d in found.items()}
    for n, (_, words) in marks.items():
        assert words in found[n].message
        assert found[n].severity is Severity.WARNING and found[n].hint


def test_each_code_is_shown_by_a_program() -> None:
    codes = {match[1] for path in PROGRAMS for match in re.finditer(MARK.pattern, path.read_text(), re.M)}
    assert codes == {"E0340", "E0341", "E0342", "E0343"}


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_real_kernels_are_warned_of_nothing(path: Path) -> None:
    program, _, _ = check(path)
    assert program is None or advice(program) == []


def test_where_ways_meet_only_what_both_know_is_known() -> None:
    both = literal(0b1100).meet(literal(0b1010))
    assert (both.bits & 0b1000, both.known & 0b0110) == (0b1000, 0)
    assert special("%tid.x").meet(NOTHING) == NOTHING
    assert special("%laneid").meet(Value(varies=True)) == Value(varies=True)
    assert special("%ctaid.x") == NOTHING
