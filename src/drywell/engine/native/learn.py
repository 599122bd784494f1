"""What one run's native code is told: where its CTAs are, and plans, which are made when they are missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native import cp, mma, tma
from drywell.engine.native.plans import KINDS, PlanTable
from drywell.engine.native.state import Rows
from drywell.engine.native.tensor_core_entry import SCRATCH_BYTES

if TYPE_CHECKING:
    from drywell.machine.grid import Grid
    from drywell.machine.warp import Warp


class Tables:
    """The rows of a grid's CTAs and the tables of its plans; to be made anew when global memory has moved."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.rows = Rows()
        self.plans = np.zeros(2 * len(KINDS), np.uint64)
        self._maps = PlanTable(self.plans, "map")
        self._products = PlanTable(self.plans, "product")
        self._copies = PlanTable(self.plans, "copy")
        self._scratch: NDArray[np.uint8] | None = None

    def learn(self, warp: Warp, kind: int, key: list[int]) -> None:
        """Make the plan of a kind that `key` asks for; what cannot be is for the interpreter to say."""
        if kind == KINDS["map"]:
            self._learn_map(warp, key[0])
        elif kind == KINDS["product"]:
            self._learn_product(warp, key)
        elif (copy := cp.plan_of(warp, key)) is not None and len(self._copies) < mma.MAX_PLANS:
            self._copies.set(copy.key, copy.words, copy.kept)

    def _learn_map(self, warp: Warp, address: int) -> None:
        plan = tma.plan_of(warp, address)
        if plan is not None:
            self._maps.set(address, plan)

    def _learn_product(self, warp: Warp, key: list[int]) -> None:
        if self._scratch is None:
            self._scratch = np.zeros(SCRATCH_BYTES, np.uint8)
        made = mma.plan_of(warp, key, self._scratch)
        if made is not None and len(self._products) < mma.MAX_PLANS:
            self._products.set(made.key, made.words, made.kept)
