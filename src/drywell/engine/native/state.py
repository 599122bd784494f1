"""What native code knows of the machine besides registers and windows: rows of 64-bit words.

The context's word `machine` is the address of a *block*, one per warp: which CTA it is of, where the CTAs of
its cluster are, the tables of plans, and what a plan was missing for. A *row*, one per CTA, holds addresses
of the machine's own arrays. Nothing is copied: the arrays are the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.engine.native.ir import I64, PTR, Function, Value

if TYPE_CHECKING:
    from drywell.engine.native.learn import Tables
    from drywell.machine.grid import Cta
    from drywell.machine.warp import Warp

Words = NDArray[np.uint64]

ROW = {
    name: k
    for k, name in enumerate(
        (
            "data", "words", "live", "phases", "end", "reachable", "tmem", "keeps", "barriers", "ended",
            "num_warps",
        )
    )
}  # fmt: skip
"""Of a CTA: shared memory (bytes, end), mbarriers (words, which are live, phases), whether another CTA may
reach it; what it holds of Tensor Memory (`TMEM`); whether a collector buffer of the SM keeps something; its
named barriers, which of its warps have ended, how many it has."""

TMEM = {name: k for k, name in enumerate(("granules", "cells", "written"))}
"""Of Tensor Memory: the granules that are the CTA's; when there are some, the cells and which are written."""

BLOCK = {
    name: k
    for k, name in enumerate(
        ("row", "rows", "num_ctas", "rank", "warp", "is_lenient", "carry", "plans", "missed", "key")
    )
}
"""Of a warp: its CTA's row, the table of the rows of its cluster, its index in the CTA, whether addresses
outside its partition of Tensor Memory are allowed, where its carry bits lie, the table of plans, which kind
of plan was missing (0: none) and for what, in the words from `key` on."""
KEY_WORDS = 16
BLOCK_WORDS = len(BLOCK) + KEY_WORDS - 1


def block_word(f: Function, block: Value, name: str) -> Value:
    """Read a word of a warp's block."""
    return f.load(I64, block, BLOCK[name])


def row_word(f: Function, row: Value, name: str) -> Value:
    """Read a word of a CTA's row."""
    return f.load(I64, row, ROW[name])


def tmem_word(f: Function, row: Value, name: str) -> Value:
    """Read a word of what a CTA holds of Tensor Memory."""
    return f.load(I64, row_pointer(f, row, "tmem"), TMEM[name])


def row_pointer(f: Function, row: Value, name: str) -> Value:
    """Read a word of a CTA's row that is an address."""
    return f.load(PTR, row, ROW[name])


class Rows:
    """The rows of the CTAs of one grid, made when first asked for."""

    def __init__(self) -> None:
        self._rows: dict[int, Words] = {}
        self._tables: dict[int, Words] = {}

    def of(self, cta: Cta) -> Words:
        """Return the row of a CTA."""
        row = self._rows.get(cta.linear)
        if row is None:
            row = self._rows[cta.linear] = np.zeros(len(ROW), np.uint64)
            smem = cta.smem
            arrays: dict[str, NDArray[Any]] = {
                "data": smem.data,
                "words": smem.words,
                "live": smem.live,
                "phases": smem.phases,
                "reachable": smem.reachable,
                "tmem": cta.tmem.flat,
                "keeps": cta.sm.keeps,
                "barriers": cta.barriers.words,
                "ended": cta.barriers.ended,
            }
            for name, array in arrays.items():
                row[ROW[name]] = array.ctypes.data
            row[ROW["end"]] = smem.end
            row[ROW["num_warps"]] = len(cta.warps)
        return row

    def table(self, cta: Cta) -> Words:
        """Return the addresses of the rows of a CTA's cluster, by rank."""
        first = cta.cluster.ctas[0].linear
        table = self._tables.get(first)
        if table is None:
            rows = [self.of(other) for other in cta.cluster.ctas]
            table = self._tables[first] = np.array([row.ctypes.data for row in rows], np.uint64)
        return table


class Machine:
    """The block of one warp. `tables` are the run's."""

    def __init__(self, warp: Warp, tables: Tables) -> None:
        self.warp = warp
        self.tables = tables
        self.block = np.zeros(BLOCK_WORDS, np.uint64)
        cta, rows = warp.cta, tables.rows
        words = {
            "row": rows.of(cta).ctypes.data,
            "rows": rows.table(cta).ctypes.data,
            "num_ctas": len(cta.cluster.ctas),
            "rank": cta.rank,
            "warp": warp.index,
            "is_lenient": int(warp.grid.options.tmem_lane_window == "local"),
            "carry": warp.carry.ctypes.data,
            "plans": tables.plans.ctypes.data,
        }
        for name, value in words.items():
            self.block[BLOCK[name]] = value

    @property
    def address(self) -> int:
        """Return where the block lies."""
        return int(self.block.ctypes.data)

    @property
    def missed(self) -> int:
        """Return which kind of plan the code that has just left was missing, 0 for none."""
        return int(self.block[BLOCK["missed"]])

    def learn(self) -> None:
        """Make the plan that was missing."""
        kind = self.missed
        self.block[BLOCK["missed"]] = 0
        key = self.block[BLOCK["key"] : BLOCK["key"] + KEY_WORDS]
        self.tables.learn(self.warp, kind, [int(word) for word in key])
