"""What the text of an entry asks of Tensor Memory: its allocations, and the widths it reads with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from drywell.base.record import record
from drywell.base.span import Span
from drywell.isa.abstract import allocates, reads_columns
from drywell.program import operands as ops
from drywell.program.flow import blocks
from drywell.program.module import Function
from drywell.program.values import places_behind, states, stepped, value_of


@record
class Asked:
    """An allocation: where, and how many columns; None when that is not a constant."""

    span: Span
    cols: int | None


def allocations(reached: Sequence[Function]) -> tuple[Asked, ...]:
    """Return the tcgen05.allocs of functions, in order of the text."""
    found = [asked for function in reached for asked in _allocations(function)]
    return tuple(sorted(found, key=lambda asked: asked.span.line))


def _allocations(function: Function) -> list[Asked]:
    code = function.code
    counts = {
        place: one.sources[1]
        for place, one in enumerate(code)
        if isinstance(one, ops.Bound) and allocates(one.declaration)
    }
    if not counts:
        return []
    places = places_behind(code, (c.index for c in counts.values() if isinstance(c, ops.Register)))
    graph = blocks(code)
    found = []
    for block, state in zip(graph, states(code, graph, places), strict=True):
        for place in stepped(code, block, state, places) if state is not None else ():
            if place in counts and state is not None:
                found.append(Asked(code[place].span, value_of(counts[place], state).constant(32)))
    return found


def column_loads(reached: Sequence[Function]) -> dict[int, int]:
    """Return how many tcgen05.ld 32x32b of each width (x1, x2, ...) the block with the most of them has."""
    most: Counter[int] = Counter()
    for function in reached:
        for block in blocks(function.code):
            widths = Counter(_widths(function.code[block.start : block.stop]))
            most = max(most, widths, key=lambda found: found.total())
    return dict(most)


def _widths(code: Sequence[ops.Code]) -> list[int]:
    loads = [one for one in code if isinstance(one, ops.Bound) and reads_columns(one.declaration)]
    return [int(str(one.mods["num"])[1:]) for one in loads if one.mods.get("shape") == "32x32b"]
