"""Registers alive in a text: counted by hand, over loops, guards and widths, and cut by setmaxnreg."""

from __future__ import annotations

from pathlib import Path

import pytest

import drywell
from drywell.program.demand import allocations, column_loads
from drywell.program.module import Function
from drywell.program.pressure import live_registers, sections


def function(body: str) -> Function:
    """Return the one entry of a module."""
    text = f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n)
{{
  .reg .b32 %a, %b, %c, %d;
  .reg .b64 %w, %v;
  .reg .b16 %h;
  .reg .pred %p;
{body}
}}
"""
    return drywell.load(text).program.functions["k"]


def test_a_register_is_alive_from_its_write_to_its_last_read() -> None:
    code = function(
        """  mov.u32 %a, 1;
  mov.u32 %b, 2;
  add.u32 %c, %a, %b;
  add.u32 %d, %c, %c;
  ret;"""
    )
    # a; a b; a and b are read, c is written where one of them was; c; none
    assert (1, 2, 2, 1, 0) == live_registers(code)


def test_64_bits_count_as_two_narrow_ones_as_one_and_predicates_not_at_all() -> None:
    code = function(
        """  ld.param.u64 %w, [x];
  mov.u16 %h, 1;
  setp.eq.u64 %p, %w, 0;
  @%p bra out;
  st.global.u16 [%w], %h;
out:
  ret;"""
    )
    assert (2, 3, 3, 3, 3, 0) == live_registers(code)


def test_what_a_loop_reads_again_is_alive_in_all_of_it() -> None:
    code = function(
        """  mov.u32 %a, 7;
  mov.u32 %b, 0;
again:
  add.u32 %b, %b, %a;
  mov.u32 %c, 5;
  setp.lt.u32 %p, %b, %c;
  @%p bra again;
  ret;"""
    )
    assert (1, 2, 2, 3, 3, 2, 0) == live_registers(code)  # a and b to the branch, c for two instructions


def test_a_guarded_write_keeps_what_was_there_before() -> None:
    code = function(
        """  mov.u32 %a, 1;
  setp.eq.u32 %p, %a, 1;
  @%p mov.u32 %a, 2;
  add.u32 %b, %a, %a;
  ret;"""
    )
    assert (1, 1, 1, 1, 0) == live_registers(code)


def test_setmaxnreg_cuts_the_text() -> None:
    code = function(
        """  mov.u32 %a, %tid.x;
  setp.lt.u32 %p, %a, 128;
  @%p bra few;
  setmaxnreg.inc.sync.aligned.u32 240;
  mov.u32 %b, 1;
  mov.u32 %c, 2;
  add.u32 %d, %b, %c;
  ret;
few:
  setmaxnreg.dec.sync.aligned.u32 24;
  mov.u32 %b, 1;
  add.u32 %d, %b, %b;
  ret;"""
    )
    cut = [(one.count, one.live) for one in sections(code)]
    assert [(None, 1), (240, 2), (24, 1)] == cut


def test_allocations_are_read_where_their_count_is_constant() -> None:
    code = function(
        """  ld.param.u32 %a, [n];
  mov.u32 %b, 64;
  mov.u32 %c, 0;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%c], 32;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%c], %b;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%c], %a;
  ret;"""
    )
    assert [32, 64, None] == [asked.cols for asked in allocations([code])]


def test_loads_are_counted_by_width_in_the_block_that_has_most() -> None:
    one = "  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%b}, [%a];\n"
    code = function(f"  mov.u32 %a, 0;\n{one}  bra next;\nnext:\n{one * 3}  ret;")
    assert {1: 3} == column_loads([code])


CORPUS = Path(__file__).parents[2] / "corpus"

# what ptxas 13.0.88 -v -arch=sm_100a takes, with the text's .version set to 9.0
MEASURED = {
    "gluon/tc_tile_f8": 170,
    "gluon/tc_tmem_a_f16": 134,
    "tilelang/gemm_ws_bf16": 136,
    "nvcc_ours/ours_gemm": 40,
    "nvcc_ours/ours_persistent": 44,
    "cute_dsl_ours/gemm_f16_128x128x64": 136,
    "triton/flash_fwd_causal": 179,
    "triton/matmul_ptr_f16": 159,
    "triton/row_softmax": 80,
}


@pytest.mark.parametrize("name", MEASURED)
def test_an_assembler_takes_about_as_many_as_are_alive(name: str) -> None:
    program = drywell.load(CORPUS / f"{name}.ptx").program
    alive = max(max(live_registers(program.functions[entry])) for entry in program.entries)
    assert 0.6 < MEASURED[name] / alive < 1.5
