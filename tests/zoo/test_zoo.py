"""Every form of the zoo runs in a valid kernel of our own, and its effect is what the spec says."""

from __future__ import annotations

from types import ModuleType

import pytest

from zoo import boxes, columns, products, registers, scenes
from zoo.forms import FORMS, ZOO

CHECKED: dict[str, ModuleType] = {
    "registers": registers,
    "columns": columns,
    "products": products,
    "boxes": boxes,
    "scenes": scenes,
}


def test_every_entry_of_the_file_is_covered_once() -> None:
    lines = ZOO.read_text().split("\n")
    entries = {line.split()[2].split("(")[0] for line in lines if line.startswith(".visible .entry ")}
    assert len(entries) == 325
    assert entries == set(FORMS)
    assert all(form.statements and len(form.families) == 1 for form in FORMS.values())
    assert {form.families[0] for form in FORMS.values()} == set(CHECKED)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_form_does_what_the_spec_says(name: str) -> None:
    form = FORMS[name]
    CHECKED[form.families[0]].check(form)
