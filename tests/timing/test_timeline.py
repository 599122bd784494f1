"""What a timed run tells: the overlap of epilogue and tensor pipe, phases, the critical path, the trace."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import drywell
from drywell.arch.timing import timing
from drywell.engine.timed_costs import wavefronts
from drywell.examples import packaged
from drywell.observe.timeline import Timeline
from drywell.report.timeline import timeline_lines
from timing.demo import deep_timeline, timeline


def test_with_two_accumulators_the_epilogue_lies_under_the_main_loop_of_another_tile() -> None:
    overlap = timeline(2).tiles(0).overlap()
    assert overlap.count == 12  # four warps, three tiles with one behind them
    assert overlap.under_loop >= 0.9 and overlap.held_under_loop >= 0.9


def test_with_one_accumulator_only_what_follows_its_hand_back_does() -> None:
    overlap = timeline(1).tiles(0).overlap()
    assert overlap.held_under_loop <= 0.1
    # packing the last quarter and storing; the kernel hands back before
    assert overlap.under_loop <= 1 - overlap.held_cycles / overlap.cycles


def test_epilogues_of_a_deep_build_lie_under_a_busy_tensor_pipe_with_two_accumulators_not_with_one() -> None:
    two, one = (deep_timeline(accumulators).tiles(0).overlap() for accumulators in (2, 1))
    assert two.count == one.count == 12
    assert two.under_mma >= 0.9 and two.under_loop >= 0.9
    assert one.under_mma <= 0.1 and one.under_loop <= 0.1


def test_a_deep_build_is_bound_by_its_tensor_pipe_once_it_is_full() -> None:
    found = deep_timeline(2)
    assert found.utilisation("tensor", 0, found.phases(0).steady) >= 0.9


@pytest.mark.parametrize("accumulators", [1, 2])
def test_a_deep_build_is_clean(accumulators: int) -> None:
    assert deep_timeline(accumulators, k=128, check="ptx").cycles > 0


def test_main_loops_and_epilogues_of_one_accumulator_take_turns() -> None:
    tiles = deep_timeline(1).tiles(0)
    loops = tiles.loops()
    assert len(loops) == 4
    for warp in tiles.epilogues():
        for (_, done), one, (begun, _) in zip(loops, warp, loops[1:], strict=False):
            assert done <= one.begin <= one.released <= one.end and one.released <= begun


def test_a_second_accumulator_saves_time() -> None:
    assert timeline(2).cycles < timeline(1).cycles


def test_fill_steady_state_and_drain_follow_each_other_and_are_the_whole() -> None:
    found = timeline(2)
    phases = found.phases(0)
    assert phases.fill[0] == 0 and phases.drain[1] == pytest.approx(found.cycles)
    assert phases.fill[1] == phases.steady[0] and phases.steady[1] == phases.drain[0]
    within = found.utilisation("tensor", 0, phases.steady)
    assert 0 < found.utilisation("tensor", 0) < within <= 1


def test_a_cta_starts_with_the_launch_or_a_gap_behind_the_one_whose_room_it_takes() -> None:
    text = ".version 8.6 .target sm_100a .address_size 64 .visible .entry waits() { bar.sync 0; ret; }"
    given = {"grid": 149, "block": 32, "dynamic_smem": 200_000, "args": [], "clock_mhz": 1000}
    found = drywell.launch(drywell.load(text)["waits"], observe=("timeline",), **given).timeline
    assert found is not None
    runs = {i.cta: (i.begin, i.end) for i in found.events if i.doing == "run"}
    assert len(runs) == 149 and {runs[cta][0] for cta in range(148)} == {0.0}
    assert runs[148][0] - min(end for _, end in runs.values()) == timing("b200").cta_gap_ns


def test_the_critical_path_reaches_from_the_start_to_the_end() -> None:
    found = timeline(2)
    path = found.critical_path()
    assert path[0].begin == 0
    assert path[-1].end >= max(i.end for i in found.events if i.unit == "warp")
    assert all(step.end >= step.begin for step in path)
    assert {"tma", "commit"} <= {step.who for step in path}


@pytest.mark.parametrize(("body", "exits_after_loads", "ends_after"), [
    ("ld.global.u32 v, [a]; st.global.u32 [a+4], v;", 1, 2),  # the store has the value when that is there
    ("atom.global.add.u32 v, [a], 1;", 1, 1),  # nobody reads what it gives back
    ("ld.volatile.global.u32 v, [a];", 1, 1),
    ("st.global.u32 [a], t;", 0, 1),  # a warp ends while its stores are on their way
    ("red.global.add.u32 [a], 1;", 0, 1),
    ("mov.u32 v, t;", 0, 0),
])  # fmt: skip
def test_a_warp_ends_when_its_loads_are_back_and_a_launch_when_its_stores_are_in_l2(
    body: str, exits_after_loads: int, ends_after: int
) -> None:
    text = """.version 8.6 .target sm_100a .address_size 64 .visible .entry one(.param .u64 out) {
        .reg .b64 a; .reg .b32 v, t; ld.param.u64 a, [out]; mov.u32 t, %tid.x; BODY ret; }"""
    kernel, out, t = drywell.load(text.replace("BODY", body))["one"], np.zeros(2, np.uint32), timing("b200")
    found = drywell.launch(kernel, args=[out], block=1, check="off", observe=("timeline",)).timeline
    assert found is not None
    (run,) = (i for i in found.events if i.doing == "run")
    besides = 100  # what the few other instructions take at most
    far = t.dram_extra_latency_ns * 1.965 if body.startswith("ld") else 0  # nobody has loaded it before
    for cycles, loads in ((run.end, exits_after_loads), (found.cycles, ends_after)):
        assert 0 <= cycles - loads * t.gmem_load_cycles - far < besides
    assert sum(step.end - step.begin for step in found.critical_path()) == found.cycles


def test_a_cta_takes_the_place_of_one_whose_stores_are_on_their_way() -> None:
    text = """.version 8.6 .target sm_100a .address_size 64 .visible .entry one(.param .u64 out) {
        .reg .b64 a; ld.param.u64 a, [out]; st.global.u32 [a], 1; ret; }"""
    given = {"grid": 149, "block": 32, "dynamic_smem": 200_000, "args": [np.zeros(1, np.uint32)]}
    found = drywell.launch(
        drywell.load(text)["one"], check="off", observe=("timeline",), clock_mhz=1000, **given
    ).timeline
    assert found is not None
    last = max((i for i in found.events if i.doing == "run"), key=lambda i: i.begin)
    others = [i for i in found.events if i is not last]
    assert last.begin - min(i.end for i in others) == timing("b200").cta_gap_ns
    assert found.cycles == last.done == max(i.done for i in found.events)


@pytest.mark.parametrize(("columns", "before", "behind"), [
    (128, "", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %c, 128;"),  # there is room for two
    (512, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %c, 512;", ""),  # there is when one has freed it
])  # fmt: skip
def test_a_cta_waits_for_tensor_memory_until_another_has_let_go_of_it_not_until_its_end(
    columns: int, before: str, behind: str
) -> None:
    text = f""".version 8.6 .target sm_100a .address_size 64 .visible .entry share() {{
      .reg .b32 %c, %i; .reg .pred %q; .shared .align 4 .b32 at; mov.u32 %i, 0;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [at], {columns};
      tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
      ld.shared.u32 %c, [at]; {before}
    LOOP: add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 1000; @%q bra LOOP;
      {behind} ret; }}"""
    kernel = drywell.load(text)["share"]
    one, two = (
        drywell.launch(kernel, grid=grid, block=32, args=[], sms=1, observe=("timeline",)).timeline
        for grid in (1, 2)
    )
    assert one is not None and two is not None and one.cycles > 10_000
    (wait,) = (i for i in two.events if i.doing == "stall")
    assert wait.kind == "tmem_alloc" and wait.cycles < 1_000 and two.cycles < one.cycles + 1_000


LATE = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry late() {
  .reg .b32 %t, %i; .reg .b64 %s; .reg .pred %q, %mine; .shared .align 8 .b64 bar;
  mov.u32 %t, %tid.x; setp.lt.u32 %mine, %t, 32; mov.u32 %i, 0; setp.eq.u32 %q, %t, 0;
  @%q mbarrier.init.shared::cta.b64 [bar], 32;
  bar.sync 0;
  @%mine bra WAIT;
LOOP: add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 200; @%q bra LOOP;
  ARRIVE
  bra END;
WAIT: HERE
END: bar.sync 1; @!%mine ret; mov.u32 %i, %clock; mov.u32 %i, %clock; ret;
}
"""
"""Warp 1 counts to 200; warp 0 waits for it and ends last."""

