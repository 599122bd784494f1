"""Several CTAs on one SM: what bounds how many, and the Tensor Memory they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell import arch
from drywell.base.errors import DeadlockError, LaunchError
from drywell.base.events import TmemAllocated
from drywell.base.options import Options
from drywell.machine.gmem import GlobalMemory
from drywell.machine.grid import Grid, Kernel
from drywell.machine.registers import RegisterLayout
from unit.engine.one_kernel import TID, Trace, built, launched

MEET = f"""{TID}
ld.param.u64 %o, [out];
setp.eq.u32 %p, %t, 0;
@%p red.global.add.u32 [%o], 1;
L: ld.acquire.gpu.global.u32 %v, [%o];
setp.lt.u32 %q, %v, NUMBER;
@%q bra L;"""
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [box], COLS;"
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
DEALLOC = "ld.shared.u32 %d, [box];\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, COLS;"


def resident(smem: int = 1024, threads: int = 32, registers: int | None = None, sms: int = 1) -> int:
    """Return how many of 200 CTAs are there at once."""
    kernel = Kernel("k", RegisterLayout((32,)), static_smem_bytes=smem, max_registers=registers)
    grid = Grid(
        kernel,
        gmem=GlobalMemory(),
        gpu=arch.load("b200"),
        grid_dim=(200, 1, 1),
        block_dim=(threads, 1, 1),
        options=Options(sms=sms),
    )
    return len(grid.admit())


def test_slots_threads_shared_memory_and_registers_bound_the_ctas_of_an_sm() -> None:
    assert resident() == 32
    assert resident(threads=1024) == 2
    assert resident(threads=256) == 8
    assert resident(smem=113 * 1024) == 2
    assert resident(smem=114 * 1024) == 1  # each CTA has 1 KiB of the system's beside its own
    assert resident(threads=256, registers=128) == 2
    assert resident(threads=1024, sms=3) == 6


def meet(number: int, **options: Any) -> int:
    out = np.zeros(1, np.uint32)
    launched(MEET.replace("NUMBER", str(number)), {"out": out}, grid=number, **options)
    return int(out[0])


def test_as_many_ctas_as_fit_can_wait_for_each_other() -> None:
    assert meet(2, block=1024, sms=1) == 2
    assert meet(4, block=32, sms=1, dynamic_smem=50_000) == 4


def test_one_more_is_reported_with_how_many_have_not_started() -> None:
    with pytest.raises(DeadlockError) as stuck:
        meet(3, block=1024, sms=1)
    assert "1 CTAs have not started: no room on the SM until others exit" in str(stuck.value)
    with pytest.raises(DeadlockError, match="2 CTAs have not started: no room on the 2 SMs"):
        meet(4, block=32, sms=2, dynamic_smem=200_000)


def test_a_cta_starts_when_another_has_exited() -> None:
    out = np.zeros(1, np.uint32)
    body = f"{TID}\nld.param.u64 %o, [out];\nsetp.eq.u32 %p, %t, 0;\n@%p red.global.add.u32 [%o], 1;"
    launched(body, {"out": out}, grid=9, block=1024, sms=1)
    assert int(out[0]) == 9


def test_a_cta_that_fits_on_no_sm_is_a_bad_launch() -> None:
    with pytest.raises(LaunchError, match="registers"):
        launched("mov.u32 %v, 1;", block=1024, directives=".maxnreg 96")


def allocations(body: str, cols: int, grid: int, **options: Any) -> list[tuple[int, int, bool]]:
    """Run CTAs on one SM; return what happened to columns, as (CTA, column, is given back)."""
    trace = Trace()
    built(body.replace("COLS", str(cols)), grid=grid, observers=(trace,), sms=1, **options).run()
    found = [e for e in trace.events if isinstance(e, TmemAllocated)]
    return [(e.agent.cta, e.column, e.is_free) for e in found]


@pytest.mark.parametrize("options", [{}, {"schedule": "lazy"}, {"schedule": "seeded", "seed": 3}])
def test_columns_are_the_sms_and_an_allocation_waits_for_them(options: dict[str, Any]) -> None:
    found = allocations(f"{ALLOC}\n{RELINQUISH}\n{DEALLOC}", 256, 5, **options)
    held: dict[int, int] = {}
    for cta, column, is_free in found:
        if is_free:
            assert held.pop(cta) == column
        else:
            assert column not in held.values()
            held[cta] = column
            assert len(held) <= 2
    assert held == {}
    assert sorted(cta for cta, _, is_free in found if not is_free) == list(range(5))


def test_without_giving_up_the_permit_ctas_come_one_by_one() -> None:
    found = allocations(f"{ALLOC}\n{DEALLOC}", 32, 4)
    assert [(cta, is_free) for cta, _, is_free in found] == [
        (cta, is_free) for cta in range(4) for is_free in (False, True)
    ]


def test_who_waits_for_columns_is_told_who_holds_them() -> None:
    body = f"""mov.u32 %t, %ctaid.x;
setp.ne.u32 %p, %t, 0;
ld.param.u64 %o, [out];
@%p bra SECOND;
{ALLOC.replace("COLS", "64")}
{RELINQUISH}
st.global.u32 [%o], 1;
bar.sync 1, 64;
SECOND: ld.acquire.gpu.global.u32 %v, [%o];
setp.eq.u32 %q, %v, 0;
@%q bra SECOND;
{ALLOC.replace("COLS", "512")}"""
    with pytest.raises(DeadlockError) as stuck:
        launched(body, {"out": np.zeros(1, np.uint32)}, grid=2, sms=1)
    text = str(stuck.value)
    assert "512 columns of Tensor Memory: 448 of 512 are free on the SM" in text
    assert "CTA 0,0,0 holds columns 0 to 63" in text
    assert "CTA 0,0,0 warp 0 at <string>:13:1 waits for barrier 1" in text


def test_ctas_on_their_own_sms_have_their_own_columns() -> None:
    trace = Trace()
    body = f"{ALLOC}\n{DEALLOC}".replace("COLS", "512")
    built(body, grid=3, observers=(trace,)).run()
    assert {e.sm for e in trace.events if isinstance(e, TmemAllocated)} == {0, 1, 2}
