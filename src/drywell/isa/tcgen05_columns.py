"""The zero-column mask of `tcgen05.mma.ws`: which columns of B count as zero, and by how many B is shifted.

SPEC: N columns fall into 128 / M equal banks; in each, spans of columns that are used and that are zero
alternate. The manual's field table has the names of the two spans exchanged: its own examples have use
span + 1 columns used and skip span + 1 columns zero. Source: PTX ISA 9.7.16.4.3 "Zero-column mask
descriptor"; public CUTLASS. ASSUMED: a first span that its shift would use up keeps one column; the mask
applies to the columns after the shift.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drywell.base.record import record
from drywell.layout.descriptor import BitField, FieldProblem, bit_list, fields_mask

_BANKS = 4
_FIELDS = (
    *(BitField(f"sc{i}", 8 * i, 8) for i in range(_BANKS)),
    *(BitField(f"fs{i}", 32 + i, 1) for i in range(_BANKS)),
    BitField("nzm", 39, 1),
    BitField("skip_span", 40, 8),
    BitField("use_span", 48, 8),
    BitField("shift", 56, 6),
)
_RESERVED = ((1 << 64) - 1) & ~fields_mask(_FIELDS)


@record(eq=False)
class ColumnMask:
    """Column n of the product takes column n + `shift` of B, or zeros where `is_zero`."""

    shift: int
    is_zero: NDArray[np.bool_]


def decode_columns(word: int, M: int, N: int) -> ColumnMask:
    """Return what a zero-column mask descriptor says for an M x N instruction.

    >>> decode_columns(0x0001_0180_0000_0000, 128, 64).is_zero[:6].astype(int).tolist()
    [0, 0, 1, 1, 0, 0]
    """
    f = {field.name: field.get(word) for field in _FIELDS}
    is_zero = np.zeros(N, np.bool_)
    banks = 128 // M
    width = N // banks
    for bank in range(banks if f["nzm"] else 0):
        is_zero[bank * width : (bank + 1) * width] = _bank(
            width, bool(f[f"fs{bank}"]), f[f"sc{bank}"], f["use_span"] + 1, f["skip_span"] + 1
        )
    return ColumnMask(f["shift"], is_zero)


def _bank(width: int, is_zero: bool, shorter: int, used: int, skipped: int) -> NDArray[np.bool_]:
    """Return which columns of one bank are zero, its first span `shorter` by that many columns."""
    out = np.zeros(width, np.bool_)
    col, length = 0, (skipped if is_zero else used)
    length -= min(shorter, length - 1)
    while col < width:
        out[col : col + length] = is_zero
        col += length
        is_zero = not is_zero
        length = skipped if is_zero else used
    return out


def column_problems(word: int, M: int, max_shift: int) -> tuple[FieldProblem, ...]:
    """List what cannot be in a zero-column mask descriptor: reserved bits, a shift beyond what the idesc
    allows.
    """
    found = []
    if word & _RESERVED:
        found.append(FieldProblem("reserved", bit_list(word & _RESERVED), "1", "0"))
    shift = _FIELDS[-1].get(word)
    most = min(max_shift, 16 if M == 32 else 32)
    if shift > most:
        hint = "bits 30-31 of the idesc allow shifts of 8, 16 or 32 columns"
        found.append(FieldProblem("shift", "56-61", str(shift), f"at most {most}", hint=hint))
    return tuple(found)
