"""Scale factors and sparsity metadata: golden places, scalar formulas, and the way from memory to
TMEM.
"""

import pytest

from drywell.layout.cp import cp_shape, destination_lanes, source_chunks
from drywell.layout.descriptor import SmemDescriptor
from drywell.layout.error import LayoutError
from drywell.layout.scale import (
    SCALE_VECS,
    metadata_cells,
    num_codes,
    num_scale_blocks,
    scale_block_k,
    scale_cells,
    scale_offset,
    scale_offsets,
    split_scale_cells,
)


def place(cells, row, block):
    lanes = [int(lane) for lane in cells.lane[:, row, block]]
    return lanes, int(cells.col[row, block]), int(cells.byte[row, block])


def test_golden_scale_places():
    assert place(scale_cells(128, 2, 2), 77, 1) == ([13, 45, 77, 109], 2, 3)
    assert place(scale_cells(128, 6, 2), 40, 5) == ([8, 40, 72, 104], 5, 3)
    assert place(scale_cells(256, 3, 3), 200, 2) == ([8, 40, 72, 104], 14, 1)


@pytest.mark.parametrize("rows", [64, 128, 192, 256])
@pytest.mark.parametrize(("blocks", "scale_id"), [(1, 3), (2, 2), (4, 0), (3, 3), (6, 2)])
def test_scales_are_the_formula_and_never_share_a_byte(rows, blocks, scale_id):
    cells = scale_cells(rows, blocks, scale_id)
    seen = set()
    for row in range(rows):
        for block in range(blocks):
            byte = scale_id + block
            col = row // 32 + (byte // 4) * 4 * -(-rows // 128)
            expected = ([row % 32 + 32 * p for p in range(4)], col, byte % 4)
            assert place(cells, row, block) == expected
            seen.add((expected[0][0], col, byte % 4))
    assert len(seen) == rows * blocks


def test_sfb_of_a_pair_with_m_128_is_split_as_d_is():
    N = 128
    cells = split_scale_cells(N, 2, 2)
    for n in range(N):
        half, rest = n // 64, n % 64
        expected = ([64 * half + rest % 32 + 32 * p for p in (0, 1)], rest // 32, 3)
        assert place(cells, n, 1) == expected


def test_golden_scale_offsets_in_memory():
    assert scale_offset(77, 6, 8) == 730
    assert scale_offset(200, 1, 8) == 1161
    assert scale_offset(77, 2, 4) == 218


@pytest.mark.parametrize(("rows", "scales"), [(128, 4), (256, 8), (384, 12)])
def test_memory_layout_covers_its_bytes_once(rows, scales):
    offsets = scale_offsets(rows, scales)
    assert sorted(offsets.ravel().tolist()) == list(range(rows * scales))
    assert all(
        offsets[r, s] == scale_offset(r, s, scales) for r in (0, 31, 32, rows - 1) for s in range(scales)
    )


def test_one_warpx4_copy_takes_a_memory_block_to_where_the_mma_reads_it():
    desc = SmemDescriptor(0x3000, 16, 128)
    chunks = source_chunks(desc, "32x128b", "warpx4")
    lanes = destination_lanes("32x128b", "warpx4")
    assert cp_shape("32x128b", "warpx4").num_cols == 4
    cells = scale_cells(128, 4, 0)
    for row in range(128):
        for scale in range(4):
            source = 0x3000 + scale_offset(row, scale, 4)
            line = (source - 0x3000) // 16
            assert chunks[line, 0] == source - source % 16
            word, byte = divmod(source % 16, 4)
            assert place(cells, row, scale) == ([int(lane) for lane in lanes[:, line]], word, byte)


def test_blocks_per_instruction():
    assert [num_scale_blocks(v) for v in ("1X", "2X", "4X")] == [1, 2, 4]
    assert [num_scale_blocks(v, is_k96=True) for v in ("2X", "4X")] == [3, 6]
    dense = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
    expected = {"1X": 32, "2X": 32, "4X": 16}
    for (kind, _), vec in SCALE_VECS.items():
        assert scale_block_k(dense[kind], vec) == expected[vec]
        assert scale_block_k(2 * dense[kind], vec) == 2 * expected[vec]
    assert [scale_block_k(96, v, is_k96=True) for v in ("2X", "4X")] == [32, 16]
    assert sorted(q for k, q in SCALE_VECS if k == "mxf4nvf4") == ["2X", "4X", "block16", "block32"]


def code_place(layout, kind, m, code, selector=0):
    found = metadata_cells(layout, kind, selector)
    c = found.cells
    return int(c.lane[0, m, code]), int(c.col[0, m, code]), int(found.nibble[m, code])


def test_golden_metadata_places():
    assert code_place("D", "f16", 27, 6, selector=1) == (27, 1, 6)
    assert code_place("D", "f8f6f4", 27, 11) == (27, 1, 3)


@pytest.mark.parametrize("layout", ["A", "C", "D", "E", "F", "G"])
@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4", "i8", "mxf4"])
def test_metadata_is_the_formula_and_codes_never_share_a_nibble(layout, kind):
    rows, total, step = {
        "A": (128, 256, 16),
        "C": (64, 128, 32),
        "D": (128, 128, 16),
        "E": (64, 64, 16),
        "F": (64, 64, 32),
        "G": (32, 32, 16),
    }[layout]
    found = metadata_cells(layout, kind)
    seen = set()
    for m in range(total):
        r = m % rows
        for code in range(num_codes(kind)):
            if kind in ("f16", "tf32"):
                expected = (step * (r // 16) + r % 8 + 8 * (code // 4), 0, 4 * ((r % 16) // 8) + code % 4)
            else:
                expected = (step * (r // 16) + r % 16, code // 8, code % 8)
            assert code_place(layout, kind, m, code) == expected
            assert int(found.cells.cta[0, m, code]) == m // rows
            seen.add((m // rows, *expected))
    assert len(seen) == total * num_codes(kind)


def test_copies_of_ws_metadata_and_the_dense_layout():
    assert metadata_cells("E", "f16").cells.lane[:, 3, 0].tolist() == [3, 67]
    assert metadata_cells("G", "f16").cells.lane[:, 3, 0].tolist() == [3, 35, 67, 99]
    with pytest.raises(LayoutError, match=r"(?s)E0434.*layout C"):
        metadata_cells("B", "f16")
