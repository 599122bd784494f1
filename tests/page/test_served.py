"""`drywell explore` in the browser: what it offers is run, with other knobs, stopped, and shown."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from drywell.host.page import path_of
from kernel_folder import CORPUS, fill


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server as people start it; its folder has right, wrong and endless kernels."""
    folder = tmp_path_factory.mktemp("kernels")
    fill(folder)
    command = [sys.executable, "-u", "-m", "drywell", "explore", "--port", "0", "tmem_roundtrip.toml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.match(r"(http://127\.0\.0\.1:\d+)/", server.stdout.readline())
        assert found is not None
        yield found[1]
        server.terminate()


def chosen(page: Page, **knobs: str) -> None:
    """Set knobs by their labels, and run."""
    for label, value in knobs.items():
        knob = page.get_by_label(label.replace("_", " "), exact=True)
        if label == "seed":
            knob.fill(value)
        else:
            knob.select_option(value)
    page.get_by_role("button", name="Run", exact=True).click()


def test_the_launch_file_it_was_started_with_runs_by_itself(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")
    expect(page.get_by_role("status", name="verdict")).to_contain_text("clean")
    expect(page.locator("header")).to_contain_text("schedule timed")
    offered = page.get_by_label("launch file").locator("option").all_inner_texts()
    assert {"tmem_roundtrip.toml", "spin.toml", "gemm.toml", "gemm_broken.toml"} <= set(offered)
    assert page.get_by_label("launch file").locator("optgroup").count() == 2


def test_knobs_change_the_next_run(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")
    chosen(page, schedule="lazy", check="off")
    expect(page.locator("header")).to_contain_text("schedule lazy")
    expect(page.get_by_role("status", name="verdict")).to_contain_text("unchecked")
    assert page.get_by_label("seed").count() == 0
    page.get_by_label("schedule", exact=True).select_option("seeded")
    chosen(page, seed="7", check="ptx")
    expect(page.locator("header")).to_contain_text("schedule seeded")
    expect(page.get_by_role("status", name="verdict")).to_contain_text("clean")


def test_a_kernel_with_a_mistake_comes_with_its_findings(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")
    chosen(page, launch_file="folder/tmem_roundtrip_racy.toml", schedule="eager")
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip_racy")
    expect(page.get_by_role("status", name="verdict")).to_contain_text("fault")
    page.keyboard.press("9")
    expect(page.get_by_role("tabpanel")).to_contain_text("FREE-BEFORE-DONE")


def test_a_long_run_says_how_far_it_is_and_can_be_stopped(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")
    chosen(page, launch_file="folder/spin.toml", schedule="eager", check="off")
    expect(page.get_by_role("progressbar", name="progress of the run")).to_be_visible()
    status = page.get_by_role("status", name="progress", exact=True)
    expect(status).to_contain_text(re.compile(r"\d+\.\d s, [1-9][\d,]* events, 0 of 1 CTAs ended"))
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar", name="progress of the run")).to_have_count(0)
    chosen(page, launch_file="folder/tmem_roundtrip.toml", schedule="lazy", check="ptx")
    expect(page.locator("header")).to_contain_text("schedule lazy")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_what_cannot_be_run_is_said(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")
    chosen(page, launch_file="folder/absent.toml")
    expect(page.get_by_role("alert")).to_contain_text("nowhere.ptx")
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")


def test_the_second_run_of_a_kernel_knows_its_length(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url)
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")
    page.evaluate(
        """() => {
          window.shares = [];
          new MutationObserver(() => {
            const bar = document.querySelector("progress");
            if (bar && bar.hasAttribute("value")) window.shares.push(bar.value);
          }).observe(document.body, { subtree: true, childList: true, attributes: true });
        }"""
    )
    chosen(page, launch_file="folder/tc_2cta_f16.toml", schedule="timed", check="ptx")
    expect(page.get_by_role("heading", level=1)).to_have_text("tc_2cta_f16", timeout=120_000)
    assert page.evaluate("window.shares") == []
    chosen(page)
    expect(page.get_by_role("progressbar", name="progress of the run")).to_be_visible()
    expect(page.get_by_role("progressbar", name="progress of the run")).to_have_count(0, timeout=120_000)
    shares = page.evaluate("window.shares")
    assert shares == sorted(shares)
    assert shares and 0 <= shares[0] < shares[-1] <= 1


def test_any_element_is_followed(open_page: Callable[..., Page], url: str) -> None:
    page = open_page(url, view="path")
    expect(page.get_by_role("heading", level=1)).to_have_text("tmem_roundtrip")
    page.get_by_label("element to follow").fill("B[17,33]")
    page.keyboard.press("Enter")
    path = path_of(CORPUS / "tirx" / "tmem_roundtrip.toml", "B[17,33]", schedule="timed")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text(f"B[17,33] = {path.value}")
    for hop in path.hops:
        if hop.space == "tmem":
            expect(panel).to_contain_text(f"lane {hop.lane}, col {hop.col}")
    page.get_by_label("element to follow").fill("Z[0]")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Z")
