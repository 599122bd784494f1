"""`ldmatrix` and `stmatrix` of 8 x 8 matrices of 16-bit elements natively, in shared memory.

Row i of a matrix are the 16 bytes at the address of lane i of its eight; half j of it is half 8 i + j of the
register, transposed half 8 j + i.
"""

from __future__ import annotations

from drywell.engine.llvm_text import LANES, Lanes, vector
from drywell.engine.native.ir import I16, I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import block_of, changed, row_of, shared_lanes
from drywell.engine.native.state import row_word
from drywell.engine.native.table import Emit, Native, Unit, call, constants, form, lanes_at, only_registers
from drywell.engine.native.tma import shared_part
from drywell.isa.matrix import ROW_BYTES
from drywell.machine.windows import OFFSET_MASK
from drywell.program import operands as ops

_SIDE = 8
_LD, _ST = "drywell.native.matrix.ld", "drywell.native.matrix.st"


def _access(name: str, is_load: bool) -> Function:
    """Write `i32 f(context, mask, addresses, registers, places, num, is_transposed, is_cluster)`."""
    head = {"context": PTR, "mask": I32} | dict.fromkeys(("addresses", "registers", "places"), PTR)
    f = Function(name, I32, head, num=I64, is_transposed=I64, is_cluster=I64)
    f.need(f["mask"].is_("eq", -1))
    rows = f.slot(f"[{LANES} x i64]")
    block = block_of(f)
    with f.loop(f["num"] * _SIDE) as number:
        address = f.load(I64, f["addresses"], number)
        f.need((address & ROW_BYTES - 1).is_("eq", 0))
        row, offset = row_of(f, block, address, f["is_cluster"].is_("ne", 0)), address & OFFSET_MASK
        shared_part(f, row, offset, f.of(I64, ROW_BYTES))
        f.store(row_word(f, row, "data") + offset, rows, number)
    with f.loop(f["num"]) as matrix, f.loop(_SIDE) as i, f.loop(_SIDE) as j:
        register = f.at(f["registers"], f.load(I32, f["places"], matrix).zext(I64))
        in_row = f.at(f.load(PTR, rows, matrix * _SIDE + i), j, I16)
        is_transposed = f["is_transposed"].is_("ne", 0)
        half = f.choose(is_transposed, j * _SIDE + i, i * _SIDE + j)
        _move(f, f.at(register, half, I16), in_row, is_load)
    if not is_load:
        changed(f)
    f.give(1)
    return f


def _move(f: Function, in_register: Value, in_row: Value, is_load: bool) -> None:
    target, source = (in_register, in_row) if is_load else (in_row, in_register)
    f.store(f.load(I16, source), target)


def functions() -> tuple[Function, ...]:
    """Return the functions of matrices."""
    return _access(_LD, True), _access(_ST, False)


@form("ldmatrix")
def _ldmatrix(instruction: ops.Bound) -> Emit | None:
    is_plain = instruction.mods["shape"] == "m8n8" and only_registers(instruction.destinations[0])
    return _emit if is_plain else None


@form("stmatrix")
def _stmatrix(instruction: ops.Bound) -> Emit | None:
    is_plain = instruction.mods["shape"] == "m8n8" and only_registers(instruction.sources[1])
    return _emit if is_plain else None


def _emit(unit: Unit, instruction: ops.Bound) -> Native:
    is_load = instruction.declaration.name == "ldmatrix"
    group = instruction.destinations[0] if is_load else instruction.sources[1]
    registers = group.elements if isinstance(group, ops.Group) else (group,)
    places = [unit.place(r) for r in registers if isinstance(r, ops.Register)]
    space = instruction.mods["space"]
    done = call(
        unit,
        _LD if is_load else _ST,
        lanes_at(unit, "address", _addresses(unit, instruction, space)),
        (PTR, "%registers"),
        constants(unit, places),
        *((I64, str(int(n))) for n in (len(places), bool(instruction.mods["trans"]), space is None)),
    )
    return Native(done, (None,) if is_load else ())


def _addresses(unit: Unit, instruction: ops.Bound, space: str | None) -> Lanes:
    """Return the shared-window addresses, 64 bits; one that no CTA has for what is elsewhere."""
    operand, op = instruction.sources[0], instruction.source_types[0]
    if space is None:
        return shared_lanes(unit, operand, op, True)
    value: Lanes = unit.read(operand, op)
    if value.width == 64:
        return value
    return Lanes(unit.w.let(f"zext {vector(32)} {value.text} to {vector(64)}"), 64)
