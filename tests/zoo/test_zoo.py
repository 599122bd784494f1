"""Every form of the zoo runs in a valid kernel of our own, and its effect is what the spec says."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from drywell.base.errors import DrywellError
from drywell.host.launch import launch, load
from zoo import boxes, columns, products, registers, scenes
from zoo.forms import FORMS, ZOO

CHECKED: dict[str, ModuleType] = {
    "registers": registers,
    "columns": columns,
    "products": products,
    "boxes": boxes,
    "scenes": scenes,
}
REFUSED = {"multimem": ("multicast address of several GPUs", "one GPU is modelled")}
"""Entries that cannot run here: words of the refusal, and why."""
RUNNING = sorted(set(FORMS) - set(REFUSED))


def test_every_entry_of_the_file_is_covered_once() -> None:
    lines = ZOO.read_text().split("\n")
    entries = {line.split()[2].split("(")[0] for line in lines if line.startswith(".visible .entry ")}
    assert len(entries) == 325
    assert entries == set(RUNNING) | set(REFUSED)
    assert all(form.statements and len(form.families) == 1 for form in FORMS.values())
    assert {name for name in FORMS if FORMS[name].families[0] not in CHECKED} == set(REFUSED)
    assert {"".join(FORMS[name].statements) for name in REFUSED}.isdisjoint(
        "".join(FORMS[name].statements) for name in RUNNING
    )


@pytest.mark.parametrize("name", RUNNING)
def test_a_form_does_what_the_spec_says(name: str) -> None:
    form = FORMS[name]
    CHECKED[form.families[0]].check(form)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_run_is_refused_with_the_reason(name: str) -> None:
    body = ";\n    ".join(FORMS[name].statements)
    kernel = f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 32 {{
    .reg .b64 d1; .reg .f32 f0;
    ld.param.u64 d1, [out];
    {body};
    ret;
}}"""
    with pytest.raises(DrywellError, match=REFUSED[name][0]):
        launch(load(kernel)["k"], args=[np.zeros(1, np.float32)])
