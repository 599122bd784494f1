"""`drywell check --fix` writes the repaired kernel beside the module, shows the change and what is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

RACY = """\
  .shared .b32 cells[64];
  .reg .b32 %at;
  mov.u32 %i, %tid.x;
  mov.b32 %at, cells;
  shl.b32 %v, %i, 2;
  add.u32 %at, %at, %v;
  st.shared.u32 [%at], %i;
  xor.b32 %v, %v, 128;
  mov.b32 %at, cells;
  add.u32 %at, %at, %v;
  ld.shared.u32 %v, [%at];
"""
"""Each thread reads what one of the other warp has stored."""
STORED_BY_TWO = RACY.replace("  shl.b32 %v, %i, 2;\n", "  shl.b32 %v, %i, 2;\n  and.b32 %v, %v, 124;\n", 1)


@pytest.fixture
def racy(spoil: Callable[..., Path]) -> Path:
    """A kernel that lacks one barrier."""
    return spoil("  mov.u32 %i, %tid.x;\n", RACY, "triple.ptx")


def test_the_repaired_kernel_is_written_beside_the_module_and_shown(
    drywell: Callable, racy: Path, folder: Path
) -> None:
    before = (folder / "triple.ptx").read_text()
    said = drywell("check", "--fix", racy)
    assert (said.code, said.err) == (0, "")
    assert (folder / "triple.ptx").read_text() == before
    after = (folder / "triple.fixed.ptx").read_text()
    assert after == before.replace("  ld.shared.u32", "  bar.sync 0;\n  ld.shared.u32")
    assert said.out.startswith("--- triple.ptx\n+++ triple.fixed.ptx\n")
    assert "\n+  bar.sync 0;\n" in said.out
    assert "repaired   MEM-RACE of line " in said.out
    assert said.out.splitlines()[-1].endswith("triple.fixed.ptx: it runs without findings")


def test_a_file_that_is_there_is_never_overwritten(drywell: Callable, racy: Path, folder: Path) -> None:
    (folder / "triple.fixed.ptx").write_text("mine")
    said = drywell("check", "--fix", "--json", racy)
    assert said.code == 0
    assert (folder / "triple.fixed.ptx").read_text() == "mine"
    found = json.loads(said.out)
    assert found["fix"]["written"].endswith("triple.fixed2.ptx")
    assert [repair["rule"] for repair in found["fix"]["repairs"]] == ["MEM-RACE"]
    assert (found["verdict"], found["findings"], found["fix"]["withdrawn"]) == ("clean", [], [])


def test_what_cannot_be_repaired_is_left_and_nothing_is_written(
    drywell: Callable, spoil: Callable[..., Path], folder: Path
) -> None:
    stored_by_two = spoil("  mov.u32 %i, %tid.x;\n", STORED_BY_TWO, "triple.ptx")
    said = drywell("check", "--fix", stored_by_two)
    assert said.code == 1
    assert "error[MEM-RACE]" in said.out
    assert not (folder / "triple.fixed.ptx").exists()


def test_a_right_kernel_needs_no_repair(drywell: Callable, folder: Path) -> None:
    said = drywell("check", "--fix", folder / "triple.toml")
    assert (said.code, said.out) == (0, "nothing to repair\n")
    assert not (folder / "triple.fixed.ptx").exists()


def test_a_wrong_result_is_no_repair(drywell: Callable, spoil: Callable[..., Path], racy: Path) -> None:
    spoil('value = "3 * x"', 'value = "4 * x"')
    said = drywell("check", "--fix", racy)
    assert said.code == 1
    assert "left:" in said.out and "OUTPUT-MISMATCH" in said.out


def test_views_of_one_run_do_not_go_with_it(drywell: Callable, folder: Path) -> None:
    said = drywell("check", "--fix", "--roles", folder / "triple.toml")
    assert said.code == 2
    assert "--fix goes with neither" in said.err


def test_bad_input_is_refused_as_ever(drywell: Callable, folder: Path) -> None:
    said = drywell("check", "--fix", folder / "none.toml")
    assert said.code == 2
    assert "hint: give the path of a launch file" in said.err
