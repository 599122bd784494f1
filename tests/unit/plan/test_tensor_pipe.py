"""Laws of the closed form of one tcgen05.mma, and values that a B200 was measured to take."""

from __future__ import annotations

import pytest

from drywell.arch.tensor_pipe import mma_interval_cycles, mma_latency_cycles
from drywell.arch.timing import timing
from drywell.plan.stream import stream_step_cycles

T = timing("b200")


@pytest.mark.parametrize(
    ("form", "cycles"),
    [
        ((64, 64, 1, "SS"), 32), ((64, 256, 1, "SS"), 128), ((128, 64, 1, "SS"), 48),
        ((128, 96, 1, "SS"), 56), ((128, 256, 1, "SS"), 128), ((128, 64, 1, "TS"), 32),
        ((128, 64, 2, "SS"), 25), ((128, 256, 2, "SS"), 64), ((128, 64, 2, "TS"), 18),
        ((256, 64, 2, "SS"), 43), ((256, 256, 2, "SS"), 128), ((256, 64, 2, "TS"), 32),
    ],
)  # fmt: skip
def test_the_interval_is_the_slower_of_multiplying_and_of_feeding(form, cycles) -> None:
    # cycles per MMA in chains of 256 of microbench-blackwell, umma_throughput.csv
    assert mma_interval_cycles(T, *form) == cycles


@pytest.mark.parametrize("operands", ["SS", "TS"])
@pytest.mark.parametrize(("M", "group"), [(64, 1), (128, 1), (128, 2), (256, 2)])
def test_a_wider_instruction_never_takes_less(M, group, operands) -> None:
    times = [mma_interval_cycles(T, M, N, group, operands) for N in range(32, 257, 32)]
    assert times == sorted(times)
    waits = [mma_latency_cycles(T, M, N, group, operands) for N in range(32, 257, 32)]
    assert waits == sorted(waits) and all(wait > time for wait, time in zip(waits, times, strict=True))


def test_a_in_tensor_memory_is_never_slower() -> None:
    for M, group in ((64, 1), (128, 1), (256, 2)):
        for N in (64, 96, 128, 256):
            assert mma_interval_cycles(T, M, N, group, "TS") <= mma_interval_cycles(T, M, N, group, "SS")
            assert mma_latency_cycles(T, M, N, group, "TS") < mma_latency_cycles(T, M, N, group, "SS")


def test_block_scaling_adds_to_the_latency_alone() -> None:
    plain = mma_latency_cycles(T, 128, 128)
    assert plain + T.mma_latency_block_scaled_cycles == mma_latency_cycles(T, 128, 128, block_scaled=True)


def test_more_stages_never_slow_a_lone_loop_and_the_tensor_pipe_bounds_it_from_below() -> None:
    for tile in ((64, 64, 64), (128, 128, 64), (128, 256, 64)):
        steps = [stream_step_cycles(T, tile, stages, 2) for stages in range(2, 9)]
        assert steps == sorted(steps, reverse=True)
        assert steps[-1] >= 4 * mma_interval_cycles(T, *tile[:2])
