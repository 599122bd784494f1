"""mma.sp: products of a sparse A, of which a warp holds half, and a dense B.

Where the metadata lies is `layout.metadata`'s, what it selects `numerics.sparsity`'s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.isa.declare import Mods, Op, Problem, instruction
from drywell.isa.matrix import (
    accumulator_of,
    as_elements,
    as_matrix,
    as_registers,
    extents,
    factor_of,
    partners_problem,
)
from drywell.layout.fragment import mma_accumulator, mma_factor
from drywell.layout.metadata import num_selectors, sparse_metadata
from drywell.numerics.sparsity import Selection, expand, select
from drywell.numerics.warp_mma import warp_mma

#: Element type -> (bits, elements in a chunk, shapes, accumulator types, what reads its codes).
# Source: PTX ISA, mma.sp; each tried with ptxas 13.0 for sm_100a.
_KINDS: dict[str, tuple[int, int, str, str, str]] = {
    "f16": (16, 4, "m16n8k16 m16n8k32", "f16 f32", "f16"),
    "bf16": (16, 4, "m16n8k16 m16n8k32", "f32", "f16"),
    "tf32": (32, 2, "m16n8k8 m16n8k16", "f32", "tf32"),
    "e4m3": (8, 4, "m16n8k64", "f32", "i8"),
    "e5m2": (8, 4, "m16n8k64", "f32", "i8"),
    "s8": (8, 4, "m16n8k32 m16n8k64", "s32", "i8"),
    "u8": (8, 4, "m16n8k32 m16n8k64", "s32", "i8"),
    "s4": (4, 8, "m16n8k64 m16n8k128", "s32", "mxf4"),
    "u4": (4, 8, "m16n8k64 m16n8k128", "s32", "mxf4"),
}


def _num_chunks(i: Mods) -> int:
    return extents(i)[2] // _KINDS[str(i["atype"])][1]


def _selector(i: Mods) -> Op:
    return Op("u32", accepts="i", range=(0, max(1, num_selectors(_num_chunks(i))) - 1))


def sparse_shape_fits_elements(i: Mods) -> Problem | None:
    """Require a shape and an accumulator that the element type has."""
    _, _, shapes, accumulators, _ = _KINDS[str(i["atype"])]
    return partners_problem(i, shapes, accumulators)


@instruction(
    "mma.variant.sync.aligned.shape.alayout.blayout{.satfinite}.dtype.atype.btype.ctype d, a, b, c, e, f;",
    variant="sp sp::ordered_metadata",
    sync="sync",
    aligned="aligned",
    shape="m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128",
    alayout="row",
    blayout="col",
    satfinite="satfinite",
    dtype="f16 f32 s32",
    atype=" ".join(_KINDS),
    btype=" ".join(_KINDS),
    ctype="f16 f32 s32",
    types={
        "d": lambda i: replace(accumulator_of(i, str(i["dtype"])), accepts="r_"),
        "a": lambda i: factor_of(16, extents(i)[2] // 2, _KINDS[str(i["atype"])][0]),
        "b": lambda i: factor_of(8, extents(i)[2], _KINDS[str(i["atype"])][0]),
        "c": lambda i: accumulator_of(i, str(i["ctype"])),
        "e": Op("b32", accepts="r"),
        "f": _selector,
    },
    checks=[sparse_shape_fits_elements],
    order_free=True,
    unit="matrix",
    lane=False,
    converged="warp",
    since=(7, 1),
    ref="warp-level-matrix-instructions-mma-sp",
)
def mma_sp_sync(m: Any, i: Mods, a: Any, b: Any, c: Any, e: Any, f: Any) -> Any:
    """Multiply a sparse A, half of which is stored, by B and add: D = A B + C.

    The codes in `e` say which elements of K the stored ones are; an undefined code is a fault. Undefined when
    lanes have exited (here a fault).
    """
    m.require_all("mma.sp.sync")
    M, N, K = extents(i)
    atype, dtype = str(i["atype"]), str(i["dtype"])
    bits, d_bits = _KINDS[atype][0], 16 if dtype == "f16" else 32
    selection = _selection(m, i, e, int(f[m.one_lane()]))
    at_a, at_b, at_d = mma_factor(M, K // 2, bits), mma_factor(N, K, bits), mma_accumulator(M, d_bits)
    left = expand(as_matrix(as_elements(a, bits), at_a.row, at_a.col, (M, K // 2)), selection)
    right = as_matrix(as_elements(b, bits), at_b.row, at_b.col, (N, K))
    old = as_matrix(as_elements(c, d_bits), at_d.row, at_d.col, (M, N))
    out = warp_mma(
        left,
        right,
        old,
        (atype, str(i["btype"]), dtype),
        saturate=i["satfinite"] is not None,
        zero_products_in_window=m.grid.options.zero_products_in_window,
        live=selection.live,
    )
    return as_registers(out[at_d.row, at_d.col])


def _selection(m: Any, i: Mods, e: NDArray[Any], selector: int) -> Selection:
    """Return what the metadata in the lanes' registers selects; fault SPARSE-CODE on an undefined code."""
    lane, shift = sparse_metadata(_num_chunks(i), selector, _KINDS[str(i["atype"])][0])
    codes = e[lane].astype(np.int64) >> shift & 15
    selection = select(_KINDS[str(i["atype"])][4], codes)
    if selection.illegal:
        bad = selection.illegal[0]
        m.fault(
            "SPARSE-CODE",
            f"the metadata code {bad.code:#x} of row {bad.row}, chunk {bad.chunk} names no pair of elements",
            "a code holds two different positions, the smaller one in its low bits",
            lanes=(int(lane[bad.row, bad.chunk]),),
        )
    return selection
