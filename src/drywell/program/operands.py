"""Resolved operands and instructions: what the engine executes. All immutable; no text but names for
messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from drywell.base.dtypes import PtxType
from drywell.base.record import record
from drywell.base.span import Span
from drywell.isa.declare import Declaration, Mods, Op


@record
class Register:
    """A virtual register: `index` numbers it within its function."""

    index: int
    type: PtxType
    name: str


@record
class Immediate:
    """A constant as the low bits of the operand's width."""

    bits: int


@record
class Special:
    """A special register such as `%tid.x`."""

    name: str


@record
class Symbol:
    """The address of a variable plus an offset; `space` is where the variable lives (`frame` for the
    parameters of a function call).
    """

    space: str
    name: str
    offset: int = 0


@record
class Memory:
    """An address operand `[base + offset]`; a base of None is an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


@record
class Negated:
    """`!p`."""

    register: Register


@record
class Group:
    """A brace list or, with `is_params`, the parenthesised list of a call."""

    elements: tuple[Operand, ...]
    is_params: bool = False


@record
class Discard:
    """The sink `_`, or a destination that is not written."""


@record
class Target:
    """A place in the function's code: the index of an instruction."""

    pc: int


@record
class Targets:
    """The table of a `brx`."""

    pcs: tuple[int, ...]


@record
class FunctionRef:
    """A function to be called, by name."""

    name: str


Operand = (
    Register
    | Immediate
    | Special
    | Symbol
    | Memory
    | Negated
    | Group
    | Discard
    | Target
    | Targets
    | FunctionRef
)


@record
class Bound:
    """One instruction bound to its declaration. `sources` line up with the semantics' parameters (None =
    left out).
    """

    declaration: Declaration
    mods: Mods
    destinations: tuple[Operand, ...]
    destination_types: tuple[Op, ...]
    sources: tuple[Operand | tuple[Operand, ...] | None, ...]
    source_types: tuple[Op | tuple[Op, ...] | None, ...]
    guard: Register | None
    is_guard_negated: bool
    span: Span


@record
class Unknown:
    """An instruction that cannot be executed, for it has no declaration or a form that is not supported: it
    may stand in a module, an entry that can reach it cannot be launched.
    """

    spelling: str
    span: Span
    reason: str = ""

    @property
    def why(self) -> str:
        """Say why it cannot be executed."""
        return self.reason or f"'{self.spelling}' is not an instruction Drywell knows"


Code = Bound | Unknown


Nested: TypeAlias = "Operand | tuple[Nested, ...] | None"


def leaves(operand: Nested) -> Iterator[Operand]:
    """Yield the operands inside an operand: elements of groups and pairs, the base of an address."""
    match operand:
        case Register():
            yield operand
        case None:
            return
        case tuple() | Group():
            for element in operand if isinstance(operand, tuple) else operand.elements:
                yield from leaves(element)
        case Memory():
            yield from leaves(operand.base)
        case Negated():
            yield operand.register
        case _:
            yield operand


def registers(operand: Nested) -> Iterator[Register]:
    """Yield the registers in an operand, or in a tuple of them."""
    for leaf in leaves(operand):
        if isinstance(leaf, Register):
            yield leaf


def specials(instruction: Code) -> list[str]:
    """Return the names of the special registers that an instruction reads."""
    found: list[str] = []
    if isinstance(instruction, Bound):
        for source in instruction.sources:
            kind = type(source)
            if kind is Special:
                found.append(source.name)  # type: ignore[union-attr]
            elif kind is Group or kind is tuple:
                found += [leaf.name for leaf in leaves(source) if isinstance(leaf, Special)]
    return found


def symbols(instruction: Code) -> list[Symbol]:
    """Return the variables that an instruction names."""
    found: list[Symbol] = []
    if isinstance(instruction, Bound):
        for operand in (*instruction.sources, *instruction.destinations):
            kind = type(operand)
            if kind is not Register and kind is not Immediate:
                found += [leaf for leaf in leaves(operand) if isinstance(leaf, Symbol)]
    return found


def written(instruction: Code) -> Iterator[Register]:
    """Yield the registers that an instruction writes."""
    if isinstance(instruction, Bound):
        for destination in instruction.destinations:
            if isinstance(destination, Register):
                yield destination
            else:
                yield from registers(destination)
