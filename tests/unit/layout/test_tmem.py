"""TMEM addresses: golden facts of the TMEM specification and the laws of the address word."""

import pytest

from drywell.layout import tmem
from drywell.layout.error import LayoutError


def test_lane_37_column_300_encodes_as_the_manual_says():
    assert tmem.encode(37, 300) == 0x0025012C


def test_encode_and_decode_are_inverse_on_every_cell():
    seen = set()
    for lane in range(128):
        for col in range(512):
            taddr = tmem.encode(lane, col)
            assert taddr == lane * 65536 + col
            assert tmem.decode(taddr) == (lane, col)
            seen.add(taddr)
    assert len(seen) == 128 * 512


@pytest.mark.parametrize(("lane", "col"), [(128, 0), (0, 512), (-1, 0), (0, -1)])
def test_a_cell_that_is_not_there_has_no_address(lane, col):
    assert not tmem.cell_exists(lane, col)
    with pytest.raises(LayoutError, match=r"E0410.*lane -?\d+, column -?\d+"):
        tmem.encode(lane, col)


def test_address_arithmetic_carries_columns_into_lanes():
    assert tmem.decode(tmem.advance(tmem.encode(3, 511), 65536 - 511)) == (4, 0)
    assert tmem.decode(tmem.advance(0, -1)) == (0xFFFF, 0xFFFF)


@pytest.mark.parametrize(
    ("warp", "lanes"),
    [(0, (0, 31)), (1, (32, 63)), (2, (64, 95)), (3, (96, 127)), (5, (32, 63)), (7, (96, 127))],
)
def test_a_warp_reaches_the_32_lanes_of_its_place_in_the_warpgroup(warp, lanes):
    window = tmem.warp_lanes(warp)
    assert (window[0], window[-1]) == lanes
    for lane in range(128):
        taddr = tmem.encode(lane, 9)
        assert tmem.in_warp_window(taddr, warp) == (lanes[0] <= lane <= lanes[1])
        assert tmem.in_warp_window(taddr, warp) == (tmem.partition_of(taddr) == warp % 4)


def test_columns_do_not_wrap():
    assert tmem.cols_exist(508, 4)
    assert not tmem.cols_exist(510, 4)
    assert not tmem.cols_exist(-1, 4)
    assert tmem.cols_exist(0, 512)


def test_warp_2_reading_lane_0_is_outside_its_window_and_lenient_means_lane_64():
    assert not tmem.in_warp_window(tmem.encode(0, 0), 2)
    assert [tmem.local_lane(tmem.encode(lane, 0), 2) for lane in (0, 31)] == [64, 95]


def test_allocation_takes_powers_of_two_from_32_to_512_only():
    assert [n for n in range(1025) if tmem.num_cols_is_allocatable(n)] == [32, 64, 128, 256, 512]


def test_granules_are_the_32_column_slices_touched():
    for col in range(0, 512, 7):
        for num_cols in (1, 4, 31, 32, 33, 64):
            expected = sorted({c // 32 for c in range(col, col + num_cols)})
            assert list(tmem.granules(col, num_cols)) == expected
