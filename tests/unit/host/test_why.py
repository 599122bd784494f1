"""`why` on small kernels: which bits an instruction takes, what lanes give each other, where a way ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drywell.base.errors import LaunchError
from drywell.host.launch_file import LaunchFile, read_launch_file
from drywell.host.why import why
from drywell.observe.provenance import Why, elements_text

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
  .shared .align 16 .b8 stage[256];
  .local .align 16 .b8 own[16];
  .reg .b16 %h<8>;
  .reg .b32 %r<16>;
  .reg .b64 %a<8>;
  .reg .pred %p<4>;
  ld.param.u64 %a0, [x];
  ld.param.u64 %a1, [y];
  mov.u32 %r0, %tid.x;
  mad.wide.u32 %a2, %r0, 4, %a0;
  mad.wide.u32 %a3, %r0, 4, %a1;
"""
TOML = """module = "k.ptx"
grid = [1]
block = [{block}]
[buffers.X]
dtype = "{dtype}"
shape = [{count}]
init = "arange"
[buffers.Y]
dtype = "u32"
shape = [64]
[[args]]
pointer = "X"
[[args]]
pointer = "Y"
"""


def file_of(folder: Path, body: str, dtype: str = "u32", count: int = 64, block: int = 32) -> LaunchFile:
    (folder / "k.ptx").write_text(HEAD + body + "\n  st.global.u32 [%a3], %r9;\n  ret;\n}\n")
    (folder / "k.toml").write_text(TOML.format(dtype=dtype, count=count, block=block))
    return read_launch_file(folder / "k.toml")


def inputs(answer: Why) -> tuple[int, ...]:
    return answer.inputs.get("X", ())


def test_a_select_takes_only_what_it_selects(tmp_path: Path) -> None:
    body = """
  ld.global.u32 %r1, [%a2];
  ld.global.u32 %r2, [%a2+128];
  setp.lt.u32 %p0, %r0, 16;
  selp.u32 %r9, %r1, %r2, %p0;"""
    file = file_of(tmp_path, body)
    assert (3,) == inputs(why(file, "Y[3]"))
    assert (20 + 32,) == inputs(why(file, "Y[20]"))


def test_a_pack_takes_the_halves_that_are_asked_for(tmp_path: Path) -> None:
    body = """
  ld.global.v2.u16 {%h0, %h1}, [%a2];
  mov.b32 %r1, {%h1, %h0};
  shr.u32 %r9, %r1, 16;"""
    file = file_of(tmp_path, body, "u16", 64)
    assert (10,) == inputs(why(file, "Y[5]"))


@pytest.mark.parametrize(("mode", "b", "source"), [("bfly", 4, 1), ("idx", 9, 9), ("down", 2, 7)])
def test_a_shuffle_leads_to_the_lane_that_gave(tmp_path: Path, mode: str, b: int, source: int) -> None:
    body = f"""
  ld.global.u32 %r1, [%a2];
  shfl.sync.{mode}.b32 %r9, %r1, {b}, 31, -1;"""
    answer = why(file_of(tmp_path, body), "Y[5]")
    assert (source,) == inputs(answer)


def test_a_reduction_takes_every_lane(tmp_path: Path) -> None:
    body = """
  ld.global.u32 %r1, [%a2];
  redux.sync.add.u32 %r9, %r1, 0xffff;"""
    file = file_of(tmp_path, body.replace("redux", "setp.lt.u32 %p0, %r0, 16;\n  @%p0 redux"))
    assert tuple(range(16)) == inputs(why(file, "Y[5]"))


def test_shared_memory_leads_to_the_thread_that_wrote_last(tmp_path: Path) -> None:
    body = """
  ld.global.u32 %r1, [%a2];
  mov.u32 %r2, stage;
  xor.b32 %r3, %r0, 32;
  mad.lo.u32 %r4, %r0, 4, %r2;
  mad.lo.u32 %r5, %r3, 4, %r2;
  mov.u32 %r6, 7;
  st.shared.u32 [%r4], %r6;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  ld.shared.u32 %r9, [%r5];"""
    assert (37,) == inputs(why(file_of(tmp_path, body, block=64), "Y[5]"))


