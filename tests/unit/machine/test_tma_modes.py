"""TMA beyond tiles: im2col, gathered rows and packed types against walks written out pixel by pixel."""

from __future__ import annotations

from dataclasses import replace as with_
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import LaunchError
from drywell.machine import tma
from drywell.machine.gmem import GlobalMemory
from drywell.machine.tensor_map import TensorMap, decode, encode, problems, replace

BASE = 0x800
CHANNELS = 32


def placed(launch: Any, tensor: Any, **how: Any) -> tuple[Any, TensorMap]:
    """A warp and an im2col map of a contiguous array [N, (D, (H,)) W, C] of f16."""
    gmem = GlobalMemory()
    address = gmem.place("T", tensor)
    m = launch(gmem=gmem, **how.pop("options", {})).clusters[0].ctas[0].warps[0]
    names = {"u2": "f16", "u1": "u8", "u4": "u32"}
    steps = how.pop("element_stride", (1,) * tensor.ndim)
    tmap = TensorMap(
        address,
        how.pop("elemtype", names[tensor.dtype.str[1:]]),
        how.pop("global_dim", tensor.shape[::-1]),
        tensor.strides[-2::-1],
        how.pop("box_dim"),
        steps,
        **how,
    )
    assert problems(tmap) == ()
    assert decode(encode(tmap)) == tmap
    return m, tmap


def numbers(*shape: int) -> Any:
    return np.arange(1, np.prod(shape) + 1, dtype=np.uint16).reshape(shape)


def columns(m: Any, count: int, channels: int = CHANNELS) -> Any:
    return m.cta.smem.data[BASE : BASE + 2 * count * channels].view(np.uint16).reshape(count, channels)


def element(tensor: Any, index: tuple[int, ...], fill: int = 0) -> int:
    inside = all(0 <= i < n for i, n in zip(index, tensor.shape, strict=True))
    return int(tensor[index]) if inside else fill


