"""Repair a kernel by the edits that its findings propose: each is tried, run, and kept only when it silences
its finding and brings no other.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drywell.base.diagnostic import Edit, Finding, Severity
from drywell.base.errors import DrywellError, PtxError
from drywell.base.span import Span
from drywell.host.editing import Draft, drafts
from drywell.host.launch_file import read_launch_file
from drywell.host.module import load
from drywell.host.result import Result

LARGEST = 32
"""How many edits one kernel gets at most."""
_BUDGET_FACTOR, _BUDGET_MORE = 10, 100_000
Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of a text said: its findings, and whether it came to its end."""

    findings: tuple[Finding, ...]
    is_complete: bool = True
    executed: int = 0


Attempt = Callable[[str], Outcome]
"""Runs a text; DrywellError when it cannot be run at all."""


@dataclass(frozen=True, slots=True)
class Repair:
    """An edit that silenced a finding; the lines it names are those of the text as it came."""

    finding: Finding
    edit: Edit


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A finding whose edits did not repair it, and what came of the last one."""

    finding: Finding
    edit: Edit
    why: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text with all edits that hold, the repairs, what was withdrawn, and the findings that are left."""

    before: str
    text: str
    repairs: tuple[Repair, ...]
    withdrawn: tuple[Withdrawn, ...]
    left: tuple[Finding, ...]
    is_complete: bool

    @property
    def is_silent(self) -> bool:
        """Say whether the edited text runs to its end with no error and no warning."""
        return self.is_complete and not _loud(self.left)

    def named(self, name: str) -> tuple[Finding, ...]:
        """Return what is left, as findings in a file of this name."""
        return tuple(
            replace(
                f,
                span=replace(f.span, file=name) if f.span.line else f.span,
                other=None if f.other is None else replace(f.other, file=name),
                cause=None if f.cause is None else replace(f.cause, span=replace(f.cause.span, file=name)),
            )
            for f in self.left
        )

    def diff(self, old: str, new: str) -> str:
        """Return the change as a unified diff of files of these names."""
        pair = self.before.splitlines(keepends=True), self.text.splitlines(keepends=True)
        return "".join(difflib.unified_diff(*pair, old, new))


def _loud(findings: Iterable[Finding]) -> list[Finding]:
    return [f for f in findings if f.severity is not Severity.NOTE]


def fix(text: str, attempt: Attempt, first: Outcome | None = None) -> Fixed:
    """Apply what repairs a kernel's findings, errors and warnings, one edit after another.

    `attempt` runs a text, `first` is what it says of `text` where that is known. Raises DrywellError when the
    text itself cannot be run.
    """
    draft, now = Draft.of(text), first or attempt(text)
    repairs: list[Repair] = []
    withdrawn: dict[Key, Withdrawn] = {}
    while len(repairs) < LARGEST:
        finding = next(_candidates(now, draft, withdrawn), None)
        if finding is None:
            break
        found = _repaired(draft, now, finding, attempt)
        if isinstance(found, Withdrawn):
            withdrawn[_key(finding, draft)] = found
        else:
            edit, after, now = found
            repairs.append(Repair(_as_it_came(finding, draft), _edit_as_it_came(edit, draft)))
            draft = after
    left = {_key(f, draft) for f in now.findings}
    given_up = tuple(w for key, w in withdrawn.items() if key in left)
    return Fixed(text, draft.text, tuple(repairs), given_up, now.findings, now.is_complete)


def _candidates(now: Outcome, draft: Draft, withdrawn: dict[Key, Withdrawn]) -> Iterator[Finding]:
    """Yield what can be repaired, a rule's findings in such an order that one edit may do for many: what goes
    behind an access behind the last one, what goes before an access before the first.
    """
    loud = _loud(now.findings)
    rank: dict[str, int] = {}
    for finding in loud:
        rank.setdefault(finding.rule, len(rank))
    able = [f for f in loud if f.edits and _key(f, draft) not in withdrawn]
    yield from sorted(able, key=lambda f: (rank[f.rule], f.edits[0].turn))


