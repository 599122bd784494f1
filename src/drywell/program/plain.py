"""Programs as plain data, to be kept from run to run.

    {"atoms": [...], "nodes": [[kind, n, n, ...], ...]}

An atom is a number, a text, true, false or null. A node is made of earlier values, each given by its number:
atoms come first, then nodes in order, and the last one is the program. `kind` is an index into `_KINDS`. What
is equal is there once, so a program read back shares what can be shared, as one that was resolved does.

Declarations are named, not written: by family, first word and place among those, and a family is imported
when the first of its declarations is met. Reading takes a fifth of the time that parsing and resolving take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from typing import Any

from drywell.base.dtypes import TYPES, PtxType
from drywell.base.span import Source, Span
from drywell.isa.declare import REGISTRY, Declaration, Mods, Op
from drywell.program import operands as ops
from drywell.program.module import Function, Parameter, Program
from drywell.program.storage import Relocation, Storage

_RECORDS: tuple[Any, ...] = (
    ops.Register,
    ops.Immediate,
    ops.Special,
    ops.Symbol,
    ops.Memory,
    ops.Negated,
    ops.Group,
    ops.Discard,
    ops.Target,
    ops.Targets,
    ops.FunctionRef,
    ops.Bound,
    ops.Unknown,
    Op,
    Span,
    Storage,
    Relocation,
    Parameter,
    Function,
    Program,
)


def _family_of(declaration: Declaration) -> list[Declaration]:
    return [d for d in REGISTRY[declaration.root] if d.family == declaration.family]


@lru_cache(maxsize=512)
def _declaration(family: str, root: str, place: int) -> Declaration:
    import_module(f"drywell.isa.{family}")
    return [d for d in REGISTRY[root] if d.family == family][place]


def _paired(*values: Any) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


_OTHERS: dict[Any, tuple[Callable[[Any], Sequence[Any]], Callable[..., Any]]] = {
    tuple: (lambda value: value, lambda *values: values),
    dict: (lambda value: [x for pair in value.items() for x in pair], _paired),
    Mods: (lambda mods: [x for pair in mods.items() for x in pair], lambda *words: Mods(_paired(*words))),
    bytes: (lambda value: [value.hex()], bytes.fromhex),
    PtxType: (lambda kind: [kind.name], TYPES.__getitem__),
    Declaration: (lambda d: [d.family, d.root, _family_of(d).index(d)], _declaration),
    Source: (lambda source: [], lambda: None),
}
"""Of what is no record of fields: what it is made of, and how it is made."""

_KINDS: tuple[Any, ...] = (*_RECORDS, *_OTHERS)
_NUMBER = {kind: k for k, kind in enumerate(_KINDS)}
_ATOMS = frozenset({int, str, bool, float, type(None)})


def _parts_of(kind: Any) -> Callable[[Any], Sequence[Any]]:
    """Return what takes a record apart."""
    names = [f.name for f in fields(kind)]
    return attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, n) for n in names]


_PARTS = {kind: _parts_of(kind) for kind in _RECORDS} | {kind: of for kind, (of, _) in _OTHERS.items()}


class _Writer:
    """Gives every value its number."""

    def __init__(self) -> None:
        self.atoms: dict[tuple[type, Any], int] = {}
        self.nodes: dict[tuple[int, ...], int] = {}
        self.known: dict[int, tuple[Any, int]] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value: that of an atom from 0 down, that of a node from 1 up."""
        kind = type(value)
        if kind in _ATOMS:
            return self.atoms.setdefault((kind, value), -len(self.atoms))
        known = self.known.get(id(value))
        if known is not None:
            return known[1]
        node = (_NUMBER[kind], *map(self.number, _PARTS[kind](value)))
        found = self.nodes.setdefault(node, len(self.nodes) + 1)
        self.known[id(value)] = value, found
        return found


def to_plain(program: Program) -> bytes:
    """Write a program that has no diagnostics, without its text."""
    writer = _Writer()
    writer.number(program)
    first = len(writer.atoms) - 1
    nodes = [[kind, *(first + n if n > 0 else -n for n in parts)] for kind, *parts in writer.nodes]
    return json.dumps({"atoms": [value for _, value in writer.atoms], "nodes": nodes}).encode()


def from_plain(plain: bytes, source: Source) -> Program:
    """Read a program back, given its text."""
    read = json.loads(plain)
    values: list[Any] = read["atoms"]
    make: list[Any] = [*_RECORDS, *(maker for _, maker in _OTHERS.values())]
    make[_NUMBER[Source]] = lambda: source
    get, add = values.__getitem__, values.append
    for kind, *parts in read["nodes"]:
        add(make[kind](*map(get, parts)))
    program: Program = values[-1]
    return program
