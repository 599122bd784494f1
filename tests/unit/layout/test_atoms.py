"""Named layouts: the forms of the literature, and the tables of the machine, cell by cell."""

import math

import numpy as np
import pytest

from drywell.layout.accumulator import LAYOUTS
from drywell.layout.atoms import (
    accumulator,
    copied,
    fragment,
    read_layout,
    scale_factors,
    smem_matrix,
    tmem_operand,
)
from drywell.layout.cp import CP_SHAPES, destination_lanes
from drywell.layout.descriptor import SmemDescriptor
from drywell.layout.error import LayoutError
from drywell.layout.fragment import NUMS, SHAPES, matrix_fragment, num_fits_shape
from drywell.layout.fragment import fragment as cells_of
from drywell.layout.named import all_places, coordinates, evaluate, parse_layout
from drywell.layout.named_algebra import same_map, slice_layout
from drywell.layout.operand import smem_offsets
from drywell.layout.scale import scale_cells, split_scale_cells

LITERATURE = [
    (accumulator("A", M=128, N=256), "S[(128, 256) : (1@TLane, 1@TCol)]"),
    (accumulator("F", N=64), "S[(4, 16, 64) : (32@TLane, 1@TLane, 1@TCol)]"),
    (accumulator("B", N=128), "S[(64, 2, 64) : (1@TLane, 64@TLane, 1@TCol)]"),
    (accumulator("E", N=128), "S[(64, 2, 64) : (1@TLane, 64@TLane, 1@TCol)]"),
    (accumulator("G", N=64), "S[(32, 4, 16) : (1@TLane, 32@TLane, 1@TCol)]"),
    (copied("32x128b", "warpx4"), "S[(32, 4) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]"),
    (copied("64x128b", "warpx2::02_13"), "S[(64, 4) : (1@TLane, 1@TCol)] + R[2 : 64@TLane]"),
    (copied("64x128b", "warpx2::01_23"), "S[(2, 32, 4) : (64@TLane, 1@TLane, 1@TCol)] + R[2 : 32@TLane]"),
    (copied("4x256b"), "S[(4, 8) : (32@TLane, 1@TCol)]"),
    (scale_factors(128, 4), "S[(4, 32, 4) : (4@TCol, 1@TLane, 1@TCol)] + R[4 : 32@TLane]"),
    (fragment("16x64b", 4, warps=4), "S[(4, 2, 8, 4, 2) : (1@wid_in_wg, 1@laneid, 4@laneid, 1, 2@laneid)]"),
    (fragment("16x128b", 4, warps=4), "S[(4, 2, 8, 4, 4) : (1@wid_in_wg, 1, 4@laneid, 2, 1@laneid)]"),
    (fragment("16x256b", 4, warps=4), "S[(4, 2, 8, 4, 4, 2) : (1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)]"),
    (fragment("32x32b", 8, warps=4), "S[(4, 32, 8) : (1@wid_in_wg, 1@laneid, 1)]"),
    # 128 rows: the lower 16 lanes first, then a second issue
    (
        fragment("16x256b", 2, warps=4, issues=2),
        "S[(4, 2, 2, 8, 2, 4, 2) : (1@wid_in_wg, 8, 2, 4@laneid, 4, 1@laneid, 1)]",
    ),
    # 16-bit data: one more iter of 2, the other register strides doubled
    (
        fragment("16x64b", 2, warps=4, packed=True),
        "S[(4, 2, 8, 2, 2, 2) : (1@wid_in_wg, 1@laneid, 4@laneid, 2, 2@laneid, 1)]",
    ),
    (smem_matrix("128B", "K"), "ComposeLayout(3, 3, 3, TileLayout(S[(8, 64) : (64, 1)]))"),
    (smem_matrix("128B", "K", element_bits=8), "ComposeLayout(4, 3, 3, TileLayout(S[(8, 128) : (128, 1)]))"),
    (smem_matrix("64B", "K"), "ComposeLayout(3, 2, 3, TileLayout(S[(8, 32) : (32, 1)]))"),
    (smem_matrix("32B", "K"), "ComposeLayout(3, 1, 3, TileLayout(S[(8, 16) : (16, 1)]))"),
    (smem_matrix("none", "K"), "S[(8, 8) : (8, 1)]"),
    (smem_matrix("128B", "MN"), "ComposeLayout(3, 3, 3, TileLayout(S[(64, 8) : (1, 64)]))"),
]


