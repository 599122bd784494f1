"""Of many entries those used last stay; what is found of an object is found once while it does."""

from __future__ import annotations

import doctest
import weakref

from drywell.base import last_used
from drywell.base.last_used import NUM_KEPT, FoundOnce, LastUsed


def test_the_examples_of_the_module_hold() -> None:
    assert doctest.testmod(last_used).failed == 0


def test_what_is_used_again_outlives_what_is_newer() -> None:
    table: LastUsed[int, str] = LastUsed(3)
    for key in range(3):
        table.put(key, f"{key}")
    assert table.get(0) == "0"
    table.put(3, "3")
    assert [key for key in range(4) if table.get(key)] == [0, 2, 3]
    table.clear()
    assert [table.get(key) for key in range(4)] == [None] * 4


class Thing:
    """Something with an identity."""


def test_things_are_told_apart_by_identity_and_by_the_way_they_are_looked_at() -> None:
    table: FoundOnce[tuple[object, ...]] = FoundOnce()
    one, other = [1], [1]
    found = [table.of(thing, lambda t=thing, w=way: (t, w), way) for thing in (one, other) for way in "ab"]
    assert [(id(thing), way) for thing, way in found] == [(id(t), w) for t in (one, other) for w in "ab"]


def test_nothing_may_be_what_is_found() -> None:
    table: FoundOnce[None] = FoundOnce()
    thing, asked = Thing(), []
    for _ in range(3):
        assert table.of(thing, lambda: asked.append(1)) is None
    assert asked == [1]


def test_a_thing_is_kept_as_long_as_what_is_found_of_it_and_no_longer() -> None:
    table: FoundOnce[int] = FoundOnce()
    first = Thing()
    gone = weakref.ref(first)
    table.of(first, lambda: 1)
    del first
    assert gone() is not None  # so that no other thing gets its identity meanwhile
    others = [Thing() for _ in range(NUM_KEPT)]
    for other in others:
        table.of(other, lambda: 2)
    assert gone() is None
