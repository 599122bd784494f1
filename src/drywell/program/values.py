"""What is known of the registers before each instruction of a function, whichever way a lane came there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from drywell.isa.abstract import NOTHING, Value, evaluate, is_told, literal, special
from drywell.program import operands as ops
from drywell.program.flow import Block

State = dict[int, Value]
"""By the index of a register; of those that are not there nothing is known."""


def value_of(operand: object, state: State) -> Value:
    """Return what is known of an operand."""
    match operand:
        case ops.Register():
            return state.get(operand.index, NOTHING)
        case ops.Immediate():
            return literal(operand.bits)
        case ops.Special():
            return special(operand.name)
        case ops.Negated():
            return Value(varies=state.get(operand.register.index, NOTHING).varies)
    return NOTHING


def places_behind(code: Sequence[ops.Code], registers: Iterable[int]) -> frozenset[int]:
    """Return the places of the instructions that what is known of registers hangs on: those that write them,
    and in turn those that write what these read.
    """
    writers: dict[int, list[int]] = {}
    for place, instruction in enumerate(code):
        for register in ops.written(instruction):
            writers.setdefault(register.index, []).append(place)
    found: set[int] = set()
    work = list(registers)
    while work:
        for place in writers.pop(work.pop(), ()):
            instruction = code[place]
            if place not in found and isinstance(instruction, ops.Bound):
                found.add(place)
                if is_told(instruction.declaration):
                    work += [register.index for register in ops.registers(instruction.sources)]
    return frozenset(found)


def states(code: Sequence[ops.Code], graph: Sequence[Block], places: frozenset[int]) -> list[State | None]:
    """Return what is known at the start of each block, None for blocks that cannot be reached; what the
    instructions at other `places` write is not followed.
    """
    found: list[State | None] = [None] * len(graph)
    if graph:
        found[0] = {}
    work = [0] if graph else []
    while work:
        number = work.pop()
        before = found[number]
        assert before is not None
        after = dict(before)
        for _ in stepped(code, graph[number], after, places):
            pass
        for behind in graph[number].successors:
            old = found[behind]
            new = after if old is None else _met(old, after)
            if new != old:
                found[behind] = dict(new)
                work.append(behind)
    return found


def stepped(code: Sequence[ops.Code], block: Block, state: State, places: frozenset[int]) -> Iterator[int]:
    """Yield the places of a block's instructions; `state` is what is known before the one at hand, brought
    on by the instructions at `places`.
    """
    for place in range(block.start, block.stop):
        yield place
        instruction = code[place]
        if place in places and isinstance(instruction, ops.Bound):
            _take(instruction, state)
        elif isinstance(instruction, ops.Unknown):
            state.clear()  # nobody knows what it writes


def _take(instruction: ops.Bound, state: State) -> None:
    """Bring a state behind an instruction; a guarded one may leave what was there."""
    if not is_told(instruction.declaration):
        for register in ops.written(instruction):
            state.pop(register.index, None)
        return
    sources = tuple([value_of(source, state) for source in instruction.sources if source is not None])
    results = evaluate(instruction.declaration, instruction.mods, sources)
    for k, destination in enumerate(instruction.destinations):
        value = results[k] if k < len(results) and isinstance(destination, ops.Register) else NOTHING
        for register in ops.registers(destination):
            _put(state, register.index, value, instruction.guard is not None)


def _put(state: State, index: int, value: Value, may_stay: bool) -> None:
    if may_stay:
        value = value.meet(state.get(index, NOTHING))
    if value == NOTHING:
        state.pop(index, None)
    else:
        state[index] = value


def _met(a: State, b: State) -> State:
    out: State = {}
    for index in a.keys() & b.keys():
        value = a[index].meet(b[index])
        if value != NOTHING:
            out[index] = value
    return out
