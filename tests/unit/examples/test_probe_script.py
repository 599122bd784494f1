"""probe.py: what an owner of a GPU runs. Here its GPU is Drywell; `--selftest` was run on an H200."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drywell.examples.probe import script
from drywell.examples.probe.generate import script as generated
from drywell.examples.probe.questions import questions
from drywell.examples.probe.selftest import selftest
from drywell.host.probe import MAP_ADDRESS, answer
from drywell.host.question import to_object, unpack
from drywell.machine.tensor_map import ELEMENT_TYPES, FILL_MODES, INTERLEAVES, L2_PROMOTIONS
from unit.examples.dry_driver import DryDriver

TEXT = generated()
MACHINE = {"gpu": "Drywell", "capability": [10, 0], "sms": 148, "cuda": "13.0", "driver": "0"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("probe") / "probe.py"
    where.write_text(TEXT, encoding="utf-8")
    return where


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(path), *arguments], capture_output=True, text=True, timeout=60)


def test_it_is_python_3_8_and_needs_the_standard_library_alone() -> None:
    tree = ast.parse(TEXT, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert imported <= sys.stdlib_module_names
    assert "drywell" not in imported


def test_it_holds_the_questions_as_they_are(path: Path) -> None:
    spec = importlib.util.spec_from_file_location("probe_written", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert json.loads(json.dumps(module.QUESTIONS)) == json.loads(
        json.dumps(list(map(to_object, questions())))
    )
    assert [q["name"] for q in module.SELFTEST] == [q.name for q in selftest()]
    assert module.MADE_BY.startswith("drywell ")


def test_list_names_the_questions_and_only_chooses_among_them(path: Path) -> None:
    every = run(path, "--list").stdout.splitlines()
    assert [line.split()[0] for line in every] == [q.name for q in questions()]
    some = run(path, "--list", "--only", "T3", "m1-bf16,M20").stdout.splitlines()
    named = {line.split()[0] for line in some}
    assert named == {q.name for q in questions() if q.row == "T3"} | {"M1-bf16", "M20"}
    wrong = run(path, "--only", "T99")
    assert wrong.returncode != 0
    assert "no question is called t99: see --list" in wrong.stderr


def test_without_a_driver_it_says_so(path: Path) -> None:
    done = run(path)
    if "no NVIDIA driver found" not in done.stderr:
        pytest.skip("there is an NVIDIA driver here")
    assert done.returncode == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("capability", "is_selftest", "refused"),
    [((10, 0), False, False), ((10, 3), False, False), ((9, 0), True, False), ((9, 0), False, True),
     ((12, 0), False, True), ((12, 0), True, True), ((8, 0), True, True)],
)  # fmt: skip
def test_another_gpu_is_refused_kindly(capability: tuple[int, int], is_selftest: bool, refused: bool) -> None:
    said = script.refusal(MACHINE | {"capability": list(capability)}, is_selftest)
    assert bool(said) is refused
    if refused:
        assert f"compute capability {capability[0]}.{capability[1]}" in said
        assert "Nothing was run" in said


def test_its_tables_are_those_of_the_tensor_maps() -> None:
    assert {n: code for n, (code, _) in script.ELEMENT_TYPES.items()} == {
        n: e.driver_code for n, e in ELEMENT_TYPES.items()
    }
    assert tuple(script.INTERLEAVES) == INTERLEAVES
    assert tuple(script.L2_PROMOTIONS) == L2_PROMOTIONS
    assert tuple(script.FILLS) == FILL_MODES
    assert script.MAP_ADDRESS == MAP_ADDRESS


def test_a_program_for_sm_103a_has_the_version_that_knows_it() -> None:
    for question in questions():
        for target in question.targets:
            assert script.program(to_object(question), target) == question.text(target)


@pytest.mark.parametrize("name", ["S1", "S2", "S3", "S4", "S5", "S6", "S7"])
def test_the_selftest_asked_through_a_driver_gives_what_drywell_gives(name: str) -> None:
    question = next(q for q in selftest() if q.name == name)
    result = script.ask(DryDriver(), to_object(question), "sm_100a")
    expected = answer(question)
    assert result["ended"] == expected.ended
    assert {k: unpack(v, k).tolist() for k, v in result["words"].items()} == {
        k: v.tolist() for k, v in expected.words.items()
    }


def test_a_run_keeps_what_is_known_so_far(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [to_object(q) for q in selftest()[:3]]
    file = tmp_path / "out.json"
    seen: list[Any] = []

    def asking(question: dict[str, Any]) -> dict[str, Any]:
        if seen:
            assert len(json.loads(file.read_text())["results"]) == len(seen)
        seen.append(question["name"])
        return dict(script.ask(DryDriver(), question, "sm_100a"), name=question["name"], seconds=0)

    results = script.run(asked, asking, str(file), MACHINE)
    document = json.loads(file.read_text())
    assert document["results"] == results
    assert document["questions"] == asked
    assert (document["format"], document["target"], document["machine"]) == (1, "sm_100a", MACHINE)
    assert script.report(results) == "1 done, 1 fault, 1 hang"
    printed = capsys.readouterr().out
    assert "[  1/3] S1" in printed
    assert "128 words" in printed
    assert "fault: cuStreamQuery: CUDA_ERROR_LAUNCH_FAILED (719)" in printed


def test_questions_for_another_target_are_left_out(tmp_path: Path) -> None:
    asked = [to_object(q) for q in questions() if q.row == "M24"]
    assert script.run(asked, lambda q: {}, str(tmp_path / "out.json"), MACHINE) == []


def test_a_driver_that_cannot_encode_a_map_is_no_end_of_it() -> None:
    question = to_object(next(q for q in selftest() if q.name == "S5"))
    question["args"][0]["fields"]["box_dim"] = [3, 16]
    result = script.ask(DryDriver(), question, "sm_100a")
    assert result["ended"] == "refused"
    assert "cuTensorMapEncodeTiled" in result["why"]
