"""Memory shared with forks: the next that wants some gets that of before, unless somebody still has it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from drywell.machine import shared_memory
from drywell.machine.gmem import GlobalMemory
from drywell.machine.shared_memory import KEPT_BYTES, shared_bytes

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    shared_memory._kept.clear()
    yield
    shared_memory._kept.clear()


def made(nbytes: int) -> np.ndarray:
    found = shared_bytes(nbytes)
    assert found is not None and found.size == nbytes
    return found


def in_a_fork(action) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(action())
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_fork_writes_where_its_parent_reads() -> None:
    memory = made(SIZE)

    def write() -> int:
        memory[17] = 99
        return 0

    assert in_a_fork(write) == 0
    assert memory[17] == 99


def test_memory_that_nobody_holds_is_used_again() -> None:
    first = made(SIZE)
    place, part = first.ctypes.data, first[5:9]
    first[:] = 7
    del first
    other = made(SIZE)  # a view holds the first
    assert other.ctypes.data != place
    del part
    again = made(SIZE // 2)
    assert again.ctypes.data == place and (again == 7).all()


def test_what_is_too_large_is_not_kept_and_what_is_too_small_not_used() -> None:
    del (large := [made(KEPT_BYTES + 1)])[0]
    assert not large and not shared_memory._kept
    made(SIZE)
    assert [len(mapping) for _, mapping in shared_memory._kept] == [SIZE]
    assert made(2 * SIZE)[-1] == 0


def test_a_fork_does_not_use_what_its_parent_has_kept() -> None:
    made(SIZE)

    def write() -> int:
        made(SIZE)[:] = 9
        return 0

    assert in_a_fork(write) == 0
    assert not made(SIZE).any()


def test_no_room_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(shared_memory.mmap, "mmap", refuses)
    assert shared_bytes(SIZE) is None
    gmem = GlobalMemory(is_shared=True)
    gmem.reserve(SIZE)
    gmem.place("a", np.arange(9, dtype=np.uint8))
    assert not gmem.share() and gmem.buffer.data[8] == 8


def test_global_memory_in_used_memory_is_as_in_new() -> None:
    made(SIZE)[:] = 0xEE
    gmem = GlobalMemory(is_shared=True)
    gmem.reserve(SIZE // 2)
    gmem.place("content", np.arange(1000, dtype=np.uint8))
    at = gmem.place("zeros", 1000)
    assert (gmem.buffer.data == 0xEE).any()  # it is the memory of before
    assert not gmem.view(at, 1000).any()
    assert (gmem.content(gmem.arrays[0]) == np.arange(1000, dtype=np.uint8)).all()
    gmem.view(at, 1000)[:] = 1
    assert gmem.share()
    gmem.restore()
    assert not gmem.view(at, 1000).any()
