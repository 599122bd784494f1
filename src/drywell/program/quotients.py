"""Where byte addresses and offsets are divided by 16 on their way into matrix descriptors: the fields of a
descriptor hold sixteenths, and a shift drops what is left over without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drywell.base.record import record
from drywell.program import operands as ops
from drywell.program.module import Function
from drywell.program.reaching import Definitions

UNIT_BYTES: Final = 16
_SHIFT: Final = 4
_FIELD_SHIFTS: Final = (16, 32)
"""Where LBO and SBO stand in the word; the start address stands at 0."""
_PASSED_ON: Final = ("mov", "cvt_integer", "and", "or", "add", "sub")
"""Instructions that make a part of a descriptor of a part of one."""
_MATRICES: Final = ("a", "b", "sdesc")


@record
class Quotient:
    """A division: at `place` of the code, `register` (index in its function) is read before its low bits are
    dropped.
    """

    place: int
    register: int


@record
class Use:
    """An instruction at `place` that takes a matrix descriptor as its operand `name`, and the divisions that
    parts of it come from.
    """

    place: int
    name: str
    quotients: frozenset[Quotient]


def descriptor_uses(function: Function) -> tuple[Use, ...]:
    """Return the matrix descriptors of tcgen05.mma and .cp that some division went into, in order of place.

    Source: PTX ISA 9.7.16.4.1, shared memory descriptor: "matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4".
    """
    definitions = Definitions(function)
    out = []
    for place, instruction in enumerate(function.code):
        if isinstance(instruction, ops.Bound) and instruction.declaration.unit == "tensor":
            for name, register in _matrices(instruction):
                found = frozenset(_quotients(definitions, place, register))
                if found:
                    out.append(Use(place, name, found))
    return tuple(out)


def _matrices(instruction: ops.Bound) -> Iterator[tuple[str, int]]:
    declaration = instruction.declaration
    names = [o.parts[0] for o in declaration.operands if o.parts[0] not in declaration.writes]
    for name, source in zip(names, instruction.sources, strict=False):
        if name in _MATRICES and isinstance(source, ops.Register):
            yield name, source.index


def _quotients(definitions: Definitions, place: int, register: int) -> Iterator[Quotient]:
    """Yield the divisions whose results a register holds parts of before `place`."""
    seen: set[tuple[int, int]] = set()
    work = [(place, register)]
    while work:
        at = work.pop()
        for defined, instruction in definitions.reaching(*at):
            divided = _divided(instruction)
            if divided is not None:
                yield _unmasked(definitions, defined, divided)
                continue
            for source in _parts(instruction):
                if (defined, source) not in seen:
                    seen.add((defined, source))
                    work.append((defined, source))


def _divided(instruction: ops.Bound) -> int | None:
    """Return the register whose sixteenth an instruction takes."""
    source = instruction.sources[0] if instruction.sources else None
    if instruction.declaration.name not in ("shr", "bfe") or not isinstance(source, ops.Register):
        return None
    return source.index if instruction.sources[1] == ops.Immediate(_SHIFT) else None


def _unmasked(definitions: Definitions, place: int, register: int) -> Quotient:
    """Return a division, and where a mask takes the low bits away right before it, the mask."""
    reaching = definitions.reaching(place, register)
    if len(reaching) == 1:
        defined, instruction = reaching[0]
        source = instruction.sources[0] if instruction.sources else None
        if instruction.declaration.name == "and" and isinstance(source, ops.Register):
            mask = instruction.sources[1]
            if isinstance(mask, ops.Immediate) and mask.bits and not mask.bits % UNIT_BYTES:
                return Quotient(defined, source.index)
    return Quotient(place, register)


def _parts(instruction: ops.Bound) -> Iterator[int]:
    """Yield the registers of which an instruction makes a part of a descriptor."""
    name, sources = instruction.declaration.name, instruction.sources
    is_placed = name == "shl" and sources[1] in [ops.Immediate(shift) for shift in _FIELD_SHIFTS]
    if is_placed or name == "bfi" or name in _PASSED_ON:
        placed = sources[:1] if is_placed else sources[:2]
        yield from (register.index for register in ops.registers(placed))
