"""The control-flow graph of a function: where each instruction may go on, basic blocks, what can be reached,
and loops.

Places are indices into `Function.code`; the place behind the last instruction is the end, where an entry ends
its lanes and a function returns. A call goes on behind itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from drywell.base.record import record
from drywell.program import operands as ops


@record
class Block:
    """Instructions `start` to `stop` (behind the last) that run one after the other, and the numbers of the
    blocks before and behind; `leaves` when the function may be left here.
    """

    start: int
    stop: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]
    leaves: bool


@record
class Loop:
    """A natural loop: the number of its head, and of all its blocks."""

    head: int
    blocks: frozenset[int]


def targets(instruction: ops.Code) -> tuple[int, ...]:
    """Return the places an instruction may jump to."""
    if isinstance(instruction, ops.Unknown):
        return ()
    if instruction.declaration.family != "control":
        return ()
    places: dict[int, None] = {}
    for source in instruction.sources:
        if isinstance(source, ops.Target):
            places[source.pc] = None
        elif isinstance(source, ops.Targets):
            places.update(dict.fromkeys(source.pcs))
    return tuple(places)


def ends(instruction: ops.Code) -> bool:
    """Tell whether an instruction ends its lanes or returns: of the family "control", those without operands
    (`ret`, `exit`, `trap`, `brkpt`).
    """
    if isinstance(instruction, ops.Unknown):
        return False
    declaration = instruction.declaration
    return declaration.family == "control" and not declaration.operands


def goes_on(instruction: ops.Code) -> bool:
    """Tell whether a lane may get from an instruction to the one behind it."""
    if isinstance(instruction, ops.Unknown) or instruction.guard is not None:
        return True
    return not targets(instruction) and not ends(instruction)


def successors(code: Sequence[ops.Code], place: int) -> tuple[int, ...]:
    """Return the places a lane may be at after the instruction at `place`; len(code) is the end."""
    behind = (place + 1,) if goes_on(code[place]) else ()
    jumps = targets(code[place])
    return tuple(dict.fromkeys((*behind, *jumps))) if jumps else behind


def blocks(code: Sequence[ops.Code]) -> tuple[Block, ...]:
    """Cut code into basic blocks, in order: one ends behind a jump or an end, and before a target."""
    if not code:
        return ()
    starts = {0}
    for place, instruction in enumerate(code):
        jumps = targets(instruction)
        starts.update(jumps)
        if jumps or ends(instruction):
            starts.add(place + 1)
    edges = sorted(s for s in starts if s < len(code))
    number = {start: k for k, start in enumerate(edges)}
    stops = (*edges[1:], len(code))
    ways = [successors(code, stop - 1) for stop in stops]
    behind = [tuple(number[place] for place in way if place < len(code)) for way in ways]
    before: list[list[int]] = [[] for _ in edges]
    for k, numbers in enumerate(behind):
        for n in numbers:
            before[n].append(k)
    leaves = [len(code) in way or ends(code[stop - 1]) for way, stop in zip(ways, stops, strict=True)]
    return tuple(
        Block(start, stops[k], behind[k], tuple(before[k]), leaves[k]) for k, start in enumerate(edges)
    )


def reachable(code: Sequence[ops.Code]) -> frozenset[int]:
    """Return the places that a lane can get to from the first instruction, the end among them."""
    graph = blocks(code)
    if not graph:
        return frozenset({0})
    seen = {0}
    work = [0]
    while work:
        new = [n for n in graph[work.pop()].successors if n not in seen]
        seen.update(new)
        work += new
    places = {place for n in seen for place in range(graph[n].start, graph[n].stop)}
    return frozenset(places.union(*(successors(code, graph[n].stop - 1) for n in seen)))


def back_edges(graph: Sequence[Block]) -> tuple[tuple[int, int], ...]:
    """Return the (from, to) numbers of the edges that lead back to a block on the way there, when blocks are
    walked depth first from the first one; blocks that cannot be reached have none.
    """
    found: list[tuple[int, int]] = []
    state = [0] * len(graph)  # 1 on the way, 2 done
    work: list[tuple[int, int]] = [(0, 0)] if graph else []
    while work:
        block, nth = work.pop()
        state[block] = 1
        if nth == len(graph[block].successors):
            state[block] = 2
            continue
        work.append((block, nth + 1))
        to = graph[block].successors[nth]
        if state[to] == 1:
            found.append((block, to))
        elif state[to] == 0:
            work.append((to, 0))
    return tuple(sorted(found))


def loops(graph: Sequence[Block]) -> tuple[Loop, ...]:
    """Return the loop of each block that a back edge leads to: what reaches such an edge without passing the
    block.
    """
    bodies: dict[int, set[int]] = {}
    for end, head in back_edges(graph):
        body = bodies.setdefault(head, {head})
        work = [end]
        while work:
            block = work.pop()
            if block not in body:
                body.add(block)
                work += graph[block].predecessors
    return tuple(Loop(head, frozenset(bodies[head])) for head in sorted(bodies))
