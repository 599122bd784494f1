"""What a GEMM moves: bytes and rows of one K step, and the share that misses L2 for the order of tiles."""

from __future__ import annotations

from drywell.arch import Gpu
from drywell.arch.timing import Timing
from drywell.base.record import record
from drywell.plan.gemm_config import GemmConfig

NARROW_ROW_BYTES = 16


@record
class Traffic:
    """Loads of one CTA and K step (bytes, rows of the tensor copies), its C, and the share from DRAM."""

    step_bytes: float
    step_rows: float
    row_cycles: float
    output_bytes: float
    num_tiles: int
    num_slots: int
    num_waves: int
    num_steps: int
    active_ctas: int
    miss: float


def traffic(c: GemmConfig, gpu: Gpu, t: Timing, ctas_per_sm: int) -> Traffic:
    """Count what `c` moves on `gpu` with `ctas_per_sm` CTAs on each SM."""
    M, N, K = c.tile
    row_tiles, col_tiles = -(-c.m // M), -(-c.n // N)
    tiles = row_tiles * col_tiles
    slots = gpu.sm_count // c.cta_group * ctas_per_sm
    k_bytes = K * c.element_bytes
    loaded_rows = c.rows + N // c.cta_group
    rows = loaded_rows * max(1.0, k_bytes / c.tma_row_bytes) + c.scale_bytes / c.tma_row_bytes
    narrow = c.tma_row_bytes <= NARROW_ROW_BYTES
    return Traffic(
        step_bytes=c.stage_bytes,
        step_rows=rows,
        row_cycles=t.tma_narrow_row_cycles if narrow else t.tma_row_cycles,
        output_bytes=c.rows * N * c.c_bytes,
        num_tiles=tiles,
        num_slots=slots,
        num_waves=-(-tiles // slots),
        num_steps=-(-c.k // K),
        active_ctas=min(tiles, slots) * c.cta_group,
        miss=miss_share(c, t, min(tiles, slots), row_tiles, col_tiles),
    )


def miss_share(c: GemmConfig, t: Timing, concurrent: int, row_tiles: int, col_tiles: int) -> float:
    """Return which share of the loads comes from DRAM when `concurrent` tiles run side by side.

    Tiles of one wave share rows of A and columns of B through L2. What a wave leaves there serves the next
    one as far as A and B fit: whole when they are no larger than L2, not at all from twice that on. At 8192
    cubed this gives 2.0 GB of loads without grouping and 1.3 with it; NVIDIA/tilus
    examples/blackwell_matmul/benchmark.py measured 2.1 and 1.0.
    """
    M, N, _ = c.tile
    down = min(c.raster or row_tiles, row_tiles, concurrent)
    across = min(col_tiles, max(1.0, concurrent / down))
    of_wave = (down * M + across * N) / (concurrent * (M + N))
    of_all = (c.m + c.n) / (row_tiles * col_tiles * (M + N))
    return missing(t, of_wave, of_all, (c.m + c.n) * c.k * c.element_bytes)


def missing(t: Timing, of_wave: float, of_all: float, operand_bytes: float) -> float:
    """Return which share of the loads misses L2, when `of_wave` of a wave's are of what no other of it loads,
    and the operands are `of_all` of all that is loaded: what stays there from wave to wave is in between.
    """
    kept = min(1.0, max(0.0, 2 - operand_bytes / 1e6 / t.l2_mb))
    return min(1.0, kept * of_all + (1 - kept) * max(of_wave, of_all))
