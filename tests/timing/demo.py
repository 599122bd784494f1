"""The packaged GEMM under the clock, with two accumulators and with one, handed back early and late."""

from __future__ import annotations

from functools import cache

import numpy as np

import drywell
from drywell.examples import packaged
from drywell.host.arrays import DTYPES
from drywell.observe.timeline import Timeline

_WRAPS = "setp.eq.s32 \t%p12, %r167, 2;", "setp.eq.s32 \t%p25, %r768, 2;"
"""Where the MMA warp and the epilogue go round: after two accumulators."""

_HAND_BACK = "mbarrier.arrive.shared::cta.b64 _, [%r720];"
_STORES_ISSUED = "$L__BB0_28:"
"""The arrival that gives an accumulator back, after its last load, and where its last store is issued."""


@cache
def timeline(accumulators: int, *, is_late: bool = False, tiles: int = 4, k: int = 1024) -> Timeline:
    """Return the timeline of one CTA that makes `tiles` tiles with one or two accumulators; `is_late` gives
    them back when the last store is issued, not when they are read.
    """
    text = (packaged.FOLDER / "gemm.ptx").read_text(encoding="utf-8")
    for line in _WRAPS:
        assert text.count(line) == 1
        text = text.replace(line, line.replace("2;", f"{accumulators};"))
    if is_late:
        assert text.count(_HAND_BACK) == 1 and text.count(_STORES_ISSUED) == 1
        text = text.replace(_HAND_BACK, "").replace(_STORES_ISSUED, f"{_STORES_ISSUED} {_HAND_BACK}")
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (128 * tiles, k)).astype(DTYPES["bf16"])
    b = rng.integers(-4, 5, (128, k)).astype(DTYPES["bf16"])
    c, bias = np.zeros((128 * tiles, 128), DTYPES["bf16"]), np.zeros(128, np.float32)
    result = drywell.launch(
        drywell.load(text)["gemm"],
        grid=1,
        block=packaged.THREADS,
        dynamic_smem=packaged.OPERAND_BYTES + packaged.STAGING_BYTES,
        args=[*(drywell.tensor_map(x, box=(128, 64), swizzle="128B") for x in (a, b, c)), bias, *c.shape, k],
        check="off",
        numerics="fast",
        schedule="timed",
        observe=("timeline",),
    )
    wanted = np.maximum(a.astype(np.float32) @ b.astype(np.float32).T, 0).astype(DTYPES["bf16"])
    assert np.array_equal(c, wanted)
    assert result.timeline is not None
    return result.timeline