def _repaired(
    draft: Draft, now: Outcome, finding: Finding, attempt: Attempt
) -> tuple[Edit, Draft, Outcome] | Withdrawn:
    """Return the first edit that repairs a finding, with its text and what that says."""
    why, last = "it does not fit the text", finding.edits[0]
    for edit in finding.edits:
        for after in drafts(draft, edit):
            last = edit
            try:
                outcome = attempt(after.text)
            except PtxError as error:
                why = f"the text is not legal then: {error.diagnostics[0].message}"
                continue
            except DrywellError as error:
                why = str(error)
                continue
            why = _objection(finding, draft, now, after, outcome)
            if not why:
                return edit, after, outcome
    return Withdrawn(_as_it_came(finding, draft), _edit_as_it_came(last, draft), why)


def _objection(finding: Finding, draft: Draft, now: Outcome, after: Draft, outcome: Outcome) -> str:
    """Say why an edit does not hold; '' when it does."""
    loud = _loud(outcome.findings)
    if _key(finding, draft) in {_key(f, after) for f in loud}:
        return f"{finding.rule} stays"
    known = {_key(f, draft)[:2] for f in now.findings}
    for other in loud:
        if _key(other, after)[:2] not in known:
            where = f" at line {other.span.line}" if other.span.line else ""
            return f"it brings {other.rule}{where}"
    if now.is_complete and not outcome.is_complete:
        return "the run does not come to its end then"
    return ""


def _key(finding: Finding, draft: Draft) -> Key:
    return finding.rule, draft.origin(finding.span), draft.origin(finding.other)


def _back(span: Span, draft: Draft) -> Span:
    return replace(span, line=max(draft.origin(span), 0))


def _edit_as_it_came(edit: Edit, draft: Draft) -> Edit:
    to = None if edit.to is None else _back(edit.to, draft)
    return replace(edit, span=_back(edit.span, draft), to=to)


def _as_it_came(finding: Finding, draft: Draft) -> Finding:
    other = None if finding.other is None else _back(finding.other, draft)
    return replace(finding, span=_back(finding.span, draft), other=other)


# launch files


def fix_launch(path: Path, **options: Any) -> Fixed:
    """Repair the kernel of a launch file; `options` are those of LaunchFile.run, `check` among them."""
    text = read_launch_file(path).module.program.source.text
    first = attempt(path, text, **options)
    limit = min(options.get("max_instructions", 10**9), _BUDGET_FACTOR * first.executed + _BUDGET_MORE)
    bounded = {**options, "max_instructions": limit}
    return fix(text, lambda edited: attempt(path, edited, **bounded), first)


def attempt(path: Path, text: str, **options: Any) -> Outcome:
    """Run a launch file with another text for its module; DrywellError when that cannot be run at all."""
    launch = read_launch_file(path)
    launch = replace(launch, module=load(text, launch.module.name))
    try:
        result, _ = launch.run(**options)
    except DrywellError as error:
        if not isinstance(error.result, Result):
            raise
        return Outcome(error.result.findings, False, error.result.executed)
    return Outcome(result.findings, True, result.executed)


def module_path(path: Path) -> Path:
    """Return the path of the module that a launch file names; the file must have been read before."""
    return path.parent / str(tomllib.loads(path.read_text(encoding="utf-8"))["module"])


def free_path(module: Path, word: str) -> Path:
    """Return a path beside a module that nothing has yet: `gemm.fixed.ptx`, `gemm.fixed2.ptx`, ..."""
    for number in range(1, 1000):
        path = module.with_suffix(f".{word}{number if number > 1 else ''}{module.suffix}")
        if not path.exists():
            return path
    raise FileExistsError(f"{module.with_suffix(f'.{word}{module.suffix}')} and 998 more exist: remove some")
