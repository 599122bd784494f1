"""Checks of `drywell verify` beyond legality: what assembles, and cannot be meant. All are warnings, and each
says only what holds however the module is launched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.span import Span
from drywell.isa.tcgen05_words import idesc_remarks, smem_remarks
from drywell.layout.descriptor import FieldProblem
from drywell.program import operands as ops
from drywell.program.arrivals import barrier_uses
from drywell.program.columns import kept_columns
from drywell.program.flow import Block, blocks, targets
from drywell.program.module import Function, Program
from drywell.program.values import State, places_behind, states, stepped, value_of

_HOW = "let all lanes of the warp execute it: branch on what is the same for a warp, such as tid.x / 32"


def advice(program: Program) -> list[Diagnostic]:
    """Return what is legal in a module and still cannot be meant, in order of the text."""
    found: list[Diagnostic] = []
    for function in program.functions.values():
        if not function.is_external:
            found += converged_by_all(function)
    for entry in program.entries:
        reached = program.reachable(entry)
        found += columns_are_freed(reached)
        found += waits_can_end(reached)
    unique = {(d.code, d.span): d for d in found}
    return sorted(unique.values(), key=lambda d: (d.span.line, d.span.col))


def _warning(code: str, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(code, message, span, Severity.WARNING, hint=hint)


# lanes


def converged_by_all(function: Function) -> list[Diagnostic]:
    """Require `.aligned` instructions to be out of the way of guards and branches that part a warp's lanes,
    and what descriptors hold for certain to be possible.

    Source: PTX ISA 9.7.16, "the mandatory .aligned qualifier".
    """
    code = function.code
    graph = blocks(code)
    out: list[Diagnostic] = []
    parting: list[tuple[int, Span]] = []
    places = places_behind(code, _asked(code))
    for number, state in enumerate(states(code, graph, places)):
        if state is None:
            continue
        for place in stepped(code, graph[number], state, places):
            instruction = code[place]
            if not isinstance(instruction, ops.Bound):
                continue
            if instruction.declaration.unit == "tensor":
                out += words_are_possible(instruction, state)
            guard = _parting_guard(instruction)
            if guard is None or not value_of(guard, state).varies:
                continue
            if instruction.declaration.converged:
                out.append(_parted(instruction, f"its guard {guard.name} differs from lane to lane"))
            else:
                parting.append((number, instruction.span))
    for number, span in parting:
        for block in _between(graph, number):
            for one in code[graph[block].start : graph[block].stop]:
                if isinstance(one, ops.Bound) and one.declaration.converged:
                    why = f"the branch of line {span.line} goes by a predicate that differs from lane to lane"
                    out.append(_parted(one, why))
    return out


def _asked(code: Sequence[ops.Code]) -> Iterator[int]:
    """Yield the registers that are asked about: guards that may part lanes, and what may be a descriptor."""
    for instruction in code:
        if isinstance(instruction, ops.Bound):
            guard = _parting_guard(instruction)
            if guard is not None:
                yield guard.index
            if instruction.declaration.unit == "tensor":
                yield from (register.index for register in ops.registers(instruction.sources))


def _parting_guard(instruction: ops.Bound) -> ops.Register | None:
    """Return the guard of a jump or an `.aligned` instruction."""
    is_one = instruction.declaration.converged or targets(instruction)
    return instruction.guard if is_one else None


def _parted(instruction: ops.Bound, why: str) -> Diagnostic:
    name = instruction.declaration.opcode
    message = f"'{name}' is .aligned, and only some lanes of a warp execute it: {why}"
    return _warning("E0340", message, instruction.span, _HOW)


def _between(graph: Sequence[Block], number: int) -> set[int]:
    """Return the blocks that a lane may pass behind a block before it comes to where all ways meet again."""
    meeting = _meeting(graph, number)
    seen: set[int] = set()
    work = list(graph[number].successors)
    while work:
        block = work.pop()
        if block not in seen and block not in meeting:
            seen.add(block)
            work += graph[block].successors
    return seen


def _meeting(graph: Sequence[Block], number: int) -> set[int]:
    """Return the blocks that every way from a block to an end of the function passes."""
    everything = (1 << len(graph)) - 1
    passed = [everything] * len(graph)
    has_changed = True
    while has_changed:
        has_changed = False
        for k in range(len(graph) - 1, -1, -1):
            block = graph[k]
            common = 0 if block.leaves else everything
            for behind in block.successors:
                common &= passed[behind]
            new = common | 1 << k
            if new != passed[k]:
                passed[k], has_changed = new, True
    own = passed[number]
    return {k for k in range(len(graph)) if own >> k & 1} - {number}


# descriptors


def words_are_possible(instruction: ops.Bound, state: State) -> list[Diagnostic]:
    """Require the descriptors of a tcgen05.mma or .cp, as far as their bits are known, to be possible.

    Source: PTX ISA 9.7.16.4, matrix and instruction descriptors.
    """
    declaration = instruction.declaration
    declared = [o for o in declaration.operands if o.parts[0] not in declaration.writes]
    out: list[Diagnostic] = []
    operands = dict(zip((o.parts[0] for o in declared), instruction.sources, strict=False))
    for name, operand in operands.items():
        if isinstance(operand, (ops.Memory, tuple)) or operand is None:
            continue
        word = value_of(operand, state)
        problems: tuple[FieldProblem, ...] = ()
        if name == "idesc":
            problems = idesc_remarks(instruction.mods, word, isinstance(operands.get("a"), ops.Memory))
        elif name in _MATRICES:
            problems = smem_remarks(word)
        what = "instruction descriptor" if name == "idesc" else "matrix descriptor"
        for problem in problems:
            message = f"operand '{name}' is a constant that is no {what}: {problem}"
            out.append(_warning("E0342", message, instruction.span, problem.hint or _DECODE))
    return out


_MATRICES = ("a", "b", "sdesc")
_DECODE = "'drywell idesc' and 'drywell descriptor' say what every bit of such a word means"


# Tensor Memory


def columns_are_freed(reached: Sequence[Function]) -> Iterator[Diagnostic]:
    """Require a way from each tcgen05.alloc to a tcgen05.dealloc, and no way out past it that data decide."""
    hint = "tcgen05.dealloc them in the warp that allocates, behind the last use"
    for kept in kept_columns(reached):
        if kept.skips is None:
            message = "no way from this tcgen05.alloc leads to a tcgen05.dealloc: the columns stay taken"
            yield _warning("E0341", message, kept.alloc, hint)
        else:
            message = (
                f"line {kept.skips.line} lets lanes leave without a tcgen05.dealloc, which they come to"
                " otherwise: the columns stay taken"
            )
            yield _warning("E0341", message, kept.alloc, f"{hint}, on that way too")


# barriers


def waits_can_end(reached: Sequence[Function]) -> Iterator[Diagnostic]:
    """Require each mbarrier that is waited for to be one that something arrives on, as far as the text tells
    which one an instruction means.
    """
    uses = [use for function in reached for use in barrier_uses(function)]
    is_unknown = any(isinstance(one, ops.Unknown) for function in reached for one in function.code)
    if is_unknown or any(use.arrives and not use.symbols for use in uses):
        return
    reached_by = {symbol for use in uses if use.arrives for symbol in use.symbols}
    for use in uses:
        if use.waits and use.symbols and not use.symbols & reached_by:
            name = ", ".join(sorted(use.symbols))
            message = f"a wait on '{name}', and no instruction of the kernel arrives on it: it never ends"
            hint = "mbarrier.arrive, tcgen05.commit or a bulk copy must name the same mbarrier"
            yield _warning("E0343", message, use.span, hint)
