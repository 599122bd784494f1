"""How many registers a function keeps alive: what is written and may still be read, at every place.

Counted in 32-bit registers: 64-bit ones are two, 128-bit ones four, narrower ones one; predicates have
registers of their own. An assembler moves code and keeps addresses instead of computing them twice, so the
count is an estimate (ASSUMED) of what it takes: of the kernels in tests/unit/program/test_pressure.py, ptxas
13.0.88 takes 0.6 to 1.5 times as many.
"""

from __future__ import annotations

from collections.abc import Iterable

from drywell.base.record import record
from drywell.isa.abstract import sets_registers
from drywell.program import operands as ops
from drywell.program.flow import blocks, successors
from drywell.program.module import Function

_REGISTER_BITS = 32


@record
class Section:
    """Code that runs with one count of registers: from the `setmaxnreg` at line `line` (0: the start of the
    function) up to the next one. `count` is what it sets (None at the start), `live` the most alive in it,
    at line `live_line`.
    """

    line: int
    count: int | None
    live: int
    live_line: int


def live_registers(function: Function) -> tuple[int, ...]:
    """Return how many 32-bit registers are alive before each instruction, its own results among them."""
    code = function.code
    classes = _classes(function)
    out = [0] * len(code)
    graph = blocks(code)
    inward = [0] * len(graph)
    work = list(range(len(graph)))
    while work:
        number = work.pop()
        block = graph[number]
        live = _behind(block.successors, inward)
        for place in range(block.stop - 1, block.start - 1, -1):
            live = _before(code[place], live)
        if live != inward[number]:
            inward[number] = live
            work += block.predecessors
    for block in graph:
        live = _behind(block.successors, inward)
        for place in range(block.stop - 1, block.start - 1, -1):
            during = live | _mask(r.index for r in ops.written(code[place]))
            live = _before(code[place], live)
            out[place] = max(_weight(during, classes), _weight(live, classes))
    return tuple(out)


def sections(function: Function) -> tuple[Section, ...]:
    """Return the function cut by its `setmaxnreg`s, each with the most registers alive in it."""
    code = function.code
    live = live_registers(function)
    counts = {place: n for place, one in enumerate(code) if (n := _set_count(one)) is not None}
    out = []
    for first, count in ((-1, None), *counts.items()):
        places = _up_to(code, first, set(counts))
        most = max(places, key=lambda place: live[place], default=None)
        line = code[first].span.line if first >= 0 else 0
        at = (live[most], code[most].span.line) if most is not None else (0, line)
        out.append(Section(line, count, *at))
    return tuple(out)


def _set_count(one: ops.Code) -> int | None:
    """Return what a `setmaxnreg` sets, None for other instructions."""
    if isinstance(one, ops.Bound) and sets_registers(one.declaration):
        (n,) = one.sources
        return n.bits if isinstance(n, ops.Immediate) else None
    return None


def _up_to(code: tuple[ops.Code, ...], first: int, walls: set[int]) -> list[int]:
    """Return the places that can be reached behind `first` (-1: from the start) without passing a wall."""
    seen: set[int] = set()
    work = list(successors(code, first)) if first >= 0 else [0]
    while work:
        place = work.pop()
        if place < len(code) and place not in seen and place not in walls:
            seen.add(place)
            work += successors(code, place)
    return sorted(seen)


def _classes(function: Function) -> tuple[tuple[int, int], ...]:
    """Return (32-bit registers each takes, mask of such registers); predicates are left out."""
    masks: dict[int, int] = {}
    for index, bits in enumerate(function.register_widths):
        if bits > 1:
            size = -(-bits // _REGISTER_BITS)
            masks[size] = masks.get(size, 0) | 1 << index
    return tuple(masks.items())


def _weight(live: int, classes: tuple[tuple[int, int], ...]) -> int:
    return sum(size * (live & mask).bit_count() for size, mask in classes)


def _mask(indices: Iterable[int]) -> int:
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


def _behind(numbers: tuple[int, ...], inward: list[int]) -> int:
    live = 0
    for number in numbers:
        live |= inward[number]
    return live


def _before(one: ops.Code, live: int) -> int:
    """Return what is alive before an instruction, given what is behind it."""
    if isinstance(one, ops.Unknown):
        return live
    if one.guard is None:
        live &= ~_mask(r.index for r in ops.written(one))
    return live | _mask(register.index for register in ops.registers((*one.sources, one.guard)))