POLL = "mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0; @!%q bra WAIT;"


@pytest.mark.parametrize(
    ("arrive", "here"),
    [("", ""), ("mbarrier.arrive.shared::cta.b64 %s, [bar];", POLL)],
    ids=["bar", "mbarrier"],
)
def test_a_wait_for_a_warp_that_comes_late_leads_to_what_kept_it(arrive: str, here: str) -> None:
    kernel = drywell.load(LATE.replace("ARRIVE", arrive).replace("HERE", here))["late"]
    found = drywell.launch(kernel, grid=1, block=64, args=[], observe=("timeline",)).timeline
    assert found is not None
    path = found.critical_path()
    assert all(a.end == b.begin for a, b in itertools.pairwise(path))
    late = sum(s.end - s.begin for s in path if s.who == "CTA 0 warp 1" and s.what == "runs")
    assert late > 0.8 * found.cycles


CUT_SHORT = """
.version 8.6 .target sm_100a .address_size 64 .visible .entry cut(.param .u64 out) {
  .reg .b64 %a, %s; .reg .b32 %t, %i; .reg .pred %q, %mine; .shared .align 8 .b64 bar;
  mov.u32 %t, %tid.x; setp.lt.u32 %mine, %t, 32; setp.eq.u32 %q, %t, 0; mov.u32 %i, 0; ld.param.u64 %a, [out];
  @%q mbarrier.init.shared::cta.b64 [bar], 2;
  @%mine bra WAIT;
LOOP: add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 200; @%q bra LOOP;
  LAST
WAIT: HERE ret;
}
"""
"""Warp 0 waits, warp 1 counts to 200 before its last instructions."""


