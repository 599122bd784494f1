"""The kernels that are measured, at any size: how each is launched, and that its numbers are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import drywell
from drywell import tensor_map
from drywell.examples import packaged

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
ALL_SMS = 148


@dataclass(frozen=True, slots=True)
class Workload:
    """A launch that can be repeated: `run(**options)` launches and returns the result, `is_right()` compares
    what the last launch wrote with NumPy, `operations` counts multiplications and additions.
    """

    name: str
    run: Callable[..., drywell.Result]
    is_right: Callable[[], bool]
    operations: int = 0


def _kernel(module: str, entry: str) -> Any:
    return _module(module)[entry]


@cache
def _module(name: str) -> Any:
    return drywell.load(CORPUS / f"{name}.ptx")


def gemm(M: int, N: int, K: int, ctas: int = ALL_SMS) -> Workload:
    """The demo kernel: C = relu(A @ B.T + bias) in bf16, persistent and warp-specialised."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
    bias, c = rng.standard_normal(N, np.float32), np.zeros((M, N), ml_dtypes.bfloat16)
    maps = [tensor_map(array, box=(128, 64), swizzle="128B") for array in (a, b, c)]
    tiles = (M // packaged.TILE_M) * (N // packaged.TILE_N)

    def run(**options: Any) -> drywell.Result:
        return drywell.launch(
            packaged.module()["gemm"],
            grid=min(tiles, ctas),
            block=packaged.THREADS,
            dynamic_smem=packaged.OPERAND_BYTES + packaged.STAGING_BYTES,
            args=[*maps, bias, M, N, K],
            **{"check": "off", "workers": 1, **options},
        )

    def is_right() -> bool:
        wanted = np.maximum(a.astype(np.float32) @ b.astype(np.float32).T + bias, 0)
        return bool(np.allclose(c.astype(np.float32), wanted, rtol=1e-2, atol=1e-2 * K**0.5))

    return Workload(f"bf16 GEMM {M} x {N} x {K}", run, is_right, 2 * M * N * K)


def matmul(M: int, N: int, K: int) -> Callable[[], Any]:
    """Return NumPy's float32 product of the same size."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((M, K), np.float32), rng.standard_normal((N, K), np.float32)
    return lambda: a @ b.T


def _described(array: Any, box: tuple[int, ...], swizzle: str = "128B") -> list[Any]:
    """Return a tensor descriptor as Triton passes it: a map, the shape, the strides (never read)."""
    return [tensor_map(array, box=box, swizzle=swizzle), *array.shape, *array.shape[1:], 1]


def flash(heads: int, length: int) -> Workload:
    """Warp-specialised attention forward in f16, head size 128."""
    rng = np.random.default_rng(2)
    rows, size, scale = heads * length, 128, 128**-0.5
    q, k, v = (rng.standard_normal((rows, size), np.float32).astype(np.float16) for _ in range(3))
    o, lse = np.zeros((rows, size), np.float16), np.zeros(rows, np.float32)
    tensors = [word for array in (q, k, v, o) for word in _described(array, (128, 64))]

    def run(**options: Any) -> drywell.Result:
        return drywell.launch(
            _kernel("triton/flash_fwd_ws", "flash_fwd"),
            grid=(length // 128, heads),
            dynamic_smem=165456,
            args=[*tensors, lse, scale, length, None, None],
            **{"check": "off", "workers": 1, **options},
        )

    def is_right() -> bool:
        split = [x.astype(np.float32).reshape(heads, length, size) for x in (q, k, v)]
        p = np.exp(split[0] @ split[1].transpose(0, 2, 1) * scale)
        wanted = (p / p.sum(-1, keepdims=True)) @ split[2]
        return bool(np.allclose(o, wanted.reshape(rows, size), rtol=1e-2, atol=2e-3))

    return Workload(f"flash_fwd_ws, {heads} heads x {length}", run, is_right, 4 * heads * length**2 * size)


def row_softmax(rows: int, length: int = 1000) -> Workload:
    """Softmax of rows in f16: loads, shuffles, exponentials, no tensor core."""
    x = np.random.default_rng(3).standard_normal((rows, length), np.float32).astype(np.float16)
    y = np.zeros_like(x)

    def run(**options: Any) -> drywell.Result:
        return drywell.launch(
            _kernel("triton/row_softmax", "row_softmax"),
            grid=rows,
            dynamic_smem=16,
            args=[x, y, length, length, None, None],
            **{"check": "off", "workers": 1, **options},
        )

    def is_right() -> bool:
        wanted = np.exp(x.astype(np.float32))
        return bool(np.allclose(y, wanted / wanted.sum(1, keepdims=True), rtol=2e-3, atol=2e-7))

    return Workload(f"row_softmax, {rows} rows of {length}", run, is_right)


_SCALED = {  # dtype of the operands, elements per byte, elements per scale, range of the scales' codes, smem
    "mxfp8": (ml_dtypes.float8_e4m3fn, 1, 32, (125, 130), 101424),
    "nvfp4": (np.uint8, 2, 16, (48, 72), 110640),
}
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def _values(array: NDArray[Any]) -> NDArray[np.float32]:
    """Return the elements of an operand: of bytes the e2m1 codes, the low half first."""
    if array.dtype != np.uint8:
        return array.astype(np.float32)
    return _E2M1[np.stack((array & 15, array >> 4), -1).reshape(len(array), -1)]


def _scales(blocks: NDArray[np.uint8], kind: str, per_scale: int) -> NDArray[np.float32]:
    """Return a factor per element from the 128 x 4 blocks of cuBLAS: [1, rows/128, K/4, 2, 256] bytes."""
    _, tiles, groups, _, _ = blocks.shape
    codes = blocks.reshape(tiles, groups, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(tiles * 128, groups * 4)
    dtype = ml_dtypes.float8_e8m0fnu if kind == "mxfp8" else ml_dtypes.float8_e4m3fn
    return np.repeat(codes.view(dtype).astype(np.float32), per_scale, 1)


def scaled_gemm(kind: str, M: int, N: int, K: int) -> Workload:
    """C = A @ B.T in f16, of block-scaled operands (`mxfp8` or `nvfp4`)."""
    dtype, per_byte, per_scale, (low, high), smem = _SCALED[kind]
    rng = np.random.default_rng(4)
    a, b = (rng.integers(0, 256, (rows, K // per_byte)).astype(np.uint8) for rows in (M, N))
    if per_byte == 1:
        a, b = (rng.standard_normal((rows, K), np.float32).astype(dtype) for rows in (M, N))
    blocks = [(1, rows // 128, K // per_scale // 4, 2, 256) for rows in (M, N)]
    sa, sb = (rng.integers(low, high, shape).astype(np.uint8) for shape in blocks)
    c = np.zeros((M, N), np.float16)
    box = (1, 1, (128 if kind == "mxfp8" else 256) // per_scale // 4, 2, 256)
    tensors = [*_described(a, (128, 128)), *_described(b, (128, 128))]
    for scales in (sa, sb):
        tensors += [tensor_map(scales, box=box, swizzle="none"), *scales.shape, 0, 0, 0, 0, 0]
    tensors += _described(c, (128, 64))

    def run(**options: Any) -> drywell.Result:
        return drywell.launch(
            _kernel(f"triton/dot_scaled_tma_{kind}", "dot_scaled_tma"),
            grid=(M // 128, N // 128),
            dynamic_smem=smem,
            args=[*tensors, M, N, K, None, None],
            **{"check": "off", "workers": 1, **options},
        )

    def is_right() -> bool:
        left = _values(a) * _scales(sa, kind, per_scale)
        right = _values(b) * _scales(sb, kind, per_scale)
        wanted = (left @ right.T).astype(np.float16)
        is_finite = np.isfinite(wanted)
        return bool(np.allclose(c[is_finite], wanted[is_finite], rtol=1e-2, atol=1.0))

    return Workload(f"{kind} GEMM {M} x {N} x {K}", run, is_right, 2 * M * N * K)


_BLOCK = 40


def long_kernel(instructions: int, salt: int) -> str:
    """Return a module whose kernel executes that many different instructions, in blocks of forty; another
    salt gives another kernel.
    """
    lines = [
        ".version 8.6",
        ".target sm_100a",
        ".address_size 64",
        ".visible .entry long(.param .u64 out, .param .u32 n)",
        "{ .reg .b32 %r<10>; .reg .f32 %f<8>; .reg .pred %p; .reg .b64 %a, %o;",
        "ld.param.u64 %o, [out]; ld.param.u32 %r8, [n]; mov.u32 %r0, %tid.x;",
        "mad.wide.u32 %a, %r0, 4, %o; ld.global.u32 %r1, [%a];",
    ]
    lines += [f"mov.u32 %r{k}, {k * 77};" for k in range(2, 8)]
    lines += [f"cvt.rn.f32.u32 %f{k}, %r{k};" for k in range(8)]
    forms = (
        "mad.lo.u32 %r{d}, %r{s}, {n}, %r{d};",
        "xor.b32 %r{d}, %r{d}, %r{s};",
        "fma.rn.f32 %f{d}, %f{s}, 0f3F7FFFF{h}, %f{d};",
        "add.u32 %r{d}, %r{s}, {n};",
        "max.f32 %f{d}, %f{s}, %f{d};",
        "shf.l.wrap.b32 %r{d}, %r{s}, %r{d}, 5;",
    )
    for n in range(instructions):
        d, s = 1 + n % 7, 1 + (n * 5 + 3) % 7
        if n % _BLOCK == _BLOCK - 2:
            lines.append(f"setp.ge.u32 %p, %r8, {n % 3};")
        elif n % _BLOCK == _BLOCK - 1:
            lines.append(f"@%p bra L{n}; L{n}:")
        else:
            lines.append(forms[n % len(forms)].format(d=d, s=s, n=n + salt, h=f"{n % 16:X}"))
    lines += ["cvt.rzi.s32.f32 %r9, %f3; add.u32 %r1, %r1, %r9; st.global.u32 [%a], %r1; ret; }"]
    return "\n".join(lines)
