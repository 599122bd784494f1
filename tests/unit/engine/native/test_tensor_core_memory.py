"""Whole instructions natively, from the machine's own memory to its Tensor Memory, against the interpreter's.

All of shared memory and Tensor Memory is filled with codes of the operands' formats, so that any descriptor
and any layout reads numbers; what is compared is every cell of Tensor Memory and which are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from drywell.base.options import Options
from drywell.engine.native.tensor_core_multiplier import Multiplier
from drywell.isa.tcgen05_matmul import Matmul
from drywell.layout.descriptor import SmemDescriptor, encode_smem_descriptor
from drywell.numerics import FORMATS
from unit.isa.one_cta import every
from unit.isa.tensor_core import idesc, mma, tensor_grid

A_AT, B_AT = 0x800, 0x6800
A, D, SFA, SFB = 256, 0, 320, 352
ONES = {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "e4m3": 0x38, "e5m2": 0x3C, "e2m3": 8, "e3m2": 12}


class Watched(Multiplier):
    """A multiplier that remembers what it did."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[bool] = []

    def perform(self, matmul: Matmul, ctas: Any) -> bool:
        self.done.append(super().perform(matmul, ctas))
        return self.done[-1]


def near_one(rng: Any, fmt: str, count: int) -> Any:
    """Codes whose exponents are near that of 1, as bytes; any byte for integers and 4-bit numbers."""
    if fmt in ("u8", "s8", "e2m1"):
        return rng.integers(0, 256, count).astype(np.uint8)
    f = FORMATS[fmt]
    mantissa = 1 << f.mantissa_bits + f.pad_bits
    high = 2 if f.exponent_bits == 2 else 4
    size = ONES[fmt] + rng.integers(-2 if f.bias > 2 else 0, high, count) * mantissa
    size += rng.integers(0, mantissa, count)
    return (size | rng.integers(0, 2, count) * f.sign_mask).astype(f.dtype).view(np.uint8)


def in_slots(rng: Any, fmt: str, count: int) -> Any:
    """16-byte slots of 16 codes of 4 or 6 bits; any bits are numbers."""
    return rng.integers(0, 256, 16 * count).astype(np.uint8)


def filled(kind: str, a: str, b: str, num_ctas: int = 1) -> Any:
    """A grid whose memory holds numbers: A's below `B_AT`, B's above; scales near one."""
    grid = tensor_grid(num_ctas)
    for cta in grid.clusters[0].ctas:
        rng = np.random.default_rng(cta.rank + 1)
        data, cells = cta.smem.data, cta.sm.tmem.cells
        for fmt, first, last in ((a, A_AT, B_AT), (b, B_AT, 0x10400)):
            narrow = fmt in ("e2m1", "e2m3", "e3m2")
            size = last - first
            data[first:last] = (in_slots if narrow else near_one)(rng, fmt, size)[:size]
        old = near_one(rng, "f16" if kind == "f16d" else "bf16", 128 * 512 * 2).view(np.uint32)
        cells[:, :A] = old.reshape(128, 512)[:, :A]
        cells[:, A : A + 64] = near_one(rng, a, 128 * 256)[: 128 * 256].view(np.uint32).reshape(128, 64)
        codes = (0x30, 0x40) if kind == "mxf4nvf4" else (125, 130)  # ue4m3 or ue8m0
        scales = np.tile(rng.integers(*codes, (32, 4 * 192)).astype(np.uint8), (4, 1))
        cells[:, SFA : SFA + 192] = scales.view(np.uint32)
    return grid


def both(kind: str, a: str, b: str, issue: Any, num_ctas: int = 1, options: Options | None = None) -> Any:
    """Issue the same on two grids, with and without native arithmetic; return the cells."""
    grids = [filled(kind, a, b, num_ctas) for _ in range(2)]
    grids[1].multiplier = Watched()
    for grid in grids:
        if options is not None:
            grid.options = options
        issue(grid)
    assert grids[1].multiplier.done and all(grids[1].multiplier.done), "all of it is native"
    for one, two in zip(*(grid.clusters[0].ctas for grid in grids), strict=True):
        np.testing.assert_array_equal(two.sm.tmem.cells, one.sm.tmem.cells)
        np.testing.assert_array_equal(two.sm.tmem.written, one.sm.tmem.written)
    assert grids[0].unsettled == grids[1].unsettled
    return [cta.sm.tmem.cells for cta in grids[1].clusters[0].ctas]


