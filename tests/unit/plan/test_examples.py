"""The examples in the docstrings of the room, and of the table it reads, run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import drywell.plan

MODULES = ["arch.timing", *(f"plan.{m.name}" for m in pkgutil.iter_modules(drywell.plan.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"drywell.{name}"))
    assert results.failed == 0
    assert results.attempted > 0 or name == "plan.traffic"
