"""Drywell's arithmetic as the scalar model asks for it: matrices of codes in, words of D out.

This is the only file through which the agreement tests and the campaign touch the code under test; it
was written without reading that code. One function for each kind, and one for its sparse form.

Conventions, the same everywhere. `a` is [M][K], `b` [N][K], `d` [M][N] or None for the form that does
not read D; in a sparse form `a` is [M][K/2] and `metadata` [M][chunks], one 4-bit code per entry (a chunk
is 2 of K for tf32, 8 for the FP4 kinds, else 4). Every operand is one code per entry in the low bits of
its integer, never packed: uint8 for 8-, 6- and 4-bit types, uint16 for f16 and bf16, uint32 for tf32.
`d` is uint32 (f32 and s32) or uint16 (f16). Scales are one byte per entry, [M][blocks] and [N][blocks].
The result is [M][N] of the words of D. `corners` are the switches of `oracle.model.dot.dot` and
`oracle.model.block.block_dot` under the same names; none given is the recommended form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.model import Tile

Array = np.ndarray[Any, np.dtype[Any]]
CODE = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32}
D_WORD = {"f32": np.uint32, "s32": np.uint32, "f16": np.uint16}


def drywell_words(tile: Tile, **corners: int) -> list[list[int]]:
    """Run a tile through the function of its kind; return the words as Python integers."""
    a, b = np.array(tile.a, code_of(tile.a_type)), np.array(tile.b, code_of(tile.b_type))
    d = None if tile.d is None else np.array(tile.d, D_WORD[tile.d_type])
    how: dict[str, Any] = {"a_type": tile.a_type, "b_type": tile.b_type}
    if tile.kind == "i8":
        how["saturate"] = tile.saturate
    else:
        how |= {"d_type": tile.d_type, "negate_a": tile.negate_a, "negate_b": tile.negate_b}
    if tile.scale_a is not None:
        how |= {"scale_a": np.array(tile.scale_a, np.uint8), "scale_b": np.array(tile.scale_b, np.uint8)}
    if tile.kind in ("mxf4", "mxf4nvf4"):
        how |= {"scale_type": tile.scale_type, "block": tile.block}
        for implied in ("a_type", "b_type", "d_type"):
            del how[implied]
    if tile.metadata is not None:
        how["metadata"] = np.array(tile.metadata, np.uint8)
    name = f"dot_{tile.kind}" if tile.metadata is None else f"dot_{tile.kind}_sp"
    got = globals()[name](a, b, d, **how, **corners)
    assert got.shape == (len(tile.a), len(tile.b)), f"{name} returned the shape {got.shape}"
    return [[int(word) for word in line] for line in got]


def code_of(type_name: str) -> Any:
    """Return the integer type that holds a code."""
    return CODE.get(type_name, np.uint8)


def dot_f16(
    a: Array,
    b: Array,
    d: Array | None,
    *,
    a_type: str,
    b_type: str,
    d_type: str,
    negate_a: bool = False,
    negate_b: bool = False,
    **corners: int,
) -> Array:
    """Run kind f16 or tf32 or f8f6f4: one window, no scales. K is 16, 8 or 32."""
    from drywell.numerics import dot as numerics

    run = numerics.mma_f32 if d_type == "f32" else numerics.mma_f16
    return run(a, b, d, a_type, b_type, negate_a=negate_a, negate_b=negate_b, **corners)


dot_tf32 = dot_f16
dot_f8f6f4 = dot_f16


def dot_f16_sp(a: Array, b: Array, d: Array | None, *, metadata: Array, **how: Any) -> Array:
    """Run the sparse form of kind f16 (K = 32)."""
    return sparse("f16", dot_f16, a, b, d, metadata, **how)


def dot_tf32_sp(a: Array, b: Array, d: Array | None, *, metadata: Array, **how: Any) -> Array:
    """Run the sparse form of kind tf32 (K = 16)."""
    return sparse("tf32", dot_tf32, a, b, d, metadata, **how)


def dot_f8f6f4_sp(a: Array, b: Array, d: Array | None, *, metadata: Array, **how: Any) -> Array:
    """Run the sparse form of kind f8f6f4 (K = 64)."""
    return sparse("f8f6f4", dot_f8f6f4, a, b, d, metadata, **how)


def dot_i8(a: Array, b: Array, d: Array | None, *, a_type: str, b_type: str, saturate: bool = False) -> Array:
    """Run kind i8 (K = 32): codes are bytes, `a_type` and `b_type` are u8 or s8; returns s32 as uint32."""
    from drywell.numerics import dot as numerics

    return numerics.mma_s32(a, b, d, a_type, b_type, saturate=saturate)


def dot_i8_sp(a: Array, b: Array, d: Array | None, *, metadata: Array, **how: Any) -> Array:
    """Run the sparse form of kind i8 (K = 64)."""
    return sparse("i8", dot_i8, a, b, d, metadata, **how)


def dot_mxf8f6f4(
    a: Array,
    b: Array,
    d: Array | None,
    *,
    scale_a: Array,
    scale_b: Array,
    a_type: str,
    b_type: str,
    d_type: str = "f32",
    negate_a: bool = False,
    negate_b: bool = False,
    **corners: int,
) -> Array:
    """Run kind mxf8f6f4 (K = 32): `scale_a` [M][1] and `scale_b` [N][1] are ue8m0 bytes."""
    from drywell.numerics import dot as numerics

    how: dict[str, Any] = {"negate_a": negate_a, "negate_b": negate_b, **corners}
    return numerics.mma_f32(a, b, d, a_type, b_type, scale_a=scale_a, scale_b=scale_b, **how)


def dot_mxf8f6f4_sp(a: Array, b: Array, d: Array | None, *, metadata: Array, **how: Any) -> Array:
    """Run the sparse form of kind mxf8f6f4 (K = 64, one scale for all of it)."""
    return sparse("mxf8f6f4", dot_mxf8f6f4, a, b, d, metadata, **how)


def dot_mxf4nvf4(
    a: Array,
    b: Array,
    d: Array | None,
    *,
    scale_a: Array,
    scale_b: Array,
    scale_type: str,
    block: int,
    negate_a: bool = False,
    negate_b: bool = False,
    **corners: int,
) -> Array:
    """Run kind mxf4 or mxf4nvf4 (e2m1, K = 64 or 96).

    `block` is 16 or 32 as in `.block16`, `.block32`: scales are [M][K/block] and [N][K/block] bytes of
    `scale_type`, ue8m0 or ue4m3.
    """
    from drywell.numerics import dot as numerics

    how: dict[str, Any] = {"negate_a": negate_a, "negate_b": negate_b, **corners}
    return numerics.mma_block_scaled(a, b, d, scale_a, scale_b, scale_type, block, **how)


dot_mxf4 = dot_mxf4nvf4


def dot_mxf4nvf4_sp(a: Array, b: Array, d: Array | None, *, metadata: Array, **how: Any) -> Array:
    """Run the sparse form of kind mxf4nvf4 (K = 128).

    A scale counts for `block` stored elements of A, which is 2 * `block` of K.
    """
    return sparse("mxf4nvf4", dot_mxf4nvf4, a, b, d, metadata, **how)


def dot_mxf4_sp(a: Array, b: Array, d: Array | None, *, metadata: Array, **how: Any) -> Array:
    """Run the sparse form of kind mxf4 (K = 128, a scale for each 64 of it)."""
    return sparse("mxf4", dot_mxf4, a, b, d, metadata, **how)


def sparse(kind: str, run: Any, a: Array, b: Array, d: Array | None, metadata: Array, **how: Any) -> Array:
    """Run a sparse form row by row: Drywell reads the metadata and says which of B take part."""
    from drywell.numerics import sparse as numerics

    out = []
    for m in range(len(a)):
        chosen = numerics.kept_elements(kind, metadata[m])  # [K/2] places in K, in stored order
        row = {**how, "scale_a": how["scale_a"][m : m + 1]} if "scale_a" in how else how
        out.append(run(a[m : m + 1], b[:, chosen], None if d is None else d[m : m + 1], **row))
    return np.concatenate(out)
