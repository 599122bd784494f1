"""`drywell layout`, `drywell fragment`, `drywell tmem`: what they say, what they refuse, how they exit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., object]

TMEM_PTX = """\
.version 9.0
.target sm_100a
.address_size 64

.visible .entry twice(.param .u64 x) {
  .reg .b32 %lane, %acc, %v;  .reg .b64 %p;  .shared .b32 slot;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  ld.shared.b32 %acc, [slot];
  mov.u32 %lane, %tid.x;  ld.param.u64 %p, [x];  mad.wide.u32 %p, %lane, 4, %p;  ld.global.b32 %v, [%p];
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%acc], {%v};  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v}, [%acc];  tcgen05.wait::ld.sync.aligned;
  add.f32 %v, %v, %v;  st.global.b32 [%p], %v;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %acc, 32;
  ret;
}
"""
TMEM_TOML = """\
module = "twice.ptx"
grid = [2, 1, 1]
block = [32, 1, 1]
buffers.x = { dtype = "f32", shape = [32], init = "arange" }
args = [{ pointer = "x" }]
"""


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    (tmp_path / "twice.ptx").write_text(TMEM_PTX)
    path = tmp_path / "twice.toml"
    path.write_text(TMEM_TOML)
    return path


def test_a_layout_is_said_and_drawn(drywell: Call) -> None:
    said = drywell("layout", 'accumulator("F", N=64)')
    assert said.code == 0
    assert "S[(4, 16, 64) : (32@TLane, 1@TLane, 1@TCol)]" in said.out
    assert "D  [48:64, 0:64]  lanes 96-111, columns 0-63" in said.out


def test_another_shape_and_one_element(drywell: Call) -> None:
    text = "S[(64, 2, 64) : (1@TLane, 64@TLane, 1@TCol)]"
    said = drywell("layout", text, "--shape", "64x128", "--at", "5,70")
    assert (said.code, said.out) == (0, "(5, 70) lies at TLane 69, TCol 6\n")
    said = drywell("layout", text, "--shape", "64x127")
    assert said.code == 2
    assert "64, 127" in said.err
    assert "the product of the shape" in said.err


def test_two_layouts_are_compared_and_the_exit_code_says_so(drywell: Call) -> None:
    plain = "S[(64, 64) : (1@TLane, 1@TCol)]"
    said = drywell("layout", 'accumulator("F", N=64)', "--match", plain)
    assert said.code == 1
    assert "[32:48, 0:64] read at TLane 32-47, TCol 0-63: [16:32, 0:64] lies there" in said.out
    said = drywell("layout", plain, "--match", plain, "--json")
    assert said.code == 0
    assert json.loads(said.out)["match"]["num_right"] == 4096


def test_cute_strides_of_tensor_memory(drywell: Call) -> None:
    said = drywell("layout", "((16,4),64):((65536,2097152),1)", "--tmem-bits", "32", "--json")
    assert json.loads(said.out)["layout"] == "S[(4, 16, 64) : (32@TLane, 1@TLane, 1@TCol)]"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["layout", "S[128 : 1@TLan]"], "did you mean 'TLane'"),
        (["layout", "S[(128, N) : (1@TLane, 1@TCol)]"], "put a number"),
        (["layout", 'accumulator("K")'], "they are A to G"),
        (["layout", "S[4 : 1]", "--at", "x"], "--at x: write numbers with ','"),
        (["layout", "S[4 : 1]", "--at", "4"], "outside the shape"),
        (["fragment", "16x256b.x64"], "up to .x32"),
        (["fragment", "32x32b.x3"], "powers of two"),
        (["fragment", "32x32"], "write SHAPE.xN"),
        (["fragment", "m8n8.x1.pack::16b"], "ldmatrix does not pack"),
        (["fragment", "32x32b.x1", "--warp", "4"], "0<=x<=3"),
        (["tmem", "nothing.toml"], "No such file"),
    ],
)
def test_what_cannot_be_read_says_what_to_write(drywell: Call, arguments: list[str], says: str) -> None:
    said = drywell(*arguments)
    assert said.code == 2
    assert says in said.err
    assert "error: error" not in said.err


def test_a_fragment_is_drawn_at_the_lanes_of_its_warp(drywell: Call) -> None:
    said = drywell("fragment", "tcgen05.ld.sync.aligned.32x32b.x8.b32", "--warp", "2")
    rows = [line.split() for line in said.out.splitlines() if line.startswith("  lane ")]
    assert said.code == 0
    assert [row[1] for row in rows] == [str(lane) for lane in range(64, 96)]
    assert rows[5] == ["lane", "69", *(f"5:{r}" for r in range(8))]
    found = json.loads(drywell("fragment", "16x256b.x2", "--json").out)
    assert (found["thread"][10][11], found["register"][10][11]) == (9, 7)


def test_the_tensor_memory_of_a_run_is_drawn(drywell: Call, twice: Path) -> None:
    said = drywell("tmem", twice, "--cta", "1")
    assert said.code == 0
    assert "Tensor Memory of CTA 1" in said.out
    assert "  lane 16    W" in said.out
    assert "written  st.32x32b.x1  twice.ptx:10  1x" in said.out
    said = drywell("tmem", twice, "--at", "3,0")
    assert "last written by  st.32x32b.x1 at twice.ptx:10" in said.out
    found = json.loads(drywell("tmem", twice, "--json").out)
    (region,) = found["regions"]
    assert (region["sign"], region["role"], region["column"], region["num_cols"]) == ("W", "stored", 0, 1)


def test_a_kernel_that_fails_is_drawn_as_far_as_it_came(drywell: Call, twice: Path) -> None:
    text = TMEM_PTX.replace("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %acc, 32;", "")
    (twice.parent / "twice.ptx").write_text(text)
    said = drywell("tmem", twice)
    assert said.code == 1
    assert "never freed" in said.out
    assert "ALLOC-LEAK" in said.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cta", "2"], "the launch has 2 CTAs, 0 to 1"),
        (["--at", "128,0"], "lanes are 0 to 127"),
        (["--at", "here"], "such as 37,130"),
    ],
)
def test_what_there_is_not_is_bad_usage(drywell: Call, twice: Path, arguments: list[str], says: str) -> None:
    said = drywell("tmem", twice, *arguments)
    assert said.code == 2
    assert says in said.err
