"""cp.async, the copies of a thread from global to shared memory, their groups, the arrivals they trigger.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy", non-bulk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Work
from drywell.isa.declare import Mods, Op, instruction
from drywell.isa.operand import GLOBAL, SHARED, policy
from drywell.isa.place import shared_address
from drywell.machine.outcome import Wait, WaitReason

_REF = "data-movement-and-conversion-instructions-cp-async"


def _size(i: Mods) -> Op:
    return Op("u32", accepts="i", one_of=(16,) if i["cache"] == "cg" else (16, 8, 4))


@instruction(
    "cp.async.cache.dst.src{.hint}{.prefetch} [a], [b], cp_size{, src_size}, policy;",
    cache="ca cg",
    dst="shared shared::cta",
    src="global",
    hint="L2::cache_hint",
    prefetch="L2::64B L2::128B L2::256B",
    types={
        "a": SHARED,
        "b": GLOBAL,
        "cp_size": _size,
        "src_size": Op("u32", accepts="riq", range=(0, 16)),
        "policy": policy,
    },
    order_free=True,
    unit="async",
    completes_by="cp.async group",
    since=(7, 0),
    ref=_REF,
)
def cp_async(m: Any, i: Mods, a: Any, b: Any, cp_size: Any, src_size: Any, policy: Any) -> None:
    """Copy 4, 8 or 16 bytes per lane from global to shared memory at some later moment.

    Bytes from `src_size` on become zero and are not read; so do all where a predicate stands in its place
    and is set. Undefined: a `src_size` above the size (here a fault), two copies of one group to one
    place, touching either side before the group's wait.
    """
    size = int(cp_size[m.one_lane()])
    wanted = _wanted(size, src_size)
    mask = m.mask.copy()
    if (wanted[mask] > size).any():
        m.fault(
            "CPASYNC-SIZE",
            f"cp.async of {size} bytes with a source size of {int(wanted[mask].max())}",
            "the source size is at most the copy size",
        )
    source, target = a_copy(b), a_copy(a)

    def perform() -> None:
        m.store("shared", target, _read(m, source, mask, size, wanted), mask=mask)

    op = m.start("cp_async", f"cp.async of {size} bytes", perform, work=Work("copy"))
    m.cp_async_groups.add(op, m.lanes())


def _wanted(size: int, src_size: Any) -> NDArray[np.int64]:
    """Return the bytes each lane reads: all, the source size, or none where the predicate `ignore-src` is
    set."""
    if src_size is None:
        return np.full(32, size, np.int64)
    if src_size.dtype == np.bool_:
        return np.where(src_size, 0, size)
    return np.asarray(src_size).astype(np.int64)


def a_copy(values: NDArray[Any]) -> NDArray[Any]:
    """Return the lanes' values as they are now: the register may change before an operation performs."""
    return np.array(values)


def _read(
    m: Any, source: Any, mask: NDArray[np.bool_], size: int, wanted: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Read each lane's `wanted` bytes, the rest of `size` zero."""
    if (wanted[mask] == size).all():
        whole: NDArray[np.uint8] = m.load("global", source, size, mask=mask)
        return whole
    full = mask & (wanted == size)
    out = np.zeros((32, size), np.uint8)
    if full.any():
        out |= m.load("global", source, size, mask=full)
    for k in range(size):
        some = mask & ~full & (wanted > k)
        if some.any():
            out[:, k] |= m.load("global", source + np.uint64(k), 1, mask=some)[:, 0]
    return out


def wait_for(
    m: Any, ops: tuple[Any, ...], what: str, is_read: bool = False, even_none: bool = False
) -> Wait | None:
    """Return the Wait for operations to be done (`is_read`: to have read their sources); None when they
    are. With `even_none` observers are told of a wait for nothing too.
    """

    def left() -> list[Any]:
        return [op for op in ops if not (op.is_read if is_read else op.done)]

    def seen() -> None:
        m.retired(ops, is_read, even_none=even_none)

    if not left():
        seen()
        return None

    def text() -> str:
        return f"the operations of {what}: " + ", ".join(repr(op) for op in left()[:4])

    return Wait(lambda: not left(), seen, WaitReason("operations", text))


@instruction("cp.async.commit_group;", unit="sync", since=(7, 0), ref=_REF + "-commit-group")
def cp_async_commit_group(m: Any, i: Mods) -> None:
    """Close the thread's group of cp.async copies; an empty group counts too."""
    m.cp_async_groups.commit(m.mask)


@instruction(
    "cp.async.wait_group n;",
    types={"n": Op("u32", accepts="i")},
    unit="sync",
    waits=True,
    since=(7, 0),
    ref=_REF + "-wait-group-cp-async-wait-all",
)
def cp_async_wait_group(m: Any, i: Mods, n: Any) -> Wait | None:
    """Wait until at most the `n` newest groups of the thread are unfinished; other threads' are not
    awaited."""
    return wait_for(m, m.cp_async_groups.awaited(m.mask, int(n[m.one_lane()])), "cp.async.wait_group")


@instruction(
    "cp.async.wait_all;",
    unit="sync",
    waits=True,
    since=(7, 0),
    ref=_REF + "-wait-group-cp-async-wait-all",
)
def cp_async_wait_all(m: Any, i: Mods) -> Wait | None:
    """Wait for all cp.async copies of the thread, committed or not."""
    m.cp_async_groups.commit(m.mask)
    return wait_for(m, m.cp_async_groups.awaited(m.mask, 0), "cp.async.wait_all")


@instruction(
    "cp.async.mbarrier.arrive{.noinc}{.space}.b64 [a];",
    noinc="noinc",
    space="shared shared::cta",
    types={"a": SHARED},
    order_free=True,
    unit="mbarrier",
    arrives=True,
    since=(7, 0),
    ref="parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive",
)
def cp_async_mbarrier_arrive(m: Any, i: Mods, a: Any) -> None:
    """Arrive once on an mbarrier when all earlier cp.async copies of the thread are done.

    Without `.noinc` the pending count first rises by one, so that the arrival need not be counted at init.
    """
    where = [(lane, shared_address(m, i["space"], a, lane)) for lane in m.lanes()]
    if i["noinc"] is None:
        for _, at in where:
            m.mbarrier(at).add_pending(1)
    prior = tuple(op for lane, _ in where for op in m.cp_async_groups.prior(lane))

    def arrive() -> None:
        for _, at in where:
            m.mbarrier(at).arrive(1)

    m.start(
        "cp_async",
        "cp.async.mbarrier.arrive",
        arrive,
        ready=lambda: all(op.done for op in prior),
        work=Work("arrive"),
    )