def descriptor(at: int, lbo: int, sbo: int, swizzle: int = 0) -> Any:
    return every(encode_smem_descriptor(SmemDescriptor(at, lbo, sbo, swizzle)), "u8")


def plain(at: int, row_bytes: int) -> Any:
    return descriptor(at, 128, 8 * row_bytes)


# -------------------------------------------------------------------- formats


DENSE: Sequence[tuple[str, str, str, int, int]] = (
    ("f16", "f16", "f16", 32, 1), ("f16", "f16", "f16", 32, 0), ("f16", "bf16", "bf16", 32, 1),
    ("tf32", "tf32", "tf32", 32, 1),
    ("f8f6f4", "e4m3", "e5m2", 32, 1), ("f8f6f4", "e5m2", "e2m3", 32, 0), ("f8f6f4", "e2m1", "e3m2", 32, 1),
    ("i8", "u8", "s8", 32, 2),
)  # fmt: skip


@pytest.mark.parametrize("reads_d", [False, True])
@pytest.mark.parametrize("in_tmem", [False, True])
@pytest.mark.parametrize("M", [64, 128])
@pytest.mark.parametrize(("kind", "a", "b", "row_bytes", "d_type"), DENSE)
def test_every_dense_kind(
    kind: str, a: str, b: str, row_bytes: int, d_type: int, M: int, in_tmem: bool, reads_d: bool
) -> None:
    def issue(grid: Any) -> None:
        word = idesc(kind, M, 48, a, b, d_type=d_type)
        where = A if in_tmem else plain(A_AT, row_bytes)
        mma(grid, f"tcgen05.mma.cta_group::1.kind::{kind}", D, where, plain(B_AT, row_bytes), word, None,
            reads_d, None)  # fmt: skip

    fill = "f16d" if d_type == 0 else kind
    if in_tmem and a == "e4m3":
        pytest.skip("any byte of a cell may be its NaN")
    both(fill, a, b, issue)


SCALED = (
    ("mxf8f6f4", "e4m3", "e2m1", "", 1, 32), ("mxf4", "e2m1", "e2m1", ".scale_vec::2X", 1, 32),
    ("mxf4nvf4", "e2m1", "e2m1", ".scale_vec::4X", 0, 32),
    ("mxf4nvf4", "e2m1", "e2m1", ".scale_vec::4X", 1, 32),
)  # fmt: skip


@pytest.mark.parametrize("N", [8, 64, 136])
@pytest.mark.parametrize(("kind", "a", "b", "words", "scale_type", "row_bytes"), SCALED)
def test_every_scaled_kind(
    kind: str, a: str, b: str, words: str, scale_type: int, row_bytes: int, N: int
) -> None:
    def issue(grid: Any) -> None:
        word = idesc(kind, 128, N, a, b, scale_type=scale_type)
        where = plain(A_AT, row_bytes), plain(B_AT, row_bytes)
        for reads_d in (False, True):
            mma(grid, f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale{words}", D, *where, word, SFA, SFB,
                reads_d)  # fmt: skip

    both("mxf4" if scale_type else kind, a, b, issue)


# -------------------------------------------------------------------- layouts


@pytest.mark.parametrize("M", [32, 64, 128])
@pytest.mark.parametrize(("kind", "fmt", "in_tmem"), [("f16", "bf16", False), ("tf32", "tf32", True)])
def test_weight_stationary_parts(M: int, kind: str, fmt: str, in_tmem: bool) -> None:
    def issue(grid: Any) -> None:
        where = A if in_tmem else plain(A_AT, 32)
        word = idesc(kind, M, 128, fmt, fmt)
        mma(grid, f"tcgen05.mma.ws.cta_group::1.kind::{kind}", D, where, plain(B_AT, 32), word, True, None)

    both(kind, fmt, fmt, issue)


@pytest.mark.parametrize("M", [128, 256])
@pytest.mark.parametrize(("kind", "fmt", "in_tmem"), [("f16", "f16", False), ("f16", "bf16", True)])
def test_pairs_of_ctas(M: int, kind: str, fmt: str, in_tmem: bool) -> None:
    def issue(grid: Any) -> None:
        where = A if in_tmem else plain(A_AT, 32)
        word = idesc(kind, M, 96, fmt, fmt)
        mma(grid, f"tcgen05.mma.cta_group::2.kind::{kind}", D, where, plain(B_AT, 32), word, None, True, None)

    both(kind, fmt, fmt, issue, 2)


