"""Programs under tests/ptx/verify whose illegal lines are marked: `// error[E0312]: words of the message`.
The verdict of ptxas stands on line 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import drywell.isa.registry  # noqa: F401  (declares every instruction)
from drywell.base.diagnostic import Severity
from drywell.base.span import Source
from drywell.program.module import check_module
from drywell.ptx import parse

PROGRAMS = sorted((Path(__file__).parents[2] / "ptx" / "verify").rglob("*.ptx"))
MARK = re.compile(r"// error\[(E\d{4})\]: (.*?)\s*$")


def marks(text: str) -> dict[int, tuple[str, str]]:
    return {
        n: (m.group(1), m.group(2)) for n, line in enumerate(text.split("\n"), 1) if (m := MARK.search(line))
    }


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 10


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_exactly_the_marked_lines_are_refused(program: Path) -> None:
    source = Source(program.name, program.read_text())
    tree, unread = parse(source)
    assert not unread
    found: dict[int, tuple[str, str]] = {}
    for d in check_module(tree, source).diagnostics:
        if d.severity is Severity.ERROR:
            found.setdefault(d.span.line, (d.code, d.message))
    expected = marks(source.text)
    assert {n: code for n, (code, _) in expected.items()} == {n: code for n, (code, _) in found.items()}
    for n, (_, words) in expected.items():
        assert words in found[n][1]


@pytest.mark.skipif(
    shutil.which("ptxas") is None, reason="the stored verdicts stand alone where ptxas is not installed"
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_ptxas_agrees_on_the_whole_program(program: Path, tmp_path: Path) -> None:
    arch = re.search(r"\.target\s+(\w+)", program.read_text())
    assert arch is not None
    run = subprocess.run(
        ["ptxas", f"-arch={arch.group(1)}", str(program), "-o", str(tmp_path / "out")],
        capture_output=True,
        check=False,
    )
    assert (run.returncode == 0) == (not marks(program.read_text()))
