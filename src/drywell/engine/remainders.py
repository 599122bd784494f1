"""Byte addresses and offsets that are no multiples of 16 when they go into a matrix descriptor: looked for
when a run is observed, at the divisions that the text leads into one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Remarked
from drywell.engine.threaded import Step, Threaded
from drywell.program.link import Executable
from drywell.program.quotients import UNIT_BYTES, Use, descriptor_uses

_Values = NDArray[Any]
_Lost = dict[tuple[int, int, int], _Values]
"""By CTA, warp and place of a division: what its lanes divided there last, 0 where nothing was lost."""
_HINT = "align the tile, or the step, to 16 bytes"


def watch_descriptors(threaded: Threaded, executable: Executable) -> None:
    """Wrap the steps that divide a part of a matrix descriptor by 16, and those that use one: who uses one
    of which low bits were dropped is told of to the observers (DESC-ALIGN).
    """
    lost: _Lost = {}
    for linked in executable.functions:
        uses = descriptor_uses(linked.function)
        for quotient in frozenset().union(*(use.quotients for use in uses)):
            pc = linked.pc_base + quotient.place
            threaded.steps[pc] = _dividing(threaded, pc, linked.register_base + quotient.register, lost)
            threaded.watched.add(pc)
        for use in uses:
            pc = linked.pc_base + use.place
            threaded.steps[pc] = _using(threaded, pc, use, linked.pc_base, lost)
            threaded.watched.add(pc)


def _active(w: Any, guard: tuple[int, bool] | None) -> _Values:
    mask: _Values = w.mask if guard is None else w.mask & (w.values[guard[0]] ^ guard[1])
    return mask


def _dividing(threaded: Threaded, pc: int, register: int, lost: _Lost) -> Step:
    step, guard = threaded.steps[pc], threaded.guards[pc]

    def divide(w: Any) -> Any:
        key, value = (w.cta.linear, w.index, pc), w.values[register]
        active = _active(w, guard)
        is_lost = value % UNIT_BYTES != 0
        if key in lost or (is_lost & active).any():
            before = lost.get(key, np.zeros_like(value))
            lost[key] = np.where(active, np.where(is_lost, value, 0), before)
        return step(w)

    return divide


def _using(threaded: Threaded, pc: int, use: Use, base: int, lost: _Lost) -> Step:
    step, guard = threaded.steps[pc], threaded.guards[pc]

    def take(w: Any) -> Any:
        for quotient in use.quotients if lost else ():
            values = lost.get((w.cta.linear, w.index, base + quotient.place))
            if values is not None and (dropped := values[_active(w, guard) & (values != 0)]).size:
                _tell(threaded, w, pc, use, base + quotient.place, int(dropped[0]))
        return step(w)

    return take


def _tell(threaded: Threaded, w: Any, pc: int, use: Use, division: int, value: int) -> None:
    what, rest = threaded.declarations[pc].opcode, value % UNIT_BYTES
    detail = (
        f"operand '{use.name}' of {what} was made from 0x{value:x}, no multiple of {UNIT_BYTES}: the"
        f" descriptor holds sixteenths, so {rest} bytes are lost and it says 0x{value - rest:x}"
    )
    at, other = threaded.spans[pc], threaded.spans[division]
    w.grid.emit(Remarked(w.agent(), "DESC-ALIGN", detail, _HINT, at, other))
