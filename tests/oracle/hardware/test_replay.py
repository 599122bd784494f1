"""The stored words of a real GPU, replayed on Drywell: whole words, bit for bit."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from oracle.hardware import store
from oracle.hardware.experiment import Experiment
from oracle.hardware.families import FAMILIES, name_of
from oracle.hardware.known import KNOWN
from oracle.hardware.replay import differences

PARTS = 4
"""Every family is replayed in so many tests, that several processes may share it."""

DEVIATIONS = Path(__file__).parents[3] / "DEVIATIONS.md"
SHOWN = 12


@cache
def experiments(family: ModuleType) -> tuple[Experiment, ...]:
    return tuple(family.experiments())


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES, ids=name_of)
def test_drywell_gives_the_words_of_the_gpu(family: ModuleType, part: int) -> None:
    captures = store.read(name_of(family))
    wrong: list[str] = []
    for experiment in experiments(family)[part::PARTS]:
        found = list(differences(experiment, captures.entries.get(experiment.name)))
        known = [k for k in KNOWN if k.names(experiment.name)]
        wrong += [str(d) for d in found if not any(k.covers(d) for k in known)]
        wrong += [
            f"{experiment.name}: the difference of row {k.row} is gone; take it out of known.py"
            for k in known
            if not any(k.covers(d) for d in found)
        ]
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:SHOWN]])


@pytest.mark.parametrize("family", FAMILIES, ids=name_of)
def test_the_captures_hold_the_experiments_and_nothing_else(family: ModuleType) -> None:
    there = list(store.read(name_of(family)).entries)
    assert [e.name for e in experiments(family)] == there


@pytest.mark.parametrize("family", FAMILIES, ids=name_of)
def test_experiments_have_names_of_their_own_and_do_what_is_expected_of_them(family: ModuleType) -> None:
    captures = store.read(name_of(family))
    names = [e.name for e in experiments(family)]
    assert len(set(names)) == len(names)
    assert all(e.forms and e.name.startswith(f"{name_of(family)}/") for e in experiments(family))
    ends = {e.name: captures.entries[e.name].measured.ended for e in experiments(family)}
    known = {e.name for e in experiments(family) for k in KNOWN if k.names(e.name) and k.part == "ended"}
    assert {e.name: e.ends for e in experiments(family) if e.name not in known} == {
        name: ended for name, ended in ends.items() if name not in known
    }


def test_what_is_known_to_differ_stands_in_the_list_of_deviations() -> None:
    rows = set(re.findall(r"^\| ([A-Z]+\d+) \|", DEVIATIONS.read_text(), re.MULTILINE))
    assert {k.row for k in KNOWN} <= rows


def test_there_are_as_many_words_and_forms_as_the_readme_says() -> None:
    num_words, forms = 0, set()
    for family in FAMILIES:
        entries = store.read(name_of(family)).entries
        num_words += sum(a.size for e in entries.values() for a in e.measured.outs)
        forms |= {form for e in experiments(family) for form in e.forms}
    said = re.search(
        r"(\d[\d,]*) result words over (\d[\d,]*) forms", Path(__file__).with_name("README.md").read_text()
    )
    assert said is not None
    assert (f"{num_words:,}", f"{len(forms):,}") == said.groups()
