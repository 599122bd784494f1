"""The page in a real browser: Debian's Chromium, driven by Playwright, over files made of real runs.

Without Chromium these tests are skipped; with DRYWELL_PAGE_TESTS=required, as CI has it, they fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from drywell.examples.packaged import FOLDER
from drywell.host.page import page_of
from drywell.report.html_page import page_html
from drywell.report.page_data import PageRun, encode_page, read_page
from page.browser import ARGUMENTS, chromium

CORPUS = Path(__file__).parents[1] / "corpus"
SIZES = {"small": (1280, 720), "wide": (1920, 1080)}
KERNELS = {
    "demo": FOLDER / "gemm.toml",
    "twin": FOLDER / "gemm_broken.toml",
    "pair": CORPUS / "nvcc_ours" / "ours_gemm_2cta.toml",
    "scaled": CORPUS / "gluon" / "tc_scaled_copy_mxfp8.toml",
}
MILLISECONDS = 30_000


@dataclass(frozen=True)
class Held:
    """A file that holds a run, and the run."""

    path: Path
    run: PageRun


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser without a window, gone when the tests of pages are over: Playwright runs in a greenlet and
    watches its process in a thread, which other tests do not want beside them.
    """
    executable = chromium()
    if executable is None:
        if os.environ.get("DRYWELL_PAGE_TESTS") == "required":
            pytest.fail("there is no chromium, and DRYWELL_PAGE_TESTS=required")
        pytest.skip("there is no chromium (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Held]:
    """The file of a kernel of KERNELS, as `drywell run --html` writes it; made once for all workers."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    known: dict[str, Held] = {}

    def file_of(name: str) -> Held:
        if name not in known:
            record, path = shared / f"page_{name}.json", shared / f"page_{name}.html"
            if not path.exists():
                run = page_of(KERNELS[name])
                _write(record, encode_page(run).decode())
                _write(path, page_html(run))
            known[name] = Held(path, read_page(record.read_bytes()))
        return known[name]

    return file_of


def _write(path: Path, text: str) -> None:
    """Write a file that other workers see whole or not at all."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


@pytest.fixture(scope="session")
def demo(held: Callable[[str], Held]) -> Held:
    """The demo's kernel."""
    return held("demo")


@pytest.fixture(scope="session")
def twin(held: Callable[[str], Held]) -> Held:
    """The demo's twin, with a mistake."""
    return held("twin")


@pytest.fixture(scope="session")
def pair(held: Callable[[str], Held]) -> Held:
    """A kernel of pairs of CTAs."""
    return held("pair")


@pytest.fixture(scope="session")
def scaled(held: Callable[[str], Held]) -> Held:
    """A block-scaled kernel."""
    return held("scaled")


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file or an address: `open_page(demo, view="tmem")`, with `theme` light or dark, `size` small or
    wide. The test fails when the page writes an error or a warning, or when a file asks for another.
    """
    said: list[str] = []
    contexts: list[BrowserContext] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            said.append(f"{message.type}: {message.text}")

    def open_one(what: Held | str, view: str = "", theme: str = "light", size: str = "small") -> Page:
        width, height = SIZES[size]
        scheme: Any = theme
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on("console", hear)
        page.on("pageerror", lambda error: said.append(f"thrown: {error}"))
        url = what if isinstance(what, str) else what.path.as_uri()
        own = url if isinstance(what, Held) else what.rstrip("/")

        def watch(request: Request) -> None:
            if not request.url.startswith((own, "data:", "blob:")):
                said.append(f"asked for {request.url}")

        page.on("request", watch)
        page.goto(f"{url}#view={view}" if view else url)
        return page

    expect.set_options(timeout=MILLISECONDS)
    yield open_one
    for context in contexts:
        context.close()
    assert said == []
