from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unit.isa.one_cta import TILE, act, address, array, every, fault_of, one_warp, perform, refusal, smem

M32 = 0xFFFF_FFFF


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


MODEL = {
    "add.u32": lambda old, b: (old + b) & M32,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda old, b: min(old, b, key=signed),
    "max.s32": lambda old, b: max(old, b, key=signed),
    "and.b32": lambda old, b: old & b,
    "or.b32": lambda old, b: old | b,
    "xor.b32": lambda old, b: old ^ b,
    "exch.b32": lambda old, b: b,
    "inc.u32": lambda old, b: 0 if old >= b else old + 1,
    "dec.u32": lambda old, b: b if old == 0 or old > b else old - 1,
}


@pytest.mark.parametrize("operation", MODEL)
@settings(max_examples=20)
@given(
    memory=st.lists(st.integers(0, M32), min_size=4, max_size=4),
    values=st.lists(st.integers(0, M32) | st.integers(0, 3), min_size=32, max_size=32),
    slots=st.lists(st.integers(0, 3), min_size=32, max_size=32),
)
def test_lanes_act_one_after_the_other(
    operation: str, memory: list[int], values: list[int], slots: list[int]
) -> None:
    warp = one_warp(a=np.array(memory, np.uint32))
    where = address(warp, "a") + 4 * np.array(slots, np.uint64)
    old = act(warp, f"atom.global.{operation}", where, np.array(values, np.uint32), None)
    expected = []
    for value, slot in zip(values, slots, strict=True):
        expected.append(memory[slot])
        memory[slot] = MODEL[operation](memory[slot], value)
    assert old.tolist() == expected
    assert array(warp, "a", "u4").tolist() == memory


def test_one_lane_wins_a_compare_and_swap() -> None:
    warp = one_warp(a=np.zeros(1, np.uint64))
    mine = np.arange(1, 33, dtype=np.uint64)
    old = act(warp, "atom.relaxed.global.cas.b64", every(address(warp, "a"), "u8"), every(0, "u8"), mine)
    assert array(warp, "a", "u8").tolist() == [1]
    assert old.tolist() == [0] + [1] * 31


def test_128_bits_are_exchanged_as_one() -> None:
    warp = one_warp(a=np.array([3, 4], np.uint64))
    new = np.zeros(32, [("lo", "<u8"), ("hi", "<u8")])
    new["lo"], new["hi"] = 5, 6
    old = act(warp, "atom.global.exch.b128", every(address(warp, "a"), "u8"), new, None, lanes=(9,))
    assert (int(old["lo"][9]), int(old["hi"][9])) == (3, 4)
    assert array(warp, "a", "u8").tolist() == [5, 6]


def f32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


SUBNORMAL = 0x0000_1234


def test_f32_sums_flush_subnormals_in_global_memory() -> None:
    warp = one_warp(a=np.array([SUBNORMAL], np.uint32))
    act(warp, "red.global.add.f32", every(address(warp, "a"), "u8"), every(0), None, lanes=(0,))
    assert array(warp, "a", "u4").tolist() == [0]


@pytest.mark.parametrize("space", ["shared", ""])
def test_f32_sums_keep_subnormals_in_shared_memory(space: str) -> None:
    warp = one_warp()
    smem(warp, TILE, 1, "u4")[:] = SUBNORMAL
    where: Any = every(TILE) if space else every(0x7FFE_0000_0000 + TILE, "u8")
    act(warp, f"red{'.' + space if space else ''}.add.f32", where, every(0), None, lanes=(0,))
    assert smem(warp, TILE, 1, "u4").tolist() == [SUBNORMAL]


def test_f32_sums_round_once_per_lane_in_lane_order() -> None:
    values = np.full(32, 1e-8, np.float32)
    values[0] = 1.0
    warp = one_warp(a=np.zeros(1, np.float32))
    act(warp, "red.global.add.f32", every(address(warp, "a"), "u8"), values.view("u4"), None)
    total = np.float32(0)
    for value in values:
        total = np.float32(total + value)
    assert array(warp, "a", "f4")[0] == total


def test_a_vector_is_several_atomics() -> None:
    warp = one_warp(a=np.array([1, 2, 3, 4], np.float32))
    values = tuple(every(f32(x)) for x in (10.0, 20.0, 30.0, 40.0))
    old = act(warp, "atom.global.add.v4.f32", every(address(warp, "a"), "u8"), values, None, lanes=(3,))
    assert [int(o[3]) for o in old] == [f32(x) for x in (1.0, 2.0, 3.0, 4.0)]
    assert array(warp, "a", "f4").tolist() == [11.0, 22.0, 33.0, 44.0]


def test_packed_halves_are_combined_each_for_itself() -> None:
    warp = one_warp(a=np.array([1.5, -2.0, 8.0, 0.25], np.float16))
    values = tuple(every(int(np.array(pair, np.float16).view("u4")[0])) for pair in ([1, 1], [9, -1]))
    act(warp, "red.global.min.noftz.v2.f16x2", every(address(warp, "a"), "u8"), values, None, lanes=(0,))
    assert array(warp, "a", "f2").tolist() == [1.0, -2.0, 8.0, -1.0]


def test_an_asynchronous_reduction_comes_later() -> None:
    warp = one_warp(a=np.zeros(1, np.uint32))
    act(warp, "red.async.release.gpu.global.add.u32", every(address(warp, "a"), "u8"), every(2))
    assert array(warp, "a", "u4").tolist() == [0]
    perform(warp.grid)
    assert array(warp, "a", "u4").tolist() == [64]


def test_a_misaligned_atomic_is_a_fault() -> None:
    warp = one_warp(a=np.zeros(4, np.uint32))
    where = every(address(warp, "a") + 2, "u8")
    assert fault_of(warp, "atom.global.add.u32", where, every(1), None).rule == "MISALIGNED"


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("atom.global.add.s64", "'.s64' is not allowed with '.add'"),
        ("atom.global.add.f16", "'.f16' needs '.noftz'"),
        ("atom.global.min.noftz.f16x2", "only as vectors"),
        ("atom.shared.add.v2.f32", "'.shared' is not allowed with '.v2'"),
        ("atom.global.min.v2.u32", "have no vector form"),
        ("atom.global.cas.L2::cache_hint.b32", "'.L2::cache_hint'"),
        ("red.global.exch.b32", "'.exch'"),
        ("red.acquire.global.add.u32", "'.acquire'"),
    ],
)
def test_what_ptxas_refuses_is_refused_with_a_reason(spelling: str, words: str) -> None:
    assert words in refusal(spelling)
