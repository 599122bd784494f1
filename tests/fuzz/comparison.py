"""Keeps all that can be seen of a run, and says where two runs differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.activity import WarpActivity
from drywell.base.errors import DrywellError
from drywell.host.launch import Module, Result, launch
from fuzz.programs import Program, with_map


@dataclass(frozen=True, slots=True)
class Way:
    """How to run: the schedule and the checks; and on which data, where they are drawn."""

    schedule: str = "eager"
    seed: int | None = None
    check: str = "off"
    data: int = 0

    def options(self) -> dict[str, Any]:
        """Return the options of a launch."""
        seeded = {} if self.seed is None else {"seed": self.seed}
        return {"schedule": self.schedule, "check": self.check, **seeded}

    def __str__(self) -> str:
        said = [f"schedule {self.schedule}" if self.seed is None else f"seed {self.seed}"]
        return ", ".join([*said, f"check {self.check}", f"data {self.data}"])


EAGER, LAZY, SEEDED = Way(), Way("lazy"), Way(seed=3)
CHECKED = Way(check="ptx")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run left: its arrays as bytes, by name, and everything its result says."""

    arrays: dict[str, bytes]
    verdict: str
    error: str
    executed: int
    activity: tuple[Any, ...]
    findings: tuple[Any, ...]
    printed: str


def seen(arrays: Mapping[str, NDArray[Any]], run: Callable[[], Result]) -> Seen:
    """Run something and return what it left; faults and deadlocks are part of that."""
    result: Result | None
    error = ""
    try:
        result = run()
    except DrywellError as raised:
        error, result = f"{type(raised).__name__}: {raised}", getattr(raised, "result", None)
    left = {name: array.tobytes() for name, array in arrays.items()}
    if result is None:
        return Seen(left, "refused", error, 0, (), (), "")
    said = result.executed, result.activity, result.findings, result.printed
    return Seen(left, result.verdict, error, *said)


def run_program(made: Program, module: Module, engine: str, way: Way) -> Seen:
    """Run a program on an engine and return what it left."""
    arguments = made.arguments(way.data)
    arrays = {name: a for name, a in arguments.items() if isinstance(a, np.ndarray)}

    def run() -> Result:
        return launch(
            module["k"],
            grid=made.shape.ctas,
            block=made.shape.threads,
            cluster=made.shape.cluster,
            args=with_map(arguments),
            names={id(array): name for name, array in arrays.items()},
            engine=engine,
            max_instructions=made.shape.most_instructions,
            **way.options(),
        )

    return seen(arrays, run)


def differences(one: Seen, two: Seen) -> list[str]:
    """Return what differs, arrays with their first different place."""
    found = []
    for name, x in one.arrays.items():
        y = two.arrays[name]
        if x != y:
            wrong = np.flatnonzero(np.frombuffer(x, np.uint8) != np.frombuffer(y, np.uint8))
            found.append(f"array {name}: {len(wrong)} bytes, the first at {wrong[0]}")
    for f in fields(Seen):
        left, right = getattr(one, f.name), getattr(two, f.name)
        if f.name != "arrays" and left != right:
            found.append(f"{f.name}: {_first_difference(left, right)}")
    return found


def _first_difference(left: Any, right: Any) -> str:
    if not isinstance(left, tuple):
        return f"{left!r} and {right!r}"
    at = next((k for k, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), None)
    if at is None:
        return f"{len(left)} and {len(right)}"
    if isinstance(left[at], WarpActivity):
        return f"CTA {left[at].cta} warp {left[at].warp}: {_counts(left[at], right[at])}"
    return f"[{at}] {left[at]} and {right[at]}"


def _counts(left: WarpActivity, right: WarpActivity) -> str:
    """Return what two warps executed differently often: units, and instructions with their lines."""
    ones, others = ({f"line {s.line} {what}": n for s, what, n in w.sites} for w in (left, right))
    ones, others = {**left.units, **ones}, {**right.units, **others}
    names = [name for name in {**ones, **others} if ones.get(name) != others.get(name)]
    return ", ".join(f"{name} {ones.get(name, 0)} and {others.get(name, 0)}" for name in names)
