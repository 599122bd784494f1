"""The smallest kernel and launch that still give a finding: statements are left out, the grid, the block and
numbers among the arguments made smaller, as long as the same rule names the same instructions.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from drywell.base.diagnostic import Finding, Severity
from drywell.base.errors import DrywellError, LaunchError
from drywell.base.span import Source
from drywell.host.arguments import Typed
from drywell.host.flattening import flattened
from drywell.host.launch_file import LaunchFile, read_launch_file
from drywell.host.module import Module
from drywell.host.pruning import Numbered
from drywell.host.result import Result
from drywell.program.module import Program, check_module
from drywell.ptx import parse_module, print_module

_MISMATCH = "OUTPUT-MISMATCH"
_WARP = 32
_ALL_WORDS = 99
_FIRST_STRETCHES = 8
"""How many stretches a text is tried in at first."""
Key = tuple[str, int, int]


class OutOfBudget(Exception):
    """No more runs, or no more time."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a launch can be smaller; `numbers` are the integers among the arguments, by position."""

    grid: tuple[int, ...]
    block: tuple[int, ...] | None
    numbers: tuple[tuple[int, int], ...]

    def smaller(self, unit: tuple[int, ...]) -> Iterator[Shape]:
        """Yield smaller ones, the boldest first; a grid is made of clusters of `unit`."""
        least = tuple(unit[k] if k < len(unit) else 1 for k in range(len(self.grid)))
        if self.grid != least:
            yield replace(self, grid=least)
            for k, size in enumerate(self.grid):
                half = size // 2 // least[k] * least[k]
                if half:
                    yield replace(self, grid=(*self.grid[:k], half, *self.grid[k + 1 :]))
        for at, (place, value) in enumerate(self.numbers):
            for less in dict.fromkeys((1, value // 2)):
                if 0 < less < value:
                    yield replace(self, numbers=(*self.numbers[:at], (place, less), *self.numbers[at + 1 :]))
        if self.block is not None and self.block[0] > _WARP:
            half = max(self.block[0] // 2 // _WARP, 1) * _WARP
            yield replace(self, block=(half, *self.block[1:]))


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduced kernel as text, its launch, the finding as it was, and what that took: lines (`num_before`,
    `num_after`), statements, runs; `is_done` when no single statement more can be left out.
    """

    finding: Finding
    text: str
    shape: Shape
    num_before: int
    num_after: int
    statements: tuple[int, int]
    runs: int
    is_done: bool


@dataclass(slots=True)
class Reduction:
    """The reduction of one launch file under way: `gone` and `shape` are the best so far, `target` is what
    must be found, `allowed` the rules that may name errors.
    """

    launch: LaunchFile
    tree: Numbered
    source: Source
    options: dict[str, Any]
    max_runs: int
    deadline: float
    gone: frozenset[int]
    shape: Shape
    runs: int = 0
    target: Key = ("", 0, 0)
    allowed: frozenset[str] = frozenset()
    is_complete: bool = True
    most: int = 10**9
    _before: dict[str, NDArray[Any]] = field(default_factory=dict)

    def aim(self, rule: str | None) -> Finding:
        """Choose the finding to keep: the first error or warning, or that of `rule`."""
        program = self._program(self.gone)
        if program is None:
            raise LaunchError(f"{self.launch.path}: the module is not legal when it is printed anew")
        findings, self.is_complete, executed = self._findings(program, self.shape)
        loud = [f for f in findings if f.severity is not Severity.NOTE and f.rule != _MISMATCH]
        wanted = [f for f in findings if f.rule == rule] if rule else loud
        if not wanted:
            found = ", ".join(dict.fromkeys(f.rule for f in findings)) or "nothing"
            what = rule or "of the checker"
            raise LaunchError(f"{self.launch.path}: no finding {what} to reduce to; the run gives {found}")
        self.target = key_of(wanted[0])
        self.allowed = frozenset({f.rule for f in loud} | {wanted[0].rule})
        self.most = _limit(executed)
        return wanted[0]

    def shrink(self) -> None:
        """Make launch and text smaller in turn until neither can be: a smaller text may do with less."""
        self.shrink_launch()
        shape = None
        while shape != self.shape:
            shape = self.shape
            self.shrink_text()
            self.shrink_launch()

    def shrink_launch(self) -> None:
        """Make the launch smaller as long as that is possible."""
        unit = self.launch.cluster or (1,)
        while smaller := next((s for s in self.shape.smaller(unit) if self._holds(self.gone, s)), None):
            self.shape = smaller

    def shrink_text(self) -> None:
        """Leave statements out until none can go: all of one kind, all that work on one variable, then long
        stretches and shorter ones, from the end of the text on.
        """
        before = None
        while before != self.gone:
            before = self.gone
            for num_words in (1, _ALL_WORDS):
                for group in self.tree.alike(num_words):
                    self._leave(group)
                self._sweep()
            self._leave_variables()
            size = max(len(self.left()) // _FIRST_STRETCHES, 1)
            while size:
                left = self.gone
                self._leave_out(size)
                self._sweep()
                if left != self.gone:
                    self._leave_variables()
                size //= 2

    def left(self) -> list[int]:
        """Return the numbers of the statements that are still there and could go."""
        return [number for number in self.tree.removable() if number not in self.gone]

    def _leave_out(self, size: int) -> None:
        left = self.left()
        for end in range(len(left), 0, -size):
            self._leave(frozenset(left[max(end - size, 0) : end]))

    def _leave_variables(self) -> None:
        """Leave out all that works on one variable, then on another: a barrier goes as a whole or stays."""
        program = self._program(self.gone)
        assert program is not None
        for group in self.tree.touching(program, self.gone):
            self._leave(group)

    def _leave(self, more: frozenset[int]) -> None:
        """Leave more out if the finding stays."""
        without = self.gone | more
        if without != self.gone and self._holds(without, self.shape):
            self.gone = without

    def _sweep(self) -> None:
        """Leave out the arithmetic that nothing needs any more."""
        program = self._program(self.gone)
        assert program is not None
        self._leave(self.tree.idle(program, self.gone))

    # runs

    def _program(self, gone: frozenset[int]) -> Program | None:
        """Return the module without what is gone; None when it is not legal then."""
        program = check_module(self.tree.without(gone), self.source)
        is_legal = all(d.severity is not Severity.ERROR for d in program.diagnostics)
        return program if is_legal and self.launch.entry in program.entries else None

    def _holds(self, gone: frozenset[int], shape: Shape) -> bool:
        """Say whether the finding is still there, and no other error than before: what lies in memory does
        not matter, so reads of what nobody wrote may be warned of.
        """
        if self.runs >= self.max_runs or time.monotonic() > self.deadline:
            raise OutOfBudget
        program = self._program(gone)
        if program is None:
            return False
        try:
            findings, is_complete, executed = self._findings(program, shape)
        except DrywellError:
            return False
        errors = {f.rule for f in findings if f.severity is Severity.ERROR}
        is_there = any(key_of(f) == self.target for f in findings)
        if not (is_there and is_complete == self.is_complete and errors <= self.allowed):
            return False
        self.most = min(self.most, _limit(executed))
        return True

    def _findings(self, program: Program, shape: Shape) -> tuple[tuple[Finding, ...], bool, int]:
        """Run a program on the buffers as they were and return what it says, whether it ended, and how many
        instructions it took.
        """
        launch = self.launch
        for name, array in launch.buffers.items():
            array[...] = self._before.setdefault(name, array.copy())
        args = list(launch.args)
        for place, value in shape.numbers:
            args[place] = Typed(args[place].type, value)
        small = replace(
            launch, module=Module(program), grid=shape.grid, block=shape.block, args=args, expect={}
        )
        self.runs += 1
        try:
            result, _ = small.run(**self.options, max_instructions=self.most)
        except DrywellError as error:
            if not isinstance(error.result, Result):
                raise
            return error.result.findings, False, error.result.executed
        return result.findings, True, result.executed


def _limit(executed: int) -> int:
    """Return how many instructions a smaller kernel may take: hardly more, so that a loop without end is
    given up soon.
    """
    return executed + executed // 4 + 200


def key_of(finding: Finding) -> Key:
    """Return what makes two findings the same: the rule and both places."""
    return finding.rule, finding.span.line, 0 if finding.other is None else finding.other.line


def reduce_launch(
    path: Path, rule: str | None = None, max_runs: int = 2000, seconds: float = 300.0, **options: Any
) -> Reduced:
    """Reduce the kernel of a launch file to what its first error or warning (or that of `rule`) needs.

    `options` are those of LaunchFile.run. Raises LaunchError when there is no such finding.
    """
    launch = read_launch_file(path)
    whole = flattened(parse_module(launch.module.program.source))
    source = Source(launch.module.name, print_module(whole))
    tree = Numbered(parse_module(source), launch.entry)
    shape = Shape(
        launch.grid, launch.block, tuple((k, int(a.value)) for k, a in enumerate(launch.args) if _counts(a))
    )
    how = {"check": "ptx", **options}
    deadline = time.monotonic() + seconds
    work = Reduction(launch, tree, source, how, max_runs, deadline, tree.remarks(), shape)
    finding, is_done = work.aim(rule), True
    try:
        work.shrink()
    except OutOfBudget:
        is_done = False
    text = print_module(tree.without(work.gone))
    num_before = launch.module.program.source.text.count("\n")
    statements = len(tree.removable()), len(work.left())
    return Reduced(finding, text, work.shape, num_before, text.count("\n"), statements, work.runs, is_done)


def _counts(argument: Any) -> bool:
    """Say whether an argument is a whole number that may be made smaller."""
    return isinstance(argument, Typed) and argument.type[0] in "us" and argument.value > 1


# the launch file of the result


def launch_text(path: Path, module: str, shape: Shape) -> str:
    """Return the launch file of a reduced kernel: that of the original with its shape, and no [expect]."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    document |= {"module": module, "grid": list(shape.grid)}
    if shape.block is not None:
        document["block"] = list(shape.block)
    document.pop("expect", None)
    for place, value in shape.numbers:
        argument = document["args"][place]
        argument[next(iter(argument))] = value
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield a launch file as lines: plain keys first, then its tables."""
    tables = {key: value for key, value in document.items() if _is_table(value)}
    yield from (f"{key} = {_value(value)}" for key, value in document.items() if key not in tables)
    for key, value in tables.items():
        named = (
            [(f"[[{key}]]", row) for row in value]
            if isinstance(value, list)
            else [(f"[{key}.{_key(name)}]", row) for name, row in value.items()]
        )
        for head, row in named:
            yield from ("", head, *(f"{_key(name)} = {_value(one)}" for name, one in row.items()))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value: Any) -> str:
    """Write a value in TOML: what JSON writes, but for tables, and numbers that JSON does not have."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)
