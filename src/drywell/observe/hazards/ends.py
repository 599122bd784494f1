"""How the end of each asynchronous operation could be seen, and how far that had got: for the notes of
findings.

An mma, cp or shift ends with the first commit behind it, a copy with the phase that its bytes complete, a
load or store of Tensor Memory and a bulk store with the wait of its own thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drywell.base.events import BarrierChanged, Event, Issued, Passed, Retired
from drywell.base.span import Span
from drywell.observe.hazards.record import Record

_PIPE = ("mma", "cp", "shift")
_Barrier = tuple[int, int]
"""An mbarrier: its CTA and window offset."""


@dataclass(frozen=True, slots=True)
class Question:
    """How an operation's end could be seen by warp `warp` of CTA `cta`, which by then had seen the ends of
    these phases (`seen`).
    """

    record: Record
    cta: int
    warp: int
    seen: dict[_Barrier, int]


@dataclass(frozen=True, slots=True)
class _Signal:
    barrier: _Barrier
    round: int


class Ends:
    """Follows a run; `answer` says in words how an operation's end could be seen. `name_of(space, cta,
    address)` names a byte.
    """

    def __init__(self, name_of: Callable[[str, int, int], str]) -> None:
        self._name_of = name_of
        self._open: dict[tuple[int, int, int, int], list[int]] = {}
        self._commits: dict[int, tuple[int, Span]] = {}
        self._signals: dict[int, _Signal] = {}
        self._waits: dict[int, Span] = {}
        self._reads: dict[int, Span] = {}
        self._seen: dict[tuple[int, int], dict[_Barrier, int]] = {}
        self._acts: dict[type, Callable[[Any], None]] = {
            Issued: self._issued,
            BarrierChanged: self._changed,
            Passed: self._passed,
            Retired: self._retired,
        }

    def on(self, event: Event) -> None:
        """Take note of one event."""
        act = self._acts.get(type(event))
        if act is not None:
            act(event)

    def _changed(self, event: BarrierChanged) -> None:
        if event.agent.operation and event.what in ("arrive", "complete"):
            signal = _Signal((event.home, event.offset), event.round)
            self._signals.setdefault(event.agent.operation, signal)

    def _passed(self, event: Passed) -> None:
        if event.sync.kind == "mbarrier":
            seen = self._seen.setdefault((event.agent.cta, event.agent.warp), {})
            seen[event.sync.cta, event.sync.number] = event.round

    def _retired(self, event: Retired) -> None:
        if not event.is_register:
            for number in event.operations:
                (self._reads if event.is_read else self._waits).setdefault(number, event.span)

    def _issued(self, event: Issued) -> None:
        agent, work = event.agent, event.work
        if work.role not in (*_PIPE, "commit"):
            return
        key = (agent.cta, agent.warp, event.lanes[0] if event.lanes else 0, work.cta_group)
        if work.role == "commit":
            for number in self._open.pop(key, ()):
                self._commits[number] = agent.operation, event.span
        else:
            self._open.setdefault(key, []).append(agent.operation)

    def ask(self, record: Record, cta: int, warp: int) -> Question:
        """Take note of how things stand for a warp that meets an operation not known to be over."""
        return Question(record, cta, warp, dict(self._seen.get((cta, warp), {})))

    def answer(self, question: Question) -> str:
        """Say how the end of the operation could be seen and how far that had got; '' for nothing to say."""
        record = question.record
        number, line = record.agent.operation, record.span.line
        if record.role in _PIPE:
            return self._commit(question, number, line)
        if number in self._signals:
            signal = self._signals[number]
            return f"line {line} completes {self._phase(signal)}{self._far(question, signal)}"
        if record.role in ("ld", "st", "store", "reduce"):
            wait = self._waits.get(number) or (None if record.is_write else self._reads.get(number))
            where = f"for it at line {wait.line}" if wait else "nowhere for it"
            return f"the thread of line {line} waits {where}"
        return ""

    def _commit(self, question: Question, number: int, line: int) -> str:
        """Say which commit ends an operation of the tensor core, and where that arrives."""
        if number not in self._commits:
            return f"no tcgen05.commit follows line {line} in its thread"
        commit, span = self._commits[number]
        signal = self._signals.get(commit)
        if signal is None:
            return f"line {line} ends with the commit of line {span.line}, which has not arrived"
        far = self._far(question, signal)
        return f"line {line} ends with the commit of line {span.line}, in {self._phase(signal)}{far}"

    def _phase(self, signal: _Signal) -> str:
        home, offset = signal.barrier
        return f"phase {signal.round} of {self._name_of('shared', home, offset)}"

    def _far(self, question: Question, signal: _Signal) -> str:
        """Say which phase of the barrier the other warp had seen the end of by then."""
        seen = question.seen.get(signal.barrier)
        who = f"warp {question.warp} of CTA {question.cta}"
        if seen is None or seen < 0:
            return f", on which {who} had not waited"
        return f", of which {who} had seen the end of phase {seen}" if seen < signal.round else ""
