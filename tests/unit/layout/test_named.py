"""The named-axis notation: golden facts, print-parse identity, messages, the algebra's laws, CuTe
and linear forms.
"""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.layout.cute import tmem_fields, to_cute
from drywell.layout.error import LayoutError
from drywell.layout.fragment import fragment
from drywell.layout.linear import to_linear
from drywell.layout.named import (
    ComposeLayout,
    Iter,
    TileLayout,
    coordinates,
    evaluate,
    parse_layout,
    replica_steps,
    span,
    tile_layout,
)
from drywell.layout.named_algebra import (
    canonicalize,
    direct_sum,
    group,
    num_places,
    same_map,
    slice_layout,
    tile,
)
from drywell.layout.tmem import hardware_col

AXES = ("TLane", "TCol", "m", "warpid")
QUICK = settings(max_examples=80, deadline=None, derandomize=True)


def scalar(layout, flat):
    """All places of one element, by the definition: digits, strides, offset, every replica."""
    digits = []
    for it in reversed(layout.shard):
        digits.insert(0, flat % it.extent)
        flat //= it.extent
    base = dict(layout.offset)
    for it, digit in zip(layout.shard, digits, strict=True):
        base[it.axis] = base.get(it.axis, 0) + digit * it.stride
    out = set()
    for copy in itertools.product(*(range(it.extent) for it in layout.replica)):
        place = dict(base)
        for it, digit in zip(layout.replica, copy, strict=True):
            place[it.axis] = place.get(it.axis, 0) + digit * it.stride
        out.add(tuple(sorted((axis, v) for axis, v in place.items() if v)))
    return out


def all_places(layout):
    return [scalar(layout, flat) for flat in range(layout.size)]


iters = st.builds(Iter, st.integers(1, 4), st.integers(0, 9), st.sampled_from(AXES))
offsets = st.dictionaries(st.sampled_from(AXES), st.integers(-4, 9), max_size=2).map(
    lambda d: tuple(sorted(d.items()))
)
layouts = st.builds(
    TileLayout,
    st.lists(iters, min_size=1, max_size=4).map(tuple),
    st.lists(iters, max_size=2).map(tuple),
    offsets,
)


def test_golden_set_of_places():
    layout = parse_layout("S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)]+R[2:4@warpid]+5@warpid")
    places = coordinates(layout, (1, 3), (8, 16))
    assert [(p["laneid"], p["m"]) for p in places] == [(5, 1), (5, 1)]
    assert {p["warpid"] for p in places} == {5, 9}


def test_golden_112_columns():
    layout = parse_layout("S[(2,128,112):(112@TCol,1@TLane,1@TCol)]")
    assert coordinates(layout, (1, 127, 111)) == ({"TCol": 223, "TLane": 127},)


def test_golden_accumulators():
    f = parse_layout("S[(4,16,8) : (32@TLane, 1@TLane, 1@TCol)]")
    b = parse_layout("S[(64,2,64) : (1@TLane, 64@TLane, 1@TCol)]")
    g = parse_layout("S[(32,4,16) : (1@TLane, 32@TLane, 1@TCol)]")
    assert coordinates(f, (20, 3), (64, 8)) == ({"TLane": 36, "TCol": 3},)
    assert coordinates(b, (5, 70), (64, 128)) == ({"TLane": 69, "TCol": 6},)
    assert coordinates(g, (9, 50), (32, 64)) == ({"TLane": 105, "TCol": 2},)


def test_golden_swizzle():
    layout = parse_layout("ComposeLayout(3, 3, 3, TileLayout(S[(8,64):(64,1)]))")
    assert coordinates(layout, (3, 17)) == ({"m": 201},)
    assert evaluate(layout)["m"][:, 0].tolist() == [0, 72, 144, 216, 288, 360, 432, 504]


def test_golden_canonical_form_and_group():
    fused = canonicalize(parse_layout("S[(4,32):(32@TLane,1@TLane)]"))
    assert fused == parse_layout("S[128:1@TLane]")
    assert group(fused, (4, 32))[0] == parse_layout("S[(4,32):(32@TLane,1@TLane)]")


