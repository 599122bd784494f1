"""What `ptxas` says of an entry's registers, where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from drywell.base.record import record

_SECONDS = 120
_VERSION = re.compile(r"release [\d.]+, V([\d.]+)")
_USED = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


@record
class Assembled:
    """The registers of a thread, and the bytes that a thread spills, by one version of ptxas."""

    registers: int
    spilled_bytes: int
    version: str


def assembled(text: str, target: str, entry: str, ptxas: str) -> Assembled | None:
    """Assemble one entry and return what it takes; None when ptxas is not there or does not take the text."""
    program = shutil.which(ptxas)
    if program is None:
        return None
    try:
        version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_SECONDS)
        with TemporaryDirectory() as folder:
            path = Path(folder, "kernel.ptx")
            path.write_text(text, encoding="utf-8")
            command = [program, "-v", f"-arch={target}", f"--entry={entry}", str(path), "-o", f"{path}.cubin"]
            said = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    _, _, about = (said.stdout + said.stderr).partition(f"Compiling entry function '{entry}'")
    used, spilled = _USED.search(about), _SPILLED.search(about)
    if said.returncode or used is None:
        return None
    known = _VERSION.search(version.stdout)
    return Assembled(int(used[1]), int(spilled[1]) if spilled else 0, known[1] if known else "")