@pytest.mark.parametrize(("atom", "text"), LITERATURE)
def test_a_named_layout_is_printed_as_the_literature_has_it(atom, text):
    assert str(atom) == text
    assert math.prod(atom.shape) == parse_layout(text).size


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_fragment_is_what_the_machine_reads(shape, packed):
    for num in (n for n in NUMS if n <= 16 and num_fits_shape(shape, n)):
        atom = fragment(shape, num, packed=packed)
        f = cells_of(shape, num, packed, (2 if packed else 1) * num if shape == "16x32bx2" else 0)
        where = evaluate(atom.layout, atom.shape)
        for thread in range(32):
            for register in range(f.num_registers):
                lane, halves = int(f.lane[thread, register]), [int(f.col[thread, register])]
                if f.col_high is not None:
                    halves.append(int(f.col_high[thread, register]))
                for half, col in enumerate(halves):
                    register_there = int(where["m"][lane, col]) if "m" in where else 0
                    assert int(where["laneid"][lane, col]) == thread
                    assert register_there == register * len(halves) + half
        assert atom.shape[0] * atom.shape[1] == f.lane.size * (2 if packed else 1)


def test_two_windows_one_below_the_other():
    below = fragment("16x32bx2", 4, split=16 << 16)
    assert str(below) == "S[(32, 4) : (1@laneid, 1)]"
    with pytest.raises(LayoutError, match="E0411.*64 columns apart make no matrix"):
        fragment("16x32bx2", 4, split=64)
    with pytest.raises(LayoutError, match="E0411"):
        fragment("16x32bx2", 4, split=-16)


def test_the_matrices_of_ldmatrix():
    for num in (1, 2, 4):
        atom, f = fragment("m8n8", num), matrix_fragment(num)
        where = {axis: array.reshape(num, 8, 8) for axis, array in evaluate(atom.layout, atom.shape).items()}
        for thread in range(32):
            for register in range(num):
                for half in range(2):
                    at = register, int(f.row[thread, register, half]), int(f.col[thread, register, half])
                    assert (int(where["laneid"][at]), int(where["m"][at])) == (thread, 2 * register + half)
    assert str(fragment("m8n8", 1)) == "S[(8, 4, 2) : (4@laneid, 1@laneid, 1)]"


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_an_accumulator_is_what_the_machine_writes(name):
    for M in {LAYOUTS[name].num_rows, LAYOUTS[name].M}:
        atom, cells = accumulator(name, M=M, N=64), LAYOUTS[name].cells(64)
        where = evaluate(atom.layout, atom.shape)
        assert (where["TLane"] == cells.lane[:M]).all()
        assert (where["TCol"] == cells.col[:M]).all()
        assert (where.get("cbx", np.zeros((M, 64))) == cells.cta[:M]).all()


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_a_of_tensor_memory_lies_as_the_rows_of_d(name):
    atom = tmem_operand(name, 32)
    lanes = LAYOUTS[name].a_lanes()[1][:, : LAYOUTS[name].num_rows]
    for row in range(atom.shape[0]):
        places = coordinates(atom.layout, (row, 5), atom.shape)
        assert sorted(p["TLane"] for p in places) == sorted(lanes[:, row].tolist())
        assert {p["TCol"] for p in places} == {5}


@pytest.mark.parametrize(
    ("rows", "scales", "first", "is_split"),
    [(128, 4, 0, False), (128, 1, 2, False), (256, 2, 2, False), (32, 4, 0, False), (64, 1, 3, False),
     (128, 8, 0, False), (256, 4, 0, True), (128, 2, 0, True)],
)  # fmt: skip
def test_scale_factors_lie_where_the_multiplication_reads_them(rows, scales, first, is_split):
    atom = scale_factors(rows, scales, first=first, is_split=is_split)
    cells = (split_scale_cells if is_split else scale_cells)(rows, scales, first)
    places = {axis: array.reshape(rows, scales, -1) for axis, array in all_places(atom.layout).items()}
    assert (np.sort(places["TLane"]) == np.sort(np.moveaxis(cells.lane, 0, 2))).all()
    assert (places["TCol"][:, :, 0] == 4 * cells.col + cells.byte).all()


@pytest.mark.parametrize("shape", sorted(CP_SHAPES))
def test_copied_rows_lie_where_cp_puts_them(shape):
    atom, lanes = copied(*shape), destination_lanes(*shape)
    for row in range(atom.shape[0]):
        for word in range(atom.shape[1]):
            places = coordinates(atom.layout, (row, word), atom.shape)
            assert sorted(p["TLane"] for p in places) == sorted(lanes[:, row].tolist())
            assert {p["TCol"] for p in places} == {word}


