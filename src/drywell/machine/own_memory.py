"""Memory that a process has for itself: those that it forks find zeros there.

A page that two processes have is copied for whoever writes it first, 2 to 5 us each, and the other pays half
of that. Here neither does, and what a fork writes are new pages, huge ones where the system has them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drywell.machine.lanes import Bytes

ROOM_BYTES = 1 << 25
"""What a launch finds; the next one gets the same, if the arrays of this one are gone by then. 0 for none."""

_HUGE_BYTES = 1 << 21
_LINE_BYTES = 64
_MADV_WIPEONFORK, _MADV_KEEPONFORK = 18, 19

_kept: list[mmap.mmap] = []

_forking = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_forking.release
    )

S = TypeVar("S", bound=np.generic)


class OwnMemory:
    """Makes arrays of zeros, at first in such memory, anywhere when that is full or not wanted. What is to be
    known to a fork does not belong here.

    >>> OwnMemory().zeros(np.int32, 2, 3).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """

    def __init__(self, is_wanted: bool = True) -> None:
        self._room: Bytes = np.zeros(0, np.uint8)
        self._is_clear = True
        if is_wanted and ROOM_BYTES and sys.platform == "linux":
            with suppress(OSError):  # no room for it
                mapping, self._is_clear = _take()
                room = np.frombuffer(mapping, np.uint8)
                weakref.finalize(room, _keep, mapping).atexit = False
                self._room = room[-room.ctypes.data % _HUGE_BYTES :]

    def zeros(self, dtype: type[S], *shape: int) -> NDArray[S]:
        """Return zeros, which begin where a line of a cache does."""
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        if nbytes > len(self._room):
            return np.zeros(shape, dtype)
        found, self._room = self._room[:nbytes], self._room[-(-nbytes // _LINE_BYTES) * _LINE_BYTES :]
        if not self._is_clear:
            found.fill(0)
        return found.view(dtype).reshape(shape)


def _take() -> tuple[mmap.mmap, bool]:
    """Return a mapping, and whether all of it is 0."""
    with suppress(IndexError):
        return _kept.pop(), False
    mapping = mmap.mmap(-1, ROOM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in (mmap.MADV_HUGEPAGE, _MADV_WIPEONFORK):
        with suppress(OSError):  # of a kernel that knows it not
            mapping.madvise(advice)
    return mapping, True


def _keep(mapping: mmap.mmap) -> None:
    if not _kept:
        _kept.append(mapping)


@contextmanager
def kept_from_forks(arrays: Iterable[NDArray[Any]]) -> Iterator[None]:
    """Let processes that are forked inside the block find zeros where now are arrays, in those pages that
    hold nothing else. Memory of which that cannot be, a file's or shared memory, is theirs too. Other threads
    that fork wait until the block is over.
    """
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found = [pages for array in arrays if array.flags.c_contiguous and (pages := _pages(array))[1] > 0]
    with _forking:
        try:
            for pages in found:
                advise(*pages, _MADV_WIPEONFORK)
            yield
        finally:
            for pages in found:
                advise(*pages, _MADV_KEEPONFORK)


def _pages(array: NDArray[Any]) -> tuple[int, int]:
    """Return the address and the bytes of the whole pages of a contiguous array."""
    start, size = array.ctypes.data, mmap.PAGESIZE
    first = -(-start // size) * size
    return first, (start + array.nbytes - first) // size * size
