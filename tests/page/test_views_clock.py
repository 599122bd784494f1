"""The views of the clock in the browser: timeline, watched cell, data path, mbarriers, findings, source. What
they say is held to the record of the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from drywell.host.page import page_of
from drywell.report.html_page import page_html
from drywell.report.page_data import PageBarrier, PageRun, PageTimeline
from page.conftest import CORPUS, Held

Open = Callable[..., Page]
TENSOR = "tensor"


def timeline(page: Page) -> Locator:
    return page.get_by_role("application", name=re.compile("^timeline of"))


def said(page: Page, name: str) -> Locator:
    return page.get_by_role("status", name=name, exact=True)


def moment(page: Page) -> Locator:
    return page.get_by_label("moment", exact=True)


def number(value: int) -> str:
    return f"{value:,}"


def span(page: Page) -> tuple[int, int]:
    """The cycles that the timeline shows."""
    found = re.search(r"cycles (\d+) to (\d+)", timeline(page).get_attribute("aria-label") or "")
    assert found is not None
    return int(found[1]), int(found[2])


def line_of(run: PageRun) -> PageTimeline:
    assert run.timeline is not None
    return run.timeline


def bars_of(run: PageRun, sm: int, unit: str, kind: str) -> list[int]:
    """The bars of one kind on a unit of an SM, by begin."""
    line = line_of(run)
    rows = {k for k, row in enumerate(line.rows) if (row.sm, row.unit) == (sm, unit)}
    every = zip(line.bars.row, line.bars.kind, strict=True)
    return [k for k, (row, one) in enumerate(every) if row in rows and line.texts[one] == kind]


def place(page: Page, row: str, at: float) -> Any:
    """Where a moment of a row is on the canvas."""
    rows = json.loads(timeline(page).get_attribute("data-rows") or "[]")
    first, left, scale = json.loads(timeline(page).get_attribute("data-time") or "[]")
    top, height = next((top, height) for name, top, height in rows if name == row)
    return {"x": left + (at - first) * scale, "y": top + height / 2}


# The timeline


@pytest.mark.parametrize("kernel", ["demo", "pair"])
def test_a_bar_that_is_pointed_at_says_what_it_is(
    open_page: Open, held: Callable[[str], Held], kernel: str
) -> None:
    run = held(kernel).run
    page = open_page(held(kernel), view="timeline")
    bars, sm = line_of(run).bars, run.ctas[0].sm
    for k in bars_of(run, sm, TENSOR, "mma")[::7]:
        middle = (bars.begin[k] + bars.end[k]) / 2
        timeline(page).hover(position=place(page, f"sm{sm} tensor", middle))
        expect(said(page, "bar")).to_contain_text(f"{number(bars.begin[k])} – {number(bars.end[k])}")
        expect(said(page, "bar")).to_contain_text(f"accumulator {bars.buffer[k]}")
        expect(said(page, "bar")).to_contain_text(line_of(run).texts[bars.text[k]])
        line = line_of(run).places[bars.place[k]].line
        expect(said(page, "bar").get_by_role("button", name=f"show line {line}", exact=True)).to_be_visible()


def test_the_arrows_walk_from_bar_to_bar_and_enter_takes_the_clock_there(open_page: Open, demo: Held) -> None:
    run = demo.run
    page = open_page(demo, view="timeline")
    bars, sm = line_of(run).bars, run.ctas[0].sm
    track = sorted(bars_of(run, sm, TENSOR, "mma") + bars_of(run, sm, TENSOR, "commit"))
    timeline(page).focus()
    page.keyboard.press("Home")
    for k in track[1:6]:
        page.keyboard.press("ArrowRight")
        expect(said(page, "bar")).to_contain_text(number(bars.end[k]))
    page.keyboard.press("Enter")
    expect(moment(page)).to_contain_text(f"cycle {number(bars.done[track[5]])} of")
    page.keyboard.press("ArrowDown")
    expect(said(page, "bar")).to_contain_text("TMEM read")


def test_the_timeline_zooms_from_the_kernel_to_one_mma(open_page: Open, demo: Held) -> None:
    run = demo.run
    page = open_page(demo, view="timeline")
    sm = next(one for one in line_of(run).sms if one.sm == run.ctas[0].sm)
    assert span(page) == (0, run.head.clock.end)
    page.get_by_role("button", name="Steady state").click()
    first, last = span(page)
    assert first == sm.steady_begin and sm.steady_end <= last <= 1.02 * sm.steady_end
    page.get_by_role("button", name="One MMA").click()
    first, last = span(page)
    bars = line_of(run).bars
    length = bars.end[k] - bars.begin[k] if (k := bars_of(run, sm.sm, TENSOR, "mma")[-1]) else 0
    assert length < last - first <= 3 * length
    expect(said(page, "bar")).to_contain_text(f"{length} cycles")
    page.get_by_role("button", name="Whole kernel").click()
    assert span(page) == (0, run.head.clock.end)
    timeline(page).hover(position=place(page, f"sm{sm.sm} tensor", 6000))
    page.mouse.wheel(0, -600)
    expect(timeline(page)).not_to_have_attribute("aria-label", re.compile("cycles 0 to"))
    first, last = span(page)
    assert first < 6000 < last < run.head.clock.end
    timeline(page).focus()
    page.keyboard.press("f")
    expect(timeline(page)).to_have_attribute("aria-label", re.compile("cycles 0 to"))


def test_the_waits_of_a_warp_say_what_for(open_page: Open, demo: Held) -> None:
    run = demo.run
    page = open_page(demo, view="timeline")
    line, cta = line_of(run), run.ctas[0]
    row = next(k for k, r in enumerate(line.rows) if (r.unit, r.cta, r.warp) == ("warp", cta.cta, 5))
    stalls = [k for k, r in enumerate(line.bars.row) if r == row and line.bars.doing[k] == 1]
    k = max(stalls, key=lambda k: line.bars.end[k] - line.bars.begin[k])
    middle = (line.bars.begin[k] + line.bars.end[k]) / 2
    timeline(page).hover(position=place(page, f"sm{cta.sm} cta{cta.cta} warp5", middle))
    expect(said(page, "bar")).to_contain_text(f"waits: {line.texts[line.bars.text[k]]}")
    expect(said(page, "bar")).to_contain_text("warp 5")


def arrows_of(run: PageRun, ctas: set[int]) -> int:
    """How many hand-overs through mbarriers have both ends on the SMs of some CTAs."""
    count = 0
    for phase in (phase for barrier in run.barriers for phase in barrier.phases if phase.number >= 0):
        acts = [e for e in phase.entries if e.what != "pass" and (e.pending, e.tx_bytes) == (0, 0)]
        passes = [e for e in phase.entries if e.what == "pass" and e.cta in ctas]
        count += len(passes) if acts and acts[-1].cta in ctas else 0
    return count


@pytest.mark.parametrize("kernel", ["demo", "pair"])
def test_the_hand_overs_are_those_of_the_ledgers(
    open_page: Open, held: Callable[[str], Held], kernel: str
) -> None:
    run = held(kernel).run
    page = open_page(held(kernel), view="timeline")
    page.get_by_role("combobox", name="SM", exact=True).select_option("all")
    count = arrows_of(run, {cta.cta for cta in run.ctas})
    assert count > 0
    expect(timeline(page)).to_have_attribute("data-arrows", str(count))
    page.get_by_role("combobox", name="SM", exact=True).select_option(str(run.ctas[1].sm))
    ctas = {cta.cta for cta in run.ctas if cta.sm == run.ctas[1].sm}
    expect(timeline(page)).to_have_attribute("data-arrows", str(arrows_of(run, ctas)))
    stressed = page.get_by_role("combobox", name="stressed mbarrier")
    names = {b.name for b in run.barriers if b.cta in ctas}
    assert all(
        any(name in text for name in names) for text in stressed.locator("option").all_inner_texts()[1:]
    )


# The clock


def stops_of(run: PageRun, cta: int) -> list[int]:
    """The moments at which the clock stops for a CTA."""
    held = next(one for one in run.ctas if one.cta == cta)
    entries = [e.at for b in run.barriers if b.cta == cta for p in b.phases for e in p.entries]
    allocated = [at for a in held.allocations for at in (a.at, a.until) if at is not None]
    return sorted({0, run.head.clock.end, *held.history.at, *entries, *allocated})


def test_the_clock_steps_on_and_back_through_what_happened(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="timeline")
    stops = stops_of(demo.run, demo.run.ctas[0].cta)
    page.get_by_role("button", name="to the beginning").click()
    expect(moment(page)).to_contain_text("cycle 0 of")
    for at in stops[1:5]:
        page.keyboard.press(".")
        expect(moment(page)).to_contain_text(f"cycle {number(at)} of")
    page.get_by_role("button", name="one step back").click()
    expect(moment(page)).to_contain_text(f"cycle {number(stops[3])} of")
    page.keyboard.press(",")
    expect(moment(page)).to_contain_text(f"cycle {number(stops[2])} of")
    page.get_by_role("button", name="to the end").click()
    expect(moment(page)).to_contain_text(f"cycle {number(stops[-1])} of")


def test_the_slider_and_the_axis_move_the_clock(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="timeline")
    slider = page.get_by_role("slider", name=re.compile("^moment of the clock"))
    slider.fill("6000")
    expect(moment(page)).to_contain_text("cycle 6,000 of")
    slider.press("ArrowLeft")
    expect(moment(page)).to_contain_text("cycle 5,999 of")
    at = place(page, f"sm{demo.run.ctas[0].sm} tensor", 9000)
    timeline(page).click(position={"x": at["x"], "y": 10})
    found = re.search(r"cycle ([\d,]+) of", moment(page).inner_text())
    assert found is not None and abs(int(found[1].replace(",", "")) - 9000) < 20


def test_the_clock_plays_and_pauses(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="watch")
    page.get_by_role("button", name="play the clock").click()
    expect(moment(page)).not_to_contain_text(re.compile(r"cycle (0|15,\d+) of"))
    page.get_by_role("button", name="pause the clock").click()
    expect(page.get_by_role("button", name="play the clock")).to_be_visible()
    here = moment(page).inner_text()
    page.wait_for_timeout(100)
    assert moment(page).inner_text() == here


# The watched cell


def test_a_watched_cell_lists_its_writes_and_reads_as_the_clock_moves(open_page: Open, demo: Held) -> None:
    cta = demo.run.ctas[1]
    page = open_page(demo, view="watch")
    page.get_by_role("combobox", name="CTA of the watched cell").select_option(str(cta.cta))
    for name, value in (("lane", 70), ("column", 200)):
        page.get_by_role("spinbutton", name=f"{name} of the watched cell").fill(str(value))
        page.get_by_role("spinbutton", name=f"{name} of the watched cell").press("Enter")
    h = cta.history
    mine = [
        (at, h.deeds[deed])
        for at, deed, area in zip(h.at, h.deed, h.area, strict=True)
        if any(r[0] <= 70 < r[0] + r[2] and r[1] <= 200 < r[1] + r[3] for r in h.areas[area])
    ]
    assert len(mine) > 10
    rows = page.get_by_role("table", name="what happened to the cell").locator("tbody tr")
    expect(rows.and_(page.locator("[aria-current=step]"))).to_be_in_viewport(ratio=1)
    texts = rows.all_inner_texts()
    assert len(texts) == len(mine)
    for text, (at, deed) in zip(texts, mine, strict=True):
        assert number(at) in text and ("write" if deed.is_write else "read") in text
        assert deed.touch.instruction.removeprefix("tcgen05.") in text and str(deed.touch.place.line) in text
    at = mine[9][0]
    rows.nth(9).get_by_role("button", name=f"clock to {at}").click()
    writes = [deed for when, deed in mine if when <= at and deed.is_write]
    reads = [deed for when, deed in mine if when <= at and not deed.is_write]
    expect(said(page, "watched cell")).to_contain_text(f"{len(writes)} writes and {len(reads)} read")
    expect(said(page, "watched cell")).to_contain_text("D[70, 72] of accumulator 1")
    page.get_by_role("button", name="to what happened before").click()
    expect(moment(page)).to_contain_text(f"cycle {number(mine[8][0])} of")
    page.get_by_role("button", name="to the beginning").click()
    expect(said(page, "watched cell")).to_contain_text("not written yet")


# A run without a clock


def test_a_run_without_a_clock_counts_events_and_says_so(open_page: Open, tmp_path: Path) -> None:
    run = page_of(CORPUS / "gluon" / "tc_tmem_a_f16.toml", schedule="eager")
    (tmp_path / "eager.html").write_text(page_html(run), encoding="utf-8")
    page = open_page(Held(tmp_path / "eager.html", run), view="timeline")
    expect(page.get_by_text("This run had no clock")).to_be_visible()
    expect(moment(page)).to_have_text(f"event {run.head.clock.end} of {run.head.clock.end}")
    page.keyboard.press(",")
    stops = stops_of(run, 0)
    expect(moment(page)).to_contain_text(f"event {stops[-2]} of")
    page.keyboard.press("8")
    expect(said(page, "mbarrier")).to_contain_text("phase 1 open")
    page.keyboard.press("7")
    table = page.get_by_role("table", name=f"hops of {run.paths[0].element}")
    expect(table).to_contain_text(run.paths[0].hops[0].name)
    assert table.get_by_role("button", name=re.compile("^clock to")).count() == 0


# The data path


@pytest.mark.parametrize("kernel", ["demo", "pair", "scaled"])
def test_every_hop_of_an_element_has_its_address(
    open_page: Open, held: Callable[[str], Held], kernel: str
) -> None:
    run = held(kernel).run
    page = open_page(held(kernel), view="path")
    for path in run.paths:
        page.get_by_role("combobox", name="element", exact=True).select_option(path.element)
        rows = page.get_by_role("table", name=f"hops of {path.element}").locator("tbody tr")
        texts = rows.all_inner_texts()
        assert len(texts) == len(path.hops)
        for text, hop in zip(texts, path.hops, strict=True):
            assert (hop.remark or hop.name) in text and hop.address in text
        way = page.get_by_role("group", name=f"way of {path.element}")
        shown = way.get_by_role("button", name=re.compile(r"^hop \d+,")).all()
        assert len(shown) >= 5
        for address in {hop.address for hop in path.hops if hop.space in ("gmem", "smem", "tmem")}:
            expect(way.get_by_text(address).first).to_be_attached()
        for text in path.inputs.values():
            expect(page.get_by_text(text, exact=True).first).to_be_visible()


def test_the_stations_of_an_element_that_no_product_made(open_page: Open, tmp_path: Path) -> None:
    run = page_of(CORPUS / "tirx" / "tmem_roundtrip.toml", elements=("B[17,33]",))
    (tmp_path / "roundtrip.html").write_text(page_html(run), encoding="utf-8")
    page = open_page(Held(tmp_path / "roundtrip.html", run), view="path")
    way = page.get_by_role("group", name="way of B[17,33]")
    expect(way.get_by_text("no product made it")).to_be_visible()
    (cell,) = (hop for hop in run.paths[0].hops if hop.space == "tmem")
    station = way.locator(".station", has=page.get_by_role("button", name=f"hop {cell.number},"))
    expect(station).to_contain_text(f"lane {cell.lane}, column {cell.col}")
    expect(station).to_contain_text(cell.address)
    expect(way.get_by_text("not through Tensor Memory")).to_have_count(0)


def test_a_hop_takes_the_other_views_with_it(open_page: Open, demo: Held) -> None:
    path = demo.run.paths[1]
    page = open_page(demo, view="path")
    page.get_by_role("combobox", name="element", exact=True).select_option(path.element)
    cell = next(hop for hop in path.hops if hop.space == "tmem")
    page.get_by_role("button", name=f"hop {cell.number},").click()
    expect(moment(page)).to_contain_text(f"cycle {number(cell.at or 0)} of")
    page.keyboard.press("w")
    expect(said(page, "watched cell")).to_contain_text(f"tmem[lane {cell.lane}, col {cell.col}]")
    expect(said(page, "watched cell")).to_contain_text(f"of CTA {cell.home}")
    page.keyboard.press("0")
    expect(page.locator(f"#ptx-{cell.place.line}")).to_have_attribute("aria-selected", "true")


# mbarriers


def state_of(barrier: PageBarrier, at: int) -> tuple[int, int, int]:
    """The open phase of an mbarrier, and the arrivals and bytes that it waits for."""
    over, pending, bytes_left = 0, barrier.count, 0
    for phase in barrier.phases:
        for e in phase.entries:
            if e.what == "pass" or e.at > at or phase.number < 0:
                continue
            pending, bytes_left = e.pending, e.tx_bytes
            if (pending, bytes_left) == (0, 0):
                over, pending = phase.number + 1, barrier.count
    return over, pending, bytes_left


@pytest.mark.parametrize("kernel", ["demo", "pair"])
def test_an_mbarrier_says_what_it_waits_for_at_any_moment(
    open_page: Open, held: Callable[[str], Held], kernel: str
) -> None:
    run = held(kernel).run
    page = open_page(held(kernel), view="barriers")
    cta = run.ctas[0].cta
    options = page.get_by_role("listbox", name=f"mbarriers of CTA {cta}").get_by_role("option")
    mine = [barrier for barrier in run.barriers if barrier.cta == cta]
    assert options.count() == len(mine)
    for k, barrier in enumerate(mine):
        options.nth(k).click()
        entries = [e for p in barrier.phases if p.number >= 0 for e in p.entries if e.what != "pass"]
        for at in {entries[0].at, entries[-1].at, run.head.clock.end // 2}:
            page.get_by_role("slider", name=re.compile("^moment of")).fill(str(at))
            phase, pending, bytes_left = state_of(barrier, at)
            words = f"phase {phase} open, {pending} arrival"
            expect(said(page, "mbarrier")).to_contain_text(words)
            if bytes_left:
                expect(said(page, "mbarrier")).to_contain_text(f"{number(bytes_left)} B to come")


def test_the_ledger_of_a_phase_lists_who_did_what(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="barriers")
    barrier = next(b for b in demo.run.barriers if b.name == "full" and b.cta == 0)
    phase = next(p for p in barrier.phases if p.number == 1)
    ledger = page.get_by_role("table", name="ledger of full")
    ledger.get_by_role("button", name="1, parity 1").click()
    rows = ledger.locator("tr.entry")
    assert rows.count() == len(phase.entries)
    for text, entry in zip(rows.all_inner_texts(), phase.entries, strict=True):
        assert (
            number(entry.at) in text
            and f"warp {entry.warp}" in text
            and str(barrier.places[entry.place].line) in text
        )
        if entry.what == "complete":
            assert f"bytes arrive {number(entry.amount)} B" in text
    rows.first.get_by_role("button", name=re.compile("^clock to")).click()
    expect(moment(page)).to_contain_text(f"cycle {number(phase.entries[0].at)} of")
    page.get_by_role("button", name="show its hand-overs on the timeline").click()
    expect(page.get_by_role("combobox", name="stressed mbarrier")).to_have_value("0 1024")


# Findings and the source


def test_a_finding_takes_every_view_to_its_line_its_cells_and_its_moment(open_page: Open, twin: Held) -> None:
    run = twin.run
    page = open_page(twin, view="findings")
    options = page.get_by_role("listbox", name="findings").get_by_role("option")
    assert options.count() == len(run.findings)
    finding = run.findings[0]
    assert finding.place is not None and finding.other is not None and finding.at is not None
    assert finding.where is not None and finding.cta is not None
    options.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="finding", exact=True)).to_contain_text(finding.rule)
    source = page.get_by_role("complementary", name="Source")
    expect(source.locator(f"#ptx-{finding.place.line}")).to_have_attribute("aria-selected", "true")
    expect(source.locator(f"#ptx-{finding.place.line}")).to_contain_text("tcgen05.mma")
    expect(source.get_by_label(f"finding {finding.rule}").first).to_be_visible()
    expect(moment(page)).to_contain_text(f"cycle {number(finding.at)} of")
    page.get_by_role("button", name="watch the cell").click()
    cell = f"tmem[lane {finding.where.lane}, col {finding.where.col}] of CTA {finding.cta[0]}"
    expect(said(page, "watched cell")).to_contain_text(cell)
    page.get_by_role("button", name=f"show line {finding.other.line}", exact=True).first.click()
    expect(page.locator(f"#ptx-{finding.other.line}")).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="show on the timeline").click()
    expect(timeline(page)).to_be_visible()


def test_a_run_without_findings_says_so(open_page: Open, demo: Held) -> None:
    page = open_page(demo, view="findings")
    expect(page.get_by_text("The checker has nothing to say of this run.")).to_be_visible()


def test_the_source_shows_the_ptx_and_the_authors_line(open_page: Open, demo: Held) -> None:
    run = demo.run
    page = open_page(demo, view="source")
    page.get_by_role("searchbox", name="find in the PTX").fill("tcgen05.mma")
    lines = [k for k, text in enumerate(run.source.lines, 1) if "tcgen05.mma" in text]
    expect(page.get_by_text(f"{len(lines)} lines")).to_be_visible()
    for line in lines:
        page.get_by_role("button", name="next match").click()
        chosen = page.locator("[role=option][aria-selected=true]")
        expect(chosen).to_have_attribute("id", f"ptx-{line}")
        expect(chosen).to_be_in_viewport()
        expect(chosen).to_contain_text(" ".join(run.source.lines[line - 1].split())[:40])
    loc = next(w.place.loc for cta in run.ctas for w in cta.writers if w.place.line == lines[-1])
    name, _, author = loc.rpartition(":")
    text = next(t for t in run.texts if t.name == name)
    shown = page.get_by_role("region", name=f"source {name}").locator(".chosen")
    expect(shown).to_contain_text(author)
    expect(shown).to_contain_text(text.lines[int(author) - 1].strip())
    page.get_by_role("listbox", name=f"PTX of {run.source.name}").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("[role=option][aria-selected=true]")).to_have_attribute("id", f"ptx-{lines[-1] + 1}")
