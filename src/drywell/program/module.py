"""Resolve a whole module: every function's code bound, every variable laid out as storage, and everything
wrong with it collected.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.dtypes import TYPES
from drywell.base.errors import PtxError
from drywell.base.span import Source, Span
from drywell.program import operands as ops
from drywell.program.bind import Context, bind
from drywell.program.scope import Registers, Scope, Storage
from drywell.program.static import cross_check
from drywell.ptx import tree


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry or function: where it lies in its block, its size and PTX type; `is_pointer`
    when declared `.ptr`.
    """

    storage: Storage
    type: str
    offset: int
    is_pointer: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Function:
    """One resolved function. `frame` holds parameters and call-sequence parameters, `variables` everything
    else that it declares.
    """

    name: str
    is_entry: bool
    code: tuple[ops.Code, ...]
    register_widths: tuple[int, ...]
    register_names: tuple[str, ...]
    params: tuple[Parameter, ...]
    returns: tuple[Parameter, ...]
    frame: tuple[Storage, ...]
    variables: tuple[Storage, ...]
    directives: dict[str, tuple[str | int, ...]]
    is_external: bool
    span: Span

    @property
    def param_size(self) -> int:
        """Return the bytes of the parameter block."""
        return max((p.offset + p.storage.size for p in self.params), default=0)

    def callees(self) -> tuple[str, ...]:
        """Return the names of the functions it calls or takes the address of."""
        names: dict[str, None] = {}
        for instruction in self.code:
            if isinstance(instruction, ops.Bound):
                for source in instruction.sources:
                    if isinstance(source, ops.FunctionRef):
                        names[source.name] = None
        return tuple(names)


@dataclass(frozen=True, slots=True)
class Program:
    """A resolved module: immutable, free of text but for names and places."""

    source: Source
    version: tuple[int, int]
    target: str
    functions: dict[str, Function]
    variables: tuple[Storage, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        """Return the names of the entries in source order."""
        return tuple(f.name for f in self.functions.values() if f.is_entry)

    def reachable(self, entry: str) -> tuple[Function, ...]:
        """Return the functions an entry can reach, itself first, external ones left out."""
        order: dict[str, None] = {entry: None}
        work = [entry]
        while work:
            function = self.functions.get(work.pop())
            for name in function.callees() if function else ():
                if name not in order:
                    order[name] = None
                    work.append(name)
        return tuple(self.functions[n] for n in order if not self.functions[n].is_external)


def _extent(variable: tree.Variable) -> tuple[int, bool]:
    """Return (bytes, is the extent open)."""
    element = (
        TYPES[variable.type].bytes * int(variable.vector[1:] or 1)
        if variable.vector
        else TYPES[variable.type].bytes
    )
    count = 1
    is_open = False
    for extent in variable.shape:
        is_open = is_open or extent is None
        count *= extent or 0
    size = element * count
    if is_open and variable.init is not None and isinstance(variable.init, (tree.Vector, tree.Tuple)):
        return element * len(variable.init.elements), False
    return (0 if is_open else size), is_open


def _initial(variable: tree.Variable, size: int) -> tuple[bytes | None, tuple[tuple[int, str, int], ...]]:
    if variable.init is None:
        return None, ()
    kind = TYPES[variable.type]
    out = bytearray(size)
    relocations: list[tuple[int, str, int]] = []
    position = 0

    def put(item: tree.Operand) -> None:
        nonlocal position
        if isinstance(item, (tree.Vector, tree.Tuple)):
            for element in item.elements:
                put(element)
            return
        if isinstance(item, tree.Integer):
            out[position : position + kind.bytes] = (item.value & ((1 << kind.bits) - 1)).to_bytes(
                kind.bytes, "little"
            )
        elif isinstance(item, tree.Float):
            bits = item.bits
            if item.width == 64 and kind.bits == 32:
                bits = struct.unpack(
                    "<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", bits))[0])
                )[0]
            out[position : position + kind.bytes] = bits.to_bytes(kind.bytes, "little")
        elif isinstance(item, (tree.Name, tree.Offset)):
            base = item.text if isinstance(item, tree.Name) else item.base.text
            relocations.append((position, base, item.offset if isinstance(item, tree.Offset) else 0))
        position += kind.bytes

    put(variable.init)
    return bytes(out), tuple(relocations)


def storage_of(variable: tree.Variable, name: str, space: str) -> Storage:
    """Lay out one declared variable."""
    size, is_open = _extent(variable)
    element = TYPES[variable.type].bytes * (int(variable.vector[1:]) if variable.vector else 1)
    init, relocations = _initial(variable, size)
    return Storage(name, space, size, variable.align or max(1, element), init, relocations, is_open)


