"""Drywell's arithmetic as the scalar model asks for it: matrices of codes in, words of D out.

This is the only file through which the agreement tests and the campaign touch the code under test. A tile
(`oracle.model.Tile`) holds one code per entry, never packed; its fields and the model's names of the
switches are translated here into those of `drywell.numerics`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.numerics import Corners, expand, mma_f16, mma_f32, mma_i8, mma_mxf4, select
from oracle.model import Tile

Array = np.ndarray[Any, np.dtype[Any]]
CODE = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32}
FP4_KINDS = ("mxf4", "mxf4nvf4")
CORNERS = {  # the model's name of a switch of the FP4 kinds, and the field of `Corners`
    "zero_blocks_in_window": "zero_blocks_in_window",
    "d_widens_below_products": "d_sets_window_above_scales",
    "ue4m3_group": "nvf4_group",
    "drop_subnormal_groups": "drops_tiny_groups",
    "zero_scales_in_window": "zero_scales_in_window",
    "zero_products_in_window": "zero_products_in_window",
    "no_products_keep_d": "zero_products_keep_d",
    "no_products_keep_minus_zero": "zero_products_keep_minus_zero",
}


def drywell_words(tile: Tile, **corners: Any) -> list[list[int]]:
    """Run a tile through the function of its kind; return the words as Python integers."""
    a, b = np.array(tile.a, code_of(tile.a_type)), np.array(tile.b, code_of(tile.b_type))
    d_code = np.uint16 if tile.d_type == "f16" else np.uint32
    d = None if tile.d is None else np.array(tile.d, d_code)
    live = None
    if tile.metadata is not None:
        selection = select(tile.kind, tile.metadata)
        assert not selection.illegal
        a, live = expand(a, selection), selection.live
    got = multiplied(tile, a, b, d, live, corners)
    assert got.shape == (len(tile.a), len(tile.b))
    assert got.dtype == d_code
    return [[int(word) for word in line] for line in got]


def code_of(type_name: str) -> Any:
    """Return the integer type that holds a code."""
    return CODE.get(type_name, np.uint8)


def multiplied(
    tile: Tile, a: Array, b: Array, d: Array | None, live: Array | None, corners: dict[str, Any]
) -> Array:
    """Return D [M, N] of a tile, whose A comes expanded with its mask when it is sparse."""
    if tile.kind == "i8":
        assert not corners
        signed = tile.a_type == "s8", tile.b_type == "s8"
        return mma_i8(a, b, d, *signed, tile.saturate, live=live)
    how: dict[str, Any] = {"negate_a": tile.negate_a, "negate_b": tile.negate_b, "live": live}
    if tile.kind in FP4_KINDS:
        how["corners"] = Corners(**{CORNERS[name]: value for name, value in corners.items()})
        return mma_mxf4(a, b, d, tile.scale_a, tile.scale_b, tile.scale_type, **how)
    how |= corners
    if tile.scale_a is not None:
        how |= {"sfa": tile.scale_a, "sfb": tile.scale_b}
    run = mma_f16 if tile.d_type == "f16" else mma_f32
    return run(a, b, d, tile.a_type, tile.b_type, **how)
