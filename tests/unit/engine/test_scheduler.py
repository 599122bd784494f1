"""The schedules: what runs and performs when, what is repeatable, and how runs end early."""

from __future__ import annotations

import re
import signal
from typing import Any

import numpy as np
import pytest

from drywell.base.errors import BudgetError
from drywell.base.events import Access, Event, Issued, Performed
from unit.engine.one_kernel import OWN_WORD, TID, Trace, built, launched

RACE = f"""{TID}
{OWN_WORD}
atom.global.add.u32 %v, [%o], 1;
st.shared.u32 [box], %t;
ld.shared.u32 %w, [box];
mad.lo.u32 %v, %v, 1000, %w;
st.global.u32 [%a+4], %v;"""


def raced(seed: int) -> list[int]:
    out = np.zeros(257, np.uint32)
    launched(RACE, {"out": out}, grid=4, block=64, seed=seed)
    return out.tolist()


def test_a_seed_gives_the_same_run_every_time() -> None:
    assert raced(7) == raced(7)


def test_other_seeds_give_other_runs() -> None:
    assert len({tuple(raced(seed)) for seed in range(5)}) > 1


def events(seed: int | None, schedule: str = "seeded") -> list[Event]:
    trace = Trace()
    a, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    body = f"""{TID}
ld.param.u64 %s, [a];
{OWN_WORD}
mad.wide.u32 %s, %t, 4, %s;
mov.u32 %w, box;
mad.lo.u32 %w, %t, 4, %w;
cp.async.ca.shared.global [%w], [%s], 4;
cp.async.wait_all;
bar.sync 0;
ld.shared.u32 %v, [%w];
st.global.u32 [%a], %v;"""
    scheduler = built(
        body, {"a": a, "out": out}, block=64, observers=(trace,), schedule=schedule, seed=seed or 0
    )
    scheduler.run()
    return trace.events


def test_a_seed_gives_the_same_events_in_the_same_order() -> None:
    assert str(events(3)) == str(events(3))
    assert any(str(events(3)) != str(events(seed)) for seed in range(4, 9))


def kinds(found: list[Event]) -> list[str]:
    return [type(e).__name__ for e in found if isinstance(e, (Issued, Performed))]


def test_eager_performs_at_once_and_lazy_when_nobody_goes_on() -> None:
    assert kinds(events(None, "eager")) == ["Issued", "Performed"] * 2
    assert kinds(events(None, "lazy")) == ["Issued"] * 2 + ["Performed"] * 2


def test_lazy_leaves_the_write_until_after_the_wait_for_reading() -> None:
    trace = Trace()
    body = f"""{TID}
ld.param.u64 %o, [out];
mov.u32 %w, box;
mad.lo.u32 %i, %t, 4, %w;
st.shared.u32 [%i], 5;
setp.ne.u32 %p, %t, 0;
@%p ret;
cp.async.bulk.global.shared::cta.bulk_group [%o], [%w], 128;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
st.shared.u32 [box], 6;
cp.async.bulk.wait_group 0;"""
    out = np.zeros(32, np.uint32)
    built(body, {"out": out}, observers=(trace,), schedule="lazy").run()
    order = [
        (e.space, e.proxy, e.is_write)
        for e in trace.events
        if isinstance(e, Access) and e.space in ("shared", "global")
    ]
    assert order == [
        ("shared", "generic", True),
        ("shared", "async", False),
        ("shared", "generic", True),
        ("global", "async", True),
    ]


def test_lazy_does_not_perform_while_somebody_computes() -> None:
    trace = Trace()
    body = f"""{TID}
ld.param.u64 %s, [a];
setp.ge.u32 %p, %t, 32;
@%p bra COMPUTE;
cp.async.ca.shared.global [box], [%s], 4;
cp.async.wait_all;
ret;
COMPUTE: add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, 8000;
@%p bra COMPUTE;
st.shared.u32 [box+64], %i;"""
    built(body, {"a": np.zeros(4, np.uint32)}, block=64, observers=(trace,), schedule="lazy").run()
    seen = [e for e in trace.events if isinstance(e, (Performed, Access)) and e.span.line != 7]
    performed = next(k for k, e in enumerate(trace.events) if isinstance(e, Performed))
    stored = next(k for k, e in enumerate(trace.events) if isinstance(e, Access) and e.agent.warp == 1)
    assert seen
    assert stored < performed