def test_golden_tile_and_direct_sum():
    inner, outer = parse_layout("S[8:1]"), parse_layout("S[4:1]")
    assert tile(inner, outer, (4,), (8,)) == parse_layout("S[32:1]")
    assert direct_sum(inner, outer, (4,), (8,)) == parse_layout("S[(4,8):(1,1)]")


@QUICK
@given(layouts)
def test_printing_and_parsing_are_inverse(layout):
    assert parse_layout(str(layout)) == layout
    assert parse_layout(f"TileLayout({layout})") == layout


def test_printed_form_is_that_of_the_literature():
    text = "S[(32, 4) : (1@TLane, 1@TCol)] + R[4 : 32@TLane] + 5@warpid"
    assert str(parse_layout("5@warpid + R[4:32@TLane]+S[(32,4):(1@TLane,TCol)]")) == text
    assert str(parse_layout("S[(2, 3)]")) == "S[(2, 3) : (3, 1)]"
    assert str(parse_layout("S[4:1] + 3 + O[2@TCol, 1]")) == "S[4 : 1] + 2@TCol + 4"
    compose = "ComposeLayout(3, 3, 3, TileLayout(S[(8, 64) : (64, 1)]), False)"
    assert str(parse_layout(compose)) == compose
    assert parse_layout("S[4:1@lane_of_mine]", extra_axes=("lane_of_mine",)).axes == ("lane_of_mine",)


BROKEN = [
    ("", "E0401", 1, "found the end"),
    ("S[(128, N) : (1@TLane, 1@TCol)]", "E0401", 9, "put a number"),
    ("S[(128, 64) : (1@TLane)]", "E0403", 15, "1 strides for 2 extents"),
    ("S[128 : 1@TLan]", "E0402", 11, "did you mean 'TLane'"),
    ("S[128 : 1@]", "E0401", 11, "axis name"),
    ("S[0 : 1]", "E0404", 3, "extent 0"),
    ("S[4 : 1", "E0401", 8, "the end of the text"),
    ("S[4 : 1] R[2 : 1]", "E0401", 10, "after the end"),
    ("S[4:1] + S[2:1]", "E0401", 10, "a second S"),
    ("R[4:1]", "E0401", 7, "no S"),
    ("S[4;1]", "E0401", 4, "';'"),
    ("ComposeLayout(3, 3, 2, S[4:1])", "E0404", 1, "atom_len"),
    ("ComposeLayout(3, 3, 3, S[4:1@TCol])", "E0404", 1, "axis m"),
    ("ComposeLayout(3, 3, 3, S[4:1], maybe)", "E0401", 32, "True or False"),
]


@pytest.mark.parametrize(("text", "code", "column", "says"), BROKEN)
def test_what_cannot_be_read_is_shown_with_a_caret(text, code, column, says):
    with pytest.raises(LayoutError) as caught:
        parse_layout(text)
    assert (caught.value.code, caught.value.column) == (code, column)
    assert says in str(caught.value)
    caret = str(caught.value).split("\n")[2]
    assert caret.index("^") == 2 + column - 1


@QUICK
@given(layouts)
def test_evaluation_is_the_definition(layout):
    where, steps = evaluate(layout, (layout.size,)), replica_steps(layout)
    copies = len(next(iter(steps.values())))
    assert layout.size * copies == num_places(layout)
    for flat in range(layout.size):
        got = {
            tuple(sorted((a, v) for a in layout.axes if (v := int(where[a][flat] + steps[a][r]))))
            for r in range(copies)
        }
        assert got == scalar(layout, flat)
        one_by_one = coordinates(layout, (flat,), (layout.size,))
        assert {tuple(sorted((a, v) for a, v in p.items() if v)) for p in one_by_one} == got


@QUICK
@given(layouts, layouts)
def test_same_map_is_equality_of_all_place_sets(a, b):
    assert same_map(a, b) == (a.size == b.size and all_places(a) == all_places(b))
    assert same_map(a, a)


