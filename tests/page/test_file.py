"""The single file: made of today's sources, small, offline, quick to show and to scrub."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import Page, expect

from drywell.report.html_page import built_page, page_html
from drywell.report.page_data import PageBarrier, PageBars, PageHistory, PageRun
from page.browser import probe
from page.conftest import SIZES, Held

EXPLORER = Path(__file__).parents[2] / "explorer"
TOP = (
    "explorer.html",
    "package-lock.json",
    "package.json",
    "sources.js",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.js",
)
MOST_BYTES = 5_000_000
FIRST_PAINT_MS = 1000
FRAMES_A_SECOND = 20


def digest_of(folder: Path) -> str:
    """The digest of explorer's sources, as explorer/sources.js makes it."""
    inside = [p for p in (folder / "src").rglob("*") if p.is_file() and not p.name.endswith(".test.ts")]
    paths = [*TOP, *(p.relative_to(folder).as_posix() for p in inside)]
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path}\0".encode() + (folder / path).read_bytes() + b"\0")
    return found.hexdigest()


def test_the_built_page_is_made_of_the_sources_beside_it() -> None:
    built = re.search(
        r'<meta name="drywell-sources" content="(\w+)"', built_page().read_text(encoding="utf-8")
    )
    assert built is not None
    assert built[1] == digest_of(EXPLORER), "make page builds it anew"


@pytest.mark.parametrize("name", ["demo", "pair", "scaled", "twin"])
def test_a_file_stays_small_and_needs_nothing_else(held: Callable[[str], Held], name: str) -> None:
    text = held(name).path.read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    page = re.sub(r'<script type="application/json" id="run">.*?</script>', "", text)
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert not re.search(r"@import|url\((?!['\"]?(data:|#))", page)


def test_a_file_opens_offline_and_names_its_run(open_page: Callable[..., Page], demo: Held) -> None:
    page = open_page(demo)
    head = demo.run.head
    expect(page.get_by_role("heading", level=1)).to_have_text(head.title)
    expect(page.get_by_role("status", name="verdict")).to_contain_text(head.verdict)
    assert page.get_by_role("tab").count() >= 9


def test_the_demo_is_painted_within_a_second(open_page: Callable[..., Page], demo: Held) -> None:
    times = [open_page(demo).evaluate(probe("painted")) for _ in range(3)]
    assert min(times) < FIRST_PAINT_MS, times


@pytest.mark.parametrize("view", ["tmem", "timeline", "readback", "barriers"])
def test_scrubbing_the_clock_keeps_its_frames(open_page: Callable[..., Page], demo: Held, view: str) -> None:
    page = open_page(demo, view=view)
    expect(page.get_by_role("tab", selected=True)).to_be_visible()
    rates = [page.evaluate(probe("scrubbed"), {"steps": 60}) for _ in range(2)]
    assert max(rates) > FRAMES_A_SECOND, rates


TILES = 256


def repeated(run: PageRun, times: int) -> PageRun:
    """A run in which everything that happens happens so many times, one after the other."""
    length = run.head.clock.end

    def later(moments: Sequence[int]) -> tuple[int, ...]:
        return tuple(m if m < 0 else m + k * length for k in range(times) for m in moments)

    def again(table: PageBars | PageHistory, moments: Sequence[str], columns: Sequence[str]) -> Any:
        changes = {name: later(getattr(table, name)) for name in moments}
        changes |= {name: tuple(getattr(table, name)) * times for name in columns}
        return replace(table, **changes)

    assert run.timeline is not None
    bars = again(
        run.timeline.bars,
        ("begin", "end", "issued", "done"),
        ("row", "doing", "kind", "text", "place", "cta", "warp", "buffer", "count"),
    )
    sms = tuple(
        replace(sm, steady_end=sm.steady_end + (times - 1) * length, end=times * length)
        for sm in run.timeline.sms
    )
    ctas = tuple(
        replace(cta, history=again(cta.history, ("at",), ("deed", "area", "cta", "warp", "count")))
        for cta in run.ctas
    )
    barriers = tuple(repeated_phases(barrier, times, length) for barrier in run.barriers)
    clock = replace(run.head.clock, end=times * length)
    return replace(
        run,
        head=replace(run.head, clock=clock),
        ctas=ctas,
        barriers=barriers,
        timeline=replace(run.timeline, bars=bars, sms=sms),
    )


def repeated_phases(barrier: PageBarrier, times: int, length: int) -> PageBarrier:
    """An mbarrier whose phases come so many times, one run of them `length` behind the other."""
    before = tuple(phase for phase in barrier.phases if phase.number < 0)
    own = barrier.phases[len(before) :]
    return replace(
        barrier,
        phases=before
        + tuple(
            replace(
                phase,
                number=phase.number + k * len(own),
                entries=tuple(structs.replace(entry, at=entry.at + k * length) for entry in phase.entries),
            )
            for k in range(times)
            for phase in own
        ),
    )


@pytest.mark.parametrize("view", ["timeline", "tmem", "watch", "barriers"])
def test_a_run_of_256_tiles_does_not_freeze(
    open_page: Callable[..., Page], demo: Held, tmp_path: Path, view: str
) -> None:
    tiles = sum(region.mma is not None for region in demo.run.ctas[0].regions) * 4  # filled twice by two CTAs
    run = repeated(demo.run, TILES // tiles)
    (tmp_path / "large.html").write_text(page_html(run), encoding="utf-8")
    page = open_page(Held(tmp_path / "large.html", run), view=view)
    expect(page.get_by_role("tab", selected=True)).to_be_visible()
    assert page.evaluate(probe("painted")) < 4 * FIRST_PAINT_MS
    rates = [page.evaluate(probe("scrubbed"), {"steps": 30}) for _ in range(2)]
    assert max(rates) > FRAMES_A_SECOND / 2, rates


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["demo", "pair", "scaled", "twin"])
def test_nothing_is_cut_and_nothing_overlaps(
    open_page: Callable[..., Page], held: Callable[[str], Held], name: str, size: str
) -> None:
    page = open_page(held(name), size=size)
    flaws = {}
    for k in range(page.get_by_role("tab").count()):
        tab = page.get_by_role("tab").nth(k)
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        found = page.evaluate(probe("cut")) + page.evaluate(probe("overlaps"))
        if found:
            flaws[tab.inner_text()] = found
    assert flaws == {}


def test_every_view_opens_by_its_key_and_by_the_arrows(open_page: Callable[..., Page], demo: Held) -> None:
    page = open_page(demo)
    tabs = page.get_by_role("tab")
    for k in range(tabs.count()):
        key = tabs.nth(k).locator("kbd").inner_text()
        page.keyboard.press(key)
        expect(tabs.nth(k)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tabpanel")).to_be_visible()
    tabs.first.click()
    for k in range(1, tabs.count()):
        page.keyboard.press("ArrowRight")
        expect(tabs.nth(k)).to_be_focused()
        expect(tabs.nth(k)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="keys")).to_have_count(0)


def test_the_theme_follows_the_reader_and_can_be_turned(open_page: Callable[..., Page], demo: Held) -> None:
    colour = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = open_page(demo, theme="light"), open_page(demo, theme="dark")
    assert light.evaluate(colour) != dark.evaluate(colour)
    dark_before = dark.evaluate(colour)
    light.keyboard.press("t")
    assert light.evaluate(colour) == dark_before
