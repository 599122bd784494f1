"""Where the cells and registers that a `tcgen05` ld, st, cp or shift wrote came from.

Each function returns a `Flow` of one issued operation, from the very plan by which it acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drywell.layout.cp import SOURCE_FORMATS, destination_lanes
from drywell.layout.tmem import decode, encode
from drywell.machine.flow import ALL_BITS, Flow, Part, merged

if TYPE_CHECKING:
    from drywell.isa.tcgen05_copy import Copy, Shift
    from drywell.machine.warp import Warp

_LOW, _HIGH = 0xFFFF, 0xFFFF_0000


def cell_at(home: int, lane: int, col: int, mask: int = ALL_BITS, role: str = "") -> Part:
    """Return the part that some bits of one cell are."""
    return Part("tmem", home, encode(lane, col), 1, mask, role)


def load_flow(home: int, cells: Any, is_reduced: bool) -> Flow:
    """Return the flow of a tcgen05.ld from a register to its cells; the register behind the last one holds
    the reduction, if there is one.
    """
    lanes, cols, is_packed = cells.lane, cells.col, cells.packed

    def cells_of(register: int, thread: int, mask: int) -> list[Part]:
        lane, col = int(lanes[register, thread]), int(cols[register, thread])
        if not is_packed:
            return [cell_at(home, lane, col, mask)]
        halves = ((col, mask & _LOW), (col + 1, mask >> 16))
        return [cell_at(home, lane, at, bits) for at, bits in halves if bits]

    def flow(part: Part) -> tuple[Part, ...] | None:
        if part.space != "register":
            return None
        if part.home < len(lanes):
            return tuple(cells_of(part.home, part.address, part.mask))
        found = [cells_of(k, part.address, ALL_BITS) for k in range(len(lanes))] if is_reduced else []
        return tuple(cell for cells in found for cell in cells)

    return flow


def store_flow(home: int, cells: Any) -> Flow:
    """Return the flow of a tcgen05.st from a cell to the register that was stored there."""
    lanes, cols, is_packed = cells.lane, cells.col, cells.packed

    def flow(part: Part) -> tuple[Part, ...] | None:
        if part.space != "tmem" or part.home != home:
            return None
        lane, col = decode(part.address)
        for step in (0, 1) if is_packed else (0,):
            for register, thread in np.argwhere((lanes == lane) & (cols + step == col)).tolist():
                mask = part.mask if not is_packed else (part.mask & _LOW) << 16 * step
                return (Part("register", register, thread, 1, mask),)
        return None

    return flow


def copy_flow(m: Warp, planned: Copy) -> Flow:
    """Return the flow of a tcgen05.cp from a cell to the bytes of the matrix in shared memory."""
    homes = {cta.linear for cta in ctas_of(m, planned.group)}
    first, first_col = decode(planned.taddr)
    rows = destination_lanes(planned.cp.shape, planned.cp.multicast)
    form = SOURCE_FORMATS.get(planned.source_format or "")

    def flow(part: Part) -> tuple[Part, ...] | None:
        lane, col = decode(part.address)
        if part.space != "tmem" or part.home not in homes:
            return None
        found = np.argwhere(rows == lane - first)
        chunk, word = divmod(col - first_col, 4)
        if not len(found) or not 0 <= chunk < planned.cp.num_chunks:
            return None
        row = int(found[0, 1])
        at = int(planned.chunks[row, chunk])
        role = f"row {row} of the matrix"
        if form is None:
            chosen = [b for b in range(4) if part.mask >> 8 * b & 255]
            return merged([Part("shared", part.home, at + 4 * word + b, 1, role=role) for b in chosen])
        bits = 4 * form.bits
        begin, end = word * bits // 8, -(-(word + 1) * bits // 8)
        return (Part("shared", part.home, at + begin, end - begin, role=role),)

    return flow


def shift_flow(planned: Shift) -> Flow:
    """Return the flow of a tcgen05.shift: the same column, one lane on."""

    def flow(part: Part) -> tuple[Part, ...] | None:
        lane, col = decode(part.address)
        return (cell_at(part.home, lane + 1, col, part.mask),) if part.space == "tmem" else None

    return flow


def ctas_of(m: Warp, group: int) -> tuple[Any, ...]:
    """Return the CTAs of the group in order of rank, whether they still run or not."""
    peer = m.cta.peer if group == 2 else None
    return (m.cta,) if peer is None else tuple(sorted((m.cta, peer), key=lambda cta: cta.rank))
