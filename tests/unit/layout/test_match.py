"""Two layouts of the same cells: what reading by one finds of what the other wrote."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.layout.atoms import accumulator, scale_factors, smem_matrix
from drywell.layout.error import LayoutError
from drywell.layout.match import MOST_BLOCKS, Block, check_match
from drywell.layout.named import Iter, TileLayout, coordinates, parse_layout

QUICK = settings(max_examples=120, deadline=None, derandomize=True)
AXES = ("TLane", "TCol")
iters = st.builds(Iter, st.integers(1, 3), st.integers(0, 5), st.sampled_from(AXES))


@st.composite
def pairs(draw):
    """Two layouts of 2-D matrices, each with its shape."""
    out = []
    for _ in range(2):
        shard = tuple(draw(st.lists(iters, min_size=1, max_size=3)))
        layout = TileLayout(shard, tuple(draw(st.lists(iters, max_size=1))), ())
        rows = draw(st.sampled_from([n for n in range(1, layout.size + 1) if layout.size % n == 0]))
        out.append((layout, (rows, layout.size // rows)))
    return out


def lies_at(layout, shape):
    """Place to the index of the last element there."""
    out = {}
    for index in itertools.product(*map(range, shape)):
        for place in coordinates(layout, index, shape):
            out[tuple(place.get(axis, 0) for axis in AXES)] = index
    return out


@QUICK
@given(pairs())
def test_every_place_is_counted_by_what_lies_there(pair):
    (written, shape), (read, read_shape) = pair
    there = lies_at(written, shape)
    found = [
        (index, there.get(tuple(place.get(axis, 0) for axis in AXES)))
        for index in itertools.product(*map(range, read_shape))
        for place in coordinates(read, index, read_shape)
    ]
    match = check_match(written, read, shape, read_shape)
    assert match.num_right == sum(a == b for a, b in found)
    assert match.num_empty == sum(b is None for _, b in found)
    assert match.num_wrong == sum(b is not None and a != b for a, b in found)
    assert match.ok == all(a == b for a, b in found)


@QUICK
@given(pairs())
def test_the_blocks_name_every_place_that_is_not_right(pair):
    (written, shape), (read, read_shape) = pair
    match = check_match(written, read, shape, read_shape)
    if match.num_blocks <= MOST_BLOCKS:
        areas = [
            ((b.wanted[0][1] - b.wanted[0][0]) * (b.wanted[1][1] - b.wanted[1][0]), b.found is None)
            for b in match.blocks
        ]
        assert match.num_empty == sum(area for area, is_empty in areas if is_empty)
        assert match.num_wrong == sum(area for area, is_empty in areas if not is_empty)
        for block in match.blocks:
            if block.found is not None:
                assert [b - a for a, b in block.found] == [b - a for a, b in block.wanted]


def test_64_rows_read_as_lanes_0_to_63():
    match = check_match(accumulator("F", N=64), parse_layout("S[(64, 64) : (1@TLane, 1@TCol)]"))
    assert not match
    assert (match.num_right, match.num_wrong, match.num_empty, match.num_unread) == (1024, 1024, 2048, 2048)
    assert match.blocks[1] == Block(
        ((32, 48), (0, 64)), (("TLane", 32, 47), ("TCol", 0, 63)), ((16, 32), (0, 64))
    )
    assert "[32:48, 0:64] read at TLane 32-47, TCol 0-63: [16:32, 0:64] lies there" in str(match)


def test_a_part_is_read_out_of_a_whole():
    part = parse_layout("S[(32, 16) : (1@TLane, 1@TCol)]")
    match = check_match(accumulator("D", N=256), part)
    assert match.ok
    says = "the layouts agree on all 512 places that are read; 32,256 written elements are not read"
    assert str(match) == says


def test_every_copy_is_looked_at():
    once = parse_layout("S[(4, 32, 4) : (4@TCol, 1@TLane, 1@TCol)]")
    match = check_match(once, scale_factors(128, 4), (128, 4))
    assert (match.num_right, match.num_empty) == (512, 3 * 512)
    assert [block.places[1] for block in match.blocks] == [
        ("TLane", 32, 63), ("TLane", 64, 95), ("TLane", 96, 127),
    ]  # fmt: skip
    assert check_match(scale_factors(128, 4), once, read_shape=(128, 4)).ok


def test_of_many_disagreements_the_first_are_shown():
    match = check_match(parse_layout("S[32 : 2@TLane]"), parse_layout("S[32 : 1@TLane]"))
    assert match.num_blocks == 31  # every row but the first is moved by another distance, or empty
    assert len(match.blocks) == MOST_BLOCKS
    assert str(match).endswith("and 23 more")


def test_a_tile_read_with_another_swizzle_holds_other_elements():
    match = check_match(smem_matrix("64B", "K", 8, 32), smem_matrix("128B", "K", 8, 64), read_shape=(8, 64))
    assert match.num_wrong > 0
    assert match.num_empty > 0


def test_layouts_of_more_or_fewer_dimensions_are_compared_sheet_by_sheet():
    a = parse_layout("S[(2, 4, 8) : (64, 8, 1)]")
    b = parse_layout("S[(2, 4, 8) : (64, 1, 4)]")
    match = check_match(a, b)
    assert match.num_right + match.num_wrong == 64
    assert check_match(parse_layout("S[8 : 1]"), parse_layout("S[4 : 1] + 4")).blocks[0].found == ((4, 8),)


def test_shapes_of_different_rank_are_refused():
    with pytest.raises(LayoutError, match="E0405.*different numbers of dimensions"):
        check_match(parse_layout("S[8 : 1]"), parse_layout("S[(4, 2) : (2, 1)]"))
