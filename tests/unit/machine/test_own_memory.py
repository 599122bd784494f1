"""Memory that a fork finds empty: zeros, of which no page is copied because there are two processes."""

from __future__ import annotations

import mmap
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from drywell.machine import own_memory
from drywell.machine.own_memory import ROOM_BYTES, OwnMemory, kept_from_forks

PAGE = 4096
SIZE = 1 << 20


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_memory, "_kept", [])


def ones(memory: OwnMemory) -> np.ndarray[Any, Any]:
    found = memory.zeros(np.uint8, SIZE)
    found.fill(1)
    return found


def test_arrays_are_apart_and_begin_where_a_line_does() -> None:
    memory = OwnMemory()
    first, second = memory.zeros(np.uint8, 3), memory.zeros(np.int64, 5, 7)
    assert (first.ctypes.data % 64, second.ctypes.data % 64) == (0, 0)
    first.fill(255)
    assert second.shape == (5, 7)
    assert not second.any()


def test_the_next_one_has_the_same_memory_cleared() -> None:
    found = ones(OwnMemory())
    where = found.ctypes.data
    del found
    again = OwnMemory().zeros(np.uint8, SIZE)
    assert again.ctypes.data == where
    assert not again.any()


def test_memory_of_which_an_array_is_left_is_nobody_elses() -> None:
    left = ones(OwnMemory())
    assert not np.shares_memory(left, OwnMemory().zeros(np.uint8, SIZE))
    assert left.all()


@pytest.mark.parametrize("memory", [OwnMemory(), OwnMemory(is_wanted=False)])
def test_what_does_not_fit_lies_elsewhere(memory: OwnMemory) -> None:
    found = [memory.zeros(np.uint8, ROOM_BYTES // 2) for _ in range(3)]
    found[0].fill(1)
    assert not found[1].any()
    assert not found[2].any()


def faults(action: Callable[[], object]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    action()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has forks that find memory empty")


@contextmanager
def a_fork(look: Callable[[], bool], forked_inside: AbstractContextManager[None]) -> Iterator[bool]:
    """Fork a process that lives on in the block; give what it saw."""
    (read_end, write_end), (wait_end, go_end) = os.pipe(), os.pipe()
    with forked_inside:
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write_end, bytes([look()]))
                os.read(wait_end, 1)
            finally:
                os._exit(0)
    os.close(write_end)
    try:
        yield os.read(read_end, 1) == b"\1"
    finally:
        os.write(go_end, b"x")
        os.waitpid(pid, 0)
        for end in (read_end, wait_end, go_end):
            os.close(end)


@linux_only
def test_a_fork_finds_zeros_and_nothing_is_copied() -> None:
    own, private = ones(OwnMemory()), np.ones(SIZE, np.uint8)

    def finds_zeros() -> bool:
        is_empty = not own.any()
        own.fill(2)
        return is_empty

    with a_fork(finds_zeros, nullcontext()) as found:
        assert found and own.all()
        assert faults(lambda: private.fill(3)) >= SIZE // PAGE - 1
        assert faults(lambda: own.fill(3)) < SIZE // PAGE // 8


@linux_only
def test_arrays_are_kept_from_forks_in_whole_pages_and_only_meanwhile() -> None:
    around = np.ones(64 * PAGE, np.uint8)
    start = -around.ctypes.data % PAGE
    array, other = around[start + 100 : start + 10 * PAGE + 200], np.ones(64 * PAGE, np.uint8)

    def finds_pages() -> bool:
        zeros = np.flatnonzero(around == 0)
        return (zeros[0], zeros[-1], zeros.size) == (start + PAGE, start + 10 * PAGE - 1, 9 * PAGE)

    apart = array[:4000], other[::2]  # no whole page; what lies between the elements is others'
    with a_fork(finds_pages, kept_from_forks((array, *apart))) as found:
        assert found and around.all()
        assert faults(lambda: other.fill(3)) > 60
        assert faults(lambda: array.fill(3)) <= 3
    with a_fork(lambda: bool(around.all()), nullcontext()) as found:
        assert found


@linux_only
def test_shared_arrays_are_not_kept_from_forks() -> None:
    shared = np.frombuffer(mmap.mmap(-1, SIZE), np.uint8)
    shared.fill(1)
    with a_fork(lambda: bool(shared.all()), kept_from_forks((shared,))) as found:
        assert found


@linux_only
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 and later, which is right
def test_another_thread_that_forks_meanwhile_waits_and_loses_nothing() -> None:
    array, statuses = np.ones(64 * PAGE, np.uint8), []

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if array.all() else 1)
        statuses.append(os.waitpid(pid, 0)[1])

    thread = threading.Thread(target=fork)
    with kept_from_forks((array,)):
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()
    assert statuses == [0]
