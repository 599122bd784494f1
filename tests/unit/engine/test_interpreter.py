"""The interpreter: outcomes under partial guards, the clock, counts, and who stands still."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.errors import KernelFault, UnsupportedError
from drywell.engine.scheduler import Scheduler
from drywell.engine.splits import WarpState
from unit.engine.one_kernel import OWN_WORD, TID, built, indices, launched


def words(count: int = 32) -> dict[str, np.ndarray[Any, Any]]:
    return {"out": np.zeros(count, np.uint32)}


def started(body: str, **more: Any) -> tuple[Scheduler, WarpState]:
    """Return a scheduler whose only CTA is resident, and its first warp."""
    scheduler = built(body, **more)
    scheduler._admit()
    return scheduler, scheduler.states[0]


def test_a_jump_of_some_lanes_divides_the_warp_and_the_rest_goes_on() -> None:
    body = "setp.eq.u32 %p, %t, %t;\n@%p bra END;\nmov.u32 %v, 1;\nEND: mov.u32 %w, 2;"
    scheduler, state = started(body)
    scheduler.interpreter.turn(state, 1)
    state.warp.values[indices(body)["%p"]][:] = np.arange(32) < 5
    scheduler.interpreter.turn(state, 1)
    assert {s.pc: int(s.mask.sum()) for s in state.splits} == {2: 27, 3: 5}
    scheduler.interpreter.turn(state, 1)
    assert {s.pc: int(s.mask.sum()) for s in state.splits} == {3: 32}


def test_an_exit_of_some_lanes_leaves_the_others() -> None:
    arrays = words()
    launched(f"{TID}\n{OWN_WORD}\nsetp.lt.u32 %p, %t, 9;\n@%p exit;\nst.global.u32 [%a], 1;", arrays)
    assert arrays["out"].tolist() == [0] * 9 + [1] * 23


def test_a_wait_of_some_lanes_lets_the_others_pass_and_all_meet_again() -> None:
    arrays = words()
    launched(
        f"""{TID}
{OWN_WORD}
setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [bar], 1;
bar.warp.sync -1;
setp.lt.u32 %q, %t, 4;
mov.u32 %v, 0;
setp.ne.u32 %p, %t, 31;
@%q bra WAITERS;
@!%p mbarrier.arrive.shared::cta.b64 _, [bar];
mov.u32 %v, 1;
bra JOIN;
WAITERS: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
@!%p bra WAITERS;
JOIN: activemask.b32 %w;
popc.b32 %w, %w;
mad.lo.u32 %v, %v, 100, %w;
st.global.u32 [%a], %v;""",
        arrays,
    )
    assert arrays["out"].tolist() == [32] * 4 + [132] * 28


def test_lanes_that_waited_apart_for_one_thing_go_on_together() -> None:
    arrays = words()
    launched(
        f"""{TID}
{OWN_WORD}
setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [bar], 1;
bar.warp.sync -1;
mov.u32 %v, 0;
setp.lt.u32 %q, %t, 16;
setp.eq.u32 %p, %t, 31;
@%q bra WAIT;
mov.u32 %i, 0;
@%p bra ARRIVE;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
@!%q bra WAIT;
activemask.b32 %v;
bra STORE;
ARRIVE: add.u32 %i, %i, 1;
setp.lt.u32 %q, %i, 9;
@%q bra ARRIVE;
mbarrier.arrive.shared::cta.b64 _, [bar];
STORE: st.global.u32 [%a], %v;""",
        arrays,
    )
    assert arrays["out"].tolist() == [0x7FFFFFFF] * 31 + [0]


def test_the_clock_counts_the_instructions_of_the_grid() -> None:
    scheduler, state = started("mov.u32 %t, 1;\nmov.u32 %t, 2;\nmov.u32 %v, %clock;\nmov.u32 %w, %clock;")
    scheduler.interpreter.turn(state, 100)
    assert [int(state.warp.values[k][0]) for k in (1, 2)] == [2, 3]
    assert scheduler.grid.clock == scheduler.interpreter.executed == 5


def test_fuel_ends_a_turn_and_the_next_one_goes_on() -> None:
    scheduler, state = started("mov.u32 %t, 1;\nmov.u32 %t, 2;\nmov.u32 %t, 3;")
    assert [scheduler.interpreter.turn(state, 2), int(state.warp.values[0][0])] == [2, 2]
    assert [scheduler.interpreter.turn(state, 100), int(state.warp.values[0][0])] == [2, 3]
    assert state.splits == []


def test_a_loop_that_changes_nothing_gives_its_turn_away() -> None:
    scheduler, state = started("L: ld.shared.u32 %v, [box];\nsetp.eq.u32 %p, %v, 0;\n@%p bra L;")
    assert scheduler.interpreter.turn(state, 1000) == 6
    assert state.is_still


def test_a_loop_that_counts_keeps_it() -> None:
    scheduler, state = started("L: add.u32 %v, %v, 1;\nsetp.lt.u32 %p, %v, 99;\n@%p bra L;")
    assert scheduler.interpreter.turn(state, 1000) == 99 * 3 + 1


@pytest.mark.parametrize(
    ("body", "expected"),
    {
        "a spin": ("L: ld.shared.u32 %v, [box];\nsetp.eq.u32 %p, %v, 0;\n@%p bra L;", True),
        "a spin of two phases": (
            "L: xor.b32 %w, %w, 1;\nld.shared.u32 %v, [box];\nsetp.eq.u32 %p, %v, 0;\n@%p bra L;",
            True,
        ),
        "a count": ("L: add.u32 %v, %v, 1;\nsetp.lt.u32 %p, %v, 50000;\n@%p bra L;", False),
        "a count in memory": (
            "L: ld.shared.u32 %v, [box];\nadd.u32 %v, %v, 1;\nst.shared.u32 [box], %v;\nbra L;",
            False,
        ),
        "a look at the clock": ("L: mov.u32 %v, %clock_hi;\nsetp.eq.u32 %p, %v, 0;\n@%p bra L;", False),
        "halves that spin apart": (
            "mov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 16;\n@%p bra M;\nL: bra L;\nM: bra M;",
            True,
        ),
        "a half that spins while the other counts": (
            "mov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 16;\n@%p bra M;\nL: bra L;\n"
            "M: add.u32 %v, %v, 1;\nsetp.lt.u32 %p, %v, 50000;\n@%p bra M;\nbra L;",
            False,
        ),
    }.values(),
)
def test_only_a_warp_that_comes_back_to_a_state_repeats_itself(body: str, expected: bool) -> None:
    scheduler, state = started(body)
    scheduler.interpreter.turn(state, 50)
    assert scheduler.interpreter.only_repeats(state, 2000) is expected


def test_a_fault_says_where_and_who() -> None:
    with pytest.raises(KernelFault) as raised:
        launched(f"{TID}\nsetp.gt.u32 %p, %t, 29;\n@%p st.shared.u32 [box+2], %t;")
    fault = raised.value
    assert (fault.rule, fault.span.line, fault.cta, fault.warp) == ("MISALIGNED", 8, (0, 0, 0), 0)
    assert fault.lanes == (30, 31)


def test_a_fault_while_waiting_is_at_the_wait() -> None:
    body = f"""{TID}
setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
setp.lt.u32 %p, %t, 32;
@%p bra WAIT;
mbarrier.inval.shared::cta.b64 [bar];
ret;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
@!%q bra WAIT;"""
    with pytest.raises(KernelFault) as raised:
        launched(body.replace("mbarrier.inval", "setp.eq.u32 %p, %t, 32;\n@%p mbarrier.inval"), block=64)
    assert (raised.value.rule, raised.value.span.line, raised.value.warp) == ("MBAR-UNINIT", 15, 0)


def test_a_function_that_nobody_provides_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="'mystery' is external"):
        launched("call mystery, ();", functions=".extern .func mystery();")
