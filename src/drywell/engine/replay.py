"""Single instructions of a traced run, executed again: which bits of its sources a result depends on.

The answer comes from the meaning itself, but for plain floating-point arithmetic: every bit of every source
is turned over, 32 at a time in the 32 lanes, and what changes in the result is seen. So a select depends on
what it selected, a shift on the bits that it moved, and no table says which operand is data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.dtypes import TYPES
from drywell.engine.threaded import Compiler, Step
from drywell.engine.threaded_operands import Operands
from drywell.machine.lanes import FULL, LANES
from drywell.machine.registers import B128, lane_dtype
from drywell.program import operands as ops
from drywell.program.link import Executable, Linked

Values = dict[int, NDArray[Any]]
NONE = -1
"""Stands for an operand that is no register."""
_NO_DATA = ("policy", "size", "mask", "membermask")
_ONE_BIT = np.uint64(1) << np.arange(LANES, dtype=np.uint64)


class _Again:
    """What an instruction sees of its warp when it is executed again: registers, special registers."""

    def __init__(self, warp: Any, values: Values) -> None:
        self.warp = warp
        self.values = values
        self.mask = FULL
        self.cta = warp.cta

    def special(self, name: str) -> Any:
        """Return a special register of the warp."""
        return self.warp.special(name)


@dataclass(slots=True)
class Replay:
    """The instructions of an executable by place, with the numbers of their registers."""

    executable: Executable
    addresses: dict[str, int]
    places: dict[int, tuple[Linked, ops.Bound]] = field(init=False)
    writers: dict[int, list[int]] = field(init=False)
    _steps: dict[int, Step] = field(init=False, default_factory=dict)
    _elements: dict[int, tuple[range, int] | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.places = {
            linked.pc_base + k: (linked, instruction)
            for linked in self.executable.functions
            for k, instruction in enumerate(linked.function.code)
            if isinstance(instruction, ops.Bound)
        }
        self.writers = {}
        for pc in self.places:
            for vector in self.destinations(pc):
                for register in vector:
                    self.writers.setdefault(register, []).append(pc)

    def bound(self, pc: int) -> ops.Bound:
        """Return the instruction at a place."""
        return self.places[pc][1]

    def name(self, register: int) -> str:
        """Return a register's name in the text."""
        return self.executable.register_names[register]

    def destinations(self, pc: int) -> tuple[tuple[int, ...], ...]:
        """Return the registers of each destination operand, NONE where there is none."""
        linked, instruction = self.places[pc]
        return tuple(_numbers(o, linked.register_base) for o in instruction.destinations)

    def sources(self, pc: int) -> tuple[tuple[int, ...], ...]:
        """Return the registers of each source operand, NONE for constants and the like."""
        linked, instruction = self.places[pc]
        return tuple(_numbers(o, linked.register_base) for o in instruction.sources)

    def source_values(self, pc: int, warp: Any, values: Values) -> list[Any]:
        """Return the values of the sources as the meaning of the instruction gets them."""
        linked, instruction = self.places[pc]
        operands = Operands(self.executable, self.addresses, linked)
        again: Any = _Again(warp, values)
        return [read(again) for read in operands.source_readers(instruction)]

    def influences(
        self, pc: int, warp: Any, values: Values, lane: int, register: int, mask: int
    ) -> dict[int, int]:
        """Return, for each source register of a lane instruction, which of its bits change the bits `mask`
        of a result register in one lane when they are turned over.
        """
        linked, instruction = self.places[pc]
        if pc not in self._elements:
            self._elements[pc] = _element_bits(instruction)
            operands = Operands(self.executable, self.addresses, linked)
            self._steps[pc] = Compiler(operands).lane_step(instruction)
        per_element, step = self._elements[pc], self._steps[pc]
        if per_element:
            wide = sum(per_element[1] << low for low in per_element[0] if mask >> low & per_element[1])
            return {r: wide for numbers in self.sources(pc) for r in numbers if r != NONE} if wide else {}
        guard = set() if instruction.guard is None else {instruction.guard.index + linked.register_base}
        given = {r for numbers in self.sources(pc) for r in numbers if r != NONE}
        held = {k: np.repeat(values[k][lane : lane + 1], LANES) for k in given | guard}
        before = self._result(step, pc, warp, held, register)[0]
        out = {}
        for source in sorted(given):
            bits = 0
            for first in range(0, self._width(source), LANES):
                changed = dict(held)
                changed[source] = _turned(held[source], first, self._width(source))
                after = self._result(step, pc, warp, changed, register)
                for k, word in enumerate(after):
                    if (word ^ before) & mask:
                        bits |= 1 << first + k
            if bits:
                out[source] = bits
        return out

    def _width(self, register: int) -> int:
        return self.executable.register_widths[register]

    def _result(self, step: Any, pc: int, warp: Any, values: Values, register: int) -> list[int]:
        """Return a result register after an instruction, as bits of each lane."""
        own = dict(values)
        for vector in self.destinations(pc):
            for k in vector:
                if k != NONE:
                    own[k] = own[k].copy() if k in own else np.zeros(LANES, lane_dtype(self._width(k)))
        with np.errstate(all="ignore"):
            step(_Again(warp, own))
        found = own[register]
        if found.dtype == B128:
            return [int(v["lo"]) | int(v["hi"]) << 64 for v in found]
        return [int(v) for v in found.tolist()]


def _element_bits(instruction: ops.Bound) -> tuple[range, int] | None:
    """Return where the elements of a floating-point operation begin and the mask of one, if it computes each
    element of its result from the same element of every source, all of one type: rounding makes such a
    result depend on all bits of them. None for other instructions.
    """
    operands = (*instruction.destination_types, *instruction.source_types)
    types = {TYPES.get(getattr(operand, "type", "")) for operand in operands}
    kind = types.pop() if len(types) == 1 else None
    if kind is None or kind.kind != "float":
        return None
    width = kind.bits // kind.lanes
    return range(0, kind.bits, width), (1 << width) - 1


def _numbers(operand: Any, base: int) -> tuple[int, ...]:
    """Return the registers of an operand in order, NONE for what is none; of an address its base."""
    match operand:
        case ops.Register():
            return (operand.index + base,)
        case ops.Negated():
            return (operand.register.index + base,)
        case ops.Memory():
            return _numbers(operand.base, base)
        case ops.Group():
            return tuple(n for e in operand.elements for n in _numbers(e, base))
        case tuple():
            return tuple(n for e in operand for n in _numbers(e, base))
    return (NONE,)


def _turned(values: NDArray[Any], first: int, width: int) -> NDArray[Any]:
    """Return values of 32 lanes with bit `first + k` turned over in lane k, as far as there are bits."""
    out = values.copy()
    count = min(LANES, width - first)
    if width == 1:
        out[0] = not out[0]
    elif out.dtype == B128:
        half, low = ("lo", first) if first < 64 else ("hi", first - 64)
        out[half][:count] ^= _ONE_BIT[:count] << np.uint64(low)
    else:
        out[:count] ^= (_ONE_BIT[:count] << np.uint64(first)).astype(out.dtype)
    return out


def data_operands(bound: ops.Bound) -> list[int]:
    """Return which sources of an instruction are data: neither address nor policy, size or mask."""
    operands = [o for o in bound.declaration.operands if o.parts[0] not in bound.declaration.writes]
    return [
        k
        for k, operand in enumerate(operands)
        if operand.kind == "value" and operand.parts[0] not in _NO_DATA and bound.sources[k] is not None
    ]
