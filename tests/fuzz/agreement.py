"""Runs every kernel of the corpus and every program of tests/ptx/run on both engines and compares everything.

PYTHONPATH=tests python -m fuzz.agreement                 # all of them, in all ways; takes minutes
PYTHONPATH=tests python -m fuzz.agreement --only triton   # those whose name holds a word
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drywell.base.errors import DrywellError
from drywell.host.launch_file import read_launch_file
from fuzz.comparison import CHECKED, EAGER, LAZY, SEEDED, Seen, Way, differences, seen
from run_file import read_run_file

TESTS = Path(__file__).parents[1]
CORPUS = TESTS / "corpus"
RUN = TESTS / "ptx" / "run"
WAYS = {"eager": EAGER, "lazy": LAZY, "seed": SEEDED, "check": CHECKED}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A launch file of the corpus or a program that says how it is run."""

    path: Path

    @property
    def name(self) -> str:
        """Return its path without what all have in common."""
        folder = CORPUS if self.path.suffix == ".toml" else RUN
        return str(self.path.relative_to(folder).with_suffix(""))

    def run(self, engine: str, way: Way) -> Seen:
        """Run it with new arrays and return what it left."""
        if self.path.suffix == ".toml":
            file = read_launch_file(self.path)
            return seen(file.buffers, lambda: file.run(engine=engine, explains=False, **way.options())[0])
        said = read_run_file(self.path)
        options: Mapping[str, Any] = way.options()
        return seen(said.arrays, lambda: said.run(engine=engine, **options))

    def differences(self, way: Way) -> list[str]:
        """Return where the engines differ."""
        return differences(self.run("interpreter", way), self.run("jit", way))


def corpus_kernels() -> tuple[Kernel, ...]:
    """Return the kernels of the corpus that have a launch file."""
    return tuple(Kernel(path) for path in sorted(CORPUS.rglob("*.toml")) if _is_launchable(path))


def run_programs() -> tuple[Kernel, ...]:
    """Return the programs of tests/ptx/run."""
    return tuple(Kernel(path) for path in sorted(RUN.rglob("*.ptx")))


def _is_launchable(path: Path) -> bool:
    try:
        read_launch_file(path)
    except DrywellError:
        return False
    return True


def main() -> int:
    """Run from the command line."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--only", default="", help="only kernels whose name holds this")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"some of {', '.join(WAYS)} (default: all)")
    arguments = parser.parse_args()
    wrong = 0
    for kernel in (*corpus_kernels(), *run_programs()):
        if arguments.only not in kernel.name:
            continue
        for way in (WAYS[name] for name in arguments.ways.split(",")):
            begin = time.process_time()
            found = kernel.differences(way)
            wrong += bool(found)
            text = "; ".join(f.splitlines()[0][:300] for f in found) or "agree"
            print(f"{kernel.name} ({way}): {text} ({time.process_time() - begin:.1f} s)", flush=True)
    print(f"{wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
