"""Threaded code that is kept from launch to launch, each piece for one run at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drywell.engine.threaded import Threaded, compile_executable
from drywell.program.link import Executable

NUM_KEPT = 16
"""Executables whose threaded code is kept in a process, those used last."""

_idle: OrderedDict[Any, tuple[Executable, Threaded]] = OrderedDict()


@contextmanager
def lent_threaded(executable: Executable, addresses: dict[str, int]) -> Iterator[Threaded]:
    """Lend threaded code to a run that leaves it as it is; that of an earlier run where there was one."""
    key = id(executable), tuple(sorted(addresses.items()))
    idle = _idle.pop(key) if key in _idle else None
    threaded = compile_executable(executable, addresses) if idle is None else idle[1]
    yield threaded
    _idle[key] = executable, threaded
    while len(_idle) > NUM_KEPT:
        _idle.popitem(last=False)
