"""Operand tiles in SMEM: golden addresses, the manual's formulas scalar, and laws of the walk."""

import random

import numpy as np
import pytest

from drywell.base.errors import UnsupportedError
from drywell.layout.descriptor import SmemDescriptor
from drywell.layout.error import LayoutError
from drywell.layout.operand import chunk_addresses, gather_rows, overrun, packed_position, smem_offsets

WIDTH = {1: 128, 2: 128, 4: 64, 6: 32}


def x(code, address):
    """The swizzle on the absolute address, mode by mode."""
    return {
        0: address,
        6: address ^ (((address >> 7) & 1) << 4),
        4: address ^ (((address >> 7) & 3) << 4),
        2: address ^ (((address >> 7) & 7) << 4),
        1: address ^ (((address >> 7) & 3) << 5),
    }[code]


def k_major(code, start, lbo, sbo, r, kb):
    if code == 0:
        return start + (r % 8) * 16 + (r // 8) * sbo + (kb // 16) * lbo + kb % 16
    return x(code, start + (r % 8) * WIDTH[code] + (r // 8) * sbo + kb)


def mn_major(code, start, lbo, sbo, mn, k, es):
    t, w = 16 // es, WIDTH.get(code, 0)
    if code == 0:
        return start + (mn % t) * es + (mn // t) * sbo + (k % 8) * 16 + (k // 8) * lbo
    if code == 1:
        return x(
            1,
            start + (mn % (128 // es)) * es + (mn // (128 // es)) * lbo + (k % 4) * 128 + (k // 4) * sbo,
        )
    return x(code, start + (mn % (w // es)) * es + (mn // (w // es)) * lbo + (k % 8) * w + (k // 8) * sbo)


def at(row, k, es, start, lbo, sbo, code, mn=False, shape=(128, 64)):
    desc = SmemDescriptor(start, lbo, sbo, swizzle=code)
    return int(smem_offsets(desc, *shape, es, mn)[row, k])


def test_golden_k_major_addresses():
    sw128 = {"es": 2, "lbo": 0, "sbo": 1024, "code": 2}
    assert at(5, 3, start=0x400, **sw128) == 0x6D6
    assert at(13, 40, start=0x400, **sw128) == 0xA80
    assert at(13, 8, start=0x440, **sw128) == 0xA80  # the same byte, reached by stepping the start
    assert at(6, 20, 1, 0x800, 0, 512, 4) == 0x9A4
    assert [at(r, 17, 1, 0x100, 0, 256, 6, shape=(8, 32)) for r in (3, 4)] == [0x171, 0x181]
    assert at(9, 18, 1, 0x100, 128, 256, 0) == 0x292


def test_golden_mn_major_addresses():
    assert at(70, 11, 2, 0, 0x4000, 1024, 2, mn=True, shape=(128, 16)) == 0x45BC
    assert at(9, 6, 4, 0, 2048, 512, 1, mn=True, shape=(64, 8)) == 0x364
    assert at(9, 9, 2, 0, 2048, 128, 0, mn=True, shape=(64, 16)) == 0x892


CASES = [(code, es) for code in (0, 1, 2, 4, 6) for es in (1, 2, 4)]


@pytest.mark.parametrize(("code", "es"), CASES)
def test_k_major_tiles_are_the_formula(code, es):
    rng = random.Random(code * 10 + es)
    for _ in range(4):
        start, lbo, sbo = (16 * rng.randrange(n) for n in (600, 200, 200))
        num_k = 16 // es * rng.choice((1, 2, 3, 4))
        got = smem_offsets(SmemDescriptor(start, lbo, sbo, swizzle=code), 24, num_k, es).tolist()
        assert got == [[k_major(code, start, lbo, sbo, r, k * es) for k in range(num_k)] for r in range(24)]


@pytest.mark.parametrize(("code", "es"), [c for c in CASES if c[0] != 1] + [(1, 4)])
def test_mn_major_tiles_are_the_formula(code, es):
    rng = random.Random(code * 10 + es)
    for rows in (8, 24, 72):
        start, lbo, sbo = (16 * rng.randrange(n) for n in (600, 200, 200))
        got = smem_offsets(SmemDescriptor(start, lbo, sbo, swizzle=code), rows, 16, es, True).tolist()
        assert got == [[mn_major(code, start, lbo, sbo, mn, k, es) for k in range(16)] for mn in range(rows)]


# the strides of a densely filled tile: (code, es, is_mn_major, lbo, sbo, rows, k)
DENSE = [
    (0, 2, False, 128, 256, 32, 16),
    (6, 2, False, 0, 256, 32, 16),
    (4, 1, False, 0, 512, 32, 64),
    (2, 4, False, 0, 1024, 32, 32),
    (2, 2, False, 0, 1024, 32, 64),
    (1, 4, False, 0, 1024, 32, 32),
    (0, 2, True, 1024, 128, 64, 16),
    (6, 2, True, 512, 256, 32, 16),
    (4, 1, True, 1024, 512, 128, 16),
    (2, 2, True, 2048, 1024, 128, 16),
    (2, 1, True, 4096, 1024, 256, 32),
    (1, 4, True, 1024, 512, 64, 8),
]


@pytest.mark.parametrize(("code", "es", "mn", "lbo", "sbo", "rows", "k"), DENSE)
def test_a_dense_tile_covers_its_bytes_once(code, es, mn, lbo, sbo, rows, k):
    desc = SmemDescriptor(0x2000, lbo, sbo, swizzle=code)
    assert overrun(desc, rows, k, es, mn) is None
    offsets = smem_offsets(desc, rows, k, es, mn)
    assert sorted(offsets.ravel().tolist()) == list(range(0x2000, 0x2000 + rows * k * es, es))


@pytest.mark.parametrize(("code", "es", "mn", "lbo", "sbo", "rows", "k"), DENSE)
def test_moving_a_tile_by_1024_bytes_moves_every_address_by_1024(code, es, mn, lbo, sbo, rows, k):
    for start in (0, 16, 0x90, 0x3F0):
        here = smem_offsets(SmemDescriptor(start, lbo, sbo, swizzle=code), rows, k, es, mn)
        there = smem_offsets(SmemDescriptor(start + 5 * 1024, lbo, sbo, swizzle=code), rows, k, es, mn)
        assert (there - here == 5 * 1024).all()


@pytest.mark.parametrize("code", [2, 4, 6])
def test_stepping_the_start_along_k_is_the_same_as_reading_further_k(code):
    width = WIDTH[code]
    whole = smem_offsets(SmemDescriptor(0x1000, 0, 8 * width, swizzle=code), 16, width, 1)
    for step in range(0, width, 32):
        part = smem_offsets(SmemDescriptor(0x1000 + step, 0, 8 * width, swizzle=code), 16, 32, 1)
        assert (part == whole[:, step : step + 32]).all()


@pytest.mark.parametrize(("code", "es", "mn", "lbo", "sbo", "rows", "k"), DENSE)
def test_gathering_chunks_reads_the_bytes_of_the_elements(code, es, mn, lbo, sbo, rows, k):
    smem = np.random.default_rng(3).integers(0, 256, 0x8000, dtype=np.uint8)
    desc = SmemDescriptor(0x1010, lbo, sbo, swizzle=code)
    offsets = smem_offsets(desc, rows, k, es, mn)
    expected = smem[offsets[:, :, None] + np.arange(es)].reshape(rows, k * es)
    assert (gather_rows(smem, desc, rows, k, es, mn) == expected).all()


def test_gathering_outside_the_image_is_an_index_error():
    with pytest.raises(IndexError):
        gather_rows(np.zeros(0x400, dtype=np.uint8), SmemDescriptor(0x3F0, 0, 256, swizzle=6), 8, 16, 2)


def test_rows_of_48_bytes_go_on_in_the_second_buffer():
    first, second = 0x2000, 0x6400
    for in_row in (0, 48, 96, 16, 64, 112, 32, 80):
        desc = SmemDescriptor(first + in_row, second, 1024, swizzle=2, lbo_is_absolute=True)
        got = smem_offsets(desc, 16, 48, 1)
        for r in (0, 5, 8, 15):
            for kb in range(48):
                p = in_row + kb
                rows = (r % 8) * 128 + (r // 8) * 1024
                expected = x(2, first + rows + p) if p < 128 else x(2, second + rows + p - 128)
                assert got[r, kb] == expected
        assert overrun(desc, 16, 48, 1) is None


def test_a_second_buffer_below_the_first_is_read_too():
    desc = SmemDescriptor(0x6000 + 96, 0x1000, 1024, swizzle=2, lbo_is_absolute=True)
    assert smem_offsets(desc, 8, 48, 1)[0, [0, 31, 32]].tolist() == [0x6060, 0x607F, 0x1000]


def test_leading_offset_is_ignored_by_swizzled_k_major_tiles():
    tiles = [chunk_addresses(SmemDescriptor(0x400, lbo, 1024, swizzle=2), 32, 16, 2) for lbo in (0, 16, 4096)]
    assert all((tile == tiles[0]).all() for tile in tiles)


def test_walks_past_the_swizzle_atom_are_told():
    assert overrun(SmemDescriptor(0x400, 0, 256, swizzle=6), 8, 64, 1) is not None
    assert overrun(SmemDescriptor(0x460, 0, 1024, swizzle=2), 8, 16, 2) is None
    assert "end 16 bytes past" in (overrun(SmemDescriptor(0x470, 0, 1024, swizzle=2), 8, 16, 2) or "")
    assert overrun(SmemDescriptor(0x440, 0x4000, 1024, swizzle=2), 128, 16, 2, True) is not None


def test_what_cannot_be_walked_says_why():
    with pytest.raises(UnsupportedError, match="base offset 3"):
        chunk_addresses(SmemDescriptor(0, 0, 1024, swizzle=2, base_offset=3), 8, 16, 2)
    with pytest.raises(LayoutError, match="swizzle code 5"):
        chunk_addresses(SmemDescriptor(0, 0, 1024, swizzle=5), 8, 16, 2)
    with pytest.raises(LayoutError, match="rows of 24 bytes"):
        chunk_addresses(SmemDescriptor(0, 0, 1024, swizzle=2), 8, 12, 2)


def test_narrow_types_sit_in_slots_or_packed():
    for k in range(64):
        assert packed_position(k, 4, has_slots=False) == (k // 2, 4 * (k % 2))
        assert packed_position(k, 4, has_slots=True) == (16 * (k // 16) + (k % 16) // 2, 4 * (k % 2))
        byte, bit = packed_position(k, 6, has_slots=True)
        assert 8 * byte + bit == 128 * (k // 16) + 6 * (k % 16)
        assert packed_position(k, 16, has_slots=False) == (2 * k, 0)