def test_same_map_sees_what_the_written_form_hides():
    assert same_map(parse_layout("S[4:1]+R[4:32@TLane]"), parse_layout("S[4:1]+R[(2,2):(64@TLane,32@TLane)]"))
    assert same_map(parse_layout("S[4:1]+R[2:0]"), parse_layout("S[4:1]"))
    assert not same_map(parse_layout("S[4:1]+R[2:1@TLane]"), parse_layout("S[4:1]"))
    plain = parse_layout("S[64:1]")
    assert not same_map(plain, parse_layout("ComposeLayout(0, 3, 3, S[64:1])"))
    assert same_map(plain, parse_layout("ComposeLayout(0, 0, 3, S[64:1])"))
    with pytest.raises(LayoutError, match="E0405"):
        same_map(parse_layout("S[8388608:1]"), parse_layout("S[8388608:1]"))


@QUICK
@given(layouts)
def test_canonical_form_maps_alike_and_is_stable(layout):
    once = canonicalize(layout)
    assert all_places(once) == all_places(layout)
    assert canonicalize(once) == once


def test_thread_axes_fuse_when_asked():
    layout = parse_layout("S[(4, 32, 2) : (1@wid_in_wg, 1@laneid, 1)] + R[2 : 2@wid_in_wg]")
    assert canonicalize(layout) == layout
    fused = canonicalize(layout, fuse_threads=True)
    assert fused == parse_layout("S[(128, 2) : (1@tid_in_wg, 1)] + R[2 : 64@tid_in_wg]")
    wide = parse_layout("S[(4, 64) : (1@wid_in_wg, 1@laneid)]")
    assert canonicalize(wide, fuse_threads=True).axes == ("wid_in_wg", "laneid")


