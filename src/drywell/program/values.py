"""What is known of the registers before each instruction of a function, whichever way a lane came there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drywell.isa.abstract import NOTHING, Value, evaluate, literal, special
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


def states(code: Sequence[ops.Code], graph: Sequence[Block]) -> list[State | None]:
    """Return what is known at the start of each block, None for blocks that cannot be reached."""
    found: list[State | None] = [None] * len(graph)
    if graph:
        found[0] = {}
    work = [0] if graph else []
    while work:
        number = work.pop()
        before = found[number]
        assert before is not None
        after = dict(before)
        for _ in stepped(code, graph[number], after):
            pass
        for behind in graph[number].successors:
            old = found[behind]
            new = after if old is None else _met(old, after)
            if new != old:
                found[behind] = dict(new)
                work.append(behind)
    return found


def stepped(code: Sequence[ops.Code], block: Block, state: State) -> Iterator[int]:
    """Yield the places of a block's instructions; `state` is what is known before the one at hand."""
    for place in range(block.start, block.stop):
        yield place
        instruction = code[place]
        if isinstance(instruction, ops.Bound):
            _take(instruction, state)
        else:
            state.clear()  # nobody knows what it writes


def _take(instruction: ops.Bound, state: State) -> None:
    """Bring a state behind an instruction; a guarded one may leave what was there."""
    if not instruction.destinations:
        return
    sources = tuple(value_of(source, state) for source in instruction.sources if source is not None)
    results = evaluate(instruction.declaration, instruction.mods, sources)
    for destination, result in zip(instruction.destinations, results, strict=False):
        is_one = isinstance(destination, ops.Register)
        for leaf in ops.leaves(destination):
            if not isinstance(leaf, ops.Register):
                continue
            value = result if is_one else NOTHING
            if instruction.guard is not None:
                value = value.meet(state.get(leaf.index, NOTHING))
            if value == NOTHING:
                state.pop(leaf.index, None)
            else:
                state[leaf.index] = value
    for destination in instruction.destinations[len(results) :]:
        for leaf in ops.leaves(destination):
            if isinstance(leaf, ops.Register):
                state.pop(leaf.index, None)


def _met(a: State, b: State) -> State:
    out: State = {}
    for index in a.keys() & b.keys():
        value = a[index].meet(b[index])
        if value != NOTHING:
            out[index] = value
    return out
