from __future__ import annotations

import numpy as np
import pytest

from unit.isa.one_cta import SMEM, TILE, act, address, array, every, fault_of, one_warp, refusal, smem

LANE = np.arange(32, dtype=np.uint64)


def test_each_lane_loads_its_own_element() -> None:
    values = np.arange(64, dtype=np.uint16) * 7
    warp = one_warp(a=values)
    got = act(warp, "ld.global.u16", address(warp, "a") + 2 * LANE[::-1], None)
    assert got.tolist() == [int(values[31 - k]) for k in range(32)]


def test_a_vector_load_returns_its_elements_in_order() -> None:
    values = np.arange(128, dtype=np.uint32)
    warp = one_warp(a=values)
    got = act(warp, "ld.global.v4.b32", address(warp, "a") + 16 * LANE, None)
    assert [g[5] for g in got] == [20, 21, 22, 23]


def test_256_bits_move_in_one_access() -> None:
    values = np.arange(256, dtype=np.uint32)
    warp = one_warp(a=values, b=np.zeros(256, np.uint32))
    got = act(warp, "ld.global.v8.b32", address(warp, "a") + 32 * LANE, None)
    act(warp, "st.global.v8.b32", address(warp, "b") + 32 * LANE, tuple(got), None)
    assert array(warp, "b", "u4").tolist() == values.tolist()


def test_a_256_bit_store_leaves_the_sunk_elements_alone() -> None:
    warp = one_warp(a=np.full(8, 9, np.uint32))
    values = (every(1), None, every(3), None, None, every(6), every(7), None)
    act(warp, "st.global.v8.b32", every(address(warp, "a"), "u8"), values, None, lanes=(0,))
    assert array(warp, "a", "u4").tolist() == [1, 9, 3, 9, 9, 6, 7, 9]


def test_128_bit_values_keep_their_halves() -> None:
    values = np.arange(64, dtype=np.uint64)
    warp = one_warp(a=values)
    got = act(warp, "ld.global.b128", address(warp, "a") + 16 * LANE, None)
    assert (int(got["lo"][3]), int(got["hi"][3])) == (6, 7)


def test_a_store_cuts_a_wider_register_down() -> None:
    warp = one_warp(a=np.zeros(32, np.uint8))
    act(warp, "st.global.b8", address(warp, "a") + LANE, every(0x1234567F), None)
    assert array(warp, "a", "u1").tolist() == [0x7F] * 32


def test_only_active_lanes_store() -> None:
    warp = one_warp(a=np.zeros(32, np.uint32))
    act(warp, "st.global.b32", address(warp, "a") + 4 * LANE, every(9), None, lanes=(1, 30))
    assert np.flatnonzero(array(warp, "a", "u4")).tolist() == [1, 30]


def test_shared_memory_is_addressed_in_its_window() -> None:
    warp = one_warp()
    where = (SMEM + 8 * LANE).astype(np.uint32)
    act(warp, "st.shared.v2.b32", where, (every(1), np.arange(32, dtype=np.uint32)), None)
    assert act(warp, "ld.shared.b64", where, None)[7] == 7 << 32 | 1


@pytest.mark.parametrize("spelling", ["ld.global.b32", "ld.relaxed.gpu.global.b32", "ld.global.nc.b32"])
def test_a_load_past_an_array_names_it(spelling: str) -> None:
    warp = one_warp(weights=np.zeros(8, np.uint32))
    fault = fault_of(warp, spelling, address(warp, "weights") + 4 * LANE, None)
    assert fault.rule == "GMEM-OOB"
    assert "weights" in fault.detail


def test_a_misaligned_vector_is_a_fault() -> None:
    warp = one_warp(a=np.zeros(256, np.uint32))
    fault = fault_of(warp, "ld.global.v4.b32", address(warp, "a") + 8 + 16 * LANE, None, lanes=(0,))
    assert fault.rule == "MISALIGNED"


def test_st_bulk_clears_exactly_its_bytes() -> None:
    warp = one_warp()
    smem(warp, TILE, 64, "u1")[:] = 0xFF
    act(warp, "st.bulk.shared::cta", every(TILE + 8), every(24, "u8"), every(0, "u8"), lanes=(0,))
    cleared = smem(warp, TILE, 64, "u1")
    assert np.flatnonzero(cleared == 0).tolist() == list(range(8, 32))


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("ld.relaxed.global.b32", "'.relaxed' needs '.cta', '.cluster', '.gpu' or '.sys'"),
        ("ld.gpu.global.b32", "'.gpu' is not allowed with a form without a 'sem' modifier"),
        ("ld.shared.nc.b32", "'.nc'"),
        ("ld.shared.v8.b32", "only global memory"),
        ("ld.global.v4.b128", "512 bits"),
        ("ld.global.L2::evict_last.b32", "256-bit"),
        ("ld.volatile.global.ca.b32", "'.ca' is not allowed with '.volatile'"),
        ("ld.global.global.b32", "'.global' is not a modifier of 'ld' here"),
        ("st.const.b32", "'.const'"),
    ],
)
def test_what_ptxas_refuses_is_refused_with_a_reason(spelling: str, words: str) -> None:
    assert words in refusal(spelling)


@pytest.mark.parametrize("spelling", ["ld.b32.global", "ld.v2.ca.global.b32", "st.gpu.release.global.u8"])
def test_modifiers_change_places_freely(spelling: str) -> None:
    assert refusal(spelling) == ""
