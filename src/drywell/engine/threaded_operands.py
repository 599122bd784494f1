"""How threaded code reads and writes operands: a callable each, over a warp.

Registers are NumPy views `w.values[k]`, one value per lane; the lanes that execute are `w.mask`; the very
object `FULL` stands for all 32, so that the common case writes without a mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Op
from drywell.machine.lanes import FULL, LANES
from drywell.machine.registers import B128, lane_dtype
from drywell.machine.windows import CALL_PARAMS, RANK_SHIFT
from drywell.program import operands as ops
from drywell.program.link import Executable, Linked

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], None]


def _constant(bits: int, width: int) -> NDArray[Any]:
    if width == 1:
        value: NDArray[Any] = np.full(LANES, bool(bits))
    elif width == 128:
        value = np.zeros(LANES, B128)
        value["lo"], value["hi"] = bits & (2**64 - 1), bits >> 64
    else:
        value = np.full(LANES, bits & ((1 << width) - 1), lane_dtype(width))
    value.setflags(write=False)
    return value


@dataclass(frozen=True, slots=True)
class Operands:
    """Makes the callables of the operands of one linked function; `addresses` are those of the executable's
    global and const variables.
    """

    executable: Executable
    addresses: dict[str, int]
    linked: Linked

    def index_of(self, register: ops.Register) -> int:
        """Return the number of a register among those of the executable."""
        return register.index + self.linked.register_base

    # ---------------------------------------------------------------- reading
    def reader(self, operand: Any, op: Any) -> Read:
        """Return a callable that gives the operand's value for a warp."""
        match operand:
            case None:
                return lambda w: None
            case tuple():
                parts = [self.reader(o, t) for o, t in zip(operand, op, strict=True)]
                return lambda w: tuple(part(w) for part in parts)
            case ops.Register():
                return self._register(operand, op)
            case ops.Negated():
                index = self.index_of(operand.register)
                return lambda w: ~w.values[index]
            case ops.Immediate():
                value = _constant(operand.bits, TYPES[op.type].bits)
                return lambda w: value
            case ops.Special():
                name = operand.name
                return lambda w: w.special(name)
            case ops.Symbol():
                return self._symbol(operand, TYPES[op.type].bits)
            case ops.Memory():
                return self._memory(operand)
            case ops.Group() if operand.is_params:
                frame = tuple(self.executable.places["frame", e.name] for e in operand.elements)  # type: ignore[union-attr]
                return lambda w: frame
            case ops.Group():
                return self._group(operand, op)
        return self._place(operand)

    def source_readers(self, instruction: ops.Bound) -> list[Read]:
        """Return callables that give the values of an instruction's sources."""
        both = zip(instruction.sources, instruction.source_types, strict=True)
        return [self.reader(source, kind) for source, kind in both]

    def _place(self, operand: Any) -> Read:
        base = self.linked.pc_base
        match operand:
            case ops.Target():
                pc = operand.pc + base
                return lambda w: pc
            case ops.Targets():
                pcs = np.array(operand.pcs) + base
                return lambda w: pcs
            case ops.FunctionRef():
                name = operand.name
                return lambda w: name
        return lambda w: None

    def _register(self, operand: ops.Register, op: Op) -> Read:
        index = self.index_of(operand)
        width = TYPES[op.type].bits
        if operand.type.bits == width or operand.type.kind == "pred":
            return lambda w: w.values[index]
        dtype = lane_dtype(width)
        return lambda w: w.values[index].astype(dtype)

    def _symbol(self, operand: ops.Symbol, width: int) -> Read:
        space, offset = operand.space, operand.offset
        if space == "shared":
            place = self.executable.places[space, operand.name] + offset
            dtype = lane_dtype(width)
            return lambda w: np.full(LANES, (w.cta.rank << RANK_SHIFT) + place, dtype)
        if space in ("global", "const"):
            value = _constant(self.addresses[operand.name] + offset, width)
        elif space == "frame":
            value = _constant(CALL_PARAMS + self.executable.places[space, operand.name] + offset, width)
        else:
            value = _constant(self.executable.places[space, operand.name] + offset, width)
        return lambda w: value

    def _memory(self, operand: ops.Memory) -> Read:
        base, offset = operand.base, operand.offset
        if base is None:
            value = _constant(offset, 64)
            return lambda w: value
        if isinstance(base, ops.Symbol):
            width = 32 if base.space in ("shared", "local") else 64
            return self._symbol(ops.Symbol(base.space, base.name, base.offset + offset), width)
        index = self.index_of(base)
        if offset == 0:
            return lambda w: w.values[index]
        step = _constant(offset, base.type.bits)
        return lambda w: w.values[index] + step

    def _group(self, operand: ops.Group, op: Op) -> Read:
        width = TYPES[op.type].bits if op.count is not None else TYPES[op.type].bits // len(operand.elements)
        element = Op(f"b{width}", is_relaxed=op.is_relaxed) if width > 1 else Op("pred")
        readers = [self.reader(e, element) for e in operand.elements]
        indices = [
            self.index_of(e) for e in operand.elements if isinstance(e, ops.Register) and e.type.bits == width
        ]
        if len(indices) == len(readers):
            return lambda w: tuple([w.values[k] for k in indices])
        return lambda w: tuple([read(w) for read in readers])

    # ---------------------------------------------------------------- writing
    def writer(self, operand: ops.Operand, op: Op) -> Write | None:
        """Return a callable that stores a value to a destination under the warp's mask; None for a sink."""
        if isinstance(operand, ops.Register):
            return self._register_writer(operand, op)
        if isinstance(operand, ops.Group):
            width = (
                TYPES[op.type].bits if op.count is not None else TYPES[op.type].bits // len(operand.elements)
            )
            signed = TYPES[op.type].kind == "signed" and op.count is not None
            element = (
                Op(f"{'s' if signed else 'b'}{width}", is_relaxed=op.is_relaxed) if width > 1 else Op("pred")
            )
            writers = [self.writer(e, element) for e in operand.elements]

            narrow = lane_dtype(width)
            is_taken_apart = op.count is None

            def write_all(w: Any, values: Any) -> None:
                if is_taken_apart:
                    values = np.ascontiguousarray(values).view(narrow).reshape(LANES, len(writers)).T
                for write, value in zip(writers, values, strict=True):
                    if write is not None:
                        write(w, value)

            return write_all
        return None

    def _register_writer(self, operand: ops.Register, op: Op) -> Write:
        index = self.index_of(operand)
        wanted = TYPES[op.type]
        if operand.type.bits == wanted.bits:

            def write(w: Any, value: Any) -> None:
                if w.mask is FULL:
                    w.values[index][...] = value
                else:
                    np.copyto(w.values[index], value, where=w.mask)

            return write
        signed = wanted.kind == "signed"
        narrow = np.dtype(f"i{wanted.bits // 8}") if signed else None
        wide = np.dtype(f"i{operand.type.bits // 8}") if signed and operand.type.bits < 128 else None

        def write_wider(w: Any, value: Any) -> None:
            value = np.asarray(value)
            target = w.values[index]
            if narrow is not None and wide is not None:
                value = value.view(narrow).astype(wide).view(target.dtype)
            elif target.dtype == B128:
                value = _widen_to_128(value)
            np.copyto(target, value, where=w.mask, casting="unsafe")

        return write_wider

    def destination_writer(self, instruction: ops.Bound) -> Write | None:
        """Return a callable that stores a semantics function's result to all destinations."""
        writers = [
            self.writer(d, t)
            for d, t in zip(instruction.destinations, instruction.destination_types, strict=True)
        ]
        if not any(writers):
            return None
        if len(writers) == 1:
            return writers[0]

        def write(w: Any, values: Any) -> None:
            for one, value in zip(writers, values, strict=True):
                if one is not None:
                    one(w, value)

        return write


def _widen_to_128(value: np.ndarray) -> np.ndarray:
    out = np.zeros(LANES, B128)
    out["lo"] = value
    return out
