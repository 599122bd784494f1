"""Compares the engines on one program, makes a failing program smaller, and writes it down."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from drywell.base.errors import PtxError
from drywell.host.launch import Module, load
from fuzz.comparison import EAGER, LAZY, Seen, Way, differences, run_program
from fuzz.programs import Program
from fuzz.scope import Shape

MORE: tuple[tuple[Way, ...], ...] = (
    (Way(check="ptx", data=2),),
    (LAZY,),
    (),
    (Way("lazy", data=1),),
    (Way(seed=5, check="ptx"),),
    (),
    (Way(data=2),),
    (),
)
"""How program after program is run besides with the eager schedule and a seed, in turns; the first of a turn
has several CTAs (programs.CHECKED_EVERY).
"""
PATIENCE_S = 120
MOST_TRIALS = 1500


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a program ended on the interpreter (`ended`), and where another engine differs, if it does."""

    ended: str
    differences: tuple[str, ...] = ()
    way: Way = EAGER

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(d.split(":")[0] for d in self.differences)


def ways_of(number: int) -> tuple[Way, ...]:
    """Return the ways to run program `number`: the eager schedule, a seed, and one more."""
    return (EAGER, Way(seed=number, data=1), *MORE[number % len(MORE)])


def judge(made: Program, engine: str, ways: Sequence[Way]) -> Verdict:
    """Run a program on the interpreter and on `engine` and compare, way by way."""
    try:
        module = load(made.text())
    except PtxError as error:
        return Verdict("not PTX", (f"not PTX: {error.diagnostics[0]}",))
    ended = ""
    for way in ways:
        expected = _run(made, module, "interpreter", way)
        if isinstance(expected, str):
            return Verdict("broken", (expected,), way)
        ended = ended or expected.verdict
        found = expected if engine == "interpreter" else _run(made, module, engine, way)
        wrong = (found,) if isinstance(found, str) else tuple(differences(expected, found))
        if wrong:
            return Verdict(ended, wrong, way)
    return Verdict(ended)


def _run(made: Program, module: Module, engine: str, way: Way) -> Seen | str:
    """Return what a run left, or which exception it raised that no run may."""
    try:
        return run_program(made, module, engine, way)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"


# ---------------------------------------------------------------- in a process of its own


def isolated(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a process of its own, or a sentence about how that ended."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, arguments), daemon=True)
    process.start()
    sender.close()
    answer: Any = "died"
    try:
        if receiver.poll(PATIENCE_S):
            answer = receiver.recv()
        else:
            answer = f"hangs: no end in {PATIENCE_S} s"
    except EOFError:
        process.join()
        answer = f"died: exit code {process.exitcode}"
    process.kill()
    process.join()
    receiver.close()
    return answer


def _answer(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    sender.send(function(*arguments))
    sender.close()


def judged_apart(made: Program, engine: str, ways: Sequence[Way]) -> Verdict:
    """Judge a program in a process of its own: one that dies is a difference."""
    answer = isolated(judge, made, engine, ways)
    return answer if isinstance(answer, Verdict) else Verdict("unchecked", (answer,), ways[0])


# ---------------------------------------------------------------- smaller


def shrunk(made: Program, engine: str, verdict: Verdict) -> tuple[Program, Verdict]:
    """Return a smaller program that differs in the same way, and how."""
    trials = 0
    is_smaller = True
    while is_smaller and trials < MOST_TRIALS:
        is_smaller = False
        for candidate in made.smaller():
            trials += 1
            if trials > MOST_TRIALS:
                break
            found = judged_apart(candidate, engine, (verdict.way,))
            if found.kinds & verdict.kinds:
                made, verdict, is_smaller = candidate, found, True
                break
    return made, verdict


def report(made: Program, verdict: Verdict, engine: str) -> str:
    """Return a failing program as a PTX text that says what is wrong with it."""
    differ = [line for d in verdict.differences for line in d.split("\n")]
    head = [f"key {made.key}, {made.shape}", str(verdict.way), f"interpreter and {engine} differ:", *differ]
    return "\n".join(f"// {line}" for line in head) + "\n" + made.text()


def read_failure(path: Path) -> tuple[Program, Way]:
    """Return the program of a file that `write_failure` wrote, and the way in which it differed."""
    text = path.read_text()
    first, second = ([part.split(" ") for part in line[3:].split(", ")] for line in text.split("\n")[:2])
    launched, ran = dict(first), dict(second)
    shape = Shape(**{name: int(value) for name, value in launched.items() if name != "key"})
    seed = {"seed": int(ran.pop("seed"))} if "seed" in ran else {}
    way = Way(**{**ran, **seed, "data": int(ran["data"])})
    return Program(launched["key"], shape, kept_text=text), way


def write_failure(folder: Path, made: Program, verdict: Verdict, engine: str) -> Path:
    """Write a failing program into a folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"program_{made.key.replace('/', '_')}.ptx"
    path.write_text(report(made, verdict, engine))
    return path
