"""Programs that say beside their code how they are launched and what must come out.

// grid 2        // block 64        // smem 1024
// arg out u32 64 poison
// arg a u32 64 arange
// arg 7 u32                        (a plain number)
// run: out == a * 2 + 1            (a whitelisted expression; every such line must hold)
// fault: MISALIGNED                (the run must end in this fault, on the line that says so when it stands
behind code) // deadlock: words of the report
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.host.arguments import Typed
from drywell.host.arrays import DTYPES
from drywell.host.expect import evaluate
from drywell.host.launch import Result, launch, load


@dataclass(slots=True)
class RunFile:
    """One program, its arrays by name, and what it claims."""

    path: Path
    shape: dict[str, int]
    arrays: dict[str, NDArray[Any]]
    args: list[Any]
    claims: list[str]
    fault: tuple[str, int] | None = None
    deadlock: str = ""
    printed: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, **options: Any) -> Result:
        """Launch the program's only entry."""
        module = load(self.path)
        return launch(
            module[module.entries[0]],
            grid=self.shape.get("grid", 1),
            block=self.shape.get("block", 32),
            dynamic_smem=self.shape.get("smem", 0),
            args=self.args,
            names={id(a): n for n, a in self.arrays.items()},
            **{**self.options, **options},
        )

    def failures(self) -> list[str]:
        """Return the claims that do not hold, with what is there."""
        out = []
        floats = {n: a.astype(np.float64) for n, a in self.arrays.items()}
        for claim in self.claims:
            left, right = claim.split("==", 1)
            found, expected = evaluate(left.strip(), floats), evaluate(right.strip(), floats)
            if not np.array_equal(found, np.broadcast_to(expected, found.shape), equal_nan=True):
                out.append(f"{claim}: found {found.ravel()[:40]}, expected {np.ravel(expected)[:40]}")
        return out


def _array(kind: str, count: int, init: str) -> NDArray[Any]:
    dtype = DTYPES[kind]
    if init == "arange":
        return np.arange(count).astype(dtype)
    if init == "poison":
        return np.full(count * dtype.itemsize, 0xDB, np.uint8).view(dtype)
    if init.startswith("random"):
        rng = np.random.default_rng(int(init[6:] or 1))
        return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    return np.full(count, float(init)).astype(dtype)


def read_run_file(path: Path) -> RunFile:
    """Read the annotations of a program."""
    shape: dict[str, int] = {}
    arrays: dict[str, NDArray[Any]] = {}
    out = RunFile(path, shape, arrays, [], [])
    for number, line in enumerate(path.read_text().split("\n"), 1):
        comment = line.partition("//")[2].strip()
        if match := re.match(r"(grid|block|smem) (\d+)$", comment):
            shape[match[1]] = int(match[2])
        elif match := re.match(r"option (\w+) (\w+)$", comment):
            out.options[match[1]] = int(match[2]) if match[2].isdigit() else match[2]
        elif match := re.match(r"arg ([a-z_]\w*) (\w+) (\d+) (\S+)$", comment):
            arrays[match[1]] = _array(match[2], int(match[3]), match[4])
            out.args.append(arrays[match[1]])
        elif match := re.match(r"arg (-?[\d.]+) (\w+)$", comment):
            out.args.append(Typed(match[2], float(match[1]) if match[2].startswith("f") else int(match[1])))
        elif comment.startswith("run:"):
            out.claims.append(comment[4:].strip())
        elif match := re.match(r"fault: (\S+)", comment):
            out.fault = (match[1], number)
        elif comment.startswith("deadlock:"):
            out.deadlock = comment[9:].strip()
        elif comment.startswith("prints:"):
            out.printed += comment[7:].strip() + "\n"
    return out
