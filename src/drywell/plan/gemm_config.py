"""One configuration of the GEMM family: sizes, what it takes of Tensor and shared memory, does it fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from drywell.arch import Gpu
from drywell.arch.tensor_pipe import K_BYTES
from drywell.base.errors import LaunchError
from drywell.base.record import record
from drywell.layout.accumulator import a_cols, accumulator_layout
from drywell.layout.mma_shapes import FORMAT_BITS, shape_problem, shape_rule
from drywell.layout.scale import SCALE_VECS, num_scale_blocks
from drywell.layout.tmem import ALLOC_COLS, NUM_COLS

Epilogue = Literal["tma", "direct"]

KINDS = {
    "bf16": "f16",
    "f16": "f16",
    "tf32": "tf32",
    "e4m3": "f8f6f4",
    "e5m2": "f8f6f4",
    "s8": "i8",
    "u8": "i8",
}
"""Format of A and B to the `.kind` of its tcgen05.mma, without block scaling."""

SCALED_KINDS = {"e4m3": "mxf8f6f4", "e5m2": "mxf8f6f4", "e2m1": "mxf4nvf4"}
"""Format of A and B to the `.kind` of its block-scaled tcgen05.mma."""

C_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "s32": 4}
"""Bytes of one element of C as it is stored, by its format."""

TMA_GRANULE_BYTES = 16
"""What the bytes of a row of a tensor copy are a multiple of. SPEC: cuTensorMapEncodeTiled, boxDim."""

BARRIER_BYTES = 1024
"""ASSUMED: shared memory beside the buffers: mbarriers, the address of Tensor Memory, alignment."""

ROW_BLOCK = 128
"""Rows of a CTA's tile that one accumulator holds: the lanes of Tensor Memory."""


