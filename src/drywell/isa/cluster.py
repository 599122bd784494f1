"""clusterlaunchcontrol: taking over the work of clusters that have not started.

A request performs at some later moment: it takes the next waiting cluster out of the launch, or misses, and
writes an answer of 16 bytes. Source: PTX ISA, clusterlaunchcontrol.try_cancel and .query_cancel.

ASSUMED: the bits of the answer, which PTX leaves open and only query_cancel may read. Here 32-bit word 0 is
the x of the cluster's first CTA, word 1 its y and, from bit 16, its z, word 2 zero, bit 0 of word 3 success.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np

from drywell.base.events import Work
from drywell.isa.declare import Mods, Op, instruction
from drywell.isa.operand import SHARED
from drywell.isa.place import shared_address
from drywell.machine.windows import OFFSET_MASK, RANK_SHIFT

_REF = "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-"
ANSWER_BYTES = 16
_CANCELED = np.uint64(1 << 32)
"""The bit of the answer's upper half that says that a cluster was taken over."""

_COMMON: dict[str, Any] = {"order_free": True, "unit": "async", "lane": False, "since": (8, 6)}


def answer(first: tuple[int, int, int] | None) -> bytes:
    """Return the 16 bytes that say which cluster, by its first CTA, was taken over (None: a miss).

    >>> answer((5, 0, 0)).hex()
    '05000000000000000000000001000000'
    """
    if first is None:
        return bytes(ANSWER_BYTES)
    x, y, z = first
    return struct.pack("<IHHII", x, y, z, 0, 1)


@instruction(
    "clusterlaunchcontrol.try_cancel.async{.space}.completion{.multicast}.b128 [a], [mbar];",
    space="shared::cta",
    completion="mbarrier::complete_tx::bytes",
    multicast="multicast::cluster::all",
    types={"a": SHARED, "mbar": SHARED},
    proxy="async",
    completes_by="mbarrier",
    arrives=True,
    ref=_REF + "try-cancel",
    **_COMMON,
)
def clusterlaunchcontrol_try_cancel(m: Any, i: Mods, a: Any, mbar: Any) -> None:
    """Ask for a cluster that has not started; the answer of 16 bytes comes to shared memory with
    complete_tx(16).

    With `.multicast::cluster::all` it comes to every CTA of the cluster, at the same offsets. Undefined,
    here a fault: a request after a failure has been seen, and multicast when a CTA of the cluster has exited.
    """
    for lane in m.lanes():
        _ask(m, i, lane, shared_address(m, i["space"], a, lane), shared_address(m, i["space"], mbar, lane))


def _ask(m: Any, i: Mods, lane: int, target: int, barrier: int) -> None:
    """Issue one request: the first stage settles it, and each brings the answer to one CTA."""
    if target % ANSWER_BYTES:
        m.fault(
            "MISALIGNED",
            f"the answer's shared address 0x{target:08x} is no multiple of {ANSWER_BYTES}",
            lanes=(lane,),
        )
    if m.cluster.has_seen_miss:
        m.fault(
            "CLC-AFTER-FAIL",
            "the cluster asks for another cluster after one of its threads has seen a request fail",
            "leave the loop at the first answer that is not canceled",
            lanes=(lane,),
        )
    ranks = range(len(m.cluster.ctas)) if i["multicast"] else (m.cta.rank,)
    bases = (target, barrier) if not i["multicast"] else (target & OFFSET_MASK, barrier & OFFSET_MASK)
    held: list[bytes] = []

    def deliver(rank: int) -> None:
        if not held:
            first = m.grid.cancel_waiting()
            m.cluster.num_misses += first is None
            held.append(answer(first))
        shift = rank << RANK_SHIFT if i["multicast"] else 0
        view = m.shared(bases[0] | shift, ANSWER_BYTES, i["multicast"] is not None, True, "async")
        view[:] = np.frombuffer(held[0], np.uint8)
        m.mbarrier(bases[1] | shift, i["multicast"] is not None).complete_tx(ANSWER_BYTES)

    stages = (partial(deliver, rank) for rank in ranks)
    m.start("clc", "request for a waiting cluster", *stages, work=Work("try_cancel"), lanes=(lane,))


def _is_canceled(a: Any) -> Any:
    return (a["hi"] & _CANCELED) != 0


@instruction(
    "clusterlaunchcontrol.query_cancel.what.pred.b128 d, a;",
    what="is_canceled",
    types={"d": Op("pred", accepts="r"), "a": Op("b128", accepts="r")},
    ref=_REF + "query-cancel",
    **_COMMON,
)
def clusterlaunchcontrol_is_canceled(m: Any, i: Mods, a: Any) -> Any:
    """Read from an answer whether a cluster was taken over."""
    is_canceled = _is_canceled(a)
    if m.cluster.num_misses and (m.mask & ~is_canceled).any():
        m.cluster.has_seen_miss = True
    return is_canceled


@instruction(
    "clusterlaunchcontrol.query_cancel.what.v4.b32.b128 d, a;",
    what="get_first_ctaid",
    types={"d": Op("b32", count=4, accepts="r_"), "a": Op("b128", accepts="r")},
    ref=_REF + "query-cancel",
    **_COMMON,
)
@instruction(
    "clusterlaunchcontrol.query_cancel.what.b32.b128 d, a;",
    what="get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z",
    types={"d": Op("b32", accepts="r"), "a": Op("b128", accepts="r")},
    ref=_REF + "query-cancel",
    **_COMMON,
)
def clusterlaunchcontrol_first_ctaid(m: Any, i: Mods, a: Any) -> Any:
    """Read from an answer the first CTA of the cluster that was taken over: x, y, z, and 0 in the fourth.

    Undefined, here a fault, when none was.
    """
    failed = m.mask & ~_is_canceled(a)
    if failed.any():
        m.fault(
            "CLC-NOT-CANCELED",
            "the first CTA is asked of an answer that says no cluster was taken over",
            "ask is_canceled first, and read the CTA only where it holds",
            lanes=tuple(np.flatnonzero(failed).tolist()),
        )
    low = a["lo"]
    parts = [low.astype(np.uint32), (low >> np.uint64(32)).astype(np.uint16), (low >> np.uint64(48))]
    axes = [part.astype(np.uint32) for part in parts]
    word = str(i["what"])
    if word == "get_first_ctaid":
        return [*axes, np.zeros(32, np.uint32)]
    return axes["xyz".index(word[-1])]
