"""Kernels of our own, as data (CUDA source, PTX, launch file), and thin functions that run them.

run = drywell.examples.gemm(m=256, n=256, k=128)
assert run.ok
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drywell.examples.demonstration import demonstrate as demonstrate
    from drywell.examples.packaged import GemmRun as GemmRun
    from drywell.examples.packaged import gemm as gemm

__all__ = ["GemmRun", "demonstrate", "gemm"]

_HOMES = {"gemm": "packaged", "GemmRun": "packaged", "demonstrate": "demonstration"}


def __getattr__(name: str) -> Any:
    """Import a function at its first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'drywell.examples' has no attribute '{name}'")
    return getattr(import_module(f"drywell.examples.{home}"), name)
