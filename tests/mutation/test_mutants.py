"""Fifty of the mutants of six kernels: what told of each still does."""

from __future__ import annotations

from functools import cache

import pytest

from drywell.host.mutation_run import KILLED, Original, fate, original
from mutation.campaign import KERNELS, Row, differing, equivalents, every, of_sample, rows, score

IN_CI = 50


def _spread(table: list[Row]) -> list[Row]:
    """Return fifty rows, spread over the table; those of the slowest kernel only now and then."""
    quick = [r for r in table if r.outcome != "refused" and r.is_found]
    slow = [r for r in quick if r.kernel == "flash_fwd_ws"][:4]
    rest = [r for r in quick if r.kernel != "flash_fwd_ws"]
    step = max(1, len(rest) // (IN_CI - len(slow)))
    return (rest[::step][: IN_CI - len(slow)] + slow)[:IN_CI]


@cache
def _base(kernel: str) -> Original:
    return original(KERNELS[kernel])


@pytest.mark.parametrize("row", _spread(rows()), ids=lambda row: f"{row.kernel}-{row.number}")
def test_what_told_of_a_mutant_still_does(row: Row) -> None:
    mutant = every(row.kernel)[row.number]
    assert mutant.title == row.edit
    found = fate(_base(row.kernel), mutant)
    assert found.outcome in KILLED
    if row.rules:
        assert set(row.rules.split()) & set(found.rules), (row.rules, found.rules)


def test_of_the_sample_at_least_95_of_100_mutants_that_differ_are_found() -> None:
    table = of_sample(rows())
    assert len(table) == 120
    found, counted = score(table, equivalents())
    assert found / counted >= 0.95


def test_only_survivors_that_no_seed_tells_from_the_original_are_signed_as_equivalent() -> None:
    known = {row.key: row for row in rows()}
    for key, why in equivalents().items():
        assert key in known and why
        assert known[key].outcome == "survives" and known[key].same_seeds >= 0


def test_a_reader_has_signed_a_survivor_or_says_how_it_may_differ() -> None:
    assert not set(equivalents()) & set(differing())
