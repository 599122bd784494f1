"""Try experiments before a GPU is at hand: `python -m oracle.hardware.check [FAMILY[/NAME]...]`.

Every program goes through `ptxas` for sm_90a, where there is one, and runs on Drywell once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from oracle.hardware import replay
from oracle.hardware.experiment import Experiment
from oracle.hardware.families import FAMILIES, name_of


def assembled(experiment: Experiment, target: str = "sm_90a") -> str:
    """Return what `ptxas` has against a program, '' when nothing."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "k.ptx"
        source.write_text(experiment.text(target))
        command = ["ptxas", f"-arch={target}", "-O1", str(source), "-o", str(Path(name) / "k.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    return said.replace(name, "").strip() if done.returncode else ""


def main(wanted: list[str]) -> int:
    """Check the experiments whose names begin with one of the arguments, or all; return 1 if one is wrong."""
    has_ptxas, bad, start = shutil.which("ptxas") is not None, 0, time.process_time()
    count = num_words = 0
    for family in FAMILIES:
        short = name_of(family)
        if wanted and not any(w.partition("/")[0] == short for w in wanted):
            continue
        for experiment in family.experiments():
            if wanted and not any(w == short or experiment.name.startswith(w) for w in wanted):
                continue
            count += 1
            said = assembled(experiment) if has_ptxas else ""
            found = replay.run(experiment)
            num_words += sum(a.size for a in found.outs)
            if said or found.ended != experiment.ends:
                bad += 1
                print(f"{experiment.name}: {said} {found.ended} {found.why}"[:1500])
    seconds = time.process_time() - start
    print(f"{count} experiments, {num_words} words, {bad} wrong; {seconds:.1f} s of CPU (without ptxas)")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
