"""Happens-before, followed through a run: which access is over for whom, and which pairs of accesses are
not ordered.

Agents are the lanes of warps and the asynchronous operations. An operation knows what its issuer knew at
issue; its end is learnt through the phase of an mbarrier, a commit, a group or a wait, as the manual says
for its kind. A pair of accesses to one place, one of them a write, of which the later one does not know
the earlier to be over, is a `Conflict`: it is one under every schedule that takes the same branches.
Source: PTX ISA, memory consistency model (chapter 8) and 9.7.16.6 for tcgen05.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from drywell.base.events import (
    Access,
    Agent,
    Arrived,
    BarrierChanged,
    CtaStarted,
    Event,
    Fenced,
    Issued,
    LanesExited,
    Order,
    Passed,
    Proxy,
    Retired,
    Sync,
    TmemAllocated,
    Work,
)
from drywell.base.span import Span
from drywell.layout.tmem import NUM_COLS, NUM_LANES
from drywell.machine.windows import GLOBAL_BASE, OFFSET_MASK
from drywell.observe.hazards.clock import EMPTY, FENCED, LANES, NOTHING, Clock, Known, joined
from drywell.observe.hazards.orient import is_reversed
from drywell.observe.hazards.record import NOBODY, Record
from drywell.observe.hazards.shadow import WHOLE, Shadow

Why = Literal["unordered", "proxy", "fence_after", "fence_before"]
Place = tuple[str, int]
PIPELINED = frozenset({("mma", "mma"), ("cp", "mma"), ("shift", "mma"), ("shift", "cp"), ("mma", "shift")})
"""SPEC: pairs of tcgen05 operations that keep their order of issue. Source: PTX ISA 9.7.16.6.2."""
_KEPT_USES = 4
_PIPE_ROLES = ("mma", "cp", "shift")


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses of `count` common places, the first of them `address` of CTA `home`, of which the
    later does not know the earlier to be over; `why` says what is missing. `clock` is what the later one
    knew.
    """

    earlier: Record
    later: Record
    why: Why
    address: int
    home: int
    count: int
    clock: Clock
    earlier_lane: int = WHOLE
    later_lane: int = WHOLE


@dataclass(slots=True)
class WarpClocks:
    """What the lanes of one warp know. `base` is its component, `base + 1 + lane` that of a lane; `time`
    counts what it has published. Per lane, `fences` and `near_fences` are what its last memory fence of a
    scope beyond the CTA, and of any scope, lets strong writes after it publish; `pending` is what strong
    reads have seen and the next fence takes in.
    """

    agent: Agent
    base: int
    live: set[int]
    clocks: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    time: int = 1
    fences: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    near_fences: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    pending: list[Clock] = field(default_factory=lambda: [EMPTY] * LANES)
    has_strong: bool = False

    def own(self, lanes: tuple[int, ...]) -> Known:
        """Return the components that say: what `lanes` have done up to now."""
        if len(lanes) >= len(self.live):
            return {self.base: self.time}
        return {self.base + 1 + lane: self.time for lane in lanes}

    def known(self, lanes: tuple[int, ...]) -> Clock:
        """Return what `lanes` know together, without their own accesses."""
        clock = self.clocks[lanes[0]] if lanes else EMPTY
        for lane in lanes[1:]:
            other = self.clocks[lane]
            if other is not clock:
                joint = clock.join(other)
                clock = joint if joint.after is other.after else _with_after(joint, other.after)
        return clock

    def message(self, lanes: tuple[int, ...]) -> Clock:
        """Return what `lanes` know, their own accesses among it."""
        return self.known(lanes).knowing(self.own(lanes))

    def fenced(self, lanes: tuple[int, ...]) -> Clock:
        """Return what memory fences let `lanes` publish together."""
        clock = EMPTY
        for near in {id(self.near_fences[k]): self.near_fences[k] for k in lanes}.values():
            clock = clock.join(near)
        return clock

    def change(self, lanes: tuple[int, ...], act: Callable[[Clock], Clock]) -> None:
        """Replace the clocks of `lanes`; lanes that share one go on sharing."""
        made: dict[int, Clock] = {}
        for lane in lanes:
            old = self.clocks[lane]
            new = made.get(id(old))
            if new is None:
                new = made[id(old)] = act(old)
            self.clocks[lane] = new


