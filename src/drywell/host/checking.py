"""How a launch is watched: the checker of a level, the observer of roles, and names for what they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drywell.base.errors import LaunchError, UnsupportedError
from drywell.base.events import Observer
from drywell.engine.run import smem_symbols
from drywell.machine.gmem import GlobalMemory
from drywell.machine.smem import SmemSymbol, name_in
from drywell.machine.windows import OFFSET_MASK
from drywell.observe.hazards.checker import Checker, Told
from drywell.observe.hazards.declared import Declared
from drywell.observe.hazards.rules import LEVELS, Level
from drywell.observe.roles import Roles
from drywell.observe.tensor_memory import TmemMap
from drywell.program.arrivals import byte_barriers
from drywell.program.link import Executable
from drywell.program.stored_types import f32_stores

Dim3 = tuple[int, int, int]
_OBSERVABLE = ("tmem", "roles")


@dataclass(frozen=True, slots=True)
class Watch:
    """Those who watch one launch; None stands for one that was not asked for."""

    tmem_map: TmemMap | None
    checker: Checker | None
    roles: Roles | None

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Return those that are there."""
        return tuple(o for o in (self.tmem_map, self.checker, self.roles) if o is not None)


def watch_of(
    check: str,
    observe: Sequence[str],
    executable: Executable,
    gmem: GlobalMemory,
    grid: Dim3,
    declared: Sequence[Declared] = (),
) -> Watch:
    """Return who watches a launch at the level `check`; UnsupportedError for what cannot be observed."""
    for what in observe:
        if what not in _OBSERVABLE:
            raise UnsupportedError(f"observe='{what}': only {', '.join(_OBSERVABLE)} can be observed yet")
    return Watch(
        TmemMap() if "tmem" in observe else None,
        make_checker(level_of(check), gmem, executable, grid, declared),
        make_roles(smem_symbols(executable), grid) if "roles" in observe else None,
    )


def level_of(check: str) -> Level:
    """Return the level that `check` names; LaunchError when there is no such level."""
    for level in LEVELS:
        if level == check:
            return level
    raise LaunchError(f"check='{check}': choose one of {', '.join(LEVELS)}")


def make_checker(
    level: Level,
    gmem: GlobalMemory,
    executable: Executable,
    grid: Dim3,
    declared: Sequence[Declared] = (),
) -> Checker | None:
    """Return a checker for one launch, None for level `off`."""
    if level == "off":
        return None
    symbols = smem_symbols(executable)

    def name_of(space: str, home: int, address: int) -> str:
        if space == "global":
            return gmem.describe(address)
        return name_in(symbols, address & OFFSET_MASK)

    told = Told(f32_stores(executable), byte_barriers(executable))
    return Checker(level, name_of, lambda cta: index_in(grid, cta), declared, told)


def make_roles(symbols: Sequence[SmemSymbol], grid: Dim3) -> Roles:
    """Return the observer of roles and hand-overs for one launch."""
    return Roles(lambda offset: name_in(symbols, offset), lambda cta: index_in(grid, cta))


def index_in(grid: Dim3, cta: int) -> Dim3:
    """Return the (x, y, z) of a CTA by its number."""
    return cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1])
