"""The examples in the docstrings of the room run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import drywell.layout

MODULES = ["", *sorted(m.name for m in pkgutil.iter_modules(drywell.layout.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    results = doctest.testmod(importlib.import_module(f"drywell.layout.{name}".rstrip(".")))
    assert results.failed == 0
    assert results.attempted > 0 or name in ("arrays", "error")


def test_every_public_name_is_there():
    for name in drywell.layout.__all__:
        assert getattr(drywell.layout, name) is not None
    assert sorted(name for names in drywell.layout._HOMES.values() for name in names) == sorted(
        drywell.layout.__all__
    )
    with pytest.raises(AttributeError, match="no attribute 'lay_out'"):
        drywell.layout.lay_out  # noqa: B018
