"""Bind one instruction of the tree to its declaration: words to modifiers, operands to registers,
constants, symbols and places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.dtypes import TYPES
from drywell.base.span import Span
from drywell.isa.declare import Declaration, Mods, Op, Problem
from drywell.isa.declare import Operand as Shape
from drywell.isa.decode import Mismatch, decode, problems
from drywell.machine.special import special_type
from drywell.program import operands as ops
from drywell.program.fit import ADDRESS_BITS, address_fits, describe, immediate_bits, register_fits
from drywell.program.scope import Scope
from drywell.ptx import tree


@dataclass(slots=True)
class Context:
    """What binding needs to know of the module: target words, version, function names; and where
    diagnostics go.
    """

    target: str
    version: tuple[int, int]
    functions: frozenset[str]
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        at: str = "",
        hint: str = "",
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Note a diagnostic."""
        self.diagnostics.append(Diagnostic(code, message, span, severity, at, (), hint))


class _Unfit(Exception):
    """An operand that cannot stand where it does."""

    def __init__(self, message: str, span: Span, hint: str = "", code: str = "E0322") -> None:
        self.message, self.span, self.hint, self.code = message, span, hint, code


@lru_cache(maxsize=8192)
def _decoded(words: tuple[str, ...]) -> tuple[Declaration, Mods, tuple[Problem, ...]] | Mismatch:
    found = decode(words)
    if isinstance(found, Mismatch):
        return found
    declaration, mods = found
    return declaration, mods, problems(declaration, mods)


def bind(instruction: tree.Instruction, scope: Scope, context: Context) -> ops.Code | None:
    """Return the bound instruction; None after reporting what is wrong with it; `Unknown` when no
    declaration has its first word.
    """
    words = tuple(w.text for w in instruction.words)
    found = _decoded(words)
    if isinstance(found, Mismatch):
        if found.index == 0:
            context.report(
                found.code,
                found.message,
                instruction.words[0].span,
                "entries that can reach it will not be launched",
                found.hint,
                Severity.WARNING,
            )
            return ops.Unknown(".".join(words), instruction.span)
        span = instruction.words[found.index].span if found.index < len(words) else instruction.span
        context.report(found.code, found.message, span, found.at, found.hint)
        return None
    declaration, mods, wrong = found
    for problem in wrong:
        context.report(
            problem.code,
            problem.message,
            _slot_span(instruction, mods, problem.slot),
            problem.at,
            problem.hint,
        )
    if wrong or not _target_has_it(declaration, instruction, context):
        return None
    try:
        return _Binder(declaration, mods, scope, context).bind(instruction)
    except _Unfit as unfit:
        context.report(unfit.code, unfit.message, unfit.span, f"the form is {declaration.syntax}", unfit.hint)
        return None


def _slot_span(instruction: tree.Instruction, mods: Mods, slot: str) -> Span:
    text = mods.get(slot)
    return next((w.span for w in instruction.words if text is not None and w.text == text), instruction.span)


def _target_has_it(declaration: Declaration, instruction: tree.Instruction, context: Context) -> bool:
    spelling = ".".join(w.text for w in instruction.words)
    if declaration.targets and context.target not in declaration.targets:
        context.report(
            "E0313",
            f"'{spelling}' does not exist on {context.target}",
            instruction.span,
            hint=f"it is there on {', '.join(declaration.targets)}",
        )
        return False
    if context.version < declaration.since:
        needed = ".".join(map(str, declaration.since))
        context.report(
            "E0314",
            f"'{spelling}' needs .version {needed}",
            instruction.span,
            f"the text says .version {context.version[0]}.{context.version[1]}",
            f"write .version {needed}",
        )
        return False
    return True


def _shape_matches(shape: Shape, operand: tree.Operand, declaration: Declaration, mods: Mods) -> bool:
    if shape.kind == "address":
        return isinstance(operand, tree.Address)
    if shape.kind == "either":
        return isinstance(operand, (tree.Address, tree.Name, tree.Integer))
    if shape.kind == "pair":
        return isinstance(operand, tree.Pair) or shape.is_second_optional
    op = declaration.operand_type(shape.parts[0], mods)
    if op is None:
        return False
    if op.type == "params":
        return isinstance(operand, tree.Tuple)
    if op.count is not None:
        return isinstance(operand, tree.Vector)
    if isinstance(operand, tree.Vector):
        may_wrap_one = op.is_relaxed and declaration.unit == "mem"
        return "{" in op.accepts or (may_wrap_one and len(operand.elements) == 1)
    return not isinstance(operand, (tree.Address, tree.Tuple))


