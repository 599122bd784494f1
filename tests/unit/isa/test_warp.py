from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.machine.outcome import Wait
from unit.isa.one_cta import act, every, fault_of, one_warp, refusal

ALL = 0xFFFF_FFFF
MINE = np.arange(100, 132, dtype=np.uint32)


def shuffle_by_the_manual(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The manual's own pseudo-code, word for word in Python."""
    bval, cval, mask = b & 0x1F, c & 0x1F, (c >> 8) & 0x1F
    max_lane = (lane & mask) | (cval & ~mask & 0x1F)
    min_lane = lane & mask
    if mode == "up":
        j = lane - bval
        pval = j >= max_lane
    elif mode == "down":
        j = lane + bval
        pval = j <= max_lane
    elif mode == "bfly":
        j = lane ^ bval
        pval = j <= max_lane
    else:
        j = min_lane | (bval & ~mask & 0x1F)
        pval = j <= max_lane
    return (j if pval else lane), pval


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("c", [0x1F, 0, 0x181F, 0x1800, 0x1C03, 0x1007])
def test_a_shuffle_reads_the_lane_the_manual_names(mode: str, c: int) -> None:
    warp = one_warp()
    for b in (0, 1, 3, 4, 8, 16, 31, 33):
        got, in_range = act(warp, f"shfl.sync.{mode}.b32", MINE, every(b), every(c), every(ALL))
        expected = [shuffle_by_the_manual(mode, lane, b, c) for lane in range(32)]
        assert got.tolist() == [100 + source for source, _ in expected]
        assert in_range.tolist() == [ok for _, ok in expected]


def test_lanes_wait_for_those_they_name() -> None:
    warp = one_warp()
    first = act(warp, "shfl.sync.idx.b32", MINE, every(20), every(31), every(ALL), lanes=range(16))
    assert isinstance(first, Wait)
    assert not first.ready()
    assert "lanes 16-31 of the warp" in first.reason.describe()
    second, _ = act(warp, "shfl.sync.idx.b32", MINE, every(3), every(31), every(ALL), lanes=range(16, 32))
    assert second[16:].tolist() == [103] * 16
    assert first.ready()
    got, _ = first.then()
    assert got[:16].tolist() == [120] * 16


def test_two_halves_with_masks_of_their_own_do_not_wait_for_each_other() -> None:
    warp = one_warp()
    masks = np.where(np.arange(32) < 16, 0x0000_FFFF, 0xFFFF_0000).astype(np.uint32)
    got, _ = act(warp, "shfl.sync.bfly.b32", MINE, every(15), every(0x101F), masks)
    assert got.tolist() == [100 + (lane ^ 15) for lane in range(32)]
    ballot = act(warp, "vote.sync.ballot.b32", np.ones(32, np.bool_), masks)
    assert ballot.tolist() == [0x0000_FFFF] * 16 + [0xFFFF_0000] * 16


def test_lanes_that_have_exited_are_not_waited_for() -> None:
    warp = one_warp(block=20)
    ballot = act(warp, "vote.sync.ballot.b32", np.ones(32, np.bool_), every(ALL))
    assert ballot[0] == 0x000F_FFFF


def test_a_lane_outside_its_mask_is_a_fault() -> None:
    assert fault_of(one_warp(), "vote.sync.ballot.b32", np.ones(32, np.bool_), every(0x7FFF_FFFF)).rule == (
        "WARP-MASK"
    )


@pytest.mark.parametrize(
    ("said", "everybody", "anybody", "unanimous"),
    [([], False, False, True), ([4], False, True, False), ([4, 5, 6, 7], True, True, True)],
)
def test_votes(said: list[int], everybody: bool, anybody: bool, unanimous: bool) -> None:
    warp = one_warp()
    predicate, mask = np.isin(np.arange(32), [*said, 20]), every(0xF0)
    for mode, expected in (("all", everybody), ("any", anybody), ("uni", unanimous)):
        got = act(warp, f"vote.sync.{mode}.pred", predicate, mask, lanes=(4, 5, 6, 7))
        assert got[[4, 5, 6, 7]].tolist() == [expected] * 4


def test_match_any_groups_equal_values() -> None:
    values = np.array([lane % 3 for lane in range(32)], np.uint64) + (1 << 40)
    got = act(one_warp(), "match.any.sync.b64", values, every(ALL))
    for lane in range(32):
        assert got[lane] == sum(1 << k for k in range(32) if k % 3 == lane % 3)


@pytest.mark.parametrize(("odd", "mask", "is_same"), [(9, 0, False), (8, ALL, True)])
def test_match_all_says_whether_all_agree(odd: int, mask: int, is_same: bool) -> None:
    values = every(8)
    values[17] = odd
    got, same = act(one_warp(), "match.all.sync.b32", values, every(ALL))
    assert got.tolist() == [mask] * 32
    assert same.tolist() == [is_same] * 32


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", (0xFFFF_FFF0 + 7 + 5) & ALL),
        ("min.u32", 5),
        ("max.u32", 0xFFFF_FFF0),
        ("min.s32", 0xFFFF_FFF0),
        ("max.s32", 7),
        ("and.b32", 0),
        ("or.b32", 0xFFFF_FFF7),
        ("xor.b32", 0xFFFF_FFF2),
    ],
)
def test_integer_reductions_take_only_the_named_lanes(operation: str, expected: int) -> None:
    values = np.zeros(32, np.uint32)
    values[[2, 3, 4]] = [0xFFFF_FFF0, 7, 5]
    values[5] = 0x8000_0000
    got = act(one_warp(), f"redux.sync.{operation}", values, every(0b11100), lanes=(2, 3, 4))
    assert got[[2, 3, 4]].tolist() == [expected] * 3


def floats(*values: float) -> Any:
    return np.resize(np.array(values, np.float32), 32).view(np.uint32)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("min.f32", -3.0),
        ("max.f32", 2.0),
        ("min.abs.f32", 0.5),
        ("max.abs.f32", 3.0),
        ("max.NaN.f32", np.nan),
    ],
)
def test_float_reductions_skip_nans_unless_told_otherwise(form: str, expected: float) -> None:
    got = act(one_warp(), f"redux.sync.{form}", floats(0.5, np.nan, -3.0, 2.0), every(ALL)).view(np.float32)
    np.testing.assert_array_equal(got, np.full(32, expected, np.float32))


def test_negative_zero_is_below_positive_zero() -> None:
    got = act(one_warp(), "redux.sync.min.f32", floats(0.0, -0.0), every(ALL))
    assert got.tolist() == [0x8000_0000] * 32


@pytest.mark.parametrize("mask", [ALL, 0x8000_0000, 0x0000_FF00, 0x12])
def test_the_lowest_lane_of_the_mask_is_elected(mask: int) -> None:
    members = [k for k in range(32) if mask >> k & 1]
    leader, is_leader = act(one_warp(), "elect.sync", every(mask), lanes=members)
    assert leader[members].tolist() == [members[0]] * len(members)
    assert np.flatnonzero(is_leader).tolist() == [members[0]]


def test_activemask_names_the_lanes_that_are_here() -> None:
    assert act(one_warp(), "activemask.b32", lanes=(0, 5))[5] == 0b100001


@pytest.mark.parametrize(
    "spelling", ["shfl.bfly.b32", "vote.ballot.b32", "redux.sync.and.u32", "redux.sync.add.f32"]
)
def test_what_ptxas_refuses_is_refused(spelling: str) -> None:
    assert refusal(spelling) != ""
