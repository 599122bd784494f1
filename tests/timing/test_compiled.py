"""The clock in compiled code: what is due, banks, and that no cycle depends on who executes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drywell
from drywell.base.errors import DrywellError
from drywell.engine import timed
from drywell.engine.native.clock_words import CLOCK, DUE, IDLE, OPERATIONS, PERFORM
from drywell.engine.timed_costs import wavefronts
from drywell.host.launch_file import read_launch_file
from run_file import read_run_file

CORPUS = (
    "gluon/cluster_softmax",
    "nvcc_ours/ours_gemm_2cta",
    "nvcc_ours/ours_persistent",
    "tilelang/gemm_ws_bf16",
    "triton/flash_fwd_ws",
    "triton/dbg_print_assert_atomic_sort",
    "triton/row_softmax",
)
PROGRAMS = (
    "atomics/lock",
    "barriers/a_warp_never_comes",
    "barriers/branches_of_one_warp",
    "barriers/producer_consumer",
    "cluster/remote_arrivals",
    "flow/calls_from_two_places",
    "flow/some_lanes_leave_early",
    "flow/misaligned",
    "flow/spins_for_ever",
    "flow/divergent_loop",
)
Seen = tuple[Any, ...]


def _seen(run: Callable[[], Any], arrays: dict[str, Any]) -> Seen:
    """Return all that a run leaves: intervals, counts, arrays, its error."""
    error = ""
    try:
        result = run()
    except DrywellError as raised:
        result, error = getattr(raised, "result", None), str(raised)
    told = () if result is None else (result.timeline.events, result.executed, result.activity)
    return (*told, {name: array.tobytes() for name, array in arrays.items()}, error)


@pytest.mark.parametrize(
    ("kernel", "check"),
    [*((kernel, "off") for kernel in CORPUS), *((kernel, "ptx") for kernel in CORPUS[:2])],
)
def test_a_kernel_takes_the_same_cycles_on_both_engines(kernel: str, check: str, corpus: Path) -> None:
    def seen(engine: str) -> Seen:
        file = read_launch_file(corpus / f"{kernel}.toml")
        given = {"engine": engine, "check": check, "observe": ("timeline",), "explains": False}
        return _seen(lambda: file.run(**given)[0], file.buffers)

    assert seen("interpreter") == seen("jit")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_takes_the_same_cycles_on_both_engines(program: str) -> None:
    def seen(engine: str) -> Seen:
        said = read_run_file(Path(__file__).parents[1] / "ptx" / "run" / f"{program}.ptx")
        given = {"engine": engine, "observe": ("timeline",), "max_instructions": 100_000}
        return _seen(lambda: said.run(**given), said.arrays)

    assert seen("interpreter") == seen("jit")


SPIN = """
.version 8.6 .target sm_100a .address_size 64
.visible .entry spin(.param .u64 out) {
  .reg .pred p; .reg .b32 t, v, n, s; .reg .b64 a;
  ld.param.u64 a, [out];
  mov.u32 t, %tid.x;
  mov.u32 s, 0;
  mov.u32 n, 0;
  setp.lt.u32 p, t, 32;
  @p bra WAIT;
WORK:
  mad.lo.u32 s, s, 3, t;
  xor.b32 s, s, n;
  shl.b32 v, s, 1;
  add.u32 s, s, v;
  add.u32 n, n, 1;
  setp.lt.u32 p, n, 300;
  @p bra WORK;
  st.volatile.global.u32 [a], 1;
  bra END;
WAIT:
  ld.volatile.global.u32 v, [a];
  add.u32 n, n, 1;
  setp.eq.u32 p, v, 0;
  @p bra WAIT;
  st.global.u32 [a+4], n;
END:
  ret;
}
"""


def _spun(**options: Any) -> Seen:
    out = np.zeros(2, np.uint32)
    given = {"block": 64, "args": [out], "check": "off", "observe": ("timeline",), **options}
    return _seen(lambda: drywell.launch(drywell.load(SPIN)["spin"], **given), {"out": out})


@pytest.mark.parametrize("look_after", [50, 97, timed.LOOK_AFTER])
def test_looks_at_whether_warps_repeat_themselves_change_nothing_between_engines(
    look_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed, "LOOK_AFTER", look_after)

    assert _spun(engine="interpreter") == _spun(engine="jit")


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_a_warp_that_ends_while_it_is_looked_at_has_ended(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed, "LOOK_AFTER", 50)
    monkeypatch.setattr(timed, "LOOK_AFTER_EACH", 0)
    text = ".version 8.6 .target sm_100a .address_size 64 .visible .entry adds() { .reg .b32 n; mov.u32 n, 0;"
    text += "add.u32 n, n, 1; " * 100 + "ret; }"
    given = {"block": 64, "args": [], "schedule": "timed", "check": "off", "engine": engine}
    result = drywell.launch(drywell.load(text)["adds"], **given)
    assert result.executed == 2 * 102


def test_a_spent_budget_finds_all_warps_where_they_are() -> None:
    for budget in range(100, 120):
        found = _spun(engine="interpreter", max_instructions=budget)
        assert found == _spun(engine="jit", max_instructions=budget) and "is spent" in found[-1]


def test_what_is_due_first_happens_first_and_equal_times_as_they_were_planned() -> None:
    run, plan, _, _ = timed._functions()
    words, heap = np.zeros(len(CLOCK), np.int64), np.zeros((500, len(DUE)), np.int64)
    times = words.view(np.float64)
    words[CLOCK["heap"]], words[CLOCK["work"]], times[CLOCK["end"]] = heap.ctypes.data, 1, np.inf
    planned, happened = [], []
    for number, at in enumerate(np.random.default_rng(0).integers(0, 200, 500).tolist()):
        plan(words.ctypes.data, at / 4, OPERATIONS + number)
        planned.append((at / 4, number))
    while (why := run(words.ctypes.data)) == PERFORM:
        happened.append((times[CLOCK["now"]], words[CLOCK["who"]] - OPERATIONS))
    assert why == IDLE and happened == sorted(planned)


def test_an_access_takes_as_many_cycles_as_its_busiest_bank_has_words() -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 4, 8, 16, 32):
        for spread in (1, 4, 32, 512):
            lanes = rng.integers(0, spread, rng.integers(1, 33)) * max(size, 4)
            each, at_once = max(size // 4, 1), 32 // max(size // 4, 1)
            expected = 0
            for first in range(0, len(lanes), at_once):
                words = {int(a) // 4 + k for a in lanes[first : first + at_once] for k in range(each)}
                expected += max(sum(word % 32 == bank for word in words) for bank in range(32))
            assert wavefronts(lanes, size) == expected
