"""Measure experiments on the GPU of this machine: `python -m oracle.hardware.record [FAMILY...]`.

`--to FOLDER` puts the captures elsewhere, `--processes N` runs so many contexts side by side.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from oracle.hardware import cuda, driver, store
from oracle.hardware.families import FAMILIES, name_of


def record(family: ModuleType, processes: int) -> None:
    """Measure a family and write its captures; say what went otherwise than expected."""
    start, name = time.monotonic(), name_of(family)
    experiments = list(family.experiments())
    gpu, found = driver.measure_all(experiments, processes, lambda line: print(line, flush=True))
    pairs = [(e, found[e.name]) for e in experiments if e.name in found]
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    path = store.write(name, store.origin_of(gpu, date), pairs)
    num_words = sum(a.size for _, m in pairs for a in m.outs)
    print(
        f"{name}: {len(pairs)} of {len(experiments)} experiments, {num_words} words,"
        f" {path.stat().st_size / 1e6:.2f} MB, {time.monotonic() - start:.1f} s",
        flush=True,
    )


def main(argv: Sequence[str]) -> None:
    """Read the command line and record."""
    parser = argparse.ArgumentParser(prog="python -m oracle.hardware.record", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="default: all")
    parser.add_argument("--processes", type=int, default=4, help="contexts side by side")
    parser.add_argument("--to", type=Path, help="a folder for the captures")
    options = parser.parse_args(argv)
    known = {name_of(f): f for f in FAMILIES}
    unknown = sorted(set(options.families) - set(known))
    if unknown:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(known)}")
    if cuda.library() is None:
        parser.error(f"no {cuda.LIBRARIES[0]} here: measuring needs an NVIDIA GPU and its driver")
    if options.to is not None:
        store.FOLDER = options.to
    for name in options.families or known:
        record(known[name], options.processes)


if __name__ == "__main__":
    main(sys.argv[1:])
