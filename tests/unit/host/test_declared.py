"""[[declare]]: what a launch file says of Tensor Memory, held against what the multiplications put there."""

from __future__ import annotations

from pathlib import Path

import pytest

from drywell.base.errors import LaunchError
from drywell.host.launch_file import read_launch_file

CORPUS = Path(__file__).parents[2] / "corpus"
ROWS = "S[(128, 256) : (1@TLane, 1@TCol)]"


def rules(folder: Path, kernel: str, declare: str) -> list[str]:
    path = CORPUS / f"{kernel}.toml"
    text = path.read_text().replace('module = "', f'module = "{path.parent}/')
    (folder / "k.toml").write_text(f"{text}\n[[declare]]\n{declare}\n")
    result, _ = read_launch_file(folder / "k.toml").run(check="ptx")
    return [f.rule for f in result.findings if f.severity != "note"]


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (f'layout = "{ROWS}"', []),
        ('layout = "S[(128, 512) : (1@TLane, 1@TCol)]"', []),  # two stages side by side: a block of it
        ('layout = "S[(256, 128) : (1@TCol, 1@TLane)]"', ["TMEM-LAYOUT"]),
        ('layout = "S[(128, 256) : (1@TLane, 1@TCol)]"\ncol = 16', ["TMEM-LAYOUT"]),
        ('layout = "S[(64, 256) : (1@TLane, 1@TCol)]"', ["TMEM-LAYOUT"]),
        (f'layout = "{ROWS}"\nalloc = 1', []),  # there is no second allocation
    ],
)
def test_a_multiplication_is_held_against_what_is_declared(
    tmp_path: Path, declare: str, expected: list[str]
) -> None:
    found = rules(tmp_path, "gluon/tc_ws_matmul_bf16", declare)
    assert expected == sorted(set(found))


def test_a_layout_of_more_digits_is_the_matrix_in_row_major_order(tmp_path: Path) -> None:
    right = "S[(4, 16, 64) : (32@TLane, 1@TLane, 1@TCol)]"
    assert [] == rules(tmp_path, "gluon/tc_tile_f16_m64", f'layout = "{right}"\nshape = [64, 64]')
    wrong = "S[(64, 64) : (1@TLane, 1@TCol)]"
    assert {"TMEM-LAYOUT"} == set(rules(tmp_path, "gluon/tc_tile_f16_m64", f'layout = "{wrong}"'))


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        ("col = 3", "'layout' must be a layout in quotes"),
        ('layout = "S[(128, 256 : (1@TLane, 1@TCol)]"', "expected ')'"),
        ('layout = "S[(128, 256) : (1@tx, 1@TCol)]"', "does not speak of TLane and TCol"),
        ('layout = "S[(256, 256) : (1@TLane, 1@TCol)]"', "reaches over the 128 lanes"),
        (f'layout = "{ROWS}"\nshape = [64, 64]', "4096 elements"),
        (f'layout = "{ROWS}"\ncols = 3', "there is no key 'cols'"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(tmp_path: Path, declare: str, said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        rules(tmp_path, "gluon/tc_ws_matmul_bf16", declare)
    assert said in str(caught.value)