CODES = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("swizzle", sorted(set(CODES) - {"128B_ATOM_32B"}))
def test_a_k_major_tile_is_what_a_descriptor_walks(swizzle, bits):
    atom = smem_matrix(swizzle, "K", 16, element_bits=bits)
    span = 16 if swizzle == "none" else int(swizzle.removesuffix("B"))
    walk = SmemDescriptor(0, 128, 8 * span, CODES[swizzle])
    expected = smem_offsets(walk, *atom.shape, bits // 8)
    assert (evaluate(atom.layout, atom.shape)["m"] * (bits // 8) == expected).all()


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("swizzle", sorted(CODES))
def test_a_tile_of_rows_is_what_a_descriptor_walks(swizzle, bits):
    atom = smem_matrix(swizzle, "MN", element_bits=bits)
    assert atom.shape[1] == (4 if swizzle == "128B_ATOM_32B" else 8)
    two = smem_matrix(swizzle, "MN", 2 * atom.shape[0], 2 * atom.shape[1], element_bits=bits)
    size, (rows, cols) = bits // 8, two.shape
    atom_bytes = atom.shape[0] * atom.shape[1] * size
    walk = SmemDescriptor(0, 2 * atom_bytes, atom_bytes, CODES[swizzle])
    expected = smem_offsets(walk, rows, cols, size, is_mn_major=True)
    found = evaluate(two.layout, two.shape)["m"]
    assert (found * size == expected).all()
    assert sorted(found.reshape(-1).tolist()) == list(range(rows * cols))


def test_a_tile_longer_than_its_atom_goes_on_in_the_next_box():
    atom = smem_matrix("128B", "K", 64, 128)
    second = slice_layout(atom.layout, (64, 128), ((0, 64), (64, 128)))
    first = smem_matrix("128B", "K", 64, 64)
    moved = evaluate(second, (64, 64))["m"] - 64 * 64
    assert (moved == evaluate(first.layout, (64, 64))["m"]).all()


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        (lambda: fragment("16x256b", 64), "E0411", "'.x64' does not go"),
        (lambda: fragment("8x8", 1), "E0411", "no tcgen05.ld/st shape"),
        (lambda: fragment("32x32b", 1, issues=2), "E0411", "may be issued twice"),
        (lambda: fragment("32x32b", 1, warps=5), "E0411", "warps are 1 to 4"),
        (lambda: fragment("m8n8", 3), "E0412", "'.x3'"),
        (lambda: accumulator("H"), "E0433", "they are A to G"),
        (lambda: accumulator("A", M=64), "E0433", "128 .a CTA's part. or 256"),
        (lambda: accumulator("D", M=64), "E0433", "M is 128"),
        (lambda: accumulator("G", N=30), "E0433", "a multiple of 4, at most 2048"),
        (lambda: scale_factors(100, 4), "E0408", "no form"),
        (lambda: scale_factors(128, 6), "E0408", "no form"),  # K = 96: a word and a half
        (lambda: smem_matrix("128B", "K", 12), "E0422", "8 rows x 64 of K"),
        (lambda: smem_matrix("96B", "K"), "E0421", "swizzles are none"),
        (lambda: smem_matrix("128B", "M"), "E0421", "majors K and MN"),
        (lambda: copied("32x128b"), "E0440", "warpx4"),
    ],
)
def test_what_does_not_exist_is_refused_with_the_remedy(call, code, says):
    with pytest.raises(LayoutError, match=says) as caught:
        call()
    assert caught.value.code == code


def test_a_layout_is_read_however_it_is_written():
    assert read_layout('accumulator("F", N=64)') == accumulator("F", N=64)
    assert read_layout(' smem_matrix(swizzle="128B", major="K") ') == smem_matrix("128B", "K")
    assert read_layout("S[(4,2):(1@TLane,TCol)]").layout == parse_layout("S[(4, 2) : (1@TLane, 1@TCol)]")
    cute = read_layout("((16,4),64):((131072,4194304),1)", tmem_bits=16)
    assert same_map(cute.layout, accumulator("F", N=64).layout)
    assert cute.shape == (64, 64)
    assert cute.element_bits == 16


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accumulator(F)", "plain values"),
        ("accumulator('F'", "plain values"),
        ("accumulator('F', columns=3)", "unexpected keyword"),
        ("accumulator(3)", "no attribute 'upper'"),
        ("S[(4, 2) : 1]", "1 strides for 2 extents"),
        ("(4,2):(1)", "not nested alike"),
        ("accumulators('F')", "did you mean 'accumulator'"),
        ("foo(3)", "they are fragment, "),
    ],
)
def test_what_cannot_be_read_says_so(text, says):
    with pytest.raises(LayoutError, match=says):
        read_layout(text)
