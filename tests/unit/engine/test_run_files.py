"""Every program of tests/ptx/run does what it says beside its code, under every schedule."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from drywell.base.errors import DeadlockError, KernelFault
from run_file import read_run_file

FOLDER = Path(__file__).parents[2] / "ptx" / "run"
PROGRAMS = sorted(FOLDER.rglob("*.ptx"))
SCHEDULES: dict[str, dict[str, Any]] = {
    "eager": {"schedule": "eager"},
    "lazy": {"schedule": "lazy"},
    "seed 5": {"seed": 5},
    "seed 6": {"seed": 6},
}
PTXAS = shutil.which("ptxas")


def name_of(program: Path) -> str:
    return str(program.relative_to(FOLDER).with_suffix(""))


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 60


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_a_program_does_what_it_says(program: Path, schedule: str) -> None:
    said = read_run_file(program)
    assert said.says_something
    if said.deadlock:
        with pytest.raises(DeadlockError) as stuck:
            said.run(**SCHEDULES[schedule])
        assert [words for words in said.deadlock if words not in str(stuck.value)] == []
    elif said.fault:
        with pytest.raises(KernelFault) as raised:
            said.run(**SCHEDULES[schedule])
        assert said.fault[0] == raised.value.rule
        assert said.fault[1] == raised.value.span.line
    else:
        result = said.run(**SCHEDULES[schedule])
        assert "".join(f"{line}\n" for line in said.printed) == result.printed
    assert said.failures() == []


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the path")
@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_ptxas_assembles_a_program(program: Path, tmp_path: Path) -> None:
    command = [str(PTXAS), "-arch=sm_100a", str(program), "-o", str(tmp_path / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)
