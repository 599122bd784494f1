"""Which lane `elect.sync` takes is a choice of the schedule, the same on both engines."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drywell.base.options import Options
from drywell.host.launch import launch, load
from drywell.isa.warp import elected, election_of

ELECTIONS = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 masks) {
  .reg .u32 %l, %e, %s, %m, %i; .reg .u64 %a, %b; .reg .pred %p, %q;
  ld.param.u64 %a, [out]; ld.param.u64 %b, [masks]; mov.u32 %i, 0;
  mov.u32 %l, %laneid; mad.wide.u32 %a, %l, 4, %a;
AGAIN:
  ld.global.u32 %m, [%b];
  shr.u32 %s, %m, %l; and.b32 %s, %s, 1; setp.eq.u32 %q, %s, 0;
  @%q bra NEXT;
  elect.sync %e|%p, %m;
  selp.u32 %s, 0x100, 0, %p; or.b32 %e, %e, %s; st.global.u32 [%a], %e;
NEXT:
  bar.warp.sync -1;
  add.u64 %a, %a, 128; add.u64 %b, %b, 4; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 64; @%p bra AGAIN;
  ret;
}
"""
"""The lane that each lane of each of 64 masks is told, 0x100 more if it is that lane."""

ZERO_FOR_THE_ELECTED = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k() .reqntid 32 {
  .shared .align 8 .b64 bar;
  .reg .u32 %t; .reg .pred %p;
  elect.sync _|%p, -1;
  @%p mbarrier.init.shared::cta.b64 [bar], 1;
  mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
  @%p mbarrier.arrive.shared::cta.b64 _, [bar];
  ret;
}
"""

RANDOM = np.random.default_rng(5).integers(1, 1 << 32, 56, np.uint64).astype(np.uint32)
MASKS = np.array([0xFFFF_FFFF, 1, 1 << 31, 0xFF00, 0x12, 0x8000_0001, 0x5555_5555, 3, *RANDOM], np.uint32)
MEMBERS = [[lane for lane in range(32) if mask >> lane & 1] for mask in MASKS.tolist()]
SEEDS: tuple[dict[str, Any], ...] = tuple({"seed": seed} for seed in range(1, 5))


@cache
def entry() -> Any:
    return load(ELECTIONS)["k"]


def leaders(**options: Any) -> list[int]:
    """Return the lane elected of each mask; all its lanes are told of it, and it alone that it is the one."""
    told: NDArray[np.uint32] = np.zeros((64, 32), np.uint32)
    launch(entry(), block=32, args=[told, MASKS.copy()], check="off", **options)
    out = [int(row[members[0]]) & 31 for row, members in zip(told, MEMBERS, strict=True)]
    for row, members, leader in zip(told, MEMBERS, out, strict=True):
        assert row[members].tolist() == [leader + 0x100 * (lane == leader) for lane in members]
    return out


@pytest.mark.parametrize("engine", ["interpreter", "jit", "auto"])
def test_eager_and_the_clock_elect_the_lowest_lane_and_lazy_the_highest(engine: str) -> None:
    assert leaders(schedule="eager", engine=engine) == [members[0] for members in MEMBERS]
    assert leaders(schedule="timed", engine=engine) == [members[0] for members in MEMBERS]
    assert leaders(schedule="lazy", engine=engine) == [members[-1] for members in MEMBERS]


@pytest.mark.parametrize("how", SEEDS, ids=str)
def test_a_seed_elects_one_lane_of_each_mask_on_both_engines(how: dict[str, Any]) -> None:
    found = leaders(engine="interpreter", **how)
    assert [lane in members for lane, members in zip(found, MEMBERS, strict=True)] == [True] * len(MEMBERS)
    assert leaders(engine="jit", **how) == found
    assert leaders(engine="auto", **how) == found


def test_each_lane_of_a_mask_is_elected_under_some_seed() -> None:
    words = [election_of(Options(schedule="seeded", seed=seed)) for seed in range(400)]
    for mask, members in zip(MASKS.tolist(), MEMBERS, strict=True):
        there = np.isin(np.arange(32), members)
        assert {elected(word, mask, there) for word in words} == set(members)


def test_lanes_elected_of_two_masks_are_not_one_choice() -> None:
    words = [election_of(Options(schedule="seeded", seed=seed)) for seed in range(400)]
    everyone, most = np.ones(32, np.bool_), np.arange(32) > 0
    pairs = {(elected(w, 0xFFFF_FFFF, everyone), elected(w, 0xFFFF_FFFE, most)) for w in words}
    assert len(pairs) > 200


def test_a_kernel_that_takes_lane_0_for_the_elected_one_is_told_when_another_is_elected() -> None:
    kernel = load(ZERO_FOR_THE_ELECTED)["k"]
    assert launch(kernel, schedule="eager").findings == ()
    for how in ({"schedule": "lazy"}, *SEEDS):
        (found,) = launch(kernel, **how).findings
        assert (found.rule, found.span.line) == ("MBAR-INIT-RACE", 10)
