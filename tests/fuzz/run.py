"""Run programs made from the declarations on two engines and compare everything they leave.

PYTHONPATH=tests python -m fuzz.run --count 10000 --workers 2           # the campaign; failures into a folder
PYTHONPATH=tests python -m fuzz.run --count 10000 --resume build/fuzz   # the same; goes on where it stopped
PYTHONPATH=tests python -m fuzz.run --first 4711 --count 1 --show       # one program, printed
PYTHONPATH=tests python -m fuzz.run --engine interpreter --count 1000   # are they valid, what do they cover
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import date
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from drywell.isa.registry import declarations
from fuzz.books import BATCH
from fuzz.campaign import PATIENCE_S, Verdict, judge, judged_apart, shrunk, ways_of, write_failure
from fuzz.comparison import Way
from fuzz.coverage import forms_in, missing_from
from fuzz.programs import program

REPORT_EVERY_S = 10.0
MOST_SHRUNK = 12
"""Failing programs that are made smaller; many fail for one reason."""


@dataclass(slots=True)
class Tally:
    """What has come out so far."""

    started: float = field(default_factory=time.monotonic)
    ends: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, Verdict]] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.ends.values())

    def add(self, number: int, verdict: Verdict, forms: Counter[str], cpu_s: float) -> None:
        """Take what came out of one program."""
        self.ends[verdict.ended] += 1
        self.forms += forms
        self.cpu_s += cpu_s
        if verdict.differences:
            self.failures.append((number, verdict))

    def line(self) -> str:
        """Return the state of things in one line."""
        seconds = time.monotonic() - self.started
        ends = ", ".join(f"{count} {end}" for end, count in self.ends.most_common())
        return f"{self.count} programs in {seconds:.0f} s: {ends}; {len(self.failures)} differ"


def _work(sender: Connection, seed: int, engine: str, todo: list[int]) -> None:
    """Judge programs, telling of each before and after, as long as there is somebody to tell. Nobody will
    want their code again, so none is kept on disk.
    """
    os.environ["DRYWELL_CACHE"] = "off"
    parent = os.getppid()
    for number in todo:
        if os.getppid() != parent:
            return
        sender.send((number, None, None, 0.0))
        begun = time.process_time()
        made = program(seed, number)
        verdict, forms = judge(made, engine, ways_of(number)), forms_in(made.text())
        sender.send((number, verdict, forms, time.process_time() - begun))
    sender.send(None)


def written(arguments: argparse.Namespace, tally: Tally) -> str:
    """Return the report of a campaign, in Markdown."""
    forms = len(tally.forms) + len(missing_from(tally.forms))
    of_lanes = sum(d.is_lane for d in declarations())
    lanes = of_lanes - len(missing_from(tally.forms, lanes_only=True))
    ends = "\n".join(f"| {end} | {count} |" for end, count in tally.ends.most_common())
    rest = arguments.count - tally.count
    whole = f" ({rest} were not run)" if rest else ""
    wrong = "\n".join(f"- program {n} ({v.way}): {v.differences[0]}" for n, v in tally.failures)
    return (
        f"""# Both engines on programs made from the declarations

`make fuzz` on {date.today()}, Python {platform.python_version()}:
`python -m fuzz.run --seed {arguments.seed} --first {arguments.first} --count {arguments.count}`.

A program is a whole kernel, drawn from the declarations of the instructions (`tests/fuzz`). It runs on
the interpreter and on compiled code under the eager schedule and a seed of its own, on other data, one in
four under the lazy schedule too, one in four with the checker; compared are all arrays bit for bit (the
registers that a program names end in one), what every warp executed, how it ended, the words of the error,
the findings. {BATCH} programs at a time share their forms of lane instructions, since to compile a form takes
longer than to run a program.

{tally.count} programs{whole}; {len(tally.failures)} differ. {len(tally.forms)} of {forms} declared forms
of instructions stand in them, of those on lanes {lanes} of {of_lanes}. They took {tally.cpu_s / 60:.0f}
minutes on a CPU, {60 * tally.count / max(tally.cpu_s, 1e-3):.0f} a minute.

| ended | programs |
|---|---:|
{ends}

{wrong}
""".rstrip()
        + "\n"
    )


@dataclass(slots=True)
class Worker:
    """A process with the programs it is to judge; `now` is the one at hand, since `since`."""

    seed: int
    engine: str
    todo: list[int]
    now: int = -1
    since: float = 0.0
    receiver: Any = None
    process: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        arguments = (sender, self.seed, self.engine, self.todo)
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


def judged(workers: list[Worker]) -> Iterator[tuple[int, Verdict, Counter[str], float]]:
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
                yield worker.now, Verdict("unchecked", (died,)), Counter(), 0.0
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
                yield worker.now, Verdict("unchecked", (f"hangs: no end in {PATIENCE_S} s",)), Counter(), 0.0
                worker.restart()


def _noted(path: Path | None) -> Iterator[tuple[int, Verdict, Counter[str], float]]:
    """Yield what a campaign that was stopped has found."""
    if path is None or not path.exists():
        return
    for line in path.read_text().splitlines():
        number, ended, differences, way, forms, cpu_s = json.loads(line)
        yield number, Verdict(ended, tuple(differences), Way(**way)), Counter(forms), cpu_s


def _note(path: Path, number: int, verdict: Verdict, forms: Counter[str], cpu_s: float) -> None:
    way = asdict(verdict.way)
    found = [number, verdict.ended, verdict.differences, way, forms, round(cpu_s, 3)]
    with path.open("a") as file:
        file.write(json.dumps(found) + "\n")


def campaign(arguments: argparse.Namespace) -> Tally:
    """Judge the programs, print how it goes, and write those that fail."""
    tally, reported = Tally(), time.monotonic()
    numbers = list(range(arguments.first, arguments.first + arguments.count))
    for number, *found in _noted(arguments.resume):
        if number in numbers:
            numbers.remove(number)
            tally.add(number, *found)
    shares = [[n for n in numbers if n // BATCH % arguments.workers == k] for k in range(arguments.workers)]
    workers = [Worker(arguments.seed, arguments.engine, share) for share in shares if share]
    for number, verdict, forms, cpu_s in judged(workers):
        tally.add(number, verdict, forms, cpu_s)
        if arguments.resume is not None:
            _note(arguments.resume, number, verdict, forms, cpu_s)
        if verdict.differences:
            _write(arguments, number, verdict, len(tally.failures) <= MOST_SHRUNK)
        if time.monotonic() - reported > REPORT_EVERY_S:
            print(tally.line(), flush=True)
            reported = time.monotonic()
    return tally


def _write(arguments: argparse.Namespace, number: int, verdict: Verdict, shrinks: bool) -> None:
    made, engine = program(arguments.seed, number), arguments.engine
    if verdict.ended != "not PTX" and shrinks and not arguments.whole:
        again = judged_apart(made, engine, ways_of(number))
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
    parser.add_argument("--resume", type=Path, help="a file that notes each program; those in it are not run")
    parser.add_argument("--report", type=Path, help="write what came out into a Markdown file")
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
