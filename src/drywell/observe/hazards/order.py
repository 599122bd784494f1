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
from dataclasses import replace
from typing import Any

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
    Passed,
    Retired,
    Sync,
    TmemAllocated,
)
from drywell.layout.tmem import NUM_COLS, NUM_LANES
from drywell.machine.mbarrier import WORD_BYTES
from drywell.machine.windows import GLOBAL_BASE, OFFSET_MASK
from drywell.observe.hazards.agents import Conflict, Operation, Place, WarpClocks
from drywell.observe.hazards.clock import EMPTY, LANES, NOTHING, Clock, Known, joined
from drywell.observe.hazards.fences import FENCES, before
from drywell.observe.hazards.judge import Judge
from drywell.observe.hazards.record import Record
from drywell.observe.hazards.shadow import WHOLE, Shadow
from drywell.observe.hazards.words import Words

_KEPT_USES = 4
_PIPE_ROLES = ("mma", "cp", "shift")


class Happens:
    """An observer that orders events; each Conflict goes to `sink`, through its `judge`.

    With `counts_registers` reading a register of a tcgen05.ld orders that load. `moment` counts events.
    """

    def __init__(self, sink: Callable[[Conflict], None]) -> None:
        self.judge = Judge(sink)
        self.counts_registers = True
        self.warps: dict[tuple[int, int], WarpClocks] = {}
        self.operations: dict[int, Operation] = {}
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
        self._words = Words()
        self._recent: dict[Any, Record] = {}
        self.moment = 0
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

    def commits_of(self, op: Operation) -> int:
        """Return the component of the arrivals of a thread's commits, which come in their order."""
        return self.component(("commits", op.warp.base, op.lanes[0]))

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
        lives, each of which begins and ends with a write of its word.
        """
        sync = Sync("mbarrier", event.home, event.offset)
        if event.what in ("init", "inval"):
            self._access(_word(event))
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
            inherited = self.judge.inherited.get(pipe, NOTHING)
            clock = op.carries.knowing({**inherited, self.commits_of(op): op.number})
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
        act = FENCES.get(event.kind)
        if event.kind == "tcgen05.before":
            warp.change(event.lanes, lambda clock: before(clock, joined(self._own_work(warp, clock), own)))
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
            self.judge.judge(record, op.clock, where, by, shadow, event)
            return
        warp = self.warps[event.agent.cta, event.agent.warp]
        record = self._thread_record(warp, event)
        if event.order.is_strong:
            self._words.touch(warp, event, place, where, by)
        for clock, part in self._by_clock(warp, by):
            if part is None:
                self.judge.judge(record, clock, where, by, shadow, event)
            else:
                self.judge.judge(record, clock, where[part], by[part], shadow, event)

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
                len(self.judge.records),
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
            self.judge.records.append(record)
        return record

    def _operation_record(self, op: Operation, event: Access, place: Place) -> Record:
        key = (place, event.is_write, event.layout, event.proxy)
        record = op.records.get(key)
        if record is None:
            component, value, is_by_lane = self._ends(op, event)
            record = op.records[key] = Record(
                len(self.judge.records),
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
            self.judge.records.append(record)
        return record

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


def _word(event: BarrierChanged) -> Access:
    """Return the write of the word, through the generic proxy, that an init or an inval of an mbarrier is."""
    lanes = event.lanes
    words = (event.offset,) * len(lanes)
    return Access(event.agent, "shared", words, WORD_BYTES, True, "generic", lanes, event.span, event.home)


def _spread(first: Any, size: int) -> Any:
    """Return the indices of `size` places from each of `first`."""
    if size == 1:
        return first
    return (first[:, None] + np.arange(size)).reshape(-1)
