"""CuTe layouts: evaluation, text, and the way to and from the notation, held to CUTLASS's own pycute."""

import itertools
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.layout.atoms import accumulator
from drywell.layout.cute import CuteLayout, from_cute, parse_cute, size, tmem_fields, to_cute
from drywell.layout.error import LayoutError
from drywell.layout.named import Iter, TileLayout, evaluate, parse_layout
from drywell.layout.named_algebra import canonicalize, same_map
from drywell.layout.swizzle import Swizzle

QUICK = settings(max_examples=150, deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def pycute() -> ModuleType:
    module = pytest.importorskip("pycute", reason="pip install --no-deps nvidia-cutlass (make test does)")
    if not hasattr(module, "ComposedLayout"):
        pytest.skip("another package is called pycute here: pip install --no-deps nvidia-cutlass")
    return module


def modes(depth=2):
    leaf = st.tuples(st.integers(1, 4), st.integers(0, 9))
    if depth == 0:
        return leaf
    nested = st.lists(modes(depth - 1), min_size=1, max_size=3).map(
        lambda parts: (tuple(p[0] for p in parts), tuple(p[1] for p in parts))
    )
    return st.one_of(leaf, nested)


swizzles = st.one_of(
    st.none(),
    st.builds(
        lambda bits, base, more, is_inner: Swizzle(bits, base, bits + more if is_inner else -(bits + more)),
        st.integers(1, 3),
        st.integers(0, 3),
        st.integers(0, 2),
        st.booleans(),
    ),
)
layouts = st.builds(
    lambda mode, offset, swizzle: CuteLayout(mode[0], mode[1], offset, swizzle),
    modes(),
    st.integers(0, 40),
    swizzles,
)


def theirs(pycute, layout):
    """The same layout as pycute has it; it knows no offset without a swizzle."""
    plain = pycute.Layout(layout.shape, layout.stride)
    if layout.swizzle is None:
        return plain
    s = layout.swizzle
    return pycute.ComposedLayout(pycute.Swizzle(s.num_bits, s.base, s.shift), layout.offset, plain)


@QUICK
@given(layouts)
def test_a_flat_index_goes_where_pycute_sends_it(pycute, layout):
    reference = theirs(pycute, layout)
    extra = 0 if layout.swizzle else layout.offset
    for k in range(size(layout.shape)):
        expected = reference(k) + extra
        assert layout(k) == expected


@QUICK
@given(layouts)
def test_a_coordinate_goes_where_pycute_sends_it(pycute, layout):
    reference = theirs(pycute, layout)
    extra = 0 if layout.swizzle else layout.offset
    for coordinate in itertools.product(*(range(n) for n in layout.extents)):
        if len(coordinate) == 1:
            continue  # one number for all modes: the flat index
        assert layout(*coordinate) == reference(*coordinate) + extra


@QUICK
@given(layouts)
def test_printing_and_parsing_are_inverse(layout):
    assert parse_cute(str(layout)) == layout


def test_the_spellings_of_cutlass_are_read():
    expected = CuteLayout(((8, 2), 64), ((1, 512), 8), 0, Swizzle(3, 4, 3))
    for text in (
        "Swizzle<3,4,3> o ((8,2),64):((1,512),8)",
        "Sw<3,4,3> o 0 o ((_8,_2),_64):((_1,_512),_8)",
        "S<3,4,3> o ( (8, 2), 64 ) : ( (1, 512), 8 )",
    ):
        assert parse_cute(text) == expected
    assert str(parse_cute("5 o 8:3")) == "5 o 8:3"
    assert parse_cute("(4,):(2,)").extents == (4,)


@pytest.mark.parametrize(
    ("text", "code", "column", "says"),
    [
        ("(8,64)", "E0401", 7, "':' and the strides"),
        ("(8,64:(64,1)", "E0401", 6, "',' or ')'"),
        ("(8,x):(1,1)", "E0401", 4, "a number or one of"),
        ("8:1 9", "E0401", 5, "nothing was needed"),
        (":1", "E0401", 1, "found ':'"),
        ("", "E0401", 1, "found the end"),
        ("(8,64):1", "E0403", 0, "not nested alike"),
        ("(8,0):(1,1)", "E0404", 0, "extent 0"),
    ],
)
def test_what_cannot_be_read_is_shown_with_a_caret(text, code, column, says):
    with pytest.raises(LayoutError) as caught:
        parse_cute(text)
    assert (caught.value.code, caught.value.column) == (code, column)
    assert says in str(caught.value)


@QUICK
@given(layouts)
def test_the_notation_has_the_same_coordinates(layout):
    named = from_cute(layout)
    where = evaluate(named, layout.extents)["m"]
    for coordinate in itertools.product(*(range(n) for n in layout.extents)):
        assert where[coordinate] == layout(*coordinate)


def tiles(*axes):
    iters = st.builds(Iter, st.integers(1, 4), st.integers(0, 9), st.sampled_from(axes))
    offsets = st.dictionaries(st.sampled_from(axes), st.integers(1, 9), max_size=2)
    return st.builds(
        TileLayout,
        st.lists(iters, min_size=1, max_size=4).map(tuple),
        st.just(()),
        offsets.map(lambda d: tuple(sorted(d.items()))),
    )


@QUICK
@given(tiles("TLane", "TCol"), st.sampled_from((8, 16, 32)))
def test_there_and_back_is_the_same_map(layout, bits):
    weights = tmem_fields(bits)
    assert same_map(from_cute(to_cute(layout, weights), weights), layout)


@QUICK
@given(tiles("m"))
def test_fusing_iters_is_the_coalescing_of_cute_in_the_other_order(pycute, layout):
    shape, stride = zip(*((it.extent, it.stride) for it in reversed(layout.shard)), strict=True)
    theirs = pycute.coalesce(pycute.Layout(shape, stride))
    flat = [part if isinstance(part, tuple) else (part,) for part in (theirs.shape, theirs.stride)]
    expected = [(n, s) for n, s in zip(*flat, strict=True) if n > 1]
    fused = reversed(canonicalize(layout).shard)
    assert [(it.extent, it.stride) for it in fused if it.extent > 1] == expected


def test_a_dimension_of_several_iters_is_a_nested_mode():
    acc = accumulator("F", N=8)
    cute = to_cute(acc.layout, tmem_fields(), acc.shape)
    assert str(cute) == "((16,4),8):((65536,2097152),1)"
    where = evaluate(acc.layout, acc.shape)
    for row, col in itertools.product(range(64), range(8)):
        assert cute(row, col) == int(where["TLane"][row, col]) << 16 | int(where["TCol"][row, col])
    assert str(to_cute(parse_layout("S[(4, 2) : (1, 8)]"), shape=(1, 8))) == "(1,(2,4)):(0,(8,1))"
    assert str(to_cute(parse_layout("S[8 : 1]"), shape=(8,))) == "8:1"


@pytest.mark.parametrize(
    ("text", "weights", "says"),
    [
        ("(128,64):(65537,1)", tmem_fields(), "moves along more than one axis"),
        ("Swizzle<3,4,3> o (128,64):(65536,1)", tmem_fields(), "acts on one coordinate"),
        ("Swizzle<3,4,2> o (8,64):(64,1)", None, "mixes bits with themselves"),
    ],
)
def test_what_the_notation_cannot_say(text, weights, says):
    with pytest.raises(LayoutError, match=f"E0407.*{says}"):
        from_cute(parse_cute(text), weights)
