"""Which instructions arrive on which mbarriers, as far as the text tells: the variable each barrier address
is computed from.
"""

from __future__ import annotations

from dataclasses import dataclass

from drywell.base.span import Span
from drywell.program import operands as ops
from drywell.program.link import Executable, plain_name
from drywell.program.module import Function

_BARRIER_OPERANDS = ("mbar", "mbarrier")


@dataclass(frozen=True, slots=True)
class Arrival:
    """An instruction at `pc` that arrives on (or completes bytes of) a barrier in one of the shared
    variables `symbols`.
    """

    pc: int
    span: Span
    name: str
    symbols: frozenset[str]
    is_completion: bool


def _barrier_operand(instruction: ops.Bound) -> ops.Operand | tuple[ops.Operand, ...] | None:
    declared = [
        o for o in instruction.declaration.operands if o.parts[0] not in instruction.declaration.writes
    ]
    addresses = [
        (o.parts[0], s) for o, s in zip(declared, instruction.sources, strict=True) if o.kind == "address"
    ]
    named = [s for name, s in addresses if name in _BARRIER_OPERANDS]
    return named[0] if named else (addresses[0][1] if len(addresses) == 1 else None)


def _definitions(function: Function) -> dict[int, list[ops.Bound]]:
    found: dict[int, list[ops.Bound]] = {}
    for instruction in function.code:
        if isinstance(instruction, ops.Bound):
            for destination in instruction.destinations:
                if isinstance(destination, ops.Register):
                    found.setdefault(destination.index, []).append(instruction)
    return found


def _roots(operand: object, definitions: dict[int, list[ops.Bound]], seen: set[int]) -> set[str]:
    match operand:
        case ops.Symbol():
            return {plain_name(operand.name)} if operand.space == "shared" else set()
        case ops.Memory():
            return _roots(operand.base, definitions, seen)
        case ops.Register():
            if operand.index in seen:
                return set()
            seen.add(operand.index)
            return {
                name
                for d in definitions.get(operand.index, ())
                for s in d.sources
                for name in _roots(s, definitions, seen)
            }
        case tuple():
            return {name for element in operand for name in _roots(element, definitions, seen)}
    return set()


def arrivals(executable: Executable) -> tuple[Arrival, ...]:
    """Return every instruction of the executable that arrives on an mbarrier, in order of place."""
    out = []
    for linked in executable.functions:
        definitions = _definitions(linked.function)
        for k, instruction in enumerate(linked.function.code):
            if isinstance(instruction, ops.Bound) and instruction.declaration.arrives:
                is_completion = instruction.declaration.completes_by == "mbarrier"
                symbols = _roots(_barrier_operand(instruction), definitions, set())
                out.append(
                    Arrival(
                        linked.pc_base + k,
                        instruction.span,
                        instruction.declaration.opcode,
                        frozenset(symbols),
                        is_completion,
                    )
                )
    return tuple(out)
