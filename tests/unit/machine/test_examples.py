"""The examples in the docstrings of this room hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import drywell.machine

MODULES = sorted(m.name for m in pkgutil.iter_modules(drywell.machine.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_hold(name: str) -> None:
    module = importlib.import_module(f"drywell.machine.{name}")
    assert doctest.testmod(module, extraglobs={"np": __import__("numpy")}).failed == 0