def _with_after(clock: Clock, after: Known) -> Clock:
    return Clock(
        clock.seen,
        clock.control,
        clock.shared,
        clock.global_,
        clock.maps,
        clock.before,
        joined(clock.after, after),
    )


@dataclass(slots=True)
class Operation:
    """An asynchronous operation in flight or over: what its issuer knew, and its records by place."""

    number: int
    agent: Agent
    lanes: tuple[int, ...]
    warp: WarpClocks
    time: int
    unit: str
    what: str
    work: Work
    clock: Clock
    span: Span
    carries: Clock = EMPTY
    moment: int = 0
    records: dict[tuple[Place, bool, str, Proxy], Record] = field(default_factory=dict)


class Happens:
    """An observer that orders events; each Conflict goes to `sink`.

    `wants_fences` asks for the missing fences of tcgen05 too; with `counts_registers` reading a register of a
    tcgen05.ld orders that load. Each of `accessed` is told of every checked access: its record, its places,
    its shadow (for rules that look at what is in a place). `disputed` are the places in the program of all
    conflicts so far, `followed` operations with those of other threads that are in line behind them, `moment`
    counts events.
    """

    def __init__(self, sink: Callable[[Conflict], None]) -> None:
        self.sink = sink
        self.wants_fences = True
        self.counts_registers = True
        self.accessed: list[Callable[[Record, Any, Shadow, Access], None]] = []
        self.warps: dict[tuple[int, int], WarpClocks] = {}
        self.operations: dict[int, Operation] = {}
        self.records: list[Record] = [NOBODY]
        self.shadows: dict[Place, Shadow] = {}
        self.sm_of: dict[int, int] = {}
        self._uses: dict[tuple[Sync, int], Clock] = {}
        self._lives: dict[Sync, int] = {}
        self._phases: dict[Sync, int] = {}
        self.freed: Callable[[TmemAllocated, Any, Shadow, WarpClocks], None] | None = None
        self._pipes: dict[tuple[int, int, int], tuple[int, Clock]] = {}
        self._components: dict[Any, int] = {}
        self._own: dict[int, set[int]] = {}
        self._free = 1
        self._words: dict[tuple[Place, int], tuple[Clock, dict[int, Clock]]] = {}
        self._recent: dict[Any, Record] = {}
        self.moment = 0
        self.disputed: set[Span] = set()
        self.followed: dict[int, int] = {}
        self._inherited: dict[int, Known] = {}
        self._acts: dict[type, Callable[[Any], None]] = {
            Access: self._access,
            Issued: self._issued,
            BarrierChanged: self._barrier,
            Arrived: self._arrived,
            Passed: self._passed,
            Fenced: self._fenced,
            Retired: self._retired,
            CtaStarted: self._started,
            LanesExited: self._exited,
            TmemAllocated: self._allocated,
        }

    def on(self, event: Event) -> None:
        """Take note of one event."""
        self.moment += 1
        act = self._acts.get(type(event))
        if act is not None:
            act(event)

    # who there is

    def component(self, key: Any, count: int = 1) -> int:
        """Return the (first) component of `key`, made when first asked for."""
        found = self._components.get(key)
        if found is None:
            found = self._components[key] = self._free
            self._free += count
            if key[0] in ("pipe", "tmem_ld", "tmem_st"):
                self._own.setdefault(key[1], set()).add(found)
        return found

    def _started(self, event: CtaStarted) -> None:
        self.sm_of[event.cta] = event.sm
        for warp in range(event.num_warps):
            base = self.component(("warp", event.cta, warp), 1 + LANES)
            live = set(range(min(LANES, event.num_threads - warp * LANES)))
            self.warps[event.cta, warp] = WarpClocks(Agent(event.cta, warp), base, live)

    def _exited(self, event: LanesExited) -> None:
        warp = self.warps[event.agent.cta, event.agent.warp]
        if len(event.lanes) < len(warp.live):
            warp.live -= set(event.lanes)

    def warp_of(self, agent: Agent) -> WarpClocks:
        """Return the clocks of an agent's warp."""
        return self.warps[agent.cta, agent.warp]

    # operations

    def _issued(self, event: Issued) -> None:
        agent, work = event.agent, event.work
        warp = self.warps[agent.cta, agent.warp]
        clock = warp.message(event.lanes)
        op = Operation(
            agent.operation,
            agent,
            event.lanes,
            warp,
            warp.time,
            event.unit,
            event.what,
            work,
            clock,
            event.span,
            moment=self.moment,
        )
        warp.time += 1  # what the warp does from here on is not what the operation knows
        self.operations[agent.operation] = op
        if work.role in _PIPE_ROLES:
            self._pipes[warp.base, event.lanes[0], work.cta_group] = (agent.operation, clock)
        elif work.role == "commit":
            op.carries = self._committed(warp, event.lanes[0], work.cta_group)
        elif work.role == "arrive":
            lanes = self.component(("cp_async", warp.base), 1 + LANES)
            op.carries = EMPTY.knowing({lanes + 1 + lane: agent.operation for lane in event.lanes})

    def _committed(self, warp: WarpClocks, lane: int, group: int) -> Clock:
        """Return what a commit's arrive tells: that the operations before it are over, and what they
        knew.
        """
        found = self._pipes.get((warp.base, lane, group))
        if found is None:
            return EMPTY
        number, clock = found
        pipe = self.component(("pipe", warp.base, lane, group))
        known = joined(clock.seen, {pipe: number})
        control = joined(clock.control, known)
        return Clock(known, control, clock.shared, clock.global_, clock.maps, joined(clock.before, known))

    def _ends(self, op: Operation, event: Access) -> tuple[int, int, bool]:
        """Return the component and value by which the end of an operation's access is known, and whether
        lanes have components of their own.
        """
        warp, role = op.warp, op.work.role
        lane = op.lanes[0]
        if role in _PIPE_ROLES:
            return self.component(("pipe", warp.base, lane, op.work.cta_group)), op.number, False
        if op.unit in ("tmem_ld", "tmem_st"):
            return self.component((op.unit, warp.base)), op.number, False
        if op.unit == "cp_async":
            return self.component(("cp_async", warp.base), 1 + LANES), op.number, True
        is_group = role in ("store", "reduce") and not op.work.kind
        if is_group and not event.is_write and (event.space == "shared" or event.proxy == "tensormap"):
            return self.component(("bulk read", warp.base, lane)), op.number, False
        if is_group:
            return self.component(("bulk write", warp.base, lane)), op.number, False
        return 0, 1, False

    def _retired(self, event: Retired) -> None:
        warp = self.warps[event.agent.cta, event.agent.warp]
        known: Known = {}
        if event.is_register and not self.counts_registers:
            return
        if event.is_register:
            known = {-number: 1 for number in event.operations}
            warp.change(event.lanes, lambda clock: clock.knowing(known))
            return
        by_lane: dict[int, Known] = {}
        for number in event.operations:
            op = self.operations[number]
            for record in op.records.values():
                record.wait = event.span
            if op.unit in ("tmem_ld", "tmem_st"):
                known[self.component((op.unit, warp.base))] = number
                continue
            if op.unit == "cp_async" and set(op.lanes) <= set(event.lanes):
                for record in op.records.values():
                    record.retired_at = record.retired_at or warp.time
                continue
            for lane in op.lanes:
                mine = by_lane.setdefault(lane, {})
                if op.unit == "cp_async":
                    mine[self.component(("cp_async", warp.base), 1 + LANES) + 1 + lane] = number
                    continue
                mine[self.component(("bulk read", warp.base, lane))] = number
                if not event.is_read:
                    mine[self.component(("bulk write", warp.base, lane))] = number
        if known:
            warp.change(event.lanes, lambda clock: clock.knowing(known))
        for lane, mine in by_lane.items():
            if lane in event.lanes:
                warp.change((lane,), lambda clock, mine=mine: clock.knowing(mine))  # type: ignore[misc]

    # synchronisation

    def _arrived(self, event: Arrived) -> None:
        warp = self.warps[event.agent.cta, event.agent.warp]
        message = warp.message(event.lanes)
        if event.order.sem == "relaxed":
            message = message.only_control().join(warp.fenced(event.lanes))
        self._send(event.sync, event.round, message)
        warp.time += 1

    def _send(self, sync: Sync, use: int, message: Clock) -> None:
        key = (sync, use)
        self._uses[key] = self._uses.get(key, EMPTY).join(message)
        self._uses.pop((sync, use - _KEPT_USES), None)

    def _passed(self, event: Passed) -> None:
        use = event.round + self._lives.get(event.sync, 0)
        message = self._uses.get((event.sync, use))
        if message is None:
            return
        warp = self.warps[event.agent.cta, event.agent.warp]
        if event.order.sem == "relaxed":
            warp.has_strong = True
            for lane in event.lanes:
                warp.pending[lane] = warp.pending[lane].join(message)
            message = message.only_control()
        warp.change(event.lanes, lambda c: c.join(message))

    def _barrier(self, event: BarrierChanged) -> None:
        """Follow an mbarrier: arrivals carry clocks into its phase; `round` goes on counting over its
        lives.
        """
        sync = Sync("mbarrier", event.home, event.offset)
        if event.what == "init":
            last = self._lives.get(sync, 0)
            self._lives[sync] = last + _KEPT_USES + self._phases.get(sync, 0)
            self._phases[sync] = 0
            return
        self._phases[sync] = event.phase
        use = event.round + self._lives.get(sync, 0)
        if event.agent.operation:
            self._send(sync, use, self._landed(event, sync, use))
        elif event.what in ("arrive", "arrive.expect", "drop"):
            warp = self.warps[event.agent.cta, event.agent.warp]
            lanes = event.lanes or tuple(sorted(warp.live))
            message = warp.message(lanes)
            order = event.order
            if order.sem == "relaxed" and (order.scope != "cta" or event.agent.cta == event.home):
                message = message.only_control().join(warp.fenced(lanes))
            elif order.scope == "cta" and event.agent.cta != event.home:
                message = message.only_control()
            self._send(sync, use, message)
            warp.time += 1

    def _landed(self, event: BarrierChanged, sync: Sync, use: int) -> Clock:
        """Return what the signal of an operation carries: a commit's tracked operations, else its own
        bytes.
        """
        op = self.operations[event.agent.operation]
        if op.work.role == "commit":
            pipe = self.component(("pipe", op.warp.base, op.lanes[0], op.work.cta_group))
            inherited = self._inherited.get(pipe, NOTHING)
            clock = op.carries.knowing(inherited)
            return replace(clock, before=joined(clock.before, inherited)) if inherited else clock
        if op.work.role == "arrive":
            return op.carries
        component = self.component(sync)
        for record in op.records.values():
            if not record.component:  # what this stage, or an earlier one that has signalled nothing, touched
                record.component, record.value = component, use + 1 + _KEPT_USES
        return EMPTY.knowing({component: use + 1 + _KEPT_USES})

    def _fenced(self, event: Fenced) -> None:
        warp = self.warps[event.agent.cta, event.agent.warp]
        own = warp.own(event.lanes)
        act = _FENCES.get(event.kind)
        if event.kind == "tcgen05.before":
            warp.change(event.lanes, lambda clock: _before(clock, joined(self._own_work(warp, clock), own)))
        elif act is not None:
            warp.change(event.lanes, lambda clock: act(clock, joined(clock.seen, own), event.space))
        if event.kind == "memory":
            self._memory_fence(warp, event)
        warp.time += 1

    def _own_work(self, warp: WarpClocks, clock: Clock) -> Known:
        """Return which of the operations that have been seen to end are the warp's own."""
        own = self._own.get(warp.base, ())
        return {
            c: value
            for c, value in clock.seen.items()
            if c in own or (c < 0 and self.operations[-c].warp is warp)
        }

    def _memory_fence(self, warp: WarpClocks, event: Fenced) -> None:
        """Take in what strong reads before the fence saw, and let strong writes after it publish."""
        if warp.has_strong:
            for lane in event.lanes:
                if warp.pending[lane] is not EMPTY:
                    warp.clocks[lane] = warp.clocks[lane].join(warp.pending[lane])
                    warp.pending[lane] = EMPTY
        for lane in event.lanes:
            message = warp.message((lane,))
            warp.near_fences[lane] = message
            if event.order.scope != "cta":
                warp.fences[lane] = message

    # accesses

    def _access(self, event: Access) -> None:
        if event.space not in ("global", "shared", "tmem") or not len(event.addresses):
            return
        place, where = self._places(event)
        shadow = self._shadow(place, int(where.max()) + 1)
        size = event.size
        by = np.full(where.size, WHOLE, np.uint8)
        if event.lanes and not (event.is_write and len(set(where[::size].tolist())) < len(event.lanes)):
            by = np.repeat(np.array(event.lanes, np.uint8), size)
        if event.agent.operation:
            op = self.operations[event.agent.operation]
            record = self._operation_record(op, event, place)
            self._judge(record, op.clock, where, by, shadow, event)
            return
        warp = self.warps[event.agent.cta, event.agent.warp]
        record = self._thread_record(warp, event)
        if event.order.is_strong:
            self._strong(warp, event, place, where, by)
        for clock, part in self._by_clock(warp, by):
            if part is None:
                self._judge(record, clock, where, by, shadow, event)
            else:
                self._judge(record, clock, where[part], by[part], shadow, event)

    def _places(self, event: Access) -> tuple[Place, Any]:
        """Return which memory an access is to and the indices of its places there."""
        first = np.asarray(event.addresses, np.int64)
        if event.space == "tmem":
            cols = (first >> 16) * NUM_COLS + (first & 0xFFFF)
            return ("tmem", self.sm_of[event.home]), _spread(cols, event.size)
        if event.space == "shared":
            return ("shared", event.home), _spread(first & OFFSET_MASK, event.size)
        return ("global", -1), _spread(first - GLOBAL_BASE, event.size)

    def _shadow(self, place: Place, size: int) -> Shadow:
        shadow = self.shadows.get(place)
        if shadow is None:
            room = {"tmem": NUM_LANES * NUM_COLS, "shared": 1 << 18}.get(place[0], 1 << 20)
            shadow = self.shadows[place] = Shadow(max(room, size))
        if size > shadow.size:
            shadow.grow(max(size, 2 * shadow.size))
        return shadow

    def _by_clock(self, warp: WarpClocks, by: Any) -> list[tuple[Clock, Any]]:
        """Return the clocks of the accessing lanes with the places of each; None for all places."""
        lanes = sorted({int(v) for v in np.unique(by)} - {WHOLE}) or sorted(warp.live)
        distinct = {id(warp.clocks[lane]): warp.clocks[lane] for lane in lanes}
        if len(distinct) == 1 or by[0] == WHOLE:
            return [(warp.known(tuple(lanes)), None)]
        out = []
        for clock in distinct.values():
            mine = [lane for lane in lanes if warp.clocks[lane] is clock]
            out.append((clock, np.isin(by, mine)))
        return out

    def _thread_record(self, warp: WarpClocks, event: Access) -> Record:
        key = (warp.base, warp.time, id(event.span), event.is_write, event.space, event.lanes, event.home)
        record = self._recent.get(key)
        if record is None:
            if len(self._recent) > 20_000:
                self._recent.clear()
            record = self._recent[key] = Record(
                len(self.records),
                event.agent,
                event.span,
                event.space,
                event.is_write,
                event.proxy,
                warp.base,
                warp.time,
                warp.base,
                warp.time,
                event.lanes,
                True,
                event.order,
                event.is_atomic,
                home=event.home,
                is_slot=event.is_slot,
                clock=warp.clocks[event.lanes[0] if event.lanes else min(warp.live, default=0)],
                moment=self.moment,
            )
            self.records.append(record)
        return record

    def _operation_record(self, op: Operation, event: Access, place: Place) -> Record:
        key = (place, event.is_write, event.layout, event.proxy)
        record = op.records.get(key)
        if record is None:
            component, value, is_by_lane = self._ends(op, event)
            record = op.records[key] = Record(
                len(self.records),
                event.agent,
                event.span,
                event.space,
                event.is_write,
                event.proxy,
                component,
                value,
                op.warp.base,
                op.time,
                op.lanes,
                is_by_lane,
                event.order,
                event.is_atomic,
                op.unit,
                op.what,
                op.work,
                event.home,
                layout=event.layout,
                clock=op.clock,
                moment=op.moment,
            )
            self.records.append(record)
        return record

    def _judge(
        self, record: Record, clock: Clock, where: Any, by: Any, shadow: Shadow, event: Access
    ) -> None:
        """Hold one access against what is in its places, and put it there."""
        for look in self.accessed:
            look(record, where, shadow, event)
        writers = shadow.writer[where]
        if record.is_write and record.replaced is None:
            self._note_replaced(record, int(where[0]), shadow, clock)
        if not (record.is_write and self._is_idle(event)):
            self._hold(record, clock, where, by, writers, shadow.writer_lane[where])
        if not record.is_write:
            first = int(writers[0])
            record.is_slot |= self.records[first].is_slot and bool((writers == first).all())
            shadow.read(where, record.number, by, self._keep(record, clock, where, by, shadow))
            return
        readers = shadow.reader[where]
        if readers.any():
            self._hold(record, clock, where, by, readers, shadow.reader_lane[where])
            for group in shadow.further_readers(where, by):
                earlier = self.records[group.record]
                if not self._is_fine(earlier, group.lane, record, group.by, clock):
                    self._report(earlier, record, clock, group.first, group.num_places, group.lane, group.by)
        shadow.wrote(where, record.number, by)

    def _note_replaced(self, record: Record, where: int, shadow: Shadow, clock: Clock) -> None:
        """Find the write whose value `record` replaces, and whether it knows of a read of that to be over;
        what an mma only adds to is not replaced by it.
        """
        old, reader = self.records[int(shadow.writer[where])], int(shadow.reader[where])
        if record.is_operation and self.records[reader].agent == record.agent:
            record.replaced, record.is_settled = old.replaced, old.is_settled
            return
        record.replaced = old if old.number else None
        readers = {reader, *(number for number, _ in shadow.sets[int(shadow.more[where])])} - {0}
        record.is_settled = any(self.records[number].is_over_for(clock.seen) for number in readers)

    @staticmethod
    def _is_idle(event: Access) -> bool:
        """Say whether threads write what is already there: several that store one value do not disturb
        it.
        """
        return event.unchanged is not None and bool(event.unchanged.all()) and not event.agent.operation

    def _hold(self, record: Record, clock: Clock, where: Any, by: Any, numbers: Any, lanes: Any) -> None:
        """Report the parties that the access does not know to be over."""
        first = int(numbers[0])
        present = [first] if (numbers == first).all() else np.unique(numbers).tolist()
        for number in present:
            if number == 0:
                continue
            earlier = self.records[number]
            is_lanes = earlier.warp == record.warp and earlier.is_threads and not record.is_operation
            if not is_lanes and self._is_fine(earlier, WHOLE, record, WHOLE, clock):
                continue
            at = np.flatnonzero(numbers == number) if len(present) > 1 else np.arange(numbers.size)
            if is_lanes and record.is_write and earlier.is_write and earlier.span == record.span:
                continue  # all lanes store one value in one place
            if is_lanes:
                at = at[(lanes[at] != by[at]) & (lanes[at] != WHOLE) & (by[at] != WHOLE)]
            pairs = np.unique(lanes[at].astype(np.int64) << 6 | by[at])
            for pair in pairs.tolist():
                lane, mine = pair >> 6, pair & 63
                if self._is_fine(earlier, lane, record, mine, clock):
                    continue
                these = at[(lanes[at] == lane) & (by[at] == mine)]
                self._report(earlier, record, clock, int(where[these[0]]), these.size, lane, mine)

    def _is_fine(self, earlier: Record, lane: int, later: Record, by: int, clock: Clock) -> bool:
        """Say whether `later` may do what it does after `earlier` (of `lane`): order, and proxies."""
        if later.is_operation and earlier.agent == later.agent:
            return True
        if not (_is_own(earlier, lane, later, by) or earlier.is_over_for(clock.seen, lane)):
            return self._is_excused(earlier, later, clock)
        if later.space == "tmem" and self.wants_fences:
            self._look_for_fences(earlier, later, clock)
        if earlier.proxy == "generic" and later.proxy == "async":
            carried = clock.shared if later.space == "shared" else clock.global_
            is_exempt = earlier.is_slot or not (earlier.is_write or later.is_write)
            return is_exempt or earlier.is_over_for(carried, lane)
        if later.proxy == "tensormap" and earlier.proxy == "generic" and earlier.is_write:
            return earlier.is_over_for(clock.acquired_maps, lane)
        return True

    def _look_for_fences(self, earlier: Record, later: Record, clock: Clock) -> None:
        """Report a pair that is ordered, but not through the fences that the canonical patterns ask for."""
        pair = (earlier.work.role, later.work.role)
        is_pipelined = pair in PIPELINED
        if earlier.warp == later.warp and (is_pipelined or pair[0] in ("ld", "st")):
            return
        reaches = earlier.is_issued_for if is_pipelined else earlier.is_over_for
        if reaches(clock.after):
            return
        is_sent = reaches(clock.before)
        if not is_sent:
            self.sink(Conflict(earlier, later, "fence_before", 0, later.home, 0, clock))
        if is_sent or not reaches(clock.fenced):
            self.sink(Conflict(earlier, later, "fence_after", 0, later.home, 0, clock))

    def _is_excused(self, earlier: Record, later: Record, clock: Clock) -> bool:
        """Say whether an unordered pair is no conflict: both strong, or a pipelined pair of tcgen05."""
        if earlier.order.is_strong and later.order.is_strong:
            return True
        pair = (earlier.work.role, later.work.role)
        if pair in PIPELINED and earlier.work.cta_group == later.work.cta_group:
            if not earlier.is_issued_for(clock.seen):
                return False
            if pair == ("mma", "mma") and not is_same_accumulator(earlier, later):
                return False
            if self.wants_fences:
                self._look_for_fences(earlier, later, clock)
            self._follow(earlier, later)
            return True
        is_reducing = earlier.work.role == later.work.role == "reduce" or (
            earlier.is_atomic and later.work.role == "reduce"
        )
        return is_reducing and later.space == "global"

    def _follow(self, earlier: Record, later: Record) -> None:
        """Let commits behind `later` speak for `earlier` too, which another thread issued and which is over
        first.
        """
        if earlier.component == later.component:
            return
        self.followed[earlier.agent.operation] = later.agent.operation
        known = joined(earlier.clock.seen, {earlier.component: earlier.value})
        self._inherited[later.component] = joined(self._inherited.get(later.component, NOTHING), known)

    def _keep(self, record: Record, clock: Clock, where: Any, by: Any, shadow: Shadow) -> frozenset[int]:
        """Return the readers that a read is not ordered behind, so that both must be remembered."""
        out: set[int] = set()
        for column in (shadow.reader[where],):
            first = int(column[0])
            for number in [first] if (column == first).all() else np.unique(column).tolist():
                if (
                    number
                    and number != record.number
                    and not self._covers(record, clock, self.records[number])
                ):
                    out.add(number)
        more = shadow.more[where]
        if more.any():
            for number in np.unique(more).tolist():
                out |= {r for r, _ in shadow.sets[number] if not self._covers(record, clock, self.records[r])}
        if record.is_by_lane and record.number in set(np.unique(shadow.reader[where]).tolist()):
            out.add(record.number)
        return frozenset(out)

    @staticmethod
    def _covers(record: Record, clock: Clock, earlier: Record) -> bool:
        """Say whether who is ordered behind `record` is behind `earlier` too, for every purpose."""
        if earlier.proxy != record.proxy:
            return False
        if earlier.warp == record.warp and not earlier.is_operation and not record.is_operation:
            return earlier.lanes == record.lanes
        return earlier.is_over_for(clock.seen)

    def _report(
        self, earlier: Record, later: Record, clock: Clock, first: int, count: int, lane: int, by: int
    ) -> None:
        is_own = _is_own(earlier, lane, later, by)
        why: Why = "proxy" if is_own or earlier.is_over_for(clock.seen, lane) else "unordered"
        self.disputed |= {earlier.span, later.span}
        if why == "unordered" and is_reversed(earlier, later, earlier.clock, clock, (lane, by)):
            earlier, later, lane, by, clock = later, earlier, by, lane, earlier.clock
        self.sink(Conflict(earlier, later, why, first, later.home, count, clock, lane, by))

    # strong accesses

    def _strong(self, warp: WarpClocks, event: Access, place: Place, where: Any, by: Any) -> None:
        """Let a strong write publish what its lane has released, and a strong read take it in."""
        warp.has_strong = True
        step = event.size
        for k, lane in enumerate(event.lanes):
            key = (place, int(where[k * step]))
            if event.is_write:
                self._publish(warp, event, key, lane)
            else:
                self._take(warp, event.order, key, lane)
        if event.is_write and event.order.sem in ("release", "acq_rel", "sc"):
            warp.time += 1

    def _publish(self, warp: WarpClocks, event: Access, key: tuple[Place, int], lane: int) -> None:
        order = event.order
        is_release = order.sem in ("release", "acq_rel", "sc")
        if is_release:
            message = warp.message((lane,))
        else:
            message = (warp.near_fences if order.scope == "cta" else warp.fences)[lane]
        wide, near = self._words.get(key, (EMPTY, {}))
        if not event.is_atomic:
            wide, near = EMPTY, {}
        if order.scope == "cta":
            near = {**near, event.agent.cta: near.get(event.agent.cta, EMPTY).join(message)}
        else:
            wide = wide.join(message)
        self._words[key] = (wide, near)

    def _take(self, warp: WarpClocks, order: Order, key: tuple[Place, int], lane: int) -> None:
        found = self._words.get(key)
        if found is None:
            return
        wide, near = found
        message = wide.join(near.get(warp.agent.cta, EMPTY))
        if order.sem in ("acquire", "acq_rel", "sc"):
            warp.clocks[lane] = warp.clocks[lane].join(message)
        else:
            warp.pending[lane] = warp.pending[lane].join(message)
            sent = Clock(message.before, message.before, NOTHING, NOTHING, NOTHING, message.before)
            warp.clocks[lane] = warp.clocks[lane].join(sent)

    # life of Tensor Memory

    def _allocated(self, event: TmemAllocated) -> None:
        """Forget what was in columns when they are given away again; at the dealloc it is judged."""
        shadow = self._shadow(("tmem", event.sm), 1)
        cols = np.arange(event.column, event.column + event.num_cols)
        where = (np.arange(NUM_LANES)[:, None] * NUM_COLS + cols).reshape(-1)
        if event.is_free and self.freed is not None:
            self.freed(event, where, shadow, self.warps[event.agent.cta, event.agent.warp])
        if not event.is_free:
            shadow.clear(where)


