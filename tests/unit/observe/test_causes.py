"""Of the findings about one operation that is not over, one leads; the others follow from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from drywell.base.diagnostic import Finding
from drywell.host.launch import load
from drywell.host.launch_file import read_launch_file
from drywell.report.findings import finding_lines, led
from drywell.report.text import plain

CORPUS = Path(__file__).parents[2] / "corpus"


def findings_without(name: str, statement: str) -> tuple[Finding, ...]:
    """Run a kernel of the corpus without the first of a statement."""
    file = read_launch_file(CORPUS / name)
    text = file.module.program.source.text
    assert statement in text
    result, _ = replace(file, module=load(text.replace(statement, "", 1))).run(check="ptx")
    return result.findings


def test_what_a_store_that_is_not_waited_for_does_further_on_follows_from_it() -> None:
    found = findings_without("gluon/tc_tmem_a_f16.toml", "tcgen05.wait::st.sync.aligned;")
    causes = {f.rule: None if f.cause is None else f.cause.rule for f in found if f.severity != "note"}
    effects = {"FREE-BEFORE-DONE": "ST-NOT-WAITED", "EXIT-WITH-PENDING": "ST-NOT-WAITED"}
    assert causes == {"ST-NOT-WAITED": None, **effects}
    assert [f.rule for f in found if f.severity != "note"][-2:] == ["FREE-BEFORE-DONE", "EXIT-WITH-PENDING"]
    text = plain(finding_lines(found))
    assert "error[EXIT-WITH-PENDING]" not in text and "error[FREE-BEFORE-DONE]" not in text
    assert text.count("  note: for the same reason: FREE-BEFORE-DONE at line ") == 1


def test_a_finding_whose_cause_is_not_shown_leads_itself() -> None:
    found = findings_without("gluon/tc_tmem_a_f16.toml", "tcgen05.wait::st.sync.aligned;")
    followers = [f for f in found if f.cause is not None]
    assert led(followers) == followers
