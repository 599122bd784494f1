"""Tensor Memory: the allocator's rules and access checks."""

from __future__ import annotations

import numpy as np
import pytest

from drywell.base.errors import KernelFault
from drywell.machine.outcome import Wait
from drywell.machine.tmem import POISON


def warp(grid, cta: int = 0, index: int = 0):
    return grid.clusters[cta].ctas[0].warps[index]


class Slot(list):
    """Takes what alloc stores."""

    __call__ = list.append


def alloc(m, num_cols: int) -> int:
    slot = Slot()
    assert m.sm.tmem.alloc(m, slot, num_cols) is None
    return slot[-1]


def test_bases_are_lowest_first_and_aligned_to_their_size(launch) -> None:
    m = warp(launch())
    assert [alloc(m, n) for n in (128, 64, 64, 32)] == [0, 128, 192, 256]
    m.sm.tmem.dealloc(m, 0, 128)
    assert [alloc(m, 32), alloc(m, 32)] == [0, 32]
    assert m.sm.tmem.sm_map == 0b1_1111_0011


def test_random_bases_are_aligned_and_follow_the_seed(launch) -> None:
    def bases(seed: int) -> list[int]:
        m = warp(launch(tmem_base="random", seed=seed))
        return [alloc(m, 64) for _ in range(6)]

    assert bases(1) == bases(1)
    assert any(bases(seed) != bases(1) for seed in range(2, 6))
    for seed in range(5):
        found = bases(seed)
        assert len(set(found)) == 6 and all(b % 64 == 0 for b in found)


@pytest.mark.parametrize("num_cols", [0, 16, 31, 48, 96, 384, 1024])
def test_a_column_count_from_a_register_must_be_legal(launch, faults, num_cols: int) -> None:
    m = warp(launch())
    fault = faults("ALLOC-SIZE", m.sm.tmem.alloc, m, Slot(), num_cols)
    assert f"of {num_cols} columns: it must be 32, 64, 128, 256 or 512" in fault.detail


def test_sizes_must_not_grow(launch, faults) -> None:
    m = warp(launch())
    alloc(m, 128)
    fault = faults("ALLOC-GROW", m.sm.tmem.alloc, m, Slot(), 256)
    assert fault.detail == "tcgen05.alloc of 256 columns after one of 128: sizes must not grow"
    m.sm.tmem.dealloc(m, 0, 128)
    faults("ALLOC-GROW", m.sm.tmem.alloc, m, Slot(), 256)


def test_dealloc_of_the_upper_half_is_no_base(launch, faults) -> None:
    m = warp(launch())
    base = alloc(m, 64)
    fault = faults("FREE-NOT-BASE", m.sm.tmem.dealloc, m, base + 32, 32)
    assert "no tcgen05.alloc returned that column; holds columns 0 to 63" in fault.detail


def test_dealloc_faults(launch, faults) -> None:
    m = warp(launch())
    base = alloc(m, 64)
    dealloc = m.sm.tmem.dealloc
    assert "that allocation has 64 columns" in faults("FREE-SIZE", dealloc, m, base, 32).detail
    assert "must be 32, 64" in faults("FREE-SIZE", dealloc, m, base, 96).detail
    double = faults("ALLOC-DOUBLE-FREE", dealloc, m, base, 128)
    assert "column 64 is not allocated to the CTA, which holds columns 0 to 63" in double.detail
    dealloc(m, base | 0x0020_0005, 64)
    again = faults("ALLOC-DOUBLE-FREE", dealloc, m, base, 64)
    assert "column 0 is not allocated to the CTA, which holds no columns" in again.detail


def test_alloc_after_relinquish_stores_ones_and_faults(launch, faults) -> None:
    m = warp(launch())
    alloc(m, 32)
    m.sm.tmem.relinquish(m)
    slot = Slot()
    fault = faults("ALLOC-AFTER-RELINQUISH", m.sm.tmem.alloc, m, slot, 32)
    assert slot == [0xFFFFFFFF] and "0xFFFFFFFF is stored" in fault.detail
    m.sm.tmem.dealloc(m, 0, 32)


def test_exit_with_columns_is_a_leak(launch, faults) -> None:
    m = warp(launch())
    alloc(m, 64)
    fault = faults("ALLOC-LEAK", m.exit_lanes, m.live.copy())
    assert fault.detail == "the CTA exits and holds columns 0 to 63 of Tensor Memory"
    assert fault.cta == (0, 0, 0)


def test_exit_without_columns_is_clean(launch) -> None:
    m = warp(launch())
    alloc(m, 64)
    m.sm.tmem.dealloc(m, 0, 64)
    m.exit_lanes(m.live.copy())
    assert m.cta.has_exited and m.grid.is_done and m.sm.tmem.permit is None


def test_the_permit_keeps_others_out_until_it_is_given_up(launch) -> None:
    grid = launch(grid=(2, 1, 1), sms=1)
    a, b = warp(grid, 0), warp(grid, 1)
    assert a.sm is b.sm
    alloc(a, 128)
    slot = Slot()
    wait = b.sm.tmem.alloc(b, slot, 128)
    assert isinstance(wait, Wait) and not wait.ready() and wait.reason.kind == "tmem_alloc"
    assert wait.reason.describe() == (
        "the allocation permit, to take 128 columns of Tensor Memory: CTA 0,0,0 on the same SM must"
        " relinquish it or exit"
    )
    a.sm.tmem.relinquish(a)
    assert wait.ready()
    wait.then()
    assert slot == [128]