@record
class GemmConfig:
    """A GEMM C[m, n] = A[m, k] @ B[n, k].T on `tcgen05.mma`, fed by tensor copies; sizes in elements.

    `tile` is (M, N, K) of one step; with `cta_group` 2, M is the pair's. `stages` are buffers in shared
    memory, `accumulators` in Tensor Memory. `epilogue_cols` are the columns of one subtile (epilogue "tma")
    or of one tcgen05.ld ("direct"). `raster` None walks tiles along M, a number walks them in groups of that
    many rows of tiles. `tma_row_bytes` is the width of a row of the tensor copies. `lookahead` is how many K
    steps a load is issued before its MMA (None: `stages`). `ctas_per_sm` None takes as many as fit, one when
    persistent. With `a_in_tmem` threads take A from its stage and write it to Tensor Memory for the MMA.
    `c_dtype` is what C is stored as.

    Raises LaunchError when a value is not one that exists; whether it fits a GPU is checked by `predict`.

    Example:
        >>> GemmConfig(4096, 4096, 4096, tile=(256, 256, 64), cta_group=2, stages=6).tmem_cols
        512
    """

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    tile: tuple[int, int, int] = (128, 256, 64)
    stages: int = 4
    cta_group: int = 1
    accumulators: int = 2
    epilogue_cols: int = 32
    epilogue_warps: int = 4
    epilogue: Epilogue = "tma"
    persistent: bool = True
    warp_specialized: bool = True
    scale_vec: str | None = None
    raster: int | None = None
    tma_row_bytes: int = 128
    lookahead: int | None = None
    ctas_per_sm: int | None = None
    a_in_tmem: bool = False
    c_dtype: str = "bf16"

    def __post_init__(self) -> None:
        problems = _types(self) or [*_ranges(self), *_shapes(self)]
        if problems:
            raise LaunchError("this GemmConfig cannot be:\n" + "\n".join(f"  {line}" for line in problems))

    @property
    def kind(self) -> str:
        """The `.kind` of its tcgen05.mma."""
        return (SCALED_KINDS if self.scale_vec else KINDS)[self.dtype]

    @property
    def element_bytes(self) -> float:
        """Bytes of one element of A or B in shared memory."""
        return FORMAT_BITS[self.dtype] / 8

    @property
    def c_bytes(self) -> int:
        """Bytes of one element of C."""
        return C_BYTES[self.c_dtype]

    @property
    def rows(self) -> int:
        """Rows of the tile that one CTA holds."""
        return self.tile[0] // self.cta_group

    @property
    def mma_shape(self) -> tuple[int, int]:
        """M and N of one instruction; M is the pair's when `cta_group` is 2."""
        return min(self.rows, ROW_BLOCK) * self.cta_group, min(self.tile[1], 256)

    @property
    def mmas_per_step(self) -> int:
        """Instructions of one K step of the tile."""
        M, N = self.mma_shape
        k_steps = round(self.tile[2] * self.element_bytes) // K_BYTES
        return k_steps * (self.tile[0] // M) * (self.tile[1] // N)

    @property
    def accumulator_cols(self) -> int:
        """Tensor Memory columns of one accumulator of the tile, in each CTA."""
        M, N = self.mma_shape
        per_mma = accumulator_layout(M, self.cta_group).num_cols(N)
        return per_mma * (self.tile[0] // M) * (self.tile[1] // N)

    @property
    def a_cols(self) -> int:
        """Tensor Memory columns of one K step of A, 0 when it is read from shared memory."""
        if not self.a_in_tmem:
            return 0
        return a_cols(self.tile[2], FORMAT_BITS[self.dtype]) * -(-self.rows // ROW_BLOCK)

    @property
    def scale_cols(self) -> int:
        """Tensor Memory columns of the scale factors of one K step, of A and of B."""
        return self.scale_bytes // 128

    @property
    def scale_bytes(self) -> int:
        """Bytes of scale factors of one K step in a CTA: 512 for each 128 rows by 4 scales."""
        blocks = -(-self.rows // ROW_BLOCK) + -(-self.tile[1] // ROW_BLOCK)
        return 512 * blocks * -(-self.scales_per_step // 4)

    @property
    def scales_per_step(self) -> int:
        """Scale factors of one row in one K step, 0 without block scaling."""
        if self.scale_vec is None:
            return 0
        mma_k = K_BYTES / self.element_bytes
        return round(self.tile[2] * num_scale_blocks(self.scale_vec) / mma_k)

    @property
    def tmem_cols(self) -> int:
        """Tensor Memory columns that are used, before rounding to what can be allocated."""
        return self.accumulators * self.accumulator_cols + self.a_cols + self.scale_cols

    @property
    def stage_bytes(self) -> int:
        """Shared memory of one stage in one CTA: its rows of A, its share of B's columns, scale factors."""
        _, N, K = self.tile
        return round((self.rows + N // self.cta_group) * K * self.element_bytes) + self.scale_bytes

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one CTA: stages, a subtile of C, barriers. C takes the stages' place when the
        kernel is not persistent.
        """
        ring = self.stages * self.stage_bytes
        staging = self.rows * self.epilogue_cols * self.c_bytes if self.epilogue == "tma" else 0
        return (ring + staging if self.persistent else max(ring, staging)) + BARRIER_BYTES

    def check(self, gpu: Gpu) -> None:
        """Raise LaunchError, with what is needed and what there is, when it does not fit `gpu`."""
        problems = []
        if self.tmem_cols > NUM_COLS:
            parts = f"{self.accumulators} accumulators of {self.accumulator_cols} columns"
            scales = f" and {self.scale_cols} of scale factors" if self.scale_cols else ""
            a = f" and {self.a_cols} of A" if self.a_cols else ""
            problems.append(
                f"Tensor Memory: {parts}{a}{scales} need {self.tmem_cols} columns, there are {NUM_COLS}\n"
                "    hint: take one accumulator fewer or a tile of smaller N"
            )
        if self.smem_bytes > gpu.smem_bytes_per_cta:
            over = self.smem_bytes - gpu.smem_bytes_per_cta
            most = self.stages + -over // self.stage_bytes
            problems.append(
                f"shared memory: {self.stages} stages of {self.stage_bytes} bytes with the rest need "
                f"{self.smem_bytes} bytes, a CTA has {gpu.smem_bytes_per_cta}\n"
                f"    hint: take {f'stages = {most}, ' if most > 0 else ''}a smaller K of the tile or fewer"
                " epilogue_cols"
            )
        if self.ctas_per_sm and not problems and self.ctas_per_sm > self.fitting_ctas(gpu):
            problems.append(f"{self.ctas_per_sm} CTAs on an SM: {self.fitting_ctas(gpu)} fit")
        if problems:
            lines = "\n".join(f"  {line}" for line in problems)
            raise LaunchError(f"this GemmConfig does not fit a {gpu.title}:\n{lines}")

    def fitting_ctas(self, gpu: Gpu) -> int:
        """Return how many of its CTAs one SM of `gpu` holds at once, by shared and Tensor Memory."""
        allocated = next(cols for cols in ALLOC_COLS if cols >= self.tmem_cols)
        by_smem = gpu.smem_bytes_per_sm // (self.smem_bytes + gpu.smem_reserved_bytes_per_cta)
        return min(by_smem, NUM_COLS // allocated, gpu.max_ctas_per_sm)

    def resident_ctas(self, gpu: Gpu) -> int:
        """Return how many CTAs share an SM: `ctas_per_sm`, or 1 when persistent, or what fits."""
        return self.ctas_per_sm or (1 if self.persistent else self.fitting_ctas(gpu))


def _types(c: GemmConfig) -> list[str]:
    """List what is no number where one is needed."""
    names = ("m", "n", "k", "stages", "accumulators", "epilogue_cols", "raster", "lookahead", "ctas_per_sm")
    given = {name: getattr(c, name) for name in names}
    wrong = {name: v for name, v in given.items() if v is not None and not hasattr(v, "__index__")}
    problems = [f"{name} = {value!r}: needed a whole number" for name, value in wrong.items()]
    tile = c.tile if isinstance(c.tile, Sequence) else ()
    if [hasattr(v, "__index__") for v in tile] != [True] * 3:
        problems.append(f"tile = {c.tile!r}: needed three whole numbers, (M, N, K)")
    return problems


def _ranges(c: GemmConfig) -> list[str]:
    """List what is out of range or not one of the values that exist."""
    problems = [
        f"{name} = {value}: needed 1 or more"
        for name, value in (
            ("m", c.m),
            ("n", c.n),
            ("k", c.k),
            ("stages", c.stages),
            ("accumulators", c.accumulators),
            ("epilogue_cols", c.epilogue_cols),
            ("raster", c.raster),
            ("ctas_per_sm", c.ctas_per_sm),
        )
        if value is not None and value < 1
    ]
    choices: tuple[tuple[str, object, tuple[object, ...]], ...] = (
        ("cta_group", c.cta_group, (1, 2)),
        ("epilogue", c.epilogue, ("tma", "direct")),
        ("epilogue_warps", c.epilogue_warps, (4, 8)),
        ("tma_row_bytes", c.tma_row_bytes, (16, 32, 64, 128)),
        ("c_dtype", c.c_dtype, tuple(C_BYTES)),
        ("dtype", c.dtype, tuple(SCALED_KINDS if c.scale_vec else KINDS)),
    )
    for name, value, allowed in choices:
        if value not in allowed:
            more = "; e2m1 needs a scale_vec" if value == "e2m1" else ""
            problems.append(f"{name} = {value!r}: needed one of {', '.join(map(str, allowed))}{more}")
    if c.lookahead is not None and not 1 <= c.lookahead <= c.stages:
        problems.append(f"lookahead = {c.lookahead}: needed 1 to stages = {c.stages}")
    if c.persistent and (c.ctas_per_sm or 1) > 1:
        problems.append(f"ctas_per_sm = {c.ctas_per_sm}: a persistent kernel has one CTA on each SM")
    cols = TMA_GRANULE_BYTES // C_BYTES.get(c.c_dtype, TMA_GRANULE_BYTES)
    if c.epilogue == "tma" and c.epilogue_cols % cols:
        problems.append(
            f"epilogue_cols = {c.epilogue_cols}: needed a multiple of {cols}, 16 bytes of C to copy"
        )
    if c.epilogue == "direct" and c.epilogue_cols & (c.epilogue_cols - 1):
        problems.append(f"epilogue_cols = {c.epilogue_cols}: needed a power of two for a tcgen05.ld")
    return problems


def _shapes(c: GemmConfig) -> list[str]:
    """List what is wrong with the tile and the scale vector."""
    if c.cta_group not in (1, 2) or c.dtype not in (SCALED_KINDS if c.scale_vec else KINDS):
        return []
    M, N, K = c.tile
    if min(c.tile) < 1:
        return [f"tile = {c.tile}: needed positive sizes"]
    problems = []
    if c.scale_vec and (c.kind, c.scale_vec) not in SCALE_VECS:
        known = sorted({vec for kind, vec in SCALE_VECS if kind == c.kind and vec.endswith("X")})
        problems.append(f"scale_vec = {c.scale_vec!r}: with {c.dtype} needed {' or '.join(known)}")
    mma_m, mma_n = c.mma_shape
    found = shape_problem(shape_rule(c.kind, c.cta_group), mma_m, mma_n)
    if found:
        problems.append(f"tile {M}x{N}: {found[0]} of the tcgen05.mma is {found[1]}, needed {found[2]}")
    elif M % mma_m or N % mma_n:
        problems.append(f"tile {M}x{N}: needed a multiple of the tcgen05.mma's {mma_m}x{mma_n}")
    if round(K * c.element_bytes) % K_BYTES:
        needed = round(K_BYTES / c.element_bytes)
        problems.append(f"tile K = {K}: needed a multiple of {needed}, {K_BYTES} bytes of {c.dtype}")
    return problems
