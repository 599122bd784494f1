"""Numbers of a launch file rounded to the formats of its buffers."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from drywell.host.comparison import decode, encode


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 4096), (101, 991)])
def test_numbers_of_any_shape_are_rounded_one_by_one(shape: tuple[int, ...]) -> None:
    numbers = np.asarray(np.random.default_rng(1).standard_normal(shape, np.float32))
    expected = numbers.astype(ml_dtypes.bfloat16)
    assert encode(numbers, "bf16").tobytes() == expected.tobytes()
    assert decode(encode(numbers, "bf16"), "bf16").tolist() == expected.astype(np.float64).tolist()


def test_a_large_array_is_rounded_without_others_of_its_size() -> None:
    numbers = np.ones(1 << 20)
    tracemalloc.start()
    try:
        rounded = encode(numbers, "bf16")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < rounded.nbytes + numbers.nbytes / 8
