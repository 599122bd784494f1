"""Debian's Chromium, and how it is started here."""

from __future__ import annotations

import shutil
from pathlib import Path

ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
"""No window and no GPU, which CI has not; no sandbox, which root has not; no network of the browser's own."""


def chromium() -> str | None:
    """Return the browser's path, None when there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def probe(name: str) -> str:
    """Return a function that looks at the page from inside, one of probes/."""
    return (Path(__file__).parent / "probes" / f"{name}.js").read_text(encoding="utf-8")
