"""Ask `ptxas` about many instructions at once.

Errors about meaning are listed by line and the rest of the file is read on, so a batch costs one run; what
stops the assembler at once (a syntax error, or a refusal in the back end) costs a run more each.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle.ptxas.scaffold import FIRST_LINE, HEADER, LINES_PER_KERNEL, TARGET, kernel

BATCH = 500
_SECONDS = 60
_MEMORY_BYTES = 1 << 30  # some rows send the assembler into a loop that eats all there is
_ELSEWHERE = re.compile(r"^ptxas <macro.*?; error\s*: (.*)$", re.MULTILINE)
_MESSAGE = re.compile(r"^ptxas (?:\S+\.ptx|application ptx input), line (\d+); (?:error|fatal)\s*: (.*)$")
_NARROW = re.compile(r"Program uses 32-bit address on line '(\d+)'")
_NO_32_BITS = "32-Bit ABI"
_OWN_ERROR = "Internal compiler error"
_STOPPER = "bogus.instruction;"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the assembler said: A accepted, R rejected, C it crashed; and the class of its first message."""

    letter: str
    message: str = ""


def is_there() -> bool:
    """Say whether there is a `ptxas` on the path."""
    return shutil.which("ptxas") is not None


def release() -> str:
    """Return the release of the `ptxas` on the path, such as '13.0'."""
    text = subprocess.run(["ptxas", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"release (\d+\.\d+)", text)
    return found.group(1) if found else "?"


def classify(message: str) -> str:
    """Strip a message of what is particular to the row: quoted words and numbers."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'*'", message))[:70]


def _refusal(message: str) -> Verdict:
    """Return the verdict that a message amounts to; an error of the assembler's own is a crash."""
    return Verdict("C" if _OWN_ERROR in message else "R", classify(message))


@dataclass(slots=True)
class _Outcome:
    """One run: messages by index of row, those about no row; whether it succeeded, whether it crashed."""

    messages: dict[int, str]
    elsewhere: tuple[str, ...]
    is_success: bool
    is_crash: bool


def _limit_memory() -> None:
    """Keep the assembler, about to be started, from taking the whole machine."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _run(texts: Sequence[str], folder: Path) -> _Outcome:
    source = folder / "rows.ptx"
    source.write_text(HEADER + "".join(kernel(n, text) for n, text in enumerate(texts)))
    command = ["ptxas", f"-arch={TARGET}", "-O1", "-c", str(source), "-o", str(folder / "rows.cubin")]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, preexec_fn=_limit_memory
        )
    except subprocess.TimeoutExpired:
        return _Outcome({}, (), False, True)
    output = done.stdout + done.stderr
    elsewhere = tuple(_ELSEWHERE.findall(output))
    return _Outcome(_messages(output), elsewhere, done.returncode == 0, done.returncode < 0)


def _messages(output: str) -> dict[int, str]:
    """Return the first message about each row, by the row's index."""
    found: dict[int, str] = {}
    for line in output.splitlines():
        match = _MESSAGE.match(line)
        text = match.group(2) if match else _NO_32_BITS
        match = match or (_NARROW.search(line) if _NO_32_BITS in output else None)
        if match:
            index = (int(match.group(1)) - FIRST_LINE) // LINES_PER_KERNEL
            if index < 0:
                raise RuntimeError(f"the scaffold itself is refused: {line}")
            found.setdefault(index, text)
    return found


def _front_end(texts: Sequence[str], folder: Path) -> dict[int, str]:
    """Return the messages of the front end alone: a last row that is wrong for sure keeps the back end from
    running.
    """
    rejected: dict[int, str] = {}
    alive = list(range(len(texts)))
    while alive:
        outcome = _run([*(texts[n] for n in alive), _STOPPER], folder)
        new = {alive[k]: text for k, text in outcome.messages.items() if k < len(alive)}
        rejected |= new
        has_read_all = len(alive) in outcome.messages
        if has_read_all or outcome.is_crash or not new:
            return rejected
        alive = [n for n in alive if n not in new]
    return rejected


def _back_end(texts: Sequence[str], indices: list[int], folder: Path, verdicts: dict[int, Verdict]) -> None:
    """Settle rows that the front end let pass, halving a batch when the assembler does not say which row it
    dislikes.
    """
    while indices:
        outcome = _run([texts[n] for n in indices], folder)
        if outcome.is_success:
            verdicts.update((n, Verdict("A")) for n in indices)
            return
        new = {indices[k]: _refusal(text) for k, text in outcome.messages.items() if 0 <= k < len(indices)}
        if not new:
            break
        verdicts.update(new)
        indices = [n for n in indices if n not in new]
    if len(indices) == 1:
        about = outcome.elsewhere
        verdicts[indices[0]] = _refusal(about[0]) if about else Verdict("C", "no message")
    elif indices:
        half = len(indices) // 2
        _back_end(texts, indices[:half], folder, verdicts)
        _back_end(texts, indices[half:], folder, verdicts)


def assemble(texts: Sequence[str]) -> list[Verdict]:
    """Return the verdict on each instruction, in order."""
    out: list[Verdict] = []
    with tempfile.TemporaryDirectory() as name:
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            rejected = _front_end(batch, Path(name))
            verdicts = {n: _refusal(text) for n, text in rejected.items()}
            _back_end(batch, [n for n in range(len(batch)) if n not in rejected], Path(name), verdicts)
            out += [verdicts[n] for n in range(len(batch))]
    return out
