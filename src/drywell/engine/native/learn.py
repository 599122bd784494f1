"""What one run's native code is told: where its CTAs are, and plans, which are made when they are missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native.plans import KINDS, PlanTable

if TYPE_CHECKING:
    from drywell.machine.grid import Grid
    from drywell.machine.warp import Warp


MAX_PLANS = 1 << 16


class Tables:
    """The tables of a grid's plans; to be made anew when global memory has moved."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
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
        else:
            self._learn_copy(warp, key)

    def map_plan(self, address: int) -> NDArray[np.uint64] | None:
        """Return the plan of the tensor map at an address, None when it was not asked for."""
        return self._maps.get(address)

    def _learn_map(self, warp: Warp, address: int) -> None:
        from drywell.engine.native import tma_plan

        plan = tma_plan.plan_of(warp, address)
        if plan is not None:
            self._maps.set(address, plan)

    def _learn_product(self, warp: Warp, key: list[int]) -> None:
        from drywell.engine.native import mma, tensor_core_entry

        if self._scratch is None:
            self._scratch = tensor_core_entry.scratch()
        made = mma.plan_of(warp, key, self._scratch)
        if made is not None and len(self._products) < MAX_PLANS:
            self._products.set(made.key, made.words, made.kept)

    def _learn_copy(self, warp: Warp, key: list[int]) -> None:
        from drywell.engine.native import cp

        made = cp.plan_of(warp, key)
        if made is not None and len(self._copies) < MAX_PLANS:
            self._copies.set(made.key, made.words, made.kept)
