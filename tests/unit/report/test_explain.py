"""Every rule, every fault and every code has a page; the examples of the pages are legal PTX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import drywell
from drywell.base.diagnostic import Severity
from drywell.host.launch import check
from drywell.observe.hazards.rules import LEVELS, RULES
from drywell.ptx.codes import CODES
from drywell.report.explain import CHAPTERS, SECTIONS, TEXTS, Explanation, explanations, list_lines
from drywell.report.text import plain

PACKAGE = Path(drywell.__file__).parent
PAGES = [page for page in explanations().values() if page.chapter != TEXTS]
FAULT = re.compile(r'(?:fault|KernelFault|MatmulProblem|refuse_fields|Finding)\(\s*"([A-Z][A-Z0-9-]+)"')
NAMED = re.compile(r'"([A-Z][A-Z0-9]+(?:-[A-Z0-9]+)+)"')
CODE = re.compile(r'"(E\d{4})"')

REFUSED = {("COMMIT-GROUP-MISMATCH", "wrong"): "E0330"}
"""Mistakes that are seen at load when they are as plain as in an example."""

SCAFFOLD = """\
.version 9.0
.target sm_100a
.address_size 64
.visible .entry example(.param .align 64 .b8 map[128])
{{
  .reg .pred %p, %q, %done;
  .reg .b16 %mask;
  .reg .b32 %r<8>, %d, %a, %taddr, %sfa, %idesc, %idesc2, %full, %empty, %ready, %drained, %parity;
  .reg .b32 %slot, %slot2, %tile, %smem, %remote, %remotebar, %answer, %flag32;
  .reg .b64 %rd<4>, %adesc, %adesc2, %bdesc, %map, %gptr, %flag, %flag2;
  .reg .b128 %b128;
{body}
  ret;
}}
"""


def in_source(pattern: re.Pattern[str], *folders: str) -> set[str]:
    """Return what a pattern finds in the package's code."""
    files = [path for folder in folders for path in (PACKAGE / folder).rglob("*.py")]
    return {name for path in files for name in pattern.findall(path.read_text(encoding="utf-8"))}


def test_every_rule_of_the_checker_has_a_page() -> None:
    assert set(RULES) <= set(explanations())


def test_every_fault_and_finding_that_the_code_names_has_a_page() -> None:
    named = in_source(FAULT, "machine", "isa", "engine", "host") | in_source(
        NAMED, "machine", "isa", "engine"
    )
    assert "GMEM-OOB" in named and "TRAP" in named
    assert named - set(explanations()) == set()


def test_every_page_is_of_a_rule_or_of_something_the_code_names() -> None:
    named = set(RULES) | in_source(FAULT, ".") | in_source(NAMED, "machine", "isa", "engine", "host")
    assert {page.rule for page in PAGES} - named == set()


def test_every_code_of_a_diagnostic_is_answered() -> None:
    raised = in_source(CODE, "ptx", "program", "isa", "layout", "host")
    codes = {rule for rule, page in explanations().items() if page.chapter == TEXTS}
    assert set(CODES) <= codes
    assert raised == codes


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.rule)
def test_every_section_of_a_page_says_something(page: Explanation) -> None:
    for section in SECTIONS:
        assert getattr(page, section), section
    assert page.summary.endswith(".") and len(page.summary) <= 130
    assert page.wrong != page.right
    assert all(len(line) <= 140 for text in (page.means, page.wrong, page.right) for line in text.split("\n"))


def test_the_levels_of_a_page_are_those_of_the_table() -> None:
    page = drywell.explain("FENCE-AFTER-MISSING")
    assert page.severities == (("hw", "silent"), ("ptx", "note"), ("strict", "error"))
    for rule, row in RULES.items():
        found = dict(explanations()[rule].severities)
        assert list(found) == [level for level in LEVELS if level != "off"]
        assert all(found[level] == (row.severity(level) or "silent") for level in found)


@pytest.mark.parametrize("section", ["wrong", "right"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.rule)
def test_the_examples_are_legal_ptx(page: Explanation, section: str) -> None:
    """A hazard is no error of spelling: what is wrong must load as well as what is right."""
    _, diagnostics, source = check(SCAFFOLD.format(body=getattr(page, section)))
    wrong = [d for d in diagnostics if d.severity is Severity.ERROR]
    if (page.rule, section) in REFUSED:
        assert [d.code for d in wrong] == [REFUSED[page.rule, section]]
    else:
        assert [d.render(source) for d in wrong] == []


def test_a_page_shows_all_its_sections_and_its_chapter() -> None:
    text = str(drywell.explain("[tmem-uninit]"))
    assert text.startswith("TMEM-UNINIT: ")
    for word in ("Tensor Memory and tcgen05", "ptx: error", "Wrong\n", "Right\n", "Fix: ", "Source: PTX ISA"):
        assert word in text


def test_an_unknown_rule_names_those_that_are_near() -> None:
    with pytest.raises(drywell.DrywellError, match="did you mean TMEM-UNINIT"):
        drywell.explain("TMEM-UNINT")
    with pytest.raises(drywell.DrywellError, match="drywell explain lists all rules"):
        drywell.explain("?")


def test_the_list_names_every_page_once_under_its_chapter() -> None:
    text = plain(list_lines())
    for rule in explanations():
        assert 1 == len(re.findall(rf"^  {re.escape(rule)} ", text, re.MULTILINE))
    titles = {page.chapter for page in explanations().values()}
    assert len(titles) == len(CHAPTERS) + 1
    assert all(f"{title}\n" in text for title in titles)
