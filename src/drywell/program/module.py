"""Resolve a whole module: every function's code bound, every variable laid out as storage, and everything
wrong with it collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.record import record
from drywell.base.span import Source, Span
from drywell.program import flow
from drywell.program import operands as ops
from drywell.program.body import Body, check_parameter, new_scope
from drywell.program.call import prototypes_differ
from drywell.program.context import Context, Signature
from drywell.program.header import check_header
from drywell.program.scope import Registers, Scope
from drywell.program.static import cross_check
from drywell.program.storage import Misdeclared, Storage, storage_of
from drywell.ptx import tree

_OPAQUE_TYPES = ("texref", "samplerref", "surfref")


@record
class Parameter:
    """A parameter of an entry or function: where it lies in its block, its size and PTX type; `is_pointer`
    when declared `.ptr`.
    """

    storage: Storage
    type: str
    offset: int
    is_pointer: bool
    span: Span


@record
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

    def live(self) -> Iterator[ops.Code]:
        """Yield the instructions that a lane can get to, in order of place."""
        places = flow.reachable(self.code)
        return (instruction for place, instruction in enumerate(self.code) if place in places)

    def callees(self) -> tuple[str, ...]:
        """Return the names of the functions it can call or take the address of."""
        named = [
            (place, source.name)
            for place, instruction in enumerate(self.code)
            if isinstance(instruction, ops.Bound)
            for source in instruction.sources
            if isinstance(source, ops.FunctionRef)
        ]
        live = flow.reachable(self.code) if named else ()
        return tuple(dict.fromkeys(name for place, name in named if place in live))


@record
class Program:
    """A resolved module: immutable, free of text but for names and places. `is_as_written`: it is what its
    source says, no more and no less; of a tree that was edited `source` has only the places.
    """

    source: Source
    version: tuple[int, int]
    target: str
    functions: dict[str, Function]
    variables: tuple[Storage, ...]
    diagnostics: tuple[Diagnostic, ...]
    is_as_written: bool = False

    @property
    def digest(self) -> str:
        """Return a digest of the text that all of it follows from, '' when there is none."""
        text = self.source.text if self.is_as_written else ""
        return sha256(text.encode(errors="surrogatepass")).hexdigest() if text else ""

    @property
    def entries(self) -> tuple[str, ...]:
        """Return the names of the entries that have a body, in source order."""
        return tuple(f.name for f in self.functions.values() if f.is_entry and not f.is_external)

    def all_variables(self) -> tuple[Storage, ...]:
        """Return the variables of the module and those of its functions, call parameters left out."""
        return (*self.variables, *(v for f in self.functions.values() for v in f.variables))

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


@dataclass(slots=True)
class _Resolver:
    """The items of a module in order; each sees what stands above it.

    `symbols` are the names an initialiser may hold, with their keys (None: no address before the launch).
    """

    context: Context
    scope: Scope = field(default_factory=lambda: Scope(None, Registers()))
    symbols: dict[str, str | None] = field(default_factory=dict)
    variables: dict[str, tuple[tree.Variable, Storage]] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    declared: dict[str, tree.Function] = field(default_factory=dict)
    aliases: dict[str, tree.Directive] = field(default_factory=dict)

    def item(self, item: tree.Variable | tree.Function | tree.Directive) -> None:
        match item:
            case tree.Variable():
                self._variable(item)
            case tree.Function():
                self._function(item)
            case tree.Directive(name="alias"):
                self._alias(item)

    # ---------------------------------------------------------------- variables
    def _variable(self, variable: tree.Variable) -> None:
        self.context.function = ""
        if variable.type in _OPAQUE_TYPES:
            return  # textures are only named by instructions that are not known here
        name, space = variable.name, variable.space
        if space in ("local", "param"):
            message = f"'{name}' lies in .{space}: such variables are declared in a function"
            self.context.report("E0325", message, variable.span, hint="move it into the function")
            return
        if name in self.declared:
            self._twice(name, variable.span, f"line {self.declared[name].span.line} has a function of it")
            return
        try:
            storage = storage_of(variable, name, space, self.symbols)
        except Misdeclared as wrong:
            self.context.report(wrong.code, wrong.message, wrong.span, hint=wrong.hint)
            return
        known = self.variables.get(name)
        if known is not None and not self._may_follow(known[0], variable):
            return
        self.context.keys.add((space, name))
        self.symbols[name] = name if space in ("global", "const") else None
        if known is None or known[1].is_open or "extern" in known[0].linkage:
            self.variables[name] = (variable, storage)
            self.scope.things[name] = storage

    def _may_follow(self, first: tree.Variable, second: tree.Variable) -> bool:
        """Tell whether a second declaration of a variable may stand; report when it may not.

        One of the two is `.extern`, and they agree; the definition itself is visible. Tried with ptxas
        13.0.88.
        """
        externs = [v for v in (first, second) if "extern" in v.linkage]
        defined = [v for v in (first, second) if v not in externs]
        kinds = {(v.space, v.type, v.vector, v.shape[1:]) for v in (first, second)}
        extents = {v.shape for v in (first, second) if None not in v.shape}
        if externs and len(kinds) == 1 and len(extents) <= 1 and all(v.linkage for v in defined):
            return True
        self._twice(second.name, second.span, f"line {first.span.line} declares it otherwise")
        return False

    def _twice(self, name: str, span: Span, at: str) -> None:
        message = f"'{name}' is declared twice"
        self.context.report("E0326", message, span, at, "rename or delete one of them")

    # ---------------------------------------------------------------- functions
    def _parameters(self, variables: tuple[tree.Variable, ...], space: str, scope: Scope) -> list[Parameter]:
        out: list[Parameter] = []
        offset = 0
        for variable in variables:
            if scope.is_taken(variable.name):
                self._twice(variable.name, variable.span, "another parameter has this name")
            may_be_open = space == "frame" and variable is variables[-1]
            try:
                self._check_space(variable, space)
                check_parameter(variable, may_be_open)
                key = variable.name if space == "param" else self.context.key(space, variable.name)
                storage = storage_of(variable, key, space)
            except Misdeclared as wrong:
                self.context.report(wrong.code, wrong.message, wrong.span, hint=wrong.hint)
                continue
            if variable.space == "reg":
                scope.declare_register(variable.name, None, variable.type)
            else:
                scope.declare_variable(variable.name, storage)
            offset = -(-offset // storage.align) * storage.align
            is_pointer = variable.ptr is not None
            out.append(Parameter(storage, variable.type, offset, is_pointer, variable.span))
            offset += storage.size
        return out

    def _function(self, function: tree.Function) -> None:
        context, name = self.context, function.name
        context.function, context.frame = name, {}
        check_header(function, context)
        old_style = self._old_style(function)
        scope = new_scope(self.scope)
        space = "param" if function.is_entry else "frame"
        params = self._parameters(function.params, space, scope)
        returns = self._parameters(function.returns, "frame", scope)
        signature = Signature(
            name, function.is_entry, tuple(p.storage for p in params), tuple(p.storage for p in returns)
        )
        if not self._may_stand(function, signature):
            return
        self.declared[name], self.symbols[name] = function, name
        context.functions[name] = signature
        formals = (*signature.params, *signature.returns)
        context.formals = frozenset(s.name for s in formals)
        body = Body(context, self.symbols)
        body.frame += formals if not function.is_entry else ()
        if old_style is not None:
            body.code.append(old_style)
        if function.body is not None:
            body.walk(function.body, scope)
        self.functions[name] = Function(
            name,
            function.is_entry,
            tuple(body.code),
            tuple(scope.registers.widths),
            tuple(scope.registers.names),
            tuple(params),
            tuple(returns),
            tuple(body.frame),
            tuple(body.variables),
            {d.name: d.arguments for d in function.directives},
            function.body is None,
            function.span,
        )

    def _check_space(self, variable: tree.Variable, space: str) -> None:
        if variable.space == "reg" and space == "param":
            message = f"'{variable.name}' is passed in a register; the parameters of an .entry are .param"
            raise Misdeclared("E0325", message, variable.span, "write .param")

    def _old_style(self, function: tree.Function) -> ops.Unknown | None:
        """Return what stands for parameters in registers, the calling convention of old compilers."""
        registers = [v for v in (*function.params, *function.returns) if v.space == "reg"]
        if len(function.returns) > 1 and not registers:
            message = f"'{function.name}' has {len(function.returns)} results; one .param is the limit"
            self.context.report("E0325", message, function.span, hint="return a .b8 array that holds all")
        if not registers or function.is_entry:
            return None
        reason = f"'{function.name}' passes '{registers[0].name}' in a register, which is not supported yet"
        at = "entries that can reach it will not be launched"
        self.context.report("E0303", reason, registers[0].span, at, severity=Severity.WARNING)
        return ops.Unknown(function.name, registers[0].span, reason)

    def _may_stand(self, function: tree.Function, signature: Signature) -> bool:
        """Tell whether a declaration may follow those above it; report when it may not."""
        name, span = function.name, function.span
        if name in self.variables:
            self._twice(name, span, f"line {self.variables[name][0].span.line} has a variable of it")
            return False
        if "extern" in function.linkage and function.body is not None:
            message = f"'{name}' is .extern and has a body"
            self.context.report("E0328", message, span, hint="delete .extern")
            return False
        first = self.declared.get(name)
        if first is None:
            return True
        if first.body is not None:
            self._twice(name, span, f"it is defined in line {first.span.line}")
            return False
        why = prototypes_differ(self.context.functions[name], signature) or _heads_differ(first, function)
        if why:
            message = f"'{name}' is declared otherwise in line {first.span.line}: {why}"
            self.context.report("E0328", message, span, hint="make both declarations equal")
        return not why

    # ---------------------------------------------------------------- aliases
    def _alias(self, directive: tree.Directive) -> None:
        alias = str(directive.arguments[0])
        wrong = ""
        if alias in self.aliases:
            wrong = f"'{alias}' is an alias already, of line {self.aliases[alias].span.line}"
        elif alias not in self.declared:
            wrong = f"'{alias}' must be declared as a function above"
        elif self.declared[alias].body is not None:
            wrong = f"'{alias}' has a body of its own"
        if wrong:
            self.context.report("E0328", wrong, directive.span)
        else:
            self.aliases[alias] = directive

    def finish(self) -> None:
        """Give each alias the body of the function it stands for."""
        made: dict[str, Function] = {}
        for alias, directive in self.aliases.items():
            name = str(directive.arguments[1])
            function = self.functions.get(name)
            signatures = self.context.functions
            if function is None or function.is_external:
                wrong = f"'{alias}' needs a function with a body to stand for; '{name}' is none"
            elif function.is_entry:
                wrong = f"'{name}' is an .entry; an alias stands for a .func"
            else:
                wrong = prototypes_differ(signatures[alias], signatures[name])
                made[alias] = replace(function, name=alias)
            if wrong:
                self.context.report("E0328", wrong, directive.span)
        self.functions.update(made)


def _heads_differ(first: tree.Function, second: tree.Function) -> str:
    """Say in what linkage and `.noreturn` of two declarations differ, '' when the second may follow.

    A definition may leave out the linkage that its prototype gave. Tried with ptxas 13.0.88.
    """
    if first.linkage != second.linkage and (second.linkage or "extern" in first.linkage):
        said = [f".{f.linkage[0]}" if f.linkage else "of no linkage" for f in (first, second)]
        return f"it is {said[0]} there and {said[1]} here"
    noreturn = [any(d.name == "noreturn" for d in f.directives) for f in (first, second)]
    return "" if noreturn[0] == noreturn[1] else ".noreturn stands at one of them only"


def check_module(module: tree.Module, source: Source, is_as_written: bool = False) -> Program:
    """Resolve a module and return it with all diagnostics, errors included; never raises for what the text
    says. `is_as_written` says that the module is the whole of `source`, as it was parsed.
    """
    target = next((t for t in module.target if t.startswith("sm_")), "")
    resolver = _Resolver(Context(target, module.version))
    for item in module.items:
        resolver.item(item)
    resolver.finish()
    variables = tuple(storage for _, storage in resolver.variables.values())
    program = Program(source, module.version, target, resolver.functions, variables, (), is_as_written)
    found = (*resolver.context.diagnostics, *cross_check(program))
    return replace(program, diagnostics=_in_order(found))


def _in_order(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(found, key=lambda d: (d.span.line, d.span.col)))