@QUICK
@given(layouts, st.data())
def test_grouping_maps_alike_and_its_runs_multiply_to_the_shape(layout, data):
    cut = data.draw(st.integers(1, layout.size))
    shape = (cut, layout.size // cut) if layout.size % cut == 0 else (layout.size,)
    try:
        grouped, seps = group(layout, shape)
    except LayoutError as error:
        assert error.code == "E0406"
        return
    assert all_places(grouped) == all_places(layout)
    if layout.size > 1:
        runs = [grouped.shard[seps[i] : seps[i + 1]] for i in range(len(shape))]
        assert [math.prod(it.extent for it in run) for run in runs] == list(shape)


def test_grouping_with_unit_dimensions_and_what_cannot_be_grouped():
    layout = parse_layout("S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)]")
    assert group(layout, (1, 8, 1, 16, 1))[1] == (0, 0, 1, 1, 4, 4)
    assert group(layout, (8, 16))[1] == (0, 1, 4)
    with pytest.raises(LayoutError, match=r"E0406"):
        group(parse_layout("S[(6,4):(1@TLane,1)]"), (4, 6))
    with pytest.raises(LayoutError, match=r"E0405"):
        group(layout, (8, 8))


def add(left, right):
    out = dict(left)
    for axis, value in right:
        out[axis] = out.get(axis, 0) + value
    return tuple(sorted((axis, v) for axis, v in out.items() if v))


@QUICK
@given(layouts, layouts)
def test_direct_sum_adds_places_over_the_product_domain(right, left):
    total = direct_sum(right, left, (left.size,), (right.size,))
    for i in range(left.size):
        for j in range(right.size):
            expected = {add(a, b) for a in scalar(left, i) for b in scalar(right, j)}
            assert scalar(total, i * right.size + j) == expected


@QUICK
@given(layouts, layouts)
def test_tile_repeats_the_inner_at_multiples_of_its_span(inner, outer):
    spans = {it.axis: span(inner, it.axis) for it in inner.shard if it.extent > 1}
    used = {it.axis for it in inner.shard}
    if any(it.axis in used - set(spans) for it in outer.shard):
        return  # an axis the inner only mentions with a unit iter: its canonical form has no span there
    wide = TileLayout(
        tuple(Iter(it.extent, it.stride * spans.get(it.axis, 1), it.axis) for it in outer.shard),
        outer.replica,
        outer.offset,
    )
    tiled = tile(inner, outer, (outer.size,), (inner.size,))
    for i in range(outer.size):
        for j in range(inner.size):
            expected = {add(a, b) for a in scalar(wide, i) for b in scalar(inner, j)}
            assert scalar(tiled, i * inner.size + j) == expected


def test_tile_interleaves_dimensions():
    inner = parse_layout("S[(2, 4) : (4, 1)]")
    tiled = tile(inner, parse_layout("S[(3, 2) : (2, 1)]"), (3, 2), (2, 4))
    where = evaluate(tiled, (6, 8))["m"]
    for r in range(6):
        for c in range(8):
            assert where[r, c] == 8 * (2 * (r // 2) + c // 4) + 4 * (r % 2) + c % 4
    swizzled = tile(
        parse_layout("ComposeLayout(0, 1, 1, S[(2,4):(4,1)])"),
        parse_layout("S[(3,2):(2,1)]"),
        (3, 2),
        (2, 4),
    )
    assert isinstance(swizzled, ComposeLayout)
    assert swizzled.tile == tiled


@QUICK
@given(layouts, st.data())
def test_a_slice_maps_as_the_whole_does_there(layout, data):
    begin = data.draw(st.integers(0, layout.size - 1))
    end = data.draw(st.integers(begin + 1, layout.size))
    part = slice_layout(layout, (layout.size,), ((begin, end),))
    if part is not None:
        assert part.size == end - begin
        assert all_places(part) == all_places(layout)[begin:end]


def test_slices_of_two_dimensions_and_across_one_boundary():
    acc = parse_layout("S[(128, 256) : (1@TLane, 1@TCol)] + 64@TCol")
    part = slice_layout(acc, (128, 256), ((32, 64), (8, 24)))
    assert part == parse_layout("S[(32, 16) : (1@TLane, 1@TCol)] + 72@TCol + 32@TLane")
    crossing = slice_layout(parse_layout("S[(4, 8) : (100, 1)]"), (32,), ((6, 10),))
    assert crossing == parse_layout("S[(2, 2) : (94, 1)] + 6")
    assert slice_layout(parse_layout("S[(4, 8) : (100, 1)]"), (32,), ((5, 10),)) is None
    deep = parse_layout("S[(2, 2, 4) : (1000, 100, 1)]")
    assert slice_layout(deep, (16,), ((3, 5),)) == parse_layout("S[(2, 1) : (97, 1)] + 3")
    assert slice_layout(deep, (16,), ((7, 9),)) is None  # the carry goes on into the third iter
    with pytest.raises(LayoutError, match="E0405"):
        slice_layout(acc, (128, 256), ((0, 129), (0, 1)))
    swizzled = parse_layout("ComposeLayout(3, 3, 3, S[(8,64):(64,1)])")
    cut = slice_layout(swizzled, (8, 64), ((2, 4), (8, 16)))
    assert (evaluate(cut, (2, 8))["m"] == evaluate(swizzled)["m"][2:4, 8:16]).all()


def test_numbers_make_the_same_layouts_as_text():
    assert tile_layout((4, 2), ((1, "TLane"), (1, "m")), ((2, 8, "TLane"),), {"m": 3}) == parse_layout(
        "S[(4, 2) : (1@TLane, 1)] + R[2 : 8@TLane] + 3"
    )
    with pytest.raises(LayoutError, match="E0403"):
        tile_layout((4, 2), ((1, "m"),))
    with pytest.raises(LayoutError, match="E0404"):
        tile_layout((0,), ((1, "m"),))
    with pytest.raises(LayoutError, match="E0405"):
        coordinates(parse_layout("S[4:1]"), (4,))


FRAGMENTS = {
    "16x64b": "S[(4, 2, 8, {n}, 2) : (1@wid_in_wg, 1@laneid, 4@laneid, 1, 2@laneid)]",
    "16x128b": "S[(4, 2, 8, {n}, 4) : (1@wid_in_wg, 1, 4@laneid, 2, 1@laneid)]",
    "16x256b": "S[(4, 2, 8, {n}, 4, 2) : (1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)]",
}


@pytest.mark.parametrize("shape", sorted(FRAGMENTS))
@pytest.mark.parametrize("num", [1, 4])
def test_the_notation_of_a_fragment_agrees_with_the_fragment(shape, num):
    f = fragment(shape, num)
    cols = f.windows[0].num_cols
    where = evaluate(parse_layout(FRAGMENTS[shape].format(n=num)), (64, cols))
    for thread in range(32):
        for register in range(f.num_registers):
            row, col = int(f.lane[thread, register]), int(f.col[thread, register])
            for warp in range(4):
                place = {axis: int(array[16 * warp + row, col]) for axis, array in where.items()}
                assert place == {"wid_in_wg": warp, "laneid": thread, "m": register}


def test_scale_factor_packing_in_the_notation():
    layout = parse_layout("S[(4, 32, 4) : (4@TCol, 1@TLane, 1@TCol)] + R[4 : 32@TLane]")
    places = coordinates(layout, (77, 2), (128, 4))
    assert sorted(p["TLane"] for p in places) == [13, 45, 77, 109]
    assert {hardware_col(p["TCol"], 8) for p in places} == {(2, 2)}


def test_cute_form_of_tmem_layouts():
    acc = parse_layout("S[(128, 64) : (1@TLane, 1@TCol)]")
    assert str(to_cute(acc, tmem_fields())) == "(128,64):(65536,1)"
    assert str(to_cute(acc, tmem_fields(16))) == "(128,64):(131072,1)"
    assert str(to_cute(parse_layout("S[8 : 3] + 5"))) == "5 o 8:3"
    assert (
        str(to_cute(parse_layout("ComposeLayout(4, 3, 3, S[(8,128):(128,1)])")))
        == "Swizzle<3,4,3> o (8,128):(128,1)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "S[(4, 3) : (5, 2)] + 7",
        "ComposeLayout(3, 3, 3, S[(8, 64) : (64, 1)])",
        "S[(2,3,4):(1,2,6)]",
        "ComposeLayout(1, 2, 2, S[(4, 16) : (16, 1)], False)",
    ],
)
def test_cute_form_has_the_same_coordinates(text):
    layout = parse_layout(text)
    cute, where = to_cute(layout), evaluate(layout)["m"]
    for coordinate in itertools.product(*map(range, layout.shape)):
        assert cute(*coordinate) == where[coordinate]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("S[4:1@TLane]+R[2:4@TLane]", "copies"),
        ("S[(4,2):(1@TLane,1@TCol)]", "no weight for axis TCol"),
    ],
)
def test_what_cute_cannot_say(text, says):
    with pytest.raises(LayoutError, match=f"E0407.*{says}"):
        to_cute(parse_layout(text))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("S[(128, 64) : (1@TLane, 1@TCol)]", None),
        ("S[(32, 4) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]", None),
        ("S[(64, 2, 16) : (1@TLane, 64@TLane, 1@TCol)]", (64, 32)),
        (FRAGMENTS["16x256b"].format(n=2), (64, 16)),
        ("ComposeLayout(3, 3, 3, S[(8, 64) : (64, 1)])", None),
        ("ComposeLayout(0, 2, 2, S[(4, 4) : (4, 1)], False)", None),
    ],
)
def test_linear_form_names_the_element_at_every_place(text, shape):
    layout = parse_layout(text)
    linear = to_linear(layout, shape)
    shape = shape or layout.shape
    for index in itertools.product(*map(range, shape)):
        for place in coordinates(layout, index, shape):
            assert linear(place) == index


def test_linear_form_of_a_fragment_is_the_table_of_bases():
    """Lane and register bits of 16x256b as a linear layout, from the published table."""
    layout = parse_layout("S[(2, 8, 2, 4, 2) : (2, 4@laneid, 4, 1@laneid, 1)]")
    assert dict(to_linear(layout, (16, 16)).bases) == {
        "laneid": ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)),
        "m": ((0, 1), (8, 0), (0, 8)),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("S[(128, 112) : (1@TLane, 1@TCol)]", "powers of two"),
        ("S[4 : 3]", "powers of two"),
        ("S[4 : 1] + 1", "offset"),
        ("S[(4, 4) : (2, 1)]", "share bit"),
        ("S[(4, 16) : (32@TLane, 1@TLane)]", "bit 4 of TLane holds nothing"),
        ("ComposeLayout(0, 2, 2, S[8 : 1], False)", "beyond its tile"),
    ],
)
def test_what_a_linear_layout_cannot_say(text, says):
    with pytest.raises(LayoutError, match=f"E0407.*{says}"):
        to_linear(parse_layout(text))
