"""A small tile of one instruction: a few rows of A, a few columns of B, every element of D a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oracle.model.block import block_dot
from oracle.model.dot import dot
from oracle.model.integer import integer_dot

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Tile:
    """Operands of one instruction as codes: A [M][K], B [N][K], D [M][N], one code per entry.

    A sparse A is [M][K/2] with `metadata` [M][chunks]; kind mxf8f6f4 has one scale byte per row, the FP4
    kinds one per `block`. `d` None is the form that does not read D.
    """

    kind: str
    a_type: str
    b_type: str
    d_type: str
    a: Rows
    b: Rows
    d: Rows | None
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    metadata: Rows | None = None
    scale_type: str | None = None
    block: int | None = None
    scale_a: Rows | None = None
    scale_b: Rows | None = None

    @property
    def num_cases(self) -> int:
        return len(self.a) * len(self.b)


def words(tile: Tile, **corners: int) -> list[list[int]]:
    """Return the words of D [M][N]; `corners` are the switches of `dot` or `block_dot`."""
    places = [[(m, n) for n in range(len(tile.b))] for m in range(len(tile.a))]
    return [[word(tile, m, n, **corners) for m, n in line] for line in places]


def word(tile: Tile, m: int, n: int, **corners: int) -> int:
    """Return one word of D."""
    a, b = tile.a[m], tile.b[n]
    c = None if tile.d is None else tile.d[m][n]
    meta = None if tile.metadata is None else tile.metadata[m]
    types = (tile.a_type, tile.b_type)
    if tile.kind == "i8":
        return integer_dot(*types, a, b, c, saturate=tile.saturate, metadata=meta)
    how: dict[str, Any] = {"negate_a": tile.negate_a, "negate_b": tile.negate_b, "metadata": meta, **corners}
    if tile.scale_a is None or tile.scale_b is None:
        return dot(tile.kind, *types, tile.d_type, a, b, c, **how)
    scale_a, scale_b = tile.scale_a[m], tile.scale_b[n]
    if tile.block is None or tile.kind == "mxf8f6f4":
        how |= {"scale_a": scale_a[0], "scale_b": scale_b[0]}
        return dot(tile.kind, *types, tile.d_type, a, b, c, **how)
    return block_dot(tile.kind, str(tile.scale_type), tile.block, a, b, c, scale_a, scale_b, **how)