def _may_be_absent(shape: Shape, declaration: Declaration, mods: Mods) -> bool:
    if shape.is_optional:
        return True
    if shape.kind in ("pair", "either") or shape.parts[0] in declaration.address_parts:
        return declaration.operand_type(shape.parts[0], mods) is None
    op = declaration.operand_type(shape.parts[0], mods)
    return op is None or op.type == "params"


def _match(
    shapes: tuple[Shape, ...], given: tuple[tree.Operand, ...], declaration: Declaration, mods: Mods
) -> tuple[tree.Operand | None, ...] | None:
    """Line the operands up with the declared ones, leaving optional ones out where needed."""
    if not shapes:
        return None if given else ()
    if given and _shape_matches(shapes[0], given[0], declaration, mods):
        rest = _match(shapes[1:], given[1:], declaration, mods)
        if rest is not None:
            return (given[0], *rest)
    if _may_be_absent(shapes[0], declaration, mods):
        rest = _match(shapes[1:], given, declaration, mods)
        if rest is not None:
            return (None, *rest)
    return None


@dataclass(slots=True)
class _Binder:
    declaration: Declaration
    mods: Mods
    scope: Scope
    context: Context

    def bind(self, instruction: tree.Instruction) -> ops.Bound:
        lined_up = _match(self.declaration.operands, instruction.operands, self.declaration, self.mods)
        if lined_up is None:
            raise _Unfit(self._count_message(instruction), instruction.span, code="E0321")
        destinations: list[tuple[ops.Operand, Op]] = []
        sources: list[tuple[ops.Operand | tuple[ops.Operand, ...] | None, Op | tuple[Op, ...] | None]] = []
        for shape, given in zip(self.declaration.operands, lined_up, strict=True):
            parts = self._parts(shape, given)
            if shape.parts[0] in self.declaration.writes:
                destinations += [(o, t) if o and t else (ops.Discard(), Op("pred")) for o, t in parts]
            elif len(parts) == 1 or given is None:
                sources.append(parts[0])
            else:
                both = [(o, t) for o, t in parts if o is not None and t is not None]
                sources.append((tuple(o for o, _ in both), tuple(t for _, t in both)))
        guard = self._guard(instruction.guard)
        return ops.Bound(
            self.declaration,
            self.mods,
            tuple(d[0] for d in destinations),
            tuple(d[1] for d in destinations),
            tuple(s[0] for s in sources),
            tuple(s[1] for s in sources),
            guard,
            instruction.guard is not None and instruction.guard.is_negated,
            instruction.span,
        )

    def _count_message(self, instruction: tree.Instruction) -> str:
        spelling = ".".join(w.text for w in instruction.words)
        return f"the operands of '{spelling}' do not fit its form ({len(instruction.operands)} given)"

    def _guard(self, guard: tree.Guard | None) -> ops.Register | None:
        if guard is None:
            return None
        register = self.scope.register(guard.name.text)
        if register is None:
            raise _Unfit(f"'{guard.name.text}' is not declared", guard.name.span, code="E0320")
        if register.type.kind != "pred":
            raise _Unfit(
                f"the guard '{guard.name.text}' is a .{register.type}, a .pred is needed", guard.name.span
            )
        return register

    def _parts(self, shape: Shape, given: tree.Operand | None) -> list[tuple[ops.Operand | None, Op | None]]:
        if given is None:
            return [(None, None) for _ in shape.parts]
        if shape.kind == "pair":
            halves = (given.first, given.second) if isinstance(given, tree.Pair) else (given, None)
            return [
                (None, None) if half is None else self._value(name, half)
                for name, half in zip(shape.parts, halves, strict=True)
            ]
        if isinstance(given, tree.Address):
            op = (
                self.declaration.operand_type(shape.parts[0], self.mods)
                if shape.kind == "address"
                else Op("addr32", accepts="r")
            )
            if op is None or len(given.parts) != len(shape.parts):
                raise _Unfit(
                    f"this address has {len(given.parts)} parts, {len(shape.parts)} are needed",
                    given.span,
                    code="E0321",
                )
            first: tuple[ops.Operand | None, Op | None] = (self._address(given.parts[0], op, given.span), op)
            return [
                first,
                *(
                    self._value(name, part)
                    for name, part in zip(shape.parts[1:], given.parts[1:], strict=True)
                ),
            ]
        return [self._value(shape.parts[0], given)]

    def _value(self, name: str, given: tree.Operand) -> tuple[ops.Operand, Op]:
        op = self.declaration.operand_type(name, self.mods)
        if op is None:
            raise _Unfit(f"operand '{name}' is not there with these modifiers", given.span, code="E0321")
        resolver = self._NON_VALUES.get(op.type)
        if resolver is not None:
            return resolver(self, given), op
        if op.type in ADDRESS_BITS:
            return self._address(given, op, given.span), op
        if op.count is not None:
            return self._vector(name, given, op), op
        return self._scalar(name, given, op), op

    def _vector(self, name: str, given: tree.Operand, op: Op) -> ops.Operand:
        if not isinstance(given, tree.Vector) or len(given.elements) != op.count:
            have = (
                f"a list of {len(given.elements)}" if isinstance(given, tree.Vector) else "a single operand"
            )
            raise _Unfit(f"'{name}' must be {describe(op)}; this is {have}", given.span, code="E0321")
        return ops.Group(tuple(self._scalar(name, e, op) for e in given.elements))

    def _scalar(self, name: str, given: tree.Operand, op: Op) -> ops.Operand:
        if isinstance(given, tree.Vector) and len(given.elements) == 1 and op.is_relaxed:
            given = given.elements[0]  # ld and st take `{r}` for a single register
        if isinstance(given, tree.Sink):
            if "_" not in op.accepts or "{" in op.accepts:  # with a brace list only its parts may be dropped
                raise _Unfit(f"'{name}' cannot be the sink '_'", given.span)
            return ops.Discard()
        if isinstance(given, tree.Not):
            inner = self._scalar(name, given.operand, op)
            if "p" not in op.accepts or not isinstance(inner, ops.Register):
                raise _Unfit(f"'{name}' cannot be negated", given.span)
            return ops.Negated(inner)
        if isinstance(given, (tree.Integer, tree.Float)):
            bits = (
                immediate_bits(given, op)
                if "i" in op.accepts
                else f"'{name}' must be {describe(op)}, not a constant"
            )
            if isinstance(bits, str):
                raise _Unfit(bits, given.span)
            return ops.Immediate(bits)
        if isinstance(given, tree.Vector) and "{" in op.accepts:
            width = TYPES[op.type].bits // len(given.elements)
            if len(given.elements) in (2, 4) and width >= 8:
                element = Op(f"b{width}", accepts=op.accepts.replace("{", ""))
                return ops.Group(tuple(self._scalar(name, e, element) for e in given.elements))
        if isinstance(given, (tree.Name, tree.Offset)):
            return self._named(name, given, op)
        raise _Unfit(f"'{name}' must be {describe(op)}", given.span)

    def _named(self, name: str, given: tree.Name | tree.Offset, op: Op) -> ops.Operand:
        text = given.text if isinstance(given, tree.Name) else given.base.text
        register = self.scope.register(text)
        if register is not None and isinstance(given, tree.Name):
            if "r" not in op.accepts or not register_fits(register.type, op):
                raise _Unfit(f"'{text}' is a .{register.type}; '{name}' must be {describe(op)}", given.span)
            return register
        special = special_type(text) if isinstance(given, tree.Name) else None
        if special is not None:
            if (
                special not in TYPES
                or "v" not in op.accepts
                or TYPES[op.type].bits != TYPES[special].bits
                or TYPES[op.type].kind == "float"
            ):
                raise _Unfit(
                    f"'{text}' is a special register of type .{special}; '{name}' must be {describe(op)}",
                    given.span,
                )
            return ops.Special(text)
        variable = self.scope.variable(text)
        if variable is not None or text in self.context.functions:
            if "s" not in op.accepts or TYPES[op.type].bits not in (32, 64) or TYPES[op.type].kind == "float":
                raise _Unfit(
                    f"'{text}' is a variable; '{name}' must be {describe(op)}",
                    given.span,
                    "take its address with mov, or load it with ld",
                )
            offset = given.offset if isinstance(given, tree.Offset) else 0
            return ops.Symbol(variable.space, variable.name, offset) if variable else ops.FunctionRef(text)
        raise _Unfit(f"'{text}' is not declared", given.span, code="E0320")

    def _address(self, given: tree.Operand, op: Op, span: Span) -> ops.Operand:
        if isinstance(given, tree.Integer):
            if op.type != "addri" and (op.type in ADDRESS_BITS or "i" not in op.accepts):
                raise _Unfit("a constant address cannot stand here", span, "put it into a register")
            return ops.Memory(None, given.value)
        if not isinstance(given, (tree.Name, tree.Offset)):
            raise _Unfit("an address is a register or a symbol, with or without an offset", span)
        text, offset = (given.text, 0) if isinstance(given, tree.Name) else (given.base.text, given.offset)
        register = self.scope.register(text)
        if register is not None:
            if not address_fits(register.type, op):
                raise _Unfit(f"'{text}' is a .{register.type}; this address needs {describe(op)}", given.span)
            return ops.Memory(register, offset)
        variable = self.scope.variable(text)
        if variable is None:
            raise _Unfit(f"'{text}' is not declared", given.span, code="E0320")
        if op.accepts == "r":
            raise _Unfit(
                f"'{text}' is a variable; this address needs a register",
                given.span,
                "take its address with mov",
            )
        space = "param" if variable.space == "frame" else variable.space
        if op.spaces and space not in op.spaces:
            wanted = " or .".join(op.spaces)
            raise _Unfit(f"'{text}' lies in .{space}; this address must lie in .{wanted}", given.span)
        return ops.Memory(ops.Symbol(variable.space, variable.name), offset)

    def _label(self, given: tree.Operand) -> ops.Operand:
        pc = self.scope.label(given.text) if isinstance(given, tree.Name) else None
        if pc is None:
            raise _Unfit(
                f"there is no label '{getattr(given, 'text', given)}' here", given.span, code="E0323"
            )
        return ops.Target(pc)

    def _targets(self, given: tree.Operand) -> ops.Operand:
        names = self.scope.table(given.text) if isinstance(given, tree.Name) else None
        if names is None:
            raise _Unfit("a .branchtargets label is needed", given.span, code="E0323")
        pcs = [self.scope.label(name) for name in names]
        if None in pcs:
            raise _Unfit(f"there is no label '{names[pcs.index(None)]}' here", given.span, code="E0323")
        return ops.Targets(tuple(pc for pc in pcs if pc is not None))

    def _function(self, given: tree.Operand) -> ops.Operand:
        if not isinstance(given, tree.Name) or given.text not in self.context.functions:
            raise _Unfit(
                f"'{getattr(given, 'text', given)}' is not a function of this module",
                given.span,
                code="E0320",
            )
        return ops.FunctionRef(given.text)

    def _params(self, given: tree.Operand) -> ops.Operand:
        if not isinstance(given, tree.Tuple):
            raise _Unfit("a parenthesised list is needed", given.span)
        elements: list[ops.Operand] = []
        for element in given.elements:
            variable = self.scope.variable(element.text) if isinstance(element, tree.Name) else None
            if variable is None:
                raise _Unfit("the arguments of a call are .param variables", element.span)
            elements.append(ops.Symbol(variable.space, variable.name))
        return ops.Group(tuple(elements), is_params=True)

    def _prototype(self, given: tree.Operand) -> ops.Operand:
        return ops.Discard()

    _NON_VALUES: ClassVar[dict[str, Any]] = {
        "label": _label,
        "targets": _targets,
        "function": _function,
        "params": _params,
        "prototype": _prototype,
    }
