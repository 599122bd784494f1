"""Every program of tests/ptx/hazard gives the findings it says beside its code, and no others, under every
schedule; one that says `// error[E0330]: words` is refused when it is loaded, before its rule can be broken.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from drywell.base.diagnostic import Severity
from drywell.base.errors import PtxError
from drywell.host.launch import load
from drywell.observe.hazards.rules import RULES
from run_file import check_end, found_by, marks_of, read_run_file

FOLDER = Path(__file__).parents[2] / "ptx" / "hazard"
REFUSED = re.compile(r"// error\[(E\d{4})\]: (.*?)\s*$", re.MULTILINE)
ALL = sorted(FOLDER.rglob("*.ptx"))
NOT_RUN = [p for p in ALL if REFUSED.search(p.read_text())]
PROGRAMS = [p for p in ALL if p not in NOT_RUN]
FOLDERS = sorted(p for p in FOLDER.iterdir() if p.is_dir())
SCHEDULES: dict[str, dict[str, Any]] = {
    "eager": {"schedule": "eager"},
    "lazy": {"schedule": "lazy"},
    "seed 5": {"seed": 5},
    "seed 6": {"seed": 6},
}
STALLS = ("DEADLOCK", "LIVELOCK-SPIN")
PTXAS = shutil.which("ptxas")


def name_of(program: Path) -> str:
    return str(program.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_a_program_has_the_hazards_it_says(program: Path, schedule: str) -> None:
    said = read_run_file(program)
    findings, error = found_by(said, **SCHEDULES[schedule])
    found = {(f.rule, f.span.line) for f in findings if f.rule not in STALLS}
    assert found == marks_of(said), "\n".join(f"{f.span}: {f.rule}: {f.message}" for f in findings)
    check_end(said, error)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_each_rule_has_a_failing_program_and_a_clean_one(folder: Path) -> None:
    rule = folder.name.upper()
    assert rule in RULES
    said = [read_run_file(program) for program in PROGRAMS if program.parent == folder]
    is_refused = any(program.parent == folder for program in NOT_RUN)
    is_found = any(rule in {r for r, _ in marks_of(s)} or (rule in STALLS and s.deadlock) for s in said)
    assert is_found or is_refused
    assert any(not marks_of(s) and not s.deadlock for s in said)


@pytest.mark.parametrize("program", NOT_RUN, ids=name_of)
def test_a_program_is_refused_where_its_rule_would_be_broken(program: Path) -> None:
    text = program.read_text()
    with pytest.raises(PtxError) as refused:
        load(program)
    (mark,) = REFUSED.finditer(text)
    (problem,) = [d for d in refused.value.diagnostics if d.severity is Severity.ERROR]
    assert (problem.code, problem.span.line) == (mark[1], text[: mark.start()].count("\n") + 1)
    assert mark[2] in problem.message


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the path")
@pytest.mark.parametrize("program", ALL, ids=name_of)
def test_ptxas_assembles_what_runs_and_refuses_what_does_not(program: Path, tmp_path: Path) -> None:
    command = [str(PTXAS), "-arch=sm_100a", str(program), "-o", str(tmp_path / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if program in PROGRAMS:
        assert (done.stdout + done.stderr, done.returncode) == ("", 0)
    else:
        assert done.returncode != 0
