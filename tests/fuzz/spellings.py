"""The legal spellings of a declaration: all of them, or many when there are too many."""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Iterator
from functools import cache

from drywell.isa.declare import Declaration, Mods
from drywell.isa.decode import problems
from drywell.isa.registry import declarations
from oracle.ptxas.rows import choices_of, form_of

ALL = 1500
"""Up to so many combinations of slots are tried one by one; beyond, a walk takes `STEPS` steps."""
STEPS = 1200
TARGET = "sm_100a"


def is_here(declaration: Declaration) -> bool:
    """Say whether the programs' target has the declaration."""
    return not declaration.targets or TARGET in declaration.targets


def _is_legal(declaration: Declaration, mods: Mods) -> bool:
    given = {slot.group for slot in declaration.slots if slot.group and mods[slot.name]}
    is_torn = any(slot.group in given and not mods[slot.name] for slot in declaration.slots)
    if is_torn or problems(declaration, mods):
        return False
    return declaration.unsupported is None or declaration.unsupported(mods) is None


def _walk(declaration: Declaration, choices: list[tuple[str | None, ...]]) -> Iterator[Mods]:
    """Yield combinations that the checks allow, by changing one or two slots of such a one at a time."""
    pick = random.Random(zlib.crc32(form_of(declaration).encode()))
    names = [slot.name for slot in declaration.slots]
    here: list[str | None] | None = None
    for _ in range(STEPS):
        there = list(here) if here else [c[-1] if c[-1] is None else pick.choice(c) for c in choices]
        for k in pick.sample(range(len(choices)), pick.choice((1, 1, 2, 3))) if here else ():
            there[k] = pick.choice(choices[k])
        mods = Mods(dict(zip(names, there, strict=True)))
        if _is_legal(declaration, mods):
            here = there
            yield mods


@cache
def spellings(declaration_number: int) -> tuple[Mods, ...]:
    """Return legal modifiers of the declaration of this number in the registry's order."""
    declaration = declarations()[declaration_number]
    choices = [choices_of(slot) for slot in declaration.slots]
    names = [slot.name for slot in declaration.slots]
    if math.prod(map(len, choices)) > ALL:
        found = {tuple(m.values()): m for m in _walk(declaration, choices)}
        return tuple(found.values())
    every = (Mods(dict(zip(names, words, strict=True))) for words in itertools.product(*choices))
    return tuple(mods for mods in every if _is_legal(declaration, mods))
