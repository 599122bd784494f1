"""Threaded code that is kept from launch to launch, each piece for one run at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from drywell.base.last_used import LastUsed
from drywell.engine.threaded import Threaded, compile_executable
from drywell.program.link import Executable

_idle: LastUsed[Hashable, tuple[Executable, Threaded]] = LastUsed()


@contextmanager
def lent_threaded(executable: Executable, addresses: dict[str, int]) -> Iterator[Threaded]:
    """Lend threaded code to a run that leaves it as it is; that of an earlier run where there was one."""
    key = id(executable), tuple(sorted(addresses.items()))
    idle = _idle.take(key)
    threaded = compile_executable(executable, addresses) if idle is None else idle[1]
    yield threaded
    _idle.put(key, (executable, threaded))
