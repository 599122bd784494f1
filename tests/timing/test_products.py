"""Executed kernels of tcgen05.mma take as long as a B200 did.

Origin of the measured words: SemiAnalysisAI/microbench-blackwell, tests/validation/data. The parameters were
fitted on the even rows; only odd rows are looked at here.
"""

from __future__ import annotations

import csv

import pytest

from timing.products import cycles
from validation.micro import DATA

FORMATS = ("BF16", "E4M3")
WORST = 0.065
"""What the closed form is off by at worst, over all rows of the table."""


def _odd_rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return [row for number, row in enumerate(csv.DictReader(file)) if number % 2]


def _form(row: dict[str, str]) -> tuple[str, str, int, int, int]:
    return row["Format"], row["ABLayout"], int(row["CTAGroup"]), int(row["M"]), int(row["N"])


def test_one_mma_takes_what_was_measured_within_1_percent_on_average() -> None:
    rows = [row for row in _odd_rows("umma_latency.csv") if row["Format"] in FORMATS]
    errors = [abs(cycles(*_form(row)) / float(row["MedianCycles"]) - 1) for row in rows]
    assert len(errors) >= 40
    assert sum(errors) / len(errors) <= 0.01
    assert max(errors) <= WORST


@pytest.mark.parametrize("form", [
    ("BF16", "SS", 1, 128, 256), ("BF16", "SS", 1, 128, 64), ("BF16", "TS", 1, 128, 128),
    ("BF16", "SS", 2, 256, 128), ("BF16", "SS", 1, 64, 64), ("BF16", "SS", 2, 128, 128),
])  # fmt: skip
def test_a_chain_follows_at_the_measured_interval(form: tuple[str, str, int, int, int]) -> None:
    measured = next(
        float(row["CyclesPerMMA"])
        for row in _all_rows("umma_throughput.csv")
        if _form(row) == form and int(row["PipelineDepth"]) == 256
    )
    interval = (cycles(*form, depth=24) - cycles(*form, depth=8)) / 16
    assert interval == pytest.approx(measured, rel=0.03)


def _all_rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
