"""Atomics natively: `atom` and `red` of integers, and sums of f32, on global and shared memory.

Lanes act one after the other, the lowest first, once all addresses have been found to be right. The state
counts as changed only when some bytes have changed.
"""

from __future__ import annotations

from typing import Any

from drywell.base.dtypes import TYPES
from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import LANES, Lanes, vector
from drywell.engine.native.ir import I1, I32, I64, PTR, Function, Value, Variable
from drywell.engine.native.mbarrier import block_of, changed, row_of
from drywell.engine.native.state import row_word
from drywell.engine.native.table import Emit, Native, Unit, call, form, lanes_at
from drywell.engine.native.tma import in_global, shared_part
from drywell.machine.windows import GLOBAL_BASE, LOCAL_BASE, OFFSET_MASK, PARAM_BASE, SHARED_BASE
from drywell.program import operands as ops

_OPERATIONS = ("add", "umin", "umax", "smin", "smax", "and", "or", "xor", "inc", "dec", "exch", "cas", "fadd")
_SPACES = ("global", "shared", "shared::cluster", "")
_ATOMIC = "drywell.native.atomic"

#: f32: the exponent's bits, the sign, the size of an infinity, the NaN that arithmetic gives.
_EXPONENT, _SIGN, _INFINITY, _NAN = 0x7F80_0000, 0x8000_0000, 0x7F80_0000, 0x7FFF_FFFF


def _hosts(f: Function, block: Value, hosts: Value, are_global: Variable) -> None:
    """Write where each lane's bytes lie on the host; leave where one's are out of bounds or misaligned."""
    size, space = f["size"], f["space"]
    global_data = f.load(I64, f["context"], CONTEXT["global_data"])
    with f.each_bit(f["mask"]) as lane:
        address = f.load(I64, f["addresses"], lane)
        f.need((address & size - 1).is_("eq", 0))
        upper, is_generic = address >> 32, space.is_("eq", _SPACES.index(""))
        f.need((is_generic & _is_other(f, upper)).is_("eq", 0))
        in_window = is_generic & upper.is_("eq", SHARED_BASE >> 32)
        is_global = space.is_("eq", 0) | (is_generic & in_window.is_("eq", 0))
        host = f.variable(I64)
        with f.when(is_global):
            offset = address - GLOBAL_BASE
            f.need(in_global(f, offset, size))
            host.set(global_data + offset)
        with f.when(is_global.is_("eq", 0)):
            inner = f.choose(in_window, address & 0xFFFF_FFFF, address)
            row = row_of(f, block, inner, space.is_("ne", _SPACES.index("shared")))
            shared_part(f, row, inner & OFFSET_MASK, size)
            host.set(row_word(f, row, "data") + (inner & OFFSET_MASK))
        f.store(host.value, hosts, lane)
        are_global.set(are_global.value | is_global.zext(I32) << lane.trunc(I32))


def _is_other(f: Function, upper: Value) -> Value:
    """Say whether a generic address lies in local or parameter memory."""
    return upper.is_("eq", LOCAL_BASE >> 32) | upper.is_("eq", PARAM_BASE >> 32)


def _new(f: Function, old: Value, given: Value, third: Value, is_global: Value) -> Value:
    """Return what an operation leaves, in the low bits of 64; signed operands have been widened as such."""
    table = {
        "add": old + given,
        "umin": f.choose(old.is_("ult", given), old, given),
        "umax": f.choose(old.is_("ugt", given), old, given),
        "smin": old.smin(given),
        "smax": old.smax(given),
        "and": old & given,
        "or": old | given,
        "xor": old ^ given,
        "inc": f.choose(old.is_("uge", given), f.of(I64, 0), old + 1),
        "dec": f.choose(old.is_("eq", 0) | old.is_("ugt", given), given, old - 1),
        "exch": given,
        "cas": f.choose(old.is_("eq", given), third, old),
        "fadd": _sum(f, old.trunc(I32), given.trunc(I32), is_global).zext(I64),
    }
    result = table["add"]
    for number, name in enumerate(_OPERATIONS[1:], 1):
        result = f.choose(f["operation"].is_("eq", number), table[name], result)
    return result


def _sum(f: Function, a: Value, b: Value, flushes: Value) -> Value:
    """Return the sum of two f32; with `flushes` subnormals count, and come out, as zeros."""

    def flushed(x: Value) -> Value:
        return f.choose(flushes & (x & _EXPONENT).is_("eq", 0), x & _SIGN, x)

    x, y = (flushed(v).bitcast("float") for v in (a, b))
    total = f.let("float", f"fadd float {x.text}, {y.text}").bitcast(I32)
    is_nan = (total & 0x7FFF_FFFF).is_("ugt", _INFINITY)
    return f.choose(is_nan, f.of(I32, _NAN), flushed(total))


