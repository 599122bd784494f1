"""Shared memory of one CTA, and the rule of the window it is seen through.

MEASURED (H200, cluster of four): a shared address is `rank << 24 | offset` in every CTA, its own
included; the first 0x400 bytes are the system's; another CTA's rank in a `.shared` or `.shared::cta`
access faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from drywell.base.errors import KernelFault
from drywell.base.record import record
from drywell.machine.lanes import Bytes, LaneBuffer
from drywell.machine.windows import OFFSET_MASK, RANK_SHIFT

if TYPE_CHECKING:
    from drywell.machine.grid import Cta
    from drywell.machine.mbarrier import Ledger

RESERVED_BYTES = 0x400
WINDOW_BYTES = 233_472
_ROUND = 1024


@record
class SmemSymbol:
    """A `.shared` variable: its name, offset in the window (0x400 is the first usable) and bytes."""

    name: str
    offset: int
    nbytes: int


def name_in(symbols: Sequence[SmemSymbol], offset: int) -> str:
    """Name a byte of shared memory: `full+8` by the symbol it lies in, else `shared+0x408`.

    The zero-sized symbol of dynamic memory (`.extern .shared x[]`) owns everything behind it.
    """
    owner = None
    for symbol in symbols:
        inside = symbol.offset <= offset and (not symbol.nbytes or offset < symbol.offset + symbol.nbytes)
        if inside and (owner is None or symbol.offset > owner.offset):
            owner = symbol
    if owner is None:
        return f"shared+0x{offset:x}"
    return owner.name if offset == owner.offset else f"{owner.name}+{offset - owner.offset}"


class SharedMemory:
    """One CTA's shared memory: bytes `[0x400, end)` of its window may be used. `data` is indexed by
    window offset.

    `words` are the 64-bit words of live mbarriers, indexed by offset / 8; memory shows a word only after
    `inval`. `ledgers` has one entry per live mbarrier, by offset; `live` says by offset / 8 where one is and
    `phases` in which phase. `reachable[0]` is 1 once another CTA has reached it and until its CTA exits.
    """

    def __init__(self, cta: Cta, nbytes: int, symbols: Sequence[SmemSymbol] = ()) -> None:
        self.cta = cta
        self.rank = cta.rank
        self.base = cta.rank << RANK_SHIFT
        self.end = RESERVED_BYTES + nbytes
        size, memory = -(-self.end // _ROUND) * _ROUND, cta.grid.memory
        self.data: Bytes = memory.zeros(np.uint8, size)
        self.buffer = LaneBuffer(self.data)
        self.words = memory.zeros(np.uint64, size // 8)
        self.live: Bytes = memory.zeros(np.uint8, size // 8)
        self.phases = memory.zeros(np.uint32, size // 8)
        self.reachable: Bytes = np.zeros(1, np.uint8)
        self.ledgers: dict[int, Ledger] = {}
        self.symbols: tuple[SmemSymbol, ...] = tuple(symbols)

    def renew(self, cta: Cta) -> None:
        """Make it as a new one is, for another CTA."""
        self.cta, self.rank, self.base = cta, cta.rank, cta.rank << RANK_SHIFT
        self.data.fill(0)
        live = self.live.tobytes()
        first, last = live.find(1), live.rfind(1)  # what is no mbarrier's is not read
        for array in (self.words, self.phases, self.live) if last >= 0 else ():
            array[first : last + 1] = 0
        self.reachable[0] = 0
        self.ledgers = {}

    def name_of(self, offset: int) -> str:
        """Name a byte by the symbol it lies in."""
        return name_in(self.symbols, offset)

    def forget(self) -> None:
        """Let go of the bytes: no CTA reaches them again."""
        self.data = np.zeros(0, np.uint8)
        self.buffer = LaneBuffer(self.data)
        self.words, self.live, self.phases = self.data.view(np.uint64), self.data, self.data.view(np.uint32)
        self.ledgers = {}

    def misfit(self, offset: int, size: int) -> str:
        """Say why `[offset, offset + size)` may not be touched; '' when it may."""
        if RESERVED_BYTES <= offset and offset + size <= self.end:
            return ""
        if offset < RESERVED_BYTES:
            return f"offset 0x{offset:x} lies in the first 0x{RESERVED_BYTES:x} bytes, which the system keeps"
        past = offset + size - self.end
        return f"{self.name_of(offset)} (offset 0x{offset:x}) runs {past} bytes past the CTA's 0x{self.end:x}"

    def view(self, offset: int, size: int, is_write: bool = False) -> Bytes:
        """Return `size` bytes at window offset `offset` as a view; fault SHARED-WINDOW when out of
        bounds.
        """
        problem = self.misfit(offset, size)
        if problem:
            verb = "write" if is_write else "read"
            raise KernelFault("SHARED-WINDOW", f"{verb} of {size} bytes of shared memory: {problem}")
        return self.data[offset : offset + size]


def split(address: int) -> tuple[int, int]:
    """Split a shared-window address into CTA rank and offset.

    >>> split(0x02000400)
    (2, 1024)
    """
    return address >> RANK_SHIFT, address & OFFSET_MASK


def owner(cta: Cta, address: int, is_cluster: bool, what: str) -> tuple[SharedMemory, int]:
    """Return the shared memory that `address` means to `cta`, and the offset in it.

    Without `is_cluster` (`.shared`, `.shared::cta`) another CTA's rank is the fault SHARED-WINDOW; with
    it, a rank the cluster has not is SHARED-WINDOW, one whose CTA has ended PEER-EXIT-EARLY, and one whose
    CTA has executed nothing yet PEER-NOT-STARTED (nothing can have told this CTA that it runs). `what`
    begins the message.
    """
    rank, offset = split(address)
    if rank == cta.rank:
        return cta.smem, offset
    if not is_cluster:
        raise KernelFault(
            "SHARED-WINDOW",
            f"{what} at shared address 0x{address:08x} names CTA rank {rank}, but this CTA has rank"
            f" {cta.rank}",
            hint="a mapa result needs the .shared::cluster form",
        )
    ctas = cta.cluster.ctas
    reaches = f"{what} at shared address 0x{address:08x} reaches CTA rank {rank}"
    if rank >= len(ctas):
        raise KernelFault(
            "SHARED-WINDOW",
            f"{what} at shared address 0x{address:08x} names CTA rank {rank} of a cluster of {len(ctas)}",
        )
    if ctas[rank].has_exited:
        raise KernelFault(
            "PEER-EXIT-EARLY",
            f"{reaches}, which has exited",
            hint="let the peer wait at a cluster barrier before it returns",
        )
    if not ctas[rank].has_started:
        raise KernelFault(
            "PEER-NOT-STARTED",
            f"{reaches}, which has not executed an instruction yet: its shared memory need not be there",
            hint="meet at a cluster barrier before the first access to another CTA's shared memory",
        )
    ctas[rank].smem.reachable[0] = 1
    return ctas[rank].smem, offset
