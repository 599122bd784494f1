"""Run mutants of a kernel and say what became of each: named by the checker, or by nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drywell.base.diagnostic import Finding, Severity
from drywell.base.errors import BudgetError, DeadlockError, DrywellError, KernelFault, PtxError
from drywell.host.launch_file import read_launch_file
from drywell.host.module import Module, load
from drywell.host.mutation import Mutant, mutants
from drywell.host.result import Result

Outcome = Literal["refused", "found", "fault", "deadlock", "budget", "wrong numbers", "changed", "survives"]
KILLED: tuple[Outcome, ...] = ("found", "fault", "deadlock", "budget", "wrong numbers")
"""Outcomes that tell the author that something is wrong: a rule of order or layout, what stopped the run, or
OUTPUT-MISMATCH alone. `changed` buffers that the launch file expects nothing of tell nothing.
"""

SCHEDULES: tuple[dict[str, Any], ...] = (
    {"schedule": "eager"},
    {"schedule": "lazy"},
    {"seed": 1},
    {"seed": 2},
)
_BUDGET_FACTOR = 10
_MISMATCH = "OUTPUT-MISMATCH"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: under which schedule it was settled, and the rules that named it; of a
    survivor, those of which there are notes and were none of the original.
    """

    mutant: Mutant
    outcome: Outcome
    rules: tuple[str, ...] = ()
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class Original:
    """The kernel as it is: its executed instructions, its findings, and what its buffers hold at the end."""

    path: Path
    executed: int
    known: frozenset[tuple[str, int]]
    arrays: dict[str, bytes]


def all_mutants(path: Path) -> tuple[Mutant, ...]:
    """Return every mutant of the kernel of a launch file."""
    launch = read_launch_file(path)
    return mutants(launch.module.program, launch.entry)


def original(path: Path) -> Original:
    """Run the kernel itself, checked; DrywellError when it does not come to its end."""
    launch = read_launch_file(path)
    result, _ = launch.run(check="ptx")
    known = frozenset((f.rule, f.span.line) for f in result.findings)
    return Original(path, result.executed, known, _arrays(launch.buffers))


class _Runs:
    """Runs of a mutant, each from the buffers with which the launch file begins, that end when it executes
    many times what the kernel does. `compares`: with what the launch file expects.
    """

    def __init__(self, base: Original, module: Module, compares: bool) -> None:
        launch = replace(read_launch_file(base.path), module=module)
        self._launch = launch if compares else replace(launch, expect={})
        self._first = {name: array.copy() for name, array in launch.buffers.items()}
        self._budget = _BUDGET_FACTOR * base.executed + 100_000

    def run(self, check: str, **how: Any) -> Result:
        """Run it once more; DrywellError when it does not come to its end."""
        for name, array in self._first.items():
            self._launch.buffers[name][...] = array
        return self._launch.run(explains=False, check=check, max_instructions=self._budget, **how)[0]

    @property
    def arrays(self) -> dict[str, bytes]:
        """Return what the buffers hold."""
        return _arrays(self._launch.buffers)


def _arrays(buffers: dict[str, Any]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(array).tobytes() for name, array in buffers.items()}


def fate(base: Original, mutant: Mutant, schedules: Sequence[dict[str, Any]] = SCHEDULES) -> Fate:
    """Run one mutant under schedules until one settles it; numbers alone do not settle it."""
    try:
        module = load(mutant.text)
    except PtxError:
        return Fate(mutant, "refused")
    worst, runs = Fate(mutant, "survives"), _Runs(base, module, compares=True)
    known, notes = {rule for rule, _ in base.known}, dict[str, None]()
    for how in schedules:
        name = how.get("schedule") or f"seed {how['seed']}"
        try:
            result = runs.run("ptx", **how)
        except DrywellError as error:
            return Fate(mutant, _ended(error), _rules(error, base), name)
        rules = _new(result.findings, base)
        if set(rules) - {_MISMATCH}:
            return Fate(mutant, "found", rules, name)
        if rules:
            worst = Fate(mutant, "wrong numbers", rules, name)
        elif worst.outcome == "survives" and runs.arrays != base.arrays:
            worst = Fate(mutant, "changed", (), name)
        notes.update((f.rule, None) for f in result.findings if f.rule not in known)
    return replace(worst, rules=tuple(notes)) if worst.outcome == "survives" else worst


def _ended(error: DrywellError) -> Outcome:
    kinds: tuple[tuple[type[DrywellError], Outcome], ...] = (
        (KernelFault, "fault"),
        (DeadlockError, "deadlock"),
        (BudgetError, "budget"),
    )
    return next((outcome for kind, outcome in kinds if isinstance(error, kind)), "refused")


def _rules(error: DrywellError, base: Original) -> tuple[str, ...]:
    result = getattr(error, "result", None)
    return _new(result.findings, base) if result is not None else ()


def _new(findings: Iterable[Finding], base: Original) -> tuple[str, ...]:
    """Return the rules that say something which they do not say of the original."""
    said = [
        f for f in findings if f.severity is not Severity.NOTE and (f.rule, f.span.line) not in base.known
    ]
    return tuple(dict.fromkeys(f.rule for f in said))


def schedules(seeds: int) -> tuple[dict[str, Any], ...]:
    """Return eager, lazy and so many seeds."""
    return (*SCHEDULES[:2], *({"seed": seed} for seed in range(1, seeds + 1)))


def is_equivalent(base: Original, mutant: Mutant, seeds: int) -> bool:
    """Say whether a mutant leaves the same buffers as the original, eager, lazy and under `seeds` seeds."""
    runs = _Runs(base, load(mutant.text), compares=False)
    for how in schedules(seeds):
        try:
            runs.run("off", **how)
        except DrywellError:
            return False
        if runs.arrays != base.arrays:
            return False
    return True


def sampled(found: Sequence[Mutant], count: int | None, seed: int) -> tuple[Mutant, ...]:
    """Return `count` mutants drawn by a seed, in order of the text; all for None.

    Each kind of edit gets its share: kinds are drawn round and round, so that rare ones are there too.
    """
    if count is None or count >= len(found):
        return tuple(found)
    rng = random.Random(seed)
    kinds: dict[str, list[Mutant]] = {}
    for mutant in found:
        kinds.setdefault(mutant.kind, []).append(mutant)
    for group in kinds.values():
        rng.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < count:
        for kind in sorted(kinds):
            if kinds[kind] and len(chosen) < count:
                chosen.append(kinds[kind].pop())
    return tuple(sorted(chosen, key=lambda mutant: mutant.number))


def fates(base: Original, chosen: Sequence[Mutant], workers: int = 1) -> list[Fate]:
    """Return what became of each mutant, in order."""
    run = partial(fate, base)
    if workers == 1:
        return [run(mutant) for mutant in chosen]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(run, chosen, chunksize=1))
