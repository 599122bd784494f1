"""What the checker has to say: findings, repeats folded, and the words that name parties and places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack

from drywell.base.diagnostic import Cause, Edit, Finding, Party, Place, Severity
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
_DEPTHS = {
    "EXPECT-TX-MISMATCH": -1,
    "PAIR-TX-MULTIPLIER": -1,
    "COMMIT-NO-MMA": -1,
    "COMMIT-GROUP-MISMATCH": -1,
    "ST-NOT-WAITED": -1,
    "MEM-RACE": 1,
    "COMMIT-MISSING": 1,
    "FREE-BEFORE-DONE": 2,
    "PAIR-DEALLOC-EARLY": 2,
    "EXIT-WITH-PENDING": 2,
    "PEER-EXIT-EARLY": 2,
}
"""Of the findings about one operation that is not known to be over, those of higher numbers follow from the
one of the lowest. Rules of order have 0: below them are commits and bytes that should have covered the
operation, above them what is written over it or ends before it.
"""
_PREFIXES = {"tensor": "tcgen05.", "tmem_ld": "tcgen05.", "tmem_st": "tcgen05.", "tma": "TMA "}
"""What stands before the name of an operation, by the unit that carries it out."""
_Key = tuple[Any, ...]


class Details(TypedDict, total=False):
    """What is said of a finding besides its rule and message: who was where, `other` and `other_party` for
    the other of two, the `place` in memory that both touch, what would have made it right (`note`) and what
    may repair it (`hint`, `edits`). `severity` replaces the rule's own below `strict`; `operations` are where
    operations were issued that are not known to be over.
    """

    cta: int | None
    warp: int | None
    lanes: tuple[int, ...]
    other: Span | None
    other_party: Record | None
    operations: tuple[Span, ...]
    place: Place | None
    note: str
    hint: str
    edits: tuple[Edit, ...]
    severity: Severity | None
    is_silent_at_hw: bool
    folds: bool


@dataclass(slots=True)
class Findings:
    """Findings of a run, repeats folded: one for each rule and pair of places, with a count."""

    level: Level
    name_of: Callable[[str, int, int], str]
    index_of: Callable[[int], tuple[int, int, int]]
    ends: Ends
    found: dict[_Key, Finding] = field(default_factory=dict)
    questions: dict[_Key, Question] = field(default_factory=dict)
    operations: dict[_Key, tuple[Span, ...]] = field(default_factory=dict)

    def report(self, rule: str, message: str, span: Span = NOWHERE, **details: Unpack[Details]) -> None:
        """Add a finding unless the level is silent about its rule; with `folds` all of the rule are one."""
        own = self._severity(rule, details.get("severity"), details.get("is_silent_at_hw", False))
        other, cta, warp = details.get("other"), details.get("cta"), details.get("warp")
        key = (rule,) if details.get("folds") else (rule, span, other)
        if own is None or self._repeats(key):
            return
        record = details.get("other_party")
        self.operations[key] = details.get("operations", ())
        if record is not None and self.operations[key] and cta is not None and warp is not None:
            self.questions[key] = self.ends.ask(record, cta, warp)
        self.found[key] = Finding(
            rule,
            own,
            message,
            span,
            None if cta is None else self.index_of(cta),
            warp,
            details.get("lanes", ()),
            other=other,
            hint=details.get("hint", ""),
            other_party=None if record is None else self.party(record),
            place=details.get("place"),
            note=details.get("note", ""),
            edits=details.get("edits", ()),
        )

    def _severity(self, rule: str, severity: Severity | None, is_silent_at_hw: bool) -> Severity | None:
        own = RULES[rule].severity(self.level)
        if own is None or (is_silent_at_hw and self.level == "hw"):
            return None
        return own if severity is None or self.level == "strict" else severity

    def _repeats(self, key: _Key) -> bool:
        """Say whether there is such a finding already, and count it once more."""
        before = self.found.get(key)
        if before is not None:
            self.found[key] = replace(before, count=before.count + 1)
        return before is not None

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
        leading = self._leading()
        found = [replace(f, cause=self._cause(key, leading)) for key, f in self.found.items()]
        return in_turn(found)

    def _leading(self) -> dict[Span, Finding]:
        """Return for each operation the finding that leads those about it: of what is worst the first."""
        out: dict[Span, Finding] = {}
        for key, operations in self.operations.items():
            finding = self.found[key]
            for operation in operations:
                if operation not in out or _rank(finding) < _rank(out[operation]):
                    out[operation] = finding
        return out

    def _cause(self, key: _Key, leading: dict[Span, Finding]) -> Cause | None:
        finding = self.found[key]
        leaders = [leading[operation] for operation in self.operations[key]]
        above = (f for f in leaders if _DEPTHS.get(f.rule, 0) < _DEPTHS.get(finding.rule, 0))
        leader = next(above, None)
        return None if leader is None else Cause(leader.rule, leader.span)


def in_turn(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings errors first, causes before their effects, else in their order."""
    return tuple(sorted(findings, key=_turn))


def _rank(finding: Finding) -> tuple[int, int]:
    return _ORDER[finding.severity], _DEPTHS.get(finding.rule, 0)


def _turn(finding: Finding) -> tuple[int, bool, bool]:
    return _ORDER[finding.severity], finding.cause is not None, finding.rule not in _CAUSES


def operation_of(record: Record) -> str:
    """Name the operation that made an access: `tcgen05.mma.kind::f16 128x128x16`; '' for a thread's own."""
    if not record.is_operation:
        return ""
    return _PREFIXES.get(record.unit, "") + record.what


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