def _is_own(earlier: Record, lane: int, later: Record, by: int) -> bool:
    """Say whether both are one thread's own accesses (or a whole warp's), in its program order."""
    if earlier.warp != later.warp or not earlier.is_threads:
        return False
    return lane == by and (lane != WHOLE or not later.is_operation)


def is_same_accumulator(earlier: Record, later: Record) -> bool:
    """Say whether two mma have one accumulator, shape and kind, so that they keep their order."""
    a, b = earlier.work, later.work
    return (a.accumulator, a.shape[:2], a.kind) == (b.accumulator, b.shape[:2], b.kind)


def _spread(first: Any, size: int) -> Any:
    """Return the indices of `size` places from each of `first`."""
    if size == 1:
        return first
    return (first[:, None] + np.arange(size)).reshape(-1)


def _shared_fence(clock: Clock, known: Known, space: str) -> Clock:
    shared = joined(clock.shared, known) if space in ("", "shared") else clock.shared
    far = joined(clock.global_, known) if space in ("", "global") else clock.global_
    return Clock(clock.seen, clock.control, shared, far, clock.maps, clock.before, clock.after)


def _map_release(clock: Clock, known: Known, space: str) -> Clock:
    maps = joined(clock.maps, known)
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, maps, clock.before, clock.after)


def _map_acquire(clock: Clock, known: Known, space: str) -> Clock:
    maps = joined(clock.maps, {-key: value for key, value in clock.maps.items() if key > 0})
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, maps, clock.before, clock.after)


def _before(clock: Clock, known: Known) -> Clock:
    """Send on what the thread itself has done, `known`; what others did they send on themselves."""
    before = joined(clock.before, known)
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, clock.maps, before, clock.after)


def _after(clock: Clock, known: Known, space: str) -> Clock:
    after = joined(clock.after, clock.before)
    after = joined(after, {FENCED + c: value for c, value in clock.seen.items() if c > 0})
    return Clock(clock.seen, clock.control, clock.shared, clock.global_, clock.maps, clock.before, after)


_FENCES: dict[str, Callable[[Clock, Known, str], Clock]] = {
    "proxy.async": _shared_fence,
    "tensormap.release": _map_release,
    "tensormap.acquire": _map_acquire,
    "tcgen05.after": _after,
}
