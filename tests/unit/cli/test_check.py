"""`drywell check` judges a run, SARIF, JSON and exit codes agree, `drywell explain` says what it means."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

RACE = """\
  .shared .b32 cells[32];
  .reg .b32 %at;
  mov.u32 %i, %tid.x;
"""
UNORDERED = """\
  mov.b32 %at, cells;
  shl.b32 %v, %i, 2;
  and.b32 %v, %v, 124;
  add.u32 %at, %at, %v;
  st.shared.u32 [%at], %i;
"""


@pytest.fixture
def racy(spoil: Callable[..., Path]) -> Path:
    """A kernel whose two warps store into the same 32 words."""
    spoil("  mov.u32 %i, %tid.x;\n", RACE, "triple.ptx")
    return spoil("  ld.param.u64 %p, [x];\n", UNORDERED + "  ld.param.u64 %p, [x];\n", "triple.ptx")


def test_a_right_kernel_is_clean(drywell: Callable, folder: Path) -> None:
    said = drywell("check", folder / "triple.toml")
    assert (said.code, said.err) == (0, "")
    head, *_, verdict = said.out.splitlines()
    assert head.endswith(", check ptx")
    assert verdict == "clean: it ran to its end, and the checker found no error"


@pytest.mark.parametrize("level", ["hw", "ptx", "strict"])
def test_a_race_is_found_with_both_parties_and_exits_with_1(
    drywell: Callable, racy: Path, level: str
) -> None:
    said = drywell("check", racy, "--level", level)
    assert said.code == 1, said.all
    assert "error[MEM-RACE]: " in said.out
    assert "CTA 0,0,0, warp 0" in said.out and "CTA 0,0,0, warp 1" in said.out
    assert said.out.splitlines()[-1].startswith("findings: ")


def test_run_checks_unless_told_not_to(drywell: Callable, racy: Path) -> None:
    said = drywell("run", racy)
    assert said.code == 1
    assert "error[MEM-RACE]" in said.out
    unchecked = drywell("run", racy, "--check", "off")
    assert unchecked.code == 0
    assert unchecked.out.splitlines()[-1].startswith("unchecked: ")


def test_json_holds_both_parties_the_place_the_hint_and_the_count(drywell: Callable, racy: Path) -> None:
    said = drywell("check", racy, "--json")
    found = json.loads(said.out)
    assert (said.code, found["verdict"], found["stats"]["check"]) == (1, "findings", "ptx")
    (finding,) = found["findings"]
    assert (finding["rule"], finding["severity"]) == ("MEM-RACE", "error")
    assert finding["span"]["file"] == "triple.ptx" == finding["other"]["file"]
    assert finding["place"] == {"space": "shared", "name": "cells", "count": 4}
    assert {finding["warp"], finding["other_party"]["warp"]} <= {0, 1}
    assert finding["cta"] == [0, 0, 0] == finding["other_party"]["cta"]
    assert finding["lanes"] and finding["other_party"]["lanes"]
    assert finding["hint"] and finding["note"] and finding["count"] == 32


@pytest.mark.parametrize("command", [["check"], ["run"]])
def test_sarif_is_written_beside_the_report(
    drywell: Callable, racy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    path = tmp_path / "out.sarif"
    said = drywell(*command, racy, "--sarif", path)
    assert said.code == 1
    (run,) = json.loads(path.read_text())["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("MEM-RACE", "error")
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == f"{tmp_path.name}/triple.ptx"
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]
    assert run["properties"] == {"verdict": "findings"}


def test_sarif_of_a_clean_run_has_no_results(drywell: Callable, folder: Path) -> None:
    assert 0 == drywell("check", folder / "triple.toml", "--sarif", folder / "out.sarif").code
    (run,) = json.loads((folder / "out.sarif").read_text())["runs"]
    assert (run["results"], run["properties"]) == ([], {"verdict": "clean"})


def test_sarif_of_an_illegal_kernel_has_its_diagnostics(drywell: Callable, spoil: Callable) -> None:
    launch = spoil("mul.lo.u32", "mul.low.u32", "triple.ptx")
    assert 2 == drywell("check", launch, "--sarif", launch.parent / "out.sarif").code
    (run,) = json.loads((launch.parent / "out.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["E0301"]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_a_sarif_file_that_cannot_be_written_is_bad_usage(drywell: Callable, folder: Path) -> None:
    said = drywell("check", folder / "triple.toml", "--sarif", folder / "nowhere" / "out.sarif")
    assert said.code == 2
    assert "nowhere/out.sarif: No such file or directory" in said.err


def test_a_budget_is_never_clean_and_says_why_beside_findings(drywell: Callable, racy: Path) -> None:
    said = drywell("check", racy, "--max-instructions", "15", "--json")
    found = json.loads(said.out)
    assert (said.code, found["verdict"]) == (3, "budget")
    assert "15" in found["message"]


def test_wrong_numbers_are_a_mismatch_also_when_checked(drywell: Callable, spoil: Callable) -> None:
    said = drywell("check", spoil("3 * x", "2 * x"), "--json")
    assert (said.code, json.loads(said.out)["verdict"]) == (1, "mismatch")


def test_roles_are_shown_and_in_the_json(drywell: Callable, folder: Path) -> None:
    said = drywell("run", folder / "triple.toml", "--roles")
    assert said.code == 0
    assert "  warps 0-1  writes global memory\n" in said.out
    assert "Hand-overs: the kernel has no mbarrier\n" in said.out
    found = json.loads(drywell("run", folder / "triple.toml", "--roles", "--json").out)
    assert [(role["warp"], role["name"]) for role in found["roles"]] == [
        (0, "writes global memory"),
        (1, "writes global memory"),
    ]
    assert found["handovers"] == []
    assert "roles" not in json.loads(drywell("run", folder / "triple.toml", "--json").out)


def test_explain_shows_a_page_and_lists_them_all(drywell: Callable) -> None:
    said = drywell("explain", "mem-race")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("MEM-RACE: ")
    listed = drywell("explain")
    assert listed.code == 0
    assert "Tensor Memory and tcgen05\n" in listed.out
    assert "  MEM-RACE " in listed.out and "  E0312 " in listed.out


def test_explain_of_what_is_not_there_is_bad_usage_with_a_suggestion(drywell: Callable) -> None:
    said = drywell("explain", "MEM-RASE")
    assert (said.code, said.out) == (2, "")
    assert "did you mean MEM-RACE" in said.err


def test_explain_json_is_one_object(drywell: Callable) -> None:
    (page,) = json.loads(drywell("explain", "E0312", "--json").out)["rules"]
    assert page["rule"] == "E0312" and page["summary"]
    assert len(json.loads(drywell("explain", "--json").out)["rules"]) > 150
