"""Every open row has its question; a question runs on Drywell and tells the values of its switch apart."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from drywell.base.options import Options
from drywell.examples.probe.corners import table
from drywell.examples.probe.questions import UNASKED, questions
from drywell.examples.probe.selftest import selftest
from drywell.host import probe
from drywell.host.probe import answer, judge, models
from drywell.host.question import Question, from_object, to_object
from oracle.probe import search
from oracle.probe.judge import STORE, digest, programs
from oracle.ptxas import assembler

ASKED = {question.name: question for question in (*questions(), *selftest())}
DEVIATIONS = (Path(__file__).parents[3] / "DEVIATIONS.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([TMAP]\d+) \|", DEVIATIONS, re.MULTILINE)  # C: numbers that no kernel tells
NAMES = [field.name for field in fields(Options)]
SWITCHES = NAMES[NAMES.index("max_instructions") + 1 :]
EVERY = pytest.mark.parametrize("name", ASKED)


def target_of(question: Question) -> str:
    return "sm_100a" if "sm_100a" in question.targets else "sm_103a"


def test_names_are_unique() -> None:
    assert len(ASKED) == len(questions()) + len(selftest())


def test_every_row_of_deviations_has_a_question_or_a_reason_for_none() -> None:
    asked = {question.row for question in questions()} - {"S0"}
    assert asked | set(UNASKED) == set(ROWS)
    assert not asked & set(UNASKED)


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_has_a_question_with_all_its_values_default_first(switch: str) -> None:
    about = [question for question in questions() if question.switch == switch]
    assert about
    values = get_args(get_type_hints(Options)[switch]) or (False, True)
    for question in about:
        assert question.values[0] == getattr(Options(), switch)
        assert set(question.values) == set(values)


@EVERY
def test_drywell_runs_a_question_and_its_words_name_the_value_they_came_from(name: str) -> None:
    question = ASKED[name]
    target = target_of(question)
    compared = models(question, target)
    for value, model in compared:
        assert model.ended in ("done", "fault", "hang", "unsupported") or name == "S7", model.why
        reading = judge(question, model, target)
        if value is None:
            assert reading.judgement in ("agrees", "unmodelled") or model.ended == "unsupported"
        elif question.undecided:
            assert value in reading.best
        else:
            assert (reading.judgement, reading.best) == ("settled", (value,))


@EVERY
def test_a_question_comes_back_from_json_as_it_was(name: str) -> None:
    question = ASKED[name]
    text = json.dumps(to_object(question))
    back = from_object(json.loads(text))
    assert json.dumps(to_object(back)) == text
    assert (back.row, back.outs, back.values) == (question.row, question.outs, question.values)


@EVERY
def test_ptxas_took_the_program_for_every_target_it_is_for(name: str) -> None:
    stored = json.loads(STORE.read_text())["accepted"]
    for target, text in programs(ASKED[name]):
        assert digest(text) in stored, f"{name} for {target} has changed: python -m oracle.probe.judge"


@pytest.mark.skipif(not assembler.is_there(), reason="no ptxas on the path")
def test_ptxas_still_takes_some_of_them(tmp_path: Path) -> None:
    for name in ("T5", "T18", "M1-bf16", "M20", "A9", "A22-taken", "P10"):
        for target, text in programs(ASKED[name]):
            source = tmp_path / "question.ptx"
            source.write_text(text)
            command = ["ptxas", f"-arch={target}", str(source), "-o", str(tmp_path / "question.cubin")]
            assert subprocess.run(command, capture_output=True).returncode == 0


def test_the_stored_operands_are_decisive_in_every_case() -> None:
    """Each row of a corner's D differs in its own column, and nowhere else."""
    for name, entry in table().items():
        question = ASKED[name]
        one, other = (model.words["after"].reshape(128, 16) & question.mask for _, model in models(question))
        where = {(row, row % 16) for row in range(128)}
        differ = one != other
        assert {(int(r), int(c)) for r, c in zip(*differ.nonzero(), strict=True)} == where, name
        assert len(entry["a"]) == search.COLUMNS * search.ROWS_OF_A_COLUMN


@pytest.mark.parametrize("name", ["M1-mxf4", "M20"])
def test_a_search_finds_the_stored_operands_again(name: str) -> None:
    index, corner = next((n, c) for n, c in enumerate(search.CORNERS) if c.name == name)
    draw, rows = next(search.cases(corner, index))
    assert draw.a[rows[0]].tobytes().hex() == table()[name]["a"][0]
    assert draw.b[0].tobytes().hex() == table()[name]["b"][0]


def test_digests_tell_programs_apart() -> None:
    texts = [text for question in ASKED.values() for _, text in programs(question)]
    assert len({digest(text) for text in texts}) == len(set(texts))
    assert digest("a") == hashlib.sha256(b"a").hexdigest()[:16]


def test_an_answer_of_drywell_says_how_it_ended() -> None:
    assert answer(ASKED["S2"]).ended == "fault"
    assert answer(ASKED["S3"]).ended == "hang"
    assert answer(ASKED["S7"]).ended == "refused"
    assert answer(ASKED["T16-offset"]).ended == "unsupported"


def test_a_switch_does_not_matter_to_programs_that_lack_what_it_is_about() -> None:
    for switch in SWITCHES:
        about = [question.ptx for question in questions() if question.switch == switch]
        assert all(probe._NEEDED.get(switch, "") in ptx for ptx in about)
    turned = {q.switch: q.values[-1] for q in questions() if q.switch}
    for name in ("T2", "T5", "T18", "M10-one", "M18", "M27-bf16", "A20-b4", "M5-bf16", "M1-mxf8"):
        question = ASKED[name]
        others = {n: v for n, v in turned.items() if n != question.switch}
        few = probe._concerning(question, others)
        assert few != others
        one, other = answer(question, others), answer(question, few)
        assert {n: w.tolist() for n, w in one.words.items()} == {
            n: w.tolist() for n, w in other.words.items()
        }
