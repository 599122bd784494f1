"""How `tcgen05.cp` and `tcgen05.shift` act: matrices from SMEM into TMEM, rows of TMEM moved down by one.

With cta_group::2 each CTA of the pair copies out of its own SMEM, through the same descriptor, into its own
TMEM. Source: PTX ISA 9.7.16.9 "Tensor Memory Data Movement".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Work
from drywell.base.record import record
from drywell.isa.tcgen05_cells import tensor_queue
from drywell.isa.tcgen05_flow import copy_flow, shift_flow
from drywell.isa.tcgen05_pair import members
from drywell.isa.tcgen05_tile import MatmulProblem, refuse_fields, unpacked
from drywell.layout.arrays import IntArray
from drywell.layout.cp import (
    CP_SHAPES,
    SHIFT_COLS,
    SHIFT_LANES,
    SOURCE_FORMATS,
    CpShape,
    destination_lanes,
    source_chunks,
)
from drywell.layout.descriptor import decode_smem_descriptor
from drywell.layout.operand import CHUNK_BYTES, overrun
from drywell.layout.tmem import NUM_LANES, NUM_PARTITIONS, PARTITION_LANES, decode
from drywell.machine.smem import RESERVED_BYTES

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

COL_ALIGN = 4
"""ASSUMED: the destination column is a multiple of 4. Source: Apache TVM's cp tests on a B200."""


@record(eq=False)
class Copy:
    """One issued copy: `chunks` [rows, chunks a row] are the byte addresses of the source in SMEM,
    `layout` its swizzle mode.
    """

    cp: CpShape
    chunks: IntArray
    taddr: int
    source_format: str | None
    group: int
    layout: str = ""

    def perform(self, m: Warp) -> None:
        """Copy in every CTA of the group."""
        for w in members(m, self.group):
            self._write(w, self._rows(w))

    def _rows(self, w: Warp) -> NDArray[np.uint32]:
        """Read the source: cells [rows, columns]; fault SHARED-WINDOW when it lies out of bounds."""
        smem = w.cta.smem
        lowest, end = int(self.chunks.min()), int(self.chunks.max()) + CHUNK_BYTES
        if lowest < RESERVED_BYTES or end > smem.end:
            where = lowest if lowest < RESERVED_BYTES else end - CHUNK_BYTES
            w.fault(
                "SHARED-WINDOW",
                f"tcgen05.cp reads {self.cp.num_rows} rows of {4 * self.cp.num_cols} bytes:"
                f" {smem.misfit(where, CHUNK_BYTES)}",
                hint="check start, LBO and SBO of the descriptor",
            )
        form = SOURCE_FORMATS.get(self.source_format or "")
        if w.grid.observers:
            addresses, home = self.chunks.reshape(-1) + smem.base, w.cta.linear
            size = CHUNK_BYTES if form is None else 2 * form.bits
            w.record("shared", addresses, size, False, "async", home=home, layout=self.layout)
        taken = smem.data.reshape(-1, CHUNK_BYTES).take(self.chunks >> 4, axis=0)
        rows = taken.reshape(self.cp.num_rows, -1)
        if form is not None:
            shift = form.shift if w.grid.options.narrow_in_byte == "middle" else 0
            rows = unpacked(rows, form.bits, has_slots=True) << np.uint8(shift)
        return rows.view("<u4")

    def _write(self, w: Warp, rows: NDArray[np.uint32]) -> None:
        """Write each row to its lane and to that of every replica."""
        lane, col = decode(self.taddr)
        cols = col + np.arange(self.cp.num_cols)[None, :]
        for lanes in destination_lanes(self.cp.shape, self.cp.multicast):
            w.sm.tmem.write(w, lane + lanes[:, None], cols, rows)


def copy(
    m: Warp, shape: str, multicast: str, source_format: str | None, group: int, taddr: Any, sdesc: Any
) -> None:
    """Issue one copy for each executing thread; `source_format` is b4x16_p64, b6x16_p32 or None.

    Faults: DESC-ILLEGAL, TMEM-LANE-WINDOW, MISALIGNED, TMEM-COL-OOB, TMEM-NO-ALLOC.
    """
    cp = CP_SHAPES[shape, multicast]
    what = "cp." + ".".join(word for word in (shape, multicast, source_format) if word)
    for lane in m.lanes():
        members(m, group)
        _check_base(m, lane, cp, int(taddr[lane]))
        try:
            chunks = chunks_of(int(sdesc[lane]), shape, multicast)
        except MatmulProblem as problem:
            m.fault(problem.rule, problem.detail, problem.hint, (lane,))
        col = decode(int(taddr[lane]))[1]
        layout = decode_smem_descriptor(int(sdesc[lane])).mode.name
        planned = Copy(cp, chunks, int(taddr[lane]), source_format, group, layout)
        _issue(m, lane, what, planned, cp.num_cols, col)


