"""What can be told of a result without running: bits that are always the same, and whether the lanes of a
warp surely differ.

`evaluate` says nothing where it does not know, so what it does say holds for every launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drywell.base.record import record
from drywell.isa.declare import Declaration, Mods

_WARP: Final = 32
_ALL: Final = (1 << 64) - 1
_WIDTH: Final = {"pred": 1} | {f"{k}{n}": n for k in "bus" for n in (8, 16, 32, 64)}


@record
class Value:
    """What is known of a register: `bits` holds the values of the bits in the mask `known`; with `varies` the
    lanes of a warp differ; `thread` is c when it is the thread's number along x (or in its warp) plus c.
    """

    known: int = 0
    bits: int = 0
    varies: bool = False
    thread: int | None = None

    def meet(self, other: Value) -> Value:
        """Return what is known where either value may be there."""
        if self == other:
            return self
        known = self.known & other.known & ~(self.bits ^ other.bits)
        thread = self.thread if self.thread == other.thread else None
        return Value(known, self.bits & known, self.varies and other.varies, thread)

    def constant(self, width: int) -> int | None:
        """Return the value of `width` bits, None when a bit of it is not known."""
        mask = (1 << width) - 1
        return self.bits & mask if self.known & mask == mask else None


NOTHING: Final = Value()
"""Nothing is known."""
LANES: Final = ("%tid.x", "%laneid")
"""Special registers that differ from lane to lane."""


def special(name: str) -> Value:
    """Return what is known of a special register."""
    return Value(varies=True, thread=0) if name in LANES else NOTHING


def literal(bits: int) -> Value:
    """Return the value of a constant."""
    return Value(_ALL, bits & _ALL)


def evaluate(declaration: Declaration, mods: Mods, sources: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return what is known of each result of an instruction, in the order of its destinations."""
    act = _ACTS.get(declaration.name)
    if act is None:
        return (NOTHING,) * len(declaration.writes)
    result = act(mods, sources)
    return result if isinstance(result, tuple) else (result,) * len(declaration.writes)


def is_told(declaration: Declaration) -> bool:
    """Say whether `evaluate` can say something of an instruction's results."""
    return declaration.name in _ACTS


def allocates(declaration: Declaration) -> bool:
    """Say whether an instruction allocates columns of Tensor Memory."""
    return declaration.name == "tcgen05_alloc"


def frees(declaration: Declaration) -> bool:
    """Say whether an instruction frees columns of Tensor Memory."""
    return declaration.name == "tcgen05_dealloc"


def reads_columns(declaration: Declaration) -> bool:
    """Say whether an instruction reads Tensor Memory into registers."""
    return declaration.name == "tcgen05_ld"


def sets_registers(declaration: Declaration) -> bool:
    """Say whether an instruction sets how many registers a thread has."""
    return declaration.name == "setmaxnreg"


def traps(declaration: Declaration) -> bool:
    """Say whether an instruction ends the kernel as a fault."""
    return declaration.name in ("trap", "brkpt")


def is_data(declaration: Declaration, mods: Mods) -> bool:
    """Say whether an instruction brings in what a launch gives to all threads alike: parameters, constants,
    global memory.
    """
    return declaration.name == "ld" and str(mods.get("space")).split("::")[0] in ("param", "const", "global")


_Sources = tuple[Value, ...]


def _width(mods: Mods, slot: str = "type") -> int:
    return _WIDTH.get(str(mods.get(slot)), 0)


def _cut(value: Value, width: int) -> Value:
    """Return a value in a register of `width` bits: above them there is nothing, which is known."""
    high = _ALL & ~((1 << width) - 1)
    return Value(value.known | high, value.bits & ~high, value.varies, value.thread)


def _move(mods: Mods, sources: _Sources) -> Value:
    width = _width(mods)
    return _cut(sources[0], width) if width else NOTHING


def _convert(mods: Mods, sources: _Sources) -> Value:
    """A wider unsigned register gets zeros; of signed ones only what is not negative is kept."""
    old, new = _width(mods, "atype"), _width(mods, "dtype")
    value = _cut(sources[0], old)
    is_widened = str(mods.get("atype"))[0] == "s" and new > old
    is_positive = value.known >> (old - 1) & 1 and not value.bits >> (old - 1) & 1
    if mods.get("sat") or not old or not new or (is_widened and not is_positive and not value.varies):
        return NOTHING
    if is_widened and not is_positive:
        return Value(varies=True, thread=value.thread)
    return _cut(value, new)