def test_local_memory_is_the_lanes_own(tmp_path: Path) -> None:
    body = """
  ld.global.u32 %r1, [%a2];
  st.local.u32 [own], %r1;
  ld.local.u32 %r9, [own];"""
    assert (5,) == inputs(why(file_of(tmp_path, body), "Y[5]"))


def test_an_atomic_takes_what_was_there_and_what_every_lane_brought(tmp_path: Path) -> None:
    body = """
  ld.global.u32 %r1, [%a2];
  atom.global.add.u32 %r9, [%a1+128], %r1;
  setp.gt.u32 %p0, %r0, 2;
  @%p0 exit;"""
    file = file_of(tmp_path, body)
    assert tuple(range(32)) == inputs(why(file, "Y[32]"))
    assert (0, 1) == inputs(why(file, "Y[2]"))


def test_cp_async_leads_byte_by_byte_and_ends_in_zeros(tmp_path: Path) -> None:
    body = """
  mov.u32 %r2, stage;
  mad.lo.u32 %r4, %r0, 4, %r2;
  setp.gt.u32 %p0, %r0, 15;
  cp.async.ca.shared.global [%r4], [%a2], 4, %p0;
  cp.async.wait_all;
  ld.shared.u32 %r9, [%r4];"""
    file = file_of(tmp_path, body)
    assert (5,) == inputs(why(file, "Y[5]"))
    assert () == inputs(why(file, "Y[20]"))


def test_what_nobody_wrote_is_said(tmp_path: Path) -> None:
    answer = why(file_of(tmp_path, "  mov.u32 %r9, 0;"), "Y[60]")
    assert {"Y": (60,)} == answer.inputs
    answer = why(file_of(tmp_path, "  ld.shared.u32 %r9, [stage];"), "Y[5]")
    assert ("shared stage (4 bytes) of CTA 0: never written in this run",) == answer.others


def test_what_is_not_followed_is_said(tmp_path: Path) -> None:
    body = """
  ld.global.u32 %r1, [%a2];
  match.any.sync.b32 %r9, %r1, -1;"""
    (lost,) = why(file_of(tmp_path, body), "Y[5]").lost
    assert "match.any.sync.b32" in lost
    assert lost.endswith("is not followed yet")


def test_the_buffers_hold_what_the_run_left_and_a_second_answer_is_the_same(tmp_path: Path) -> None:
    file = file_of(tmp_path, "  ld.global.u32 %r9, [%a2];")
    first = why(file, "Y[7]")
    assert list(range(32)) == file.buffers["Y"][:32].tolist()
    second = why(file, "Y[7]")
    assert [first.value, first.inputs] == [second.value, second.inputs]


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ("Y", "names no element"),
        ("Z[1]", "no buffer 'Z'"),
        ("Y[64]", "outside of Y"),
        ("Y[1,2]", "outside of Y"),
    ],
)
def test_an_element_that_is_none_is_refused(tmp_path: Path, element: str, said: str) -> None:
    with pytest.raises(LaunchError, match=said.replace("[", r"\[")):
        why(file_of(tmp_path, "  mov.u32 %r9, 0;"), element)


def test_elements_are_written_as_ranges() -> None:
    shape = (3, 8)
    box = tuple(int(k) for k in np.ravel_multi_index(np.ix_([1, 2], [0, 1, 2]), shape).reshape(-1))
    assert "A[1:3, 0:3]" == elements_text("A", shape, box)
    assert "A[0, 1], A[0, 3:5], A[2, 7]" == elements_text("A", shape, (1, 3, 4, 23))
    assert "A[0], A[2] and 2 more stretches" == elements_text("A", (9,), (0, 2, 4, 6), most=2)
