"""Python's garbage collector during a run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 50_000
"""New objects after which it looks. Warps and CTAs that have ended go without it; the default, 700, makes a
long grid a quarter slower.
"""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector look rarely inside the block, unless it looks more rarely anyway."""
    youngest, *older = gc.get_threshold()
    if not 0 < youngest < RARELY:
        yield
        return
    gc.set_threshold(RARELY, *older)
    try:
        yield
    finally:
        gc.set_threshold(youngest, *older)
