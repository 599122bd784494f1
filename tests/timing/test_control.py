"""What one thread of control code takes, by what an H200 answered: `probe.cu` and `control.cu`, medians."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import drywell
from drywell.arch.timing import timing

TILES, STEPS = 4, 64
READERS, LOAD, ISSUE = range(3)
STEP_CYCLES, NEXT_TILE_CYCLES = 276, 502
"""Of an H200 that walks through tiles of K steps as the probed thread of a GEMM: from issue to issue."""


@cache
def _walk() -> dict[str, list[int]]:
    """Return the cycles from issue to issue of the walk of probe.cu."""
    intervals, count = np.zeros((TILES * (2 * STEPS + 1), 4), np.int64), np.zeros(1, np.int64)
    drywell.launch(
        drywell.load(Path(__file__).with_name("probe.ptx"))["_Z4walkPliiS_"],
        grid=1,
        block=192,
        args=[intervals, TILES, STEPS, count],
        check="off",
        schedule="timed",
    )
    assert count[0] == len(intervals)
    found: dict[str, list[int]] = {"step": [], "next tile": []}
    issues = [(k, begin) for k, (_, phase, begin, _) in enumerate(intervals.tolist()) if phase == ISSUE]
    for (k, begin), (after, other) in pairwise(issues):
        found["step" if after == k + 2 else "next tile"].append(other - begin)
    return found


def test_a_probed_thread_takes_what_an_h200_took() -> None:
    assert len(_walk()["next tile"]) == TILES - 1
    assert median(_walk()["step"]) == pytest.approx(STEP_CYCLES, rel=0.15)
    assert median(_walk()["next tile"]) == pytest.approx(NEXT_TILE_CYCLES, rel=0.15)


LOOP = "mov.u32 i, 0; AGAIN: {body} add.u32 i, i, 1; setp.lt.u32 p, i, 16; @p bra AGAIN;"


def _cycles(code: str) -> int:
    """Return the cycles between two readings of the clock around some code; `[here]` holds where it lies."""
    text = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry timed(.param .u64 out) .reqntid 32
{{
  .shared .align 4 .b8 space[256];
  .reg .pred p;
  .reg .b32 a, i, at;
  .reg .f32 f, g;
  .reg .b64 o, here, t0, t1;
  ld.param.u64 o, [out];
  cvta.to.global.u64 o, o;
  add.u64 here, o, 128;
  st.global.cg.u64 [here], here;
  mov.u32 at, space;
  mov.u32 a, 0;
  mov.f32 g, 0f00000000;
  bar.sync 0;
  mov.u64 t0, %clock64;
  {code}
  mov.u64 t1, %clock64;
  sub.u64 t1, t1, t0;
  st.global.u64 [o], t1;
  ret;
}}
"""
    out = np.zeros(32, np.uint64)
    drywell.launch(drywell.load(text)["timed"], grid=1, block=32, args=[out], check="off", schedule="timed")
    return int(out[0])


@pytest.mark.parametrize(("body", "cycles"), [
    ("xor.b32 a, a, i;", 449),
    ("ld.shared.f32 f, [at]; add.u32 at, at, 4; fma.rn.f32 g, f, f, g;", 693),
])  # fmt: skip
def test_a_loop_takes_what_an_h200_took(body: str, cycles: int) -> None:
    assert _cycles(LOOP.format(body=body)) == pytest.approx(cycles, rel=0.15)


L1, L2 = timing("b200").l1_load_cycles, timing("b200").gmem_load_cycles


@pytest.mark.parametrize(("load", "first", "next_one"), [
    ("ld.global", L2, L1),
    ("ld.global.cg", L2, L2),
    ("ld.volatile.global", L2, L2),
    ("ld.relaxed.gpu.global", L2, L2),
    ("st.global.u64 [here], here; ld.global", L1, L1),
    ("st.global.u64 [here], here; ld.acquire.gpu.global", L2, L2),
])  # fmt: skip
def test_a_line_that_was_loaded_or_stored_is_in_l1(load: str, first: float, next_one: float) -> None:
    """Each load has its address from the one before; the last is waited for."""
    last = "setp.eq.u64 p, here, 0; @p bra END; END:"
    none, one, three = (_cycles(f"{load}.u64 here, [here];" * count + last) for count in (0, 1, 3))
    assert one - none == pytest.approx(first, abs=20)
    assert three - one == pytest.approx(2 * next_one, abs=10)
