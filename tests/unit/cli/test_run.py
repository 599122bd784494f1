"""`drywell run` says what happened, and its exit code says how it went."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from drywell.report.page_data import read_page

SPIN = "again:\n  bra again;\n"


def test_a_right_kernel_exits_with_0_and_says_what_ran(drywell: Callable, folder: Path) -> None:
    said = drywell("run", folder / "triple.toml")
    assert (said.code, said.err) == (0, "")
    head, work, compared, verdict = said.out.splitlines()
    assert head == "triple of triple.ptx: grid 1, block 64, schedule eager, check ptx"
    assert "18 warp instructions by 2 warps" in work  # ten lines less the branch that no lane takes
    assert compared.split(maxsplit=1) == ["ok", "x: all 64 elements equal bit for bit with 3 * x"]
    assert verdict.startswith("clean: ")


def test_wrong_numbers_exit_with_1_and_name_the_first(drywell: Callable, spoil: Callable) -> None:
    said = drywell("run", spoil("3 * x", "4 * x - (x == 0)"))
    assert said.code == 1
    assert "WRONG  x: 64 of 64 elements do not agree" in said.out
    assert "x[0] = 0, expected -1" in said.out
    assert said.out.splitlines()[-1].startswith("mismatch: ")


def test_a_fault_exits_with_1_and_shows_the_line(drywell: Callable, spoil: Callable) -> None:
    said = drywell("run", spoil("shape = [64]", "shape = [40]"), "--json")
    assert said.code == 1
    said_again = drywell("run", spoil("u32 = 64", "u32 = 64"))
    assert "triple.ptx:16:3: error[GMEM-OOB]" in said_again.out
    assert "   16 |   ld.global.u32 %v, [%p];" in said_again.out
    assert "CTA 0,0,0, warp 1" in said_again.out


def test_an_endless_kernel_stops_at_the_budget_with_3(drywell: Callable, spoil: Callable) -> None:
    spoil("done:\n", SPIN + "done:\n", "triple.ptx")
    launch = spoil("3 * x", "3 * x")
    said = drywell("run", launch, "--max-instructions", "500")
    assert said.code in (
        1,
        3,
    )  # a warp that provably only repeats itself is a livelock, else the budget ends it
    assert "triple.ptx:20" in said.out


@pytest.mark.parametrize("schedule", ["eager", "lazy", "seeded"])
def test_every_schedule_gives_the_same_numbers(drywell: Callable, folder: Path, schedule: str) -> None:
    said = drywell("run", folder / "triple.toml", "--schedule", schedule)
    assert said.code == 0
    assert ("seed 0" if schedule == "seeded" else f"schedule {schedule}") in said.out


@pytest.mark.parametrize("asked", [["--schedule", "lazy"], ["--seed", "7"], ["--schedule", "eager"]])
@pytest.mark.parametrize("shown", [["--timeline"], ["--perfetto", "trace.json"]])
def test_a_timeline_of_another_schedule_is_refused_not_taken_from_the_clock(
    drywell: Callable, folder: Path, asked: list[str], shown: list[str]
) -> None:
    said = drywell("run", folder / "triple.toml", *shown, *asked)
    assert said.code == 2 and "need the clock, which the" in said.err
    assert "hint: leave out schedule and seed" in said.err and not (folder / "trace.json").exists()


def test_a_seed_alone_asks_for_the_seeded_schedule(drywell: Callable, folder: Path) -> None:
    said = drywell("run", folder / "triple.toml", "--seed", "7")
    assert said.code == 0
    assert "seed 7" in said.out


@pytest.mark.parametrize(
    ("old", "new", "code", "verdict"),
    [
        ("u32 = 64", "u32 = 64", 0, "clean"),
        ("3 * x", "2 * x", 1, "mismatch"),
        ("shape = [64]", "shape = [8]", 1, "fault"),
        ("block =", "blok =", 2, "bad_input"),
        ("triple.ptx", "nowhere.ptx", 2, "bad_input"),
    ],
)
def test_json_is_one_object_with_a_verdict_findings_and_stats(
    drywell: Callable, spoil: Callable, old: str, new: str, code: int, verdict: str
) -> None:
    said = drywell("run", spoil(old, new), "--json")
    assert (said.code, said.err) == (code, "")
    found = json.loads(said.out)
    assert verdict == found["verdict"]
    assert isinstance(found["findings"], list)
    assert isinstance(found["stats"], dict)
    assert bool(found["findings"]) is (verdict in ("mismatch", "fault"))
    assert ("message" in found) is (verdict == "bad_input")


def test_json_of_a_timeline_has_its_cycles_phases_and_waits(drywell: Callable, folder: Path) -> None:
    said = drywell("run", folder / "triple.toml", "--timeline", "--json")
    found = json.loads(said.out)["stats"]["timeline"]
    assert found["cycles"] == found["phases"]["drain"][1] == found["critical_path"][-1]["end"] > 0
    assert set(found["used"]) == {"tensor", "tma", "tmem_read", "tmem_write", "issue"}
    assert found["stalls"] == [] and found["num_sms"] == 1


def test_json_of_bad_usage_is_one_object_too(drywell: Callable, folder: Path) -> None:
    said = drywell("run", folder / "triple.toml", "--schedule", "sometimes", "--json")
    assert (said.code, said.err) == (2, "")
    assert json.loads(said.out)["verdict"] == "bad_input"
    assert "sometimes" in json.loads(said.out)["message"]


def test_json_of_an_illegal_kernel_lists_its_diagnostics(drywell: Callable, spoil: Callable) -> None:
    said = drywell("run", spoil("mul.lo.u32", "mul.low.u32", "triple.ptx"), "--json")
    found = json.loads(said.out)
    assert (said.code, found["verdict"]) == (2, "bad_input")
    (diagnostic,) = found["diagnostics"]
    assert (diagnostic["span"]["line"], diagnostic["severity"]) == (17, "error")


def test_html_writes_one_file_with_the_record_of_the_run(drywell: Callable, folder: Path) -> None:
    page = folder / "out.html"
    said = drywell("run", folder / "triple.toml", "--html", page)
    assert said.code == 0, said.all
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', page.read_text())
    assert found is not None
    record = read_page(found[1])
    assert (record.head.entry, record.head.schedule, record.head.verdict) == ("triple", "timed", "clean")
    assert "schedule timed" in said.out
    seeded = drywell("run", folder / "triple.toml", "--html", page, "--seed", 3)
    assert "seed 3" in seeded.out
    eager = drywell("run", folder / "triple.toml", "--html", page, "--schedule", "eager")
    assert "schedule eager" in eager.out


def test_the_page_of_a_kernel_with_a_mistake_has_its_findings(drywell: Callable, spoil: Callable) -> None:
    launch = spoil("shape = [64]", "shape = [32]")
    page = launch.parent / "out.html"
    said = drywell("run", launch, "--html", page, "--json")
    verdict = json.loads(said.out)
    assert (said.code, verdict["verdict"]) == (1, "fault")
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', page.read_text())
    assert found is not None
    record = read_page(found[1])
    assert record.head.verdict == "fault"
    assert [f.rule for f in record.findings] == [f["rule"] for f in verdict["findings"]]


def test_a_page_that_cannot_be_written_is_bad_usage(drywell: Callable, folder: Path) -> None:
    said = drywell("run", folder / "triple.toml", "--html", folder / "absent" / "out.html")
    assert said.code == 2
    assert "--html" in said.err and "No such file" in said.err


def test_what_the_kernel_prints_is_shown(drywell: Callable, spoil: Callable) -> None:
    spoil("{\n  .reg .b32 %i", PRINTING_HEAD + "  .reg .b32 %i", "triple.ptx")
    spoil(".visible .entry", DECLARED + ".visible .entry", "triple.ptx")
    launch = spoil("done:\n", PRINTING + "done:\n", "triple.ptx")
    said = drywell("run", launch)
    assert said.code == 0, said.all
    assert "  | hello\n" in said.out
    stats = json.loads(drywell("run", launch, "--json").out)["stats"]
    assert stats["printed"] == "hello\n" * 64


DECLARED = """\
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);
.global .align 1 .b8 text[7] = {104, 101, 108, 108, 111, 10, 0};
"""
PRINTING_HEAD = "{\n  .reg .b64 %text;\n"
PRINTING = """\
  {
  .param .b64 f;
  .param .b64 v;
  .param .b32 r;
  mov.u64 %text, text;
  cvta.global.u64 %text, %text;
  st.param.b64 [f], %text;
  mov.b64 %text, 0;
  st.param.b64 [v], %text;
  call.uni (r), vprintf, (f, v);
  }
"""
