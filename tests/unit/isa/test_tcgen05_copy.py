"""tcgen05.cp, shift and ld.red on a real grid: every byte's way computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.errors import KernelFault, UnsupportedError
from drywell.base.options import Options
from drywell.layout.descriptor import SmemDescriptor, encode_smem_descriptor
from unit.isa.one_cta import act, every, perform
from unit.isa.tensor_core import ONE, cells, tensor_grid

AT = 0x800
CP = "tcgen05.cp.cta_group::1."
WIDTH_XOR = {0: (16, 0), 6: (32, 1), 4: (64, 3), 2: (128, 7)}
ROW_LANES: dict[str, Any] = {
    "128x256b": (128, 8, lambda i: [i]),
    "128x128b": (128, 4, lambda i: [i]),
    "4x256b": (4, 8, lambda i: [32 * i]),
    "64x128b.warpx2::02_13": (64, 4, lambda i: [i, i + 64]),
    "64x128b.warpx2::01_23": (64, 4, lambda i: [64 * (i // 32) + i % 32, 64 * (i // 32) + i % 32 + 32]),
    "32x128b.warpx4": (32, 4, lambda i: [i, i + 32, i + 64, i + 96]),
}
RNG = np.random.default_rng(3)


def place(grid: Any, rows: Any, swizzle: int = 0, cta: int = 0) -> Any:
    """Put rows of bytes [rows, 16 or 32] into shared memory unit by unit; return the descriptor."""
    width, bits = WIDTH_XOR[swizzle]
    lbo, sbo = 2048, 8 * width
    data = grid.clusters[0].ctas[cta].smem.data
    for i, row in enumerate(rows):
        for u in range(len(row) // 16):
            linear = AT + i // 8 * sbo + i % 8 * width + (u * lbo if swizzle == 0 else u * 16)
            address = linear ^ ((linear >> 7 & bits) << 4)
            data[address : address + 16] = row[16 * u : 16 * u + 16]
    return every(encode_smem_descriptor(SmemDescriptor(AT, lbo, sbo, swizzle=swizzle)), "u8")


def copy(grid: Any, spelling: str, taddr: int, desc: Any, cta: int = 0) -> None:
    act(grid.clusters[0].ctas[cta].warps[0], spelling, every(taddr), desc, lanes=ONE)
    perform(grid)


@pytest.mark.parametrize("shape", ROW_LANES)
@pytest.mark.parametrize("swizzle", [0, 6, 4, 2])
def test_every_shape_writes_its_rows_to_their_lanes_and_nothing_else(shape: str, swizzle: int) -> None:
    num_rows, num_cols, lanes = ROW_LANES[shape]
    grid = tensor_grid()
    rows = RNG.integers(0, 256, (num_rows, 4 * num_cols), dtype="u1")
    base = 5 if shape == "4x256b" else 0
    copy(grid, CP + shape, base << 16 | 36, place(grid, rows, swizzle))
    expected = np.full((128, 512), 0x7FFF7FFF, "<u4")
    for i, row in enumerate(rows):
        for lane in lanes(i):
            expected[lane + base, 36 : 36 + num_cols] = row.view("<u4")
    assert np.array_equal(cells(grid), expected)


def narrow(row: Any, bits: int) -> Any:
    """The codes of a 16-byte slot, each moved to its place in a byte."""
    stream = int.from_bytes(row.tobytes(), "little")
    shift = {4: 2, 6: 1}[bits]
    return np.array([(stream >> bits * k & (1 << bits) - 1) << shift for k in range(16)], "u1")


@pytest.mark.parametrize(("words", "bits"), [(".b8x16.b4x16_p64", 4), (".b8x16.b6x16_p32", 6)])
@pytest.mark.parametrize("shape", ROW_LANES)
def test_narrow_elements_are_widened_to_bytes(words: str, bits: int, shape: str) -> None:
    num_rows, num_cols, lanes = ROW_LANES[shape]
    grid = tensor_grid()
    rows = RNG.integers(0, 256, (num_rows, 4 * num_cols), dtype="u1")
    copy(grid, CP + shape + words, 0, place(grid, rows))
    for i, row in enumerate(rows):
        wide = np.concatenate([narrow(row[u : u + 16], bits) for u in range(0, len(row), 16)])
        for lane in lanes(i):
            assert np.array_equal(cells(grid)[lane, :num_cols], wide.view("<u4"))


def test_the_place_in_the_byte_is_a_switch() -> None:
    grid = tensor_grid()
    grid.options = Options(narrow_in_byte="low")
    row = np.zeros((32, 16), "u1")
    row[:, :2] = 0x21, 0x43
    copy(grid, CP + "32x128b.warpx4.b8x16.b4x16_p64", 0, place(grid, row))
    assert cells(grid)[77, 0] == 0x04030201


def test_a_block_of_scale_factors_reaches_its_four_lanes() -> None:
    grid = tensor_grid()
    block = RNG.integers(0, 256, (32, 16), dtype="u1")
    copy(grid, CP + "32x128b.warpx4", 0, place(grid, block))
    byte = block.reshape(-1)[16 * 13 + 4 * 2 + 2]  # row 77, scale 2
    assert [int(cells(grid)[lane, 2]) >> 16 & 255 for lane in (13, 45, 77, 109)] == [byte] * 4


def test_a_pair_copies_out_of_each_ctas_own_shared_memory() -> None:
    grid = tensor_grid(2)
    rows = RNG.integers(0, 256, (2, 128, 16), dtype="u1")
    for cta in range(2):
        desc = place(grid, rows[cta], cta=cta)
    copy(grid, CP.replace("::1", "::2") + "128x128b", 8, desc, cta=1)
    for cta in range(2):
        assert np.array_equal(cells(grid, cta)[:, 8:12], rows[cta].view("<u4"))


@pytest.mark.parametrize(
    ("taddr", "fields", "rule", "words"),
    [
        (1 << 16, {}, "TMEM-LANE-WINDOW", "starts at lane 1; the first lane must be 0"),
        (6, {}, "MISALIGNED", "starts at column 6, which is no multiple of 4"),
        (512, {}, "TMEM-COL-OOB", "columns 512 to 519"),
        (0, {"swizzle": 3}, "DESC-ILLEGAL", r"swizzle (bits 61-63) is 3"),
        (0, {"version": 0}, "DESC-ILLEGAL", r"version (bits 46-48) is 0"),
        (0, {"start": 0xFC00}, "SHARED-WINDOW", "tcgen05.cp reads 128 rows of 32 bytes"),
        (0, {"start": AT + 96, "swizzle": 2, "sbo_bytes": 1024}, "", ""),
        (0, {"start": AT + 112, "swizzle": 2, "sbo_bytes": 1024}, "DESC-ILLEGAL", "end 16 bytes past it"),
    ],
)
def test_a_copy_that_cannot_be(taddr: int, fields: dict[str, int], rule: str, words: str) -> None:
    grid = tensor_grid()
    given = {"start": AT, "lbo_bytes": 2048, "sbo_bytes": 128} | fields
    desc = every(encode_smem_descriptor(SmemDescriptor(**given)), "u8")
    if not rule:
        copy(grid, CP + "128x256b", taddr, desc)
        return
    with pytest.raises(KernelFault) as caught:
        copy(grid, CP + "128x256b", taddr, desc)
    assert caught.value.rule == rule and words in caught.value.detail


def test_a_copy_through_a_descriptor_that_no_source_settles_is_unsupported() -> None:
    for fields in ({"swizzle": 1}, {"swizzle": 2, "base_offset": 3}):
        desc = encode_smem_descriptor(SmemDescriptor(AT, 2048, 1024, **fields))
        with pytest.raises(UnsupportedError):
            copy(tensor_grid(), CP + "128x256b", 0, every(desc, "u8"))


# shift


@pytest.mark.parametrize("scope", ["partition", "all"])
def test_a_shift_moves_31_rows_of_8_columns(scope: Any) -> None:
    grid = tensor_grid()
    grid.options = Options(shift_scope=scope)
    cells(grid)[:] = old = RNG.integers(0, 1 << 32, (128, 512), dtype="u4")
    act(grid.clusters[0].ctas[0].warps[0], "tcgen05.shift.cta_group::1.down", every(32 << 16 | 40), lanes=ONE)
    perform(grid)
    expected = old.copy()
    for lane in range(128):
        if lane % 32 != 31 and (scope == "all" or lane // 32 == 1):
            expected[lane, 40:48] = old[lane + 1, 40:48]
    assert np.array_equal(cells(grid), expected)


def test_a_shift_starts_at_a_partition_and_reaches_both_ctas_of_a_pair() -> None:
    grid = tensor_grid(2)
    for cta in range(2):
        cells(grid, cta)[:, :8] = np.arange(128)[:, None] + 1000 * cta
    warp = grid.clusters[0].ctas[0].warps[0]
    act(warp, "tcgen05.shift.cta_group::2.down", every(0), lanes=ONE)
    perform(grid)
    assert [int(cells(grid, cta)[lane, 7]) for cta in range(2) for lane in (0, 30, 31, 32)] == [
        1, 31, 31, 32, 1001, 1031, 1031, 1032,
    ]  # fmt: skip
    with pytest.raises(KernelFault, match="starts at lane 16; it must start at one of the 4 multiples of 32"):
        act(warp, "tcgen05.shift.cta_group::2.down", every(16 << 16), lanes=ONE)


# ld.red


def reduced(spelling: str, words: Any, *split: Any) -> tuple[Any, Any]:
    grid = tensor_grid(gpu="b300")
    cells(grid)[: len(words), : words.shape[1]] = words
    deferred = act(
        grid.clusters[0].ctas[0].warps[0], f"tcgen05.ld.red.sync.aligned.{spelling}", every(0), *split
    )
    perform(grid)
    return deferred.op.result


def test_ld_red_gives_what_ld_gives_and_the_reduction_of_each_lane() -> None:
    words = RNG.integers(0, 1 << 32, (32, 4), dtype="u4")
    for kind, dtype in (("u32", "u4"), ("s32", "i4")):
        registers, value = reduced(f"32x32b.x4.max.{kind}", words)
        assert np.array_equal(np.stack(registers, 1), words)
        assert np.array_equal(value.view(dtype), words.view(dtype).max(1))
        assert np.array_equal(
            reduced(f"32x32b.x4.min.{kind}", words)[1].view(dtype), words.view(dtype).min(1)
        )


def test_ld_red_of_floats_treats_nan_and_signs_as_min_and_max_do() -> None:
    rows = np.zeros((32, 2), "f4")
    rows[:3] = (1, -3), (np.nan, -2), (0.0, -0.0)
    words = rows.view("u4")
    assert reduced("32x32b.x2.max.f32", words)[1][:3].view("f4").tolist() == [1, -2, 0]
    registers, value = reduced("32x32b.x2.max.abs.f32", words)
    assert value[:2].view("f4").tolist() == [3, 2] and np.array_equal(np.stack(registers, 1), words)
    assert reduced("32x32b.x2.min.f32", words)[1][2] == 0x80000000
    assert reduced("32x32b.x2.min.NaN.f32", words)[1][1] == 0x7FFFFFFF


def test_ld_red_of_two_windows_reduces_each_by_itself() -> None:
    words = np.arange(16 * 8, dtype="u4").reshape(16, 8)
    value = reduced("16x32bx2.x2.max.u32", words, every(4))[1]
    assert value.tolist() == [*words[:, :2].max(1), *words[:, 4:6].max(1)]
    floats = words.astype("f4") - 100
    value = reduced("16x32bx2.x2.min.abs.f32", floats.view("u4"), every(4))[1].view("f4")
    assert value.tolist() == [*np.abs(floats[:, :2]).min(1), *np.abs(floats[:, 4:6]).min(1)]
