"""DEVIATIONS.md names every switch with its default, and every number that is only assumed."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from drywell import arch
from drywell.arch.timing import timing
from drywell.base.options import Options

TEXT = (Path(__file__).parents[2] / "DEVIATIONS.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]
NAMES = [field.name for field in fields(Options)]
SWITCHES = NAMES[NAMES.index("max_instructions") + 1 :]


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_has_a_row_that_lists_its_values_default_first(switch: str) -> None:
    cells = [row.split("|")[4] for row in ROWS if f"`{switch}`" in row.split("|")[4]]
    assert len(cells) == 1, f"DEVIATIONS.md needs one row with the switch `{switch}`"
    default = getattr(Options(), switch)
    if isinstance(default, str):
        values = re.findall(r"`(\w+)`", cells[0])[1:]
        assert default == values[0]
    else:
        assert default is False


def test_every_assumed_number_of_a_gpu_has_a_row() -> None:
    facts = [fact for name in arch.names() for fact in (*arch.load(name).facts, *timing(name).facts)]
    assumed = {fact.name for fact in facts if fact.tag == "ASSUMED"}
    assert assumed
    missing = {name for name in assumed if not any(f"`{name}`" in row.split("|")[2] for row in ROWS)}
    assert missing == set()


def test_rows_are_numbered_without_a_gap_and_say_how_they_could_be_settled() -> None:
    numbers = [row.split("|")[1].strip() for row in ROWS]
    expected: dict[str, int] = {}
    for number in numbers:
        expected[number[0]] = expected.get(number[0], 0) + 1
        assert f"{number[0]}{expected[number[0]]}" == number
    for row in ROWS:
        assert len(row.split("|")) == 7, row
        assert all(cell.strip() for cell in row.split("|")[1:6]), row
