"""Plans: what native code must know of a tensor map or a multiplication, made in Python when it is missed.

A table is a power of two of (key, plan) pairs of words, both 0 where nothing is; a key is looked for from its
hash on. The *directory* holds, for each kind of plan, the table's address and its number of places less 1,
and where products are that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native.ir import I64, PTR, Function, Value
from drywell.engine.native.state import BLOCK, block_word

Words = NDArray[np.uint64]

KINDS = {"map": 1, "product": 2, "copy": 3}
"""What a block's word `missed` says."""

PLACE_OF_WAITING = 2 * len(KINDS)
"""The word of the directory that says where `waiting` keeps its words."""

_FIRST_PLACES = 16
SPREAD = 0x9E37_79B9_7F4A_7C15
"""2^64 by the golden ratio: neighbouring keys times this lie apart in their upper bits (Knuth, TAOCP 6.4)."""


def _hash(key: int) -> int:
    return (key * SPREAD & (1 << 64) - 1) >> 40


class PlanTable:
    """The plans of one kind by key (not 0). Plans are arrays of words, kept alive here."""

    def __init__(self, directory: Words, kind: str) -> None:
        self._directory = directory[2 * (KINDS[kind] - 1) :]
        self._plans: dict[int, tuple[Words, Any]] = {}
        self._build(_FIRST_PLACES)

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> Iterator[int]:
        return iter(self._plans)

    def get(self, key: int) -> Words | None:
        """Return the plan of a key, None when it has none."""
        found = self._plans.get(key)
        return None if found is None else found[0]

    def set(self, key: int, plan: Words, kept: Any = None) -> None:
        """Let a key have a plan from here on; `kept` is what the plan holds addresses of. When the table is
        full to three quarters one twice as large takes its place.
        """
        self._plans[key] = plan, kept
        if 4 * len(self._plans) > 3 * len(self._table):
            self._build(2 * len(self._table))
        else:
            self._put(key, plan)

    def _build(self, num_places: int) -> None:
        self._table = np.zeros((num_places, 2), np.uint64)
        for key, (plan, _) in self._plans.items():
            self._put(key, plan)
        self._directory[0], self._directory[1] = self._table.ctypes.data, num_places - 1

    def _put(self, key: int, plan: Words) -> None:
        num_places = len(self._table)
        place = _hash(key) % num_places
        while int(self._table[place, 0]) not in (0, key):
            place = (place + 1) % num_places
        self._table[place] = key, plan.ctypes.data


def find(f: Function, block: Value, kind: str, key: Value) -> Value:
    """Return the address of a plan, 0 when there is none."""
    directory = f.at(block_word(f, block, "plans").as_pointer(), 2 * (KINDS[kind] - 1), I64)
    table, last = f.load(PTR, directory, 0), f.load(I64, directory, 1)
    place = f.variable(I64, (key * SPREAD >> 40) & last)
    found = f.variable(I64, 0)
    with f.repeat() as stop:
        pair = f.at(table, (place.value & last) * 2, I64)
        own = f.load(I64, pair)
        found.set(f.load(I64, pair, 1))
        stop(own.is_("eq", key) | own.is_("eq", 0))
        place.add(1)
    return found.value


def miss(f: Function, block: Value, kind: str, key: tuple[Value, ...]) -> None:
    """Note what a plan was missing for, and leave."""
    f.store(f.of(I64, KINDS[kind]), block, BLOCK["missed"])
    for k, word in enumerate(key):
        f.store(word, block, BLOCK["key"] + k)
    f.give(0)
