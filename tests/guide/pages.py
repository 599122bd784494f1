"""Reads the pages of docs/guide: files to write, commands to run, and what they print.

A block of code is `sh` (commands; "exits with N" in its title where they do not end with 0; "once" and "until
Ctrl-C" are not run), `text` right after it (what they print), or a file, named by its title.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PICTURES = GUIDE / "pictures"
NOT_RUN = ("once", "until Ctrl-C")
SECONDS = 600

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\bin \d+\.\d s\b")


@dataclass(frozen=True)
class Block:
    """A block of code of a page: its language, title and text."""

    kind: str
    title: str
    text: str


@dataclass(frozen=True)
class Step:
    """Commands of a page: what they should print (None: it is not said), and their exit code."""

    commands: str
    printed: str | None
    code: int


def pages() -> list[Path]:
    """Return the pages of the guide in order."""
    return [GUIDE / "index.md", *sorted(GUIDE.glob("[0-9]*.md"))]


def blocks(text: str) -> list[Block]:
    """Return the blocks of code of a page."""
    return [Block(*found.groups(default="")) for found in _BLOCK.finditer(text)]


def steps(text: str) -> list[Block | Step]:
    """Return what a reader of a page does: files to write, and commands with what they print."""
    found = blocks(text)
    out: list[Block | Step] = []
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.kind == "sh" and block.title not in NOT_RUN:
            code = int(block.title.removeprefix("exits with ") or 0)
            printed = after.text if after is not None and after.kind == "text" else None
            out.append(Step(block.text, printed, code))
        elif block.kind not in ("sh", "text"):
            assert block.title, f"a {block.kind} block without the name of its file"
            out.append(block)
    return out


def run(step: Step, folder: Path) -> tuple[str, int]:
    """Run commands in a folder, with the `drywell` and `python` of this environment first; return what they
    print, times left out, and the exit code of the last.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        ["bash", "-c", step.commands],
        cwd=folder,
        env={**kept, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return _TIME.sub("in 0.1 s", done.stdout), done.returncode


def pictures(text: str) -> list[str]:
    """Return the names of the pictures that a page shows."""
    return re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", text)