@pytest.mark.parametrize(("here", "last", "error", "kind", "reason", "open_at_once"), [
    ("bar.sync 1, 96;", "ret;", drywell.DeadlockError, "named_barrier", "barrier 1", 1),
    ("bar.sync 1, 96;", "bar.sync 2, 96;", drywell.DeadlockError, "named_barrier", "barrier 1", 2),
    ("WAIT2: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0; @!%q bra WAIT2;", "ret;",
     drywell.DeadlockError, "mbarrier", "mbarrier bar", 1),
    ("bar.sync 1, 96;", "st.global.u32 [%a+400], %i;", drywell.KernelFault, "named_barrier", "barrier 1", 1),
])  # fmt: skip
def test_who_waits_or_runs_when_a_launch_is_cut_short_is_told_to_the_end(
    here: str, last: str, error: type[drywell.DrywellError], kind: str, reason: str, open_at_once: int
) -> None:
    kernel = drywell.load(CUT_SHORT.replace("HERE", here).replace("LAST", last))["cut"]
    with pytest.raises(error) as raised:
        out = np.zeros(4, np.uint32)
        drywell.launch(kernel, block=64, args=[out], check="off", observe=("timeline",))
    found = raised.value.result.timeline  # type: ignore[attr-defined]
    waits = [i for i in found.events if i.doing == "stall" and i.end == found.cycles]
    assert len(waits) == open_at_once
    assert waits[0].warp == 0 and waits[0].kind == kind and reason in waits[0].reason
    runs = [i for i in found.events if i.doing == "run" and i.warp == 1]
    assert sum(i.count for i in runs) > 600 and max(i.end for i in runs) > 0.9 * found.cycles
    # nothing is told twice, and no time of warp 0 is left out
    mine = sorted((i.begin, i.end) for i in found.events if i.unit == "warp" and i.warp == 0)
    assert mine[0][0] == 0 and mine[-1][1] == found.cycles
    assert sum(end - begin for begin, end in mine) >= 0.9 * found.cycles


def test_every_stall_says_what_it_waited_for() -> None:
    stalls = [i for i in timeline(2).events if i.doing == "stall"]
    waits = [i for i in stalls if i.kind == "mbarrier"]
    assert waits and all("parity" in i.reason and i.span.line for i in waits)
    assert all(i.reason and i.end >= i.begin for i in stalls)


def test_work_of_one_unit_does_not_overlap() -> None:
    for unit in ("tensor", "tma"):
        work = sorted((i.begin, i.end) for i in timeline(2).busy(unit, 0))
        assert work and all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(work))


