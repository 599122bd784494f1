"""The lazy schedule performs as late as it may what nothing orders."""

from __future__ import annotations

from drywell.base.span import Span
from drywell.engine.scheduler import _latest
from drywell.machine.queue import AsyncOp
from unit.isa.one_cta import grid_of, warps

WARP = warps(grid_of())[0]


def op(
    number: int, unit: str, columns: range = range(0), queue: str | None = None, stages: int = 1
) -> AsyncOp:
    """Return an operation issued as number `number`."""
    stage = (lambda: None,) * stages
    return AsyncOp(unit, unit, WARP, Span("k.ptx", number, 1), stage, queue, number=number, columns=columns)


def chosen(*ops: AsyncOp) -> int:
    """Return the number of the operation that goes next; those of one queue wait for the first of it."""
    heads = {o.queue: o for o in reversed(ops) if o.queue is not None}
    runnable = [o for o in ops if o.queue is None or heads[o.queue] is o]
    return _latest(ops, runnable).number


def test_the_operation_issued_last_goes_first() -> None:
    assert chosen(op(1, "tma"), op(2, "bulk"), op(3, "tma")) == 3


def test_what_stands_before_it_in_its_queue_goes_first() -> None:
    assert chosen(op(1, "tensor", queue="pipe"), op(2, "tma"), op(3, "tensor", queue="pipe")) == 1


def test_a_tmem_load_waits_for_an_mma_that_was_issued_after_it() -> None:
    assert chosen(op(1, "tmem_ld", range(96, 128)), op(2, "tensor", range(128), "pipe")) == 2


def test_a_tmem_load_does_not_wait_for_the_mma_whose_columns_it_reads_too_early() -> None:
    assert chosen(op(1, "tensor", range(128), "pipe"), op(2, "tmem_ld", range(32))) == 2


def test_a_tmem_load_lets_pass_what_touches_other_columns_or_none() -> None:
    assert chosen(op(1, "tensor", range(128, 256), "pipe"), op(2, "tmem_ld", range(32))) == 1
    assert chosen(op(1, "tma"), op(2, "tmem_ld", range(32))) == 1
    assert chosen(op(1, "tensor", queue="pipe"), op(2, "tmem_st", range(32))) == 1


def test_a_store_that_reads_shared_memory_first_stays_late() -> None:
    assert chosen(op(1, "bulk", stages=2), op(2, "tmem_ld", range(32))) == 2
