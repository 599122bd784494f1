"""What a call passes and gets, against the function's declaration."""

from __future__ import annotations

from drywell.base.dtypes import TYPES
from drywell.base.span import Span
from drywell.isa.declare import Op
from drywell.program import operands as ops
from drywell.program.context import Signature
from drywell.program.fit import register_fits
from drywell.program.resolve import Resolver, Unfit
from drywell.program.storage import Storage


def check_call(bound: ops.Bound, resolver: Resolver) -> None:
    """Compare the lists of a call with its function's; Unfit names the first difference.

    Tried with ptxas 13.0.88: a .f32 passes for a .b32 but not for a .u32, and arrays pass by size.
    """
    called = [
        s
        for s, t in zip(bound.sources, bound.source_types, strict=True)
        if isinstance(s, ops.FunctionRef) and not isinstance(t, tuple) and t and t.type == "function"
    ]
    if not called:
        return
    name = called[0].name
    signature = resolver.context.functions[name]
    results, arguments = _lists(bound)
    _compare(name, "result", results, signature.returns, resolver, bound.span)
    _compare(name, "argument", arguments, signature.params, resolver, bound.span)


def _lists(bound: ops.Bound) -> tuple[tuple[ops.Operand, ...], tuple[ops.Operand, ...]]:
    """Return what stands in the list before the function's name and in the one behind it."""
    before: tuple[ops.Operand, ...] = ()
    behind: tuple[ops.Operand, ...] = ()
    seen = False
    for source in bound.sources:
        if isinstance(source, ops.FunctionRef):
            seen = True
        elif isinstance(source, ops.Group) and source.is_params:
            before, behind = (before, source.elements) if seen else (source.elements, behind)
    return before, behind


def _compare(
    name: str,
    what: str,
    given: tuple[ops.Operand, ...],
    formals: tuple[Storage, ...],
    resolver: Resolver,
    span: Span,
) -> None:
    if len(given) != len(formals):
        message = f"'{name}' has {len(formals)} {what}{'' if len(formals) == 1 else 's'}, {len(given)} given"
        raise Unfit(message, span, code="E0332")
    for k, (symbol, formal) in enumerate(zip(given, formals, strict=True)):
        assert isinstance(symbol, ops.Symbol)
        actual = resolver.context.frame[symbol.name]
        if not _passes_for(actual, formal):
            message = f"{what} {k} of '{name}' is {_said(formal)}; '{symbol.name}' is {_said(actual)}"
            raise Unfit(message, span, "declare the .param as the function does", "E0332")


def _passes_for(actual: Storage, formal: Storage) -> bool:
    if actual.align != formal.align or actual.is_array != formal.is_array:
        return False
    if formal.is_array:
        return formal.is_open or actual.size == formal.size
    return register_fits(TYPES[actual.type], Op(formal.type))


def _said(storage: Storage) -> str:
    size = "any number of" if storage.is_open else str(storage.size)
    kind = f"an array of {size} bytes" if storage.is_array else f"a .{storage.type}"
    return f"{kind} aligned to {storage.align}"


def prototypes_differ(one: Signature, two: Signature) -> str:
    """Say in what two declarations of a function differ, '' when in nothing."""
    if one.is_entry != two.is_entry:
        return "one is an .entry, the other a .func"
    for what, first, second in (
        ("parameter", one.params, two.params),
        ("result", one.returns, two.returns),
    ):
        if len(first) != len(second):
            return f"one has {len(first)} {what}s, the other {len(second)}"
        for k, (a, b) in enumerate(zip(first, second, strict=True)):
            if (a.size, a.align, a.is_array, a.type) != (b.size, b.align, b.is_array, b.type):
                return f"{what} {k} is {_said(a)} in one, {_said(b)} in the other"
    return ""
