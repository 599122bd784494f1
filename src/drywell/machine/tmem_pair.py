"""Allocations of Tensor Memory by a CTA pair: both CTAs take the same columns, each of its own SM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from drywell.machine.outcome import Wait, WaitReason

if TYPE_CHECKING:
    from drywell.machine.warp import Warp


class Ask(NamedTuple):
    """What one CTA of a pair asks for: `store` writes the address at window offset `offset`."""

    warp: Warp
    num_cols: int
    offset: int
    store: Callable[[int], None]


class PairRequest:
    """One `tcgen05.alloc.cta_group::2` of a CTA pair: `asks` by bit 0 of the rank.

    Both CTAs get the same columns, in one step, as soon as both have come and both SMs have them. `passed`
    are the sides whose warp has gone on with its address.
    """

    __slots__ = ("asks", "is_taken", "passed")

    def __init__(self) -> None:
        self.asks: dict[int, Ask] = {}
        self.is_taken = False
        self.passed: set[int] = set()

    def join(self, side: int, ask: Ask) -> None:
        """Let one CTA come; fault PAIR-ALLOC-MISMATCH when the two ask for different things."""
        other = self.asks.get(side ^ 1)
        if other is not None and (other.num_cols, other.offset) != (ask.num_cols, ask.offset):
            ask.warp.fault(
                "PAIR-ALLOC-MISMATCH",
                f"CTA rank {ask.warp.cta.rank} asks for {ask.num_cols} columns, to be stored at offset"
                f" 0x{ask.offset:x}; its peer, rank {other.warp.cta.rank}, at {other.warp.span} for"
                f" {other.num_cols} at offset 0x{other.offset:x}",
                hint="the two CTAs of a pair must give the same nCols and the same destination offset",
            )
        self.asks[side] = ask
        ask.warp.changed()

    def bases(self) -> list[int]:
        """Return the base granules free on both SMs; none while a CTA or a permit is missing."""
        if len(self.asks) < 2:
            return []
        even, odd = self.asks[0], self.asks[1]
        if not all(ask.warp.sm.tmem.permit in (None, ask.warp.cta) for ask in (even, odd)):
            return []
        free = set(odd.warp.sm.tmem.bases(odd.num_cols))
        return [g for g in even.warp.sm.tmem.bases(even.num_cols) if g in free]

    def is_ready(self) -> bool:
        """Say whether the columns have been taken or can be."""
        return self.is_taken or bool(self.bases())

    def leave(self, side: int) -> None:
        """Let one CTA's warp go on, taking the columns for both CTAs if that has not been done."""
        if not self.is_taken:
            self.is_taken = True
            granule = self.asks[0].warp.sm.tmem.choose(self.bases())
            for ask in self.asks.values():
                ask.store(ask.warp.sm.tmem.take(ask.warp, granule, ask.num_cols, cta_group=2))
                ask.warp.cta.tmem.is_of_pair(granule, self)
        self.passed.add(side)

    def why(self, side: int) -> str:
        """Say what the CTA of `side` waits for."""
        mine = self.asks[side].warp.cta
        if len(self.asks) == 2:
            ask = self.asks[side]
            return (
                f"{ask.num_cols} columns of Tensor Memory that are free on the SMs of both CTAs of its pair"
            )
        peer = mine.rank ^ 1
        end = ", which has exited" if mine.cluster.ctas[peer].has_exited else ""
        return f"its peer, CTA rank {peer}{end}, to execute tcgen05.alloc.cta_group::2 too"


def alloc_half(m: Warp, ask: Ask) -> Wait | None:
    """Bring one CTA's half of an allocation of its pair; the first to come waits for the other."""
    peer, rank = m.cta.peer, m.cta.rank
    if peer is None:
        m.fault(
            "PAIR-NO-PEER",
            f"tcgen05.alloc.cta_group::2 by CTA rank {rank} of a cluster of {len(m.cluster.ctas)}: there"
            f" is no rank {rank ^ 1} to make a pair with",
            hint="launch clusters of an even number of CTAs",
        )
    if peer.has_exited:
        m.fault(
            "PEER-EXIT-EARLY",
            f"tcgen05.alloc.cta_group::2 needs the other CTA of the pair, rank {rank ^ 1}, which has exited",
            hint="both CTAs of a pair must allocate",
        )
    side, requests = rank & 1, m.cluster.pair_requests.setdefault(rank >> 1, [])
    request = next((r for r in requests if side not in r.asks), None)
    if request is None:
        request = PairRequest()
        requests.append(request)
    request.join(side, ask)
    if len(request.asks) == 2:
        requests.remove(request)
    if request.is_ready():
        request.leave(side)
        return None
    for asked in request.asks.values() if len(request.asks) == 2 else ():
        asked.warp.sm.tmem.tell_waiting(asked.warp, asked.num_cols)
    reason = WaitReason("tmem_alloc", lambda: request.why(side))
    return Wait(request.is_ready, lambda: request.leave(side), reason)
