"""A launch in several processes: each runs a share of the clusters, on one global memory.

A worker is a fork of the launching process, which runs a share itself: nothing is sent to a worker but which
clusters are next, and only what it did comes back. What must stay whole does so by rerunning: when a share
ends in an error, has something to remark, or a worker dies, global memory is as it was, and the launch is run
again in one process. So an error is told in the words, and leaves the arrays, of a run without workers.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn, TypeVar

import numpy as np

from drywell.base.options import Options
from drywell.machine.gmem import GlobalMemory
from drywell.machine.own_memory import kept_from_forks
from drywell.program.independence import meeting_place
from drywell.program.link import Executable

CLUSTERS_PER_WORKER = 8
"""Clusters that make it worth starting a worker when nobody says how many there should be: one costs some
milliseconds.
"""

MOST_HANDS = 1024
"""As many as the smallest pipe holds."""

RESULT_BYTES = 1 << 20
"""What a worker can say of its share without waiting for its parent to listen: it goes the sooner."""

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def num_workers(
    executable: Executable, options: Options, num_clusters: int, num_homes: int, is_watched: bool
) -> tuple[int, str]:
    """Return how many processes should run a launch whose clusters first find `num_homes` homes, and why only
    one ('' when there is no reason but its size).

    Several give what one gives only if clusters cannot notice each other, nothing watches the whole, and the
    schedule draws no order from all warps.
    """
    count, why = num_wanted(options, num_clusters, num_homes, is_watched)
    place = meeting_place(executable) if count > 1 else None
    return (count, why) if place is None else (1, f"{place[0]}: the kernel {place[1]}")


def num_wanted(options: Options, num_clusters: int, num_homes: int, is_watched: bool) -> tuple[int, str]:
    """Return the same, of a kernel whose clusters cannot notice each other."""
    wanted = options.workers
    if wanted is None:
        wanted = min(len(os.sched_getaffinity(0)) if _can_fork() else 1, num_clusters // CLUSTERS_PER_WORKER)
    wanted = min(wanted, num_clusters, num_homes)
    if wanted <= 1:
        return 1, ""
    if not _can_fork():
        return 1, "workers are forked processes, which only Linux has"
    if is_watched:
        return 1, "the run is checked or observed as a whole"
    if options.schedule != "eager":
        return 1, f"the {options.schedule} schedule orders all warps of the grid"
    return wanted, ""


def _can_fork() -> bool:
    return sys.platform == "linux"


@contextmanager
def dealt_out(count: int) -> Iterator[Callable[[], int | None]]:
    """Deal out the numbers below `count` to this process and those that it forks inside the block: whoever
    calls what is given gets the lowest that nobody has had, None when there is none.

    They stand in a pipe, a hand of numbers in every four bytes, which nobody waits for and which needs no
    lock that a process that ends could hold.
    """
    size = -(-count // MOST_HANDS)
    with _uninterrupted():
        read_end, write_end = os.pipe()
        os.write(write_end, np.arange(-(-count // size), dtype=np.int32).tobytes())
        os.close(write_end)

    def numbers() -> Iterator[int]:
        while hand := os.read(read_end, 4):
            first = int.from_bytes(hand, sys.byteorder) * size
            yield from range(first, min(first + size, count))

    own = numbers()
    try:
        yield lambda: next(own, None)
    finally:
        os.close(read_end)


def in_processes(
    count: int, gmem: GlobalMemory, work: Callable[[int], T | None], last: ExitStack
) -> list[T] | None:
    """Return what `work(0)`, run here, to `work(count - 1)`, each run in a process of its own, return; they
    share global memory, which lies in shared memory already. None when one of them returned None or died, or
    the system has no room for it; global memory is then as before.

    Whatever else `work(0)` raises passes through. No process is left in any case: those that have done their
    work, and take 3 ms to go, are waited for as the `last` thing.
    """
    workers: list[_Worker] = []
    results: list[T] = []
    last.callback(_end, workers)
    try:
        with _uninterrupted() as usual, kept_from_forks(gmem.sources):
            for k in range(1, count):
                workers.append(_start(work, k, usual))
        for take in (lambda: work(0), *(worker.result for worker in workers)):
            result = take()
            if result is None:
                break
            results.append(result)
    except OSError:
        results.clear()
    finally:
        if len(results) < count:
            _end(workers)
    if len(results) == count:
        return results
    gmem.restore()
    return None


def _end(workers: list[_Worker]) -> None:
    """End those that are left."""
    with _uninterrupted():
        while workers:
            workers.pop().end()


_HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


@contextmanager
def _uninterrupted() -> Iterator[set[signal.Signals]]:
    """Hold signals back, so that no process is started or ended by halves; give the usual mask.

    A mask is of one thread: what others take is noted, and handled in the end.
    """
    noted: list[tuple[int, FrameType | None]] = []
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _HELD_BACK} if is_main else {}
    ours = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in ours:
        signal.signal(number, lambda *told: noted.append(told))
    try:
        yield {signal.Signals(number) for number in usual}
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        for told, frame in noted:
            ours[signal.Signals(told)](told, frame)


# -------------------------------------------------------------------- one worker
@dataclass(slots=True)
class _Worker:
    """A worker as its parent knows it: its process and the pipe its result comes through."""

    pid: int
    pipe: int

    def result(self) -> Any:
        """Wait for what the worker returns; None when it could not."""
        with open(self.pipe, "rb", closefd=False) as file, suppress(EOFError, pickle.UnpicklingError):
            return pickle.load(file)
        return None

    def end(self) -> None:
        """End the process, if it still runs, and forget it."""
        os.close(self.pipe)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # the caller lets the system reap its children
            os.waitpid(self.pid, 0)


def _start(work: Callable[[int], Any], k: int, usual: set[signal.Signals]) -> _Worker:
    import fcntl  # of Unix only

    parent, (read_end, write_end) = os.getpid(), os.pipe()
    with suppress(OSError):  # more than the system allows
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, RESULT_BYTES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of others: a worker calls only our code
        try:
            pid = os.fork()
        except OSError:
            os.close(read_end)
            os.close(write_end)
            raise
    if pid == 0:
        _serve(work, k, write_end, parent, usual)
    os.close(write_end)
    return _Worker(pid, read_end)


def _serve(
    work: Callable[[int], Any], k: int, pipe: int, parent: int, usual: set[signal.Signals]
) -> NoReturn:
    """Be a worker: do its work, send what it returns, and leave without a trace."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends its workers
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            gc.freeze()  # so that collections do not touch, and so copy, what came from the parent
            result = work(k)
            with open(pipe, "wb") as file:
                pickle.dump(result, file)
    finally:
        os._exit(0)
