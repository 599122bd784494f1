"""Where a lane's result came from when lanes exchange values or matrices: the instructions of `warp` and
`matrix`, for whoever follows data backwards.

A flow is asked for some bits of one element of one destination in one lane, or, of a store, for a byte that
a lane's address got; it names registers of other lanes, or bytes that a lane's address gave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drywell.base.record import record
from drywell.isa.declare import Declaration, Mods
from drywell.isa.matrix import extents, ldmatrix, mma_sync, movmatrix, stmatrix
from drywell.isa.warp import redux_sync, redux_sync_f32, shfl_sync, source_lane
from drywell.layout.fragment import matrix_fragment, mma_accumulator, mma_factor
from drywell.machine.flow import ALL_BITS

MEMORY = -1
"""Stands in `Taken.operand` for the memory at the lane's address; `mask` is then a byte's number."""


@record
class Taken:
    """Bits `mask` of element `element` of source `operand` in `lane`."""

    operand: int
    element: int
    lane: int
    mask: int = ALL_BITS


@record
class Asked:
    """What is asked for: bits of element `element` of destination `operand` in `lane`; of a store, byte
    `element` at the address that `lane` gave.
    """

    operand: int
    element: int
    lane: int
    mask: int = ALL_BITS


WarpFlow = Callable[[Mods, list[Any], Asked], tuple[Taken, ...]]


def _shuffled(i: Mods, values: list[Any], asked: Asked) -> tuple[Taken, ...]:
    if asked.operand != 0:
        return ()
    b, c = values[1], values[2]
    source, _ = source_lane(str(i["mode"]), asked.lane, int(b[asked.lane]), int(c[asked.lane]))
    return (Taken(0, 0, source, asked.mask),)


def _reduced(i: Mods, values: list[Any], asked: Asked) -> tuple[Taken, ...]:
    members = int(values[1][asked.lane])
    return tuple(Taken(0, 0, lane) for lane in range(32) if members >> lane & 1)


def _halves(mask: int) -> tuple[int, ...]:
    return tuple(h for h in (0, 1) if mask >> 16 * h & 0xFFFF)


def _matrix_loaded(i: Mods, values: list[Any], asked: Asked) -> tuple[Taken, ...]:
    num = int(str(i["num"])[1:])
    where = matrix_fragment(num, i["trans"] is not None)
    out = []
    for half in _halves(asked.mask):
        row = int(where.row[asked.lane, asked.element, half])
        col = int(where.col[asked.lane, asked.element, half])
        out += [Taken(MEMORY, 0, 8 * asked.element + row, 2 * col + b) for b in (0, 1)]
    return tuple(out)


def _matrix_stored(i: Mods, values: list[Any], asked: Asked) -> tuple[Taken, ...]:
    where = matrix_fragment(int(str(i["num"])[1:]), i["trans"] is not None)
    matrix, row = divmod(asked.lane, 8)
    col = asked.element // 2
    found = np.argwhere((where.row[:, matrix] == row) & (where.col[:, matrix] == col))
    lane, half = (int(v) for v in found[0])
    return (Taken(1, matrix, lane, 255 << 16 * half + 8 * (asked.element % 2)),)


def _transposed(i: Mods, values: list[Any], asked: Asked) -> tuple[Taken, ...]:
    out = []
    for half in _halves(asked.mask):
        row, col = 2 * (asked.lane % 4) + half, asked.lane // 4
        out.append(Taken(0, 0, 4 * row + col // 2, 0xFFFF << 16 * (col % 2)))
    return tuple(out)


_MATRIX_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4}


def _multiplied(i: Mods, values: list[Any], asked: Asked) -> tuple[Taken, ...]:
    M, N, K = extents(i)
    d_bits = 16 if i["dtype"] == "f16" else 32
    where = mma_accumulator(M, d_bits)
    out: list[Taken] = []
    for half in _halves(asked.mask) if d_bits == 16 else (0,):
        row = int(where.row[asked.lane, asked.element, half])
        col = int(where.col[asked.lane, asked.element, half])
        for operand, at, rows, kind in ((0, row, M, str(i["atype"])), (1, col, N, str(i["btype"]))):
            factor = mma_factor(rows, K, _MATRIX_BITS[kind])
            lanes, registers = np.nonzero((factor.row == at).any(2))
            out += [Taken(operand, int(r), int(at)) for at, r in zip(lanes, registers, strict=True)]
        out.append(Taken(2, asked.element, asked.lane, asked.mask))
    return tuple(out)


FLOWS: dict[str, WarpFlow] = {
    shfl_sync.__name__: _shuffled,
    redux_sync.__name__: _reduced,
    redux_sync_f32.__name__: _reduced,
    ldmatrix.__name__: _matrix_loaded,
    stmatrix.__name__: _matrix_stored,
    movmatrix.__name__: _transposed,
    mma_sync.__name__: _multiplied,
}


def flow_of(declaration: Declaration, mods: Mods) -> WarpFlow | None:
    """Return the flow of an instruction that is followed through the lanes of its warp."""
    found = FLOWS.get(declaration.semantics.__name__)
    if found in (_matrix_loaded, _matrix_stored) and mods["shape"] != "m8n8":
        return None
    if found is _multiplied and mods.get("atype") not in _MATRIX_BITS:
        return None
    return found