def walked(
    lower: tuple[int, ...], upper: tuple[int, ...], start: tuple[int, ...], count: int, steps: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """(W, H, D, N) of `count` pixels: nested loops from the start on, innermost W; bounds are inclusive."""
    out: list[tuple[int, ...]] = []
    spatial = len(lower)
    place = list(start)
    while len(out) < count:
        out.append(tuple(place))
        place[0] += steps[0]
        for i in range(spatial):
            if place[i] > upper[i]:
                place[i] = lower[i]
                place[i + 1] += steps[i + 1]
    return out


CASES = [
    # shape [N, ..., C], lower and upper corner (W first), start (W, H, D, N), offsets, pixels, steps
    ((3, 9, CHANNELS), (0,), (-2,), (4, 0), (1,), 20, (1, 1, 1)),
    ((3, 9, CHANNELS), (-1,), (0,), (-1, 1), (0,), 24, (1, 2, 1)),
    ((5, 5, CHANNELS), (0,), (-1,), (1, 0), (1,), 9, (1, 2, 2)),
    ((2, 6, 7, CHANNELS), (0, 0), (-2, -2), (3, 2, 0), (2, 1), 40, (1, 1, 1, 1)),
    ((2, 6, 7, CHANNELS), (-1, -1), (-1, -1), (-1, 4, 0), (0, 2), 64, (1, 1, 1, 1)),
    ((2, 6, 7, CHANNELS), (-1, -2), (1, 2), (-1, -2, 1), (3, 3), 50, (1, 2, 3, 1)),
    ((2, 3, 4, 5, CHANNELS), (0, 0, 0), (-1, -2, -1), (2, 1, 1, 0), (1, 2, 1), 30, (1, 1, 1, 1, 1)),
    ((2, 3, 4, 5, CHANNELS), (-1, -1, -1), (0, 0, 0), (0, -1, 2, 1), (0, 1, 0), 33, (1, 2, 1, 2, 1)),
]


@pytest.mark.parametrize(("shape", "lower", "upper", "start", "offsets", "pixels", "steps"), CASES)
@pytest.mark.parametrize("swizzle", ["none", "64B", "128B"])
def test_im2col_loads_the_walk(
    launch, shape, lower, upper, start, offsets, pixels, steps, swizzle: str
) -> None:
    tensor = numbers(*shape)
    m, tmap = placed(
        launch,
        tensor,
        box_dim=(CHANNELS, pixels),
        mode="im2col",
        lower_corner=lower,
        upper_corner=upper,
        element_stride=steps,
        swizzle=swizzle,
    )
    m.cta.smem.data[0x400:] = 0xA5
    moved = tma.load(m, tmap, (0, *start), (m.cta.smem, BASE), mode="im2col", offsets=offsets)
    assert moved == pixels * CHANNELS * 2
    edges = tuple(n - 1 + u for n, u in zip(shape[-2::-1], upper, strict=False))
    places = walked(lower, edges, start, pixels, steps[1:])
    expected = m.cta.smem.data.copy()
    pitch = 128 if swizzle == "128B" else 2 * CHANNELS
    for row, place in enumerate(places):
        at = [p + o for p, o in zip(place, (*offsets, 0), strict=True)]
        for c in range(CHANNELS):
            byte = BASE + row * pitch + 2 * c
            flips = {"none": 0, "64B": byte >> 7 & 3, "128B": byte >> 7 & 7}[swizzle]
            word = element(tensor, (*at[::-1], c))
            expected[byte ^ flips << 4 : (byte ^ flips << 4) + 2] = (word & 255, word >> 8)
    assert np.flatnonzero(m.cta.smem.data != expected).tolist() == []


def test_the_channels_of_a_pixel_may_be_a_part_and_reach_out(launch) -> None:
    tensor = numbers(1, 4, 24)
    m, tmap = placed(
        launch,
        tensor,
        box_dim=(16, 4),
        mode="im2col",
        lower_corner=(0,),
        upper_corner=(0,),
        fill_mode="nan",
    )
    tma.load(m, tmap, (16, 0, 0), (m.cta.smem, BASE), mode="im2col", offsets=(1,))
    expected = [[element(tensor, (0, w + 1, 16 + c), 0x7FF7) for c in range(16)] for w in range(4)]
    assert columns(m, 4, 16).tolist() == expected


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ((-1, 0, 0), "W = -1 lies outside the box, which goes from 0 to 4 there"),
        ((5, 0, 0), "W = 5 lies outside the box"),
        ((0, 4, 0), "H = 4 lies outside the box, which goes from 0 to 3 there"),
    ],
)
def test_a_start_outside_the_box_faults(launch, faults, start, words: str) -> None:
    m, tmap = placed(
        launch,
        numbers(2, 6, 7, CHANNELS),
        box_dim=(CHANNELS, 8),
        mode="im2col",
        lower_corner=(0, 0),
        upper_corner=(-2, -2),
    )
    fault = faults(
        "TMA-BOX", tma.load, m, tmap, (0, *start), (m.cta.smem, BASE), mode="im2col", offsets=(0, 0)
    )
    assert words in fault.detail


def test_a_map_is_good_for_its_own_mode_only(launch, faults) -> None:
    m, columns_map = placed(
        launch,
        numbers(2, 6, 7, CHANNELS),
        box_dim=(CHANNELS, 8),
        mode="im2col",
        lower_corner=(0, 0),
        upper_corner=(-2, -2),
    )
    tile_map = with_(columns_map, mode="tile", box_dim=(CHANNELS, 1, 1, 1), lower_corner=(), upper_corner=())
    target, start = (m.cta.smem, BASE), (0, 0, 0, 0)
    assert "made for im2col" in faults("TMA-MAP", tma.load, m, columns_map, start, target).detail
    fault = faults("TMA-MAP", tma.load, m, tile_map, start, target, mode="im2col", offsets=(0, 0))
    assert fault.detail == "an instruction with .im2col uses a tensor map made for tile"


