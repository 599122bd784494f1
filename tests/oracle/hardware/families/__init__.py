"""The families of experiments; each module has `experiments()`, a stable iterator of its Experiments."""

from __future__ import annotations

from types import ModuleType

from oracle.hardware.families import (
    alu,
    approximate,
    atomics,
    barriers,
    bulk,
    carry,
    cluster,
    constants,
    copies,
    fragments,
    im2col,
    matrix,
    mbarrier,
    memory,
    slices,
    tensor,
    tensormap,
    warp,
)

FAMILIES: tuple[ModuleType, ...] = (
    alu,
    approximate,
    atomics,
    barriers,
    bulk,
    carry,
    cluster,
    constants,
    copies,
    fragments,
    im2col,
    matrix,
    mbarrier,
    memory,
    slices,
    tensor,
    tensormap,
    warp,
)


def name_of(family: ModuleType) -> str:
    """Return the name of a family: that of its captures, and what its experiments' names begin with."""
    return family.__name__.rsplit(".", 1)[-1]
