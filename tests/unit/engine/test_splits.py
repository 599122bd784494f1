"""Splits of a warp: which runs next, when they give way, divide and join."""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.engine.splits import Frame, Split, WarpState
from unit.isa.one_cta import one_warp


def lanes(*which: int) -> Any:
    return np.isin(np.arange(32), which)


def state(*splits: Split) -> WarpState:
    return WarpState(one_warp(), list(splits), {})


def test_the_lowest_place_runs_first() -> None:
    low, high = Split(3, lanes(0)), Split(7, lanes(1))
    assert state(high, low).choose() is low


def test_the_deepest_call_runs_before_a_lower_place() -> None:
    caller, callee = Split(3, lanes(0)), Split(90, lanes(1), (Frame(4),))
    assert state(caller, callee).choose() is callee


def test_waiting_and_parked_splits_are_not_chosen() -> None:
    held: Any = object()
    waiting, parked = Split(1, lanes(0), held=held), Split(2, lanes(1), is_parked=True)
    other = Split(9, lanes(2))
    assert state(waiting, parked, other).choose() is other
    assert state(waiting, parked).choose() is None


def test_a_split_that_has_yielded_comes_after_the_others() -> None:
    low, high = Split(3, lanes(0), has_yielded=True), Split(7, lanes(1))
    assert state(low, high).choose() is high


def test_when_all_have_yielded_a_new_round_begins() -> None:
    low = Split(3, lanes(0), has_yielded=True, is_still=True, back_jumps=9)
    high = Split(7, lanes(1), has_yielded=True)
    warp = state(low, high)
    assert warp.choose() is low
    assert (warp.rounds, warp.is_still) == (1, False)
    assert (low.has_yielded, low.is_still, low.back_jumps) == (False, False, 0)


def test_a_warp_stands_still_when_all_its_splits_did() -> None:
    warp = state(Split(3, lanes(0), has_yielded=True, is_still=True))
    warp.choose()
    assert warp.is_still


def test_dividing_moves_lanes_with_their_calls() -> None:
    split = Split(3, lanes(0, 1, 2), (Frame(8),))
    warp = state(split)
    other = warp.divide(split, lanes(1), 5)
    assert (other.pc, other.stack) == (5, (Frame(8),))
    assert np.array_equal(lanes(1), other.mask)
    assert np.array_equal(lanes(0, 2), split.mask)


def test_splits_of_one_place_and_one_call_join() -> None:
    one, two = Split(3, lanes(0)), Split(3, lanes(1), is_parked=True)
    deeper, elsewhere = Split(3, lanes(2), (Frame(8),)), Split(4, lanes(3))
    warp = state(two, one, deeper, elsewhere)
    warp.merge()
    assert warp.splits == [two, deeper, elsewhere]
    assert np.array_equal(lanes(0, 1), two.mask)
    assert not two.is_parked


def test_a_waiting_split_does_not_join() -> None:
    held: Any = object()
    warp = state(Split(3, lanes(0), held=held), Split(3, lanes(1)))
    warp.merge()
    assert len(warp.splits) == 2


def test_lanes_that_leave_let_parked_splits_look_again() -> None:
    leaving, parked = Split(9, lanes(*range(8))), Split(3, lanes(*range(8, 32)), is_parked=True)
    warp = state(leaving, parked)
    warp.leave(leaving, lanes(0))
    assert not parked.is_parked
    assert leaving in warp.splits
    warp.leave(leaving, lanes(*range(1, 8)))
    assert warp.splits == [parked]
    assert np.array_equal(lanes(*range(8, 32)), warp.warp.live)
