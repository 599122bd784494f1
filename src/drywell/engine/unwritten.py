"""Registers with values from cells of Tensor Memory that nobody had written, or of which only the low half
had been: followed for observers only.

A value counts as unwritten when every register it is made of does: what else an instruction makes of one is
not followed, so that a selection or a mask over it says nothing. One of which half is written does not
survive any instruction: it may be the right half that is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drywell.base.events import FreshRead
from drywell.base.span import Span
from drywell.machine.lanes import Mask, lane_list

if TYPE_CHECKING:
    from drywell.engine.splits import WarpState
    from drywell.engine.threaded import Threaded
    from drywell.machine.queue import AsyncOp


class Unwritten(NamedTuple):
    """The lanes in which a register holds such a value, those in which the low half of it is written, and the
    load that brought it.
    """

    lanes: Mask
    halves: Mask
    load: Span


def keep_unwritten(registers: dict[int, Unwritten], op: AsyncOp, loaded: tuple[int, ...], mask: Mask) -> None:
    """Note what a load that has performed brought into the registers `loaded` of the lanes `mask`."""
    nowhere = np.zeros((len(loaded), len(mask)), np.bool_)
    unwritten = nowhere if op.unwritten is None else op.unwritten
    halves = nowhere if op.halves is None else op.halves
    if len(loaded) != max(len(unwritten), len(halves)):  # a register is left out or stands there twice
        return
    for register, lanes, of_halves in zip(loaded, unwritten & mask, halves & mask, strict=True):
        if lanes.any() or of_halves.any():
            registers[register] = Unwritten(lanes, of_halves, op.span)


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
    if read:
        _tell(state, read, active)
    made = active & False
    if len(read) == len(own) > 0 and threaded.declarations[pc].is_lane:
        made = np.all([r.lanes for r in read], axis=0) & active
    for register in threaded.results[pc]:
        before = registers.pop(register, None)
        lanes, halves, load = made, made & False, read[0].load if read else warp.span
        if before is not None:
            lanes, halves = lanes | (before.lanes & ~active), before.halves & ~active
            load = load if made.any() else before.load
        if lanes.any() or halves.any():
            registers[register] = Unwritten(lanes, halves, load)


def _tell(state: WarpState, read: list[Unwritten], active: Mask) -> None:
    warp = state.warp
    lanes = np.any([r.lanes for r in read], axis=0) & active
    if lanes.any():
        load = next(r.load for r in read if (r.lanes & active).any())
        warp.grid.emit(FreshRead(warp.agent(), lane_list(lanes), load, warp.span))
        return
    halves = [r for r in read if (r.halves & active).any()]
    if halves:
        lanes = np.any([r.halves for r in halves], axis=0) & active
        warp.grid.emit(FreshRead(warp.agent(), lane_list(lanes), halves[0].load, warp.span, len(halves)))
