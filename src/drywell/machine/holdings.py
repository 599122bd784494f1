"""What a warp holds for itself. What few kernels ask for is made when it is first asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drywell.machine.groups import LaneGroups
from drywell.machine.lanes import LANES, Bytes, Mask
from drywell.machine.local import LaneMemory
from drywell.machine.registers import RegisterLayout, RegisterViews
from drywell.machine.windows import CALL_PARAMS

_NO_GROUPS = LaneGroups()
_NO_REGISTERS = np.zeros(0, np.uint8)


class Holdings:
    """Registers, memory and groups of copies of one warp. `registers` is the flat buffer, `values[i]` the
    typed view of register i, `carry` CC.CF of each lane.
    """

    __slots__ = (
        "_bulk_groups", "_call_params", "_cluster_arrivals", "_cp_async_groups", "_layout", "_local",
        "_values", "carry", "registers",
    )  # fmt: skip

    def __init__(self, layout: RegisterLayout, registers: Bytes, carry: Mask, local_bytes: int) -> None:
        self._layout = layout
        self.registers = registers
        self.carry = carry
        self._values: RegisterViews | None = None
        self._local = LaneMemory("local", local_bytes) if local_bytes else None
        self._call_params: LaneMemory | None = None
        self._bulk_groups: LaneGroups | None = None
        self._cp_async_groups: LaneGroups | None = None
        self._cluster_arrivals: tuple[Mask, NDArray[np.int64]] | None = None

    def let_go(self) -> None:
        """Drop what it holds."""
        self.registers, self._values = _NO_REGISTERS, None
        self._bulk_groups = self._cp_async_groups = _NO_GROUPS
        self._local = self._call_params = None

    @property
    def values(self) -> RegisterViews:
        """Return the typed view of each register."""
        if self._values is None:
            self._values = self._layout.views(self.registers)
        return self._values

    @property
    def local(self) -> LaneMemory:
        """Return its local memory."""
        if self._local is None:
            self._local = LaneMemory("local", 0)
        return self._local

    @property
    def call_params(self) -> LaneMemory:
        """Return the parameters of its calls."""
        if self._call_params is None:
            self._call_params = LaneMemory("param", 0, CALL_PARAMS)
        return self._call_params

    @property
    def has_lane_memories(self) -> bool:
        """Say whether it may have any of `lane_memories`."""
        return self._local is not None or self._call_params is not None

    @property
    def lane_memories(self) -> tuple[LaneMemory, ...]:
        """Return those of its local memory and call parameters that it has."""
        return tuple(m for m in (self._local, self._call_params) if m is not None and m.nbytes)

    @property
    def bulk_groups(self) -> LaneGroups:
        """Return its bulk groups."""
        if self._bulk_groups is None:
            self._bulk_groups = LaneGroups()
        return self._bulk_groups

    @property
    def cp_async_groups(self) -> LaneGroups:
        """Return its groups of `cp.async`."""
        if self._cp_async_groups is None:
            self._cp_async_groups = LaneGroups()
        return self._cp_async_groups

    @property
    def cluster_arrivals(self) -> tuple[Mask, NDArray[np.int64]]:
        """Return which lanes have arrived at the cluster barrier and not waited since, and the generation in
        which each arrived last.
        """
        if self._cluster_arrivals is None:
            self._cluster_arrivals = np.zeros(LANES, np.bool_), np.zeros(LANES, np.int64)
        return self._cluster_arrivals
