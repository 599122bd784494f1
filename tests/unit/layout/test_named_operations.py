"""Swizzling, repeating, reordering, packing: each law against the places themselves."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.layout.error import LayoutError
from drywell.layout.named import ComposeLayout, Iter, TileLayout, evaluate, parse_layout
from drywell.layout.named_algebra import compose, pack, permute, same_map, storage, tile_to, unpack
from drywell.layout.swizzle import SWIZZLE_MODES, Swizzle

QUICK = settings(max_examples=100, deadline=None, derandomize=True)
AXES = ("TLane", "TCol", "m", "laneid")
iters = st.builds(Iter, st.integers(1, 4), st.integers(0, 6), st.sampled_from(AXES))
offsets = st.dictionaries(st.sampled_from(("TCol", "TLane")), st.integers(1, 5))
layouts = st.builds(
    TileLayout,
    st.lists(iters, min_size=1, max_size=3).map(tuple),
    st.lists(iters, max_size=1).map(tuple),
    offsets.map(lambda d: tuple(sorted(d.items()))),
)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("mode", ["32B", "64B", "128B", "128B_ATOM_32B", "96B"])
def test_a_mode_moves_elements_as_it_moves_their_bytes(mode, bits):
    plain = parse_layout("S[(16, 64) : (64, 1)]")
    found = evaluate(compose(plain, mode, bits))["m"]
    expected = SWIZZLE_MODES[mode].apply(evaluate(plain)["m"] * (bits // 8)) // (bits // 8)
    assert (found == expected).all()


@QUICK
@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.booleans())
def test_a_swizzle_acts_on_the_numbers_of_elements(bits, base, more, is_inner):
    swizzle = Swizzle(bits, base, bits + more if is_inner else -(bits + more))
    plain = parse_layout("S[(16, 64) : (64, 1)]")
    found = evaluate(compose(plain, swizzle))["m"]
    assert (found == swizzle.apply(evaluate(plain)["m"])).all()
    assert sorted({swizzle.apply(k) for k in range(4096)}) == list(range(4096))


def test_what_no_swizzle_goes_behind():
    with pytest.raises(LayoutError, match="E0404.*does not go behind"):
        compose(parse_layout("S[4 : 1@TCol]"), "128B")
    with pytest.raises(LayoutError, match="E0404.*not one swizzle"):
        compose(parse_layout("S[4 : 1]"), "128B_ATOM_32B_FLIP_8B")
    with pytest.raises(LayoutError, match="E0404.*not one swizzle"):
        compose(parse_layout("S[4 : 1]"), "128B", 6)


@QUICK
@given(layouts, st.data())
def test_repeated_rows_are_row_major(layout, data):
    times = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    shape = (times[0], times[1] * layout.size)
    whole = evaluate(tile_to(layout, shape, (1, layout.size)), shape)
    once = evaluate(layout, (layout.size,))
    for row, col in itertools.product(*map(range, times)):
        block = np.s_[row, col * layout.size : (col + 1) * layout.size]
        for axis, places in once.items():
            inside = whole.get(axis, np.zeros(shape, np.int64))[block]
            step = 0 if axis != "m" else int(inside[0] - places[0])
            assert (inside == places + step).all()
            assert axis != "m" or step % max(1, row * times[1] + col) == 0


def test_repeating_lays_rows_side_by_side():
    whole = tile_to(parse_layout("S[(2, 4) : (4, 1)]"), (4, 8), (2, 4))
    where = evaluate(whole, (4, 8))["m"]
    for row, col in itertools.product(range(4), range(8)):
        assert where[row, col] == 8 * (2 * (row // 2) + col // 4) + 4 * (row % 2) + col % 4
    with pytest.raises(LayoutError, match="E0406"):
        tile_to(whole, (6, 8), (4, 8))


@QUICK
@given(layouts, st.data())
def test_reordered_dimensions_have_the_same_places(layout, data):
    order = data.draw(st.permutations(range(len(layout.shape))))
    other = permute(layout, layout.shape, order)
    shape = tuple(layout.shape[i] for i in order)
    where, moved = evaluate(layout), evaluate(other, shape)
    for axis in layout.axes:
        assert (np.transpose(where[axis], order) == moved.get(axis, 0)).all()
    assert other.replica == layout.replica


def test_an_order_names_each_dimension_once():
    with pytest.raises(LayoutError, match="E0406"):
        permute(parse_layout("S[(4, 2) : (2, 1)]"), (4, 2), (0, 0))
    swizzled = compose(parse_layout("S[(8, 64) : (64, 1)]"), "128B")
    turned = permute(swizzled, (8, 64), (1, 0))
    assert isinstance(turned, ComposeLayout)
    assert (evaluate(turned, (64, 8))["m"] == evaluate(swizzled)["m"].T).all()


@QUICK
@given(layouts, st.integers(1, 4))
def test_narrower_elements_lie_inside_the_wider_ones(layout, count):
    where, narrow = evaluate(layout, (layout.size,)), unpack(layout, count)
    inside = evaluate(narrow, (layout.size, count))
    counted = [it.axis for it in layout.shard if it.axis in ("m", "TCol")]
    along = counted[-1] if counted else "m"
    for axis in layout.axes:
        scale = count if axis in ("m", "TCol") else 1
        expected = where[axis][:, None] * scale + (np.arange(count) if axis == along else 0)
        assert (inside[axis] == expected).all()


@QUICK
@given(layouts, st.integers(1, 4))
def test_packing_undoes_unpacking(layout, count):
    assert same_map(pack(unpack(layout, count), count), layout)


CUT = ["S[4 : 2]", "S[6 : 1]", "S[4 : 1@laneid]", "S[(3, 4) : (6, 1)]", "S[4 : 1] + 2"]


@pytest.mark.parametrize("text", CUT)
def test_neighbours_that_make_no_wider_element(text):
    with pytest.raises(LayoutError, match="E0406.*do not make whole wider elements"):
        pack(parse_layout(text), 4)


def test_what_a_thread_holds():
    text = "S[(4, 8, 4, 2) : (1@wid_in_wg, 4@laneid, 1@laneid, 1)] + R[2 : 2@wid_in_wg] + 1@laneid"
    fragment = parse_layout(text)
    assert str(storage(fragment)) == "S[2 : 1]"
    assert str(storage(parse_layout("S[4 : 1@laneid]"))) == "S[1 : 1]"
