"""`python -m page.screenshots`: every view of the page, in both sizes and both themes, for people to look at.

Pictures go to build/screenshots/KERNEL-VIEW-SIZE-THEME.png; `--kernels` and `--views` take some of them only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from drywell.host.page import page_of
from drywell.report.html_page import page_html
from page.browser import ARGUMENTS, chromium
from page.conftest import KERNELS, SIZES

OUT = Path(__file__).parents[2] / "build" / "screenshots"
THEMES = ("light", "dark")
SETTLED_MS = 400


def main() -> None:
    """Make the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--views", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--themes", nargs="*", default=list(THEMES), choices=THEMES)
    asked = parser.parse_args()
    executable = chromium()
    if executable is None:
        raise SystemExit("there is no chromium (Debian: apt-get install chromium)")
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        for kernel in asked.kernels:
            file = OUT / f"{kernel}.html"
            file.write_text(page_html(page_of(KERNELS[kernel])), encoding="utf-8")
            for size in asked.sizes:
                for theme in asked.themes:
                    _take(browser, file, (kernel, size, theme), asked.views)
        browser.close()


def _take(browser: Browser, file: Path, which: tuple[str, str, str], views: list[str]) -> None:
    """Take the pictures of one file in one size and theme."""
    kernel, size, theme = which
    width, height = SIZES[size]
    scheme: dict = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
    page = browser.new_context(**scheme).new_page()
    page.goto(file.as_uri())
    tabs = page.get_by_role("tab")
    for k in range(tabs.count()):
        view = (tabs.nth(k).get_attribute("id") or "").removeprefix("tab-")
        if views and view not in views:
            continue
        tabs.nth(k).click()
        page.mouse.move(0, 0)
        page.wait_for_timeout(SETTLED_MS)
        page.screenshot(path=OUT / f"{kernel}-{view}-{size}-{theme}.png")
    page.context.close()


if __name__ == "__main__":
    main()
