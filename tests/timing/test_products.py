"""Executed kernels of tcgen05.mma take as long as a B200 did.

Origin of the measured words: SemiAnalysisAI/microbench-blackwell, tests/validation/data. The parameters were
fitted on the even rows (the first, the third, ...); only odd rows are scored here.
"""

from __future__ import annotations

import csv

import pytest

import drywell
from drywell.arch.tensor_pipe import mma_latency_cycles
from drywell.arch.timing import timing
from timing.products import FORMATS, cycles
from validation.micro import DATA

Form = tuple[str, str, int, int, int]
WORST = 0.065
"""What the closed form is off by at worst, over all rows of the table."""


def _rows(name: str, first: int, value: str) -> list[tuple[Form, float]]:
    """Read every second row of a file from `first` on: the form of its mma, and what was measured."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[first::2]
    return [
        ((r["Format"], r["ABLayout"], int(r["CTAGroup"]), int(r["M"]), int(r["N"])), float(r[value]))
        for r in rows
    ]


def _is_refused(form: Form) -> bool:
    """Say whether PTX has no such mma: of a pair, N of kind::i8 is a multiple of 32 (PTX ISA, tcgen05.mma,
    shapes). A B200 ran these all the same.
    """
    kind, _, group, _, N = form
    return kind == "S8" and group == 2 and N % 32 != 0


def _errors(rows: list[tuple[Form, float]], added: int = 0) -> list[float]:
    return [abs((cycles(*form) + added) / measured - 1) for form, measured in rows if not _is_refused(form)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_one_mma_of_each_format_takes_what_was_measured_within_1_percent_on_average() -> None:
    rows = _rows("umma_latency.csv", 1, "MedianCycles")
    errors = {name: _errors([row for row in rows if row[0][0] == name]) for name in FORMATS}
    assert {name: len(of) for name, of in errors.items()} == {
        "BF16": 24, "E4M3": 24, "S8": 16, "F4": 24, "MXF8": 18, "MXF4": 18,
    }  # fmt: skip
    for name, of in errors.items():
        assert _mean(of) <= 0.01, name
        assert max(of) <= WORST, name


def test_executed_and_closed_form_are_equal_as_what_stands_between_the_readings_is_counted() -> None:
    t = timing("b200")
    for (form, operands, group, M, N), _ in _rows("umma_latency.csv", 0, "MedianCycles"):
        latency = mma_latency_cycles(t, M, N, group, operands, form.startswith("MX"))  # type: ignore[arg-type]
        assert cycles(form, operands, group, M, N) == latency


def test_the_even_rows_choose_the_same_count() -> None:
    rows = _rows("umma_latency.csv", 0, "MedianCycles")
    by_offset = {offset: _mean(_errors(rows, offset)) for offset in range(-2, 4)}
    assert min(by_offset, key=by_offset.__getitem__) == 0


def test_forms_that_ptx_does_not_have_are_refused_by_name() -> None:
    with pytest.raises(drywell.KernelFault, match=r"IDESC-ILLEGAL[^;]*N .* is 80"):
        cycles("S8", "SS", 2, 128, 80)


@pytest.mark.parametrize("name", FORMATS)
def test_a_chain_takes_what_was_measured_within_1_percent_on_average(name: str) -> None:
    rows = [row for row in _rows("umma_throughput.csv", 1, "CyclesPerMMA") if row[0][0] == name]
    errors = [_chain(form) / measured - 1 for form, measured in rows if not _is_refused(form)]
    assert len(errors) >= 16
    assert _mean([abs(error) for error in errors]) <= 0.01
    assert max(abs(error) for error in errors) <= WORST


def _chain(form: Form) -> float:
    """Return the cycles of each mma of a chain of 256, from what two shorter ones take."""
    short, long = cycles(*form, depth=2), cycles(*form, depth=10)
    return (short + (256 - 2) * (long - short) / 8) / 256
