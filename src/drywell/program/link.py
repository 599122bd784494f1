"""Link one entry with the functions it calls: registers, code places, shared, local and parameter memory
get their final numbers.
"""

from __future__ import annotations

import re

from drywell.base.errors import LaunchError, UnsupportedError
from drywell.base.last_used import FoundOnce
from drywell.base.record import record
from drywell.isa.declare import Op
from drywell.isa.system import EXTERNS
from drywell.program import operands as ops
from drywell.program.module import Function, Parameter, Program
from drywell.program.storage import Storage

SHARED_BASE = 0x400
"""First usable byte of a CTA's shared window. MEASURED: the system keeps the first 1 KiB (H200)."""


@record
class Linked:
    """One function inside an executable: what to add to its register indices and places."""

    function: Function
    register_base: int
    pc_base: int


@record
class Executable:
    """An entry ready to run. `places` maps (space, name) to an offset in its space; global and const
    variables get theirs at launch.
    """

    program: Program
    entry: Function
    functions: tuple[Linked, ...]
    register_widths: tuple[int, ...]
    register_names: tuple[str, ...]
    places: dict[tuple[str, str], int]
    shared_symbols: tuple[tuple[str, int, int], ...]
    static_shared_end: int
    dynamic_shared_base: int
    local_bytes: int
    frame_bytes: int
    globals: tuple[Storage, ...]
    params: tuple[Parameter, ...]
    param_bytes: int

    def linked(self, name: str) -> Linked:
        """Return the function called `name`."""
        return next(f for f in self.functions if f.function.name == name)


def plain_name(symbol: str) -> str:
    """Return the name its author gave a variable: nvcc mangles a function's own as `_ZZ4gemmE4full`.

    >>> plain_name("_ZZ4gemmE4full"), plain_name("dyn")
    ('full', 'dyn')
    """
    mangled = re.match(r"_ZZ.*E(\d+)(\w+)$", symbol)
    return mangled.group(2)[: int(mangled.group(1))] if mangled else symbol