ENDLESS = "L: add.u32 %v, %v, 1;\nst.shared.u32 [box], %v;\nbra L;"


@pytest.mark.parametrize("schedule", ["eager", "lazy", "seeded"])
def test_an_endless_kernel_stops_at_the_budget(schedule: str) -> None:
    with pytest.raises(BudgetError) as spent:
        launched(ENDLESS, block=64, max_instructions=5000, schedule=schedule)
    text = str(spent.value)
    assert "the budget of 5,000 warp instructions is spent" in text
    assert "CTA 0,0,0 warp 0 at <string>:" in text
    assert "CTA 0,0,0 warp 1 at <string>:" in text
    assert spent.value.result.executed == 5000
    assert spent.value.result.verdict == "budget"


def test_a_kernel_that_ends_with_its_budget_is_fine() -> None:
    assert launched("mov.u32 %v, 1;", max_instructions=2).executed == 2
    with pytest.raises(BudgetError):
        launched("mov.u32 %v, 1;", max_instructions=1)


def test_a_loop_on_the_clock_ends_in_the_budget() -> None:
    with pytest.raises(BudgetError):
        launched("L: mov.u32 %v, %clock_hi;\nsetp.eq.u32 %p, %v, 0;\n@%p bra L;", max_instructions=12_000)


def test_a_wait_that_is_counted_ends_in_the_budget() -> None:
    body = f"""{TID}
setp.ne.u32 %p, %t, 0;
@%p ret;
mbarrier.init.shared::cta.b64 [bar], 1;
W: add.u32 %i, %i, 1;
mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
@!%q bra W;"""
    with pytest.raises(BudgetError) as spent:
        launched(body, max_instructions=2000)
    text = str(spent.value)
    assert re.search(r"gave up waiting \d+ times, last for phase 0 \(parity 0\) of mbarrier bar ", text)
    assert "1 of 1 arrivals pending" in text


def test_what_was_written_before_the_budget_is_there() -> None:
    out = np.zeros(32, np.uint32)
    with pytest.raises(BudgetError):
        launched(f"{TID}\n{OWN_WORD}\nst.global.u32 [%a], 8;\n{ENDLESS}", {"out": out}, max_instructions=900)
    assert out.tolist() == [8] * 32


def test_an_interrupt_leaves_in_the_arrays_what_was_written(request: Any) -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    request.addfinalizer(lambda: signal.signal(signal.SIGALRM, before))
    out = np.zeros(32, np.uint32)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        launched(f"{TID}\n{OWN_WORD}\nst.global.u32 [%a], 8;\n{ENDLESS}", {"out": out})
    assert out.tolist() == [8] * 32


def test_operations_in_flight_are_performed_after_the_last_cta_has_ended() -> None:
    out = np.zeros(32, np.uint32)
    body = f"""{TID}
ld.param.u64 %o, [out];
mov.u32 %w, box;
mad.lo.u32 %i, %t, 4, %w;
st.shared.u32 [%i], %t;
setp.ne.u32 %p, %t, 0;
@%p ret;
cp.async.bulk.global.shared::cta.bulk_group [%o], [%w], 128;"""
    launched(body, {"out": out}, schedule="lazy")
    assert out.tolist() == list(range(32))


def test_a_lock_within_a_warp_and_between_warps_is_won_by_all() -> None:
    body = """ld.param.u64 %o, [out];
T: atom.global.cas.b32 %v, [%o], 0, 1;
setp.ne.u32 %p, %v, 0;
@%p bra T;
ld.global.u32 %w, [%o+4];
add.u32 %w, %w, 1;
st.global.u32 [%o+4], %w;
atom.global.exch.b32 %v, [%o], 0;"""
    for seed in range(3):
        out = np.zeros(2, np.uint32)
        launched(body, {"out": out}, block=8, grid=3, seed=seed)
        assert out.tolist() == [0, 24]
