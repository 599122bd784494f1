"""Linear layouts: the way to and from the notation, by brute force over all places, and held to Triton's own
where Triton is installed.
"""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drywell.layout.atoms import accumulator, fragment, scale_factors, smem_matrix
from drywell.layout.error import LayoutError
from drywell.layout.fragment import SHAPES
from drywell.layout.linear import LinearLayout, from_linear, linear_layout, to_linear
from drywell.layout.named import ComposeLayout, Iter, TileLayout, all_places, coordinates, parse_layout
from drywell.layout.named_algebra import same_map

QUICK = settings(max_examples=100, deadline=None, derandomize=True)
AXES = ("laneid", "m", "TLane")


@st.composite
def linear(draw):
    """Bases in which every logical bit stands at one hardware bit, and some bits stand for nothing."""
    shape = tuple(1 << n for n in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))
    flats = [1 << k for k in range(int(math.log2(math.prod(shape))))]
    bits = draw(st.permutations(flats + [0] * draw(st.integers(0, 2))))
    cuts = sorted(draw(st.lists(st.integers(0, len(bits)), min_size=2, max_size=2)))
    parts = (bits[: cuts[0]], bits[cuts[0] : cuts[1]], bits[cuts[1] :])

    def unravel(flat):
        out = []
        for n in reversed(shape):
            flat, digit = divmod(flat, n)
            out.insert(0, digit)
        return tuple(out)

    return LinearLayout(shape, tuple((a, tuple(map(unravel, p))) for a, p in zip(AXES, parts, strict=True)))


def elements_by_place(layout, shape):
    """Every place, as its sorted non-zero coordinates, to the element there."""
    out = {}
    for index in itertools.product(*map(range, shape)):
        for place in coordinates(layout, index, shape):
            out[tuple(sorted((a, v) for a, v in place.items() if v))] = index
    return out


def brute_force(layout):
    """The same of bases, by XOR over the bits of every place."""
    out = {}
    for place in itertools.product(*(range(1 << len(steps)) for _, steps in layout.bases)):
        index = [0] * len(layout.shape)
        for number, (_, steps) in zip(place, layout.bases, strict=True):
            for bit, step in enumerate(steps):
                if number >> bit & 1:
                    index = [a ^ b for a, b in zip(index, step, strict=True)]
        named = zip((axis for axis, _ in layout.bases), place, strict=True)
        out[tuple(sorted((a, v) for a, v in named if v))] = tuple(index)
    return out


@QUICK
@given(linear())
def test_the_notation_puts_every_element_where_the_bases_find_it(layout):
    assert elements_by_place(from_linear(layout), layout.shape) == brute_force(layout)


@QUICK
@given(linear())
def test_there_and_back_finds_the_same_elements(layout):
    assert brute_force(to_linear(from_linear(layout), layout.shape)) == brute_force(layout)


NAMED = {
    "fragment": fragment("16x256b", 4, warps=4),
    "packed fragment": fragment("16x128b", 2, packed=True),
    "accumulator": accumulator("B", M=128, N=64),
    "scale factors": scale_factors(128, 4),
    "swizzled tile": smem_matrix("128B", "K", 16, 64),
    "tile of rows": smem_matrix("64B", "MN", 32, 16),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_layouts_have_bases_and_come_back(name):
    atom = NAMED[name]
    assert same_map(from_linear(to_linear(atom.layout, atom.shape)), atom.layout)


@pytest.mark.parametrize("shape", sorted(set(SHAPES) - {"16x32bx2"}))
def test_a_fragment_is_read_off_the_published_bases(shape):
    """tcgen05.ld, four repetitions: lane bits and register bits as Triton lists them."""
    steps = SHAPES[shape]
    more = [(0, steps.cols << k) for k in range(2)]
    layout = linear_layout(
        {"lane": steps.lane_steps, "register": [*steps.register_steps, *more]},
        (steps.num_rows, 4 * steps.cols),
    )
    assert from_linear(layout) == fragment(shape, 4).layout


def test_a_swizzle_is_found_in_the_sums():
    tile = smem_matrix("128B", "K", 8, 64, 16)
    bases = to_linear(tile.layout).bases
    assert dict(bases)["m"][6:] == ((1, 8), (2, 16), (4, 32))
    assert isinstance(tile.layout, ComposeLayout)
    assert from_linear(LinearLayout((8, 64), bases)) == tile.layout


@pytest.mark.parametrize(
    ("bases", "shape", "says"),
    [
        ({"lane": [[1]]}, (3,), "powers of two"),
        ({"lane": [[4]]}, (4,), "lies outside"),
        ({"lane": [[1]], "register": [[1]]}, (2,), "stand for the same"),
        ({"lane": [[1]]}, (4,), "has no place"),
        ({"lane": [[1], [3]]}, (4,), "no single swizzle"),
        ({"offset": [[1], [2], [7]]}, (8,), "no single swizzle"),
    ],
)
def test_what_the_notation_cannot_say(bases, shape, says):
    with pytest.raises(LayoutError, match=f"E0407.*{says}"):
        from_linear(linear_layout(bases, shape))


def test_triton_evaluates_the_bases_alike():
    native = pytest.importorskip("triton._C.libtriton", reason="triton is not installed").linear_layout
    for name, atom in NAMED.items():
        mine = to_linear(atom.layout, atom.shape)
        theirs = native.LinearLayout.from_bases(
            [(axis, [list(step) for step in steps]) for axis, steps in mine.bases],
            [f"dim{k}" for k in range(len(mine.shape))],
            list(mine.shape),
            True,
        )
        places = all_places(atom.layout)
        for element in range(0, atom.layout.size, 7):
            place = {axis: int(places[axis][element, -1]) for axis in places}
            expected = tuple(theirs.apply(place)[f"dim{k}"] for k in range(len(mine.shape)))
            assert mine(place) == expected, name


def test_unit_iters_have_no_bit():
    layout = TileLayout((Iter(1, 7, "TLane"), Iter(4, 1, "m")))
    assert dict(to_linear(layout).bases) == {"TLane": (), "m": ((0, 1), (0, 2))}
    assert str(from_linear(to_linear(parse_layout("S[1 : 1]")))) == "S[1 : 1]"
