"""Answers of a GPU are judged by running the same programs on Drywell under each value of a switch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import LaunchError
from drywell.cli.main import main
from drywell.examples.probe import script
from drywell.examples.probe.questions import questions
from drywell.examples.probe.selftest import selftest
from drywell.host.answers import read_probe, reading_lines, readings, save_captures
from drywell.host.probe import Answer, Reading, answer, decided, judge, judge_all, match
from drywell.host.question import FILL, Question, from_object, out, pack, to_object, unpack
from drywell.report.text import plain
from unit.examples.dry_driver import DryDriver

MACHINE = {"gpu": "Drywell", "capability": [10, 0], "sms": 148, "cuda": "13.0", "driver": "0"}
ASKED = {question.name: question for question in questions()}
ABOUT_SWITCHES = [to_object(q) for q in questions() if q.switch and "sm_100a" in q.targets]
FIRST: dict[str, Any] = {
    "tmem_lane_window": "error",
    "tmem_fresh": "zero",
    "tmem_base": "random",
    "unpack_high_half": "preserve",
    "narrow_in_byte": "low",
    "shift_scope": "all",
    "ashift_keeps": "last",
    "padded_complete_tx": "slots",
    "scaled_d_flushes": True,
    "d_sets_window": "above_products",
    "nvf4_group": "4",
    "drops_tiny_groups": True,
    "zero_products": "align_d",
    "zero_scales_in_window": True,
}
SECOND: dict[str, Any] = {
    "unpack_high_half": "zero",
    "zero_products_in_window": True,
    "zero_blocks": "out_of_window",
    "nvf4_group": "4",
}


def probed(switches: dict[str, Any], asked: list[Any], path: Path) -> Path:
    """Let the script ask a Drywell with these switches, as if it were a B200."""

    def asking(question: dict[str, Any]) -> dict[str, Any]:
        result = script.ask(DryDriver(switches), question, "sm_100a")
        return dict(result, name=question["name"], seconds=0.0)

    script.run(asked, asking, str(path), MACHINE)
    return path


@pytest.mark.parametrize("switches", [{}, FIRST, SECOND], ids=["defaults", "first", "second"])
def test_the_reader_names_exactly_the_values_that_the_gpu_has(
    switches: dict[str, Any], tmp_path: Path
) -> None:
    kept = readings(read_probe(probed(switches, ABOUT_SWITCHES, tmp_path / "probe.json")))
    assert len(kept) == len(ABOUT_SWITCHES)
    for reading in kept:
        question = reading.question
        true = switches.get(question.switch, question.values[0])
        assert reading.judgement in ("settled", "undecided"), question.name
        assert true in reading.best, question.name
        if question.switch in switches:
            assert reading.best == (true,), question.name
    assert decided(kept).items() >= switches.items()


def test_a_word_that_no_value_gives_is_a_difference_and_is_shown() -> None:
    question = ASKED["T5"]
    model = answer(question, {"unpack_high_half": "zero"})
    words = model.words["out"].copy()
    words[7] ^= 0x40
    reading = judge(question, Answer("done", {"out": words}))
    assert (reading.judgement, reading.best) == ("differs", ())
    assert [m.num_different for m in reading.matches if m.value == "zero"] == [1]
    shown = plain(reading_lines(reading))
    assert f"out[7] is 0x{words[7]:08x}, Drywell has 0x{words[7] ^ 0x40:08x}" in shown
    assert "unpack_high_half='zero': 1 of 512 words differ" in shown


def test_a_definite_value_is_preferred_to_one_that_promises_nothing() -> None:
    question = ASKED["T4"]
    assert judge(question, Answer("done", {"out": np.zeros(512, np.uint32)})).best == ("zero",)
    garbage = np.arange(512, dtype=np.uint32)
    assert judge(question, Answer("done", {"out": garbage})).best == ("poison",)


def test_free_words_and_a_mask_are_not_compared() -> None:
    free = Question("T1", "", "", (out("x", 2),), free={"x": ("any",)}, mask=0xFFFF)
    ours, theirs = (Answer("done", {"x": np.array(w, np.uint32)}) for w in ([1, 2], [0x70001, 3]))
    assert match(free, theirs, ours, "any").agrees
    assert match(free, theirs, ours, "other").num_different == 1
    assert match(replace(free, mask=0xFFFFFFFF), theirs, ours, "other").num_different == 2


@pytest.mark.parametrize(
    ("found", "judgement"),
    [
        ("done", "differs"),
        ("fault", "agrees"),
        ("hang", "differs"),
        ("refused", "no answer"),
        ("error", "no answer"),
    ],
)
def test_how_a_program_ends_counts_like_its_words(found: Any, judgement: str) -> None:
    question = ASKED["M14-version0"]
    assert judge(question, Answer(found, {}, "why")).judgement == judgement


def test_what_drywell_does_not_model_is_said_to_be_so() -> None:
    question = ASKED["T20-2"]
    words = {"after": np.zeros(128 * 32, np.uint32)}
    assert judge(question, Answer("done", words)).judgement == "unmodelled"


def test_answers_that_contradict_each_other_decide_nothing() -> None:
    def settled(name: str, value: str) -> Reading:
        return Reading(ASKED[name], Answer("done"), (), "settled", (value,))

    assert decided([settled("T17-cp4", "low"), settled("T5", "zero")]) == {
        "narrow_in_byte": "low",
        "unpack_high_half": "zero",
    }
    assert decided([settled("T17-cp4", "low"), settled("T17-mma4", "middle")]) == {}


def test_what_one_question_settles_explains_another() -> None:
    """M22 runs with a zero D, so its words hang on the switch of M1, too, and alone they would mislead."""
    switches = {"zero_products_in_window": True, "drops_tiny_groups": False}
    asked = [(ASKED[name], answer(ASKED[name], switches)) for name in ("M22", "M1-mxf4")]
    first, second = judge_all(asked, "sm_100a")
    assert judge(*asked[0]).best == (True,)
    assert (second.judgement, second.best) == ("settled", (True,))
    assert (first.judgement, first.given) == ("undecided", {"zero_products_in_window": True})
    assert "(with zero_products_in_window=True)" in plain(reading_lines(first))


def test_missing_words_are_refused() -> None:
    with pytest.raises(LaunchError, match="question T5: no words of 'out', 512 are needed"):
        judge(ASKED["T5"], Answer("done", {}))


def test_packed_words_come_back_and_other_text_is_refused() -> None:
    words = np.array([1, FILL, 3], np.uint32)
    assert unpack(pack(words), "x").tolist() == words.tolist()
    for text in ("?", pack(words)[:-8], pack(np.zeros(3, np.uint8)), 5):
        with pytest.raises(LaunchError, match="^here: "):
            unpack(text, "here")


def test_a_question_that_lacks_a_field_is_refused_by_name() -> None:
    value = to_object(ASKED["T5"])
    del value["grid"]
    with pytest.raises(LaunchError, match="question T5: KeyError 'grid'"):
        from_object(value)


SELF = [to_object(q) for q in selftest()]


def test_the_command_prints_what_is_settled_and_keeps_captures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [to_object(ASKED[name]) for name in ("T5", "M14-version0", "T20-2")]
    file = probed({"unpack_high_half": "preserve"}, asked, tmp_path / "probe.json")
    kept = tmp_path / "kept.json"
    capsys.readouterr()
    assert main(["probe", "--read", str(file), "--captures", str(kept)]) == 0
    printed = capsys.readouterr().out
    assert "set unpack_high_half='preserve'; T5 is settled by this run" in printed
    assert "1 agrees, 1 settled, 1 unmodelled" in printed
    assert main(["probe", "--read", str(kept), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [a["question"] for a in document["answers"]] == ["T5", "M14-version0", "T20-2"]
    assert document["answers"][0]["values"] == ["preserve"]
    assert document["machine"] == MACHINE


def test_captures_replay_by_themselves(tmp_path: Path) -> None:
    probe = read_probe(probed({}, SELF, tmp_path / "probe.json"))
    kept = readings(probe)
    assert {r.judgement for r in kept} == {"agrees"}
    assert save_captures(tmp_path / "kept.json", probe, kept) == 5  # not the hang and what was refused
    again = readings(read_probe(tmp_path / "kept.json"))
    assert [r.judgement for r in again] == ["agrees"] * 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "format none, needed is 1"),
        ('{"format": 2}', "format 2, needed is 1"),
        ('{"format": 1}', "KeyError 'questions'"),
        ('{"format": 1, "questions": [{}], "results": []}', "question ?: KeyError 'name'"),
    ],
)
def test_a_file_that_is_none_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "probe.json"
    file.write_text(text)
    assert main(["probe", "--read", str(file)]) == 2
    assert message in capsys.readouterr().err


def test_bad_usage_and_missing_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--captures", "x"]) == 2
    assert "go with --read" in capsys.readouterr().err
    assert main(["probe", "--read", str(tmp_path / "none.json")]) == 2
    assert "No such file" in capsys.readouterr().err
    asked = [to_object(ASKED["T5"]) | {"switch": "no_such"}]
    file = probed({}, asked, tmp_path / "probe.json")
    assert main(["probe", "--read", str(file)]) == 2
    assert "there is no switch 'no_such'" in capsys.readouterr().err


def test_the_command_lists_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("T2 ")] == [["T2", "tmem_lane_window"]]
    assert len(lines) == len(questions())
