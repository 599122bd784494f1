"""Columns of Tensor Memory by owner, which of them can share, and what a bad placement is told.

Each expectation is arithmetic on its line; the rows B057 to B069 and B084 are those of tests/bugs.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell import LaunchError
from drywell.plan.columns import (
    Placed,
    Region,
    a_operand,
    accumulator,
    allocated_cols,
    carried,
    placement_problems,
    scale_factors,
    scale_words,
    share,
    slice_problem,
    sums,
    wider_loads,
)


@pytest.mark.parametrize(
    ("region", "cols"),
    [
        (accumulator("D", 128, 256), 256),  # a column for each of N
        (accumulator("D", 256, 256), 2 * 256),  # two blocks of 128 rows
        (accumulator("D", 64, 256), 256),  # layout F: half of the lanes, all of the columns
        (accumulator("D", 64, 256, is_ws=True), 256 // 2),  # layout E: the columns in two halves
        (accumulator("D", 256, 256, cta_group=2), 256),  # 128 rows in each CTA
        (accumulator("D", 128, 256, cta_group=2), 256 // 2),  # layout B
        (a_operand("A", 128, 64), 64 * 16 // 32),  # two bf16 in a word
        (a_operand("A", 128, 64, container_bits=8), 64 * 8 // 32),
        (scale_factors("SFA", 128, 4), 4),  # 32 lanes x 4 columns, in each of four windows
        (scale_factors("SFB", 256, 4), 2 * 4),
    ],
)
def test_an_owner_takes_its_columns(region: Region, cols: int) -> None:
    assert cols == region.cols


@pytest.mark.parametrize(
    ("used", "asked"), [(1, 32), (32, 32), (33, 64), (272, 512), (512, 512), (513, None)]
)
def test_an_allocation_is_a_power_of_two_from_32_on(used: int, asked: int | None) -> None:
    assert asked == allocated_cols(used)


# the rows PLAN of the collection of bugs


def test_b057_544_columns_by_owner() -> None:
    found = share([accumulator("D", 256, 256), a_operand("A", 256, 32)])
    assert (2 * 256 + 2 * 16, 32) == (found.cols, found.over)
    assert "544 of 512 columns, 32 too many (D 512, A 32)" == found.summary
    narrower = share([accumulator("D", 256, 224), a_operand("A", 256, 32)])
    assert (2 * 224 + 32, 0) == (narrower.cols, narrower.over)


def test_b058_528_columns_at_128_rows_and_the_sum_at_64() -> None:
    def regions(rows: int) -> list[Region]:
        accumulators = [accumulator(name, rows, 256, is_ws=rows < 128) for name in ("dK", "dV")]
        return [*accumulators, a_operand("P", rows, 32)]

    said = sums({"tile 128": regions(128), "tile 64": regions(64)})
    assert "tile 128: 528 of 512 columns, 16 too many (dK 256, dV 256, P 16)" == said[0]  # 2 x 256 + 16
    assert "tile 64: 272 of 512 columns, allocate 512 (dK 128, dV 128, P 16)" == said[1]  # 2 x 128 + 16


def test_b059_a_region_beyond_the_last_column_is_told_its_columns() -> None:
    placed = Placed(Region("S", 480), 0), Placed(Region("D", 64), 480)
    (problem,) = placement_problems(placed)
    assert problem.startswith("'D' at columns 480-543: columns 512-543 are beyond column 511, the last")
    assert "544 of 512 columns, 32 too many" in problem


def test_b063_a_region_that_begins_where_others_end_takes_their_columns() -> None:
    found = share([Region("A", 64, 0, 8), Region("B", 64, 2, 8), Region("C", 128, 8, 12)])
    assert (128, 128, True) == (found.cols, found.live_cols, found.is_least)
    assert {"A": 0, "B": 64, "C": 0} == {p.region.owner: p.col for p in found.placed}
    assert "'C' takes columns 0-63 of 'A': one is live up to step 8, the other from step 8" in found.proof
    assert "'C' takes columns 64-127 of 'B': one is live up to step 8, the other from step 8" in found.proof
    assert "at step 2 'A', 'B' are live in 128 columns: no placement takes fewer" == found.proof[-1]


def test_b065_an_accumulator_that_a_loop_carries_is_one_region_over_all_of_it() -> None:
    steps = (0, 4)
    region = carried(Region("D", accumulator("D", 128, 128).cols, 0, 1), steps)
    assert Region("D", 128, 0, 4) == region
    found = share([region])
    assert (128, 1) == (found.cols, len(found.placed))


def test_b066_two_scopes_at_one_column_are_legal_and_told_apart() -> None:
    X, Y = Placed(Region("X", 128, 0, 4), 0), Placed(Region("Y", 64, 4, 8), 0)
    assert () == placement_problems((X, Y))
    assert X.region != Y.region
    still_live = Placed(Region("Y", 64, 3, 8), 0)
    words = "'X' at columns 0-127 and 'Y' at columns 0-63 overlap, and both are live at step 3"
    assert (words,) == placement_problems((X, still_live))


def test_b067_a_base_that_is_added_twice_is_named() -> None:
    view = Placed(Region("view", 256), 128)
    assert "" == slice_problem(view, 128 + 128, 128)
    said = slice_problem(view, 128 + 128 + 128, 128)
    assert said.startswith("columns 384-511 lie outside 'view' at columns 128-383")
    assert said.endswith("its first column, 128, is added twice: take 256")
    assert "slice within it" in slice_problem(view, 0, 64)


def test_b069_six_scales_are_two_words_the_last_half_used() -> None:
    assert (2, 2) == scale_words(6)
    assert (1, 4) == scale_words(4)
    assert 2 * 4 == scale_factors("SFA", 128, 6).cols


def test_b084_256_loads_of_one_column_become_8_of_32() -> None:
    assert wider_loads({1: 256}).startswith("256 tcgen05.ld of .x1 read what 8 of .x32 do")
    assert "" == wider_loads({32: 8})
    assert "" == wider_loads({1: 1, 32: 4})
    assert "" == wider_loads({8: 3})  # two of x16: little is gained
    assert wider_loads({8: 4}).startswith("4 tcgen05.ld of .x8 read what 1 of .x32 do")


# sharing

REGIONS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4
).map(lambda rows: [Region(f"R{k}", c, s, s + n) for k, (c, s, n) in enumerate(rows)])


def least(regions: list[Region]) -> int:
    """Return the fewest columns, by trying every column for every region."""
    total = sum(r.cols for r in regions)
    best = total
    for cols in product(*(range(total - r.cols + 1) for r in regions)):
        taken: set[tuple[int, int]] = set()
        cells = [
            (step, col)
            for r, first in zip(regions, cols, strict=True)
            for step in range(r.start, r.stop)
            for col in range(first, first + r.cols)
        ]
        taken.update(cells)
        if len(taken) == len(cells):
            best = min(best, max(f + r.cols for r, f in zip(regions, cols, strict=True)))
    return best


@given(REGIONS.filter(lambda regions: sum(r.cols for r in regions) <= 10))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_four_regions_never_take_more_than_the_fewest_columns_possible(regions: list[Region]) -> None:
    found = share(regions)
    assert least(regions) == found.cols
    assert () == placement_problems(found.placed)
    assert found.live_cols <= found.cols


def test_more_regions_than_are_tried_in_every_order_still_lie_apart() -> None:
    regions = [Region(f"R{k}", 32, k, k + 2) for k in range(9)]  # two live at any step
    found = share(regions)
    assert () == placement_problems(found.placed)
    assert (64, True) == (found.cols, found.is_least)


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        ([Region("A", 0)], "'A', 0 columns"),
        ([Region("A", 32, 4, 4)], "needed 1 or more and a later stop"),
        ([Region("A", 32), Region("A", 64)], "two regions are called 'A'"),
    ],
)
def test_what_cannot_be_placed_is_refused(regions: list[Region], words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        share(regions)
