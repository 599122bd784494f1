"""The notation read off tables of places, and which element lies at a place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.layout.error import LayoutError
from drywell.layout.named import Iter, TileLayout, all_places, evaluate, parse_layout, replica_steps
from drywell.layout.named_algebra import direct_sum, same_map, tile
from drywell.layout.places import elements_at, extents_of, index_text, layout_of, left_of, outer_of

QUICK = settings(max_examples=150, deadline=None, derandomize=True)
AXES = ("TLane", "TCol")
iters = st.builds(Iter, st.integers(1, 4), st.integers(0, 9), st.sampled_from(AXES))
offsets = st.dictionaries(st.sampled_from(AXES), st.integers(0, 9), max_size=2)
layouts = st.builds(
    TileLayout,
    st.lists(iters, min_size=1, max_size=4).map(tuple),
    st.lists(iters, max_size=2).map(tuple),
    offsets.map(lambda d: tuple(sorted(d.items()))),
)


@QUICK
@given(layouts)
def test_a_layout_is_read_off_its_own_places(layout):
    places = evaluate(layout)
    steps = replica_steps(layout) if layout.replica else None
    assert same_map(layout_of(places, steps), layout)


@QUICK
@given(layouts)
def test_the_element_at_a_place_is_one_that_lies_there(layout):
    extents = extents_of(layout)
    table = elements_at(layout, extents)
    places = all_places(layout)
    by_place: dict[tuple[int, ...], set[int]] = {}
    for element in range(layout.size):
        for copy in range(next(iter(places.values())).shape[1]):
            at = tuple(int(places[axis][element, copy]) for axis in extents)
            by_place.setdefault(at, set()).add(element)
    for at in np.ndindex(table.shape):
        expected = by_place.get(at, {-1})
        assert int(table[at]) in expected


def test_each_dimension_has_iters_of_its_own():
    rows, cols = np.indices((4, 8))
    assert str(layout_of({"m": 8 * rows + cols})) == "S[(4, 8) : (8, 1)]"
    assert str(layout_of({"TLane": rows + 3, "TCol": 0 * cols})) == "S[(4, 8) : (1@TLane, 0@TLane)] + 3@TLane"
    assert str(layout_of({"m": np.array([[5]])})) == "S[1 : 1] + 5"


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ({"TLane": np.arange(4), "TCol": np.arange(4)}, "element 1 moves along TLane and TCol at once"),
        ({"m": np.array([0, 1, 2, 4])}, "element 3 starts a run that is unlike"),
        ({"m": np.array([0, 1, 4, 6])}, "element 2 starts a run that is unlike"),
    ],
)
def test_places_without_a_form_are_refused(places, says):
    with pytest.raises(LayoutError, match=f"E0408.*{says}"):
        layout_of(places)


def test_copies_start_at_the_table():
    with pytest.raises(LayoutError, match="E0408"):
        layout_of({"m": np.arange(2)}, {"m": np.array([1, 2])})


positive = st.builds(Iter, st.integers(2, 4), st.integers(1, 9), st.sampled_from(AXES))
factors = st.builds(
    TileLayout,
    st.lists(positive, min_size=1, max_size=2).map(tuple),
    st.lists(positive, max_size=1).map(tuple),
    offsets.map(lambda d: tuple(sorted((a, v) for a, v in d.items() if v))),
)


@QUICK
@given(factors, factors)
def test_the_factors_of_a_product_are_found_again(inner, outer):
    sizes = (outer.size,), (inner.size,)
    for product, factor in ((tile, outer_of), (direct_sum, left_of)):
        whole = product(inner, outer, *sizes)
        found = factor(whole, inner, *sizes)
        assert found is not None
        assert same_map(product(inner, found, *sizes), whole)


def test_what_is_no_product_has_no_factor():
    inner = parse_layout("S[8 : 1]")
    assert outer_of(parse_layout("S[(4, 8) : (100, 1)]"), inner, (4,), (8,)) is None
    assert outer_of(parse_layout("S[32 : 2]"), inner, (4,), (8,)) is None
    assert left_of(parse_layout("S[(4, 8) : (100, 2)]"), inner, (4,), (8,)) is None
    copied = parse_layout("S[8 : 1] + R[2 : 8]")
    assert left_of(parse_layout("S[(4, 8) : (100, 1)]"), copied, (4,), (8,)) is None


def test_a_place_outside_is_refused():
    with pytest.raises(LayoutError, match="E0405.*reaches 128 on TLane"):
        elements_at(parse_layout("S[2 : 128@TLane]"), {"TLane": 128})
    with pytest.raises(LayoutError, match="E0405.*reaches 1 on TCol"):
        elements_at(parse_layout("S[2 : 1@TCol]"), {"TLane": 128})


def test_an_index_is_printed_as_it_is_written():
    assert index_text(13, (4, 4)) == "(3, 1)"
    assert index_text(0, ()) == "()"
