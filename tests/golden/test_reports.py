"""Reports as readers see them. `pytest tests/golden --update-golden` writes them anew: read the diff."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from drywell.examples import packaged
from drywell.report.explain import explain, list_lines
from drywell.report.findings import finding_lines, sources_of
from drywell.report.handovers import handover_table, role_table
from drywell.report.sarif import sarif_log
from drywell.report.text import Lines, plain

FOLDER = Path(__file__).parent


@cache
def broken() -> packaged.GemmRun:
    """Run the packaged kernel with a mistake in it: three tiles for one CTA."""
    return packaged.gemm(384, 128, 64, values="integers", ctas=1, broken=True, check="ptx")


@cache
def right() -> packaged.GemmRun:
    return packaged.gemm(384, 128, 64, values="integers", ctas=1, observe=("roles",))


def finding_with_the_authors_text() -> Lines:
    texts = sources_of(packaged.module(broken=True).program.source, packaged.source())
    return finding_lines(broken().result.findings, texts)


def finding_with_the_ptx_alone() -> Lines:
    return finding_lines(broken().result.findings, sources_of(packaged.module(broken=True).program.source))


def finding_without_any_text() -> Lines:
    return finding_lines(broken().result.findings)


def finding_as_sarif() -> Lines:
    text = packaged.module(broken=True).program.source
    log = sarif_log("findings", broken().result.findings, "0", sources=sources_of(text), exit_code=1)
    for rule in log["runs"][0]["tool"]["driver"]["rules"]:
        del rule["help"]  # the page has a report of its own
    return ((json.dumps(log, indent=1),),)


def roles_and_handovers() -> Lines:
    found = right().result
    return (*role_table(found.roles), (), *handover_table(found.handovers))


def explanation() -> Lines:
    return ((str(explain("TMEM-OVERWRITE-BEFORE-READ")),),)


def rules() -> Lines:
    return list_lines()


REPORTS: tuple[Callable[[], Lines], ...] = (
    finding_with_the_authors_text,
    finding_with_the_ptx_alone,
    finding_without_any_text,
    finding_as_sarif,
    roles_and_handovers,
    explanation,
    rules,
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.__name__)
def test_a_report_reads_as_it_did(report: Callable[[], Lines], request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{report.__name__}.txt"
    text = plain(report())
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert io.StringIO(text).readlines() == path.read_text(encoding="utf-8").splitlines(keepends=True)
