"""A module without inner scopes: their registers are declared in the function, under names of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from drywell.ptx.tree import (
    Block,
    Directive,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    Registers,
    Statement,
)


def flattened(module: Module) -> Module:
    """Return the module with the statements of every inner scope that declares only registers put in the
    place of the scope.
    """
    items = tuple(
        replace(item, body=_flat(item.body)) if isinstance(item, Function) and item.body is not None else item
        for item in module.items
    )
    return replace(module, items=items)


def _flat(body: Block) -> Block:
    taken = {name for statement in _all(body) for name in _declared(statement)}
    numbers = count(1)
    registers: dict[tuple[str, str], list[tuple[str, int | None]]] = {}

    def fresh(name: str) -> str:
        return next(new for k in numbers if (new := f"{name}_{k}") not in taken)

    def inline(block: Block) -> Iterator[Statement]:
        for statement in block.statements:
            if not isinstance(statement, Block) or not _is_plain(statement):
                yield statement
                continue
            names = {name: fresh(name) for inner in statement.statements for name in _declared(inner)}
            for inner in inline(_renamed(statement, names)):
                if isinstance(inner, Registers):
                    registers.setdefault((inner.type, inner.vector), []).extend(inner.names)
                else:
                    yield inner

    statements = tuple(inline(body))
    declared = tuple(Registers(kind, tuple(names), vector) for (kind, vector), names in registers.items())
    return replace(body, statements=(*declared, *statements))


def _all(block: Block) -> Iterator[Statement]:
    for statement in block.statements:
        yield statement
        if isinstance(statement, Block):
            yield from _all(statement)


def _declared(statement: Statement) -> list[str]:
    if isinstance(statement, Registers):
        return [name for name, _ in statement.names]
    return [statement.name] if isinstance(statement, Label) else []


def _is_plain(block: Block) -> bool:
    """Say whether a scope declares nothing but registers, one by one, and labels."""
    return all(
        all(number is None for _, number in statement.names)
        if isinstance(statement, Registers)
        else isinstance(statement, (Instruction, Label, Block, Directive))
        for statement in block.statements
    )


def _renamed(node: Any, names: dict[str, str]) -> Any:
    """Return a tree with names replaced, those of registers and labels that it declares among them."""
    if isinstance(node, tuple):
        return tuple(_renamed(part, names) for part in node)
    if isinstance(node, Name):
        return replace(node, text=names.get(node.text, node.text))
    if isinstance(node, Label):
        return replace(node, name=names.get(node.name, node.name))
    if isinstance(node, Registers):
        return replace(node, names=tuple((names.get(name, name), number) for name, number in node.names))
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = {f.name: _renamed(getattr(node, f.name), names) for f in dataclasses.fields(node)}
        return replace(node, **parts)
    return node