def test_im2col_stores_end_with_the_last_image(launch, faults) -> None:
    tensor = np.zeros((2, 3, 4, CHANNELS), np.uint16)
    m, tmap = placed(
        launch,
        tensor,
        box_dim=(CHANNELS, 20),
        mode="im2col",
        lower_corner=(0, 0),
        upper_corner=(0, 0),
    )
    columns(m, 20)[:] = np.arange(1, 20 * CHANNELS + 1).reshape(20, CHANNELS)
    start = (0, 3, 1, 0)
    box = tma.check(m, tmap, start, m.cta.smem, BASE, "im2col_no_offs")
    data = tma.get_box(m, tmap, m.cta.smem, BASE, box)
    tma.write_box(m, tmap, start, data, mode="im2col_no_offs")
    expected = np.zeros_like(tensor)
    for row, (w, h, n) in enumerate(walked((0, 0), (3, 2), (3, 1, 0), 20, (1, 1, 1))):
        if n < 2:
            expected[n, h, w] = np.arange(1, CHANNELS + 1) + row * CHANNELS
    found = m.grid.gmem.view(tmap.global_address, tensor.nbytes).view(np.uint16)
    assert found.tolist() == expected.ravel().tolist()
    left = with_(tmap, lower_corner=(-1, 0))
    negative = faults("TMA-BOX", tma.check, m, left, (0, -1, 0, 0), m.cta.smem, BASE, "im2col_no_offs")
    assert "negative" in negative.detail
    wide = with_(tmap, upper_corner=(1, 0))
    reaching = faults("TMA-BOX", tma.check, m, wide, start, m.cta.smem, BASE, "im2col_no_offs")
    assert "the box goes from 0 to 4 along W, the tensor from 0 to 3" in reaching.detail


# ---------------------------------------------------------------- im2col::w
@pytest.mark.parametrize(("mode", "pixels", "group"), [("im2col::w", 10, 10), ("im2col::w::128", 5, 32)])
@pytest.mark.parametrize("halo", [0, 2])
def test_the_w_modes_walk_along_w_and_n_and_add_a_halo(launch, mode, pixels, group, halo: int) -> None:
    """ASSUMED: after each group the halo goes on along W in the image of the group's last pixel."""
    tensor = numbers(30, 3, 7, 16)
    m, tmap = placed(
        launch,
        tensor,
        box_dim=(16, pixels),
        mode="im2col::w",
        lower_corner=(-1,),
        upper_corner=(-1,),
        swizzle="32B",
    )
    m.cta.smem.data[BASE:] = 0
    moved = tma.load(m, tmap, (0, 2, 1, 3), (m.cta.smem, BASE), mode=mode, offsets=(halo, 1))
    count = 128 if mode.endswith("128") else pixels
    main = walked((-1,), (5,), (2, 3), count, (1, 1))
    places: list[tuple[int, int]] = []
    for first in range(0, count, group):
        part = main[first : first + group]
        places += [*part, *((part[-1][0] + k, part[-1][1]) for k in range(1, halo + 1))]
    assert moved == len(places) * 32
    for row, (w, n) in enumerate(places):
        byte = BASE + 32 * row
        shift = (byte >> 7 & 1) * 8
        found = m.cta.smem.data[byte : byte + 32].view(np.uint16)
        expected = [element(tensor, (n, 1, w + 1, c)) for c in range(16)]
        assert np.roll(found, -shift).tolist() == expected


def test_the_w_modes_may_start_left_of_the_box_only(launch, faults) -> None:
    m, tmap = placed(
        launch,
        numbers(2, 7, 16),
        box_dim=(16, 4),
        mode="im2col::w",
        lower_corner=(0,),
        upper_corner=(0,),
        swizzle="64B",
    )
    target = (m.cta.smem, BASE)
    assert tma.load(m, tmap, (0, -2, 0), target, mode="im2col::w", offsets=(0, 0)) == 4 * 32
    faults("TMA-BOX", tma.load, m, tmap, (0, 7, 0), target, mode="im2col::w", offsets=(0, 0))


# ---------------------------------------------------------------- the 128 bytes
def test_an_im2col_map_is_encoded_as_measured() -> None:
    tmap = TensorMap(
        0x10000,
        "f16",
        (64, 10, 12, 3),
        (128, 1280, 15360),
        (64, 96),
        (1, 1, 1, 1),
        mode="im2col",
        lower_corner=(-1, -2),
        upper_corner=(-3, 4),
    )
    q = np.frombuffer(encode(tmap), "<u8")
    assert int(q[1]) & 15 == 1
    assert int(q[6]) >> 56 == 63
    assert int(q[7]) & 0xFFFF_FFFF == 0x04FD_FEFF
    assert int(q[7]) >> 32 == 95


