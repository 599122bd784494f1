"""Print a tree as PTX text that parses back to an equal tree."""

from __future__ import annotations

from collections.abc import Callable

from drywell.ptx.directives import print_directive
from drywell.ptx.tree import (
    Address,
    Block,
    BranchTargets,
    Directive,
    Float,
    Function,
    Instruction,
    Integer,
    Label,
    Module,
    Name,
    Not,
    Offset,
    Operand,
    Pair,
    Registers,
    Sink,
    Statement,
    Tuple,
    Variable,
    Vector,
)


def print_module(module: Module) -> str:
    """Return the text of `module`, one statement a line; comments are not in the tree."""
    major, minor = module.version
    lines = [
        f".version {major}.{minor}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    for item in module.items:
        if isinstance(item, Function):
            lines += _function(item)
        else:
            lines += _statement(item, "")
    return "\n".join(lines) + "\n"


def print_statement(statement: Statement) -> str:
    """Return the text of one statement, without indentation; a block takes several lines."""
    return "\n".join(_statement(statement, ""))


def print_operand(operand: Operand) -> str:
    """Return the text of one operand."""
    return _OPERANDS[type(operand)](operand)


def _joined(operands: tuple[Operand, ...]) -> str:
    return ", ".join([_OPERANDS[type(operand)](operand) for operand in operands])


def _float(operand: Float) -> str:
    return f"0f{operand.bits:08X}" if operand.width == 32 else f"0d{operand.bits:016X}"


def _offset(operand: Offset) -> str:
    return f"{operand.base.text}+{operand.offset}"


_OPERANDS: dict[type, Callable[..., str]] = {
    Name: lambda o: o.text,
    Integer: lambda o: f"{o.value}{'U' if o.unsigned else ''}",
    Float: _float,
    Sink: lambda o: "_",
    Not: lambda o: f"!{print_operand(o.operand)}",
    Vector: lambda o: f"{{{_joined(o.elements)}}}",
    Pair: lambda o: f"{print_operand(o.first)}|{print_operand(o.second)}",
    Offset: _offset,
    Address: lambda o: f"[{_joined(o.parts)}]",
    Tuple: lambda o: f"({_joined(o.elements)})",
}


def _initial(value: Operand) -> str:
    """Print an initialiser: lists in braces, and `generic(symbol)` or a mask for a Tuple of two."""
    if isinstance(value, Vector):
        return f"{{{', '.join(_initial(element) for element in value.elements)}}}"
    if isinstance(value, Tuple):
        outer, inner = value.elements
        if isinstance(outer, Name) and isinstance(inner, Offset):
            return f"{outer.text}({inner.base.text}){inner.offset:+d}"
        return f"{print_operand(outer)}({_initial(inner)})"
    return print_operand(value)


def _instruction(statement: Instruction) -> str:
    guard = statement.guard
    at = f"@{'!' if guard.is_negated else ''}{guard.name.text} " if guard else ""
    opcode = ".".join([word.text for word in statement.words])
    operands = _joined(statement.operands)
    return f"{at}{opcode} {operands};" if operands else f"{at}{opcode};"


def _registers(statement: Registers) -> str:
    vector = f".{statement.vector} " if statement.vector else ""
    names = [name if count is None else f"{name}<{count}>" for name, count in statement.names]
    return f".reg {vector}.{statement.type} {', '.join(names)};"


def _declared(variable: Variable) -> str:
    """Print a variable or parameter without what ends it."""
    words = [f".{word}" for word in variable.linkage if not word.startswith("attribute(")]
    words.append(f".{variable.space}")
    words += [f".{word}" for word in variable.linkage if word.startswith("attribute(")]
    if variable.align is not None:
        words.append(f".align {variable.align}")
    if variable.vector:
        words.append(f".{variable.vector}")
    words.append(f".{variable.type}")
    if variable.ptr is not None:
        space, align = variable.ptr
        words.append(".ptr")
        words += [f".{space}"] if space else []
        words += [f".align {align}"] if align is not None else []
    extents = "".join(f"[{'' if extent is None else extent}]" for extent in variable.shape)
    init = "" if variable.init is None else f" = {_initial(variable.init)}"
    return f"{' '.join(words)} {variable.name}{extents}{init}"


def _statement(statement: Statement, indent: str) -> list[str]:
    if isinstance(statement, Block):
        inner = [line for inside in statement.statements for line in _statement(inside, indent + "\t")]
        return [f"{indent}{{", *inner, f"{indent}}}"]
    if isinstance(statement, Label):
        return [f"{statement.name}:"]
    return [indent + _LINES[type(statement)](statement)]


def _branch_targets(statement: BranchTargets) -> str:
    targets = ", ".join(target.text for target in statement.targets)
    return f"{statement.name}: .branchtargets {targets};"


_LINES: dict[type, Callable[..., str]] = {
    Instruction: _instruction,
    Registers: _registers,
    Variable: lambda variable: f"{_declared(variable)};",
    BranchTargets: _branch_targets,
    Directive: print_directive,
}


def _parameters(variables: tuple[Variable, ...]) -> str:
    return "(" + ",".join(f"\n\t{_declared(variable)}" for variable in variables) + ")"


def _function(function: Function) -> list[str]:
    words = [f".{word}" for word in function.linkage if not word.startswith("attribute(")]
    words.append(".entry" if function.is_entry else ".func")
    words += [f".{word}" for word in function.linkage if word.startswith("attribute(")]
    if function.returns:
        words.append(_parameters(function.returns))
    lines = ["", f"{' '.join(words)} {function.name}{_parameters(function.params)}"]
    lines += [print_directive(directive) for directive in function.directives]
    return [*lines, ";"] if function.body is None else lines + _statement(function.body, "")
