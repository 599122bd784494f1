from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unit.isa.one_cta import (
    SMEM,
    TILE,
    act,
    address,
    array,
    every,
    fault_of,
    one_warp,
    perform,
    refusal,
    smem,
)

ONE = (0,)
LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"


def warp_with(**arrays: Any) -> Any:
    warp = one_warp(**arrays)
    act(warp, "mbarrier.init.shared.b64", every(SMEM), every(1), lanes=ONE)
    return warp


def is_over(warp: Any) -> bool:
    return bool(act(warp, "mbarrier.test_wait.parity.shared.b64", every(SMEM), every(0), lanes=ONE)[0])


def store(warp: Any, size: int = 32, mask: Any = None, form: str = STORE) -> None:
    sources = [every(address(warp, "a"), "u8"), every(TILE), every(size), None]
    act(warp, form, *sources, mask, lanes=ONE)


def test_a_load_brings_its_bytes_and_completes_them() -> None:
    warp = warp_with(a=np.arange(64, dtype=np.uint8))
    act(warp, "mbarrier.arrive.expect_tx.shared.b64", every(SMEM), every(48), lanes=ONE)
    act(
        warp,
        LOAD,
        every(TILE),
        every(address(warp, "a") + 16, "u8"),
        every(48),
        every(SMEM),
        None,
        None,
        lanes=ONE,
    )
    assert not is_over(warp)
    perform(warp.grid)
    assert is_over(warp)
    assert smem(warp, TILE, 64, "u1").tolist() == [*range(16, 64), *[0] * 16]


def test_a_store_reads_first_and_writes_later() -> None:
    warp = warp_with(a=np.zeros(32, np.uint8))
    smem(warp, TILE, 32, "u1")[:] = 7
    store(warp)
    act(warp, "cp.async.bulk.commit_group", lanes=ONE)
    read = act(warp, "cp.async.bulk.wait_group.read", every(0), lanes=ONE)
    whole = act(warp, "cp.async.bulk.wait_group", every(0), lanes=ONE)
    perform(warp.grid, stages=1)
    assert (read.ready(), whole.ready()) == (True, False)
    smem(warp, TILE, 32, "u1")[:] = 9
    assert not array(warp, "a", "u1").any()
    perform(warp.grid)
    assert whole.ready()
    assert array(warp, "a", "u1").tolist() == [7] * 32


def test_a_byte_mask_lets_the_same_bytes_of_each_sixteen_through() -> None:
    warp = warp_with(a=np.zeros(32, np.uint8))
    smem(warp, TILE, 32, "u1")[:] = np.arange(1, 33)
    store(warp, mask=every(0x8001, "u2"), form=STORE + ".cp_mask")
    perform(warp.grid)
    assert np.flatnonzero(array(warp, "a", "u1")).tolist() == [0, 15, 16, 31]


@pytest.mark.parametrize(
    ("form", "dtype", "memory", "brought", "expected"),
    [
        ("add.u32", "u4", [1, 2**32 - 1, 5, 0], [1, 1, 2, 0], [2, 0, 7, 0]),
        ("max.s32", "i4", [-5, 3, 0, 9], [-6, 4, -1, 10], [-5, 4, 0, 10]),
        (
            "add.noftz.f16",
            "f2",
            [1, 2, 3, 4, 5, 6, 7, 8],
            [0.5] * 8,
            [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5],
        ),
        ("inc.u32", "u4", [3, 4, 5, 0], [4, 4, 4, 0], [4, 0, 0, 0]),
        ("xor.b64", "u8", [0xF0, 1], [0xFF, 1], [0x0F, 0]),
    ],
)
def test_a_reduction_combines_element_by_element(
    form: str, dtype: str, memory: list[Any], brought: list[Any], expected: list[Any]
) -> None:
    warp = warp_with(a=np.array(memory, dtype))
    smem(warp, TILE, len(brought), dtype)[:] = brought
    spelling = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{form}"
    act(warp, spelling, every(address(warp, "a"), "u8"), every(TILE), every(16), None, lanes=ONE)
    perform(warp.grid)
    assert array(warp, "a", dtype).tolist() == expected


def test_every_lane_issues_an_operation_of_its_own() -> None:
    warp = warp_with(a=np.zeros(64, np.uint8))
    act(warp, STORE, every(address(warp, "a"), "u8"), every(TILE), every(16), None, None, lanes=(0, 1, 2))
    assert len(warp.grid.pending) == 3


@pytest.mark.parametrize("wrong", ["destination", "source", "size"])
def test_what_is_off_sixteen_bytes_is_a_fault(wrong: str) -> None:
    warp = warp_with(a=np.zeros(64, np.uint8))
    off = dict.fromkeys(("destination", "source", "size"), 0) | {wrong: 8}
    where = every(address(warp, "a") + off["source"], "u8")
    sources = (every(TILE + off["destination"]), where, every(16 + off["size"]), every(SMEM), None, None)
    fault = fault_of(warp, LOAD, *sources, lanes=ONE)
    assert fault.rule == "TMA-ALIGN"
    assert wrong in fault.detail


def test_a_load_past_an_array_names_it_when_it_performs() -> None:
    warp = warp_with(weights=np.zeros(16, np.uint8))
    where = every(address(warp, "weights"), "u8")
    act(warp, LOAD, every(TILE), where, every(32), every(SMEM), None, None, lanes=ONE)
    with pytest.raises(Exception, match="weights") as caught:
        perform(warp.grid)
    assert caught.value.rule == "GMEM-OOB"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("cp.async.bulk.shared.global.mbarrier::complete_tx::bytes", "shared"),
        (LOAD + ".multicast::cluster", "'.shared::cta' is not allowed with '.multicast::cluster'"),
        ("cp.async.bulk.global.shared::cta", "lacks"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16", "'.noftz'"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64", "'.s64'"),
        ("cp.async.commit_group.bulk", "bulk"),
    ],
)
def test_what_ptxas_refuses_is_refused_with_a_reason(spelling: str, words: str) -> None:
    assert words in refusal(spelling)