@pytest.mark.parametrize("bits", [0, 2])
def test_other_encoders_marks_leave_a_map_tiled(bits: int) -> None:
    raw = bytearray(encode(TensorMap(0x1000, "f16", (128, 128), (256,), (64, 128), (1, 1), swizzle="128B")))
    raw[8] = raw[8] & 0xF0 | bits
    assert decode(raw).mode == "tile"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lower_corner": (0,)}, "lower_corner has 1 entries; mode im2col of rank 4 needs 2"),
        ({"upper_corner": (0, 128)}, "upper_corner[1] is 128; it must be -128 to 127"),
        ({"box_dim": (64, 1025)}, "box_dim[1] is 1025; it must be 1 to 1024"),
        ({"box_dim": (64,)}, "box_dim has 1 entries"),
        ({"mode": "tile", "box_dim": (64, 1, 1, 1)}, "corners belong to mode im2col"),
        ({"mode": "im2col::x"}, "there is no mode 'im2col::x'"),
        ({"mode": "im2col::w", "lower_corner": (0,), "upper_corner": (0,)}, "mode im2col::w needs a swizzle"),
    ],
)
def test_what_an_im2col_map_cannot_be_has_its_own_words(change: dict[str, Any], words: str) -> None:
    good = TensorMap(
        0,
        "f16",
        (64, 10, 12, 3),
        (128, 1280, 15360),
        (64, 96),
        (1, 1, 1, 1),
        mode="im2col",
        lower_corner=(0, 0),
        upper_corner=(0, 0),
    )
    assert any(words in problem for problem in problems(with_(good, **change)))
    with pytest.raises(LaunchError):
        encode(with_(good, **change))


# ---------------------------------------------------------------- gather4, scatter4
ROWS = (7, -1, 2, 9)


@pytest.mark.parametrize("swizzle", ["none", "64B", "128B"])
@pytest.mark.parametrize("first", [0, 16])
def test_gather4_puts_four_rows_back_to_back(launch, swizzle: str, first: int) -> None:
    tensor = numbers(9, 40)
    m, tmap = placed(launch, tensor, box_dim=(32, 1), swizzle=swizzle)
    moved = tma.load(m, tmap, (first, *ROWS), (m.cta.smem, BASE + 128), mode="tile::gather4")
    assert moved == 4 * 64
    pitch = 128 if swizzle == "128B" else 64
    for row, c in np.ndindex(4, 32):
        byte = BASE + 128 + row * pitch + 2 * c
        byte ^= {"none": 0, "64B": byte >> 7 & 3, "128B": byte >> 7 & 7}[swizzle] << 4
        expected = element(tensor, (ROWS[row], first + c))
        assert int(m.cta.smem.data[byte : byte + 2].view(np.uint16)[0]) == expected


def test_scatter4_drops_rows_outside_and_writes_in_order(launch) -> None:
    tensor = np.zeros((9, 40), np.uint16)
    m, tmap = placed(launch, tensor, box_dim=(32, 1))
    data = np.arange(1, 129, dtype=np.uint16).reshape(4, 32)
    tma.write_box(m, tmap, (16, 3, 9, -2, 3), data.view(np.uint8), mode="tile::scatter4")
    expected = np.zeros((9, 40), int)
    expected[3, 16:] = data[3, :24]
    found = m.grid.gmem.view(tmap.global_address, tensor.nbytes).view(np.uint16).reshape(9, 40)
    assert found.tolist() == expected.tolist()


def test_gather4_wants_two_dimensions_and_a_box_of_one_row(launch, faults) -> None:
    m, tall = placed(launch, numbers(9, 40), box_dim=(32, 2))
    target = (m.cta.smem, BASE)
    fault = faults("TMA-MAP", tma.load, m, tall, (0, 1, 2, 3, 4), target, mode="tile::gather4")
    assert "whose box has 2 rows; it must have 1" in fault.detail
    m, deep = placed(launch, numbers(2, 9, 40), box_dim=(32, 1, 1))
    fault = faults("TMA-MAP", tma.load, m, deep, (0, 1, 2, 3, 4), target, mode="tile::gather4")
    assert "2 dimensions for a tensor map of rank 3" in fault.detail


# ---------------------------------------------------------------- packed types
PACKED = [("b4x16_p64", 8, s) for s in ("none", "128B", "128B_ATOM_32B")] + [
    ("b6x16_p32", 12, s) for s in ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B")
]


