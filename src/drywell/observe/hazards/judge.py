"""Hold each access against what is in its places: ordered, excused, or a conflict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drywell.base.events import Access
from drywell.base.span import Span
from drywell.observe.hazards.agents import Conflict, Why, is_own, is_same_accumulator
from drywell.observe.hazards.clock import NOTHING, Clock, Known, joined
from drywell.observe.hazards.orient import is_reversed
from drywell.observe.hazards.record import NOBODY, Record
from drywell.observe.hazards.shadow import WHOLE, Shadow

PIPELINED = frozenset({("mma", "mma"), ("cp", "mma"), ("shift", "mma"), ("shift", "cp"), ("mma", "shift")})
"""SPEC: pairs of tcgen05 operations that keep their order of issue. Source: PTX ISA 9.7.16.6.2."""


class Judge:
    """Judges accesses; each Conflict goes to `sink`.

    `wants_fences` asks for the missing fences of tcgen05 too. Each of `accessed` is told of every judged
    access: its record, its places, its shadow (for rules that look at what is in a place). `records` are
    all parties by number, `disputed` the places in the program of all conflicts so far, `followed`
    operations with those of other threads that are in line behind them, `inherited` what commits behind
    the latter tell besides, by component.
    """

    def __init__(self, sink: Callable[[Conflict], None]) -> None:
        self.sink = sink
        self.wants_fences = True
        self.accessed: list[Callable[[Record, Any, Shadow, Access], None]] = []
        self.records: list[Record] = [NOBODY]
        self.disputed: set[Span] = set()
        self.followed: dict[int, int] = {}
        self.inherited: dict[int, Known] = {}

    def judge(self, record: Record, clock: Clock, where: Any, by: Any, shadow: Shadow, event: Access) -> None:
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
        if not (is_own(earlier, lane, later, by) or earlier.is_over_for(clock.seen, lane)):
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
        self.inherited[later.component] = joined(self.inherited.get(later.component, NOTHING), known)

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
        is_ordered = is_own(earlier, lane, later, by)
        why: Why = "proxy" if is_ordered or earlier.is_over_for(clock.seen, lane) else "unordered"
        self.disputed |= {earlier.span, later.span}
        if why == "unordered" and is_reversed(earlier, later, earlier.clock, clock, (lane, by)):
            earlier, later, lane, by, clock = later, earlier, by, lane, earlier.clock
        self.sink(Conflict(earlier, later, why, first, later.home, count, clock, lane, by))
