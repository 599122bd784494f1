"""Tensor copies against scalar walks over the box, written from the manual's description of tensors and
swizzles."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import KernelFault
from drywell.machine.tensor_map import TensorMap, encode
from unit.isa.one_cta import SMEM, TILE, act, address, array, every, one_warp, perform, refusal, smem

ONE = (0,)


def load_form(dims: int) -> str:
    return f"cp.async.bulk.tensor.{dims}d.shared::cta.global.tile.mbarrier::complete_tx::bytes"


def warp_with(tensor: Any, box: tuple[int, ...], **how: Any) -> Any:
    """A warp with the tensor (innermost dimension last, as NumPy has it), its map and an mbarrier of one
    arrival."""
    warp = one_warp(tensor=tensor, map=np.zeros(128, np.uint8))
    tmap = TensorMap(
        address(warp, "tensor"),
        {"u2": "u16", "f2": "f16", "f4": "f32", "i4": "s32"}[tensor.dtype.str[1:]],
        tensor.shape[::-1],
        tensor.strides[:-1][::-1],
        box[::-1],
        (1,) * tensor.ndim,
        **how,
    )
    array(warp, "map", "u1")[:] = np.frombuffer(encode(tmap), np.uint8)
    act(warp, "mbarrier.init.shared.b64", every(SMEM), every(1), lanes=ONE)
    return warp


def operand(warp: Any, coords: tuple[int, ...]) -> tuple[Any, tuple[Any, ...]]:
    return every(address(warp, "map"), "u8"), tuple(every(c & 0xFFFF_FFFF) for c in coords)


def load(warp: Any, coords: tuple[int, ...], target: int = TILE) -> None:
    sources = (every(target), operand(warp, coords), every(SMEM), None, None, None)
    act(warp, load_form(len(coords)), *sources, lanes=ONE)
    perform(warp.grid)


def element(tensor: Any, index: tuple[int, ...]) -> int:
    inside = all(0 <= i < n for i, n in zip(index, tensor.shape, strict=True))
    return int(tensor[index]) if inside else 0


@pytest.mark.parametrize(
    ("shape", "box", "coords"),
    [
        ((64,), (16,), (8,)),
        ((12, 32), (4, 16), (8, 3)),
        ((5, 6, 16), (2, 3, 8), (8, 4, 3)),
        ((3, 3, 4, 8), (2, 2, 2, 8), (0, 3, 1, 2)),
        ((2, 3, 2, 3, 8), (1, 2, 2, 2, 8), (0, 2, 1, 2, 1)),
        ((12, 32), (4, 16), (24, -2)),
    ],
)
def test_a_box_comes_row_by_row_with_zeros_outside(
    shape: tuple[int, ...], box: tuple[int, ...], coords: tuple[int, ...]
) -> None:
    tensor = np.arange(1, np.prod(shape) + 1, dtype=np.uint16).reshape(shape)
    warp = warp_with(tensor, box)
    load(warp, coords)
    start = coords[::-1]
    expected = [
        element(tensor, tuple(s + k for s, k in zip(start, at, strict=True)))
        for at in product(*(range(n) for n in box))
    ]
    assert smem(warp, TILE, len(expected), "u2").tolist() == expected


@pytest.mark.parametrize(("swizzle", "span", "shift"), [("32B", 32, 1), ("64B", 64, 2), ("128B", 128, 3)])
def test_a_swizzle_moves_sixteen_byte_chunks_by_absolute_address(swizzle: str, span: int, shift: int) -> None:
    columns = span // 2
    tensor = np.arange(1, 16 * columns + 1, dtype=np.uint16).reshape(16, columns)
    warp = warp_with(tensor, (16, columns), swizzle=swizzle)
    target = TILE + 128
    load(warp, (0, 0), target)
    for row, column in product(range(16), range(columns)):
        plain = target + row * span + column * 2
        chunk_bits = (plain >> 7) & ((1 << shift) - 1)
        assert smem(warp, plain ^ (chunk_bits << 4), 1, "u2")[0] == tensor[row, column]


def test_the_whole_box_is_counted_also_where_it_is_outside() -> None:
    warp = warp_with(np.ones((4, 16), np.uint16), (4, 16))
    act(warp, "mbarrier.arrive.expect_tx.shared.b64", every(SMEM), every(4 * 32), lanes=ONE)
    load(warp, (0, 2))
    assert act(warp, "mbarrier.test_wait.parity.shared.b64", every(SMEM), every(0), lanes=ONE)[0]


def store(warp: Any, coords: tuple[int, ...], form: str = "") -> None:
    head = f"cp.{'reduce.' if form else ''}async.bulk.tensor.{len(coords)}d.global.shared::cta"
    spelling = ".".join(w for w in (head, form, "tile", "bulk_group") if w)
    act(warp, spelling, operand(warp, coords), every(TILE), None, lanes=ONE)


def test_a_store_drops_what_is_outside() -> None:
    warp = warp_with(np.zeros((3, 16), np.uint16), (2, 16))
    smem(warp, TILE, 32, "u2")[:] = np.arange(1, 33)
    store(warp, (8, 2))
    perform(warp.grid)
    expected = np.zeros((3, 16), int)
    expected[2, 8:] = np.arange(1, 9)
    assert array(warp, "tensor", "u2").reshape(3, 16).tolist() == expected.tolist()


def test_a_store_has_read_its_source_before_it_writes() -> None:
    warp = warp_with(np.zeros((2, 8), np.uint16), (2, 8))
    smem(warp, TILE, 16, "u2")[:] = 5
    store(warp, (0, 0))
    act(warp, "cp.async.bulk.commit_group", lanes=ONE)
    waiting = act(warp, "cp.async.bulk.wait_group.read", every(0), lanes=ONE)
    perform(warp.grid, stages=1)
    assert waiting.ready()
    smem(warp, TILE, 16, "u2")[:] = 6
    perform(warp.grid)
    assert array(warp, "tensor", "u2").tolist() == [5] * 16


@pytest.mark.parametrize(("form", "expected"), [("add", 7), ("min", 3), ("max", 4)])
def test_a_reduction_works_in_the_maps_type(form: str, expected: int) -> None:
    warp = warp_with(np.full((2, 8), 3, np.float16), (2, 8))
    smem(warp, TILE, 16, "f2")[:] = 4
    store(warp, (0, 0), form)
    perform(warp.grid)
    assert array(warp, "tensor", "f2").tolist() == [expected] * 16


def test_a_start_off_sixteen_bytes_is_a_fault() -> None:
    warp = warp_with(np.zeros((4, 32), np.uint16), (4, 16))
    with pytest.raises(KernelFault) as caught:
        load(warp, (3, 0))
    assert caught.value.rule == "TMA-ALIGN"


def test_bytes_that_are_no_map_are_a_fault() -> None:
    warp = warp_with(np.zeros((4, 32), np.uint16), (4, 16))
    array(warp, "map", "u1")[:] = 0xFF
    with pytest.raises(KernelFault) as caught:
        load(warp, (0, 0))
    assert caught.value.rule == "TMA-MAP"


def test_a_prefetch_touches_nothing() -> None:
    warp = warp_with(np.zeros((4, 32), np.uint16), (4, 16))
    version = warp.grid.version
    act(warp, "cp.async.bulk.prefetch.tensor.2d.L2.global", operand(warp, (0, 0)), None, None)
    assert warp.grid.version == version


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        (load_form(2) + ".multicast::cluster", "'.shared::cta' is not allowed with '.multicast::cluster'"),
        (load_form(1).replace("tile", "tile::gather4"), "'.1d' is not allowed with '.tile::gather4'"),
        (load_form(2).replace("tile", "im2col"), "'.2d' is not allowed with '.im2col'"),
        ("cp.async.bulk.tensor.2d.global.shared::cta", "lacks"),
        ("cp.async.bulk.tensor.3d.global.shared::cta.im2col.bulk_group", "im2col"),
    ],
)
def test_what_ptxas_refuses_is_refused_with_a_reason(spelling: str, words: str) -> None:
    assert words in refusal(spelling)


@pytest.mark.parametrize(
    "spelling",
    [
        "cp.async.bulk.tensor.mbarrier::complete_tx::bytes.shared::cta.2d.global",
        "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2.multicast::cluster",
    ],
)
def test_modifiers_change_places_freely(spelling: str) -> None:
    assert refusal(spelling) == ""


# ---------------------------------------------------------------- other modes
def test_an_im2col_load_takes_its_offsets_from_the_lane() -> None:
    tensor = np.arange(1, 1 + 2 * 4 * 5 * 8, dtype=np.uint16).reshape(2, 4, 5, 8)
    warp = one_warp(tensor=tensor, map=np.zeros(128, np.uint8))
    tmap = TensorMap(
        address(warp, "tensor"),
        "u16",
        tensor.shape[::-1],
        tensor.strides[:-1][::-1],
        (8, 5),
        (1, 1, 1, 1),
        mode="im2col",
        lower_corner=(0, 0),
        upper_corner=(-2, -1),
    )
    array(warp, "map", "u1")[:] = np.frombuffer(encode(tmap), np.uint8)
    act(warp, "mbarrier.init.shared.b64", every(SMEM), every(1), lanes=ONE)
    spelling = load_form(4).replace("tile", "im2col")
    offsets = (every(2, "u2"), every(1, "u2"))
    act(warp, spelling, every(TILE), operand(warp, (0, 1, 2, 0)), every(SMEM), offsets, None, None, lanes=ONE)
    perform(warp.grid)
    starts = [(1, 2, 0), (2, 2, 0), (0, 0, 1), (1, 0, 1), (2, 0, 1)]
    expected = [element(tensor, (n, h + 1, w + 2, c)) for w, h, n in starts for c in range(8)]
    assert smem(warp, TILE, 40, "u2").tolist() == expected


def test_gather4_and_scatter4_take_a_column_and_four_rows() -> None:
    tensor = np.arange(1, 8 * 16 + 1, dtype=np.uint16).reshape(8, 16)
    warp = warp_with(tensor, (1, 8))
    spelling = load_form(2).replace("tile", "tile::gather4")
    where = operand(warp, (8, 6, 1, 8, -1))
    act(warp, spelling, every(TILE), where, every(SMEM), None, None, None, lanes=ONE)
    perform(warp.grid)
    rows = [*tensor[6, 8:], *tensor[1, 8:], *[0] * 16]
    assert smem(warp, TILE, 32, "u2").tolist() == rows
    act(
        warp,
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group",
        operand(warp, (0, 3, 4, 5, 9)),
        every(TILE),
        None,
        lanes=ONE,
    )
    perform(warp.grid)
    expected = tensor.copy()
    expected[3, :8], expected[4, :8], expected[5, :8] = tensor[6, 8:], tensor[1, 8:], 0
    assert array(warp, "tensor", "u2").reshape(8, 16).tolist() == expected.tolist()
