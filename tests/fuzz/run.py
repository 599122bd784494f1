"""Run programs made from the declarations on two engines and compare everything they leave.

PYTHONPATH=tests python -m fuzz.run --count 10000 --workers 2           # the campaign; failures into a folder
PYTHONPATH=tests python -m fuzz.run --first 4711 --count 1 --show       # one program, printed
PYTHONPATH=tests python -m fuzz.run --engine interpreter --count 1000   # are they valid, what do they cover
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from drywell.isa.registry import declarations
from fuzz.campaign import (
    CHECK_EVERY,
    PATIENCE_S,
    Verdict,
    judge,
    judged_apart,
    shrunk,
    ways_of,
    write_failure,
)
from fuzz.coverage import forms_in, missing_from
from fuzz.programs import program

REPORT_EVERY_S = 10.0


@dataclass(slots=True)
class Tally:
    """What has come out so far."""

    started: float = field(default_factory=time.monotonic)
    ends: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, Verdict]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(self.ends.values())

    def line(self) -> str:
        """Return the state of things in one line."""
        seconds = time.monotonic() - self.started
        ends = ", ".join(f"{count} {end}" for end, count in self.ends.most_common())
        return f"{self.count} programs in {seconds:.0f} s: {ends}; {len(self.failures)} differ"


def _work(sender: Connection, seed: int, engine: str, is_quick: bool, todo: list[int]) -> None:
    """Judge programs, telling of each before and after, as long as there is somebody to tell."""
    parent = os.getppid()
    for number in todo:
        if os.getppid() != parent:
            return
        sender.send((number, None, None))
        made = program(seed, number)
        sender.send((number, judge(made, engine, ways_of(number, is_quick)), forms_in(made.text())))
    sender.send(None)


def written(arguments: argparse.Namespace, tally: Tally) -> str:
    """Return the report of a campaign, in Markdown."""
    forms = len(tally.forms) + len(missing_from(tally.forms))
    of_lanes = sum(d.is_lane for d in declarations())
    lanes = of_lanes - len(missing_from(tally.forms, lanes_only=True))
    ends = "\n".join(f"| {end} | {count} |" for end, count in tally.ends.most_common())
    wrong = "\n".join(f"- program {n} ({v.way}): {v.differences[0]}" for n, v in tally.failures)
    return f"""# Both engines on programs made from the declarations

`make fuzz` on {date.today()}, Python {platform.python_version()}:
`python -m fuzz.run --seed {arguments.seed} --first {arguments.first} --count {arguments.count}`.

A program is a whole kernel, drawn from the declarations of the instructions (`tests/fuzz`). It runs on
the interpreter and on compiled code under eager, lazy and seeded schedules, on several data, one in
{CHECK_EVERY} with the checker too; compared are all arrays bit for bit, what every warp executed, how it
ended, the words of the error, the findings.

{tally.count} programs; {len(tally.forms)} of {forms} declared forms of instructions stand in them, of those
on lanes {lanes} of {of_lanes}; {len(tally.failures)} differ.

| ended | programs |
|---|---:|
{ends}

{wrong}
""".rstrip() + "\n"


@dataclass(slots=True)
class Worker:
    """A process with the programs it is to judge; `now` is the one at hand, since `since`."""

    seed: int
    engine: str
    is_quick: bool
    todo: list[int]
    now: int = -1
    since: float = 0.0
    receiver: Any = None
    process: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        arguments = (sender, self.seed, self.engine, self.is_quick, self.todo)
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        sender.close()
        self.since = time.monotonic()

    def restart(self) -> None:
        """Go on behind the program at which the process ended."""
        self.process.kill()
        self.process.join()
        self.todo = [n for n in self.todo if n > self.now]
        self.start()


def judged(workers: list[Worker]) -> Iterator[tuple[int, Verdict, Counter[str]]]:
    """Yield what the workers find; a process that dies or hangs is a difference of the program at hand."""
    running = list(workers)
    for worker in running:
        worker.start()
    while running:
        ready = wait([w.receiver for w in running], timeout=5)
        for worker in list(running):
            try:
                message = worker.receiver.recv() if worker.receiver in ready else ()
            except EOFError:
                worker.process.join()
                died = f"died: exit code {worker.process.exitcode}"
                yield worker.now, Verdict("unchecked", (died,)), Counter()
                worker.restart()
                continue
            if message is None:
                running.remove(worker)
                worker.process.join()
            elif message and message[1] is None:
                worker.now, worker.since = message[0], time.monotonic()
            elif message:
                yield message
            elif time.monotonic() - worker.since > PATIENCE_S:
                yield worker.now, Verdict("unchecked", (f"hangs: no end in {PATIENCE_S} s",)), Counter()
                worker.restart()


def campaign(arguments: argparse.Namespace) -> Tally:
    """Judge the programs, print how it goes, and write those that fail."""
    tally, reported = Tally(), time.monotonic()
    end, step = arguments.first + arguments.count, arguments.workers
    workers = [
        Worker(arguments.seed, arguments.engine, arguments.quick, list(range(arguments.first + k, end, step)))
        for k in range(arguments.workers)
    ]
    for number, verdict, forms in judged(workers):
        tally.ends[verdict.ended] += 1
        tally.forms += forms
        if verdict.differences:
            tally.failures.append((number, verdict))
            _write(arguments, number, verdict)
        if time.monotonic() - reported > REPORT_EVERY_S:
            print(tally.line(), flush=True)
            reported = time.monotonic()
    return tally


def _write(arguments: argparse.Namespace, number: int, verdict: Verdict) -> None:
    made, engine = program(arguments.seed, number), arguments.engine
    if verdict.ended != "not PTX" and not arguments.whole:
        again = judged_apart(made, engine, ways_of(number, arguments.quick))
        if again.differences:
            made, verdict = shrunk(made, engine, again)
    path = write_failure(arguments.out, made, verdict, engine)
    first = verdict.differences[0].splitlines()[0][:200]
    print(f"program {number} ({verdict.way}): {first}; see {path}", flush=True)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--count", type=int, default=100, help="how many programs")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--engine", default="jit", help="the engine to hold against the interpreter")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where failing programs go")
    parser.add_argument("--report", type=Path, help="write what came out into a Markdown file")
    parser.add_argument("--quick", action="store_true", help="one way for each program, by turns")
    parser.add_argument("--whole", action="store_true", help="write failing programs as they are, not shrunk")
    parser.add_argument("--show", action="store_true", help="print the programs and stop")
    arguments = parser.parse_args()
    if arguments.show:
        for number in range(arguments.first, arguments.first + arguments.count):
            print(program(arguments.seed, number).text())
        return 0
    tally = campaign(arguments)
    print(tally.line())
    if arguments.report is not None:
        arguments.report.write_text(written(arguments, tally))
    absent, lanes = missing_from(tally.forms), missing_from(tally.forms, lanes_only=True)
    print(f"{len(tally.forms)} forms of instructions; in no program: {len(absent)}, of lanes {len(lanes)}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
