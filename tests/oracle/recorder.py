"""Which instructions the tests execute: a pytest plugin, `-p oracle.recorder --executed FILE`.

While it is loaded every declaration notes that its semantics ran. At the end FILE says, for each declaration
and each suite of `SUITES`, in how many passing tests it did.
"""

from __future__ import annotations

import functools
import json
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from drywell.isa.declare import Declaration
from drywell.isa.registry import declarations
from oracle.ptxas.rows import form_of

SUITES = {
    "unit": "tests/unit/isa/",
    "programs": "tests/unit/engine/test_run_files.py",
    "zoo": "tests/zoo/",
    "kernels": "tests/kernels/test_corpus_runs.py",
}
"""Name of a suite -> how the path of its tests begins."""


class Recorder:
    """Counts, for each declaration, the passing tests of each suite in which it ran."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ran: set[str] = set()
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for declaration in declarations():
            self._watch(declaration)

    def _watch(self, declaration: Declaration) -> None:
        form, semantics = form_of(declaration), declaration.semantics

        @functools.wraps(semantics)
        def noted(*operands: Any) -> Any:
            self.ran.add(form)
            return semantics(*operands)

        object.__setattr__(declaration, "semantics", noted)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Count what runs during a test that passes."""
        self.ran.clear()
        yield
        suite = next((name for name, start in SUITES.items() if item.nodeid.startswith(start)), None)
        if suite is not None:
            for form in self.ran:
                self.counts[form][suite] += 1

    def pytest_sessionfinish(self) -> None:
        """Write the counts."""
        rows = {form_of(d): dict(sorted(self.counts[form_of(d)].items())) for d in declarations()}
        self.path.write_text(json.dumps(rows, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the name of the file."""
    parser.addoption("--executed", metavar="FILE", type=Path, required=True, help="where the counts go")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    config.pluginmanager.register(Recorder(config.getoption("--executed")))
