"""Every program of tests/ptx/run does what it says beside its code, under every schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drywell.base.errors import DeadlockError, KernelFault
from run_file import read_run_file

PROGRAMS = sorted((Path(__file__).parents[2] / "ptx" / "run").rglob("*.ptx"))
SCHEDULES: dict[str, dict[str, Any]] = {
    "eager": {"schedule": "eager"},
    "lazy": {"schedule": "lazy"},
    "seed 5": {"seed": 5},
    "seed 6": {"seed": 6},
}


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 10


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_a_program_does_what_it_says(program: Path, schedule: str) -> None:
    said = read_run_file(program)
    assert said.claims or said.fault or said.deadlock
    if said.deadlock:
        with pytest.raises(DeadlockError) as stuck:
            said.run(**SCHEDULES[schedule])
        assert said.deadlock in str(stuck.value)
    elif said.fault:
        with pytest.raises(KernelFault) as raised:
            said.run(**SCHEDULES[schedule])
        assert said.fault[0] == raised.value.rule
        assert said.fault[1] == raised.value.span.line
    else:
        result = said.run(**SCHEDULES[schedule])
        assert said.printed in result.printed
    assert said.failures() == []
