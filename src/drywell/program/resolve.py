"""One operand of the tree as a resolved operand, or why it cannot stand where it does."""

from __future__ import annotations

from typing import Any, ClassVar

from drywell.base.dtypes import TYPES
from drywell.base.record import record
from drywell.base.span import Span
from drywell.isa.declare import Declaration, Mods, Op
from drywell.isa.declare import Operand as Shape
from drywell.machine.special import special_type
from drywell.program import operands as ops
from drywell.program.context import Context
from drywell.program.fit import ADDRESS_BITS, address_fits, describe, immediate_bits, register_fits
from drywell.program.scope import Scope, VectorRegister
from drywell.program.storage import Storage
from drywell.ptx import tree

Resolved = tuple[ops.Operand | None, Op | None]
"""An operand with what it must be; (None, None) when it was left out."""


class Unfit(Exception):
    """An operand that cannot stand where it does."""

    def __init__(self, message: str, span: Span, hint: str = "", code: str = "E0322") -> None:
        self.message, self.span, self.hint, self.code = message, span, hint, code


class Unsupported(Exception):
    """Legal PTX that cannot be executed: why."""


@record
class Form:
    """A declaration under modifiers: `types` holds what each operand must be, None when it is not there."""

    declaration: Declaration
    mods: Mods
    types: dict[str, Op | None]