def _issue(m: Warp, lane: int, what: str, planned: Copy | Shift, num_cols: int, col: int) -> None:
    work = Work("cp" if isinstance(planned, Copy) else "shift", planned.group, what.partition(".")[2])
    op = m.start("tensor", what, lambda: planned.perform(m), queue=tensor_queue(m), work=work, lanes=(lane,))
    op.columns = range(col, col + num_cols)
    if m.grid.observers:
        op.flows = (copy_flow(m, planned) if isinstance(planned, Copy) else shift_flow(planned),)


@lru_cache(maxsize=1024)
def chunks_of(word: int, shape: str, multicast: str) -> IntArray:
    """Return the addresses of the chunks that a descriptor names; MatmulProblem when it can name none.

    UnsupportedError for what no source settles, a row that leaves its swizzle atom among it.
    """
    desc = decode_smem_descriptor(word)
    refuse_fields(desc.problems(has_absolute_lbo=True), "DESC-ILLEGAL", f"SMEM descriptor 0x{word:016x}")
    cp = CP_SHAPES[shape, multicast]
    past = overrun(desc, cp.num_rows, 4 * cp.num_cols, 1)
    if past is not None:
        text = f"SMEM descriptor 0x{word:016x} of tcgen05.cp: {past}"
        raise MatmulProblem("DESC-ILLEGAL", text, "use a swizzle at least as wide as the rows")
    return source_chunks(desc, shape, multicast)


def _check_base(m: Warp, lane: int, cp: CpShape, taddr: int) -> None:
    """Check where a copy goes: lanes, column grain, columns. SPEC: only 4x256b may start at a lane but 0."""
    first, col = decode(taddr)
    most = NUM_LANES - cp.span_lanes
    if first > most:
        m.fault(
            "TMEM-LANE-WINDOW",
            f"tcgen05.cp.{cp.shape} starts at lane {first}; the first lane must be"
            f" {'0' if not most else f'at most {most}'}",
            hint="use the address that tcgen05.alloc stored, its lane field unchanged",
            lanes=(lane,),
        )
    if col % COL_ALIGN:
        m.fault(
            "MISALIGNED",
            f"tcgen05.cp.{cp.shape} starts at column {col}, which is no multiple of {COL_ALIGN}",
            lanes=(lane,),
        )
    m.sm.tmem.check(m, col, cp.num_cols, f"tcgen05.cp.{cp.shape}")


@record
class Shift:
    """One issued shift."""

    taddr: int
    group: int

    def perform(self, m: Warp) -> None:
        """Move the rows in every CTA of the group.

        ASSUMED: lane j takes lane j + 1, in the partition of the address (option `shift_scope`).
        """
        first, col = decode(self.taddr)
        for w in members(m, self.group):
            everywhere = w.grid.options.shift_scope == "all"
            for base in range(0, NUM_LANES, PARTITION_LANES) if everywhere else (first,):
                tmem = w.sm.tmem
                old = tmem.block(w, base + 1, SHIFT_LANES, col, SHIFT_COLS).copy()
                tmem.block(w, base, SHIFT_LANES, col, SHIFT_COLS, write=True)[...] = old


def shift(m: Warp, group: int, taddr: Any) -> None:
    """Issue one shift for each executing thread; fault TMEM-LANE-WINDOW unless it starts a partition."""
    for lane in m.lanes():
        members(m, group)
        address = int(taddr[lane])
        first, col = decode(address)
        if first % PARTITION_LANES or first >= NUM_LANES:
            m.fault(
                "TMEM-LANE-WINDOW",
                f"tcgen05.shift starts at lane {first}; it must start at one of the {NUM_PARTITIONS}"
                f" multiples of {PARTITION_LANES}",
                lanes=(lane,),
            )
        m.sm.tmem.check(m, col, SHIFT_COLS, "tcgen05.shift")
        _issue(m, lane, "shift.down", Shift(address, group), SHIFT_COLS, col)
