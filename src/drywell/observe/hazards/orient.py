"""Which of two accesses that nothing orders is the earlier one: the same answer under every schedule.

The order in which they happen to be performed says nothing. Taken in turn: who knows of the other's issue
comes behind it; in one warp the order of issue counts; a read whose party has waited for what the write
replaces, another of its kind, belongs before that write when the write has waited for no reader of that;
else the write, and among equals the line further up, comes first.
"""

from __future__ import annotations

from drywell.observe.hazards.clock import Clock
from drywell.observe.hazards.record import Record


def is_reversed(
    first: Record, second: Record, first_clock: Clock, second_clock: Clock, lanes: tuple[int, int]
) -> bool:
    """Say whether `second`, which was performed after `first`, is the earlier one of the two. The clocks
    are what each knew, `lanes` who acted.
    """
    if first.warp == second.warp:
        return second.moment < first.moment
    if first.is_issued_for(second_clock.seen):
        return False
    if second.is_issued_for(first_clock.seen):
        return True
    if first.is_write != second.is_write and (first.is_operation or second.is_operation):
        return _belongs_before(first, second, first_clock, second_clock)
    return _place(second, lanes[1]) < _place(first, lanes[0])


def _belongs_before(first: Record, second: Record, first_clock: Clock, second_clock: Clock) -> bool:
    """Say whether `second` comes first, of a write and a read."""
    write, reader_knows = (first, second_clock) if first.is_write else (second, first_clock)
    old = write.replaced
    is_of_its_kind = old is not None and (old.unit, old.role) == (write.unit, write.role)
    is_awaited = old is not None and is_of_its_kind and old.is_over_for(reader_knows.seen)
    is_read_first = is_awaited and not write.is_settled
    return is_read_first == first.is_write


def _place(record: Record, lane: int) -> tuple[int, int, int, int]:
    return record.span.line, record.agent.cta, record.agent.warp, lane
