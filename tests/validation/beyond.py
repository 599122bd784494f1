"""Rows outside ladders.csv that nothing was fitted on and no score counts: formats, shared SMs, clocks."""

from __future__ import annotations

from typing import Any

from drywell.plan import GemmConfig, predict

PIPELINED: dict[str, Any] = {
    "tile": (128, 256, 256), "stages": 3, "accumulators": 1, "persistent": False, "warp_specialized": False,
    "lookahead": 2, "epilogue_cols": 256,
}  # fmt: skip
SPECIALIZED: dict[str, Any] = {
    "tile": (128, 256, 256), "stages": 3, "accumulators": 1, "epilogue_cols": 64, "raster": 8,
}  # fmt: skip
MXFP8: dict[str, Any] = {"dtype": "e4m3", "scale_vec": "1X", "tile": (128, 256, 128)}
MXFP4: dict[str, Any] = {"dtype": "e2m1", "scale_vec": "2X"}
NVFP4: dict[str, Any] = {"dtype": "e2m1", "scale_vec": "4X"}

SCALED = (
    ("mxfp8, one thread, 3 stages", 2019.0, PIPELINED | MXFP8),
    ("mxfp8, warp-specialised, 3 stages", 2378.0, SPECIALIZED | MXFP8),
    ("mxfp4, one thread, 3 stages", 3917.0, PIPELINED | MXFP4),
    ("mxfp4, warp-specialised, 3 stages", 4871.0, SPECIALIZED | MXFP4),
    ("nvfp4, one thread, 3 stages", 3842.0, PIPELINED | NVFP4),
    ("nvfp4, warp-specialised, 3 stages", 4847.0, SPECIALIZED | NVFP4),
)
"""8192 cubed, TFLOP/s of triton-lang/triton python/tutorials/gluon/11-tcgen05-mma-scaled.py."""

SHARED_SM = (
    (64, 1, 919.9), (64, 2, 1110.2), (64, 3, 756.5), (128, 1, 1049.8), (128, 2, 772.6), (128, 3, 801.4),
    (256, 1, 565.8),
)  # fmt: skip
"""K of the tile, stages, TFLOP/s: 128x128 tiles, several CTAs on an SM, K = 16384; 06-tcgen05.py there."""

LONE: dict[str, Any] = {"accumulators": 1, "persistent": False, "ctas_per_sm": 1}
PAIR: dict[str, Any] = {"tile": (256, 256, 64), "cta_group": 2, "stages": 6, "epilogue_cols": 64}
UNSEEN = (
    ("0 basic", 0.3762, LONE | {"tile": (128, 128, 64), "stages": 6, "lookahead": 5, "epilogue_cols": 128}),
    ("1 warp specialization", 0.4547, LONE | {"stages": 3, "epilogue_cols": 256}),
    ("2 tiled epilogue", 0.5582, LONE | {"epilogue_cols": 64}),
    ("3 collective (2-CTA) MMA", 0.5941, LONE | PAIR),
    ("4 persistent", 0.6146, PAIR | {"accumulators": 1}),
    ("5 dedicated epilogue warpgroup", 0.6338, PAIR),
    ("6 grid tiling", 0.6944, PAIR | {"raster": 8}),
)
"""Share of 2250 TFLOP/s at 4096 x 8192 x 4096, f16: jax-ml/jax docs/pallas/gpu/blackwell_matmul.md.

Its tuner's choices of tile and stages are not published; these are predicted the fastest it could choose.
"""
UNSEEN_PEAK_TFLOPS = 2250.0

CLOCKS = (("L24", 1.77), ("L25", 1.58), ("L26", 1.41), ("L27", 1.32), ("L28", 1.38))
"""SM clock in GHz that a profiler showed for rows of `tilus` (NVIDIA/tilus, benchmark.py)."""


def beyond() -> tuple[tuple[str, float, float], ...]:
    """Return (name, measured, predicted) TFLOP/s of SCALED and SHARED_SM."""
    scaled = [
        (name, measured, predict(GemmConfig(8192, 8192, 8192, **values)).tflops)
        for name, measured, values in SCALED
    ]
    shared = [
        (
            f"fp16, 128x128x{k}, one thread, {stages} stage(s)",
            measured,
            predict(_one_thread(k, stages)).tflops,
        )
        for k, stages, measured in SHARED_SM
    ]
    return (*scaled, *shared)


def unseen() -> tuple[tuple[str, float, float], ...]:
    """Return (name, measured, predicted) TFLOP/s of UNSEEN, the kernel alone."""
    return tuple(
        (
            name,
            share * UNSEEN_PEAK_TFLOPS,
            predict(GemmConfig(4096, 8192, 4096, "f16", **values), launch="kernel").tflops,
        )
        for name, share, values in UNSEEN
    )


def _one_thread(tile_k: int, stages: int) -> GemmConfig:
    """Return a kernel of SHARED_SM, with as many CTAs on an SM as fit."""
    return GemmConfig(
        8192, 8192, 16384, dtype="f16", tile=(128, 128, tile_k), stages=stages, accumulators=1,
        persistent=False, warp_specialized=False, epilogue_cols=128,
    )  # fmt: skip
