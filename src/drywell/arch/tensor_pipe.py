"""How long the tensor pipe takes: one `tcgen05.mma`, and one K step of a tile.

The instruction's K is 32 bytes whatever the format, so cycles do not depend on the format. N columns
are multiplied at a fixed rate; the operands that lie in shared memory come at 128 bytes a cycle; the
slower of the two is the interval at which equal instructions follow each other.
"""

from __future__ import annotations

from typing import Literal

from drywell.arch.timing import Timing

K_BYTES = 32
"""SPEC: the bytes of K in one dense tcgen05.mma. Source: PTX ISA, tcgen05.mma, shapes per `.kind`."""

Operands = Literal["SS", "TS"]
"""Where A lies: in shared memory (SS) or in Tensor Memory (TS). B lies in shared memory."""


def mma_interval_cycles(t: Timing, M: int, N: int, cta_group: int = 1, operands: Operands = "SS") -> float:
    """Return the cycles from one tcgen05.mma to the next of the same shape, both ready.

    M and N are the instruction's, so those of the pair when `cta_group` is 2.

    >>> from drywell.arch.timing import timing
    >>> mma_interval_cycles(timing("b200"), 128, 256), mma_interval_cycles(timing("b200"), 128, 64)
    (128.0, 48.0)
    """
    is_half_pair = cta_group == 2 and M == 128
    math = N / (t.mma_pair_m128_cols_per_cycle if is_half_pair else t.mma_cols_per_cycle)
    a_bytes = M // cta_group * K_BYTES if operands == "SS" else 0
    operand = (a_bytes + N // cta_group * K_BYTES) / t.smem_bytes_per_cycle
    if operand > math and cta_group == 2:
        operand += t.mma_pair_m128_smem_extra_cycles if is_half_pair else t.mma_pair_m256_smem_extra_cycles
    floor = t.mma_pair_m128_ts_floor_cycles if is_half_pair and operands == "TS" else 0.0
    return max(math, operand, floor)


def mma_latency_cycles(
    t: Timing, M: int, N: int, cta_group: int = 1, operands: Operands = "SS", block_scaled: bool = False
) -> float:
    """Return the cycles from the issue of one tcgen05.mma on an idle pipe to the return of the wait for it.

    >>> from drywell.arch.timing import timing
    >>> mma_latency_cycles(timing("b200"), 128, 256)
    264.0
    """
    is_half_pair = cta_group == 2 and M == 128
    columns = N / (t.mma_pair_m128_cols_per_cycle if is_half_pair else t.mma_cols_per_cycle)
    return columns + mma_overhead_cycles(t, M, cta_group, operands, block_scaled)


def mma_overhead_cycles(
    t: Timing, M: int, cta_group: int = 1, operands: Operands = "SS", block_scaled: bool = False
) -> float:
    """Return the cycles that issue, commit and wait add to those of the columns."""
    return _overhead(t, M, cta_group, operands) + block_scaled * t.mma_latency_block_scaled_cycles


def _overhead(t: Timing, M: int, cta_group: int, operands: Operands) -> float:
    """Return the overhead without block scaling, by form."""
    if cta_group == 1:
        if operands == "TS":
            return t.mma_latency_ts_cycles
        return t.mma_latency_m64_ss_cycles if M <= 64 else t.mma_latency_m128_ss_cycles
    if M == 128:
        return t.mma_latency_pair_m128_ss_cycles if operands == "SS" else t.mma_latency_pair_m128_ts_cycles
    return t.mma_latency_pair_m256_ss_cycles if operands == "SS" else t.mma_latency_pair_m256_ts_cycles