def slot(byte: int, swizzle: str) -> int:
    """The place of a byte of the 128B swizzles, by the bits that each atom moves."""
    flips = {
        "none": 0,
        "128B": (byte >> 7 & 7) << 4,
        "128B_ATOM_32B": (byte >> 7 & 3) << 5,
        "128B_ATOM_64B": (byte >> 7 & 1) << 6,
    }
    return byte ^ flips[swizzle]


@pytest.mark.parametrize(("elemtype", "data_bytes", "swizzle"), PACKED)
@pytest.mark.parametrize("counts", ["data", "slots"])
def test_padded_elements_fill_the_front_of_each_slot(
    launch, elemtype: str, data_bytes: int, swizzle: str, counts: Any
) -> None:
    row_bytes = 8 * data_bytes
    tensor = np.random.default_rng(4).integers(0, 256, (5, 2 * row_bytes)).astype(np.uint8)
    m, tmap = placed(
        launch,
        tensor,
        elemtype=elemtype,
        global_dim=(256, 5),
        box_dim=(128, 8),
        swizzle=swizzle,
        options={"padded_complete_tx": counts},
    )
    smem = m.cta.smem.data
    smem[0x400:] = 0xA5
    expected = smem.copy()
    moved = tma.load(m, tmap, (128, 0), (m.cta.smem, BASE + 256))
    assert moved == 8 * {"data": row_bytes, "slots": 128}[counts]
    for row, k, byte in np.ndindex(8, 8, data_bytes):
        at = slot(BASE + 256 + 128 * row + 16 * k, swizzle) + byte
        expected[at] = tensor[row, row_bytes + k * data_bytes + byte] if row < 5 else 0
    assert np.flatnonzero(smem != expected).tolist() == []


@pytest.mark.parametrize("swizzle", ["none", "128B", "128B_ATOM_64B"])
def test_six_bit_stores_drop_the_upper_two_bits_of_a_byte(launch, swizzle: str) -> None:
    tensor = np.zeros((4, 96), np.uint8)
    m, tmap = placed(
        launch, tensor, elemtype="b6x16_p32", global_dim=(128, 4), box_dim=(128, 4), swizzle=swizzle
    )
    smem = m.cta.smem.data
    smem[BASE : BASE + 512] = np.random.default_rng(5).integers(0, 256, 512)
    tma.write_box(m, tmap, (0, 0), tma.get_box(m, tmap, m.cta.smem, BASE))
    found = m.grid.gmem.view(tmap.global_address, 384).reshape(4, 96)
    for row in range(4):
        values = [int(smem[slot(BASE + 128 * row + k, swizzle)]) & 63 for k in range(128)]
        stream = sum(v << 6 * k for k, v in enumerate(values))
        assert found[row].tobytes() == stream.to_bytes(96, "little")


def test_padded_elements_start_at_multiples_of_128_and_4_bits_are_for_loads(launch, faults) -> None:
    tensor = np.zeros((4, 128), np.uint8)
    m, tmap = placed(launch, tensor, elemtype="b4x16_p64", global_dim=(256, 4), box_dim=(128, 4))
    target = (m.cta.smem, BASE)
    assert "not a multiple of 128" in faults("TMA-ALIGN", tma.load, m, tmap, (64, 0), target).detail
    assert "for loads only" in faults("TMA-MAP", tma.get_box, m, tmap, *target).detail


# ---------------------------------------------------------------- maps made on the device
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("fill_mode", 1, "fill mode nan needs a floating-point type, not u8"),
        ("box_dim", 24, "24 x 8 bits = 24 bytes; it must be a multiple of 16 bytes"),
        ("elemtype", 14, "box_dim[0] is 32; with b4x16_p64 it must be 128"),
    ],
)
def test_a_map_that_no_driver_would_make_faults_where_it_is_used(
    launch, faults, field: str, value: int, words: str
) -> None:
    gmem = GlobalMemory()
    raw = bytearray(encode(TensorMap(gmem.place("T", 4096), "u8", (128, 4), (128,), (32, 4), (1, 1))))
    replace(raw, field, value)
    address = gmem.place("map", np.frombuffer(bytes(raw), np.uint8))
    m = launch(gmem=gmem).clusters[0].ctas[0].warps[0]
    assert words in faults("TMA-MAP", tma.read_map, m, address).detail
