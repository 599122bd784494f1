"""Warps take turns in compiled code as they do in the interpreter: waits, lanes that part, meet and end,
looks at the clock; and Python is asked a handful of times, not once per wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.errors import DrywellError
from drywell.engine.compiled_rounds import Rounds
from drywell.engine.native.turn_words import PAUSED
from unit.engine.one_kernel import OWN_WORD, TID, launched

WID = ".reg .b32 %wid, %n, %k, %c; .reg .pred %mine, %first, %done; shr.u32 %wid, %t, 5; mov.u32 %v, 0;"
INIT = """setp.ne.u32 %p, %t, 0; @%p bra READY;
mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [two], 1;
READY: bar.sync 0; mov.u32 %i, 0;"""


def _wait(barrier: str, parity: str, name: str) -> str:
    return f"{name}: mbarrier.try_wait.parity.shared.b64 %done, [{barrier}], {parity}; @!%done bra {name};"


ELECTED = f"""{INIT}
setp.ge.u32 %first, %wid, 1; @%first bra CONSUME;
.reg .b32 %lead; elect.sync %lead|%mine, 0xffffffff; @!%mine bra END;
PRODUCE: xor.b32 %n, %i, 1; {_wait("two", "%n", "E")}
mbarrier.arrive.shared.b64 _, [bar];
add.u32 %i, %i, 1; add.u32 %v, %v, %i; setp.lt.u32 %p, %i, 100; @%p bra PRODUCE; bra END;
CONSUME: and.b32 %n, %i, 1; {_wait("bar", "%n", "F")}
add.u32 %v, %v, %i; bar.sync 1, 32;
setp.eq.u32 %q, %t, 32; @%q mbarrier.arrive.shared.b64 _, [two];
add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 100; @%p bra CONSUME;
END: bar.warp.sync -1; bar.sync 0;"""

PROGRAMS = {
    "an elected lane and a warp take turns at two mbarriers": ELECTED,
    "named barriers in a loop": "mov.u32 %i, 0;\nL: bar.sync 0; add.u32 %v, %v, %i; bar.sync 1, 128;"
    " add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 60; @%p bra L;",
    "warps that arrive and one that waits": "setp.eq.u32 %first, %wid, 0; mov.u32 %i, 0;\n"
    "L: @%first bra S; barrier.arrive 2, 128; bar.sync 3; bra T;\nS: barrier.sync 2, 128; bar.sync 3;\n"
    "T: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 60; @%p bra L; mov.u32 %v, %i;",
    "halves of a warp at a named barrier": "and.b32 %n, %t, 16; setp.eq.u32 %mine, %n, 0; mov.u32 %i, 0;\n"
    "L: @%mine bra A; barrier.sync 1; bra B;\nA: barrier.sync 1;\nB: add.u32 %v, %v, %i;"
    " add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 60; @%p bra L;",
    "lanes that meet after different work": "and.b32 %n, %t, 3; mov.u32 %i, 0;\n"
    "L: mov.u32 %k, 0;\nM: add.u32 %k, %k, 1; add.u32 %v, %v, %k; setp.le.u32 %p, %k, %n; @%p bra M;\n"
    "bar.warp.sync -1; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 60; @%p bra L;",
    "lanes that meet by fours": "and.b32 %n, %t, 28; mov.u32 %w, 15; shl.b32 %w, %w, %n; mov.u32 %i, 0;\n"
    "and.b32 %k, %t, 1; setp.eq.u32 %mine, %k, 0;\n"
    "L: @%mine bra A; add.u32 %v, %v, 5; bar.warp.sync %w; bra B;\nA: add.u32 %v, %v, 7; bar.warp.sync %w;\n"
    "B: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 40; @%p bra L;",
    "lanes that leave one by one while others meet": "and.b32 %n, %t, 31; mov.u32 %i, 0;\n"
    "L: add.u32 %v, %v, 1; st.global.u32 [%a], %v; setp.eq.u32 %p, %i, %n; @%p exit;\n"
    "add.u32 %i, %i, 1; bar.warp.sync -1; bra L;",
    "warps that leave while others wait for all": "mov.u32 %i, 0; add.u32 %n, %wid, 1;\n"
    "mul.lo.u32 %n, %n, 9;\nL: add.u32 %v, %v, %i; bar.sync 0; add.u32 %i, %i, 1; st.global.u32 [%a], %v;"
    " setp.ge.u32 %p, %i, %n; @%p ret; bra L;",
    "a branch by an index": "mov.u32 %i, 0;\nL: and.b32 %n, %i, 1;\n"
    "T: .branchtargets X, Y;\nbrx.idx %n, T;\nX: add.u32 %v, %v, 3; bra Z;\nY: add.u32 %v, %v, 5;\n"
    "Z: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 50; @%p bra L;",
    "registers that move between warps": "mov.u32 %i, 0; setp.eq.u32 %first, %wid, 0;\n"
    "L: @%first bra G; setmaxnreg.dec.sync.aligned.u32 96; bar.sync 0; bar.sync 0;"
    " setmaxnreg.inc.sync.aligned.u32 128; bra B;\nG: bar.sync 0; setmaxnreg.inc.sync.aligned.u32 160;"
    " setmaxnreg.dec.sync.aligned.u32 128; bar.sync 0;\nB: add.u32 %i, %i, 1; add.u32 %v, %v, %i;"
    " setp.lt.u32 %p, %i, 30; @%p bra L;",
    "the clock between waits": "mov.u32 %i, 0;\nL: mov.u32 %k, %clock; add.u32 %v, %v, %k; bar.sync 0;"
    " add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 40; @%p bra L;",
    "waits that are given up and counted": f"""{INIT}
