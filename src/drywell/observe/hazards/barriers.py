"""Rules about the life and the phases of mbarriers: who may use one, and whether a waiter can miss a
phase.

A parity tells only the phase that is open from the one before it. So a phase must not end before
everybody who waits for the phase before has seen that end; whether it can is read off the clocks,
whatever happened in this run. Source: PTX ISA 9.7.13.15.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from drywell.base.diagnostic import Place, Severity
from drywell.base.events import (
    Access,
    Agent,
    Arrived,
    BarrierChanged,
    Event,
    Fenced,
    Issued,
    Passed,
    Sync,
)
from drywell.base.span import Span
from drywell.machine.windows import OFFSET_MASK
from drywell.observe.hazards.clock import NOTHING, Known, joined
from drywell.observe.hazards.lives import ARRIVALS, Life, Share, Touch
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.repairs import INIT_FENCE, behind, meeting
from drywell.observe.hazards.report import Findings

WORD_BYTES: Final = 8


class Barriers:
    """Follows every mbarrier and reports misuse of its life and its phases.

    It looks at an event before the clocks take it in: at what a thread knew when it acted.
    """

    def __init__(self, happens: Happens, findings: Findings) -> None:
        self.happens = happens
        self.findings = findings
        self.lives: dict[Sync, Life] = {}
        self.ended: list[Life] = []
        self._bounds: dict[int, tuple[int, int]] = {}
        self._executed: dict[int, Known] = {}
        self._at_issue: dict[int, Known] = {}
        self._messages: dict[tuple[Sync, int], Known] = {}

    def on(self, event: Event) -> None:
        """Take note of one event."""
        if isinstance(event, Access):
            if event.space == "shared" and event.home in self._bounds:
                self._raw_access(event)
        elif isinstance(event, BarrierChanged):
            self._changed(event)
        elif isinstance(event, Passed):
            life = self.lives.get(event.sync)
            if life is not None:
                self._passed(life, event)
            elif event.sync.kind != "mbarrier":
                self._learn(event.agent, self._messages.get((event.sync, event.round), NOTHING))
        elif isinstance(event, Arrived):
            self._tell(event)
        elif isinstance(event, Issued):
            executed = self._executed.get(self.happens.warp_of(event.agent).base)
            if executed:
                self._at_issue[event.agent.operation] = executed
        elif isinstance(event, Fenced):
            self._fenced(event)

    def finish(self) -> None:
        """Report bytes that are expected only behind the arrive that ends the phase."""
        for life in (*self.ended, *self.lives.values()):
            for touch, event in life.expects:
                if life.arrived_in.get(touch.warp.base, -2) == event.round - 1:
                    self._expect_late(life, touch)

    # what must have been executed

    def _learn(self, agent: Agent, executed: Known) -> None:
        if executed:
            base = self.happens.warp_of(agent).base
            self._executed[base] = joined(self._executed.get(base, NOTHING), executed)

    def _tell(self, event: Arrived) -> None:
        """Let the arrival of a warp tell what it knows to have been executed."""
        executed = self._executed.get(self.happens.warp_of(event.agent).base)
        if executed:
            key = (event.sync, event.round)
            self._messages[key] = joined(self._messages.get(key, NOTHING), executed)
            self._messages.pop((event.sync, event.round - 4), None)

    # life

    def _changed(self, event: BarrierChanged) -> None:
        sync = Sync("mbarrier", event.home, event.offset)
        life = self.lives.get(sync)
        if event.what == "init":
            self._init(sync, life, event)
        elif life is not None:
            life.pending, life.tx_bytes = event.pending, event.tx_bytes
            if event.what == "inval":
                self._inval(life, event)
            else:
                self._used(life, event)

    def _init(self, sync: Sync, life: Life | None, event: BarrierChanged) -> None:
        touch = self._touch(event.agent, event.lanes, event.span)
        if life is not None:
            self.ended.append(life)
            before = life.init
            is_together = (before.warp, before.time, before.span) == (touch.warp, touch.time, touch.span)
            is_together = is_together and not set(before.lanes) & set(touch.lanes)
            self._found(
                life,
                "MBAR-REINIT",
                f"{self.name(life)} is initialised by several lanes where one is meant"
                if is_together
                else f"{self.name(life)} is initialised again while it is live: who waits on it loses its"
                " phase",
                touch,
                before.span,
                "mbarrier.inval it first, or keep the init out of the loop"
                if not is_together
                else "let one lane initialise it",
                severity=Severity.WARNING if is_together else None,
                is_silent_at_hw=is_together,
            )
            if is_together:
                touch = Touch(touch.warp, touch.time, (*before.lanes, *touch.lanes), touch.span)
        self.lives[sync] = Life(sync, touch, pending=event.pending)
        low, high = self._bounds.get(sync.cta, (sync.number, sync.number))
        self._bounds[sync.cta] = min(low, sync.number), max(high, sync.number + WORD_BYTES)

    def _inval(self, life: Life, event: BarrierChanged) -> None:
        """End a life; everything else done to the barrier must be known to be over."""
        touch = self._touch(event.agent, event.lanes, event.span)
        share = self.share(event.agent, touch)
        del self.lives[life.sync]
        self.ended.append(life)
        late = [(use.who, use.span) for use in life.uses.values() if not share.knows(use)]
        late += [
            (f"the arrive of the tcgen05.commit of line {op.span.line}", op.span)
            for component, op in life.commits.items()
            if share.known.get(component, 0) < op.number
        ]
        who, other = late[0] if late else ("", life.init.span)
        why = f"nothing orders it behind {who}" if late else ""
        if event.tx_bytes:
            why = f"{abs(event.tx_bytes)} bytes of its phase {life.phase} are still to come"
        if why:
            self._found(
                life,
                "MBAR-REINIT",
                f"{self.name(life)} is invalidated while it is in use: {why}",
                touch,
                other,
                "wait for its last phase, and put a barrier of the CTA between the last wait and the inval",
            )

    def _fenced(self, event: Fenced) -> None:
        is_wide = event.kind == "memory" and event.order.scope != "cta"
        if not is_wide and event.kind != "mbarrier_init":
            return
        warp = self.happens.warp_of(event.agent)
        for life in self.lives.values():
            init = life.init
            if init.warp is warp and not life.fenced_at and set(init.lanes) <= set(event.lanes):
                life.fenced_at = warp.time + 1

    def _raw_access(self, event: Access) -> None:
        """Report an ordinary access to the bytes of a live mbarrier."""
        first = np.asarray(event.addresses, np.int64) & OFFSET_MASK
        low, high = self._bounds[event.home]
        if int(first.max()) + event.size <= low or int(first.min()) >= high:
            return
        for sync, life in self.lives.items():
            if sync.cta != event.home:
                continue
            hit = (first < sync.number + WORD_BYTES) & (first + event.size > sync.number)
            if hit.any():
                verb = "writes" if event.is_write else "reads"
                touch = self._touch(event.agent, event.lanes, event.span)
                self._found(
                    life,
                    "MBAR-RAWACCESS",
                    f"an access of {event.size} bytes {verb} {self.name(life)}, which is live: its word is"
                    " opaque, and memory need not show it",
                    touch,
                    life.init.span,
                    "move the data off the barrier, or mbarrier.inval it first",
                )

    # use

    def _used(self, life: Life, event: BarrierChanged) -> None:
        """Follow a change of a live mbarrier within its phase."""
        touch = self._touch(event.agent, event.lanes, event.span)
        self._check_init(life, event.agent, touch)
        life.entries.append(event)
        if event.what in ("expect", "arrive.expect", "complete"):
            number = event.agent.operation
            issued = self.happens.operations[number].moment if number else self.happens.moment
            life.bytes.append((issued, event))
        share = self.share(event.agent, touch)
        key = (share.warp.base, share.time, id(share.known))
        if event.what in ARRIVALS:
            life.arrivers.add(event.agent.cta)
        if event.what in ARRIVALS and key not in life.shares:
            life.shares[key] = share
            self._skipped(life, share, event)
        elif event.what not in ARRIVALS:
            life.others.setdefault(key, share)
        if event.what in ARRIVALS and not event.agent.operation:
            life.arrived_in[share.warp.base] = event.round
            life.expects = [e for e in life.expects if not share.knows(e[0])]
        if event.what in ARRIVALS and event.agent.operation:
            op = self.happens.operations[event.agent.operation]
            if op.work.role == "commit":
                life.commits[self.happens.commits_of(op)] = op
        if event.what == "complete":
            life.completes.append((event, share.warp, share.time))
        if event.what == "expect":
            life.expects.append((touch, event))
        if not event.agent.operation:
            life.uses[touch.warp.base] = touch
        if event.phase > event.round:
            self._phase_over(life, event.round)

    def share(self, agent: Agent, touch: Touch) -> Share:
        """Return what an agent knows now; an operation, what its issuer knew."""
        if agent.operation:
            op = self.happens.operations[agent.operation]
            executed = self._at_issue.get(agent.operation, NOTHING)
            return Share(op.clock.control, executed, op.warp, op.time, touch.span, True)
        warp = touch.warp
        known = warp.known(touch.lanes).control
        return Share(known, self._executed.get(warp.base, NOTHING), warp, touch.time, touch.span)

    def _check_init(self, life: Life, agent: Agent, touch: Touch) -> None:
        """Report a use that the init is not ordered before, or not with what another CTA asks for."""
        if agent.operation:
            op = self.happens.operations[agent.operation]
            if (op.warp.base, op.lanes[0]) not in life.is_fine_for:
                life.is_fine_for.add((op.warp.base, op.lanes[0]))
                self._judge_init(life, agent, op.clock.seen, op.clock.control, touch)
            return
        for lane in touch.lanes:
            if (touch.warp.base, lane) in life.is_fine_for:
                continue
            life.is_fine_for.add((touch.warp.base, lane))
            if touch.warp is not life.init.warp or lane not in life.init.lanes:
                clock = touch.warp.clocks[lane]
                self._judge_init(life, agent, clock.seen, clock.control, touch)

    def _judge_init(self, life: Life, agent: Agent, seen: Known, control: Known, touch: Touch) -> None:
        init = life.init
        fence = Touch(init.warp, life.fenced_at, init.lanes, init.span)
        if life.fenced_at and fence.is_known(control):
            return
        is_far, is_ordered = agent.cta != life.sync.cta, init.is_known(seen)
        if is_ordered and not is_far:
            return
        what = "an operation issued at" if agent.operation else "a thread at"
        carry = behind(init.span, INIT_FENCE)
        if is_far and (is_ordered or init.is_known(control)):
            self._found(
                life,
                "MBAR-INIT-FENCE",
                f"{what} {touch.who} uses {self.name(life)} of CTA {life.sync.cta}, whose init nothing"
                " carries to other CTAs",
                touch,
                init.span,
                f"{carry}, before the barrier of the cluster",
                is_silent_at_hw=is_ordered,
                edits=(carry,),
            )
            return
        self._found(
            life,
            "MBAR-INIT-RACE",
            f"{what} {touch.who} uses {self.name(life)}, and nothing orders it behind the init",
            touch,
            init.span,
            "fence.mbarrier_init.release.cluster behind the init, then a barrier of the cluster for both"
            if is_far
            else f"put a barrier of the CTA between line {init.span.line} and line {touch.span.line}",
            edits=() if is_far else (meeting(touch.span),),
        )

    # phases

    def _passed(self, life: Life, event: Passed) -> None:
        """Take note that lanes saw the end of a phase; report one that they can have come to by luck."""
        touch = self._touch(event.agent, event.lanes, event.span)
        self._check_init(life, event.agent, touch)
        base, phase = touch.warp.base, event.round
        last = life.seen_by.get(base, -1)
        if phase > last + 1 and not life.is_known_before(self.share(event.agent, touch), phase):
            self._alias(
                life,
                touch,
                f"{touch.who} passes phase {phase} of {self.name(life)} after it had last seen"
                f" {_phase(last)}: its parity was meant for phase {last + 1}",
            )
        life.seen_by[base] = max(last, phase)
        life.uses[base] = touch
        self._learn(event.agent, life.ends.get(phase, NOTHING))
        life.passes.setdefault(phase, {}).setdefault(base, touch)

    def _phase_over(self, life: Life, phase: int) -> None:
        """Close a phase: it must not have been able to end before the waiters of the one before looked."""
        shares = (*life.shares.values(), *life.others.values())
        for touch in life.passes.get(phase - 1, {}).values():
            if not any(share.knows(touch) for share in shares):
                last = life.entries[-1]
                self._alias(
                    life,
                    touch,
                    f"{touch.who} waits for {_phase(phase - 1)} of {self.name(life)}, but nothing keeps"
                    f" phase {phase} (ended at line {last.span.line}) from ending first: then its parity"
                    " stands for another phase",
                    last.span,
                )
        if not life.has_bytes_first:
            for touch, _ in life.expects:
                self._expect_late(life, touch)
        told = NOTHING
        for share in shares:
            told = joined(told, share.executed)
            if share.is_operation:
                told = joined(told, share.known)
        life.ends[phase] = told
        life.ends.pop(phase - 2, None)
        life.before = tuple(life.shares.values())
        life.shares, life.others = {}, {}
        life.entries, life.expects, life.completes = [], [], []
        if phase > 1:  # who came by before the first phase is kept
            life.passes.pop(phase - 2, None)
        life.phase = phase + 1

    def _alias(self, life: Life, touch: Touch, message: str, other: Span | None = None) -> None:
        self._found(
            life,
            "MBAR-PHASE-ALIAS",
            message,
            touch,
            other or life.init.span,
            "let who fills the next phase wait until this thread has seen the one before (an empty barrier)",
        )

    def _skipped(self, life: Life, share: Share, event: BarrierChanged) -> None:
        """Report an arrival of a phase though nobody is known to have seen the end of the phase before."""
        if event.round < 1:
            return
        passes = life.passes.get(event.round - 1, {})
        if not any(share.knows(touch) for touch in passes.values()):
            self.findings.report(
                "MBAR-SKIPPED-PHASE",
                f"an arrive in phase {event.round} of {self.name(life)}, before which no thread is known to"
                f" have waited for phase {event.round - 1}",
                event.span,
                cta=event.agent.cta,
                warp=event.agent.warp,
                lanes=event.lanes,
                other=life.init.span,
                hint="count at the init all who arrive in one phase, or wait for a phase before arriving in"
                " the next",
            )

    def _expect_late(self, life: Life, touch: Touch) -> None:
        self._found(
            life,
            "EXPECT-TX-LATE",
            f"bytes are expected on {self.name(life)} behind the arrive: the phase can end without them",
            touch,
            life.init.span,
            "use mbarrier.arrive.expect_tx, or put expect_tx before the arrive",
        )

    # words

    def _touch(self, agent: Agent, lanes: Iterable[int], span: Span) -> Touch:
        warp = self.happens.warp_of(agent)
        return Touch(warp, warp.time, tuple(lanes) or tuple(sorted(warp.live)), span)

    def name(self, life: Life) -> str:
        """Name a barrier by its variable."""
        return self.findings.name_of("shared", life.sync.cta, life.sync.number)

    def _found(
        self, life: Life, rule: str, message: str, touch: Touch, other: Span, hint: str, **more: Any
    ) -> None:
        agent = touch.warp.agent
        self.findings.report(
            rule,
            message,
            touch.span,
            cta=agent.cta,
            warp=agent.warp,
            lanes=touch.lanes,
            other=other,
            hint=hint,
            place=Place("shared", self.name(life), WORD_BYTES),
            **more,
        )


def _phase(number: int) -> str:
    return f"phase {number}" if number >= 0 else "no phase"
