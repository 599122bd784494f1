"""Every duration and rate has a unit, a confidence, and a source or the rows it was fitted on."""

from __future__ import annotations

import pytest

from drywell import arch
from drywell.arch.timing import timing
from drywell.base.errors import LaunchError


@pytest.mark.parametrize("name", arch.names())
def test_every_number_carries_a_unit_a_confidence_and_a_source(name: str) -> None:
    t = timing(name)
    assert len(t.facts) == len({fact.name for fact in t.facts})
    for fact in t.facts:
        assert getattr(t, fact.name) == fact.value > 0
        assert fact.tag in ("SPEC", "MEASURED", "FITTED", "ASSUMED")
        assert fact.confidence in ("high", "medium", "low")
        assert fact.unit and len(fact.source) > 20
        assert (fact.tag == "FITTED") == (fact.source.startswith(("fitted on", "nine in ten"))), fact


def test_a_number_says_where_it_is_from() -> None:
    fact = timing("b200").fact("commit_cycles")
    assert str(fact).startswith("commit_cycles = 30 cycle [MEASURED, medium] public notes")
    with pytest.raises(KeyError):
        timing("b200").fact("commit_ns")


def test_b300_has_the_b200_times_and_a_wider_spread() -> None:
    b200, b300 = timing("b200"), timing("b300")
    assert {fact.name for fact in b300.facts if fact != b200.fact(fact.name)} == {"spread"}
    assert b300.spread > b200.spread


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(LaunchError, match="there is no GPU 'h100'"):
        timing("h100")
