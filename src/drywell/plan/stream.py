"""The main loop of one CTA alone on the chip, its operands streamed from DRAM."""

from __future__ import annotations

from drywell.arch.tensor_pipe import K_BYTES, mma_interval_cycles, mma_overhead_cycles
from drywell.arch.timing import Timing

ROW_BYTES = 128
"""The widest row of a tensor copy with a swizzle, in bytes."""


def stream_step_cycles(t: Timing, tile: tuple[int, int, int], stages: int, element_bytes: float) -> float:
    """Return the cycles of one K step of a warp-specialised loop over `stages` >= 2 buffers.

    `tile` is (M, N, K) in elements, M at most 128. The step takes as long as its slowest part: the tensor
    pipe, the copy engine, the issue of the loads, or a stage's round trip shared by the stages in flight.

    >>> from drywell.arch.timing import timing
    >>> round(stream_step_cycles(timing("b200"), (128, 64, 64), 8, 2), -1)
    300.0
    """
    M, N, K = tile
    k_bytes = K * element_bytes
    row_bytes = min(ROW_BYTES, k_bytes)
    boxes = max(1.0, k_bytes / ROW_BYTES)
    rows = (M + N) * boxes
    mma = k_bytes / K_BYTES * mma_interval_cycles(t, M, N)
    arrival = t.stream_latency_cycles + rows * (t.stream_row_cycles + t.stream_byte_cycles * row_bytes)
    wide_b = N * boxes * t.stream_wide_b_cycles if row_bytes >= ROW_BYTES else 0.0
    return max(
        mma,
        rows * t.stream_transfer_cycles,
        wide_b,
        boxes * (t.stream_issue_cycles + (M + N) * t.stream_issue_row_cycles),
        (arrival + mma + mma_overhead_cycles(t, M)) / stages,
    )
