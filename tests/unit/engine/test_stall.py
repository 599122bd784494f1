"""Reports of runs in which nobody can go on."""

from __future__ import annotations

from typing import Any

import pytest

from drywell.base.errors import DeadlockError, KernelFault
from unit.engine.one_kernel import TID, launched

INIT = f"""{TID}
setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra W;"


def report(body: str, **options: Any) -> str:
    with pytest.raises(DeadlockError) as stuck:
        launched(body, **options)
    return str(stuck.value)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "seeded"])
def test_a_missing_arrival_names_barrier_phase_and_line(schedule: str) -> None:
    body = f"{INIT}\nsetp.lt.u32 %p, %t, 32;\n@%p bra W;\nsetp.gt.u32 %p, %t, 99;\n"
    body += f"@%p mbarrier.arrive.shared::cta.b64 _, [bar];\nret;\n{WAIT}"
    text = report(body, block=64, schedule=schedule)
    assert "error[DEADLOCK]" in text
    assert "CTA 0,0,0 warp 0 at <string>:15:4 waits for phase 0 (parity 0) of mbarrier bar " in text
    assert "1 of 1 arrivals pending" in text
    assert "bar: what should have arrived:\n    line 13, mbarrier.arrive" in text


def test_a_line_whose_guard_failed_has_been_executed() -> None:
    body = f"{INIT}\nsetp.gt.u32 %q, %t, 99;\n@%q mbarrier.arrive.shared::cta.b64 _, [bar];\n{WAIT}"
    assert "line 11, mbarrier.arrive: " in report(body)


def test_ctas_that_stand_alike_are_told_of_once() -> None:
    text = report(f"{INIT}\n{WAIT}\nret;", grid=4)
    assert text.count("waits for phase 0 (parity 0) of mbarrier bar ") == 1
    assert "  the same in CTA 1,0,0 to 3,0,0\n" in text


def test_a_cta_that_stands_elsewhere_is_told_of_itself() -> None:
    other = "mov.u32 %t, %ctaid.x;\nsetp.eq.u32 %p, %t, 1;\n@%p bar.sync 1, 64;"
    text = report(f"{INIT}\n{other}\n{WAIT}\nret;", grid=4)
    assert "CTA 1,0,0 warp 0 at <string>:12:5 waits for barrier 1" in text
    assert "  the same in CTA 2,0,0 to 3,0,0\n" in text


def test_lanes_of_a_warp_are_named_when_they_stand_apart() -> None:
    text = report(f"{INIT}\nsetp.lt.u32 %p, %t, 3;\n@%p bra W;\nbar.sync 1;\n{WAIT}\nret;")
    assert "warp 0 lanes 0-2 at <string>:13:4 waits for phase 0" in text
    assert "warp 0 lanes 3-31 at <string>:12:1 waits for barrier 1" in text or "lanes 3-31" in text


def test_a_collective_that_waits_for_a_lane_that_waits_for_a_barrier_is_not_the_cause() -> None:
    body = f"""{INIT}
setp.ne.u32 %p, %t, 0;
@%p bra END;
{WAIT}
END: setmaxnreg.dec.sync.aligned.u32 24;"""
    text = report(body)
    assert "warp 0 lane 0 at <string>:12:4 waits for phase 0 (parity 0) of mbarrier bar" in text
    assert "lanes 1-31 at <string>:14:6 waits for the other lanes of its warp, which are at line 12" in text


def test_two_collectives_that_wait_for_each_other_are_a_fault() -> None:
    body = f"""{TID}
setp.lt.u32 %p, %t, 16;
@%p bra A;
setmaxnreg.dec.sync.aligned.u32 24;
ret;
A: setmaxnreg.dec.sync.aligned.u32 32;"""
    with pytest.raises(KernelFault) as raised:
        launched(body)
    assert (raised.value.rule, raised.value.span.line) == ("ALIGNED-DIVERGENT", 11)
    assert raised.value.lanes == tuple(range(16))
    assert "lanes 16-31 are at line 9" in raised.value.detail


def test_who_spins_is_a_livelock() -> None:
    text = report("L: ld.shared.u32 %v, [box];\nsetp.eq.u32 %p, %v, 0;\n@%p bra L;\n", block=64)
    assert "error[LIVELOCK-SPIN]" in text
    assert "warp 0, warp 1 at <string>" in text
    assert "something in memory to change (it spins)" in text


def test_bytes_that_never_come_are_counted() -> None:
    body = f"{INIT}\n@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\n{WAIT}"
    text = report(body)
    assert "0 of 1 arrivals pending, 256 bytes of tx outstanding" in text


def test_registers_that_nobody_gives_up() -> None:
    text = report("setmaxnreg.inc.sync.aligned.u32 88;", block=128, directives=".maxnreg 80")
    assert "registers of the CTA's pool, to go from 80 to 88 per thread; 0 are free" in text


def test_a_round_that_never_begins_has_a_hint_about_the_first_parity() -> None:
    body = f"""{TID}
setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [bar], 1;
@%p mbarrier.init.shared::cta.b64 [two], 1;
bar.sync 0;
setp.ge.u32 %p, %t, 32;
@%p bra U;
{WAIT}
mbarrier.arrive.shared::cta.b64 _, [two];
ret;
U: mbarrier.try_wait.parity.shared::cta.b64 %q, [two], 0;
@!%q bra U;
mbarrier.arrive.shared::cta.b64 _, [bar];
ret;"""
    text = report(body, block=64)
    said = text.splitlines()[-1]
    hint = "  hint: nothing has come to any of these mbarriers: if line 13 or 17 is the first wait"
    assert said.startswith(hint)
