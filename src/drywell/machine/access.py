"""Which memory each lane's address means, per state space, with every check made.

A space is spelt as in `isa/ops.py`: '' (generic), global, const, shared, shared::cta, shared::cluster,
local, param.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import KernelFault
from drywell.base.events import Space
from drywell.machine import smem
from drywell.machine.gmem import misaligned
from drywell.machine.lanes import LANES, LaneBuffer, Mask, Offsets, active_values, lane_list
from drywell.machine.windows import CALL_PARAMS, from_generic, space_of

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

Addresses = NDArray[Any]


@dataclass(slots=True)
class Part:
    """The lanes of one access that go to one memory: `offsets` (int64[32]) into `buffer` where `mask` is
    set. `home` is the CTA whose shared or local memory it is, by its number in the grid.
    """

    space: Space
    buffer: LaneBuffer
    offsets: Offsets
    mask: Mask
    addresses: Addresses
    home: int = -1


def resolve(
    warp: Warp, space: str, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool
) -> list[Part]:
    """Return the parts of one access of `size` bytes per lane; raises the KernelFault of the first check
    that fails.
    """
    return _SPACES[space](warp, addresses, mask, size, align, is_write)


def _global(
    warp: Warp, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool
) -> list[Part]:
    gmem = warp.grid.gmem
    offsets = gmem.offsets(addresses, mask, size, align, is_write)
    return [Part("global", gmem.buffer, offsets, mask, addresses)]


def _local(warp: Warp, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool) -> list[Part]:
    offsets = warp.local.offsets(addresses, mask, size, align, is_write)
    return [Part("local", warp.local.buffer, offsets, mask, addresses, warp.cta.linear)]


def _param(warp: Warp, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool) -> list[Part]:
    if max(active_values(addresses, mask), default=0) < CALL_PARAMS:
        params = warp.grid.params
        offsets = params.offsets(addresses, mask, size, align, is_write)
        return [Part("param", params.buffer, offsets, mask, addresses)]
    is_call = mask & (addresses >= CALL_PARAMS)
    parts = []
    for memory, lanes in ((warp.call_params, is_call), (warp.grid.params, mask & ~is_call)):
        if lanes.any():
            offsets = memory.offsets(addresses, lanes, size, align, is_write)
            parts.append(Part("param", memory.buffer, offsets, lanes, addresses))
    return parts


def _shared_cta(
    warp: Warp, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool
) -> list[Part]:
    return _shared(warp, addresses, mask, size, align, is_write, False)


def _shared_cluster(
    warp: Warp, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool
) -> list[Part]:
    return _shared(warp, addresses, mask, size, align, is_write, True)


def _shared(
    warp: Warp, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool, is_cluster: bool
) -> list[Part]:
    own = warp.cta.smem
    active = active_values(addresses, mask)
    if not active:
        return []
    if align > 1 and any(a & (align - 1) for a in active):
        lanes = lane_list(mask & ((addresses % align) != 0))
        first = int(addresses[lanes[0]])
        raise misaligned(own.name_of(smem.split(first)[1]), first, size, align, is_write, lanes)
    if min(active) >= own.base + smem.RESERVED_BYTES and max(active) + size <= own.base + own.end:
        offsets = addresses.astype(np.int64)
        if own.base:
            offsets -= own.base
        return [Part("shared", own.buffer, offsets, mask, addresses, warp.cta.linear)]
    return _shared_slow(warp, addresses, mask, size, is_write, is_cluster)


def _shared_slow(
    warp: Warp, addresses: Addresses, mask: Mask, size: int, is_write: bool, is_cluster: bool
) -> list[Part]:
    """Resolve lane by lane: several CTAs are meant, or somebody is out of bounds."""
    verb = "write" if is_write else "read"
    offsets = np.zeros(LANES, np.int64)
    owners: dict[int, tuple[smem.SharedMemory, Mask]] = {}
    for lane in lane_list(mask):
        try:
            memory, offset = smem.owner(warp.cta, int(addresses[lane]), is_cluster, f"{verb} of {size} bytes")
            memory.view(offset, size, is_write)
        except KernelFault as fault:
            fault.lanes = (lane,)
            raise
        offsets[lane] = offset
        owners.setdefault(memory.rank, (memory, np.zeros(LANES, np.bool_)))[1][lane] = True
    return [
        Part("shared", memory.buffer, offsets, lanes, addresses, memory.cta.linear)
        for memory, lanes in owners.values()
    ]


def _generic(
    warp: Warp, addresses: Addresses, mask: Mask, size: int, align: int, is_write: bool
) -> list[Part]:
    spaces = [space_of(a) for a in addresses.tolist()]
    present = {space for space, on in zip(spaces, mask.tolist(), strict=True) if on}
    parts: list[Part] = []
    for space in sorted(present):
        lanes = mask
        if len(present) > 1:
            lanes = mask & np.array([s == space for s in spaces])
        inner = addresses
        if space != "global":
            inner = (addresses.astype(np.uint64) & np.uint64(0xFFFF_FFFF)).astype(np.int64)
            inner = np.where(lanes, inner, 0)
        parts += _SPACES["shared::cluster" if space == "shared" else space](
            warp, inner, lanes, size, align, is_write
        )
    return parts


_SPACES: dict[str, Callable[[Warp, Addresses, Mask, int, int, bool], list[Part]]] = {
    "": _generic,
    "generic": _generic,
    "global": _global,
    "const": _global,
    "shared": _shared_cta,
    "shared::cta": _shared_cta,
    "shared::cluster": _shared_cluster,
    "local": _local,
    "param": _param,
    "param::entry": _param,
    "param::func": _param,
}


def single(warp: Warp, space: str, address: int) -> tuple[str, int]:
    """Return the concrete space of one address (generic ones looked up) and the address within it."""
    if space not in ("", "generic"):
        return space, address
    found = space_of(address)
    return ("shared::cluster" if found == "shared" else found), from_generic(found, address)
