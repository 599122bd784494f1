"""`tcgen05.ld/st` fragments against the closed forms of the manual's tables, scalar and element by
element.
"""

import pytest

from drywell.layout.error import LayoutError
from drywell.layout.fragment import (
    SHAPES,
    byte_matrix_fragment,
    cols_touched,
    fragment,
    matrix_fragment,
    mma_accumulator,
    mma_factor,
    mma_m16n8_accumulator,
    mma_quad_pair_accumulator,
    mma_quad_pair_factor,
    num_fits_shape,
    num_registers,
    row_address_thread,
    split_window,
)

CLOSED_FORMS = {
    "32x32b": (lambda t, r: t, lambda t, r: r),
    "16x64b": (lambda t, r: t // 4 + 8 * (t % 2), lambda t, r: (t // 2) % 2 + 2 * r),
    "16x128b": (lambda t, r: t // 4 + 8 * (r % 2), lambda t, r: t % 4 + 4 * (r // 2)),
    "16x256b": (lambda t, r: t // 4 + 8 * ((r // 2) % 2), lambda t, r: r % 2 + 2 * (t % 4) + 8 * (r // 4)),
    "16x32bx2": (lambda t, r: t % 16, lambda t, r: r),
}
# registers per thread, from the manual's table; None: not a form
REGISTERS = {
    1: (1, 2, 4),
    2: (2, 4, 8),
    4: (4, 8, 16),
    8: (8, 16, 32),
    16: (16, 32, 64),
    32: (32, 64, 128),
    64: (64, 128, None),
    128: (128, None, None),
}
COLUMN_OF = {"32x32b": 0, "16x64b": 0, "16x32bx2": 0, "16x128b": 1, "16x256b": 2}
COLS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}
LEGAL = [(s, n) for s in SHAPES for n in REGISTERS if REGISTERS[n][COLUMN_OF[s]] is not None]


def cell(shape, num, thread, register, **kwargs):
    f = fragment(shape, num, **kwargs)
    return int(f.lane[thread, register]), int(f.col[thread, register])


def test_the_legal_combinations_are_those_of_the_table():
    assert sorted(LEGAL) == sorted(
        (s, n) for s in SHAPES for n in (0, *REGISTERS, 3, 256) if num_fits_shape(s, n)
    )
    assert len(LEGAL) * 4 == 148  # ld and st, plain and packed


@pytest.mark.parametrize(("shape", "num"), LEGAL)
def test_register_counts_and_columns_are_those_of_the_tables(shape, num):
    assert num_registers(shape, num) == REGISTERS[num][COLUMN_OF[shape]]
    assert cols_touched(shape, num) == COLS[shape] * num
    assert cols_touched(shape, num, packed=True) == 2 * COLS[shape] * num
    assert fragment(shape, num).lane.shape == (32, num_registers(shape, num))


@pytest.mark.parametrize(("shape", "num"), LEGAL)
@pytest.mark.parametrize("packed", [False, True])
def test_every_register_lies_where_the_closed_form_says(shape, num, packed):
    row, col = CLOSED_FORMS[shape]
    split = 3 * num + 5 if shape == "16x32bx2" else 0
    f = fragment(shape, num, packed, split)
    for t in range(32):
        for r in range(f.num_registers):
            window = split if t >= 16 else 0
            expected = col(t, r) * (2 if packed else 1) + window
            assert (int(f.lane[t, r]), int(f.col[t, r])) == (row(t, r), expected)
            if packed:
                assert int(f.col_high[t, r]) == expected + 1


@pytest.mark.parametrize(("shape", "num"), LEGAL)
@pytest.mark.parametrize("packed", [False, True])
def test_registers_and_cells_of_the_windows_are_in_bijection(shape, num, packed):
    split = cols_touched(shape, num, packed)  # the two windows side by side
    f = fragment(shape, num, packed, split)
    pairs = list(zip(f.lane.ravel().tolist(), f.col.ravel().tolist(), strict=True))
    if packed:
        pairs += zip(f.lane.ravel().tolist(), f.col_high.ravel().tolist(), strict=True)
    expected = {
        (w.lane + i, w.col + j) for w in f.windows for i in range(w.num_lanes) for j in range(w.num_cols)
    }
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected
    assert not f.windows_overlap


def test_golden_cells():
    assert (32 + cell("32x32b", 4, 5, 3)[0], 8 + cell("32x32b", 4, 5, 3)[1]) == (37, 11)
    assert cell("16x64b", 2, 6, 1) == (1, 3)
    assert cell("16x64b", 1, 5, 0) == (9, 0)
    assert cell("16x64b", 4, 31, 3) == (15, 7)
    assert [cell("16x128b", 1, 31, r) for r in (0, 1)] == [(7, 3), (15, 3)]
    assert cell("16x128b", 4, 9, 5) == (10, 9)
    assert [cell("16x256b", 2, 9, r) for r in range(8)] == [
        (2, 2),
        (2, 3),
        (10, 2),
        (10, 3),
        (2, 10),
        (2, 11),
        (10, 10),
        (10, 11),
    ]
    assert [cell("16x32bx2", 2, t, 1, split_offset=64) for t in (3, 19)] == [(3, 1), (3, 65)]
    assert cell("16x32bx2", 1, 19, 0, split_offset=1048576) == (19, 0)


def test_pack_takes_the_low_halves_of_neighbouring_columns():
    cells = {(5, 0): 0xAAAA1234, (5, 1): 0xBBBB5678}
    f = fragment("32x32b", 1, packed=True)
    low = cells[int(f.lane[5, 0]), int(f.col[5, 0])] & 0xFFFF
    high = cells[int(f.lane[5, 0]), int(f.col_high[5, 0])] & 0xFFFF
    assert high << 16 | low == 0x56781234
    f = fragment("16x256b", 1, packed=True)
    assert (int(f.lane[9, 3]), int(f.col[9, 3]), int(f.col_high[9, 3])) == (10, 6, 7)


def test_golden_sizes():
    assert [num_registers(*form) for form in (("16x128b", 64), ("16x256b", 32), ("32x32b", 128))] == [128] * 3
    assert (cols_touched("16x256b", 8), cols_touched("16x256b", 8, packed=True)) == (64, 128)
    with pytest.raises(LayoutError, match=r"E0411.*x64.*16x256b"):
        fragment("16x256b", 64)
    with pytest.raises(LayoutError, match="no tcgen05.ld/st shape"):
        fragment("16x512b", 1)


@pytest.mark.parametrize("split", [0, 1, 512, 1024, 65535, 65536, 1048576, -1, -16, 16 << 16 | 8, 2**31 - 1])
@pytest.mark.parametrize("base", [(0, 0), (3, 1), (32, 200)])
def test_a_split_offset_is_a_32_bit_add_to_the_address(split, base):
    lane, col = split_window(split)
    word = ((base[0] << 16 | base[1]) + split) & 0xFFFFFFFF
    assert ((base[0] + lane << 16) + base[1] + col) & 0xFFFFFFFF == word


def test_overlapping_windows_are_told():
    assert fragment("16x32bx2", 4, split_offset=3).windows_overlap
    assert not fragment("16x32bx2", 4, split_offset=4).windows_overlap
    assert not fragment("16x32bx2", 4, split_offset=16 << 16).windows_overlap


def test_index_arrays_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        fragment("32x32b", 1).lane[0, 0] = 1


@pytest.mark.parametrize("num", [1, 2, 4])
def test_ldmatrix_fragment_is_a_bijection_and_trans_is_its_transpose(num):
    plain, trans = matrix_fragment(num), matrix_fragment(num, trans=True)
    for matrix in range(num):
        cells = set()
        for t in range(32):
            for half in range(2):
                row, col = int(plain.row[t, matrix, half]), int(plain.col[t, matrix, half])
                assert (row, col) == (t // 4, 2 * (t % 4) + half)
                assert (int(trans.row[t, matrix, half]), int(trans.col[t, matrix, half])) == (col, row)
                cells.add((row, col))
        assert len(cells) == 64
        assert [row_address_thread(matrix, row) for row in range(8)] == list(
            range(8 * matrix, 8 * matrix + 8)
        )


def test_ldmatrix_has_no_x8():
    with pytest.raises(LayoutError, match=r"E0412.*x8"):
        matrix_fragment(8)


def test_one_epilogue_source_serves_mma_sync_and_tcgen05_ld_16x256b():
    row, col = mma_m16n8_accumulator()
    cells = {(int(row[t, i]), int(col[t, i])) for t in range(32) for i in range(4)}
    assert cells == {(i, j) for i in range(16) for j in range(8)}
    f = fragment("16x256b", 4)
    for q in range(4):
        assert (f.lane[:, 4 * q : 4 * q + 4] == row).all()
        assert (f.col[:, 4 * q : 4 * q + 4] == col + 8 * q).all()


DEPTHS = {64: (4, 8, 16), 32: (4, 8), 16: (8, 16), 8: (16, 32), 4: (32, 64)}
FACTORS = [(rows, K, bits) for rows in (8, 16) for bits, depths in DEPTHS.items() for K in depths]


def elements_of(fragment_):
    return sorted(zip(fragment_.row.ravel().tolist(), fragment_.col.ravel().tolist(), strict=True))


@pytest.mark.parametrize(("rows", "K", "bits"), FACTORS)
def test_a_factor_of_mma_is_held_once_and_whole(rows, K, bits):
    f = mma_factor(rows, K, bits)
    assert elements_of(f) == [(r, k) for r in range(rows) for k in range(K)]
    assert f.row.shape == (32, rows * K * bits // max(32, bits) // 32, max(1, 32 // bits))


@pytest.mark.parametrize(("M", "bits"), [(8, 32), (16, 32), (8, 64), (16, 64), (16, 16)])
def test_an_accumulator_of_mma_is_held_once_and_whole(M, bits):
    assert elements_of(mma_accumulator(M, bits)) == [(r, c) for r in range(M) for c in range(8)]


def test_the_16_by_8_accumulator_is_the_one_that_tcgen05_ld_gives():
    row, col = mma_m16n8_accumulator()
    assert mma_accumulator(16, 32).row[..., 0].tolist() == row.tolist()
    assert mma_accumulator(16, 32).col[..., 0].tolist() == col.tolist()


@pytest.mark.parametrize("fragment_", [mma_quad_pair_factor(True), mma_quad_pair_factor(False)])
def test_four_quad_pairs_hold_four_factors(fragment_):
    for n in range(4):
        own = fragment_.matrix == n
        assert sorted(own.nonzero()[0].tolist()) == [4 * n + t + h for h in (0, 16) for t in range(4)]
        places = zip(fragment_.row[own].ravel().tolist(), fragment_.col[own].ravel().tolist(), strict=True)
        assert sorted(places) == [(r, k) for r in range(8) for k in range(4)]


@pytest.mark.parametrize("bits", [16, 32])
def test_four_quad_pairs_hold_four_accumulators(bits):
    f = mma_quad_pair_accumulator(bits)
    for n in range(4):
        own = f.matrix == n
        places = zip(f.row[own].ravel().tolist(), f.col[own].ravel().tolist(), strict=True)
        assert sorted(places) == [(r, c) for r in range(8) for c in range(8)]


@pytest.mark.parametrize(
    ("num", "is_load", "rows"),
    [
        (2, True, 16),
        (4, True, 32),
        (1, False, 8),
        (2, False, 16),
        (4, False, 32),
    ],
)
def test_a_byte_matrix_is_held_once_and_whole(num, is_load, rows):
    found = elements_of(byte_matrix_fragment(num, is_load))
    assert found == [(r, c) for r in range(rows) for c in range(16)]
