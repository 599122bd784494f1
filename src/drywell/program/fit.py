"""Which register, immediate or symbol may stand for an operand of a given type: the type rules of PTX as
`ptxas` enforces them.
"""

from __future__ import annotations

import struct

from drywell.base.dtypes import TYPES, PtxType
from drywell.isa.declare import Op
from drywell.program.storage import to_f32_bits
from drywell.ptx import tree

_INTEGERS = ("unsigned", "signed")
ADDRESS_BITS = {"addr": (32, 64), "addri": (32, 64), "addr32": (32,), "addr32b": (32,), "addr64": (64,)}


def _same_kind(register: PtxType, wanted: PtxType) -> bool:
    if "bits" in (register.kind, wanted.kind) and "pred" not in (register.kind, wanted.kind):
        return True
    if register.kind in _INTEGERS and wanted.kind in _INTEGERS:
        return wanted.lanes == 1 or register.name == wanted.name
    return register.name == wanted.name


def register_fits(register: PtxType, op: Op) -> bool:
    """Tell whether a register of this type may be used where `op` is wanted."""
    wanted = TYPES[op.type]
    if register is wanted:
        return True
    if register.bits == wanted.bits:
        return _same_kind(register, wanted)
    if not op.is_relaxed or register.bits < wanted.bits or "pred" in (register.kind, wanted.kind):
        return False
    return "bits" in (register.kind, wanted.kind) or (register.kind in _INTEGERS and wanted.kind in _INTEGERS)


def address_fits(register: PtxType, op: Op) -> bool:
    """Tell whether a register may be the base of an address."""
    if op.type in ADDRESS_BITS:
        kinds = ("bits",) if op.type == "addr32b" else ("bits", "unsigned", "signed")
        return register.bits in ADDRESS_BITS[op.type] and register.kind in kinds
    return register_fits(register, op)


def _float_bits(literal: tree.Float, width: int) -> int:
    if literal.width == width:
        return literal.bits
    if literal.width == 64:
        return to_f32_bits(literal.bits)
    value = struct.unpack("<f", struct.pack("<I", literal.bits))[0]
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def immediate_bits(literal: tree.Integer | tree.Float, op: Op) -> int | str:
    """Return the literal's bits in the operand's type, or why it cannot stand there."""
    wanted = TYPES[op.type]
    if isinstance(literal, tree.Float):
        if wanted.kind not in ("float", "bits") or wanted.bits not in (32, 64) or wanted.lanes > 1:
            return f"a floating-point constant cannot be a .{op.type}"
        if wanted.kind == "bits" and literal.width != wanted.bits:
            return f"a constant of {literal.width} bits cannot be a .{op.type}"
        return _float_bits(literal, wanted.bits)
    if wanted.kind == "float":
        return f"an integer constant cannot be a .{op.type}: write it as 0f or 0d bits"
    if wanted.kind == "pred":
        return int(literal.value != 0)
    if op.range is not None and not op.range[0] <= literal.value <= op.range[1]:
        return f"{literal.value} is outside {op.range[0]}..{op.range[1]}"
    if literal.value % op.multiple_of:
        return f"{literal.value} is not a multiple of {op.multiple_of}"
    if op.one_of and literal.value not in op.one_of:
        return f"{literal.value} is not one of {', '.join(map(str, op.one_of))}"
    return literal.value & ((1 << wanted.bits) - 1)


def describe(op: Op) -> str:
    """Say in words what an operand must be."""
    if op.type == "addr32b":
        return "a .b32 register"
    if op.type in ADDRESS_BITS:
        return "an address of " + " or ".join(str(b) for b in ADDRESS_BITS[op.type]) + " bits"
    kinds = [
        word
        for letter, word in (("r", "register"), ("i", "constant"), ("s", "symbol"), ("v", "special register"))
        if letter in op.accepts
    ]
    one = f"a .{op.type} " + (" or ".join(kinds) or "operand")
    return f"a list of {op.count} × {one}" if op.count is not None else one
