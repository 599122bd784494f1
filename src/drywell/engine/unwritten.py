"""Registers with values from cells of Tensor Memory that nobody had written: followed for observers only.

A value counts as such when every register it is made of does: what else an instruction makes of one is not
followed, so that a selection or a mask over it says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drywell.base.events import FreshRead
from drywell.base.span import Span
from drywell.machine.lanes import Mask, lane_list

if TYPE_CHECKING:
    from drywell.engine.splits import WarpState
    from drywell.engine.threaded import Threaded
    from drywell.machine.queue import AsyncOp


class Unwritten(NamedTuple):
    """The lanes in which a register holds such a value, and the load that brought it."""

    lanes: Mask
    load: Span


def keep_unwritten(registers: dict[int, Unwritten], op: AsyncOp, loaded: tuple[int, ...], mask: Mask) -> None:
    """Note what a load that has performed brought into the registers `loaded` of the lanes `mask`."""
    if len(loaded) != len(op.unwritten):  # a register is left out or stands there twice
        return
    for register, row in zip(loaded, op.unwritten, strict=True):
        lanes = row & mask
        if lanes.any():
            registers[register] = Unwritten(lanes, op.span)


def follow_unwritten(threaded: Threaded, state: WarpState, pc: int) -> None:
    """Tell of the instruction at `pc`, about to be executed, that reads such values, and follow what it
    writes.
    """
    warp, registers, guard = state.warp, state.unwritten, threaded.guards[pc]
    active = warp.mask
    if guard is not None:
        active = active & (warp.values[guard[0]] ^ guard[1])
    own = threaded.sources[pc] - ({guard[0]} if guard is not None else set())
    read = [registers[k] for k in sorted(own) if k in registers]
    lanes = np.any([r.lanes for r in read], axis=0) & active if read else active & False
    if lanes.any():
        warp.grid.emit(FreshRead(warp.agent(), lane_list(lanes), read[0].load, warp.span))
    is_made_of_them = len(read) == len(own) > 0 and threaded.declarations[pc].is_lane
    made = np.all([r.lanes for r in read], axis=0) & active if is_made_of_them else active & False
    for register in threaded.results[pc]:
        _replace(registers, register, made, active, read)


def _replace(
    registers: dict[int, Unwritten], register: int, made: Mask, active: Mask, read: list[Any]
) -> None:
    before = registers.pop(register, None)
    lanes = made if before is None else made | (before.lanes & ~active)
    if lanes.any():
        registers[register] = Unwritten(lanes, read[0].load if made.any() else before.load)  # type: ignore[union-attr]
