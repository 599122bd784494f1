"""Ask `ptxas` about the program of every question, for every target it is for, and store what it took.

PYTHONPATH=tests:src python -m oracle.probe.judge
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from drywell.examples.probe.questions import questions
from drywell.examples.probe.selftest import selftest
from drywell.host.question import Question
from oracle.ptxas import assembler

STORE = Path(__file__).parent / "ptxas.json"
REFUSED = "S7"  # the one that must not compile


def programs(question: Question) -> Iterator[tuple[str, str]]:
    """Yield each target and the program for it."""
    if question.ptx and question.name != REFUSED:
        for target in question.targets:
            yield target, question.text(target)


def digest(text: str) -> str:
    """Return what stands for a program in the store."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def accepts(target: str, text: str, folder: Path) -> str:
    """Return '' when ptxas takes a program, else what it said."""
    source = folder / "question.ptx"
    source.write_text(text)
    command = ["ptxas", f"-arch={target}", "-O1", str(source), "-o", str(folder / "question.cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or f"ended with {done.returncode}"


def main() -> int:
    """Write the store; complain about what is refused."""
    accepted, refused = [], 0
    with tempfile.TemporaryDirectory() as name:
        for question in (*questions(), *selftest()):
            for target, text in programs(question):
                said = accepts(target, text, Path(name))
                if said:
                    refused += 1
                    print(f"{question.name} for {target}: {said}", file=sys.stderr)
                else:
                    accepted.append(digest(text))
    document = {"ptxas": assembler.release(), "accepted": sorted(set(accepted))}
    STORE.write_text(json.dumps(document, indent=0) + "\n")
    print(f"{len(accepted)} programs accepted, {refused} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
