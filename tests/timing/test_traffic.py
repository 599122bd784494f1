"""Threads' loads and stores take the rates of L1, L2 and DRAM: by what an H200 answered (`traffic.cu`) where
a rate is one SM's, by published bandwidths of a B200 where it is the chip's.
"""

from __future__ import annotations

import numpy as np
import pytest

import drywell
from drywell.arch.timing import timing

SMS, WARPS = 148, 32
T = timing("b200")
GHZ = 1.965

TEXT = """.version 8.8 .target sm_100a .address_size 64
.visible .entry moves(.param .u64 data) {{
  .reg .pred p; .reg .b32 t, l, w, n, r<4>; .reg .b64 a, b;
  ld.param.u64 a, [data]; cvta.to.global.u64 a, a;
  mov.u32 t, %tid.x; mov.u32 n, %ctaid.x; and.b32 l, t, 31; shr.u32 w, t, 5;
  mad.lo.u32 w, n, {warps}, w;
  mul.wide.u32 b, w, {per_warp}; add.u64 a, a, b;
  mul.wide.u32 b, l, {stride}; add.u64 a, a, b;
  setp.gt.u32 p, l, 31;
  {body}
  ret;
}}
"""
WHOLE, ONE = "v4.u32", "u32"
FORMS = {
    "ld": "ld.global.cg.{type} {registers}, [a+{at}];",
    "ld, from L1": "ld.global.ca.{type} {registers}, [a+{at}];",
    "ld by no lane": "@p ld.global.cg.{type} {registers}, [a+{at}];",
    "st": "st.global.{type} [a+{at}], {registers};",
}


def _cycles(form: str, type: str, stride: int, count: int, passes: int = 1, grid: int = 1) -> float:
    """Return the cycles of a launch of CTAs of 32 warps. Each makes `count` accesses in each pass over its
    own data, in which lanes are `stride` bytes apart.
    """
    registers = "{r0, r1, r2, r3}" if type == WHOLE else "r0"
    steps = [FORMS[form].format(type=type, registers=registers, at=k * 32 * stride) for k in range(count)]
    body, per_warp = "\n".join(steps * passes), count * 32 * stride
    text = TEXT.format(warps=WARPS, per_warp=per_warp, stride=stride, body=body)
    data = np.zeros(grid * WARPS * per_warp, np.uint8)
    given = {"grid": grid, "block": 32 * WARPS, "args": [data], "check": "off", "observe": ("timeline",)}
    found = drywell.launch(drywell.load(text)["moves"], **given).timeline
    assert found is not None
    return found.cycles


@pytest.mark.parametrize(("form", "type", "stride", "h200"), [
    ("ld", ONE, 4, 1.08),
    ("ld", WHOLE, 16, 4.06),
    ("ld", ONE, 32, 8.21),
    ("ld", ONE, 64, 16.0),
    ("ld", ONE, 128, 32.0),
    ("st", ONE, 4, 4.0),
    ("st", WHOLE, 16, 16.0),
])  # fmt: skip
def test_an_sm_takes_the_cycles_of_an_h200_for_an_access(
    form: str, type: str, stride: int, h200: float
) -> None:
    few, many = (_cycles(form, type, stride, count) for count in (8, 24))
    assert (many - few) / (16 * WARPS) == pytest.approx(h200, rel=0.1)


def test_lanes_whose_guard_is_false_move_nothing() -> None:
    few, many = (_cycles("ld by no lane", ONE, 128, count) for count in (8, 24))
    assert (many - few) / (16 * WARPS) <= 1


def _tb_per_s(form: str, passes: tuple[int, int], count: int, type: str = WHOLE, stride: int = 16) -> float:
    """Return the rate at which all SMs move the bytes of their sectors, by the cycles of more passes."""
    few, many = (_cycles(form, type, stride, count, n, SMS) for n in passes)
    moved = (passes[1] - passes[0]) * count * SMS * WARPS * 32 * min(stride, 32)
    return moved / (many - few) * GHZ / 1000


def _streamed(form: str, type: str = WHOLE, stride: int = 16) -> float:
    """Return the rate at which all SMs move the bytes of sectors that nobody has touched."""
    few, many = (_cycles(form, type, stride, count, 1, SMS) for count in (4, 8))
    return 4 * SMS * WARPS * 32 * min(stride, 32) / (many - few) * GHZ / 1000


@pytest.mark.parametrize("form", ["ld", "ld, from L1", "st"])
def test_what_nobody_has_touched_streams_at_the_rate_of_dram(form: str) -> None:
    assert _streamed(form) == pytest.approx(7.1, rel=0.05)  # 7.0 to 7.26 read, 7.1 written


def test_dram_moves_64_bytes_for_a_sector_alone() -> None:
    every_other = _streamed("ld", ONE, 64)  # an H200: 2.30 TB/s of 4.50, 1.96 of every fourth
    assert every_other / _streamed("ld") == pytest.approx(2.30 / 4.50, rel=0.05)


def test_a_small_array_is_loaded_again_at_the_rate_of_l2() -> None:
    assert _tb_per_s("ld", (16, 32), 1) == pytest.approx(24, rel=0.09)  # 22 to 26


def test_lines_in_l1_are_loaded_again_faster_than_l2_could() -> None:
    assert _tb_per_s("ld, from L1", (16, 32), 1) > 1.3 * T.l2_tb_per_s


def test_stores_again_are_bound_by_each_sms_way_out() -> None:
    assert _tb_per_s("st", (4, 8), 1) == pytest.approx(SMS * 32 * GHZ / 1000, rel=0.05)


COPY = """
  mbarrier.init.shared.b64 [bar], 1;
  mbarrier.arrive.expect_tx.shared.b64 s, [bar], 1024;
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [space], [a], 1024, [bar];
LOOP: mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
  @!p bra LOOP;
"""


@pytest.mark.parametrize(("before", "comes_from_dram"), [
    ("", True),
    (COPY, False),
    ("st.global.u64 [a], 0;", False),
    ("ld.global.u32 t, [a+8]; setp.eq.u32 p, t, 1; @p bra ON; ON:", False),
    ("ld.global.u32 t, [a+32]; setp.eq.u32 p, t, 1; @p bra ON; ON:", False),  # the other half of 64 bytes
    ("ld.global.u32 t, [a+64]; setp.eq.u32 p, t, 1; @p bra ON; ON:", True),
])  # fmt: skip
def test_what_copies_and_threads_have_brought_is_in_l2(before: str, comes_from_dram: bool) -> None:
    text = f""".version 8.8 .target sm_100a .address_size 64
.visible .entry looks(.param .u64 data) {{
  .reg .pred p; .reg .b32 t; .reg .b64 a, s, t0, t1; .shared .align 128 .b8 space[1024]; .shared .b64 bar;
  ld.param.u64 a, [data]; cvta.to.global.u64 a, a;
  {before}
  mov.u64 t0, %clock64;
  ld.volatile.global.u64 s, [a]; setp.eq.u64 p, s, 1; @p bra END; END:
  mov.u64 t1, %clock64;
  sub.u64 t1, t1, t0; st.global.u64 [a+1024], t1;
  ret;
}}"""
    data = np.zeros(256, np.uint64)
    drywell.launch(drywell.load(text)["looks"], args=[data], block=1, check="off", schedule="timed")
    far = T.dram_extra_latency_ns * GHZ if comes_from_dram else 0
    assert data[128] == pytest.approx(T.gmem_load_cycles + far, abs=30)
