"""The record of a run for the page says what the run's own observers say, and survives JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drywell.examples import packaged
from drywell.host.launch_file import read_launch_file
from drywell.host.page import OBSERVED, page_of
from drywell.layout.fragment import fragment
from drywell.report.page_data import PageRun, encode_page, read_page

CORPUS = Path(__file__).parents[2] / "corpus"
BUGS = Path(__file__).parents[2] / "bugs"


@pytest.fixture(scope="module")
def pair() -> PageRun:
    return page_of(CORPUS / "gluon" / "tc_2cta_f16.toml", check="off")


@pytest.fixture(scope="module")
def demo() -> PageRun:
    return page_of(packaged.FOLDER / "gemm.toml", (0,), check="off")


def test_json_brings_the_same_record_back(pair: PageRun, demo: PageRun) -> None:
    for page in (pair, demo):
        text = encode_page(page)
        assert read_page(text) == page
        assert len(text) < 2_000_000


def test_every_cell_has_the_writer_that_the_map_has(demo: PageRun) -> None:
    result = read_launch_file(packaged.FOLDER / "gemm.toml").run(check="off", observe=OBSERVED)[0]
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
    orders = [e.order for barrier in demo.barriers for phase in barrier.phases for e in phase.entries]
    assert len(orders) == len(set(orders))
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
    assert (page.head.verdict, first.rule, first.severity) == ("fault", "FREE-BEFORE-DONE", "error")
    assert first.place is not None and first.other is not None
    lines = page.source.lines
    assert "tcgen05.dealloc" in lines[first.place.line - 1]
    assert "tcgen05.st" in lines[first.other.line - 1]


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
