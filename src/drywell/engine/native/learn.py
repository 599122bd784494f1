"""What native code is told: plans, which are made when they are missed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native.plans import KINDS, PLACE_OF_WAITING, PlanTable
from drywell.engine.native.waiting import WAITING

if TYPE_CHECKING:
    from drywell.engine.native import cp, mma
    from drywell.engine.threaded import Threaded
    from drywell.machine.grid import Grid
    from drywell.machine.warp import Warp


MAX_PLANS = 1 << 16

MAX_KEPT = 256
"""Plans that are kept for the next run."""


def tables_of(threaded: Threaded, grid: Grid) -> Tables:
    """Return the tables of a run that has been lent `threaded`: with what an earlier one has learnt under the
    same options.
    """
    options = replace(grid.options, workers=None)
    learnt, tables = threaded.learnt or (None, None)
    if tables is None or learnt != options or tables.num_kept > MAX_KEPT:
        tables = Tables()
        threaded.learnt = options, tables
    tables.begin(grid)
    return tables


class Tables:
    """The tables of plans of a run: those of products and copies are of nothing but the options. Those of
    tensor maps are of where its arrays lie, and made anew for each run: at first those that the one before
    had at the same addresses.
    """

    def __init__(self) -> None:
        self.plans = np.zeros(PLACE_OF_WAITING + 1, np.uint64)
        self._waiting = np.zeros(len(WAITING), np.int64)
        self._products = PlanTable(self.plans, "product")
        self._copies = PlanTable(self.plans, "copy")
        self._maps = PlanTable(self.plans, "map")
        self._scratch: NDArray[np.uint8] | None = None

    def begin(self, grid: Grid) -> None:
        """Let a run begin, in which no product waits yet."""
        before, self._maps = self._maps, PlanTable(self.plans, "map")
        for address in before:
            self._learn_map(grid, address)
        self._waiting.fill(0)
        self.plans[PLACE_OF_WAITING] = 0

    @property
    def num_kept(self) -> int:
        """Return how many plans the next run could use."""
        return len(self._products) + len(self._copies) + len(self._maps)

    def let_products_wait(self) -> None:
        """Let products wait for others of the same D. Who runs compiled code performs what is left."""
        self.plans[PLACE_OF_WAITING] = self._waiting.ctypes.data

    def perform_waiting(self) -> None:
        """Perform the products that wait."""
        if self._waiting[WAITING["depth"]]:
            from drywell.engine.native import tensor_core_module

            perform = tensor_core_module.function(tensor_core_module.load())
            perform(None, self._waiting.ctypes.data, None)

    def learn(self, warp: Warp, kind: int, key: list[int]) -> bool:
        """Make the plan of a kind that `key` asks for, and say whether there is one now that was not there;
        what cannot be is for the interpreter to say.
        """
        if kind == KINDS["map"]:
            return self._learn_map(warp.grid, key[0])
        if kind == KINDS["product"]:
            return self._learn_product(warp, key)
        return self._learn_copy(warp, key)

    def map_plan(self, address: int) -> NDArray[np.uint64] | None:
        """Return the plan of the tensor map at an address, None when it was not asked for."""
        return self._maps.get(address)

    def _learn_map(self, grid: Grid, address: int) -> bool:
        from drywell.engine.native import tma_plan

        plan, before = tma_plan.plan_of(grid, address), self._maps.get(address)
        if plan is None:
            return False
        self._maps.set(address, plan)
        return before is None

    def _learn_product(self, warp: Warp, key: list[int]) -> bool:
        from drywell.engine.native import mma, tensor_core_entry

        if self._scratch is None:
            self._scratch = tensor_core_entry.scratch()
        return self._keep(self._products, mma.plan_of(warp, key, self._scratch))

    def _learn_copy(self, warp: Warp, key: list[int]) -> bool:
        from drywell.engine.native import cp

        return self._keep(self._copies, cp.plan_of(warp, key))

    def _keep(self, table: PlanTable, made: mma.Made | cp.Made | None) -> bool:
        if made is None or len(table) >= MAX_PLANS:
            return False
        before = table.get(made.key)
        table.set(made.key, made.words, made.kept)
        return before is None
