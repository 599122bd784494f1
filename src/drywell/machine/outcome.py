"""What a machine instruction may return instead of a value: it waits, it delivers later, or it moves
control.

None, a value, a tuple or a list mean "done"; see docs/design/machine.md for how destinations are filled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drywell.base.record import record
from drywell.machine.queue import AsyncOp

WaitKind = Literal[
    "mbarrier",
    "named_barrier",
    "warp_barrier",
    "cluster_barrier",
    "tmem_alloc",
    "registers",
    "operations",
    "grid",
]


@record
class WaitReason:
    """Why lanes are blocked. `describe()` gives the words of the deadlock report, several lines if need
    be.

    `may_time_out` marks waits that hardware gives up by itself (`mbarrier.try_wait`): the engine may wake
    them without `ready()`, when nothing else can run or when the schedule says so. `address` is the
    shared-window address of the mbarrier waited on, -1 for other kinds; `wanted_phase` the number of the
    phase whose end is awaited, -1 if none.
    """

    kind: WaitKind
    text: Callable[[], str]
    may_time_out: bool = False
    address: int = -1
    wanted_phase: int = -1

    def describe(self) -> str:
        """Say what is waited for, as things stand now: it completes the sentence "waits for ..."."""
        return self.text()


@record
class Wait:
    """Block the active lanes until `ready()`; then `then()` gives the result, as a semantics function
    would.

    `then()` looks at the machine again: woken by a time-out it gives what an unsuccessful wait gives
    (False). It may itself return a `Wait`.
    """

    ready: Callable[[], bool]
    then: Callable[[], Any]
    reason: WaitReason


@record
class Deferred:
    """The destinations are written when `op`, already issued, performs: with `op.result`. Until then they
    are busy.
    """

    op: AsyncOp


@record
class Jump:
    """The active lanes go on at `targets`: one instruction index, or one per lane (int array of 32)."""

    targets: int | NDArray[np.integer]


@record
class Call:
    """The active lanes enter `function` with `arguments` and come back with values for `results`."""

    function: Any
    arguments: tuple[Any, ...] = ()
    results: tuple[Any, ...] = ()


@record
class Return:
    """The active lanes leave the function they are in; from the entry this is `Exit`."""


@record
class Exit:
    """The active lanes end."""


Outcome: TypeAlias = Wait | Deferred | Jump | Call | Return | Exit
