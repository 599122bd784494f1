"""The body of one function: declarations enter their scope, instructions are bound, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from drywell.base.span import Span
from drywell.program import operands as ops
from drywell.program.bind import bind
from drywell.program.context import Context
from drywell.program.scope import Registers, Scope
from drywell.program.storage import STORED_TYPES, Misdeclared, Storage, storage_of
from drywell.ptx import tree

_REGISTER_TYPES = STORED_TYPES | {"pred"}
_WIDEST_VECTOR_BITS = 128


@dataclass(slots=True)
class Body:
    """What a body has given so far: its code, call-sequence parameters, and other variables."""

    context: Context
    symbols: dict[str, str | None]
    code: list[ops.Code] = field(default_factory=list)
    frame: list[Storage] = field(default_factory=list)
    variables: list[Storage] = field(default_factory=list)

    def walk(self, block: tree.Block, scope: Scope) -> None:
        """Read the statements of a block in order."""
        scope.labels.update(_label_places(block, len(self.code)))
        for statement in block.statements:
            match statement:
                case tree.Instruction():
                    self.code.append(bind(statement, scope, self.context))
                case tree.Label():
                    self._label(statement.name, statement.span, scope)
                case tree.Registers():
                    self._registers(statement, scope)
                case tree.Block():
                    self.walk(statement, Scope(scope, scope.registers))
                case tree.Variable():
                    self._variable(statement, scope)
                case tree.BranchTargets():
                    self._targets(statement, scope)
                case tree.Directive():
                    pass

    def _label(self, name: str, span: Span, scope: Scope) -> None:
        if scope.is_taken(name):
            message = f"label '{name}' stands twice in this block, or something else there has its name"
            self.context.report("E0324", message, span, hint="rename one of them")
        scope.taken.add(name)

    def _targets(self, statement: tree.BranchTargets, scope: Scope) -> None:
        self._label(statement.name, statement.span, scope)
        places = []
        for target in statement.targets:
            pc = scope.label(target.text)
            if pc is None:
                self.context.report("E0323", f"there is no label '{target.text}' here", target.span)
            else:
                places.append(pc)
        scope.tables[statement.name] = tuple(places)

    def _registers(self, statement: tree.Registers, scope: Scope) -> None:
        kind, lanes = statement.type, int(statement.vector[1:] or 1)
        if kind not in _REGISTER_TYPES:
            hint = "use a .b type of that size"
            self.context.report("E0325", f"'.{kind}' is not a register type", statement.span, hint=hint)
            return
        if lanes > 1 and (kind == "pred" or lanes > 4 or lanes * int(kind[1:3]) > _WIDEST_VECTOR_BITS):
            message = f"there is no vector register '.{statement.vector} .{kind}'"
            hint = "it has at most 4 elements and 128 bits"
            self.context.report("E0325", message, statement.span, hint=hint)
            return
        for name, count in statement.names:
            is_taken = scope.is_taken(name) if count is None else scope.is_range_taken(name, count)
            if is_taken:
                self._twice(name if count is None else f"{name}<{count}>", statement.span)
            scope.declare_register(name, count, kind, lanes)

    def _twice(self, name: str, span: Span) -> None:
        self.context.report(
            "E0326", f"'{name}' is declared twice in this block", span, hint="rename one of them"
        )

    def _variable(self, statement: tree.Variable, scope: Scope) -> None:
        space = "frame" if statement.space == "param" else statement.space
        if scope.is_taken(statement.name):
            self._twice(statement.name, statement.span)
        try:
            if space == "frame":
                check_parameter(statement, may_be_open=False)
            key = self.context.key(space, statement.name)
            storage = storage_of(statement, key, space, self.symbols)
        except Misdeclared as wrong:
            self.context.report(wrong.code, wrong.message, wrong.span, hint=wrong.hint)
            return
        scope.declare_variable(statement.name, storage)
        if space == "frame":
            self.frame.append(storage)
            self.context.frame[storage.name] = storage
        else:
            self.variables.append(storage)


def check_parameter(variable: tree.Variable, may_be_open: bool) -> None:
    """Raise Misdeclared for what cannot be a parameter though it can be a variable."""
    if variable.vector or variable.type == "f16x2":
        what = f".{variable.vector}" if variable.vector else f".{variable.type}"
        hint = f"write .align 16 .b8 {variable.name}[16]" if variable.vector else "use .b32"
        raise Misdeclared("E0325", f"'{variable.name}' is a {what}; no .param is", variable.span, hint)
    if not may_be_open and None in variable.shape:
        message = f"the extent of '{variable.name}' is open"
        raise Misdeclared("E0327", message, variable.span, "write how many elements it has")


def _label_places(block: tree.Block, place: int) -> dict[str, int]:
    """Return where each label of a block, inner blocks left out, stands in the function's code."""
    labels: dict[str, int] = {}
    for statement in block.statements:
        if isinstance(statement, tree.Label):
            labels[statement.name] = place
        else:
            place += _size(statement)
    return labels


def _size(statement: tree.Statement) -> int:
    """Return the number of instructions in a statement."""
    if isinstance(statement, tree.Block):
        return sum(_size(inner) for inner in statement.statements)
    return int(isinstance(statement, tree.Instruction))


def new_scope(module: Scope) -> Scope:
    """Return the scope of a function's parameters and body."""
    return Scope(module, Registers())
