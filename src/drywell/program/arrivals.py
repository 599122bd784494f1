"""Which instructions arrive on which mbarriers, as far as the text tells: the variable each barrier address
is computed from.
"""

from __future__ import annotations

from drywell.base.record import record
from drywell.base.span import Span
from drywell.program import operands as ops
from drywell.program.link import Executable, plain_name
from drywell.program.module import Function

_BARRIER_OPERANDS = ("mbar", "mbarrier")


@record
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
    """Return the instructions that write each register."""
    found: dict[int, list[ops.Bound]] = {}
    for instruction in function.code:
        if isinstance(instruction, ops.Bound):
            for register in ops.written(instruction):
                found.setdefault(register.index, []).append(instruction)
    return found


def _roots(
    operand: ops.Operand | tuple[ops.Operand, ...] | None, definitions: dict[int, list[ops.Bound]]
) -> frozenset[str]:
    """Return the shared variables that an operand is computed from."""
    roots: set[str] = set()
    seen: set[int] = set()
    work = list(ops.leaves(operand))
    while work:
        leaf = work.pop()
        if isinstance(leaf, ops.Symbol) and leaf.space == "shared":
            roots.add(plain_name(leaf.name))
        elif isinstance(leaf, ops.Register) and leaf.index not in seen:
            seen.add(leaf.index)
            for definition in definitions.get(leaf.index, ()):
                work += [inner for source in definition.sources for inner in ops.leaves(source)]
    return frozenset(roots)


@record
class BarrierUse:
    """An instruction that arrives on, or waits for, a barrier in one of the shared variables `symbols`
    (none: the text does not tell).
    """

    span: Span
    symbols: frozenset[str]
    arrives: bool
    waits: bool


def barrier_uses(function: Function) -> tuple[BarrierUse, ...]:
    """Return every instruction of a function that arrives on an mbarrier or waits for one, in order."""
    definitions = _definitions(function)
    out = []
    for instruction in function.code:
        if not isinstance(instruction, ops.Bound):
            continue
        declaration = instruction.declaration
        if not declaration.arrives and not declaration.waits:
            continue
        barrier = _barrier_operand(instruction)
        if barrier is not None:
            symbols = _roots(barrier, definitions)
            out.append(BarrierUse(instruction.span, symbols, declaration.arrives, declaration.waits))
    return tuple(out)


def arrivals(executable: Executable) -> tuple[Arrival, ...]:
    """Return every instruction of the executable that arrives on an mbarrier, in order of place."""
    out = []
    for linked in executable.functions:
        definitions = _definitions(linked.function)
        for k, instruction in enumerate(linked.function.code):
            if isinstance(instruction, ops.Bound) and instruction.declaration.arrives:
                name = instruction.declaration.opcode
                symbols = _roots(_barrier_operand(instruction), definitions)
                is_completion = instruction.declaration.completes_by == "mbarrier"
                out.append(Arrival(linked.pc_base + k, instruction.span, name, symbols, is_completion))
    return tuple(out)


def byte_barriers(executable: Executable) -> frozenset[str]:
    """Return the shared variables on which whatever arrives brings bytes, or tells of them: each copy that
    completes there, each arrive.expect_tx.
    """
    sites = arrivals(executable)
    bytes_come = {s for site in sites if site.is_completion or "expect_tx" in site.name for s in site.symbols}
    others = [site for site in sites if not site.is_completion and "expect_tx" not in site.name]
    if any(not site.symbols for site in others):
        return frozenset()
    return frozenset(bytes_come - {symbol for site in others for symbol in site.symbols})