@record
class Resolver:
    """Resolves the operands of one instruction."""

    form: Form
    scope: Scope
    context: Context

    def guard(self, guard: tree.Guard | None) -> ops.Register | None:
        """Return the predicate of `@p`."""
        if guard is None:
            return None
        register = self.scope.find(guard.name.text)
        if register is None:
            raise Unfit(f"'{guard.name.text}' is not declared", guard.name.span, code="E0320")
        if not isinstance(register, ops.Register) or register.type.kind != "pred":
            what = f"a .{register.type}" if isinstance(register, ops.Register) else "no predicate"
            raise Unfit(f"the guard '{guard.name.text}' is {what}, a .pred is needed", guard.name.span)
        return register

    def parts(self, shape: Shape, given: tree.Operand | None) -> list[Resolved]:
        """Return the operands inside one operand of the syntax line: two of a pair or a tensor address."""
        if given is None:
            return [(None, None) for _ in shape.parts]
        if shape.kind == "pair":
            halves = (given.first, given.second) if isinstance(given, tree.Pair) else (given, None)
            return [
                (None, None) if half is None else self._value(name, half)
                for name, half in zip(shape.parts, halves, strict=True)
            ]
        if not isinstance(given, tree.Address):
            return [self._value(shape.parts[0], given)]
        is_address = shape.kind == "address"
        op = self.form.types[shape.parts[0]] if is_address else _BRACKETED
        if op is None or len(given.parts) != len(shape.parts):
            message = f"this address has {len(given.parts)} parts, {len(shape.parts)} are needed"
            raise Unfit(message, given.span, code="E0321")
        if len(given.parts) > 1 and isinstance(given.parts[0], tree.Offset):
            message = "an address of several parts takes no offset"
            raise Unfit(message, given.span, "add it to the register first", code="E0321")
        others = zip(shape.parts[1:], given.parts[1:], strict=True)
        return [
            (self._address(given.parts[0], op, given.span), op),
            *(self._value(name, part) for name, part in others),
        ]

    # ---------------------------------------------------------------- values
    def _value(self, name: str, given: tree.Operand) -> Resolved:
        op = self.form.types[name]
        if op is None:
            raise Unfit(f"operand '{name}' is not there with these modifiers", given.span, code="E0321")
        resolver = self._NON_VALUES.get(op.type)
        if resolver is not None:
            return resolver(self, given), op
        if op.type in ADDRESS_BITS:
            return self._address(given, op, given.span), op
        if op.count is not None:
            return self._vector(name, given, op), op
        return self._scalar(name, given, op), op

    def _vector(self, name: str, given: tree.Operand, op: Op) -> ops.Operand:
        elements = given.elements if isinstance(given, tree.Vector) else None
        if elements is None or len(elements) != op.count:
            have = "a single operand" if elements is None else f"a list of {len(elements)}"
            raise Unfit(f"'{name}' must be {describe(op)}; this is {have}", given.span, code="E0321")
        return ops.Group(tuple(self._scalar(name, e, op) for e in elements))

    def _scalar(self, name: str, given: tree.Operand, op: Op) -> ops.Operand:
        if isinstance(given, tree.Vector) and len(given.elements) == 1 and op.is_relaxed:
            given = given.elements[0]  # ld and st take `{r}` for a single register
        match given:
            case tree.Name() | tree.Offset():
                return self._named(name, given, op)
            case tree.Integer() | tree.Float():
                return self._constant(name, given, op)
            case tree.Sink():
                if "_" in op.accepts and "{" not in op.accepts:  # of a brace list only parts may be dropped
                    return ops.Discard()
                raise Unfit(f"'{name}' cannot be the sink '_'", given.span)
            case tree.Not():
                inner = self._scalar(name, given.operand, op)
                may_negate = "p" in op.accepts or "q" in op.accepts
                if may_negate and isinstance(inner, ops.Register) and inner.type.kind == "pred":
                    return ops.Negated(inner)
                raise Unfit(f"'{name}' cannot be negated", given.span)
            case tree.Vector() if "{" in op.accepts and len(given.elements) in (2, 4):
                width = TYPES[op.type].bits // len(given.elements)
                element = Op(f"b{width}", accepts=op.accepts.replace("{", ""))
                if width >= 8:
                    return ops.Group(tuple(self._scalar(name, e, element) for e in given.elements))
        raise Unfit(f"'{name}' must be {describe(op)}", given.span)

    def _constant(self, name: str, given: tree.Integer | tree.Float, op: Op) -> ops.Immediate:
        if "i" not in op.accepts:
            raise Unfit(f"'{name}' must be {describe(op)}, not a constant", given.span)
        bits = immediate_bits(given, op)
        if isinstance(bits, str):
            raise Unfit(bits, given.span)
        return ops.Immediate(bits)

    def _named(self, name: str, given: tree.Name | tree.Offset, op: Op) -> ops.Operand:
        text, offset = _base_and_offset(given)
        thing = self.scope.find(text)
        if isinstance(thing, ops.Register):
            if "q" in op.accepts and thing.type.kind == "pred" and isinstance(given, tree.Name):
                return thing
            if "r" not in op.accepts or not register_fits(thing.type, op):
                raise Unfit(f"'{text}' is a .{thing.type}; '{name}' must be {describe(op)}", given.span)
            if isinstance(given, tree.Offset):
                raise Unsupported(f"a register with an offset ('{text}+...') stands in no address here")
            return thing
        special = special_type(text) if thing is None and isinstance(given, tree.Name) else None
        if special is not None:
            return self._special(name, text, special, op, given.span)
        is_function = thing is None and text in self.context.functions
        if not isinstance(thing, Storage) and not is_function:
            if isinstance(thing, VectorRegister):
                raise Unfit(f"'{text}' is a vector; '{name}' must be {describe(op)}", given.span)
            raise Unfit(f"'{text}' is not declared", given.span, code="E0320")
        if "s" not in op.accepts or TYPES[op.type].bits not in (32, 64) or TYPES[op.type].kind == "float":
            what = "function" if is_function else "variable"
            hint = "take its address with mov, or load it with ld" if thing is not None else ""
            raise Unfit(f"'{text}' is a {what}; '{name}' must be {describe(op)}", given.span, hint)
        if isinstance(thing, Storage):
            _require_space(text, thing, op, given.span)
            return ops.Symbol(thing.space, thing.name, offset)
        if isinstance(given, tree.Offset):
            raise Unfit(f"'{text}' is a function: its address takes no offset", given.span)
        return ops.FunctionRef(text)

    def _special(self, name: str, text: str, special: str, op: Op, span: Span) -> ops.Special:
        kind, wanted = TYPES.get(special), TYPES[op.type]
        if kind is None or "v" not in op.accepts or wanted.bits != kind.bits or wanted.kind == "float":
            message = f"'{text}' is a special register of type .{special}; '{name}' must be {describe(op)}"
            raise Unfit(message, span)
        return ops.Special(text)

    # ---------------------------------------------------------------- addresses
    def _address(self, given: tree.Operand, op: Op, span: Span) -> ops.Operand:
        if isinstance(given, tree.Integer):
            if op.type != "addri" and (op.type in ADDRESS_BITS or "i" not in op.accepts):
                message = f"a constant address cannot stand here: {given.value}"
                raise Unfit(message, span, "put it into a register")
            return ops.Memory(None, given.value)
        if not isinstance(given, (tree.Name, tree.Offset)):
            raise Unfit("an address is a register or a symbol, with or without an offset", span)
        text, offset = _base_and_offset(given)
        thing = self.scope.find(text)
        if isinstance(thing, ops.Register):
            if not address_fits(thing.type, op):
                raise Unfit(f"'{text}' is a .{thing.type}; this address needs {describe(op)}", given.span)
            return ops.Memory(thing, offset)
        if not isinstance(thing, Storage):
            what = "not declared" if thing is None else "a vector register"
            raise Unfit(f"'{text}' is {what}", given.span, code="E0322" if thing else "E0320")
        if op.accepts == "r":
            message = f"'{text}' is a variable; this address needs a register"
            raise Unfit(message, given.span, "take its address with mov")
        _require_space(text, thing, op, given.span)
        return ops.Memory(ops.Symbol(thing.space, thing.name), offset)

    # ---------------------------------------------------------------- places and functions
    def _label(self, given: tree.Operand) -> ops.Operand:
        pc = self.scope.label(given.text) if isinstance(given, tree.Name) else None
        if pc is None:
            message = f"there is no label '{getattr(given, 'text', given)}' here"
            raise Unfit(message, given.span, code="E0323")
        return ops.Target(pc)

    def _targets(self, given: tree.Operand) -> ops.Operand:
        pcs = self.scope.table(given.text) if isinstance(given, tree.Name) else None
        if pcs is None:
            message = f"there is no .branchtargets '{getattr(given, 'text', given)}' above"
            raise Unfit(message, given.span, code="E0323")
        return ops.Targets(pcs)

    def _function(self, given: tree.Operand) -> ops.Operand:
        if not isinstance(given, tree.Name):
            raise Unfit("the function of a call is a name", given.span)
        if isinstance(self.scope.find(given.text), ops.Register):
            raise Unsupported("a call through a register is not supported yet")
        signature = self.context.functions.get(given.text)
        if signature is None:
            hint = "declare it above its first call, with a prototype if need be"
            raise Unfit(f"'{given.text}' is not a function declared above", given.span, hint, "E0320")
        if signature.is_entry:
            raise Unfit(f"'{given.text}' is an .entry; only a .func can be called", given.span)
        return ops.FunctionRef(given.text)

    def _params(self, given: tree.Operand) -> ops.Operand:
        if not isinstance(given, tree.Tuple):
            raise Unfit("a parenthesised list is needed", given.span)
        return ops.Group(tuple(self._param(element) for element in given.elements), is_params=True)

    def _param(self, given: tree.Operand) -> ops.Symbol:
        thing = self.scope.find(given.text) if isinstance(given, tree.Name) else None
        formals = self.context.formals
        if isinstance(thing, Storage) and thing.space == "frame" and thing.name not in formals:
            return ops.Symbol(thing.space, thing.name)
        if isinstance(thing, ops.Register) or isinstance(given, (tree.Integer, tree.Float, tree.Sink)):
            raise Unsupported("a call with registers or constants as arguments is not supported yet")
        hint = "declare a .param in this body for what the call passes or gets"
        message = f"'{getattr(given, 'text', given)}' is no .param of this body"
        raise Unfit(message, given.span, hint)

    def _prototype(self, given: tree.Operand) -> ops.Operand:
        if not isinstance(given, tree.Name) or self.scope.find(given.text) is not None:
            raise Unfit("the prototype of a call is a label", given.span, code="E0323")
        return ops.Discard()

    _NON_VALUES: ClassVar[dict[str, Any]] = {
        "label": _label,
        "targets": _targets,
        "function": _function,
        "params": _params,
        "prototype": _prototype,
    }


def _require_space(text: str, variable: Storage, op: Op, span: Span) -> None:
    space = "param" if variable.space == "frame" else variable.space
    if op.spaces and space not in op.spaces:
        wanted = " or .".join(op.spaces)
        raise Unfit(f"'{text}' lies in .{space}; this address must lie in .{wanted}", span)


_BRACKETED = Op("addr32b", accepts="r")
"""What `a/[a]` takes in brackets."""


def _base_and_offset(given: tree.Name | tree.Offset) -> tuple[str, int]:
    return (given.text, 0) if isinstance(given, tree.Name) else (given.base.text, given.offset)
