"""Which warp does what, and what each mbarrier hands over: followed through a run by its events.

A warp's time is cut into episodes: one ends whenever the warp arrives somewhere, commits, or is let through
by a barrier. What an mbarrier gives is what the copies that complete on it wrote, or what the arriving warps
wrote in the episodes before and the waiting ones read in those behind; what it frees is what was read before
and is written behind. Episodes of warps that meet at a named barrier there count together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from drywell.base.events import (
    Access,
    Agent,
    Arrived,
    BarrierChanged,
    CtaStarted,
    Event,
    Issued,
    Passed,
    Sync,
    TmemAllocated,
)
from drywell.base.span import Span
from drywell.observe.handovers import (
    Actor,
    Dim3,
    Handover,
    Mask,
    Storage,
    is_touching,
    joint,
    mask_of,
    merge,
    num_places,
    storages,
)

PHRASES = {
    ("tensor", "mma"): "issues mma",
    ("tma", "load"): "loads by TMA",
    ("tmem_ld", "ld"): "reads Tensor Memory",
    ("tmem_st", "st"): "writes Tensor Memory",
    ("tensor", "cp"): "copies into Tensor Memory",
    ("tensor", "shift"): "shifts Tensor Memory",
    ("tma", "store"): "stores by TMA",
    ("tma", "reduce"): "reduces by TMA",
    ("bulk", "load"): "loads in bulk",
    ("bulk", "store"): "stores in bulk",
    ("bulk", "reduce"): "reduces in bulk",
    ("bulk", "copy"): "sends to other CTAs",
    ("cp_async", "copy"): "copies by cp.async",
    ("clc", "try_cancel"): "asks for work",
    ("", "alloc"): "allocates Tensor Memory",
    ("global", "write"): "writes global memory",
    ("shared", "write"): "writes shared memory",
    ("global", "read"): "reads global memory",
    ("shared", "read"): "reads shared memory",
    ("tensor", "commit"): "commits",
}
"""What a warp does, in words: by unit and role of an operation, or by space and direction of an access. What
tells most about a warp comes first.
"""
_NAMES = 2
_IN_A_NAME = tuple(PHRASES.values())[:14]
_MOST_EPISODES = 4096
"""Episodes of a warp whose memory is remembered; what a barrier protects shows long before."""
_REACH = 32
"""Episodes before an arrival, and behind a wait, that are looked at for what the two have in common."""


_FEW = 4
"""Words that two warps share by the way (a slot, a flag): no hand-over when there is more."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something a warp does: `what`, how often, how many bytes it moved that way, and where in the text."""

    what: str
    count: int
    num_bytes: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class WarpRole:
    """What one warp of a CTA (x, y, z) is for: its `name` in words, and its deeds."""

    cta: Dim3
    warp: int
    name: str
    deeds: tuple[Deed, ...]


