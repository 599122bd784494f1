"""`--svg` writes what a command shows as a picture too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drywell.layout.atoms import read_layout
from drywell.report.fragment import read_form
from drywell.report.pictures import fragment_picture, layout_picture

ROUNDTRIP = Path(__file__).parents[2] / "corpus" / "tirx" / "tmem_roundtrip.toml"
EXPRESSION = 'accumulator("F", N=64)'


def test_layouts_and_fragments_are_drawn(drywell: Callable, tmp_path: Path) -> None:
    layout, fragment = tmp_path / "layout.svg", tmp_path / "fragment.svg"
    plain = drywell("layout", EXPRESSION)
    assert drywell("layout", EXPRESSION, "--svg", layout) == plain
    assert layout.read_text() == layout_picture(read_layout(EXPRESSION))
    assert drywell("fragment", "16x256b.x2", "--warp", "1", "--svg", fragment).code == 0
    assert fragment.read_text() == fragment_picture(read_form("16x256b.x2", 1))


def test_the_tensor_memory_of_a_run_is_drawn(drywell: Callable, tmp_path: Path) -> None:
    said = drywell("tmem", ROUNDTRIP, "--svg", tmp_path / "tmem.svg")
    assert said.code == 0
    picture = (tmp_path / "tmem.svg").read_text()
    (title,) = (line.strip() for line in said.out.splitlines() if "stored by threads" in line)
    assert title.partition("  ")[2] in picture


@pytest.mark.parametrize(
    "arguments", [["layout", EXPRESSION], ["fragment", "32x32b.x1"], ["tmem", ROUNDTRIP]]
)
def test_a_picture_that_cannot_be_written_is_bad_usage(
    drywell: Callable, tmp_path: Path, arguments: list
) -> None:
    said = drywell(*arguments, "--svg", tmp_path / "absent" / "out.svg")
    assert said.code == 2
    assert "--svg" in said.err and "No such file" in said.err
