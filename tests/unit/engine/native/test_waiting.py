"""Fast products into one D wait for each other, and come out as if they did not, to the bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from drywell.engine.native.learn import Tables
from drywell.engine.native.tensor_core import PLAN, plan_of_arrays
from drywell.engine.native.tensor_core_multiplier import Multiplier
from drywell.engine.native.waiting import MOST_K, WAITING
from drywell.examples import packaged
from drywell.host.launch import launch
from drywell.host.tensor_maps import tensor_map
from drywell.isa.tcgen05_arithmetic import Terms
from unit.engine.native.tensor_core_cases import descriptor
from unit.engine.native.test_tensor_core_fast import FAST

ROWS, COLS, K = 128, 64, 16


class Products:
    """Multiplications of `COLS` columns at chosen cells of one Tensor Memory, which may wait."""

    def __init__(self) -> None:
        self.multiplier = Multiplier()
        self.cells = np.random.default_rng(5).standard_normal((ROWS, 512)).astype(np.float32)
        self.written = np.zeros((ROWS, 512), np.bool_)
        self.waiting = np.zeros(len(WAITING), np.int64)
        self.lanes = (np.arange(ROWS) * 512).astype(np.int32)
        self.kept: list[Any] = []

    def issue(self, col: int, seed: int, reads_d: bool = True, may_wait: bool = True) -> None:
        """Multiply random operands into the columns from `col` on."""
        rng = np.random.default_rng(seed)
        x, y = (rng.standard_normal((n, K)).astype(ml_dtypes.bfloat16).view(np.uint16) for n in (ROWS, COLS))
        terms = Terms(x, y, np.zeros((ROWS, COLS), np.uint32))
        plan = plan_of_arrays(descriptor("f16", "bf16", "bf16"), terms, 0, FAST, self.multiplier.scratch)
        assert plan is not None
        plan.words[PLAN["lanes"]] = self.lanes.ctypes.data
        image = np.concatenate([x.reshape(-1).view(np.uint8), y.reshape(-1).view(np.uint8)])
        arrays = image, self.cells, self.written
        homes = np.array([*(a.ctypes.data for a in arrays), 0xFFFF, self.cells.ctypes.data], np.int64)
        waiting = self.waiting.ctypes.data if may_wait else 0
        call = np.array([col, 0, 0, 0, reads_d, waiting], np.int64)
        assert self.multiplier._entry(plan.address, homes.ctypes.data, call.ctypes.data)
        self.kept += [plan, arrays]

    def perform(self) -> None:
        """Perform what waits."""
        assert self.multiplier._entry(None, self.waiting.ctypes.data, None)

    @property
    def depth(self) -> int:
        """Return how many k wait."""
        return int(self.waiting[WAITING["depth"]])


Issue = tuple[int, int, bool]


def at_once(issues: list[Issue]) -> NDArray[np.float32]:
    """Return the cells after multiplications that do not wait."""
    products = Products()
    for col, seed, reads_d in issues:
        products.issue(col, seed, reads_d, may_wait=False)
    return products.cells


def test_products_of_one_d_wait_until_they_are_performed() -> None:
    products = Products()
    before = products.cells.copy()
    for number in range(3):
        products.issue(32, number)
        assert products.depth == (number + 1) * K
    assert np.array_equal(products.cells, before)
    assert products.written[:, 32 : 32 + COLS].all() and products.written.sum() == ROWS * COLS
    products.perform()
    assert products.depth == 0
    assert np.array_equal(products.cells, at_once([(32, 0, True), (32, 1, True), (32, 2, True)]))


@pytest.mark.parametrize(
    ("issues", "depths"),
    [
        ([(0, n, True) for n in range(6)], [16, 32, 48, MOST_K, 16, 32]),
        ([(0, 0, True), (128, 1, True), (0, 2, True)], [16, 16, 16]),
        ([(0, 0, False), (0, 1, True), (0, 2, False), (0, 3, True)], [16, 32, 16, 32]),
        ([(0, 0, True), (32, 1, True), (64, 2, True)], [16, 16, 16]),
    ],
    ids=["too many", "another D", "a new D", "a D that overlaps"],
)
def test_what_cannot_join_comes_after_what_waits(issues: list[Issue], depths: list[int]) -> None:
    products, found = Products(), []
    for issue in issues:
        products.issue(*issue)
        found.append(products.depth)
    products.perform()
    assert found == depths
    assert np.array_equal(products.cells, at_once(issues))


def test_a_product_that_may_not_wait_comes_after_what_waits() -> None:
    products = Products()
    products.issue(0, 0)
    products.perform()
    products.issue(0, 1, may_wait=False)
    assert np.array_equal(products.cells, at_once([(0, 0, True), (0, 1, True)]))


def test_a_kernel_leaves_the_same_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    M, N, depth = 256, 256, 320
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((rows, depth), np.float32).astype(ml_dtypes.bfloat16) for rows in (M, N))
    bias = rng.standard_normal(N, np.float32)

    def run() -> NDArray[Any]:
        c = np.zeros((M, N), ml_dtypes.bfloat16)
        maps = [tensor_map(array, box=(128, 64), swizzle="128B") for array in (a, b, c)]
        launch(
            packaged.module()["gemm"],
            grid=2,
            block=packaged.THREADS,
            dynamic_smem=packaged.OPERAND_BYTES + packaged.STAGING_BYTES,
            args=[*maps, bias, M, N, depth],
            check="off",
            workers=1,
            numerics="fast",
            engine="jit",
        )
        return c

    waited = run()
    monkeypatch.setattr(Tables, "let_products_wait", lambda self: None)
    assert np.array_equal(run().view(np.uint16), waited.view(np.uint16))