def test_alloc_blocks_until_columns_are_free(launch) -> None:
    grid = launch(grid=(2, 1, 1), sms=1)
    a, b = warp(grid, 0), warp(grid, 1)
    alloc(a, 512)
    a.sm.tmem.relinquish(a)
    slot = Slot()
    wait = b.sm.tmem.alloc(b, slot, 32)
    assert not wait.ready()
    assert wait.reason.describe() == (
        "32 columns of Tensor Memory: 0 of 512 are free on the SM; CTA 0,0,0 holds columns 0 to 511"
    )
    a.sm.tmem.dealloc(a, 0, 512)
    assert wait.ready()
    wait.then()
    assert slot == [0]


def test_ctas_of_different_sms_have_their_own_columns(launch) -> None:
    grid = launch(grid=(2, 1, 1))
    assert [alloc(warp(grid, 0), 512), alloc(warp(grid, 1), 512)] == [0, 0]


def test_fresh_cells_are_poison_and_written_ones_are_known(launch) -> None:
    m = warp(launch())
    tmem = m.sm.tmem
    base = alloc(m, 32)
    lanes, cols = np.arange(32)[:, None], np.arange(base, base + 4)
    assert (tmem.read(m, lanes, cols) == POISON).all()
    values = np.arange(128, dtype=np.uint32).reshape(32, 4)
    tmem.write(m, lanes, cols, values)
    assert tmem.read(m, lanes, cols).tolist() == values.tolist()
    assert tmem.is_written(lanes, cols) and not tmem.is_written(lanes, cols + 1)
    assert tmem.block(m, 0, 32, base, 4).tolist() == values.tolist()
    tmem.block(m, 96, 32, base, 1, write=True)[:] = 7
    assert tmem.is_written(np.arange(96, 128), np.array(base))
    tmem.dealloc(m, base, 32)
    assert alloc(m, 32) == base
    assert not tmem.is_written(lanes, cols) and (tmem.cells[:, base] == POISON).all()


def test_the_poison_is_a_nan_in_every_float_format() -> None:
    word = np.array([POISON], np.uint32)
    assert np.isnan(word.view(np.float32)).all() and np.isnan(word.view(np.float16)).all()
    assert POISON & 0x7F80_7F80 == 0x7F80_7F80 and POISON & 0x7F


def test_fresh_cells_can_be_zero(launch) -> None:
    m = warp(launch(tmem_fresh="zero"))
    alloc(m, 32)
    assert not m.sm.tmem.cells[:, :32].any()
    assert m.sm.tmem.is_written(np.arange(128), np.array(0))


def test_access_outside_the_allocation_faults(launch, faults) -> None:
    m = warp(launch())
    tmem = m.sm.tmem
    none = faults("TMEM-NO-ALLOC", tmem.block, m, 0, 32, 0, 4)
    assert none.detail == "read of columns 0 to 3, which the CTA has not allocated: it holds no columns"
    alloc(m, 64)
    past = faults("TMEM-COL-OOB", tmem.block, m, 0, 32, 62, 4, write=True)
    assert past.detail == (
        "write of columns 62 to 65 runs past what the CTA has allocated: it holds columns 0 to 63"
    )
    faults("TMEM-NO-ALLOC", tmem.check, m, 64, 1)
    faults("TMEM-LANE-OOB", tmem.block, m, 100, 32, 0, 4)
    faults("TMEM-COL-OOB", tmem.read, m, np.arange(2), np.array([60, 64]))


def test_columns_do_not_wrap(launch, faults) -> None:
    m = warp(launch())
    alloc(m, 512)
    m.sm.tmem.check(m, 508, 4)
    fault = faults("TMEM-COL-OOB", m.sm.tmem.check, m, 510, 4)
    assert fault.detail == "access of columns 510 to 513: Tensor Memory has columns 0 to 511"


def test_another_cta_s_columns_are_not_ours(launch, faults) -> None:
    grid = launch(grid=(2, 1, 1), sms=1)
    a, b = warp(grid, 0), warp(grid, 1)
    alloc(a, 64)
    faults("TMEM-NO-ALLOC", b.sm.tmem.check, b, 0, 1)


def test_the_lane_window_of_a_warp(launch, faults) -> None:
    m = warp(launch(block=96, tmem_lane_window="error"), index=2)
    assert m.sm.tmem.lane_of(m, 64 << 16) == 64
    fault = faults("TMEM-LANE-WINDOW", m.sm.tmem.lane_of, m, 5)
    assert fault.detail == (
        "address 0x00000005 names lane 0, and warp 2 reaches lanes 64 to 95 only (warp index modulo 4)"
    )
    lenient = warp(launch(block=96), index=2)
    assert [lenient.sm.tmem.lane_of(lenient, lane << 16) for lane in (0, 16, 64)] == [64, 80, 64]


def test_a_fault_knows_its_warp_and_place(launch) -> None:
    m = warp(launch(block=64), index=1)
    with pytest.raises(KernelFault) as caught:
        m.sm.tmem.check(m, 0, 1)
    fault = caught.value
    assert (fault.cta, fault.warp, str(fault.span), len(fault.lanes)) == ((0, 0, 0), 1, "k.ptx:7:3", 32)
