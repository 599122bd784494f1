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


def declarations() -> tuple[Declaration, ...]:
    """Return every declaration, by root word and then by family, whichever families were imported first."""
    return tuple(d for root in sorted(REGISTRY) for d in sorted(REGISTRY[root], key=lambda d: d.family))
