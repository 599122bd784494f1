"""Names and where they hold: registers, variables and labels are scoped by braces."""

from __future__ import annotations

from dataclasses import dataclass, field

from drywell.base.dtypes import TYPES
from drywell.program.operands import Register


@dataclass(frozen=True, slots=True)
class Storage:
    """A variable: its space, size and alignment in bytes, element type, initial bytes (None = zeros), and
    whether its extent is open (`x[]`).
    """

    name: str
    space: str
    size: int
    align: int
    init: bytes | None = None
    relocations: tuple[tuple[int, str, int], ...] = ()
    is_open: bool = False


@dataclass(slots=True)
class Registers:
    """All registers of one function, numbered as they are first used."""

    widths: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, name: str, type_name: str) -> Register:
        """Number a new register."""
        kind = TYPES[type_name]
        self.widths.append(kind.bits)
        self.names.append(name)
        return Register(len(self.widths) - 1, kind, name)


@dataclass(slots=True)
class Scope:
    """One brace level; look-ups go outwards."""

    parent: Scope | None
    registers: Registers
    declared: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)
    bound: dict[str, Register] = field(default_factory=dict)
    variables: dict[str, Storage] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def register(self, name: str) -> Register | None:
        """Return the register called `name`, numbering it at its first use, or None."""
        scope: Scope | None = self
        while scope is not None:
            known = scope.bound.get(name)
            if known is not None:
                return known
            type_name = scope.declared.get(name) or scope._in_range(name)
            if type_name is not None:
                scope.bound[name] = self.registers.add(name, type_name)
                return scope.bound[name]
            scope = scope.parent
        return None

    def _in_range(self, name: str) -> str | None:
        """Return the type when `name` is one of a `%r<count>` range; a prefix may itself end in digits, so
        every split is tried.
        """
        start = len(name.rstrip("0123456789"))
        for cut in range(start, len(name)):
            found = self.ranges.get(name[:cut])
            digits = name[cut:]
            if found is not None and int(digits) < found[0] and (digits == "0" or digits[0] != "0"):
                return found[1]
        return None

    def variable(self, name: str) -> Storage | None:
        """Return the variable called `name` seen from here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return None

    def label(self, name: str) -> int | None:
        """Return the pc a label stands for, seen from here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None

    def table(self, name: str) -> tuple[str, ...] | None:
        """Return the labels of a `.branchtargets` table, seen from here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tables:
                return scope.tables[name]
            scope = scope.parent
        return None
