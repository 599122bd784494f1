"""How wide a subtile of the epilogue to take: iterations and waits against registers, shared memory and the
stages of the main loop that it costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drywell.arch import Gpu
from drywell.base.record import record
from drywell.plan.gemm import predict
from drywell.plan.gemm_budget import ROLE_REGISTERS
from drywell.plan.gemm_config import GemmConfig

_WIDTHS = (8, 16, 32, 64, 128)
_LANE_WARPS = 4


@record
class Subtile:
    """An epilogue that takes `cols` columns at a time: how often each warp does so for one tile, the
    registers of its threads, the bytes of shared memory that C takes, the most stages that fit beside them
    (0: none), and the speed predicted with these stages.
    """

    cols: int
    iterations: int
    registers: int
    smem_bytes: int
    stages: int
    tflops: float | None


def subtiles(config: GemmConfig, gpu: Gpu) -> tuple[Subtile, ...]:
    """Return what each width of a subtile costs, with as many stages as fit.

    >>> from drywell.arch import load
    >>> found = subtiles(GemmConfig(4096, 4096, 4096, tile=(256, 256, 64), cta_group=2), load("b200"))
    >>> [(one.cols, one.iterations, one.smem_bytes, one.stages) for one in found[1:4]]
    [(16, 16, 4096, 6), (32, 8, 8192, 6), (64, 4, 16384, 6)]
    """
    return tuple(_subtiles(config, gpu))


def _subtiles(config: GemmConfig, gpu: Gpu) -> Iterator[Subtile]:
    cols_per_warp = config.accumulator_cols * _LANE_WARPS // config.epilogue_warps
    for cols in _WIDTHS:
        if cols > cols_per_warp:
            return
        one = replace(config, epilogue_cols=cols, stages=1, lookahead=None)
        free = gpu.smem_bytes_per_cta - (one.smem_bytes - one.stage_bytes if config.persistent else 0)
        stages = max(0, free // one.stage_bytes)
        while stages and replace(one, stages=stages).smem_bytes > gpu.smem_bytes_per_cta:
            stages -= 1
        fits = stages and config.tmem_cols <= gpu.tmem_cols and not config.a_in_tmem
        yield Subtile(
            cols,
            iterations=-(-cols_per_warp // cols),
            registers=cols + ROLE_REGISTERS,
            smem_bytes=config.rows * cols * config.c_bytes if config.epilogue == "tma" else 0,
            stages=stages,
            tflops=predict(replace(one, stages=stages), gpu.name).tflops if fits else None,
        )