def _atomic_function() -> Function:
    """Write `i32 f(context, mask, space, operation, width, count, size, addresses, operands, thirds, old)`:
    arrays of 64-bit lanes, one for each of `count` elements of `width` bits.
    """
    numbers = dict.fromkeys(("space", "operation", "width", "count", "size"), I64)
    arrays = dict.fromkeys(("addresses", "operands", "thirds", "olds"), PTR)
    f = Function(_ATOMIC, I32, {"context": PTR, "mask": I32} | numbers | arrays)
    hosts, are_global = f.slot(f"[{LANES} x i64]"), f.variable(I32, 0)
    _hosts(f, block_of(f), hosts, are_global)
    is_wide = f["width"].is_("eq", 64)
    operation = f["operation"]
    is_smin, is_smax = (operation.is_("eq", _OPERATIONS.index(name)) for name in ("smin", "smax"))
    is_signed = is_smin | is_smax
    has_changed = f.variable(I1, 0)
    with f.each_bit(f["mask"]) as lane, f.loop(f["count"]) as element:
        is_global = (are_global.value >> lane.trunc(I32) & 1).is_("ne", 0)
        at = element * LANES + lane
        host = f.load(PTR, hosts, lane)
        place = f.at(host, element * (f["width"] >> 3))
        old = f.variable(I64, f.load(I32, place).zext(I64))
        with f.when(is_wide):
            old.set(f.load(I64, place))
        given = f.load(I64, f["operands"], at)
        left = f.choose(is_signed & is_wide.is_("eq", 0), old.value.trunc(I32).sext(I64), old.value)
        right = f.choose(is_signed & is_wide.is_("eq", 0), given.trunc(I32).sext(I64), given)
        new = _new(f, left, right, f.load(I64, f["thirds"], at), is_global)
        f.store(old.value, f["olds"], at)
        differs = (new ^ old.value).trunc(I32).is_("ne", 0) | (is_wide & new.is_("ne", old.value))
        has_changed.set(has_changed.value | differs)
        with f.when(is_wide):
            f.store(new, place)
        with f.when(is_wide.is_("eq", 0)):
            f.store(new.trunc(I32), place)
    with f.when(has_changed.value):
        changed(f)
    f.give(1)
    return f


def functions() -> tuple[Function, ...]:
    """Return the function of atomics."""
    return (_atomic_function(),)


# -------------------------------------------------------------------- what a region writes


def _operation(instruction: ops.Bound) -> str | None:
    """Return the operation, None for one that native code leaves."""
    mods = instruction.mods
    op, kind = str(mods.get("op") or "cas"), str(mods["type"])
    if kind == "f32":
        return "fadd" if op == "add" else None
    if kind not in ("b32", "b64", "u32", "s32", "u64", "s64"):
        return None
    return f"{kind[0]}{op}" if op in ("min", "max") else op


def _count(instruction: ops.Bound) -> int:
    vec = instruction.mods.get("vec")
    return int(vec[1:]) if vec else 1


def _space(instruction: ops.Bound) -> str:
    space = str(instruction.mods["space"] or "")
    return "shared" if space == "shared::cta" else space


@form("atom", "red", "atom_cas")
def _atomic(instruction: ops.Bound) -> Emit | None:
    return _emit if _operation(instruction) and _space(instruction) in _SPACES else None


def _wide(unit: Unit, value: Lanes) -> Lanes:
    if value.width == 64:
        return value
    return Lanes(unit.w.let(f"zext {vector(value.width)} {value.text} to {vector(64)}"), 64)


def _rows(unit: Unit, key: str, value: Any, count: int) -> tuple[str, str]:
    """Put the elements of an operand into memory, one array of 64-bit lanes behind the other."""
    w, parts = unit.w, value if isinstance(value, tuple) else (value,)
    slot = w.slot(f"native {key} {count}", f"[{count} x {vector(64)}]")
    for k, part in enumerate(parts):
        place = w.let(f"getelementptr {vector(64)}, ptr {slot}, i64 {k}")
        w.do(f"store {vector(64)} {_wide(unit, part).text}, ptr {place}")
    return PTR, slot


def _emit(unit: Unit, instruction: ops.Bound) -> Native:
    w, count, width = unit.w, _count(instruction), TYPES[str(instruction.mods["type"])].bits
    operation, is_cas = _operation(instruction), instruction.declaration.name == "atom_cas"
    assert operation is not None
    address, operand, third = (unit.read(*p) for p in _operands(instruction, is_cas))
    which = _SPACES.index(_space(instruction)), _OPERATIONS.index(operation)
    numbers = (*which, width, count, width * count // 8)
    given = _rows(unit, "operands", operand, count)
    olds = w.slot(f"native olds {count}", f"[{count} x {vector(64)}]")
    done = call(
        unit,
        _ATOMIC,
        *((I64, str(n)) for n in numbers),
        lanes_at(unit, "address", _wide(unit, address)),
        given,
        _rows(unit, "thirds", third, count) if is_cas else given,
        (PTR, olds),
    )
    return Native(done, _results(unit, instruction, olds, width, count))


def _operands(instruction: ops.Bound, is_cas: bool) -> list[tuple[Any, Any]]:
    """Return address, operand and third operand; the second one again when there is no third."""
    pairs = list(zip(instruction.sources, instruction.source_types, strict=True))
    return pairs[:3] if is_cas else [*pairs[:2], pairs[1]]


def _results(unit: Unit, instruction: ops.Bound, olds: str, width: int, count: int) -> tuple[Any, ...]:
    if not instruction.destinations:
        return ()
    w, parts = unit.w, []
    for k in range(count):
        place = w.let(f"getelementptr {vector(64)}, ptr {olds}, i64 {k}")
        whole = w.let(f"load {vector(64)}, ptr {place}")
        if width < 64:
            whole = w.let(f"trunc {vector(64)} {whole} to {vector(width)}")
        parts.append(Lanes(whole, width))
    return (tuple(parts) if instruction.mods.get("vec") else parts[0],)
