"""Stores to Tensor Memory of which the text says what they store: f32 values, one in each register.

The registers of tcgen05.st have no type of their own; what computed their values does.
"""

from __future__ import annotations

from typing import Final

from drywell.base.span import Span
from drywell.program import operands as ops
from drywell.program.link import Executable
from drywell.program.module import Function
from drywell.program.reaching import Definitions

_ARITHMETIC: Final = ("alu", "fma", "mufu")
_CHOICES: Final = ("mov", "selp", "slct")
"""Instructions that take values as they are: their type says nothing of what a register holds."""


def f32_stores(executable: Executable) -> frozenset[Span]:
    """Return the places of the tcgen05.st all of whose registers hold results of f32 arithmetic."""
    return frozenset(span for linked in executable.functions for span in _f32_stores(linked.function))


def _f32_stores(function: Function) -> list[Span]:
    definitions = Definitions(function)
    out = []
    for place, instruction in enumerate(function.code):
        if isinstance(instruction, ops.Bound) and instruction.declaration.unit == "tmem_st":
            stored = list(ops.leaves(instruction.sources[-1]))
            if all(_is_f32(definitions, place, one) for one in dict.fromkeys(stored)):
                out.append(instruction.span)
    return out


def _is_f32(definitions: Definitions, place: int, operand: ops.Operand) -> bool:
    """Say whether whatever a register may hold at a place was computed as f32."""
    if not isinstance(operand, ops.Register):
        return False
    seen = {(place, operand.index)}
    work = list(seen)
    while work:
        reaching = definitions.reaching(*work.pop())
        for defined, instruction in reaching:
            if instruction.declaration.name == "mov" and isinstance(instruction.sources[0], ops.Register):
                further = (defined, instruction.sources[0].index)
                work += {further} - seen
                seen.add(further)
            elif not _computes_f32(instruction):
                return False
        if not reaching:
            return False
    return True


def _computes_f32(instruction: ops.Bound) -> bool:
    declaration, types = instruction.declaration, instruction.destination_types
    return (
        declaration.unit in _ARITHMETIC
        and declaration.name not in _CHOICES
        and len(types) == 1
        and types[0].type == "f32"
    )