def test_a_scaled_pair_reads_the_scales_of_each_cta() -> None:
    def issue(grid: Any) -> None:
        word = idesc("mxf8f6f4", 256, 64, "e4m3", "e5m2")
        mma(grid, "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale", D, plain(A_AT, 32), plain(B_AT, 32),
            word, SFA, SFB, True)  # fmt: skip

    low, high = both("mxf8f6f4", "e4m3", "e5m2", issue, 2)
    assert (low != high).any()


MAJOR = (
    ("f16", "bf16", (0x200, 0x80), 0), ("f16", "bf16", (0x1000, 0x400), 2),
    ("f16", "f16", (0x1000, 0x200), 4), ("f16", "f16", (0x800, 0x100), 6),
    ("f8f6f4", "e5m2", (0x800, 0x400), 2), ("tf32", "tf32", (0x800, 0x200), 1),
    ("i8", "s8", (0x100, 0x80), 0),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "fmt", "strides", "swizzle"), MAJOR)
def test_operands_that_run_along_m_and_n(kind: str, fmt: str, strides: tuple[int, int], swizzle: int) -> None:
    def issue(grid: Any) -> None:
        word = idesc(kind, 128, 64, fmt, fmt, transpose_a=True, transpose_b=True)
        where = (descriptor(at, *strides, swizzle) for at in (A_AT, B_AT))
        mma(grid, f"tcgen05.mma.cta_group::1.kind::{kind}", D, *where, word, None, True, None)

    both(kind, fmt, fmt, issue)


@pytest.mark.parametrize(("swizzle", "sbo"), [(2, 1024), (4, 512), (6, 256)])
def test_swizzled_operands_along_k(swizzle: int, sbo: int) -> None:
    def issue(grid: Any) -> None:
        word = idesc("f16", 128, 64, "f16", "f16")
        where = (descriptor(at, 0, sbo, swizzle) for at in (A_AT, B_AT))
        mma(grid, "tcgen05.mma.cta_group::1.kind::f16", D, *where, word, None, True, None)

    both("f16", "f16", "f16", issue)


# -------------------------------------------------------------------- switches


@pytest.mark.parametrize("high", ["poison", "zero", "preserve"])
def test_the_high_half_of_an_f16_result(high: Any) -> None:
    def issue(grid: Any) -> None:
        word = idesc("f16", 128, 64, "f16", "f16", d_type=0)
        mma(grid, "tcgen05.mma.cta_group::1.kind::f16", D, plain(A_AT, 32), plain(B_AT, 32), word, None, True,
            None)  # fmt: skip

    both("f16d", "f16", "f16", issue, options=Options(unpack_high_half=high))


def test_scale_input_d_and_the_negate_bits() -> None:
    def issue(grid: Any) -> None:
        word = idesc("f16", 128, 64, "bf16", "bf16", negate_a=True)
        mma(grid, "tcgen05.mma.cta_group::1.kind::f16", D, plain(A_AT, 32), plain(B_AT, 32), word, None, True,
            every(3))  # fmt: skip

    both("f16", "bf16", "bf16", issue)


def test_columns_that_are_not_the_ctas_are_left_alone() -> None:
    grid = filled("f16", "f16", "f16")
    grid.multiplier = Watched()
    before = grid.clusters[0].ctas[0].sm.tmem.cells.copy()
    grid.clusters[0].ctas[0].tmem["mine"] = 1
    word = idesc("f16", 128, 64, "f16", "f16")
    with pytest.raises(Exception, match="TMEM|columns"):
        mma(grid, "tcgen05.mma.cta_group::1.kind::f16", D, plain(A_AT, 32), plain(B_AT, 32), word, None, True,
            None)  # fmt: skip
    np.testing.assert_array_equal(grid.clusters[0].ctas[0].sm.tmem.cells, before)


def test_an_infinity_in_memory_is_left_to_the_interpreter_with_nothing_changed() -> None:
    results = []
    for multiplier in (None, Watched()):
        grid = filled("f16", "f16", "f16")
        grid.multiplier = multiplier
        grid.clusters[0].ctas[0].smem.data[A_AT : A_AT + 2] = (0, 0x7C)
        word = idesc("f16", 128, 64, "f16", "f16")
        mma(grid, "tcgen05.mma.cta_group::1.kind::f16", D, plain(A_AT, 32), plain(B_AT, 32), word, None, True,
            None)  # fmt: skip
        results.append(grid.clusters[0].ctas[0].sm.tmem.cells)
    assert multiplier is not None and multiplier.done == [False]
    np.testing.assert_array_equal(*results)
