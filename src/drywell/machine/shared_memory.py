"""Memory that a process shares with those it forks: a mapping of its own, kept for the next that wants one.

The kernel takes 3.5 us for each page of such a mapping, 20 ms for 24 MB, and 6 to let go of them; that of an
earlier launch has its pages. What a fork finds kept is not its own, and it leaves it alone.
"""

from __future__ import annotations

import mmap
import os
import weakref
from contextlib import suppress

import numpy as np

from drywell.machine.lanes import Bytes

KEPT_BYTES = 1 << 26
"""The largest mapping that is kept, and there is only one."""

_kept: list[tuple[int, mmap.mmap]] = []  # the process whose it is, the mapping


def shared_bytes(nbytes: int) -> Bytes | None:
    """Return so many bytes of shared memory, of any contents, until nobody holds the array any more; None
    when the system has no room for them.
    """
    try:
        mapping = _take(nbytes) or mmap.mmap(-1, nbytes)
    except OSError:
        return None
    found = np.frombuffer(mapping, np.uint8, nbytes)
    weakref.finalize(found, _keep, os.getpid(), mapping).atexit = False
    return found


def _take(nbytes: int) -> mmap.mmap | None:
    """Return the mapping that is kept, if it is this process's own and large enough."""
    with suppress(IndexError):
        pid, mapping = _kept.pop()
        if pid == os.getpid() and len(mapping) >= nbytes:
            return mapping
    return None


def _keep(pid: int, mapping: mmap.mmap) -> None:
    if len(mapping) <= KEPT_BYTES and not _kept:
        _kept.append((pid, mapping))
