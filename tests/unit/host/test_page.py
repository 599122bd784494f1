"""The record of a run for the page says what the run's own observers say, and survives JSON."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from drywell.examples import packaged
from drywell.host.launch_file import read_launch_file
from drywell.host.page import observed_with, page_of, path_of
from drywell.host.result import Result
from drywell.layout.fragment import fragment
from drywell.report.page_data import PageCta, PageHop, PageRun, encode_page, read_page
from drywell.report.page_timeline import DOING, page_timeline
from drywell.report.page_tmem import page_history

CORPUS = Path(__file__).parents[2] / "corpus"
BUGS = Path(__file__).parents[2] / "bugs"
NO_PTXAS = "no-such-program"


@pytest.fixture(scope="module")
def pair() -> PageRun:
    return page_of(CORPUS / "gluon" / "tc_2cta_f16.toml", check="off", elements=(), ptxas=NO_PTXAS)


@pytest.fixture(scope="module")
def demo() -> PageRun:
    elements = ("C[325,94]",)
    return page_of(packaged.FOLDER / "gemm.toml", (0,), check="off", elements=elements, ptxas=NO_PTXAS)


@pytest.fixture(scope="module")
def result() -> Result:
    launch = read_launch_file(packaged.FOLDER / "gemm.toml")
    return launch.run(check="off", schedule="timed", observe=observed_with("timed"))[0]


def test_json_brings_the_same_record_back(pair: PageRun, demo: PageRun) -> None:
    for page in (pair, demo):
        text = encode_page(page)
        assert read_page(text) == page
        assert len(text) < 500_000


def test_every_cell_has_the_writer_that_the_map_has(demo: PageRun, result: Result) -> None:
    snapshot = result.tmem(0)
    (cta,) = demo.ctas
    lines = np.zeros((128, 512), np.int64)
    for cells in cta.cells:
        block = np.s_[cells.lane : cells.lane + cells.num_lanes, cells.col : cells.col + cells.num_cols]
        assert not lines[block].any()
        lines[block] = cta.writers[cells.writer].place.line
    written = np.array([w.span.line for w in snapshot.writers] + [0])
    assert (lines == written[snapshot.last_writer]).all()
    assert [r.title for r in cta.regions] == [f"accumulator {k}, D 128 x 128 f32" for k in (0, 1)]


def writers_at(cta: PageCta, moment: int) -> NDArray[np.int64]:
    """Return the line that wrote each cell last, 0 for none, by the history up to a moment."""
    lines, history = np.zeros((128, 512), np.int64), cta.history
    for at, deed, area in zip(history.at, history.deed, history.area, strict=True):
        if at <= moment and history.deeds[deed].is_write:
            for lane, col, num_lanes, num_cols in history.areas[area]:
                block = np.s_[lane : lane + num_lanes, col : col + num_cols]
                lines[block] = history.deeds[deed].touch.place.line
    return lines


def test_the_history_of_the_cells_ends_in_what_they_hold(demo: PageRun, pair: PageRun) -> None:
    for page in (demo, pair):
        for cta in page.ctas:
            lines = np.zeros((128, 512), np.int64)
            for cells in cta.cells:
                block = np.s_[
                    cells.lane : cells.lane + cells.num_lanes, cells.col : cells.col + cells.num_cols
                ]
                lines[block] = cta.writers[cells.writer].place.line
            assert (writers_at(cta, page.head.clock.end) == lines).all()
            assert list(cta.history.at) == sorted(cta.history.at)


def test_before_the_first_product_is_done_no_cell_is_written(demo: PageRun) -> None:
    (cta,) = demo.ctas
    writes = [
        at
        for at, deed in zip(cta.history.at, cta.history.deed, strict=True)
        if cta.history.deeds[deed].is_write
    ]
    assert not writers_at(cta, writes[0] - 1).any()
    assert (writers_at(cta, writes[0])[:, :128] > 0).all()
    (allocation,) = cta.allocations
    assert 0 < allocation.at < writes[0] < max(cta.history.at) < (allocation.until or 0)


def test_a_history_that_is_too_long_says_what_is_joined_and_left_out(demo: PageRun, result: Result) -> None:
    assert result.history is not None
    happenings = result.history.happenings(0)
    source = packaged.module().program.source
    joined = page_history(happenings, source, most=len(happenings) - 1)
    assert (sum(joined.count), joined.left_out) == (len(happenings), 0)
    assert len(joined.at) < len(happenings)
    short = page_history(happenings, source, most=5)
    assert (len(short.at), sum(short.count) + short.left_out) == (5, len(happenings))


def test_the_timeline_has_every_stretch_of_its_sms(demo: PageRun, result: Result) -> None:
    assert demo.timeline is not None and result.timeline is not None
    line, bars = demo.timeline, demo.timeline.bars
    events = [i for i in result.timeline.events if i.sm == 0]
    assert [sm.sm for sm in line.sms] == [0]
    for doing, number in DOING.items():
        mine = [(b, e) for b, e, d in zip(bars.begin, bars.end, bars.doing, strict=True) if d == number]
        told = [i for i in events if i.doing == doing]
        assert len(mine) == len(told)
        cycles = sum(i.cycles for i in told if i.unit != "commit")
        assert sum(e - b for b, e in mine) == pytest.approx(cycles, abs=len(mine))
    for issued, begin, end, done in zip(bars.issued, bars.begin, bars.end, bars.done, strict=True):
        assert issued <= begin <= end
        assert done < 0 or end <= done
    assert list(bars.begin) == sorted(bars.begin)


def test_the_tensor_pipe_fills_both_accumulators_in_turn(demo: PageRun) -> None:
    assert demo.timeline is not None
    bars, texts = demo.timeline.bars, demo.timeline.texts
    buffers = [b for b, kind in zip(bars.buffer, bars.kind, strict=True) if texts[kind] == "mma"]
    assert buffers == [number for number in (0, 1, 0, 1) for _ in range(8)]
    reads = {bars.buffer[k] for k, row in enumerate(bars.row) if demo.timeline.rows[row].unit == "tmem_read"}
    assert reads == {0, 1}


def test_the_products_of_a_pair_are_on_both_pipes(pair: PageRun) -> None:
    assert pair.timeline is not None
    line = pair.timeline
    for cta in pair.ctas:
        rows = {k for k, row in enumerate(line.rows) if (row.sm, row.unit) == (cta.sm, "tensor")}
        mmas = [
            k
            for k, kind in enumerate(line.bars.kind)
            if line.texts[kind] == "mma" and line.bars.row[k] in rows
        ]
        written = [
            at
            for at, deed in zip(cta.history.at, cta.history.deed, strict=True)
            if cta.history.deeds[deed].is_write
        ]
        assert written and [line.bars.done[k] for k in mmas] == written
    peers = [set(cta.history.cta) for cta in pair.ctas]
    assert peers == [{0}, {0, 1}, {2}, {2, 3}]


def test_a_timeline_that_is_too_long_joins_what_is_short(demo: PageRun, result: Result) -> None:
    assert result.timeline is not None and demo.timeline is not None
    every = demo.timeline.bars
    coarse = page_timeline(result.timeline, demo.ctas, most=100)
    assert coarse is not None and coarse.grain > 0
    assert len(coarse.bars.begin) <= 100 < len(every.begin)
    assert sum(coarse.bars.count) == sum(every.count)
    assert (min(coarse.bars.begin), max(coarse.bars.end)) == (min(every.begin), max(every.end))


def test_an_element_is_followed_from_memory_to_memory(demo: PageRun) -> None:
    (path,) = demo.paths
    spaces = [hop.space for hop in path.hops if not hop.remark]
    assert spaces[:2] == ["gmem", "smem"] and "register" in spaces and "tmem" in spaces
    first = path.hops[0]
    assert first.name.startswith("C[325, 94] at C+0x")
    assert int(first.name.rpartition("+")[2], 16) == (325 * 256 + 94) * 2
    (cell,) = [hop for hop in path.hops if hop.space == "tmem"]
    assert (cell.lane, cell.col % 128, cell.address) == (325 % 128, 94, f"0x{cell.lane << 16 | cell.col:08x}")
    tiles = [hop for hop in path.hops if hop.space == "smem" and hop.swizzle]
    assert {hop.swizzle for hop in tiles} == {"128B"} and len(tiles) == 2
    assert path.inputs == {"A": "A[325, 0:128]", "B": "B[94, 0:128]", "bias": "bias[94]"}
    moments = [hop.at for hop in path.hops if hop.at is not None and hop.depth == 0]
    assert moments == sorted(moments, reverse=True)
    assert all(at <= demo.head.clock.end for at in moments)


def test_asking_for_an_element_gives_the_path_of_the_record(demo: PageRun) -> None:
    path = path_of(packaged.FOLDER / "gemm.toml", "C[325,94]")
    assert (path,) == demo.paths
    eager = path_of(packaged.FOLDER / "gemm.toml", "C[325,94]", schedule="eager")
    assert {hop.at for hop in eager.hops} == {None}

    def places(hops: tuple[PageHop, ...]) -> list[tuple[str, str]]:
        return [(hop.space, hop.name) for hop in hops]

    assert places(eager.hops) == places(path.hops)


def test_what_is_not_in_the_record_is_said() -> None:
    page = page_of(
        CORPUS / "gluon" / "tc_ws_matmul_bf16.toml", (0,), check="off", elements=(), ptxas=NO_PTXAS
    )
    count = page.head.grid[0] * page.head.grid[1]
    assert page.limits == ((f"of {count} CTAs the record has 0",) if count > 1 else ())


def test_without_a_clock_moments_count_events() -> None:
    page = page_of(CORPUS / "gluon" / "tc_tmem_a_f16.toml", schedule="eager", elements=(), ptxas=NO_PTXAS)
    assert (page.timeline, page.head.clock.unit, page.head.clock.ghz) == (None, "events", 0.0)
    (cta,) = page.ctas
    assert 0 < cta.history.at[0] < cta.history.at[-1] < page.head.clock.end
    assert all(one.at is not None and one.at <= page.head.clock.end for one in page.findings)


def test_both_ctas_of_a_pair_hold_their_own_rows_of_d(pair: PageRun) -> None:
    first, second = pair.ctas[:2]
    assert (first.pair_rank, second.pair_rank) == (0, 1)
    rows = [{(b.m, b.num_rows) for r in cta.regions for b in r.blocks} for cta in (first, second)]
    assert rows == [{(0, 128)}, {(128, 128)}]


def test_the_steps_of_a_fragment_add_up_to_its_cells(demo: PageRun) -> None:
    found = demo.fragments["32x32b.x32"]
    f = fragment("32x32b", 32)
    assert (found.num_lanes, found.num_cols, found.num_registers) == (32, 32, 32)
    for thread in range(32):
        for register in range(32):
            steps = [s for bit, s in enumerate(found.thread_steps) if thread >> bit & 1]
            steps += [s for bit, s in enumerate(found.register_steps) if register >> bit & 1]
            place = sum(s[0] for s in steps), sum(s[1] for s in steps)
            assert place == (int(f.lane[thread, register]), int(f.col[thread, register]))


def test_phases_of_an_mbarrier_add_up(demo: PageRun) -> None:
    assert demo.barriers
    entries = [e for barrier in demo.barriers for phase in barrier.phases for e in phase.entries]
    orders = [e.order for e in entries]
    assert len(orders) == len(set(orders))
    moments = [e.at for e in sorted(entries, key=lambda e: e.order)]
    assert moments == sorted(moments)
    assert {e.what for e in entries if e.is_async} == {"complete", "arrive"}
    for barrier in demo.barriers:
        assert barrier.left_out == 0
        for phase in barrier.phases:
            arrivals = [e for e in phase.entries if e.what in ("arrive", "arrive.expect")]
            if phase.number < 0:
                assert {e.what for e in phase.entries} == {"pass"}
            elif phase.is_over:
                assert barrier.count == sum(1 if e.what == "arrive.expect" else e.amount for e in arrivals)
                expected = sum(e.amount for e in phase.entries if e.what in ("expect", "arrive.expect"))
                assert expected == sum(e.amount for e in phase.entries if e.what == "complete")
            passed = [e.order for e in phase.entries if e.what == "pass"]
            assert all(e.order < p for e in arrivals for p in passed)


def test_findings_keep_both_places() -> None:
    page = page_of(CORPUS / "tirx" / "tmem_roundtrip_racy.toml")
    first = page.findings[0]
    assert page.head.verdict in ("findings", "fault")  # what is freed too early may still be held, or not
    assert (first.rule, first.severity) == ("FREE-BEFORE-DONE", "error")
    assert first.place is not None and first.other is not None
    lines = page.source.lines
    assert "tcgen05.dealloc" in lines[first.place.line - 1]
    assert re.search(r"tcgen05\.(st|ld)", lines[first.other.line - 1])
    assert first.at is not None and first.at <= page.head.clock.end


def test_wrong_numbers_are_a_verdict_of_their_own() -> None:
    page = page_of(BUGS / "B051_a_mask_that_got_lost.toml", (1,))
    assert page.head.verdict == "mismatch"
    assert [cta.cta for cta in page.ctas] == [1]
    assert "OUTPUT-MISMATCH" in {f.rule for f in page.findings}


def test_a_fault_is_part_of_the_record(tmp_path: Path) -> None:
    (tmp_path / "leak.ptx").write_text(
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry leak() {\n  .shared .b32 slot;\n"
        "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;\n  ret;\n}\n"
    )
    (tmp_path / "leak.toml").write_text('module = "leak.ptx"\ngrid = [1, 1, 1]\nblock = [32, 1, 1]\n')
    page = page_of(tmp_path / "leak.toml")
    assert page.head.verdict == "fault"
    assert [f.rule for f in page.findings] == ["ALLOC-LEAK"]
    assert page.ctas[0].allocations[0].freed is None