@dataclass(slots=True)
class _Body:
    """The body of one function, flattened: instructions with the scope each stands in."""

    function: str
    scope: Scope
    context: Context
    frame: list[Storage] = field(default_factory=list)
    variables: list[Storage] = field(default_factory=list)
    flat: list[tuple[tree.Instruction, Scope]] = field(default_factory=list)

    def walk(self, block: tree.Block, scope: Scope) -> None:
        for statement in block.statements:
            match statement:
                case tree.Instruction():
                    self.flat.append((statement, scope))
                case tree.Block():
                    self.walk(statement, Scope(scope, scope.registers))
                case tree.Label():
                    self._label(statement.name, statement.span, scope)
                    scope.labels[statement.name] = len(self.flat)
                case tree.BranchTargets():
                    scope.tables[statement.name] = tuple(t.text for t in statement.targets)
                case tree.Registers():
                    self._registers(statement, scope)
                case tree.Variable():
                    self._variable(statement, scope)
                case tree.Directive():
                    pass

    def _label(self, name: str, span: Span, scope: Scope) -> None:
        if name in scope.labels:
            self.context.report(
                "E0324", f"label '{name}' stands twice in this block", span, hint="rename one of them"
            )

    def _registers(self, statement: tree.Registers, scope: Scope) -> None:
        if statement.type not in TYPES:
            self.context.report("E0325", f"'.{statement.type}' is not a register type", statement.span)
            return
        for name, count in statement.names:
            known = (
                name in scope.declared
                or name in scope.variables
                or (count is not None and name in scope.ranges)
            )
            if known:
                self.context.report(
                    "E0326",
                    f"'{name}' is declared twice in this block",
                    statement.span,
                    hint="rename one of them",
                )
            if count is None:
                scope.declared[name] = statement.type
            else:
                scope.ranges[name] = (count, statement.type)

    def _variable(self, statement: tree.Variable, scope: Scope) -> None:
        if statement.type not in TYPES:
            self.context.report("E0325", f"'.{statement.type}' is not a type of a variable", statement.span)
            return
        space = "frame" if statement.space == "param" else statement.space
        kept = self.frame if space == "frame" else self.variables
        unique = f"{self.function}.{statement.name}@{len(self.frame)}" if space == "frame" else statement.name
        scope.variables[statement.name] = storage_of(statement, unique, space)
        kept.append(scope.variables[statement.name])


def _parameters(variables: tuple[tree.Variable, ...], space: str, context: Context) -> tuple[Parameter, ...]:
    out: list[Parameter] = []
    offset = 0
    for variable in variables:
        if variable.space == "reg" or variable.type not in TYPES:
            context.report(
                "E0325", f"parameter '{variable.name}' has a type Drywell does not take", variable.span
            )
            continue
        storage = storage_of(variable, variable.name, space)
        offset = -(-offset // storage.align) * storage.align
        out.append(Parameter(storage, variable.type, offset, variable.ptr is not None, variable.span))
        offset += storage.size
    return tuple(out)


def _function(function: tree.Function, module_scope: Scope, context: Context) -> Function:
    registers = Registers()
    scope = Scope(module_scope, registers)
    space = "param" if function.is_entry else "frame"
    params = _parameters(function.params, space, context)
    returns = _parameters(function.returns, "frame", context)
    for parameter in (*params, *returns):
        scope.variables[parameter.storage.name] = parameter.storage
    body = _Body(function.name, scope, context)
    if not function.is_entry:
        body.frame += [p.storage for p in (*params, *returns)]
    if function.body is not None:
        body.walk(function.body, scope)
    code = [bind(instruction, where, context) for instruction, where in body.flat]
    return Function(
        function.name,
        function.is_entry,
        tuple(c for c in code if c is not None),
        tuple(registers.widths),
        tuple(registers.names),
        params,
        returns,
        tuple(body.frame),
        tuple(body.variables),
        {d.name: d.arguments for d in function.directives},
        function.body is None,
        function.span,
    )


def check_module(module: tree.Module, source: Source) -> Program:
    """Resolve a module and return it with all diagnostics, errors included; never raises for what the text
    says.
    """
    target = next((t for t in module.target if t.startswith("sm_")), "")
    names = frozenset(i.name for i in module.items if isinstance(i, tree.Function))
    context = Context(target, module.version, names)
    scope = Scope(None, Registers())
    for item in module.items:
        if isinstance(item, tree.Variable) and item.type in TYPES:
            scope.variables[item.name] = storage_of(item, item.name, item.space)
    functions: dict[str, Function] = {}
    for item in module.items:
        if isinstance(item, tree.Function) and not (item.body is None and item.name in functions):
            functions[item.name] = _function(item, scope, context)
    program = Program(source, module.version, target, functions, tuple(scope.variables.values()), ())
    diagnostics = sorted(
        (*context.diagnostics, *cross_check(program)), key=lambda d: (d.span.line, d.span.col)
    )
    return Program(source, module.version, target, functions, program.variables, tuple(diagnostics))


def resolve(module: tree.Module, source: Source) -> Program:
    """Resolve a module; raise PtxError with every diagnostic when one of them is an error."""
    program = check_module(module, source)
    if any(d.severity is Severity.ERROR for d in program.diagnostics):
        raise PtxError(program.diagnostics, source)
    return program
