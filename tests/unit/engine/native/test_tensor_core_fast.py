"""`numerics="fast"` natively: as near the exact sum as float32 arithmetic is in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drywell.base.options import Options
from drywell.engine.native.tensor_core_multiplier import Multiplier
from drywell.isa.tcgen05_arithmetic import Terms, product
from drywell.numerics import FORMATS
from drywell.numerics.formats import to_float64
from unit.engine.native.tensor_core_cases import K_OF, M, N, descriptor, numbers, old_f16, old_f32

FAST = Options(numerics="fast")
EPSILON = 2.0**-23
FORMS = (
    ("f16", "f16", "f16"), ("f16", "bf16", "bf16"), ("tf32", "tf32", "tf32"),
    ("f8f6f4", "e4m3", "e5m2"), ("f8f6f4", "e2m1", "e3m2"), ("f8f6f4", "e2m3", "e4m3"),
)  # fmt: skip


def operands(kind: str, a: str, b: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(31)
    return numbers(rng, a, (M, K_OF[kind]), 6), numbers(rng, b, (N, K_OF[kind]), 6)


@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("reads_d", [False, True])
@pytest.mark.parametrize(("kind", "a", "b"), FORMS)
def test_a_fast_product_is_near_the_exact_one(kind: str, a: str, b: str, reads_d: bool, shift: int) -> None:
    x, y = operands(kind, a, b)
    old = old_f32(np.random.default_rng(1), 6, odd=0) if reads_d else None
    found = Multiplier().product(descriptor(kind, a, b), Terms(x, y, old), shift, FAST)
    assert found is not None
    left, right = to_float64(a, x), to_float64(b, y)
    before = 0 if old is None else to_float64("f32", old) * 2.0**-shift
    exact, size = left @ right.T + before, np.abs(left) @ np.abs(right).T + np.abs(before)
    # Each of K products and K additions is rounded once, to half of EPSILON of at most the sum of all sizes.
    assert (np.abs(found.view(np.float32) - exact) <= (K_OF[kind] + 1) * EPSILON * size).all()


def test_a_fast_f16_result_is_the_float_rounded_once() -> None:
    x, y = operands("f16", "f16", "f16")
    old = old_f16(np.random.default_rng(2))
    desc = descriptor("f16", "f16", "f16", "f16")
    found = Multiplier().product(desc, Terms(x, y, old), 0, FAST)
    wanted = product(desc, Terms(x, y, old), 0, FAST, None)  # type: ignore[arg-type]
    assert found is not None
    special = ~np.isfinite(wanted.view(np.float16))
    gap = np.abs(found.view(np.int16).astype(int) - wanted.view(np.int16))
    assert (np.minimum(gap, 0x8000 - gap)[~special] <= 1).all()
    assert np.isnan(found.view(np.float16)[np.isnan(wanted.view(np.float16))]).all()


def test_a_negated_fast_product_has_the_other_sign() -> None:
    x, y = operands("f16", "bf16", "bf16")
    one, other = (
        Multiplier().product(descriptor("f16", "bf16", "bf16", negate_a=flag), Terms(x, y, None), 0, FAST)
        for flag in (False, True)
    )
    assert one is not None and other is not None
    assert (one.view(np.float32) == -other.view(np.float32)).all()


@pytest.mark.parametrize(("kind", "a", "b"), FORMS)
def test_a_fast_inf_or_nan_is_left_to_numerics(kind: str, a: str, b: str) -> None:
    x, y = operands(kind, a, b)
    special = FORMATS[a]
    if not special.has_nan:
        pytest.skip("the format has none")
    x[3, 2] = special.canonical_nan
    assert Multiplier().product(descriptor(kind, a, b), Terms(x, y, None), 0, FAST) is None


def test_kinds_that_are_always_exact_stay_exact() -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.integers(0, 256, (rows, 32)).astype(np.uint8) for rows in (M, N))
    desc = descriptor("i8", "u8", "s8", "s32")
    found = Multiplier().product(desc, Terms(x, y, None), 0, FAST)
    assert (found == product(desc, Terms(x, y, None), 0, FAST, None)).all()  # type: ignore[arg-type]
