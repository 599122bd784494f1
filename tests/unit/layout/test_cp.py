"""`tcgen05.cp`: destination maps, source walk, decompression; `tcgen05.shift`."""

import numpy as np
import pytest

from drywell.base.errors import UnsupportedError
from drywell.layout.cp import (
    CP_SHAPES,
    SHIFT_COLS,
    SHIFT_LANES,
    cp_shape,
    decompress,
    destination_lanes,
    shift_source_lane,
    source_chunks,
)
from drywell.layout.descriptor import SmemDescriptor
from drywell.layout.error import LayoutError
from drywell.layout.named import coordinates, parse_layout

LANES = {
    ("128x256b", ""): (lambda i: i, (0,)),
    ("128x128b", ""): (lambda i: i, (0,)),
    ("4x256b", ""): (lambda i: 32 * i, (0,)),
    ("64x128b", "warpx2::02_13"): (lambda i: i, (0, 64)),
    ("64x128b", "warpx2::01_23"): (lambda i: 64 * (i // 32) + i % 32, (0, 32)),
    ("32x128b", "warpx4"): (lambda i: i, (0, 32, 64, 96)),
}
NOTATION = {
    ("32x128b", "warpx4"): "S[(32, 4) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]",
    ("64x128b", "warpx2::02_13"): "S[(64, 4) : (1@TLane, 1@TCol)] + R[2 : 64@TLane]",
    ("64x128b", "warpx2::01_23"): "S[(2, 32, 4) : (64@TLane, 1@TLane, 1@TCol)] + R[2 : 32@TLane]",
    ("4x256b", ""): "S[(4, 8) : (32@TLane, 1@TCol)]",
}


def test_the_legal_pairs_are_those_of_the_table():
    assert set(CP_SHAPES) == set(LANES)
    with pytest.raises(
        LayoutError, match=r"(?s)E0440.*64x128b.*no multicast.*warpx2::02_13 or warpx2::01_23"
    ):
        cp_shape("64x128b")
    with pytest.raises(LayoutError, match=r"(?s)16x128b.*one of 128x256b"):
        cp_shape("16x128b")


@pytest.mark.parametrize("pair", sorted(LANES))
def test_rows_land_on_the_lanes_of_the_table(pair):
    lane, replicas = LANES[pair]
    rows, bits = (int(part) for part in pair[0].rstrip("b").split("x"))
    got = destination_lanes(*pair)
    assert got.tolist() == [[lane(i) + offset for i in range(rows)] for offset in replicas]
    assert cp_shape(*pair).num_cols == bits // 32
    assert cp_shape(*pair).span_lanes == max(got.ravel().tolist()) + 1


@pytest.mark.parametrize("pair", sorted(p for p in LANES if p[0] != "4x256b"))
def test_every_lane_is_written_exactly_once(pair):
    assert sorted(destination_lanes(*pair).ravel().tolist()) == list(range(128))


@pytest.mark.parametrize("pair", sorted(NOTATION))
def test_the_notation_says_the_same(pair):
    layout = parse_layout(NOTATION[pair])
    cp = cp_shape(*pair)
    for row in range(cp.num_rows):
        places = coordinates(layout, (row, 2), (cp.num_rows, cp.num_cols))
        assert sorted(p["TLane"] for p in places) == sorted(destination_lanes(*pair)[:, row].tolist())
        assert {p["TCol"] for p in places} == {2}


def test_golden_lanes():
    assert destination_lanes("64x128b", "warpx2::02_13")[:, 40].tolist() == [40, 104]
    assert destination_lanes("64x128b", "warpx2::01_23")[:, 40].tolist() == [72, 104]
    assert (destination_lanes("4x256b")[:, 2] + 31).tolist() == [95]
    assert cp_shape("4x256b").num_cols == 8


def test_golden_scale_factor_byte():
    row, k = 77, 2
    source = 16 * (row % 32) + 4 * (row // 32) + k
    assert source == 218
    line, byte = divmod(source, 16)
    chunks = source_chunks(SmemDescriptor(0, 16, 128), "32x128b", "warpx4")
    assert chunks[line, 0] + byte == 218
    assert destination_lanes("32x128b", "warpx4")[:, line].tolist() == [13, 45, 77, 109]
    assert divmod(byte, 4) == (2, 2)


def test_golden_walks():
    start = 0x1200
    plain = source_chunks(SmemDescriptor(start, 128, 256), "128x256b")
    assert plain[9, 1] == start + 400
    assert source_chunks(SmemDescriptor(0, 0, 1024, swizzle=2), "128x256b")[3, 1] == 416
    assert source_chunks(SmemDescriptor(0, 0, 512, swizzle=4), "128x256b")[5, 1] == 368
    assert source_chunks(SmemDescriptor(0, 0, 256, swizzle=6), "128x256b")[6, 0] == 208


@pytest.mark.parametrize("code", [0, 2, 4, 6])
@pytest.mark.parametrize("pair", sorted(LANES))
def test_the_walk_is_the_formula(code, pair):
    width, bits = {0: (16, 0), 6: (32, 1), 4: (64, 2), 2: (128, 3)}[code]
    start, lbo, sbo = 0x2400, 0x320, 0x480
    cp = cp_shape(*pair)
    got = source_chunks(SmemDescriptor(start, lbo, sbo, swizzle=code), *pair)
    assert got.shape == (cp.num_rows, cp.num_chunks)
    for i in range(cp.num_rows):
        for u in range(cp.num_chunks):
            linear = start + (i // 8) * sbo + (i % 8) * width + (u * lbo if code == 0 else u * 16)
            assert got[i, u] == linear ^ (((linear >> 7) & ((1 << bits) - 1)) << 4)


@pytest.mark.parametrize(
    ("desc", "says"),
    [
        (SmemDescriptor(0, 0, 1024, swizzle=1), "32-byte swizzle atoms"),
        (SmemDescriptor(0, 0, 1024, swizzle=2, lbo_is_absolute=True), "absolute leading offset"),
        (SmemDescriptor(0, 0, 1024, swizzle=2, base_offset=1), "base offset 1"),
    ],
)
def test_sources_nobody_describes_are_refused(desc, says):
    with pytest.raises(UnsupportedError, match=says):
        source_chunks(desc, "128x128b")


def chunk(*values):
    return np.array(list(values) + [0xEE] * (16 - len(values)), dtype=np.uint8)


def test_golden_six_bit_chunk():
    got = decompress(chunk(*range(1, 13)), "b6x16_p32")
    assert got.tolist() == [
        int(b, 16)
        for b in [
            "02",
            "10",
            "60",
            "00",
            "08",
            "28",
            "40",
            "02",
            "0E",
            "40",
            "20",
            "04",
            "14",
            "58",
            "00",
            "06",
        ]
    ]
    assert (got >> 1).tolist() == [1, 8, 48, 0, 4, 20, 32, 1, 7, 32, 16, 2, 10, 44, 0, 3]


def test_golden_four_bit_chunk():
    got = decompress(chunk(0x21, 0x43), "b4x16_p64")
    assert got[:4].tolist() == [0x04, 0x08, 0x0C, 0x10]
    assert decompress(chunk(0x02), "b4x16_p64")[0] == 0x08  # e2m1 1.0
    assert decompress(chunk(0x0C), "b6x16_p32")[0] == 0x18  # e3m2 1.0


@pytest.mark.parametrize(("name", "bits", "shift"), [("b4x16_p64", 4, 2), ("b6x16_p32", 6, 1)])
def test_decompression_reads_codes_low_first_and_ignores_padding(name, bits, shift):
    data = np.random.default_rng(5).integers(0, 256, (7, 16), dtype=np.uint8)
    got = decompress(data, name)
    for row, source in zip(got.tolist(), data.tolist(), strict=True):
        number = int.from_bytes(bytes(source), "little")
        assert row == [((number >> (bits * i)) & ((1 << bits) - 1)) << shift for i in range(16)]


def test_shift_moves_31_rows_down_by_one_lane_in_each_partition():
    assert [shift_source_lane(32 + j) for j in range(31)] == [33 + j for j in range(31)]
    assert shift_source_lane(63) == 63
    assert (SHIFT_LANES, SHIFT_COLS) == (31, 8)
