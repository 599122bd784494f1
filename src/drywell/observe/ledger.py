"""What happened to each mbarrier, phase by phase: who arrived, who expected how many bytes, who was let
through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from drywell.base.events import BarrierChanged, Event, Passed
from drywell.base.span import Span
from drywell.observe.moments import Moments

MOST_PHASES, MOST_ENTRIES = 4096, 256


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened to a phase, the `order`-th of all on mbarriers in the run, at moment `at`.

    `what` is arrive, expect, arrive.expect, complete, drop, add or pass (lanes were let through);
    `amount` arrivals or bytes; `pending` and `tx_bytes` are what the phase then still waited for. `cta`,
    `warp` and `lanes` are who; `is_async` says that an operation did it (a copy its bytes, a commit its
    arrival), not the threads themselves.
    """

    order: int
    at: int
    what: str
    cta: int
    warp: int
    is_async: bool
    lanes: tuple[int, ...]
    amount: int
    pending: int
    tx_bytes: int
    span: Span


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of an mbarrier: its entries in order; `left_out` more are not kept. `is_over` says that it
    completed. Number -1 stands for the phase before the first, for which a wait on parity 1 need not wait.
    """

    number: int
    is_over: bool
    entries: tuple[Entry, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class BarrierLedger:
    """One mbarrier of CTA `cta` from an init on (at moment `at`), at window offset `offset`: `count` is what
    init gave it.
    `left_out` phases behind the kept ones are not listed.
    """

    cta: int
    offset: int
    name: str
    count: int
    init: Span
    at: int
    phases: tuple[Phase, ...]
    left_out: int


_Words = tuple[int, int, bool, tuple[int, ...], int, int, int, Span]
"""An entry behind its `what`."""


@dataclass(slots=True)
class _Phase:
    entries: list[Entry] = field(default_factory=list)
    left_out: int = 0


@dataclass(slots=True)
class _Life:
    init: BarrierChanged
    at: int
    phases: dict[int, _Phase] = field(default_factory=dict)
    completed: int = 0
    dropped: set[int] = field(default_factory=set)


class Ledgers:
    """Listens to a run; `ledgers()` says what it saw. `name_of(offset)` names a byte of shared memory,
    `moments` say when it is.
    """

    def __init__(self, name_of: Callable[[int], str], moments: Moments) -> None:
        self._name_of = name_of
        self._moments = moments
        self._lives: dict[tuple[int, int], list[_Life]] = {}
        self._count = 0

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case BarrierChanged():
                self._changed(event)
            case Passed() if event.sync.kind == "mbarrier":
                agent, sync = event.agent, event.sync
                lives = self._lives.get((sync.cta, sync.number))
                if lives:
                    entry = (agent.cta, agent.warp, False, event.lanes, 0, 0, 0, event.span)
                    self._enter(lives[-1], event.round, "pass", entry)

    def _changed(self, event: BarrierChanged) -> None:
        lives = self._lives.setdefault((event.home, event.offset), [])
        if event.what == "init":
            lives.append(_Life(event, self._moments.now))
        elif lives and event.what != "inval":
            agent, life = event.agent, lives[-1]
            life.completed = max(life.completed, event.phase)
            entry = (
                agent.cta, agent.warp, agent.operation > 0, event.lanes,
                event.amount, event.pending, event.tx_bytes, event.span,
            )  # fmt: skip
            if event.phase > event.round:  # it ended the phase: nothing is left of it
                entry = (*entry[:5], 0, 0, entry[7])
            self._enter(life, event.round, event.what, entry)

    def _enter(self, life: _Life, number: int, what: str, entry: _Words) -> None:
        self._count += 1
        phase = life.phases.get(number)
        if phase is None:
            if len(life.phases) >= MOST_PHASES:
                life.dropped.add(number)
                return
            phase = life.phases[number] = _Phase()
        if len(phase.entries) >= MOST_ENTRIES:
            phase.left_out += 1
            return
        phase.entries.append(Entry(self._count, self._moments.now, what, *entry))

    def ledgers(self, cta: int | None = None) -> tuple[BarrierLedger, ...]:
        """Return the mbarriers of a CTA (of all without one), by CTA and offset."""
        return tuple(
            BarrierLedger(
                home,
                offset,
                self._name_of(offset),
                life.init.amount,
                life.init.span,
                life.at,
                tuple(
                    Phase(number, number < life.completed, tuple(phase.entries), phase.left_out)
                    for number, phase in sorted(life.phases.items())
                ),
                len(life.dropped),
            )
            for (home, offset), lives in sorted(self._lives.items())
            if cta is None or home == cta
            for life in lives
        )
