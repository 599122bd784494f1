"""The life of Tensor Memory: allocation, use of fresh cells, commits, and what is freed too early or
unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from drywell.base.diagnostic import Edit, Severity
from drywell.base.events import (
    Access,
    ColumnsMissing,
    CtaExited,
    CtaStarted,
    Event,
    Issued,
    RegisterOverwritten,
    Retired,
    Stuck,
    TmemAllocated,
)
from drywell.base.span import Span
from drywell.layout.tmem import NUM_COLS, NUM_LANES, PARTITION_LANES
from drywell.observe.hazards.agents import Operation, WarpClocks
from drywell.observe.hazards.clock import LANES, Clock
from drywell.observe.hazards.order import Happens
from drywell.observe.hazards.record import Record
from drywell.observe.hazards.repairs import BARRIER, CLUSTER_BARRIER, WAIT_LD, WAIT_ST, behind, meeting
from drywell.observe.hazards.report import Findings, party
from drywell.observe.hazards.shadow import Shadow

_TRACKED = ("mma", "cp", "shift")
_MEET_FIRST = "before the dealloc meet, at a barrier, every warp that has waited for its own accesses"
Pipe = tuple[int, int, int, int]


@dataclass(slots=True)
class Free:
    """A dealloc, which its warp with first component `warp` did at its `time`: the operations up to number
    `last` had been issued; `unread` is an mma whose result nobody has read and the report of that, unless
    some operation turns out not to be over (`is_early`).
    """

    event: TmemAllocated
    last: int
    warp: int
    time: int
    is_early: bool = False
    unread: tuple[Record, Callable[..., None]] | None = None


class TensorMemoryRules:
    """Watches allocations, operations on fresh cells and commits.

    It reads the shadow of `happens` at the moment columns are given back, and is told of each access by it.
    """

    def __init__(self, happens: Happens, findings: Findings) -> None:
        self.happens = happens
        self.findings = findings
        self._allocators: dict[tuple[int, int], tuple[int, Span]] = {}
        self._uncommitted: dict[Pipe, Operation] = {}
        self._committed: dict[Pipe, int] = {}
        self._has_issued: set[Pipe] = set()
        self._peers: dict[int, int] = {}
        self._cluster_of: dict[int, int] = {}
        self._rank_of: dict[int, int] = {}
        self._frees: list[Free] = []
        self._fresh: list[tuple[Record, Callable[..., None]]] = []
        self._freed_last: dict[int, Any] = {}
        self._freed_by_peer: dict[int, Any] = {}
        self._last_issued = 0
        self._steps: Counter[tuple[int, Span]] = Counter()
        happens.freed = self._freed
        happens.judge.accessed.append(self._accessed)

    def on(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case Issued():
                self._issued(event)
            case Retired(is_register=True):
                self._read_register(event)
            case RegisterOverwritten():
                self._overwritten(event)
            case TmemAllocated(is_free=False):
                self._allocated(event)
            case ColumnsMissing():
                self._missed(event)
            case CtaStarted():
                self._cluster_of[event.cta], self._rank_of[event.cta] = event.cluster, event.rank
            case CtaExited():
                self._exited(event.cta)
            case Stuck():
                self._stuck(event)

    def finish(self) -> None:
        """Report reads of fresh cells and accumulators that were freed unread, but for those that raced:
        they have a name already, and what they find hangs on the schedule.
        """
        scales = {key[1] for key in self.findings.found if key[0] == "SF-LAYOUT"}
        self._fresh = [(record, say) for record, say in self._fresh if record.span not in scales]
        early = {key[1] for key in self.findings.found if key[0] == "FREE-BEFORE-DONE"}
        unread = [
            free.unread
            for free in self._frees
            if free.unread is not None and not free.is_early and free.event.span not in early
        ]
        for record, say in (*self._fresh, *unread):
            if record.span not in self.happens.judge.disputed:
                say(edits=self._first_step(record))

    def _first_step(self, record: Record) -> tuple[Edit, ...]:
        """Return the edit that makes an mma the first of its accumulator, if no thread executes it twice."""
        if record.role != "mma" or record.is_write or self._steps[record.agent.cta, record.span] > 1:
            return ()
        return (Edit("operand", record.span, "0"),)

    # commits

    def _issued(self, event: Issued) -> None:
        self._last_issued = event.agent.operation
        role = event.work.role
        if role == "mma":
            self._steps[event.agent.cta, event.span] += 1
        if role not in (*_TRACKED, "commit"):
            return
        agent, lane, group = event.agent, event.lanes[0], event.work.cta_group
        pipe = (agent.cta, agent.warp, lane, group)
        if role != "commit":
            self._has_issued.add(pipe)
            self._uncommitted[pipe] = self.happens.operations[agent.operation]
            return
        op = self._uncommitted.pop(pipe, None)
        if op is None:
            self._commits_nothing(event, pipe)
        else:
            self._committed[pipe] = op.number

    def _commits_nothing(self, event: Issued, pipe: Pipe) -> None:
        cta, warp, lane, group = pipe
        for (c, w, other, other_group), op in self._uncommitted.items():
            if (c, w) != (cta, warp):
                continue
            if other == lane and other_group != group:
                self._say_commit(
                    event,
                    "COMMIT-GROUP-MISMATCH",
                    f"tcgen05.commit.cta_group::{group} tracks nothing: the thread's operations before it,"
                    f" such as line {op.span.line}, have cta_group::{other_group}",
                    Edit("replace", event.span, f".cta_group::{other_group}", f".cta_group::{group}"),
                    operations=(op.span,),
                )
                return
            if other != lane:
                self._say_commit(
                    event,
                    "COMMIT-NO-MMA",
                    f"tcgen05.commit by lane {lane} tracks nothing: lane {other} of the warp issued line"
                    f" {op.span.line}, and a commit tracks the operations of its own thread only",
                    "let the thread that issues the mma execute the commit too",
                    Severity.ERROR,
                    (op.span,),
                )
                return
        if pipe not in self._has_issued:  # several commits may well follow one mma, for several barriers
            self._say_commit(
                event,
                "COMMIT-NO-MMA",
                "tcgen05.commit tracks nothing: its thread has issued no mma, cp or shift",
                "commit in the thread that issues the mma, behind it",
            )

    def _say_commit(
        self,
        event: Issued,
        rule: str,
        message: str,
        hint: str | Edit,
        severity: Severity | None = None,
        operations: tuple[Span, ...] = (),
    ) -> None:
        self.findings.report(
            rule,
            message,
            event.span,
            cta=event.agent.cta,
            warp=event.agent.warp,
            lanes=event.lanes,
            hint=str(hint),
            severity=severity,
            edits=(hint,) if isinstance(hint, Edit) else (),
            operations=operations,
        )

    def _exited(self, cta: int) -> None:
        """Report what a CTA leaves on the tensor pipe that no commit tracks."""
        for pipe in [pipe for pipe in self._uncommitted if pipe[0] == cta]:
            op = self._uncommitted.pop(pipe)
            if self._is_followed(op):
                continue
            self.findings.report(
                "COMMIT-MISSING",
                f"tcgen05.{op.what} is followed by no tcgen05.commit of its thread: nobody can know its end,"
                " and the CTA exits",
                op.span,
                cta=cta,
                warp=op.agent.warp,
                lanes=op.lanes,
                hint="put tcgen05.commit behind it and wait on its mbarrier before the columns are freed",
                operations=(op.span,),
            )

    def _stuck(self, event: Stuck) -> None:
        """Note what a thread that waits for ever has issued and not committed: others may wait for that."""
        for (cta, warp, lane, _), op in self._uncommitted.items():
            if (cta, warp) == (event.agent.cta, event.agent.warp) and lane in event.lanes:
                self.findings.report(
                    "COMMIT-MISSING",
                    f"tcgen05.{op.what} has no tcgen05.commit behind it when its thread waits for ever (line"
                    f" {event.span.line}): no mbarrier tells that it is over",
                    op.span,
                    cta=cta,
                    warp=warp,
                    lanes=op.lanes,
                    hint=f"put tcgen05.commit behind line {op.span.line}, to the mbarrier others wait on",
                    severity=Severity.NOTE,
                )

    def _is_followed(self, op: Operation) -> bool:
        """Say whether an operation of another thread, in line behind `op`, has been committed."""
        number = self.happens.judge.followed.get(op.number)
        while number is not None:
            behind = self.happens.operations[number]
            agent, work = behind.agent, behind.work
            pipe = (agent.cta, agent.warp, behind.lanes[0], work.cta_group)
            if self._committed.get(pipe, 0) >= number:
                return True
            number = self.happens.judge.followed.get(number)
        return False

    # registers of loads

    def _read_register(self, event: Retired) -> None:
        op = self.happens.operations[event.operations[0]]
        wait = behind(op.span, WAIT_LD)
        self.findings.report(
            "LD-REG-BEFORE-WAIT",
            f"a register that tcgen05.{op.what} (line {op.span.line}) writes is read before tcgen05.wait::ld;"
            " hardware waits for the value, PTX does not promise it",
            event.span,
            cta=event.agent.cta,
            warp=event.agent.warp,
            other=op.span,
            hint=f"{wait}, before line {event.span.line}",
            edits=(wait,),
            folds=self.findings.level != "strict",
        )

    def _overwritten(self, event: RegisterOverwritten) -> None:
        op = self.happens.operations[event.operation]
        wait = behind(op.span, WAIT_LD)
        self.findings.report(
            "LD-REG-CLOBBER",
            f"a destination register of tcgen05.{op.what} (line {op.span.line}) is written while the load may"
            " still be on its way: which value stays is open",
            event.span,
            cta=event.agent.cta,
            warp=event.agent.warp,
            lanes=event.lanes,
            other=op.span,
            hint=f"{wait}, or use another register",
            edits=(wait,),
        )

    # allocation

    def _allocated(self, event: TmemAllocated) -> None:
        agent = event.agent
        self._allocators[agent.cta, event.column] = (agent.warp, event.span)
        if event.cta_group == 2 and not self._knows_peer(agent.cta, self.happens.warp_of(agent)):
            self.findings.report(
                "PAIR-ALLOC-NO-RENDEZVOUS",
                "tcgen05.alloc.cta_group::2 has no cluster barrier before it: the peer CTA may not run yet",
                event.span,
                cta=agent.cta,
                warp=agent.warp,
                hint="barrier.cluster.arrive and .wait in both CTAs before the allocation",
                edits=(meeting(event.span, CLUSTER_BARRIER),),
            )

    def _knows_peer(self, cta: int, warp: WarpClocks) -> bool:
        peer = self._peer(cta)
        known = warp.known(tuple(sorted(warp.live))).control
        return any(
            known.get(other.base, 0) or any(known.get(other.base + 1 + lane, 0) for lane in range(32))
            for (home, _), other in self.happens.warps.items()
            if home == peer
        )

    def _peer(self, cta: int) -> int:
        rank, cluster = self._rank_of[cta] ^ 1, self._cluster_of[cta]
        return next((c for c, r in self._rank_of.items() if r == rank and self._cluster_of[c] == cluster), -1)

    def _freed(self, event: TmemAllocated, where: Any, shadow: Shadow, warp: WarpClocks) -> None:
        """Judge a dealloc: everything in the columns must be over for it, and should have been read."""
        clock = warp.message(tuple(sorted(warp.live)))
        free = Free(event, self._last_issued, warp.base, warp.time)
        self._frees.append(free)
        last = self._freed_last.setdefault(event.sm, np.zeros(NUM_COLS, np.int32))
        last[event.column : event.column + event.num_cols] = len(self._frees)
        free.is_early = self._not_done(event, where, shadow, clock, "FREE-BEFORE-DONE")
        if event.cta_group == 2:
            self._half_freed(event, where, clock)
        free.unread = self._never_read(event, where, shadow)
        owner = self._allocators.pop((event.agent.cta, event.column), None)
        if owner is not None and owner[0] != event.agent.warp:
            self.findings.report(
                "FREE-BY-OTHER-WARP",
                f"warp {event.agent.warp} frees columns that warp {owner[0]} has allocated"
                f" (line {owner[1].line}); the manual wants one warp to do both",
                event.span,
                cta=event.agent.cta,
                warp=event.agent.warp,
                other=owner[1],
                hint=f"let warp {owner[0]} execute the dealloc",
            )

    def _half_freed(self, event: TmemAllocated, where: Any, clock: Clock) -> None:
        """Judge the dealloc of one CTA of a pair by what the other does in its half, before and after."""
        sm = self.happens.sm_of.get(self._peer(event.agent.cta), -1)
        other = self.happens.shadows.get(("tmem", sm))
        if other is not None:
            self._not_done(event, where, other, clock, "PAIR-DEALLOC-EARLY")
        cols = slice(event.column, event.column + event.num_cols)
        mine = self._freed_by_peer.setdefault(event.sm, np.zeros(NUM_COLS, np.int32))
        is_second = bool(mine[cols].any())
        mine[cols] = 0
        if not is_second:
            theirs = self._freed_by_peer.setdefault(sm, np.zeros(NUM_COLS, np.int32))
            theirs[cols] = len(self._frees)

    def _not_done(self, event: TmemAllocated, where: Any, shadow: Shadow, clock: Clock, rule: str) -> bool:
        """Report what has touched the columns and is not known to be over; say whether there is such."""
        early = False
        for column in (shadow.writer, shadow.reader):
            for number in np.unique(column[where]).tolist():
                record = self.happens.judge.records[number]
                if number and not record.is_over_for(clock.seen):
                    early = True
                    self._say_not_done(event, record, rule)
        for number in np.unique(shadow.more[where]).tolist():
            for reader, _ in shadow.sets[number]:
                record = self.happens.judge.records[reader]
                if not record.is_over_for(clock.seen):
                    early = True
                    self._say_not_done(event, record, rule)
        return early

    def _say_not_done(self, event: TmemAllocated, record: Record, rule: str) -> None:
        verb = "write" if record.is_write else "read"
        is_pair = rule == "PAIR-DEALLOC-EARLY"
        whose = "the peer's half of " if is_pair else ""
        meet = meeting(event.span, CLUSTER_BARRIER if is_pair else BARRIER)
        waits = {"ld": (behind(record.span, WAIT_LD),), "st": (behind(record.span, WAIT_ST),)}
        own = waits.get(record.role, ())
        is_alone = (record.agent.cta, record.agent.warp) == (event.agent.cta, event.agent.warp)
        hint = f"{own[0]}, before the dealloc" if own and is_alone else _MEET_FIRST
        if own and not is_alone:
            wait = own[0].text.removesuffix(".sync.aligned")
            hint = f"let the two warps meet at a barrier before line {event.span.line}, behind {wait}"
        self.findings.report(
            rule,
            f"{whose}columns {event.column} to {event.column + event.num_cols - 1} are freed while"
            f" {party(record, with_line=True)} may still {verb} them",
            event.span,
            cta=event.agent.cta,
            warp=event.agent.warp,
            other=record.span,
            hint=hint,
            edits=(*own, meet),
            operations=(record.span,) if record.is_operation else (),
        )

    def _missed(self, event: ColumnsMissing) -> None:
        """Report the dealloc that took away the columns of an access which nothing orders behind it."""
        last = self._freed_last.get(event.sm)
        if last is None:
            return
        agent = event.agent
        warp = self.happens.warp_of(agent)
        seen = warp.known(tuple(sorted(warp.live))).seen
        for number in np.unique(last[event.column : event.column + event.num_cols]).tolist():
            free = self._frees[number - 1]
            is_known = any(seen.get(free.warp + k, 0) >= free.time for k in range(1 + LANES))
            by = free.event.agent
            if not number or is_known or by.cta != agent.cta or by.warp == agent.warp:
                continue
            free.is_early = True
            self.findings.report(
                "FREE-BEFORE-DONE",
                f"columns {event.column} to {event.column + event.num_cols - 1} are freed while warp"
                f" {agent.warp} of CTA {agent.cta} (line {event.span.line}) may still use them",
                free.event.span,
                cta=by.cta,
                warp=by.warp,
                other=event.span,
                hint=_MEET_FIRST,
            )

    def _never_read(
        self, event: TmemAllocated, where: Any, shadow: Shadow
    ) -> tuple[Record, Callable[..., None]] | None:
        """Return the report of accumulator columns, or partitions of lanes, that an mma wrote and nobody
        read.
        """
        shape = (NUM_LANES, event.num_cols)
        writers = shadow.writer[where].reshape(shape)
        mma = [n for n in np.unique(writers).tolist() if self.happens.judge.records[n].role == "mma"]
        if not mma:
            return None
        is_result = np.isin(writers, mma)
        is_unread = is_result & (shadow.reader[where].reshape(shape) == 0)
        cols = np.flatnonzero(is_result.any(0) & ~(is_result & ~is_unread).any(0))
        rows = is_result.reshape(-1, PARTITION_LANES, event.num_cols)
        lost = is_unread.reshape(rows.shape)
        parts = [p for p in range(len(rows)) if rows[p].any() and lost[p].sum() == rows[p].sum()]
        if not cols.size and not parts:
            return None
        if cols.size:
            what = f"columns {event.column + int(cols[0])} to {event.column + int(cols[-1])}"
            place = np.argwhere(is_unread[:, cols[:1]])[0][0], int(cols[0])
        else:
            what = f"lanes {parts[0] * PARTITION_LANES} to {parts[0] * PARTITION_LANES + PARTITION_LANES - 1}"
            place = (parts[0] * PARTITION_LANES, int(np.flatnonzero(lost[parts[0]].any(0))[0]))
        record = self.happens.judge.records[int(writers[place])]
        say = partial(
            self.findings.report,
            "TMEM-NEVER-READ",
            f"{what} of the accumulator that {party(record, with_line=True)} wrote are freed, and nobody has"
            " read them",
            event.span,
            cta=event.agent.cta,
            warp=event.agent.warp,
            other=record.span,
            hint="check the column and lane offsets of the loads in the epilogue",
        )
        return record, say

    # cells

    def _accessed(self, record: Record, where: Any, shadow: Shadow, event: Access) -> None:
        """Look for operations on columns that were freed under them, and for fresh cells that one reads."""
        if record.space != "tmem":
            return
        self._touched(record, where, event)
        if not record.is_write and record.role in ("mma", "shift"):
            self._read_fresh(record, where, shadow, event)

    def _touched(self, record: Record, where: Any, event: Access) -> None:
        """Report an operation that performs after columns it was issued for have been freed."""
        sm = self.happens.sm_of[event.home]
        halves = self._freed_by_peer.get(sm)
        if halves is not None:
            for number in set(halves[where % NUM_COLS].tolist()) - {0}:
                self._say_not_done(self._frees[number - 1].event, record, "PAIR-DEALLOC-EARLY")
        last = self._freed_last.get(sm)
        if last is None or not record.is_operation:
            return
        for number in np.unique(last[where % NUM_COLS]).tolist():
            free = self._frees[number - 1]
            if number and event.agent.operation <= free.last:
                free.is_early = True
                self._say_not_done(free.event, record, "FREE-BEFORE-DONE")

    def _read_fresh(self, record: Record, where: Any, shadow: Shadow, event: Access) -> None:
        """Report an mma that adds to, or takes as A, cells never written since they were allocated."""
        fresh = shadow.writer[where] == 0
        if not fresh.any():
            return
        lane, col = divmod(int(where[np.flatnonzero(fresh)[0]]), NUM_COLS)
        say = partial(
            self.findings.report,
            "TMEM-UNINIT",
            f"{party(record)} reads tmem[lane {lane}, col {col}] and {int(fresh.sum()) - 1} more cells that"
            " nobody has written since they were allocated",
            event.span,
            cta=event.agent.cta,
            warp=event.agent.warp,
            lanes=record.lanes,
            hint="make enable-input-d false for the first mma of the accumulator"
            if record.work.accumulator & 0xFFFF <= col
            else "write the operand before the mma reads it",
        )
        self._fresh.append((record, say))
