"""What is legal about names, variables, functions and their heads: the verdicts of ptxas, with our codes."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.program.legal_and_not import CASES, HEADER, Case
from unit.program.program_texts import check, errors


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.title)
def test_a_module_is_refused_for_what_is_wrong_and_for_nothing_else(case: Case) -> None:
    found = {d.code for d in errors(check(case.text))}
    assert ({case.code} if case.code else set()) == found


@pytest.mark.parametrize("case", [c for c in CASES if c.code], ids=lambda c: c.title)
def test_what_is_wrong_has_a_place_and_is_said_with_the_name_or_the_number(case: Case) -> None:
    for diagnostic in errors(check(case.text)):
        assert diagnostic.span.line > 0 or diagnostic.code == "E0331"
        assert any(sign in diagnostic.message for sign in ("'", *"0123456789")), diagnostic.message


def test_titles_are_unique() -> None:
    assert [] == [title for title, count in Counter(c.title for c in CASES).items() if count > 1]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="the verdicts stand alone where ptxas is not there")
def test_ptxas_says_the_same_of_every_module(tmp_path: Path) -> None:
    def is_refused(k: int) -> bool:
        path = tmp_path / f"{k}.ptx"
        path.write_text(HEADER + CASES[k].text)
        command = ["ptxas", "-arch=sm_100a", "-c", str(path), "-o", str(path.with_suffix(".cubin"))]
        return subprocess.run(command, capture_output=True, check=False).returncode != 0

    with ThreadPoolExecutor(2) as pool:
        refused = list(pool.map(is_refused, range(len(CASES))))
    assert [] == [c.title for c, no in zip(CASES, refused, strict=True) if no != bool(c.code)]
