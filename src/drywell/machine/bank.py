"""What a cluster hands down to the one that comes after it: clearing arrays costs less than making others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drywell.machine.barrier import NamedBarriers
from drywell.machine.lanes import LANES, Bytes, Mask
from drywell.machine.smem import SharedMemory
from drywell.machine.tmem_words import TmemHolding

if TYPE_CHECKING:
    from drywell.machine.grid import Cluster, Cta


class Bank:
    """Registers and carry bits per warp, shared memory, named barriers, what is held of Tensor Memory; `pool`
    is how many registers are free for setmaxnreg, and how many each thread of each warp has (0: not known).
    `row` and `contexts` are for what knows where these lie.
    """

    __slots__ = (
        "_first_pool", "_of_warps", "barriers", "carry", "contexts", "pool", "registers", "row", "smem",
        "tmem",
    )  # fmt: skip

    def __init__(self, cta: Cta) -> None:
        kernel, num_warps = cta.grid.kernel, cta.grid.num_warps
        size = kernel.registers.nbytes
        self._of_warps: Bytes = cta.grid.memory.zeros(np.uint8, num_warps * (size + LANES))
        self.registers: Bytes = self._of_warps[: num_warps * size].reshape(num_warps, size)
        self.carry: Mask = self._of_warps[num_warps * size :].view(np.bool_).reshape(num_warps, LANES)
        self.smem = SharedMemory(cta, kernel.smem_bytes, kernel.symbols)
        self.barriers = NamedBarriers(cta)
        self.tmem = TmemHolding()
        self.pool = np.zeros(1 + num_warps, np.int64)
        self.pool[1:] = kernel.max_registers or 0
        self._first_pool = self.pool.copy()
        self.row: Any = None
        self.contexts: Any = None

    def renew(self, cta: Cta) -> None:
        """Make it as a new one is, for another CTA."""
        self._of_warps.fill(0)
        self.smem.renew(cta)
        self.barriers.renew(cta)
        self.tmem.renew()
        self.pool[:] = self._first_pool


class Berth:
    """The banks of a cluster's CTAs, by rank, and in `arrivals` whether lanes have arrived at its barrier.
    `rows` and `team` are for what knows where these lie.
    """

    __slots__ = ("arrivals", "banks", "rows", "team")

    def __init__(self, cluster: Cluster) -> None:
        self.banks = tuple([Bank(cta) for cta in cluster.ctas])
        self.arrivals = np.zeros(1, np.int64)
        self.rows: Any = None
        self.team: Any = None

    def renew(self, cluster: Cluster) -> None:
        """Make it as a new one is, for another cluster."""
        self.arrivals[0] = 0
        for bank, cta in zip(self.banks, cluster.ctas, strict=True):
            bank.renew(cta)
