"""What the clock keeps for one warp."""

from __future__ import annotations

from typing import Any

import numpy as np

from drywell.engine.native.clock_words import SUB_PARTITIONS, TRACK
from drywell.engine.splits import WarpState
from drywell.engine.timed_units import SmUnits
from drywell.machine.outcome import WaitReason


class Track:
    """The time of one warp, as words (`native.clock_words.TRACK`): `at` and `times` read and write them,
    `address` is where they lie, `number` what they are called. It runs or waits `since` then. `split` is the
    one that runs, with `lanes`, and `begun` the lanes with which compiled code was last entered; `waits` is
    what the warp waits for, None when somebody of it goes on.
    """

    __slots__ = (
        "_words", "address", "at", "begun", "lanes", "number", "since", "split", "state", "times", "waits",
    )  # fmt: skip

    times: Any

    def __init__(self, state: WarpState, number: int, unit: SmUnits, since: float) -> None:
        warp, count = state.warp, len(state.warp.grid.kernel.registers.widths)
        self._words = words = np.zeros(len(TRACK) + count, np.int64)
        self.state = state
        self.number = number
        self.at = words.data
        self.times = words.view(np.float64).data
        self.address: int = words.ctypes.data
        self.split = state.kept[0]
        self.begun: Any = None
        self.lanes: Any = None
        self.waits: WaitReason | None = None
        self.since = since
        self.at[TRACK["ports"]] = unit.ports.ctypes.data
        self.at[TRACK["sub"]] = warp.index % SUB_PARTITIONS
        self.at[TRACK["registers"]] = warp.registers.ctypes.data
        self.at[TRACK["readable"]] = self.address + 8 * len(TRACK)
        self.at[TRACK["num_registers"]] = count
        self.at[TRACK["lines"]] = unit.lines.ctypes.data
        words.view(np.float64)[TRACK["begun"]] = since
