"""One multiplication's arithmetic: the function of numerics that its kind and the options of the run ask for.

What hangs on an open question of the hardware is counted on the grid (`grid.unsettled`). An engine may bring
a multiplication of its own (`grid.multiplier`), which gives the same words or none: then those of `numerics`
count.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from drywell.base.options import Options
from drywell.base.record import record
from drywell.layout.instruction_descriptor import InstructionDescriptor
from drywell.numerics.block_scale import mma_mxf4
from drywell.numerics.corners import Corners
from drywell.numerics.dot import mma_f16, mma_f32
from drywell.numerics.fast_dot import float32_of, mma_fast
from drywell.numerics.integer_dot import mma_i8

if TYPE_CHECKING:
    from drywell.machine.grid import Grid
    from drywell.machine.warp import Warp

Codes = NDArray[Any]
Flags = NDArray[np.bool_]

FAST_KINDS = ("f16", "tf32", "f8f6f4")
"""Kinds that `numerics="fast"` computes in float32; their sparse forms stay exact."""


@record(eq=False)
class Terms:
    """What is multiplied: A [M, K], B [N, K], the old D [M, N] or None, all codes of their formats.

    `live` [M, K] are the elements that a sparse A has, None when dense; `sfa` and `sfb` [rows, blocks] the
    scale factors.
    """

    a: Codes
    b: Codes
    old: Codes | None
    live: Flags | None = None
    sfa: Codes | None = None
    sfb: Codes | None = None


class Multiplier(Protocol):
    """An engine's own multiplication."""

    def perform(self, matmul: Any, ctas: tuple[Warp, ...]) -> bool:
        """Perform a `Matmul` that nobody observes in all CTAs of its group; False: nothing has happened."""

    def product(
        self, desc: InstructionDescriptor, terms: Terms, scale_d_shift: int, options: Options
    ) -> Codes | None:
        """Return what `product` returns; None when this multiplication is left to it."""


def multiplied(grid: Grid, desc: InstructionDescriptor, terms: Terms, scale_d_shift: int) -> Codes:
    """Return the new D [M, N] as codes of its format, by the engine's multiplication if it has one."""
    multiplier: Multiplier | None = grid.multiplier
    if multiplier is not None:
        found = multiplier.product(desc, terms, scale_d_shift, grid.options)
        if found is not None:
            return found
    return product(desc, terms, scale_d_shift, grid.options, grid.unsettled)


@lru_cache(maxsize=32)
def corners(options: Options) -> Corners:
    """Return the positions of the open questions of mxf4 and mxf4nvf4 that the switches of a run choose."""
    return Corners(
        zero_products_in_window=options.zero_products_in_window,
        scaled_d_flushes=options.scaled_d_flushes,
        zero_blocks_in_window=options.zero_blocks == "in_window",
        d_sets_window_above_scales=options.d_sets_window == "above_scales",
        nvf4_group=int(options.nvf4_group),
        drops_tiny_groups=options.drops_tiny_groups,
        zero_products_keep_d=options.zero_products == "keep_d",
        zero_scales_in_window=options.zero_scales_in_window,
    )


def product(
    desc: InstructionDescriptor,
    terms: Terms,
    scale_d_shift: int,
    options: Options,
    unsettled: Counter[str],
) -> Codes:
    """Return the new D [M, N] as codes of its format."""
    if desc.kind == "i8":
        signed = desc.a_format == "s8", desc.b_format == "s8"
        return mma_i8(terms.a, terms.b, terms.old, *signed, desc.saturate, live=terms.live)
    if desc.kind in ("mxf4", "mxf4nvf4"):
        return _mxf4(desc, terms, options, unsettled)
    if options.numerics == "fast" and desc.kind in FAST_KINDS and terms.live is None:
        return _fast(desc, terms, scale_d_shift)
    signs: dict[str, Any] = {"negate_a": desc.negate_a, "negate_b": desc.negate_b}
    how = signs | {
        "scale_d_shift": scale_d_shift,
        "zero_products_in_window": options.zero_products_in_window,
        "scaled_d_flushes": options.scaled_d_flushes,
        "live": terms.live,
        "unsettled": unsettled,
    }
    given = terms.a, terms.b, terms.old, str(desc.a_format), str(desc.b_format)
    if desc.d_format == "f16":
        return mma_f16(*given, **how)
    return mma_f32(*given, sfa=terms.sfa, sfb=terms.sfb, **how)


def _mxf4(desc: InstructionDescriptor, terms: Terms, options: Options, unsettled: Counter[str]) -> Codes:
    """Multiply in one of the packed 4-bit kinds."""
    assert terms.sfa is not None and terms.sfb is not None
    scale_format: Literal["ue8m0", "ue4m3"] = "ue8m0" if desc.scale_format == "ue8m0" else "ue4m3"
    return mma_mxf4(
        terms.a,
        terms.b,
        terms.old,
        terms.sfa,
        terms.sfb,
        scale_format,
        negate_a=desc.negate_a,
        negate_b=desc.negate_b,
        live=terms.live,
        corners=corners(options),
        unsettled=unsettled,
    )


def _fast(desc: InstructionDescriptor, terms: Terms, scale_d_shift: int) -> Codes:
    """Multiply in float32, approximately."""
    old = None if terms.old is None else float32_of(str(desc.d_format), terms.old)
    result = mma_fast(
        float32_of(str(desc.a_format), terms.a),
        float32_of(str(desc.b_format), terms.b),
        old,
        negate=desc.negate_a != desc.negate_b,
        scale_d_shift=scale_d_shift,
    )
    if desc.d_format == "f16":
        with np.errstate(over="ignore", invalid="ignore"):
            return result.astype(np.float16).view(np.uint16)
    return result.view(np.uint32)
