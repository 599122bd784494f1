"""Tables that keep what was used last: a process that runs ever new programs lets go of the old ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

NUM_KEPT = 16
"""Programs of which something is kept in a process, those used last."""


class LastUsed(Generic[Key, Value]):
    """A table of the `size` entries used last.

    >>> table = LastUsed(2)
    >>> [table.put("a", 1), table.put("b", 2), table.get("a"), table.put("c", 3)]
    [1, 2, 1, 3]
    >>> [table.get(key) for key in "abc"], table.take("a"), table.get("a")
    ([1, None, 3], 1, None)
    """

    __slots__ = ("_entries", "_size")

    def __init__(self, size: int = NUM_KEPT) -> None:
        self._size = size
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Return what is kept under a key, which is a use of it."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: Key, value: Value) -> Value:
        """Keep something new under a key, and return it."""
        self._entries[key] = value
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value

    def take(self, key: Key) -> Value | None:
        """Return what was kept under a key until now."""
        return self._entries.pop(key, None)

    def clear(self) -> None:
        """Keep nothing."""
        self._entries.clear()


class FoundOnce(Generic[Value]):
    """What is found once for each of the objects asked about last, which are known by identity and kept.

    >>> lengths, text = FoundOnce(), [1, 2]
    >>> lengths.of(text, lambda: len(text)), text.append(3), lengths.of(text, lambda: len(text))
    (2, None, 2)
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: LastUsed[Hashable, tuple[object, Value]] = LastUsed()

    def of(self, thing: object, find: Callable[[], Value], *way: Hashable) -> Value:
        """Return what `find` gives, or gave, for a thing looked at in some way."""
        key = id(thing), *way
        found = self._kept.get(key) or self._kept.put(key, (thing, find()))
        return found[1]
