"""Bugs of other projects as small kernels: each gives the rule that its row of README.md names, at the lines
that it marks, under every schedule.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell.base.diagnostic import Severity
from drywell.base.span import Source
from drywell.program.module import check_module
from drywell.ptx import parse
from run_file import check_end, found_by, marks_of, read_run_file

FOLDER = Path(__file__).parent
SCHEDULES: dict[str, dict[str, Any]] = {
    "eager": {"schedule": "eager"},
    "lazy": {"schedule": "lazy"},
    "seed 5": {"seed": 5},
    "seed 6": {"seed": 6},
}
STALLS = ("DEADLOCK", "LIVELOCK-SPIN")
REFUSED = re.compile(r"// error\[(E\d{4})\]: (.*?)\s*$", re.MULTILINE)
SOMETIMES = re.compile(r"// in some orders this ends in the fault ([A-Z-]+)$")
PTXAS = shutil.which("ptxas")
Marks = set[tuple[str, int]]


class Row(NamedTuple):
    """One report: its rules (any of the alternatives, all of each) and its programs."""

    id: str
    rule: str
    programs: tuple[str, ...]
    remark: str


def _rows() -> dict[str, Row]:
    out = {}
    for line in (FOLDER / "README.md").read_text().split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if re.match(r"B\d{3}$", cells[0]):
            programs = tuple(re.findall(r"`(\w+)`", cells[3]))
            out[cells[0]] = Row(cells[0], cells[2], programs, cells[4])
    return out


ROWS = _rows()
ALL = sorted(FOLDER.glob("*.ptx"))
RUN = [p for p in ALL if not REFUSED.search(p.read_text())]
NOT_RUN = [p for p in ALL if p not in RUN]


def row_of(program: Path) -> Row:
    return ROWS[program.name[:4]]


def is_twin(program: Path) -> bool:
    """Whether a program shows how it is done right."""
    return "_twin_" in program.name


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", RUN, ids=lambda p: p.stem)
def test_a_bug_is_found_where_it_is(program: Path, schedule: str) -> None:
    said = read_run_file(program)
    lines = program.read_text().split("\n")
    sometimes = {(m[1], n) for n, line in enumerate(lines, 1) if (m := SOMETIMES.search(line))}
    findings, error = found_by(said, **SCHEDULES[schedule])
    found = {(f.rule, f.span.line) for f in findings if f.rule not in STALLS}
    expected, shown = marks_of(said), "\n".join(f"{f.span}: {f.rule}: {f.message}" for f in findings)
    assert found - sometimes == expected, shown
    if not found & sometimes:
        check_end(said, error)


@pytest.mark.parametrize("program", RUN, ids=lambda p: p.stem)
def test_a_program_names_the_rule_of_its_row(program: Path) -> None:
    said, rule = read_run_file(program), row_of(program).rule
    named = {rule for rule, _ in marks_of(said)} | ({"DEADLOCK"} if said.deadlock else set())
    if is_twin(program) or rule == "-":
        assert named == set()
    elif rule == "-?":
        assert named
    else:
        choices = [set(choice.split(" and ")) for choice in rule.split(" or ")]
        assert any(choice <= named for choice in choices)


@pytest.mark.parametrize("program", NOT_RUN, ids=lambda p: p.stem)
def test_a_program_is_refused_where_it_is_wrong(program: Path) -> None:
    source = Source(program.name, program.read_text())
    tree, unread = parse(source)
    assert not unread
    errors = [d for d in check_module(tree, source).diagnostics if d.severity is Severity.ERROR]
    found = {(d.code, d.span.line, d.message) for d in errors}
    for number, line in enumerate(source.text.split("\n"), 1):
        if mark := REFUSED.search(line):
            (of_line,) = [f for f in found if f[1] == number]
            assert mark[1] == of_line[0]
            assert mark[2] in of_line[2]
            found -= {of_line}
    assert found == set()
    assert "E-PTX" in row_of(program).rule


def test_each_row_has_its_programs_or_a_reason() -> None:
    assert sorted(p.stem for p in ALL) == sorted(name for row in ROWS.values() for name in row.programs)
    assert [row.id for row in ROWS.values() if not (row.programs or row.remark)] == []
    assert len(ROWS) == 64
    for row in ROWS.values():
        assert row.rule in ("PLAN", "NUM", "-", "-?") or any("_twin_" not in name for name in row.programs)


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the path")
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.stem)
def test_ptxas_takes_what_runs_and_refuses_what_does_not(program: Path, tmp_path: Path) -> None:
    target = re.search(r"^\.target (\w+)", program.read_text(), re.MULTILINE)
    assert target is not None
    command = [str(PTXAS), f"-arch={target[1]}", str(program), "-o", str(tmp_path / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if program in RUN:
        assert (done.stdout + done.stderr, done.returncode) == ("", 0)
    else:
        assert done.returncode != 0
