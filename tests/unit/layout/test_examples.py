"""The examples in the docstrings of the room run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import drywell.layout

MODULES = sorted(m.name for m in pkgutil.iter_modules(drywell.layout.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    results = doctest.testmod(importlib.import_module(f"drywell.layout.{name}"))
    assert results.failed == 0
    assert results.attempted > 0 or name in ("arrays", "error")
