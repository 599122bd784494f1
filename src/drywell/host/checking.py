"""How a launch is watched: the checker of a level, the observer of roles, and names for what they find."""

from __future__ import annotations

from collections.abc import Sequence

from drywell.base.errors import LaunchError
from drywell.machine.gmem import GlobalMemory
from drywell.machine.smem import SmemSymbol, name_in
from drywell.machine.windows import OFFSET_MASK
from drywell.observe.hazards.checker import Checker
from drywell.observe.hazards.declared import Declared
from drywell.observe.hazards.rules import LEVELS, Level
from drywell.observe.roles import Roles

Dim3 = tuple[int, int, int]


def level_of(check: str) -> Level:
    """Return the level that `check` names; LaunchError when there is no such level."""
    for level in LEVELS:
        if level == check:
            return level
    raise LaunchError(f"check='{check}': choose one of {', '.join(LEVELS)}")


def make_checker(
    level: Level,
    gmem: GlobalMemory,
    symbols: Sequence[SmemSymbol],
    grid: Dim3,
    declared: Sequence[Declared] = (),
) -> Checker | None:
    """Return a checker for one launch, None for level `off`."""
    if level == "off":
        return None

    def name_of(space: str, home: int, address: int) -> str:
        if space == "global":
            return gmem.describe(address)
        return name_in(symbols, address & OFFSET_MASK)

    return Checker(level, name_of, lambda cta: index_in(grid, cta), declared)


def make_roles(symbols: Sequence[SmemSymbol], grid: Dim3) -> Roles:
    """Return the observer of roles and hand-overs for one launch."""
    return Roles(lambda offset: name_in(symbols, offset), lambda cta: index_in(grid, cta))


def index_in(grid: Dim3, cta: int) -> Dim3:
    """Return the (x, y, z) of a CTA by its number."""
    return cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1])
