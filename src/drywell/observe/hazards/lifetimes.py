"""Who may not be there any more, or not yet: operations left pending at an exit, and CTAs that are touched
before they have started or after they may have exited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from drywell.base.diagnostic import Edit, Severity
from drywell.base.events import (
    Access,
    Agent,
    BarrierChanged,
    CtaExited,
    CtaStarted,
    Event,
    Issued,
    LanesExited,
    Passed,
    RegistersMoved,
    Retired,
    Stuck,
    Sync,
)
from drywell.base.span import Span
from drywell.observe.hazards.agents import Operation
from drywell.observe.hazards.barriers import Barriers
from drywell.observe.hazards.clock import LANES, NOTHING, Known, joined
from drywell.observe.hazards.lives import Life, Touch
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.repairs import CLUSTER_BARRIER, READ_WAIT, behind, meeting
from drywell.observe.hazards.report import Findings

LARGEST: Final = 256
_LOADS: Final = ("load", "copy", "try_cancel")
Thread = tuple[int, int, int]


@dataclass(slots=True)
class CtaLife:
    """One CTA: the components of its warps, what its threads knew when they exited, and what other CTAs did
    in its shared memory: threads by warp and line, operations by number.
    """

    components: range = range(0)
    known: Known = field(default_factory=lambda: NOTHING)
    touched: dict[tuple[int, Span], Touch] = field(default_factory=dict)
    operations: dict[int, Span] = field(default_factory=dict)
    signals: list[tuple[Life, int, Agent, Span]] = field(default_factory=list)


class Lifetimes:
    """Watches exits, the groups of bulk copies, and accesses to other CTAs."""

    def __init__(self, happens: Happens, findings: Findings, barriers: Barriers) -> None:
        self.happens = happens
        self.findings = findings
        self.barriers = barriers
        self.ctas: dict[int, CtaLife] = {}
        self.num_exited = 0
        self._unwaited: dict[Thread, dict[int, Span]] = {}
        self._tmem: dict[tuple[int, int], dict[int, Span]] = {}
        self._has_stored: set[Thread] = set()
        self._own_waits: dict[Thread, Span] = {}
        self._idle_waits: list[tuple[Agent, tuple[int, ...], Span]] = []
        self._loads: dict[int, list[tuple[Life, int]]] = {}
        self._sources: dict[tuple[Sync, int], set[int]] = {}
        self._met: set[tuple[int, int, int]] = set()
        self._registers: dict[tuple[int, int], tuple[int, Span]] = {}

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case Access():
                if event.space == "shared" and event.home != event.agent.cta:
                    self._far(event.agent, event.home, event.lanes, event.span)
            case BarrierChanged():
                self._changed(event)
            case Issued():
                self._issued(event)
            case Retired():
                self._retired(event)
            case Passed():
                self._passed(event)
            case LanesExited():
                self._exited(event)
            case RegistersMoved():
                self._registers[event.agent.cta, event.agent.warp] = event.count, event.span
            case Stuck() if event.sync.kind == "registers":
                self._out_of_registers(event)
            case CtaStarted():
                self.ctas[event.cta] = CtaLife()
            case CtaExited():
                self.num_exited += 1
                self._cta_exited(event.cta)

    def finish(self) -> None:
        """Report copies into shared memory whose end nobody has seen, once every CTA has exited."""
        if self.num_exited < len(self.ctas):
            return
        for number, signals in self._loads.items():
            op = self.happens.operations[number]
            for life, phase in signals:
                if life.last_seen < phase and self.barriers.lives.get(life.sync) is life:
                    self._pending(
                        op.agent,
                        op.lanes,
                        op.span,
                        f"{op.what} may land in shared memory of CTA {life.sync.cta} after it has exited:"
                        f" nobody waits for phase {phase} of {self.barriers.name(life)}",
                        "wait for the phase before the CTA exits, or do not issue the copy",
                    )

    # operations of a thread

    def _issued(self, event: Issued) -> None:
        agent, role = event.agent, event.work.role
        if role in ("store", "reduce") and not event.work.kind and event.unit in ("tma", "bulk"):
            for lane in event.lanes:
                thread = (agent.cta, agent.warp, lane)
                self._has_stored.add(thread)
                self._own_waits.pop(thread, None)
                self._unwaited.setdefault(thread, {})[agent.operation] = event.span
        elif event.unit in ("tmem_ld", "tmem_st"):
            self._tmem.setdefault((agent.cta, agent.warp), {})[agent.operation] = event.span
            self._check_registers(event)
        elif role in _LOADS and event.unit in ("tma", "bulk", "clc"):
            self._loads[agent.operation] = []

    def _check_registers(self, event: Issued) -> None:
        """Warn of one instruction that names more registers than its warp has left."""
        agent = event.agent
        have, at = self._registers.get((agent.cta, agent.warp), (LARGEST, event.span))
        if event.work.registers > have:
            self.findings.report(
                "SETMAXNREG",
                f"tcgen05.{event.what} names {event.work.registers} registers in each lane, but warp"
                f" {agent.warp} has kept {have}",
                event.span,
                cta=agent.cta,
                warp=agent.warp,
                other=at,
                hint=f"keep more registers at line {at.line}, or load fewer cells at once",
                severity=Severity.WARNING,
                is_silent_at_hw=True,
            )

    def _out_of_registers(self, event: Stuck) -> None:
        """Report a warp that waits for registers that nobody gives up."""
        agent = event.agent
        self.findings.report(
            "SETMAXNREG",
            f"warp {agent.warp} waits for more registers than the CTA's pool holds, and no warp gives any up",
            event.span,
            cta=agent.cta,
            warp=agent.warp,
            lanes=event.lanes,
            hint="let other warps of the CTA setmaxnreg.dec first, by as many registers as are asked for",
        )

    def _retired(self, event: Retired) -> None:
        agent = event.agent
        self._note_wait(event)
        if not event.operations:
            lanes = tuple(k for k in event.lanes if (agent.cta, agent.warp, k) not in self._has_stored)
            if lanes:
                self._idle_waits.append((agent, lanes, event.span))
            return
        tmem = self._tmem.get((agent.cta, agent.warp), {})
        for number in event.operations:
            tmem.pop(number, None)
            for lane in self.happens.operations[number].lanes:
                self._unwaited.get((agent.cta, agent.warp, lane), {}).pop(number, None)

    def _note_wait(self, event: Retired) -> None:
        """Take note of the threads that wait for their own bulk groups."""
        units = {self.happens.operations[number].unit for number in event.operations}
        if event.is_register or not units <= {"tma", "bulk"}:
            return
        for lane in event.lanes:
            thread = (event.agent.cta, event.agent.warp, lane)
            if thread in self._has_stored:
                self._own_waits[thread] = event.span

    def _exited(self, event: LanesExited) -> None:
        agent = event.agent
        warp = self.happens.warp_of(agent)
        for lane in event.lanes:
            for span in self._unwaited.pop((agent.cta, agent.warp, lane), {}).values():
                self._left_store(agent, lane, span)
        if len(event.lanes) == len(warp.live):
            for span in self._tmem.pop((agent.cta, agent.warp), {}).values():
                self._pending(
                    agent,
                    event.lanes,
                    span,
                    "a load or store of Tensor Memory that its warp has not waited for when it exits",
                    "tcgen05.wait::ld or ::st before the warp exits",
                    Severity.WARNING,
                )
        home = self.ctas[agent.cta]
        home.known = joined(home.known, warp.message(event.lanes).control)

    def _left_store(self, agent: Agent, lane: int, span: Span) -> None:
        """Report a bulk store that its thread has not waited for when it exits; who waited instead is to
        blame.
        """
        own = self._own_waits.get((agent.cta, agent.warp, lane))
        wait = behind(span, READ_WAIT, is_guarded=True)
        if own is not None:
            self._pending(
                agent,
                (lane,),
                span,
                f"the wait at line {own.line} leaves out a bulk store that may still be reading shared memory"
                " when its thread exits",
                "cp.async.bulk.commit_group behind the copy, then cp.async.bulk.wait_group.read 0",
                edits=(wait,),
            )
            return
        for waiter, lanes, at in self._idle_waits:
            if waiter.cta == agent.cta:
                self.findings.report(
                    "BULK-WAIT-WRONG-THREAD",
                    f"warp {waiter.warp} waits for its bulk groups, but has none: the copy was issued by lane"
                    f" {lane} of warp {agent.warp} at line {span.line}, which waits for none",
                    at,
                    cta=waiter.cta,
                    warp=waiter.warp,
                    lanes=lanes,
                    other=span,
                    hint=f"let the thread that executes line {span.line} wait itself (keep what elect.sync"
                    " gave)",
                )
                return
        self._pending(
            agent,
            (lane,),
            span,
            "a bulk store may still be reading shared memory when its thread exits",
            "cp.async.bulk.commit_group behind it, and cp.async.bulk.wait_group.read 0 before the exit",
            edits=(wait,),
        )

    def _pending(
        self,
        agent: Agent,
        lanes: tuple[int, ...],
        span: Span,
        message: str,
        hint: str,
        severity: Severity | None = None,
        edits: tuple[Edit, ...] = (),
    ) -> None:
        self.findings.report(
            "EXIT-WITH-PENDING",
            message,
            span,
            cta=agent.cta,
            warp=agent.warp,
            lanes=lanes,
            hint=hint,
            severity=severity,
            is_silent_at_hw=severity is Severity.WARNING,
            edits=edits,
            operations=(span,),
        )

    # other CTAs

    def _changed(self, event: BarrierChanged) -> None:
        agent, number = event.agent, event.agent.operation
        sync = Sync("mbarrier", event.home, event.offset)
        life = self.barriers.lives.get(sync)
        if number and number in self._loads and life is not None:
            self._loads[number].append((life, event.round))
        if number:
            self._sources.setdefault((sync, event.round), set()).add(agent.cta)
            self._sources.pop((sync, event.round - 4), None)
        if event.home == agent.cta:
            return
        self._check_started(agent, event.home, event.lanes, event.span)
        if not number:
            self._touch(agent, event.home, event.lanes, event.span)
        elif life is not None:
            self.ctas[event.home].signals.append((life, event.round, agent, event.span))

    def _passed(self, event: Passed) -> None:
        """Take note that a warp has seen operations of other CTAs: these have started."""
        for cta in self._sources.get((event.sync, event.round), ()):
            self._met.add((event.agent.cta, event.agent.warp, cta))

    def _far(self, agent: Agent, home: int, lanes: tuple[int, ...], span: Span) -> None:
        """Take note of an access to another CTA's shared memory."""
        self._check_started(agent, home, lanes, span)
        if agent.operation:
            self.ctas[home].operations.setdefault(agent.operation, span)
        else:
            self._touch(agent, home, lanes, span)

    def _touch(self, agent: Agent, home: int, lanes: tuple[int, ...], span: Span) -> None:
        warp = self.happens.warp_of(agent)
        who = lanes or tuple(sorted(warp.live))
        self.ctas[home].touched[warp.base, span] = Touch(warp, warp.time, who, span)

    def _check_started(self, agent: Agent, home: int, lanes: tuple[int, ...], span: Span) -> None:
        """Report an access to a CTA of which its thread has heard nothing."""
        key = (agent.cta, agent.warp, home)
        if key in self._met:
            return
        self._met.add(key)
        warp = self.happens.warp_of(agent)
        if agent.operation:
            control = self.happens.operations[agent.operation].clock.control
        else:
            control = warp.known(lanes or tuple(sorted(warp.live))).control
        theirs = self._components(home)
        if any(component in theirs for component in control):
            return
        self.findings.report(
            "PEER-NOT-STARTED",
            f"shared memory of CTA {home} is touched by warp {agent.warp} of CTA {agent.cta}, which nothing"
            " has told that it has started",
            span,
            cta=agent.cta,
            warp=agent.warp,
            lanes=lanes,
            hint="barrier.cluster.arrive and barrier.cluster.wait before the first access to another CTA",
            edits=(meeting(span, CLUSTER_BARRIER),),
        )

    def _components(self, cta: int) -> range:
        """Return the components of a CTA's warps and lanes, which follow each other."""
        life = self.ctas[cta]
        if not life.components:
            bases = [w.base for (c, _), w in self.happens.warps.items() if c == cta]
            life.components = range(min(bases), max(bases) + 1 + LANES)
        return life.components

    def _cta_exited(self, cta: int) -> None:
        """Report what other CTAs did in a CTA's shared memory that it did not know to be over at its
        exit.
        """
        life = self.ctas[cta]
        for touch in life.touched.values():
            if not touch.is_known(life.known):
                self._exit_early(cta, touch.warp.agent, touch.lanes, touch.span)
        for number, span in life.operations.items():
            op = self.happens.operations[number]
            if not self._is_over(op, cta, life.known):
                self._exit_early(cta, op.agent, op.lanes, span)
        for barrier, phase, agent, span in life.signals:
            op = self.happens.operations[agent.operation]
            if barrier.last_seen < phase and not self._is_carried(op, life.known):
                self._exit_early(cta, agent, op.lanes, span)
        life.touched, life.operations, life.signals = {}, {}, []

    @staticmethod
    def _is_over(op: Operation, cta: int, known: Known) -> bool:
        """Say whether an operation's accesses to a CTA's shared memory are known to be over."""
        records = [r for ((space, home), *_), r in op.records.items() if space == "shared" and home == cta]
        return all(record.component and record.is_over_for(known) for record in records)

    @staticmethod
    def _is_carried(op: Operation, known: Known) -> bool:
        """Say whether all that the arrive of a commit stands for is known to be over."""
        carried = op.carries.seen
        return bool(carried) and all(known.get(key, 0) >= value for key, value in carried.items())

    def _exit_early(self, cta: int, agent: Agent, lanes: tuple[int, ...], span: Span) -> None:
        self.findings.report(
            "PEER-EXIT-EARLY",
            f"shared memory of CTA {cta} is touched by warp {agent.warp} of CTA {agent.cta}, and CTA {cta}"
            " can have exited by then: nothing it waits for follows the access",
            span,
            cta=agent.cta,
            warp=agent.warp,
            lanes=lanes,
            hint="let both CTAs meet at the cluster barrier before they exit",
            operations=(span,),
        )