def test_the_trace_is_in_the_documented_format(tmp_path: Path) -> None:
    # "Trace Event Format": complete events have ph X, ts and dur in microseconds, pid and tid; metadata ph M
    timeline(2).perfetto(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert set(trace) == {"displayTimeUnit", "traceEvents"}
    named = {
        (e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"
    }
    done = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(done) == len(timeline(2).events)
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and isinstance(e["name"], str) for e in done)
    assert {(e["pid"], e["tid"]) for e in done} <= named
    orders = [e for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_sort_index"]
    assert {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in orders} == {who: who[1] for who in named}
    waits = {e["name"] for e in done if e["cat"] == "stall"}
    assert any(name.startswith("waits for mbarrier full (shared 0x") for name in waits)
    longest = max(e["ts"] + e["dur"] for e in done)
    assert longest <= timeline(2).ns / 1000 + 1e-6


def test_events_of_a_track_nest_as_the_reader_wants_them(tmp_path: Path) -> None:
    # "Trace Event Format", complete events: those of one thread lie in one another or apart
    timeline(2).perfetto(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for e in trace:
        if e["ph"] == "X":
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for spans in tracks.values():
        open_ends: list[float] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= begin + 1e-9:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-9
            open_ends.append(end)


def spoken(given: Timeline) -> list[str]:
    """Return the lines of the text."""
    return ["".join(str(piece) for piece in line) for line in timeline_lines(given)]


def test_the_text_explains_its_picture_and_names_warps_lines_and_barriers_of_waits() -> None:
    text = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry waits() {
  .reg .b32 %t; .reg .pred %p;
  mov.u32 %t, %tid.x;
  setp.lt.u32 %p, %t, 352;
  @%p bra THERE;
  nanosleep.u32 5000;
THERE:
  bar.sync 3;
  ret;
}
"""
    found = drywell.launch(drywell.load(text)["waits"], grid=1, block=384, args=[], observe=("timeline",))
    assert found.timeline is not None
    lines = spoken(found.timeline)
    rows = [line.split("|")[0].split()[1] for line in lines if line.lstrip().startswith("warp ")]
    assert rows == [str(warp) for warp in range(12)]
    scale = next(line for line in lines if "a column is" in line)
    assert f"{found.timeline.cycles / 60:,.0f} cycles" in scale and all(sign in scale for sign in "#+.")
    (wait,) = (line for line in lines if "barrier 3" in line)
    assert "in 1 wait, warps 0-10, line 12: barrier 3" in wait


def test_a_run_in_which_nobody_waits_has_no_list_of_waits() -> None:
    text = ".version 8.6 .target sm_100a .address_size 64 .visible .entry runs() { ret; }"
    found = drywell.launch(drywell.load(text)["runs"], grid=1, block=32, args=[], observe=("timeline",))
    assert found.timeline is not None and not any("waits" in line for line in spoken(found.timeline))


def test_printed_it_is_the_text_and_its_name_is_short() -> None:
    found = timeline(2)
    assert str(found).splitlines() == [line.rstrip() for line in spoken(found)]
    assert repr(found) == f"Timeline({found.cycles:,.0f} cycles at {found.ghz:g} GHz, SMs: {len(found.sms)})"


def test_a_clock_asks_for_the_schedule_that_has_one() -> None:
    text = ".version 8.6 .target sm_100a .address_size 64 .visible .entry runs() { ret; }"
    kernel = drywell.load(text)["runs"]
    found = drywell.launch(kernel, args=[], block=32, clock_mhz=1000, observe=("timeline",)).timeline
    assert found is not None and found.ghz == 1
    with pytest.raises(drywell.LaunchError, match="which the eager schedule does not have"):
        drywell.launch(kernel, args=[], block=32, clock_mhz=1000, schedule="eager")


def test_the_text_fits_on_a_screen() -> None:
    lines = spoken(timeline(2))
    assert len(lines) <= 40 and max(map(len, lines)) <= 110
    assert any("tensor" in line for line in lines)


def test_a_run_is_the_same_every_time_and_the_numbers_are_right() -> None:
    runs = [
        packaged.gemm(128, 256, 128, values="integers", check="ptx", schedule="timed", observe=("timeline",))
        for _ in range(2)
    ]
    assert all(run.ok for run in runs)
    first, second = (run.result.timeline for run in runs)
    assert first is not None and second is not None and first.events == second.events


def test_a_timeline_brings_the_clock_unless_something_else_is_asked_for() -> None:
    assert packaged.gemm(128, 128, 64, observe=("timeline",)).result.timeline is not None
    for asked in ({"schedule": "eager"}, {"schedule": "lazy"}, {"seed": 1}):
        with pytest.raises(drywell.LaunchError, match="take the schedule 'timed'"):
            packaged.gemm(128, 128, 64, observe=("timeline",), **asked)


def test_lanes_of_one_word_share_it_and_words_of_one_bank_follow_each_other() -> None:
    lanes = np.arange(32)
    for step, cycles in ((0, 1), (4, 1), (8, 2), (16, 4), (32, 8), (128, 32), (132, 1)):
        assert wavefronts(lanes * step, 4) == cycles
    assert wavefronts(lanes * 16, 16) == 4 and wavefronts(lanes * 128, 16) == 32
