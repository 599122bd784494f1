"""Threaded code: what is known about each place, and how guards select lanes."""

from __future__ import annotations

import numpy as np

from drywell.engine.threaded import ALIGNED, CLOCK, PASSED, UNIT
from drywell.machine.outcome import Jump, Return
from unit.engine.one_kernel import built, indices

BODY = """mov.u32 %t, %tid.x;
add.u32 %v, %t, 3;
mov.u32 %w, %clock;
mov.b64 %s, %globaltimer;
@!%p bar.warp.sync -1;
@%q setmaxnreg.dec.sync.aligned.u32 24;
ld.shared.u32 %v, [box+4];
END: @%p bra END;"""


def test_flags_say_what_is_to_be_done_beside_the_step() -> None:
    flags = built(BODY).threaded.flags
    assert flags == [0, 0, CLOCK, CLOCK, UNIT, UNIT | ALIGNED, 0, UNIT, UNIT, 0]


def test_places_that_read_the_time_are_known() -> None:
    assert built(BODY).threaded.clocks == (2, 3)


def test_guards_are_registers_and_whether_they_are_negated() -> None:
    threaded = built(BODY).threaded
    p, q = threaded.guards[7], threaded.guards[5]
    assert p is not None
    assert q is not None
    assert threaded.guards[4] == (p[0], True)
    assert (p[1], q[1]) == (False, False)
    assert [k for k, guard in enumerate(threaded.guards) if guard is not None] == [4, 5, 7]


def test_touched_are_the_registers_read_and_written_and_the_guard() -> None:
    body = "@%p add.u32 %v, %t, %w;\nmov.u32 %t, 5;"
    threaded, index = built(body).threaded, indices(body)
    assert threaded.touched[0] == {index["%p"], index["%v"], index["%t"], index["%w"]}
    assert threaded.touched[1] == {index["%t"]}


def test_a_guard_that_no_lane_passes_does_nothing_and_one_that_some_pass_selects_them() -> None:
    body = "@%p mov.u32 %v, 7;\n@%p bra END;\nmov.u32 %v, 1;\nEND:"
    scheduler, index = built(body), indices(body)
    warp = scheduler.grid.admit()[0].warps[0]
    move, jump, *_ = scheduler.threaded.steps
    before = warp.mask
    assert move(warp) is PASSED
    assert warp.values[index["%v"]].tolist() == [0] * 32
    warp.values[index["%p"]][:] = np.arange(32) < 3
    assert move(warp) is None
    assert warp.values[index["%v"]].tolist() == [7] * 3 + [0] * 29
    assert warp.mask is before
    held = jump(warp)
    assert held.outcome == Jump(3)
    assert np.array_equal(np.arange(32) < 3, held.mask)


def test_lanes_outside_the_mask_keep_their_registers() -> None:
    scheduler = built("mov.u32 %v, 9;")
    warp = scheduler.grid.admit()[0].warps[0]
    warp.mask = np.arange(32) >= 30
    scheduler.threaded.steps[0](warp)
    assert warp.values[0].tolist() == [0] * 30 + [9, 9]


def test_the_end_of_a_function_returns() -> None:
    scheduler = built("call f, ();", functions=".func f() { ret; }")
    start = scheduler.threaded.callees["f"].pc
    assert scheduler.threaded.declarations[start + 1] is None
    held = scheduler.threaded.steps[start + 1](scheduler.grid.admit()[0].warps[0])
    assert isinstance(held.outcome, Return)