def _align(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _used_symbols(functions: tuple[Function, ...]) -> set[tuple[str, str]]:
    code = (instruction for function in functions for instruction in function.code)
    return {(symbol.space, symbol.name) for instruction in code for symbol in ops.symbols(instruction)}


def _used_globals(program: Program, used: set[str]) -> tuple[Storage, ...]:
    """Return the global and const variables that code names, and those whose address these hold."""
    known = {v.name: v for v in program.all_variables() if v.space in ("global", "const")}
    wanted = dict.fromkeys(v.name for v in known.values() if v.name in used)
    work = list(wanted)
    while work:
        name = work.pop()
        if known[name].is_open:
            raise UnsupportedError(f"variable '{name}' is external, and nothing says how large it is")
        for relocation in known[name].relocations:
            symbol = relocation.symbol
            if symbol not in known:
                message = f"variable '{name}' holds the address of function '{symbol}', which has none yet"
                raise UnsupportedError(message)
            if symbol not in wanted:
                wanted[symbol] = None
                work.append(symbol)
    return tuple(v for v in known.values() if v.name in wanted)


def _shared(
    storages: list[Storage], places: dict[tuple[str, str], int]
) -> tuple[tuple[tuple[str, int, int], ...], int, int]:
    offset = SHARED_BASE
    symbols: list[tuple[str, int, int]] = []
    for storage in (s for s in storages if not s.is_open):
        offset = _align(offset, storage.align)
        places["shared", storage.name] = offset
        symbols.append((plain_name(storage.name), offset, storage.size))
        offset += storage.size
    static_end = offset
    dynamic = [s for s in storages if s.is_open]
    base = _align(offset, max((s.align for s in dynamic), default=1))
    for storage in dynamic:
        places["shared", storage.name] = base
        symbols.append((plain_name(storage.name), base, 0))
    return tuple(symbols), static_end, base


def _place(storages: list[Storage], places: dict[tuple[str, str], int]) -> int:
    offset = 0
    for storage in storages:
        offset = _align(offset, storage.align)
        places[storage.space, storage.name] = offset
        offset += storage.size
    return offset


def _why_not(program: Program, instruction: ops.Code) -> str | None:
    """Return why an instruction cannot be executed, None when it can."""
    if isinstance(instruction, ops.Unknown):
        return instruction.why
    declaration = instruction.declaration
    if declaration.unsupported is not None:
        reason = declaration.unsupported(instruction.mods)
        if reason is not None:
            return reason
    for source, kind in zip(instruction.sources, instruction.source_types, strict=True):
        if isinstance(source, ops.FunctionRef):
            if not isinstance(kind, Op) or kind.type != "function":
                return f"the address of function '{source.name}' is taken, which is not supported yet"
            callee = program.functions[source.name]
            if callee.is_external and source.name not in EXTERNS:
                return f"'{source.name}' is external and Drywell does not provide it"
            if not callee.is_external and any(p.storage.is_open for p in callee.params):
                return f"'{source.name}' takes any number of bytes, which is not supported yet"
    return None


def _refuse_what_cannot_run(program: Program, functions: tuple[Function, ...]) -> None:
    for function in functions:
        for instruction in function.live():
            reason = _why_not(program, instruction)
            if reason is not None:
                raise UnsupportedError(reason, instruction.span)


def _refuse_recursion(program: Program, entry: str) -> None:
    """Walk the calls depth first; a function that is met while it is on the way calls itself."""
    way: list[str] = [entry]
    callees = [iter(program.functions[entry].callees())]
    done: set[str] = set()
    while way:
        name = next(callees[-1], None)
        if name is None:
            done.add(way.pop())
            callees.pop()
        elif name in way:
            circle = " -> ".join((*way[way.index(name) :], name))
            message = f"recursive calls are not supported: {circle}"
            raise UnsupportedError(message, program.functions[name].span)
        elif name not in done:
            way.append(name)
            callees.append(iter(program.functions[name].callees()))


def _numbered(
    functions: tuple[Function, ...],
) -> tuple[tuple[Linked, ...], tuple[int, ...], tuple[str, ...]]:
    """Put the registers and the code of the functions one behind the other: (functions, widths, names)."""
    linked: list[Linked] = []
    widths: list[int] = []
    names: list[str] = []
    pc = 0
    for one in functions:
        linked.append(Linked(one, len(widths), pc))
        widths += one.register_widths
        names += one.register_names
        pc += len(one.code) + 1
    return tuple(linked), tuple(widths), tuple(names)


_linked: FoundOnce[Executable] = FoundOnce()


def link(program: Program, entry: str) -> Executable:
    """Link an entry, once for many launches; LaunchError when there is none of that name, UnsupportedError
    when it can reach what cannot be executed.
    """
    return _linked.of(program, lambda: _link(program, entry), entry)


def _link(program: Program, entry: str) -> Executable:
    function = program.functions.get(entry)
    if function is None or entry not in program.entries:
        raise LaunchError(f"the module has no entry '{entry}'; it has {', '.join(program.entries) or 'none'}")
    _refuse_recursion(program, entry)
    functions = program.reachable(entry)
    _refuse_what_cannot_run(program, functions)
    linked, widths, names = _numbered(functions)
    used = _used_symbols(functions)
    own = tuple(v for f in functions for v in f.variables)
    variables = dict.fromkeys((*program.variables, *own))
    places: dict[tuple[str, str], int] = {}
    # ptxas 13.0.88 -v: what a function declares is kept although nobody names it, what a module does is not
    shared = [v for v in variables if v.space == "shared" and (v in own or ("shared", v.name) in used)]
    symbols, static_end, dynamic_base = _shared(shared, places)
    local = _place([v for v in variables if v.space == "local"], places)
    frame = _place([*dict.fromkeys(s for f in functions for s in f.frame)], places)
    for parameter in function.params:
        places["param", parameter.storage.name] = parameter.offset
    return Executable(
        program,
        function,
        linked,
        widths,
        names,
        places,
        symbols,
        static_end,
        dynamic_base,
        local,
        frame,
        _used_globals(program, {name for space, name in used if space in ("global", "const")}),
        function.params,
        function.param_size,
    )
