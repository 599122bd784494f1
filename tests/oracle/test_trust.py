"""docs/trust.md says what is stored, and what it is made of says what it should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from drywell.isa.registry import declarations
from oracle.evidence import Evidence, Hardware, b200_words, canonical, declared, evidence, model_words
from oracle.ptxas.rows import form_of
from oracle.trust import PAGE, STRENGTHS, names, page


def test_the_committed_page_is_what_is_stored() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m oracle.trust"


def test_every_declaration_has_a_row_and_a_name_of_its_own() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for family in {d.family for d in declarations()}:
        spelt = names([d for d in declarations() if d.family == family])
        assert len(spelt) == len(set(spelt)), family
        table = text.partition(f"\n### {family}\n")[2].partition("\n###")[0]
        assert Counter(f"| {name} |" in table for name in spelt) == {True: len(spelt)}


def test_every_row_was_judged_by_ptxas() -> None:
    assert [form for form, e in evidence().items() if not e.accepted + e.refused] == []


def test_the_strongest_is_the_first_that_says_anything() -> None:
    none = Hardware()
    given = {
        "nothing": Evidence(9, 9, none, 0, 0, {}),
        "tests": Evidence(9, 9, none, 0, 0, {"kernels": 1}),
        "model": Evidence(9, 9, none, 0, 1, {"unit": 1}),
        "H200": Evidence(9, 9, Hardware(ends=1), 0, 1, {"unit": 1}),
        "B200": Evidence(9, 9, Hardware(words=1), 1, 1, {"unit": 1}),
    }
    assert set(given) == set(STRENGTHS)
    assert {name: e.strongest for name, e in given.items()} == {name: name for name in given}


def test_a_spelling_is_counted_once_whatever_the_order_of_its_words() -> None:
    forms = {canonical(declared(s)[1]) for s in ("ld.relaxed.gpu.global.u32", "ld.global.relaxed.gpu.u32")}
    assert forms == {"ld.relaxed.gpu.global.u32"}
    with pytest.raises(ValueError, match="nonsense"):
        declared("add.nonsense.u32")


def test_words_of_a_b200_and_of_the_model_are_of_mma_alone() -> None:
    opcodes = {form_of(d): d.opcode for d in declarations()}
    assert sum(b200_words().values()) == 73
    assert {opcodes[form].startswith("tcgen05.mma") for form in [*b200_words(), *model_words()]} == {True}


def test_the_recorder_counts_the_passing_tests_in_which_an_instruction_runs(tmp_path: Path) -> None:
    file = tmp_path / "executed.json"
    suite = "tests/unit/isa/test_integer.py::test_24_bit_products_take_the_low_24_bits"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "oracle.recorder", "--executed", str(file), suite]
    done = subprocess.run(
        command,
        cwd=PAGE.parents[1],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "tests:src"},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found = {form.split(" ")[0]: counts for form, counts in json.loads(file.read_text()).items() if counts}
    expected = ("mad24.hi{.sat}.type", "mad24.lo.type", "mul24.hi.type", "mul24.lo.type")
    assert found == {name: {"unit": 2} for name in expected}
