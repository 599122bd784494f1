"""The programs of tests/ptx/run that machine instructions are about leave the same machine natively."""

from __future__ import annotations

from pathlib import Path

import pytest

from run_file import read_run_file
from unit.engine.native.agreement import agree

FOLDER = Path(__file__).parents[3] / "ptx" / "run"
FOLDERS = ("atomics", "barriers", "cluster", "copies", "matrix", "mbarrier", "tcgen05", "tma", "warp")
PROGRAMS = sorted(p for folder in FOLDERS for p in (FOLDER / folder).glob("*.ptx"))


def name_of(program: Path) -> str:
    return str(program.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_a_program_leaves_the_same_machine(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agree(lambda: read_run_file(program).run(schedule="eager", engine="interpreter", workers=1), monkeypatch)
