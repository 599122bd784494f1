"""Whole blocks of the approximate functions against the digests of an H200's words (every_argument.py)."""

from __future__ import annotations

import pytest

from oracle.hardware import every_argument
from unit.isa.alu import execute

# A block of f32 is a sign and an exponent: 127 is 1 <= x < 2, from 256 on numbers are negative.
INTERPRETED = [
    ("ex2.approx.f32", 256 + 133),  # -128 < x <= -64: normal results and subnormal ones
    ("lg2.approx.ftz.f32", 126),
    ("rcp.approx.ftz.f32", 127),
    ("rsqrt.approx.ftz.f32", 128),
    ("sqrt.approx.ftz.f32", 127),
    ("sin.approx.f32", 127),
    ("cos.approx.f32", 256 + 129),
    ("tanh.approx.f32", 126),
    ("rcp.approx.ftz.f64", 127),
    ("rsqrt.approx.ftz.f64", 128),
    *((form, 0) for form in every_argument.FORMS if form.endswith("f16")),
]
ANY = (0, 126, 127, 253, 256 + 127)
COMPILED = [(form, block) for form in every_argument.FORMS if form.endswith(".f32") for block in ANY]


@pytest.mark.parametrize(("form", "block"), INTERPRETED)
def test_a_block_of_interpreted_results_is_the_gpus(form: str, block: int) -> None:
    assert every_argument.agrees(form, block, execute)


@pytest.mark.parametrize("form", dict(COMPILED))
def test_blocks_of_compiled_results_are_the_gpus(form: str) -> None:
    different = [
        b for f, b in COMPILED if f == form and not every_argument.agrees(f, b, every_argument.compiled)
    ]
    assert [] == different


def test_every_block_of_every_form_is_stored() -> None:
    digests = every_argument.stored()["digests"]
    assert {form: every_argument.blocks(form)[0] for form in every_argument.FORMS} == {
        form: len(found) for form, found in digests.items()
    }


@pytest.mark.parametrize("form", ["ex2.approx.f32", "rsqrt.approx.ftz.f64", "tanh.approx.bf16"])
def test_the_program_counts_through_the_arguments_of_its_form(form: str) -> None:
    text = every_argument.program(form, "sm_90a")
    assert 1 == text.count(form)
    assert "{" not in text.split("entry sweep")[0]
