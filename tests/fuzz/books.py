"""Books: the forms of lane instructions that a batch of programs is made of.

A form is an instruction without the numbers in it, and compiled code has one function for each. To compile
one takes longer than to run a program, so the programs of a batch are made of the same ones; the next batch
has others. Machine instructions have no such functions: every program draws its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from drywell.isa.declare import Declaration, Mods
from drywell.isa.registry import declarations
from fuzz.spellings import is_here, spellings

BATCH = 400
"""Programs of one book."""
NUM_FORMS = {"value": 64, "plain": 24}
"""How many forms a book has of a kind."""

Options = tuple[tuple[int, Declaration], ...]
"""Declarations with their numbers."""


@dataclass(frozen=True, slots=True)
class Form:
    """A declaration, its modifiers, and the seed of what kind of operand stands where."""

    declaration: Declaration
    mods: Mods
    style: int


@dataclass(slots=True)
class Book:
    """Book `number` of a seed: its forms by kind, as far as they were asked for."""

    seed: int
    number: int
    known: dict[str, tuple[Form, ...]] = field(default_factory=dict)

    def forms(self, kind: str, options: Options) -> tuple[Form, ...]:
        """Return the forms of a kind, whose declarations are `options`."""
        if kind not in self.known:
            self.known[kind] = self._forms(kind, options)
        return self.known[kind]

    def _forms(self, kind: str, options: Options) -> tuple[Form, ...]:
        """Go on through the declarations where the book before has ended, in an order new for each turn."""
        pick = random.Random(f"{self.seed}/book {self.number}/{kind}")
        first, count = self.number * NUM_FORMS[kind], NUM_FORMS[kind]
        found = []
        for place in range(first, first + count):
            turn, rank = divmod(place, len(options))
            order = random.Random(f"{self.seed}/turn {turn}/{kind}").sample(range(len(options)), len(options))
            found.append(drawn_form(pick, options[order[rank]]))
        return tuple(found)


def drawn_form(pick: random.Random, option: tuple[int, Declaration]) -> Form:
    """Return a form of a declaration."""
    number, declaration = option
    return Form(declaration, pick.choice(spellings(number)), pick.getrandbits(32))


@cache
def book(seed: int, number: int) -> Book:
    """Return book `number` of a seed."""
    return Book(seed, number)


@cache
def numbered() -> Options:
    """Return the declarations that the programs' target has, with their numbers."""
    return tuple((n, d) for n, d in enumerate(declarations()) if is_here(d))


def where(found: Iterable[tuple[int, Declaration]]) -> Options:
    """Return declarations that have a legal spelling."""
    return tuple((n, d) for n, d in found if spellings(n))
