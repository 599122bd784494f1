"""Drywell takes exactly the spellings that `ptxas` 13.0 takes (sm_100a, .version 9.0)."""

from __future__ import annotations

import random

import pytest

from drywell.isa.registry import declarations
from oracle.ptxas import verdicts
from oracle.ptxas.assembler import assemble, is_there, release
from oracle.ptxas.comparison import differences, report
from oracle.ptxas.rows import Row, form_of, rows_of

STORED_RELEASE, STORED = verdicts.read()
FAMILIES = sorted({d.family for d in declarations()})
LIVE_ROWS = 1200


def _stored_rows(family: str):
    for declaration in declarations():
        if declaration.family == family:
            for text, verdict in STORED.get(form_of(declaration), {}).items():
                yield Row(form_of(declaration), text, "stored"), verdict


def test_every_declared_form_has_stored_verdicts_and_no_other_form_does():
    assert {form_of(d) for d in declarations()} == set(STORED), "run: python -m oracle.ptxas.generate"


def test_the_stored_rows_are_the_rows_the_declarations_give():
    changed = [
        form_of(d) for d in declarations() if {r.text for r in rows_of(d)} != set(STORED.get(form_of(d), {}))
    ]
    assert changed == [], "run: python -m oracle.ptxas.generate"


def test_at_least_three_rows_in_ten_are_rejections():
    letters = [verdict.letter for group in STORED.values() for verdict in group.values()]
    assert letters.count("R") >= 0.3 * len(letters)
    assert letters.count("A") >= 0.1 * len(letters)
    assert letters.count("C") < 0.01 * len(letters)


@pytest.mark.parametrize("family", FAMILIES)
def test_drywell_takes_what_ptxas_takes(family):
    found = differences(_stored_rows(family))
    assert not found, report(found)


@pytest.mark.skipif(not is_there(), reason="there is no ptxas on the path")
def test_ptxas_still_says_what_is_stored():
    if release() != STORED_RELEASE:
        pytest.skip(f"the ptxas on the path is {release()}, the stored verdicts are of {STORED_RELEASE}")
    every = [(t, v) for group in STORED.values() for t, v in group.items() if v.letter != "C"]
    sample = random.Random(1).sample(every, min(LIVE_ROWS, len(every)))
    said = assemble([text for text, _ in sample])
    assert [(t, v.letter) for (t, v) in sample] == [
        (t, v.letter) for (t, _), v in zip(sample, said, strict=True)
    ]
