"""Which CTAs a `tcgen05` instruction acts in: its own, or with cta_group::2 both of its pair.

SPEC: a pair is the CTAs of a cluster whose ranks differ in the last bit only; the even one comes first.
Source: PTX ISA 9.7.16.5 "CTA pair".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drywell.machine.warp import Warp


def members(m: Warp, group: int) -> tuple[Warp, ...]:
    """Return one warp in each CTA acted in, in order of rank: `m` in its own, the first warp of the peer.

    Fault PAIR-NO-PEER when the CTA has no peer, PEER-EXIT-EARLY when the peer has exited.
    """
    if group == 1:
        return (m,)
    peer, rank = m.cta.peer, m.cta.rank
    if peer is None:
        m.fault(
            "PAIR-NO-PEER",
            f"an instruction of cta_group::2 in CTA rank {rank} of a cluster of {len(m.cluster.ctas)}:"
            f" there is no rank {rank ^ 1} to make a pair with",
            hint="launch clusters of an even number of CTAs",
        )
    if peer.has_exited:
        m.fault(
            "PEER-EXIT-EARLY",
            f"an instruction of cta_group::2 acts in CTA {','.join(map(str, peer.index))}, which has exited",
            hint="both CTAs of a pair must stay until its work is done: let them meet at a cluster barrier",
        )
    return (m, peer.warps[0]) if rank < peer.rank else (peer.warps[0], m)
