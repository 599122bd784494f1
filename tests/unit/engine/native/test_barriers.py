"""Named barriers of several warps: the native form and the interpreter's rounds stand for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unit.engine.native.agreement import agree
from unit.engine.one_kernel import launched

HEAD = """
.reg .b32 %wid, %n, %c; .reg .pred %mine, %first;
mov.u32 %t, %tid.x; shr.u32 %wid, %t, 5; setp.eq.u32 %first, %wid, 0;
"""
PROGRAMS = {
    "all": "bar.sync 0; bar.sync 0; bar.sync 3;",
    "all with their number": "bar.sync 1, 128; bar.sync 1;",
    "halves": "shr.u32 %n, %wid, 1; add.u32 %n, %n, 2; bar.sync %n, 64; bar.sync %n, 64; bar.sync 0;",
    "a single warp": "add.u32 %n, %wid, 1; bar.sync %n, 32; bar.sync %n, 32;",
    "arrivals": "@%first bra S; bar.arrive 5, 128; bra E;\nS: bar.sync 5, 128;\nE: bar.sync 0;",
    "with reductions": "bar.sync 4; bar.red.popc.u32 %v, 4, %first; bar.sync 4;",
    "one ends before": "@%first ret; bar.sync 0; bar.sync 0;",
    "one ends while others wait": "@!%first bra W; mov.u32 %i, 0;\nL: add.u32 %i, %i, 1; setp.lt.u32 %p, %i,"
    " 3000; @%p bra L; ret;\nW: bar.sync 0; bar.sync 0;",
    "lanes that come apart": "and.b32 %i, %t, 1; setp.eq.u32 %p, %i, 0; @%p bra X; barrier.sync 2; bra Y;\n"
    "X: barrier.sync 2;\nY: bar.sync 0;",
    "lanes that disagree": "and.b32 %n, %t, 1; bar.sync %n;",
    "two counts": "@%first bra T; bar.sync 6, 128; ret;\nT: bar.sync 6, 96;",
    "no such barrier": "mov.u32 %n, 16; bar.sync %n;",
    "an odd count": "mov.u32 %c, 100; bar.sync 0, %c;",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_four_warps_leaves_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"block": 128, "engine": "interpreter", "schedule": "eager"}
    body = HEAD + PROGRAMS[name]
    out = np.zeros(128, np.uint32)
    agree(lambda: launched(body, {"out": out.copy()}, **options), monkeypatch)


def test_the_last_warp_to_come_goes_on_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"block": 128, "engine": "interpreter", "schedule": "eager"}
    done, left = agree(lambda: launched(f"{HEAD} bar.sync 0; bar.sync 0;", **options), monkeypatch)
    assert (done["bar_sync"], left["bar_sync"]) == (2, 6)