L: mbarrier.try_wait.parity.shared.b64 %done, [bar], 0; @%done bra X; add.u32 %v, %v, 1;
setp.lt.u32 %p, %v, 9; @%p bra L;
X:""",
    "nobody arrives": f"{INIT}\n{_wait('bar', '0', 'L')}",
    "one warp too few": "setp.eq.u32 %p, %wid, 3; @%p bra L; bar.sync 0;\nL: bar.sync 1;",
    "a collective in half a warp": "and.b32 %n, %t, 16; setp.eq.u32 %p, %n, 0; @%p bra L;\n"
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\nL: bar.sync 0;",
}


def _left(engine: str, body: str) -> tuple[Any, ...]:
    """Return what a run of four warps leaves: the result's numbers or the error's words, and the array."""
    out = np.zeros(128, np.uint32)
    whole = f"{TID}\n{OWN_WORD}\n{WID}\n{body}\nst.global.u32 [%a], %v;"
    try:
        result = launched(whole, {"out": out}, block=128, engine=engine, directives=".maxnreg 128")
    except DrywellError as error:
        return str(error), out.tolist()
    return result.executed, result.activity, out.tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_leaves_the_same_on_both_engines(name: str) -> None:
    expected = _left("interpreter", PROGRAMS[name])
    assert _left("jit", PROGRAMS[name]) == expected  # with places still to be compiled
    assert _left("jit", PROGRAMS[name]) == expected  # with all of them compiled


def _counted(body: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often Python took steps of a program that has run before."""
    _left("jit", body)
    told: list[int] = []
    inner = Rounds._by_hand

    def by_hand(self: Rounds, team: Any, why: int) -> None:
        told.append(why)
        inner(self, team, why)

    monkeypatch.setattr(Rounds, "_by_hand", by_hand)
    _left("jit", body)
    return len(told)


_IN_PYTHON = (
    "lanes that meet by fours",
    "registers that move between warps",
    "the clock between waits",
    "a collective in half a warp",
)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in _IN_PYTHON])
def test_python_is_asked_a_handful_of_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _counted(PROGRAMS[name], monkeypatch) <= 12


def test_rounds_come_back_so_that_signals_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "mov.u32 %i, 0;\nL: st.global.u32 [%a], %i; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 50000; @%p bra L;"
    )
    _left("jit", body)
    reasons: list[int] = []
    inner = Rounds._enter

    def enter(self: Rounds, team: Any) -> int:
        reasons.append(inner(self, team))
        return reasons[-1]

    monkeypatch.setattr(Rounds, "_enter", enter)
    _left("jit", body)
    assert reasons.count(PAUSED) > 5
