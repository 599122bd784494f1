"""Bind one instruction of the tree to its declaration: words to modifiers, operands to registers,
constants, symbols and places.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat

from drywell.base.diagnostic import Severity
from drywell.base.span import Span
from drywell.isa.declare import Declaration, Mods, Op, Problem
from drywell.isa.declare import Operand as Shape
from drywell.isa.decode import Mismatch, decode, problems
from drywell.program import operands as ops
from drywell.program.call import check_call
from drywell.program.context import Context
from drywell.program.resolve import Form, Resolver, Unfit, Unsupported
from drywell.program.scope import Scope, VectorRegister
from drywell.ptx import tree

_NOT_LAUNCHED = "entries that can reach it will not be launched"


@lru_cache(maxsize=8192)
def _decoded(words: tuple[str, ...]) -> tuple[Form, tuple[Problem, ...]] | Mismatch:
    found = decode(words)
    if isinstance(found, Mismatch):
        return found
    declaration, mods = found
    wrong = problems(declaration, mods)
    names = () if wrong else [name for operand in declaration.operands for name in operand.parts]
    return Form(declaration, mods, {n: declaration.operand_type(n, mods) for n in names}), wrong


def bind(instruction: tree.Instruction, scope: Scope, context: Context) -> ops.Code:
    """Return the bound instruction; `Unknown` for one that cannot be executed and, after reporting why, for
    one that is not legal.
    """
    found = _decoded(tuple([w.text for w in instruction.words]))
    if isinstance(found, Mismatch):
        _report_mismatch(found, instruction, context)
        return _unknown(instruction)
    form, wrong = found
    for problem in wrong:
        span = _slot_span(instruction, form.mods, problem.slot)
        context.report(problem.code, problem.message, span, problem.at, problem.hint)
    if wrong or not _target_has_it(form.declaration, instruction, context):
        return _unknown(instruction)
    try:
        return _bound(instruction, Resolver(form, scope, context))
    except Unfit as unfit:
        at = f"the form is {form.declaration.syntax}"
        context.report(unfit.code, unfit.message, unfit.span, at, unfit.hint)
        return _unknown(instruction)
    except Unsupported as reason:
        context.report("E0303", str(reason), instruction.span, _NOT_LAUNCHED, severity=Severity.WARNING)
        return _unknown(instruction, str(reason))


def _spelling(instruction: tree.Instruction) -> str:
    return ".".join(w.text for w in instruction.words)


def _unknown(instruction: tree.Instruction, reason: str = "") -> ops.Unknown:
    return ops.Unknown(_spelling(instruction), instruction.span, reason)


def _report_mismatch(found: Mismatch, instruction: tree.Instruction, context: Context) -> None:
    if found.index == 0:
        span = instruction.words[0].span
        context.report(found.code, found.message, span, _NOT_LAUNCHED, found.hint, Severity.WARNING)
        return
    is_a_word = found.index < len(instruction.words)
    span = instruction.words[found.index].span if is_a_word else instruction.span
    context.report(found.code, found.message, span, found.at, found.hint)


def _slot_span(instruction: tree.Instruction, mods: Mods, slot: str) -> Span:
    text = mods.get(slot)
    return next((w.span for w in instruction.words if text is not None and w.text == text), instruction.span)


def _target_has_it(declaration: Declaration, instruction: tree.Instruction, context: Context) -> bool:
    if declaration.targets and context.target not in declaration.targets:
        message = f"'{_spelling(instruction)}' does not exist on {context.target}"
        hint = f"it is there on {', '.join(declaration.targets)}"
        context.report("E0313", message, instruction.span, hint=hint)
        return False
    if context.version < declaration.since:
        needed = ".".join(map(str, declaration.since))
        at = f"the text says .version {context.version[0]}.{context.version[1]}"
        message = f"'{_spelling(instruction)}' needs .version {needed}"
        context.report("E0314", message, instruction.span, at, f"write .version {needed}")
        return False
    return True


def _bound(instruction: tree.Instruction, resolver: Resolver) -> ops.Bound:
    form = resolver.form
    declaration = form.declaration
    given = instruction.operands
    if resolver.scope.registers.has_vectors:
        given = tuple(_spread(operand, resolver.scope) for operand in given)
    lined_up = _lined_up(declaration.operands, given, form)
    if lined_up is None:
        message = f"the operands of '{_spelling(instruction)}' do not fit its form ({len(given)} given)"
        raise Unfit(message, instruction.span, code="E0321")
    destinations: list[tuple[ops.Operand, Op]] = []
    sources: list[tuple[ops.Operand | tuple[ops.Operand, ...] | None, Op | tuple[Op, ...] | None]] = []
    for shape, operand in zip(declaration.operands, lined_up, strict=True):
        parts = resolver.parts(shape, operand)
        if shape.parts[0] in declaration.writes:
            destinations += [(o, t) if o and t else (ops.Discard(), Op("pred")) for o, t in parts]
        elif len(parts) == 1 or operand is None:
            sources.append(parts[0])
        else:
            both = [(o, t) for o, t in parts if o is not None and t is not None]
            sources.append((tuple(o for o, _ in both), tuple(t for _, t in both)))
    bound = ops.Bound(
        declaration,
        form.mods,
        tuple([d[0] for d in destinations]),
        tuple([d[1] for d in destinations]),
        tuple([s[0] for s in sources]),
        tuple([s[1] for s in sources]),
        resolver.guard(instruction.guard),
        instruction.guard is not None and instruction.guard.is_negated,
        instruction.span,
    )
    check_call(bound, resolver)
    return bound


def _spread(operand: tree.Operand, scope: Scope) -> tree.Operand:
    """Return a register declared `.v4` as the list of its elements."""
    thing = scope.find(operand.text) if isinstance(operand, tree.Name) else None
    if not isinstance(thing, VectorRegister):
        return operand
    return tree.Vector(tuple(tree.Name(e, operand.span) for e in thing.elements), operand.span)


def _shape_matches(shape: Shape, operand: tree.Operand, form: Form) -> bool:
    if shape.kind == "address":
        return isinstance(operand, tree.Address)
    if shape.kind == "either":
        return isinstance(operand, (tree.Address, tree.Name, tree.Integer))
    if shape.kind == "pair":
        return isinstance(operand, tree.Pair) or shape.is_second_optional
    op = form.types[shape.parts[0]]
    if op is None:
        return False
    if op.type == "params":
        return isinstance(operand, tree.Tuple)
    if op.count is not None:
        return isinstance(operand, tree.Vector)
    if isinstance(operand, tree.Vector):
        may_wrap_one = op.is_relaxed and form.declaration.unit == "mem"
        return "{" in op.accepts or (may_wrap_one and len(operand.elements) == 1)
    return not isinstance(operand, (tree.Address, tree.Tuple))


def _may_be_absent(shape: Shape, form: Form) -> bool:
    op = form.types[shape.parts[0]]
    return shape.is_optional or op is None or op.type == "params"


def _lined_up(
    shapes: tuple[Shape, ...], given: tuple[tree.Operand, ...], form: Form
) -> Sequence[tree.Operand | None] | None:
    """Line the operands up with the declared ones; None when they do not fit."""
    if len(shapes) == len(given) and all(map(_shape_matches, shapes, given, repeat(form))):
        return given
    return _match(shapes, given, form)


def _match(
    shapes: tuple[Shape, ...], given: tuple[tree.Operand, ...], form: Form
) -> tuple[tree.Operand | None, ...] | None:
    """Line the operands up with the declared ones, leaving optional ones out where needed."""
    if not shapes:
        return None if given else ()
    if given and _shape_matches(shapes[0], given[0], form):
        rest = _match(shapes[1:], given[1:], form)
        if rest is not None:
            return (given[0], *rest)
    if _may_be_absent(shapes[0], form):
        rest = _match(shapes[1:], given, form)
        if rest is not None:
            return (None, *rest)
    return None
