"""Read a GPU's numbers from its TOML file into one frozen value."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

from drywell.base.errors import LaunchError
from drywell.base.record import record

Tag = Literal["SPEC", "MEASURED", "ASSUMED"]

_FOLDER = Path(__file__).parent
_TARGETS = "targets"


@record
class Fact:
    """One number of a GPU and how far it can be trusted."""

    name: str
    value: int
    unit: str
    tag: Tag
    source: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value} {self.unit} [{self.tag}] {self.source}"


@record
class Target:
    """What a PTX `.target` means here: does it run, which modelled GPUs load it for real, and why."""

    pattern: str
    runs: bool
    reason: str
    native_on: tuple[str, ...] = ()
    timing: Tag = "ASSUMED"


@record
class Gpu:
    """The numbers of one GPU, in the unit each name ends in; `facts` gives each one's unit, tag and source.

    Example:
        >>> load("b200").tmem_cols
        512
    """

    name: str
    title: str
    compute_capability: str
    sm_count: int
    max_ctas_per_sm: int
    max_warps_per_sm: int
    max_threads_per_cta: int
    max_cta_x: int
    max_cta_y: int
    max_cta_z: int
    max_grid_x: int
    max_grid_y: int
    max_grid_z: int
    max_cluster_ctas: int
    portable_cluster_ctas: int
    warp_lanes: int
    named_barriers_per_cta: int
    registers_per_sm: int
    max_registers_per_thread: int
    register_granule_per_warp: int
    smem_bytes_per_sm: int
    smem_bytes_per_cta: int
    smem_reserved_bytes_per_cta: int
    smem_granule_bytes: int
    smem_cta_window_bytes: int
    tmem_lanes: int
    tmem_cols: int
    tmem_granule_cols: int
    boost_clock_mhz: int
    facts: tuple[Fact, ...]

    def fact(self, name: str) -> Fact:
        """Return the fact behind the number called `name`; KeyError when there is none."""
        for fact in self.facts:
            if fact.name == name:
                return fact
        raise KeyError(name)


def names() -> tuple[str, ...]:
    """List the GPUs that can be loaded, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml") if path.stem != _TARGETS))


@cache
def load(name: str) -> Gpu:
    """Load the numbers of the GPU called `name`; LaunchError lists what exists when it is unknown.

    Example:
        >>> load("b200").smem_bytes_per_cta
        232448
    """
    if name not in names():
        raise LaunchError(f"there is no GPU '{name}'\n  hint: choose one of {', '.join(names())}")
    table = read(name)
    numbers: dict[str, Any] = {}
    if "based_on" in table:
        numbers |= read(table["based_on"])["numbers"]
    numbers |= table["numbers"]
    facts = tuple(Fact(key, **entry) for key, entry in numbers.items())
    return Gpu(
        name=table["name"],
        title=table["title"],
        compute_capability=table["compute_capability"],
        facts=facts,
        **{fact.name: fact.value for fact in facts},
    )


def target(name: str) -> Target:
    """Say what the PTX target `name` means here; the last rule refuses every name that no other knows.

    Example:
        >>> target("sm_100a").runs, target("sm_120a").runs
        (True, False)
    """
    return next(rule for rule in _targets() if fnmatchcase(name, rule.pattern))


@cache
def _targets() -> tuple[Target, ...]:
    """Read the rules of targets.toml, in their order."""
    rules = read(_TARGETS)["targets"]
    return tuple(Target(**{**rule, "native_on": tuple(rule.get("native_on", ()))}) for rule in rules)


def read(stem: str) -> dict[str, Any]:
    """Parse one TOML file of this folder."""
    return tomllib.loads((_FOLDER / f"{stem}.toml").read_text(encoding="utf-8"))
