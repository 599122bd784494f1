"""Run the packaged GEMM on random data and compare it with NumPy.

The kernel (gemm/gemm.cu, compiled to gemm/gemm.ptx) computes C = relu(A @ B.T + bias): A [M, K] and B [N,
K] in bf16, bias [N] in float32, C [M, N] in bf16. It is warp-specialised and persistent: each CTA takes
every gridDim.x-th tile of 128 x 128.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drywell import arch
from drywell.base.errors import LaunchError, UnsupportedError
from drywell.base.span import Source
from drywell.host.arrays import DTYPES
from drywell.host.comparison import Comparison, compare_exactly, compare_within, decode, encode
from drywell.host.launch import Module, Result, launch, load
from drywell.host.tensor_maps import tensor_map

FOLDER = Path(__file__).parent / "gemm"
TILE_M, TILE_N, STAGE_K, STAGES = 128, 128, 64, 3
THREADS = 192
OPERAND_BYTES = STAGES * (TILE_M + TILE_N) * STAGE_K * 2
STAGING_BYTES = TILE_M * TILE_N * 2
INSTRUCTION_K = 16
"""Products that one tcgen05.mma of 16-bit operands adds to D at once."""


@dataclass(frozen=True, slots=True)
class GemmRun:
    """What a run of the packaged GEMM gave: the result of the launch, how C compares with NumPy, and the
    arrays themselves.
    """

    result: Result
    comparison: Comparison
    a: NDArray[Any]
    b: NDArray[Any]
    bias: NDArray[np.float32]
    c: NDArray[Any]

    @property
    def ok(self) -> bool:
        """Tell whether the run ended well and every number is right."""
        return self.result.ok and self.comparison.ok


@cache
def module(broken: bool = False) -> Module:
    """Load the packaged kernel, or its twin in which the epilogue releases an accumulator before its loads
    are done.
    """
    return load(FOLDER / ("gemm_broken.ptx" if broken else "gemm.ptx"))


@cache
def source() -> Source:
    """Return the CUDA text that the kernel and its twin are compiled from."""
    return Source("gemm.cu", (FOLDER / "gemm.cu").read_text(encoding="utf-8"))


def source_line(number: int) -> str:
    """Return a line of gemm.cu, without its margin."""
    return source().line(number).strip()


def _check(m: int, n: int, k: int, dtype: str) -> None:
    for name, value, grain in (("m", m, TILE_M), ("n", n, TILE_N), ("k", k, STAGE_K)):
        if value < grain or value % grain:
            raise LaunchError(
                f"{name}={value}: this kernel takes multiples of {grain}\n  hint: try "
                f"{name}={max(1, value // grain) * grain}"
            )
    if dtype != "bf16":
        raise UnsupportedError(f"dtype='{dtype}': the packaged kernel computes in bf16 only")


def _operands(
    m: int, n: int, k: int, values: str, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    shapes = ((m, k), (n, k), (n,))
    if values == "integers":
        a, b, bias = (rng.integers(-4, 5, shape).astype(np.float64) for shape in shapes)
        return a, b, bias
    if values == "normal":
        a, b, bias = (rng.standard_normal(shape) for shape in shapes)
        return a, b, bias
    raise LaunchError(f"values='{values}': choose normal or integers")


def rounding_bound(
    a: NDArray[np.float64], b: NDArray[np.float64], bias: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return, per element, how far a float32 sum of the tensor core, plus the bias, may lie from the exact
    one.

    One mma adds 16 products and the old D in units of 2^(R - 25), where 2^R is at most the largest term,
    and cuts each off: 17 units at most. The sum is then cut to 24 bits, 4 more of these units if it is as
    large as the sum S of all |a b|. No term exceeds S. The bias is added in float32, rounded to nearest:
    half a unit of 24 bits.
    """
    magnitude = np.abs(a) @ np.abs(b).T
    num_instructions = a.shape[1] // INSTRUCTION_K
    unit = 2.0**-25 * magnitude
    return np.asarray(
        num_instructions * (INSTRUCTION_K + 1 + 4) * unit + 2.0**-24 * (magnitude + np.abs(bias))
    )


def gemm(
    m: int = 256,
    n: int = 256,
    k: int = 256,
    dtype: str = "bf16",
    numerics: str = "exact",
    *,
    values: Literal["normal", "integers"] = "normal",
    ctas: int | None = None,
    broken: bool = False,
    data_seed: int = 1,
    **options: Any,
) -> GemmRun:
    """Run the packaged GEMM on random data and compare C with NumPy's float64 result.

    Small `integers` (-4..4) must come out equal bit for bit; `normal` numbers within what the tensor
    core's cut-off sums and the rounding to bf16 allow. `ctas` is the size of the persistent grid
    (default: one per tile, at most one per SM). `broken` runs the twin with a mistake in it. `options`
    are those of `drywell.launch`: schedule, seed, observe, ...

    Raises LaunchError unless m and n are multiples of 128 and k of 64, and what `drywell.launch` raises.

    >>> gemm(m=128, n=128, k=64, values="integers").ok
    True
    """
    _check(m, n, k, dtype)
    wanted_a, wanted_b, wanted_bias = _operands(m, n, k, values, data_seed)
    a, b, bias = encode(wanted_a, "bf16"), encode(wanted_b, "bf16"), wanted_bias.astype(np.float32)
    c = np.zeros((m, n), DTYPES["bf16"])
    maps = [tensor_map(array, box=(128, 64), swizzle="128B") for array in (a, b, c)]
    tiles = (m // TILE_M) * (n // TILE_N)
    grid = min(tiles, ctas or arch.load(options.get("gpu", "b200")).sm_count)
    arrays = (*(tensor.array for tensor in maps), bias)
    names = {id(array): name for array, name in zip(arrays, ("A", "B", "C", "bias"), strict=True)}
    result = launch(
        module(broken)["gemm"],
        grid=grid,
        block=THREADS,
        dynamic_smem=OPERAND_BYTES + STAGING_BYTES,
        args=[*maps, bias, m, n, k],
        numerics=numerics,
        names=names,
        **options,
    )
    comparison = _compare(
        decode(a, "bf16"), decode(b, "bf16"), bias.astype(np.float64), decode(c, "bf16"), values
    )
    return GemmRun(result, comparison, a, b, bias, c)


def _compare(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    bias: NDArray[np.float64],
    c: NDArray[np.float64],
    values: str,
) -> Comparison:
    expected = np.maximum(a @ b.T + bias, 0.0)
    if (
        values == "integers"
    ):  # every sum is a whole number below 2^24: no bit is lost before the rounding to bf16
        return compare_exactly("C", c, expected, "bf16")
    # a bf16 has 8 bits: rounding x to nearest moves it by at most 2^-8 |x|, and x may be off by the bound
    return compare_within("C", c, expected, rounding_bound(a, b, bias) * (1 + 2.0**-8), rtol=2.0**-8)
