"""The page as one HTML file: the built explorer with the record of a run written into it.

The file needs nothing else: no network, no other file. It is built from explorer/ by `make page` and ships
with the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from drywell.base.errors import UnsupportedError
from drywell.report.page_data import PageRun, encode_page

PLACEHOLDER = '<script type="application/json" id="run"></script>'
"""Where the built page wants the record of a run."""


def built_page() -> Traversable:
    """Return the place of the built page, whether it is there or not."""
    return files("drywell") / "page" / "explorer.html"


def page_html(run: PageRun | None, server: Mapping[str, Any] | None = None, template: str = "") -> str:
    """Return the page with a run in it as one HTML text; without a run it shows none.

    `server` is what a page that is served has to know, as a JSON object; `template` is the built page where
    it is not the package's own. UnsupportedError when the page was not built.
    """
    built = template or _read()
    before, found, after = built.partition(PLACEHOLDER)
    if not found:
        raise UnsupportedError(f"the built page has no {PLACEHOLDER}\n  hint: build it anew: make page")
    record = "" if run is None else encode_page(run).decode()
    told = "" if server is None else _script("server", json.dumps(server))
    return f"{before}{told}{_script('run', record)}{after}"


def _read() -> str:
    built = built_page()
    try:
        return built.read_text(encoding="utf-8")
    except OSError:
        hint = "make page builds it from explorer/, with Node.js; wheels carry it"
        message = f"the page is not part of this installation: there is no {built}\n  hint: {hint}"
        raise UnsupportedError(message) from None


def _script(name: str, text: str) -> str:
    """Return JSON as an element in which no HTML parser finds an early end."""
    escaped = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{escaped}</script>'