def _both(mods: Mods, sources: _Sources) -> Value:
    a, b = sources
    known = (a.known & b.known) | (a.known & ~a.bits) | (b.known & ~b.bits)
    masked, mask = (a, b.constant(_width(mods))) if a.varies else (b, a.constant(_width(mods)))
    if mods.get("type") == "pred":
        return Value(varies=a.varies or b.varies)
    varies = masked.thread is not None and mask is not None and mask & (_WARP - 1) != 0
    is_lane = varies and mask == _WARP - 1 and masked.thread == 0
    return Value(known, a.bits & b.bits & known, varies, 0 if is_lane else None)


def _either(mods: Mods, sources: _Sources) -> Value:
    a, b = sources
    if mods.get("type") == "pred":
        return Value(varies=a.varies or b.varies)
    known = (a.known & b.known) | (a.known & a.bits) | (b.known & b.bits)
    return Value(known, (a.bits | b.bits) & known)


def _not(mods: Mods, sources: _Sources) -> Value:
    (a,) = sources
    return _cut(Value(a.known, ~a.bits & a.known, a.varies), _width(mods))


def _left(mods: Mods, sources: _Sources) -> Value:
    value, by = sources[0], sources[1].constant(32)
    width = _width(mods)
    if by is None or by >= width:
        return NOTHING
    low = (1 << by) - 1
    varies = value.varies and (value.thread is not None or by == 0)
    return _cut(Value((value.known << by | low) & _ALL, value.bits << by & _ALL, varies), width)


def _right(mods: Mods, sources: _Sources) -> Value:
    by = sources[1].constant(32)
    width = _width(mods)
    value = _cut(sources[0], width)
    if by is None or by >= width or str(mods.get("type"))[0] == "s":
        return NOTHING
    varies = value.thread is not None and _WARP >> by > 1
    return _cut(Value(value.known >> by, value.bits >> by, varies), width)


def _sum(sign: int) -> Callable[[Mods, _Sources], Value]:
    def add(mods: Mods, sources: _Sources) -> Value:
        width = _width(mods)
        if not width or mods.get("sat"):
            return NOTHING
        a, b = sources
        left, right = a.constant(width), b.constant(width)
        if left is not None and right is not None:
            return _cut(literal(left + sign * right), width)
        if right is not None and a.thread is not None:
            return Value(varies=True, thread=a.thread + sign * _signed(right, width))
        if left is not None and b.thread is not None and sign > 0:
            return Value(varies=True, thread=b.thread + _signed(left, width))
        return NOTHING

    return add


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


_EDGES: Final = {"lt": 0, "lo": 0, "ge": 0, "hs": 0, "le": 1, "ls": 1, "gt": 1, "hi": 1}
"""Comparisons with k that part the numbers below k + this from the others."""


def _compare(mods: Mods, sources: _Sources) -> Value:
    width = _width(mods)
    if len(sources) != 2 or not width or mods.get("BoolOp"):
        return NOTHING
    a, k = sources[0], sources[1].constant(width)
    if a.thread is None or k is None:
        return NOTHING
    edge = _EDGES.get(str(mods.get("CmpOp")))
    if edge is None:
        return Value(varies=mods.get("CmpOp") in ("eq", "ne"))
    return Value(varies=(_signed(k, width) + edge - a.thread) % _WARP != 0)


def _elect(mods: Mods, sources: _Sources) -> tuple[Value, ...]:
    return NOTHING, Value(varies=True)


_ACTS: Final[dict[str, Callable[[Mods, _Sources], Value | tuple[Value, ...]]]] = {
    "mov": _move,
    "cvt_integer": _convert,
    "and": _both,
    "or": _either,
    "xor": lambda mods, sources: _either(mods, sources) if mods.get("type") == "pred" else NOTHING,
    "not": _not,
    "shl": _left,
    "shr": _right,
    "add": _sum(1),
    "sub": _sum(-1),
    "setp": _compare,
    "elect_sync": _elect,
}
"""By the name of the declaration."""
