"""The whole instruction set: importing this module declares every family."""

from __future__ import annotations

import importlib
import pkgutil

import drywell.isa as _isa
from drywell.isa.declare import REGISTRY, Declaration

_FRAMEWORK = {"declare", "decode", "ops", "registry"}

for _module in pkgutil.iter_modules(_isa.__path__):
    if _module.name not in _FRAMEWORK:
        importlib.import_module(f"drywell.isa.{_module.name}")

_ordered = {root: sorted(REGISTRY[root], key=lambda d: d.family) for root in sorted(REGISTRY)}
REGISTRY.clear()
REGISTRY.update(_ordered)  # the same whichever families were imported before


def declarations() -> tuple[Declaration, ...]:
    """Return every declaration, by root word and then by family."""
    return tuple(d for declared in REGISTRY.values() for d in declared)
