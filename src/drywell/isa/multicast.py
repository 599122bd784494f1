"""Where an asynchronous operation lands when shared memory of other CTAs of the cluster may be meant.

Source: PTX ISA, cp.async.bulk and cp.async.bulk.tensor: `.multicast::cluster` writes to, and signals at, the
same offset in every CTA of a mask.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from drywell.machine.windows import OFFSET_MASK, RANK_SHIFT


class Landing(NamedTuple):
    """One destination: the shared-window addresses of the data and of the mbarrier that is told."""

    data: int
    barrier: int


def ranks_named(m: Any, mask: int, lane: int, what: str, rule: str) -> tuple[int, ...]:
    """Return the cluster ranks that a mask of 16 bits names; the fault `rule` when the cluster has no such
    CTA.
    """
    size = len(m.cluster.ctas)
    if mask >> size or not mask:
        m.fault(
            rule,
            f"ctaMask 0x{mask:x} of {what} in a cluster of {size}: it must name at least one"
            f" rank, all below {size}",
            lanes=(lane,),
        )
    return tuple(rank for rank in range(size) if mask >> rank & 1)


def landings(
    m: Any, lane: int, data: int, barrier: int, mask: Any, what: str, is_pair: bool = False
) -> tuple[Landing, ...]:
    """Return the destinations of one copy, by rank.

    `mask` (one per lane) is None without multicast. The mbarrier lies in the CTA that gets the data; with
    `is_pair` (`.cta_group::2`) in that CTA or its peer, and with multicast all signals go to CTAs of the
    parity of the mbarrier given. Faults: MULTICAST-MASK, MBAR-REMOTE-FORM.
    """
    teller = barrier >> RANK_SHIFT
    if mask is None:
        owner = data >> RANK_SHIFT
        if (owner >> 1 != teller >> 1) if is_pair else owner != teller:
            pair = " or its peer" if is_pair else ""
            m.fault(
                "MBAR-REMOTE-FORM",
                f"{what} goes to CTA rank {owner} and signals an mbarrier of CTA rank {teller}; the mbarrier"
                f" must lie in CTA rank {owner}{pair}",
                hint="give destination and mbarrier of one CTA",
                lanes=(lane,),
            )
        return (Landing(data, barrier),)
    out = []
    for rank in ranks_named(m, int(mask[lane]), lane, what, "MULTICAST-MASK"):
        told = rank & ~1 | teller & 1 if is_pair else rank
        out.append(Landing(_at(rank, data), _at(told, barrier)))
    return tuple(out)


def _at(rank: int, address: int) -> int:
    """Return the address in CTA `rank` at the offset of `address`."""
    return rank << RANK_SHIFT | address & OFFSET_MASK


def require_other_cta(m: Any, lane: int, data: int, what: str) -> None:
    """Fault PEER-IS-SELF when the destination is the executing CTA, which only a copy to another may not
    name.
    """
    if data >> RANK_SHIFT == m.cta.rank:
        m.fault(
            "PEER-IS-SELF",
            f"{what} goes to the executing CTA itself (rank {m.cta.rank}); this form is for other CTAs",
            hint="map the address to another CTA with mapa, or use an ordinary store",
            lanes=(lane,),
        )
