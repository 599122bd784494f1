"""Names and where they hold: registers, variables and labels are scoped by braces, and the registers and
variables of a block hold from their declaration on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from drywell.base.dtypes import TYPES
from drywell.base.record import record
from drywell.program.operands import Register
from drywell.program.storage import Storage

_ELEMENTS = "xyzw"
_COLOURS = "rgba"


@record
class VectorRegister:
    """A register declared `.v2` or `.v4`: the names of its elements."""

    elements: tuple[str, ...]


Named = Register | VectorRegister | Storage


@dataclass(slots=True)
class Registers:
    """All registers of one function, numbered as they are first used."""

    widths: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    has_vectors: bool = False

    def add(self, name: str, type_name: str) -> Register:
        """Number a new register."""
        kind = TYPES[type_name]
        self.widths.append(kind.bits)
        self.names.append(name)
        return Register(len(self.widths) - 1, kind, name)


def _splits(name: str) -> Iterator[tuple[str, int]]:
    """Yield each (prefix, number) that a name such as `%r12` may be of: a prefix may end in digits too."""
    for cut in range(len(name.rstrip("0123456789")), len(name)):
        if name[cut] != "0" or cut == len(name) - 1:
            yield name[:cut], int(name[cut:])


@dataclass(slots=True)
class Scope:
    """One brace level; look-ups go outwards. `ranges` holds (count, type, lanes) of `%r<count>`, `declared`
    (type, lanes) of single registers, `labels` the places of this block's labels, also of those further down.
    """

    parent: Scope | None
    registers: Registers
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    declared: dict[str, tuple[str, int]] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    things: dict[str, Named] = field(default_factory=dict)

    # ---------------------------------------------------------------- declaring
    def is_taken(self, name: str) -> bool:
        """Tell whether something of this very block is called `name`."""
        return name in self.taken or self._numbered(name) is not None

    def is_range_taken(self, prefix: str, count: int) -> bool:
        """Tell whether one of the names `prefix0`, `prefix1` ... of this very block is taken."""
        return prefix in self.ranges or any(
            p == prefix and k < count for name in self.taken for p, k in _splits(name)
        )

    def declare_register(self, name: str, count: int | None, type_name: str, lanes: int = 1) -> None:
        """Declare `name`, or `name0` to `name<count - 1>`."""
        if count is not None:
            self.ranges[name] = (count, type_name, lanes)
        else:
            self.taken.add(name)
            self.declared[name] = (type_name, lanes)
        self.registers.has_vectors |= lanes > 1

    def declare_variable(self, name: str, storage: Storage) -> None:
        """Declare a variable."""
        self.taken.add(name)
        self.things[name] = storage

    # ---------------------------------------------------------------- finding
    def find(self, name: str) -> Named | None:
        """Return the register or variable called `name`, seen from here; registers are numbered when first
        found.
        """
        scope: Scope | None = self
        while scope is not None:
            thing = scope.things.get(name) or scope._register(name)
            if thing is not None:
                return thing
            scope = scope.parent
        return None

    def _numbered(self, name: str) -> tuple[str, int] | None:
        for prefix, number in _splits(name):
            found = self.ranges.get(prefix)
            if found is not None and number < found[0]:
                return found[1:]
        return None

    def _register(self, name: str) -> Named | None:
        """Make the register called `name` if this block declares it, alone or as part of a vector."""
        found = self.declared.get(name) or self._numbered(name)
        if found is not None:
            type_name, lanes = found
            made: Named = (
                self.registers.add(name, type_name)
                if lanes == 1
                else VectorRegister(tuple(f"{name}.{e}" for e in _ELEMENTS[:lanes]))
            )
            self.things[name] = made
            return made
        return self._element(name) if self.registers.has_vectors and "." in name else None

    def _element(self, name: str) -> Register | None:
        base, _, part = name.rpartition(".")
        type_name, lanes = self.declared.get(base) or self._numbered(base) or ("", 1)
        index = max(_ELEMENTS.find(part), _COLOURS.find(part)) if len(part) == 1 else -1
        if lanes == 1 or not 0 <= index < lanes:
            return None
        first = f"{base}.{_ELEMENTS[index]}"
        register = self.things.get(first)
        if not isinstance(register, Register):
            register = self.registers.add(first, type_name)
            self.things[first] = register
        return register

    def label(self, name: str) -> int | None:
        """Return the pc a label stands for, seen from here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None

    def table(self, name: str) -> tuple[int, ...] | None:
        """Return the places of a `.branchtargets` table, seen from here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tables:
                return scope.tables[name]
            scope = scope.parent
        return None
