"""What the checker has to say: findings, repeats folded, and the words that name parties and places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from drywell.base.diagnostic import Edit, Finding, Party, Place, Severity
from drywell.base.span import NOWHERE, Span
from drywell.layout.tmem import NUM_COLS
from drywell.machine.windows import GLOBAL_BASE
from drywell.observe.hazards.agents import Conflict
from drywell.observe.hazards.ends import Ends, Question
from drywell.observe.hazards.record import Record
from drywell.observe.hazards.rules import RULES, Level

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
_CAUSES = ("EXPECT-TX-MISMATCH", "EXPECT-TX-LATE", "PAIR-TX-MULTIPLIER", "COMMIT-GROUP-MISMATCH")
"""Rules that stand before others of their severity: a wrong account makes waits end early, which races."""


@dataclass(slots=True)
class Findings:
    """Findings of a run, repeats folded: one for each rule and pair of places, with a count."""

    level: Level
    name_of: Callable[[str, int, int], str]
    index_of: Callable[[int], tuple[int, int, int]]
    ends: Ends
    found: dict[tuple[Any, ...], Finding] = field(default_factory=dict)
    questions: dict[tuple[Any, ...], Question] = field(default_factory=dict)

    def report(
        self,
        rule: str,
        message: str,
        span: Span = NOWHERE,
        *,
        cta: int | None = None,
        warp: int | None = None,
        lanes: tuple[int, ...] = (),
        other: Span | None = None,
        hint: str = "",
        severity: Severity | None = None,
        is_silent_at_hw: bool = False,
        folds: bool = False,
        place: Place | None = None,
        other_party: Record | None = None,
        note: str = "",
        edits: tuple[Edit, ...] = (),
    ) -> None:
        """Add a finding of `rule` unless the level is silent about it; `severity` replaces the rule's own
        below `strict`. With `folds` all findings of the rule are one. `place` is the memory that both
        parties touch, `note` what would have made it right, `edits` what may repair it.
        """
        own = RULES[rule].severity(self.level)
        if own is None or (is_silent_at_hw and self.level == "hw"):
            return
        if severity is not None and self.level != "strict":
            own = severity
        key = (rule,) if folds else (rule, span, other)
        before = self.found.get(key)
        if before is not None:
            self.found[key] = replace(before, count=before.count + 1)
            return
        index = None if cta is None else self.index_of(cta)
        if other_party is not None and other_party.is_operation and cta is not None and warp is not None:
            self.questions[key] = self.ends.ask(other_party, cta, warp)
        self.found[key] = Finding(
            rule,
            own,
            message,
            span,
            index,
            warp,
            lanes,
            other=other,
            hint=hint,
            other_party=None if other_party is None else self.party(other_party),
            place=place,
            note=note,
            edits=edits,
        )

    def party(self, record: Record) -> Party:
        """Return who made an access, for a finding."""
        agent = record.agent
        what = operation_of(record)
        return Party(what, self.index_of(agent.cta) if agent.cta >= 0 else None, agent.warp, record.lanes)

    @property
    def all(self) -> tuple[Finding, ...]:
        """Return them, errors first, causes before their effects, else in order of their first appearance;
        what only the end of the run shows of the barriers that would have ordered a pair is in their notes.
        """
        for key, question in self.questions.items():
            said = "\n".join(part for part in (self.found[key].note, self.ends.answer(question)) if part)
            self.found[key] = replace(self.found[key], note=said)
        self.questions.clear()
        return tuple(sorted(self.found.values(), key=lambda f: (_ORDER[f.severity], f.rule not in _CAUSES)))


def operation_of(record: Record) -> str:
    """Name the operation that made an access: `tcgen05.mma.kind::f16 128x128x16`; '' for a thread's own."""
    if not record.is_operation:
        return ""
    return ("tcgen05." if record.unit in ("tensor", "tmem_ld", "tmem_st") else "") + record.what


def party(record: Record, with_line: bool = False) -> str:
    """Say who made an access: `tcgen05.mma (line 40, warp 0)`, `warp 4`."""
    if record.is_operation:
        where = f"line {record.span.line}, " if with_line else ""
        return f"{operation_of(record)} ({where}warp {record.agent.warp} of CTA {record.agent.cta})"
    line = f" (line {record.span.line})" if with_line else ""
    return f"warp {record.agent.warp} of CTA {record.agent.cta}{line}"


def place_of(conflict: Conflict, name_of: Callable[[str, int, int], str]) -> Place:
    """Name the common places of a conflict."""
    space = conflict.later.space
    if space == "tmem":
        lane, col = divmod(conflict.address, NUM_COLS)
        return Place(space, f"tmem[lane {lane}, col {col}]", conflict.count)
    address = conflict.address + (GLOBAL_BASE if space == "global" else 0)
    return Place(space, name_of(space, conflict.home, address), conflict.count)
