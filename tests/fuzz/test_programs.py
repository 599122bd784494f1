"""Programs made from the declarations leave the same on both engines; what the generator itself promises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from drywell.host.launch import load
from fuzz.books import BATCH
from fuzz.campaign import Verdict, judge, read_failure, report, ways_of, write_failure
from fuzz.comparison import EAGER, Way, run_program
from fuzz.coverage import forms_in, missing_from
from fuzz.programs import program

SEED = 7
FOUND = sorted((Path(__file__).parent / "found").glob("*.ptx"))
SHORT = 10
"""Statements of the programs here: compiling is what takes the time."""


@pytest.mark.parametrize("number", range(40))
def test_both_engines_leave_the_same(number: int) -> None:
    made = program(SEED, number, most=SHORT)
    verdict = judge(made, "jit", ways_of(number))
    assert verdict.differences == (), report(made, verdict, "jit")


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_what_was_found_once_agrees(path: Path) -> None:
    made, way = read_failure(path)
    assert judge(made, "jit", (way,)).differences == ()


def test_a_failure_is_read_as_it_was_written(tmp_path: Path) -> None:
    made, way = program(SEED, 3), Way(seed=4, check="ptx", data=2)
    verdict = Verdict("unchecked", ("executed: 1 and 2",), way)
    read, again = read_failure(write_failure(tmp_path, made, verdict, "jit"))
    assert way == again
    assert (made.key, made.shape) == (read.key, read.shape)
    assert read.text().endswith(made.text())


def test_programs_without_mistakes_run_to_their_end() -> None:
    made = [p for p in (program(SEED, number) for number in range(100, 140)) if not p.shape.is_faulty]
    ends = Counter(run_program(p, load(p.text()), "interpreter", EAGER).verdict for p in made)
    assert len(made) > 35
    assert ends == {"unchecked": len(made)}


def test_the_programs_hold_every_lane_instruction_and_nearly_all_others() -> None:
    numbers = range(0, 3 * BATCH, 5)
    found = sum((forms_in(program(SEED, number).text()) for number in numbers), Counter[str]())
    assert missing_from(found, lanes_only=True) == []
    assert len(missing_from(found)) < len(found) / 5


def test_a_program_is_the_same_every_time() -> None:
    for number in range(20):
        assert program(3, number).text() == program(3, number).text()


def test_every_smaller_program_is_smaller() -> None:
    made = program(SEED, 5)
    candidates = list(made.smaller())
    assert len(candidates) > made.size
    assert all(c.size < made.size or c.shape != made.shape for c in candidates)
    assert all(len(c.text()) <= len(made.text()) for c in candidates)
