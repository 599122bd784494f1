"""The demo's GEMM under the clock: the packaged kernel, and two deeper builds of its source.

The packaged kernel has three stages and tiles of 128 x 128, which are bound by their loads: a K step takes
the copy engine longer than the tensor pipe. `gemm_1.ptx` and `gemm_2.ptx` (`make examples`; ptxas 13.0
assembles both without a spill) are gemm.cu with one and two accumulators, tiles of 128 x 256 and as many
stages as shared memory holds: four of 48 KiB and 32 KiB to stage C, of 227 KiB.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

import drywell
from drywell.arch.timing import timing
from drywell.examples import packaged
from drywell.host.arrays import DTYPES
from drywell.observe.timeline import Timeline

_WRAPS = "setp.eq.s32 \t%p12, %r167, 2;", "setp.eq.s32 \t%p25, %r768, 2;"
"""Where the packaged kernel's MMA warp and epilogue go round: after two accumulators."""

LOADED_MHZ = round(1000 * timing("b200").clock_full_ghz)
"""The SM clock with the tensor pipe always busy."""


@cache
def timeline(accumulators: int) -> Timeline:
    """Return the timeline of the packaged kernel with one or two accumulators."""
    text = (packaged.FOLDER / "gemm.ptx").read_text(encoding="utf-8")
    for line in _WRAPS:
        assert text.count(line) == 1
        text = text.replace(line, line.replace("2;", f"{accumulators};"))
    return _timeline(text, packaged.TILE_N, packaged.STAGES)


@cache
def deep_timeline(accumulators: int, k: int = 1024, check: str = "off") -> Timeline:
    """Return the timeline of a deep build with one or two accumulators, at the clock of a busy chip."""
    text = Path(__file__).with_name(f"gemm_{accumulators}.ptx").read_text(encoding="utf-8")
    return _timeline(text, 256, 4, k, check, LOADED_MHZ)


def _timeline(
    text: str, tile_n: int, stages: int, k: int = 1024, check: str = "off", clock_mhz: int | None = None
) -> Timeline:
    """Return the timeline of one CTA that makes four tiles; AssertionError when the numbers are wrong."""
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (4 * packaged.TILE_M, k)).astype(DTYPES["bf16"])
    b = rng.integers(-4, 5, (tile_n, k)).astype(DTYPES["bf16"])
    c, bias = np.zeros((len(a), tile_n), DTYPES["bf16"]), np.zeros(tile_n, np.float32)
    boxes = (a, packaged.TILE_M), (b, tile_n), (c, packaged.TILE_M)
    maps = [drywell.tensor_map(x, box=(rows, packaged.STAGE_K), swizzle="128B") for x, rows in boxes]
    result = drywell.launch(
        drywell.load(text)["gemm"],
        grid=1,
        block=packaged.THREADS,
        dynamic_smem=stages * (packaged.TILE_M + tile_n) * packaged.STAGE_K * 2 + packaged.STAGING_BYTES,
        args=[*maps, bias, *c.shape, k],
        check=check,
        numerics="fast",
        schedule="timed",
        observe=("timeline",),
        clock_mhz=clock_mhz,
    )
    assert result.verdict in ("clean", "unchecked"), result.findings
    wanted = np.maximum(a.astype(np.float32) @ b.astype(np.float32).T, 0).astype(DTYPES["bf16"])
    assert np.array_equal(c, wanted)
    assert result.timeline is not None
    return result.timeline
