"""Extended-precision arithmetic natively: sums with the carry bit of each lane, `Warp.carry`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drywell.engine.context_words import CONTEXT
from drywell.engine.llvm_text import Lanes, vector
from drywell.engine.native.state import BLOCK
from drywell.engine.native.table import ALWAYS, Emit, Native, Unit, form
from drywell.program import operands as ops

_BIT, _BYTE = vector(1), vector(8)


@dataclass(frozen=True, slots=True)
class _Sum:
    """What is added: the first operand or a half of its product with the second, the last one or its
    complement; and which carry.
    """

    product: str = ""
    is_complement: bool = False
    carry: str = "none"


_SUMS = {
    "add_cc": _Sum(),
    "addc": _Sum(carry="bit"),
    "sub_cc": _Sum(is_complement=True, carry="one"),
    "subc": _Sum(is_complement=True, carry="bit"),
    "mad_lo_cc": _Sum("lo"),
    "mad_hi_cc": _Sum("hi"),
    "madc_lo": _Sum("lo", carry="bit"),
    "madc_hi": _Sum("hi", carry="bit"),
}


@form(*_SUMS)
def _sum(instruction: ops.Bound) -> Emit | None:
    is_odd = _SUMS[instruction.declaration.name].product == "hi" and _bits(instruction) == 16
    return None if is_odd else _emit


def _bits(instruction: ops.Bound) -> int:
    return int(str(instruction.mods["type"])[1:])


def _emit(unit: Unit, instruction: ops.Bound) -> Native:
    w, what = unit.w, _SUMS[instruction.declaration.name]
    pairs = zip(instruction.sources, instruction.source_types, strict=True)
    first, *middle, last = (unit.read(*pair) for pair in pairs)
    kind = vector(first.width)
    left = _product(unit, what.product, first, middle[0], instruction) if middle else first.text
    right = w.let(f"xor {kind} {last.text}, splat (i{first.width} -1)") if what.is_complement else last.text
    place = _carry_place(unit)
    old = w.let(f"icmp ne {_BYTE} {w.let(f'load {_BYTE}, ptr {place}, align 1')}, zeroinitializer")
    total = w.let(f"add {kind} {left}, {right}")
    carry = w.let(f"icmp ult {kind} {total}, {left}")
    if what.carry != "none":
        bit = w.let(f"zext {_BIT} {old} to {kind}") if what.carry == "bit" else f"splat (i{first.width} 1)"
        total = w.let(f"add {kind} {total}, {bit}")
        carry = w.let(f"or {_BIT} {carry}, {w.let(f'icmp ult {kind} {total}, {bit}')}")
    if instruction.mods["cc"]:
        lanes = w.let(f"bitcast i32 {unit.mask} to {_BIT}")
        new = w.let(f"select {_BIT} {lanes}, {_BIT} {carry}, {_BIT} {old}")
        w.do(f"store {_BYTE} {w.let(f'zext {_BIT} {new} to {_BYTE}')}, ptr {place}, align 1")
    return Native(ALWAYS, (Lanes(total, first.width),))


def _product(unit: Unit, half: str, a: Any, b: Any, instruction: ops.Bound) -> str:
    """Return the low or the high half of a product."""
    w, kind, wide = unit.w, vector(a.width), vector(2 * a.width)
    if half == "lo":
        return w.let(f"mul {kind} {a.text}, {b.text}")
    widen = "sext" if str(instruction.mods["type"]).startswith("s") else "zext"
    left, right = (w.let(f"{widen} {kind} {v.text} to {wide}") for v in (a, b))
    whole = w.let(f"mul {wide} {left}, {right}")
    upper = w.let(f"lshr {wide} {whole}, splat (i{2 * a.width} {a.width})")
    return w.let(f"trunc {wide} {upper} to {kind}")


def _carry_place(unit: Unit) -> str:
    """Return where the carry bits of the warp lie, a byte each."""
    w, machine, carry = unit.w, CONTEXT["machine"], BLOCK["carry"]
    block = w.let(f"load ptr, ptr {w.let(f'getelementptr i64, ptr %context, i64 {machine}')}")
    return w.let(f"load ptr, ptr {w.let(f'getelementptr i64, ptr {block}, i64 {carry}')}")