@dataclass(slots=True)
class _Tally:
    count: int = 0
    num_bytes: int = 0
    spans: dict[Span, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Episode:
    """What a warp and the operations that it issued read and wrote between two cuts; `ended` and `begun` are
    the episodes of all warps that ended, or began, at the same named barrier.
    """

    reads: Mask = field(default_factory=dict)
    writes: Mask = field(default_factory=dict)
    is_used: bool = False
    ended: list[_Episode] = field(default_factory=list)
    begun: list[_Episode] = field(default_factory=list)


@dataclass(slots=True)
class _Warp:
    """A warp as it runs: what it did, and its episodes; a cut is the number of the episode behind it."""

    tallies: dict[str, _Tally] = field(default_factory=dict)
    episodes: list[_Episode] = field(default_factory=lambda: [_Episode()])
    waits: list[tuple[int, _Phase]] = field(default_factory=list)

    def cut(self) -> int:
        """End the episode, if anything happened in it, and return the number of the one that begins."""
        last = self.episodes[-1]
        if (last.is_used or last.begun) and len(self.episodes) < _MOST_EPISODES:
            self.episodes.append(_Episode())
        return len(self.episodes) - 1

    def before(self, cut: int) -> list[tuple[Mask, Mask]]:
        """Return what was read and written before a cut, the latest episode first."""
        return [_touched((e, *e.ended)) for e in self.episodes[max(0, cut - _REACH) : cut][::-1]]

    def behind(self, cut: int, limit: int) -> list[tuple[Mask, Mask]]:
        """Return what was read and written behind a cut and before another, the earliest episode first."""
        return [_touched((e, *e.begun)) for e in self.episodes[cut : min(limit, cut + _REACH)]]


def _touched(episodes: Iterable[_Episode]) -> tuple[Mask, Mask]:
    """Return what episodes read and wrote together."""
    reads: Mask = {}
    writes: Mask = {}
    for episode in episodes:
        merge(reads, episode.reads)
        merge(writes, episode.writes)
    return reads, writes


@dataclass(frozen=True, slots=True)
class _Operation:
    agent: Agent
    unit: str
    role: str
    span: Span
    episode: _Episode
    cut: int
    written: Mask


Cut = tuple[tuple[int, int], int]
"""A warp (its CTA and number) and a cut of its time."""


@dataclass(slots=True)
class _Phase:
    """Who arrived (and whether an operation did it for the warp), who waited (and how many waits the warp
    had behind it then), and what copies wrote.
    """

    arrivals: dict[Cut, bool] = field(default_factory=dict)
    waits: dict[Cut, int] = field(default_factory=dict)
    written: Mask = field(default_factory=dict)


@dataclass(slots=True)
class _Barrier:
    """One life of an mbarrier, from its init on."""

    count: int
    expected: int
    span: Span
    phases: dict[int, _Phase] = field(default_factory=dict)
    num_phases: int = 0
    arrivals: int = 0
    open_arrivals: int = 0
    bytes_expected: int = 0
    bytes_completed: int = 0
    producers: dict[tuple[str, int, Span], set[int]] = field(default_factory=dict)
    consumers: dict[tuple[str, int, Span], set[int]] = field(default_factory=dict)


class Roles:
    """Listens to a run; `roles()` and `handovers()` say what it saw. `name_of(offset)` names a byte of
    shared memory, `index_of(cta)` gives a CTA's (x, y, z).
    """

    def __init__(self, name_of: Callable[[int], str], index_of: Callable[[int], Dim3]) -> None:
        self._name_of, self._index_of = name_of, index_of
        self._warps: dict[tuple[int, int], _Warp] = {}
        self._operations: dict[int, _Operation] = {}
        self._barriers: dict[tuple[int, int], list[_Barrier]] = {}
        self._meetings: dict[tuple[Sync, int], tuple[list[_Episode], list[_Episode]]] = {}

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case Access():
                self._access(event)
            case Issued():
                self._issued(event)
            case BarrierChanged():
                self._changed(event)
            case Passed() if event.sync.kind == "mbarrier":
                self._passed(event)
            case Passed() | Arrived() if event.sync.kind == "named":
                self._met(event)
            case TmemAllocated() if not event.is_free:
                self._did(event.agent, PHRASES["", "alloc"], event.span)
            case CtaStarted():
                for warp in range(event.num_warps):
                    self._warps[event.cta, warp] = _Warp()

    # who does what

    def _did(self, agent: Agent, what: str, span: Span, count: int = 1, num_bytes: int = 0) -> None:
        tally = self._warps[agent.cta, agent.warp].tallies.setdefault(what, _Tally())
        tally.count += count
        tally.num_bytes += num_bytes
        tally.spans[span] = None

    def _issued(self, event: Issued) -> None:
        agent, role = event.agent, event.work.role
        what = PHRASES.get((event.unit, role))
        if what is not None:
            self._did(agent, what, event.span)
        warp = self._warps[agent.cta, agent.warp]
        cut = warp.cut() if role in ("commit", "arrive") else 0
        episode = warp.episodes[-1]
        episode.is_used |= not cut
        op = _Operation(agent, event.unit, role, event.span, episode, cut, {})
        self._operations[agent.operation] = op

    def _access(self, event: Access) -> None:
        if event.space not in ("global", "shared", "tmem") or event.agent.warp < 0:
            return
        op = self._operations.get(event.agent.operation)
        size = len(event.addresses) * event.size * (4 if event.space == "tmem" else 1)
        what = self._phrase(event, op)
        if what:
            self._did(event.agent, what, event.span, 0 if op else 1, size)
        if event.space == "global":
            return
        touched = mask_of(event)
        episode = self._warps[event.agent.cta, event.agent.warp].episodes[-1] if op is None else op.episode
        episode.is_used = True
        merge(episode.writes if event.is_write else episode.reads, touched)
        if op is not None and event.is_write:
            merge(op.written, touched)

    def _phrase(self, event: Access, op: _Operation | None) -> str:
        """Say what an access counts for: an operation's bytes are those that it writes (or loads)."""
        if op is None:
            return PHRASES[event.space, "write" if event.is_write else "read"]
        if event.is_write or op.role == "ld":
            return PHRASES.get((op.unit, op.role), "") if op.role != "mma" else ""
        return ""

    def roles(self) -> tuple[WarpRole, ...]:
        """Return what each warp is for, by CTA and warp."""
        return tuple(
            WarpRole(self._index_of(cta), number, _name(warp), _deeds(warp))
            for (cta, number), warp in sorted(self._warps.items())
        )

    # barriers

    def _changed(self, event: BarrierChanged) -> None:
        lives = self._barriers.setdefault((event.home, event.offset), [])
        if event.what == "init":
            lives.append(_Barrier(event.amount, event.expected, event.span))
            return
        if not lives or event.what == "inval":
            return
        barrier = lives[-1]
        barrier.expected = max(barrier.expected, event.expected)
        barrier.num_phases, barrier.open_arrivals = event.phase, event.expected - event.pending
        phase = barrier.phases.setdefault(event.round, _Phase())
        if event.what in ("expect", "arrive.expect"):
            barrier.bytes_expected += event.amount
        if event.what == "complete":
            barrier.bytes_completed += event.amount
            self._completed(event, barrier, phase)
        elif event.what in ("arrive", "arrive.expect", "drop"):
            barrier.arrivals += 1 if event.what == "arrive.expect" else event.amount
            self._arrived(event, barrier, phase)

    def _completed(self, event: BarrierChanged, barrier: _Barrier, phase: _Phase) -> None:
        op = self._operations.get(event.agent.operation)
        if op is None:
            self._by(barrier.producers, "complete_tx", event.agent, event.span)
            return
        merge(phase.written, op.written)
        self._by(barrier.producers, PHRASES.get((op.unit, op.role), op.role), op.agent, op.span)

    def _arrived(self, event: BarrierChanged, barrier: _Barrier, phase: _Phase) -> None:
        agent, op = event.agent, self._operations.get(event.agent.operation)
        warp = (agent.cta, agent.warp)
        if op is None:
            cut = self._warps[warp].cut() if warp in self._warps else 0
            what = "expects bytes" if event.what == "arrive.expect" else "arrives"
        else:
            cut, what = op.cut, "commits" if op.role == "commit" else "arrives by cp.async"
        if warp in self._warps:
            phase.arrivals[warp, cut] = op is not None
        self._by(barrier.producers, what, agent, event.span)

    def _passed(self, event: Passed) -> None:
        lives = self._barriers.get((event.sync.cta, event.sync.number))
        if not lives:
            return
        agent = event.agent
        warp = self._warps[agent.cta, agent.warp]
        phase = lives[-1].phases.setdefault(event.round, _Phase())
        cut = warp.cut()
        warp.waits.append((cut, phase))
        phase.waits[(agent.cta, agent.warp), cut] = len(warp.waits)
        self._by(lives[-1].consumers, "waits", agent, event.span)

    def _met(self, event: Passed | Arrived) -> None:
        """Cut at a named barrier, and let the episodes of all that meet there count together."""
        warp = self._warps[event.agent.cta, event.agent.warp]
        ended, begun = self._meetings.setdefault((event.sync, event.round), ([], []))
        if isinstance(event, Arrived):
            warp.episodes[-1].is_used = True
            cut = warp.cut()
            episode, group = warp.episodes[max(0, cut - 1)], ended
            episode.ended = group
        else:
            episode, group = warp.episodes[-1], begun
            episode.begun = group
        if not any(other is episode for other in group):
            group.append(episode)

    def _by(self, who: dict[tuple[str, int, Span], set[int]], what: str, agent: Agent, span: Span) -> None:
        who.setdefault((what, agent.cta, span), set()).add(agent.warp)

    def handovers(self) -> tuple[Handover, ...]:
        """Return what each mbarrier hands over, by CTA and place."""
        found = [
            (self._handover(home, offset, barrier, *storage), storage)
            for (home, offset), lives in sorted(self._barriers.items())
            for barrier in lives
            for storage in (self._storage(barrier),)
        ]
        return tuple(_with_release(one, gives, found) for one, (gives, _) in found)

    def _storage(self, barrier: _Barrier) -> tuple[Mask, Mask]:
        """Return what a barrier gives, data that its waiters read, and what it frees for them to write."""
        gives: Mask = {}
        frees: Mask = {}
        for phase in barrier.phases.values():
            given, freed = self._handed_over(phase)
            merge(gives, given)
            merge(frees, freed)
        if not gives and not frees:
            for phase in barrier.phases.values():
                merge(frees, self._read_before(phase))
        return _main_part(gives), _main_part(frees)

    def _handed_over(self, phase: _Phase) -> tuple[Mask, Mask]:
        if phase.written:
            return phase.written, {}
        gives: Mask = {}
        frees: Mask = {}
        for (taker, behind), waits in phase.waits.items():
            for (giver, before), is_operation in phase.arrivals.items():
                if giver != taker or is_operation:
                    limit = self._next_wait(giver, before, taker, waits)
                    later = self._warps[taker].behind(behind, limit)
                    given, freed = _common(self._warps[giver].before(before), later)
                    merge(gives, given)
                    merge(frees, freed)
        return gives, frees

    def _read_before(self, phase: _Phase) -> Mask:
        """Return what was read before the arrivals: by operations from shared memory before a commit, from
        Tensor Memory before a thread's arrive. That is free even if nobody was seen to write it.
        """
        out: Mask = {}
        for (giver, before), is_operation in phase.arrivals.items():
            space = "shared" if is_operation else "tmem"
            for reads, _ in self._warps[giver].before(before):
                found = {key: bits for key, bits in reads.items() if key[0] == space}
                if found:
                    merge(out, found)
                    break
        return out

    def _next_wait(self, giver: tuple[int, int], before: int, taker: tuple[int, int], waits: int) -> int:
        """Return the cut at which the taker, after so many waits, next waits for something that the giver did
        later: what it touches from there on is handed over by that.
        """
        for cut, phase in self._warps[taker].waits[waits:]:
            if any(warp == giver and c >= before for warp, c in phase.arrivals):
                return cut
        return _MOST_EPISODES

    def _handover(self, home: int, offset: int, barrier: _Barrier, gives: Mask, frees: Mask) -> Handover:
        return Handover(
            self._index_of(home),
            self._name_of(offset),
            offset,
            barrier.count,
            barrier.span,
            self._actors(barrier.producers),
            self._actors(barrier.consumers),
            barrier.expected,
            barrier.arrivals,
            barrier.open_arrivals,
            barrier.bytes_expected,
            barrier.bytes_completed,
            barrier.num_phases,
            self._storages(gives),
            self._storages(frees),
        )

    def _storages(self, mask: Mask) -> tuple[Storage, ...]:
        return storages(mask, self._name_of, self._index_of)

    def _actors(self, who: dict[tuple[str, int, Span], set[int]]) -> tuple[Actor, ...]:
        """Return who takes part: one actor for each deed and CTA, with its warps and places."""
        folded: dict[tuple[str, int], tuple[set[int], list[Span]]] = {}
        for (what, cta, span), warps in who.items():
            members, spans = folded.setdefault((what, cta), (set(), []))
            members |= warps
            spans.append(span)
        return tuple(
            Actor(what, self._index_of(cta), tuple(sorted(members)), tuple(spans))
            for (what, cta), (members, spans) in folded.items()
        )


def _with_release(one: Handover, gives: Mask, found: list[tuple[Handover, tuple[Mask, Mask]]]) -> Handover:
    """Return a hand-over with the moment its storage is free again: for data, the phase of a barrier on
    which those who wait here arrive and that frees it; for storage that it frees itself, its own phase.
    """
    takers = {(actor.cta, warp) for actor in one.consumers for warp in actor.warps}
    for other, (_, frees) in found:
        givers = {(actor.cta, warp) for actor in other.producers for warp in actor.warps}
        if other is not one and takers & givers and is_touching(gives, frees):
            return one.freed_by(other)
    return one.freed_by(one) if one.frees and not one.gives else one


def _common(before: Sequence[tuple[Mask, Mask]], behind: Sequence[tuple[Mask, Mask]]) -> tuple[Mask, Mask]:
    """Return what was written before and is read behind, and what was read before and is written behind: of
    the nearest episodes that have more than a few words in common, else of the nearest.
    """
    few: tuple[Mask, Mask] = ({}, {})
    for reads, writes in before:
        for reads_then, writes_then in behind:
            given, freed = joint(writes, reads_then), joint(reads, writes_then)
            if num_places(given) + num_places(freed) > _FEW:
                return given, freed
            few = few if any(few) else (given, freed)
    return few


def _main_part(mask: Mask) -> Mask:
    """Leave out memory of which there are a few words only, when there is more elsewhere."""
    kept = {key: bits for key, bits in mask.items() if bits.bit_count() > _FEW}
    return kept or mask


def _name(warp: _Warp) -> str:
    done = [phrase for phrase in PHRASES.values() if phrase in warp.tallies]
    said = [phrase for phrase in done if phrase in _IN_A_NAME][:_NAMES] or done[:1]
    return ", ".join(said) or "computes"


def _deeds(warp: _Warp) -> tuple[Deed, ...]:
    return tuple(
        Deed(what, tally.count, tally.num_bytes, tuple(tally.spans))
        for what in PHRASES.values()
        if (tally := warp.tallies.get(what)) is not None
    )
