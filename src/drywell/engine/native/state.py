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
from drywell.machine.tmem_words import HOLDING

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
            "num_warps", "arrivals", "has_cluster_arrivals", "pool",
        )
    )
}  # fmt: skip
"""Of a CTA: shared memory (bytes, end), mbarriers (words, which are live, phases), whether another CTA may
reach it; what it holds of Tensor Memory (`tmem_words.HOLDING`); whether a collector buffer of the SM keeps
something; its named barriers, which of its warps have ended, how many it has, which lanes have come to its
barriers, whether some have come to the cluster's, and its registers (`Bank.pool`)."""


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
    return f.load(I64, row_pointer(f, row, "tmem"), HOLDING[name])


def row_pointer(f: Function, row: Value, name: str) -> Value:
    """Read a word of a CTA's row that is an address."""
    return f.load(PTR, row, ROW[name])


def row_of(cta: Cta) -> Words:
    """Return the row of a CTA; its bank keeps it for the CTA that has the bank next."""
    owner, row = cta.bank.row or (None, None)
    if row is None:
        row = _new_row(cta)
    if owner is not cta:
        row[ROW["keeps"]] = cta.grid.keeps_at + cta.sm.index
        cta.tmem["sm"], cta.tmem["cta"] = cta.sm.tmem_words, cta.linear + 1
        cta.bank.row = cta, row
    return row


def _new_row(cta: Cta) -> Words:
    row, smem, barriers = np.zeros(len(ROW), np.uint64), cta.smem, cta.barriers
    arrays: dict[str, NDArray[Any]] = {
        "data": smem.data,
        "words": smem.words,
        "live": smem.live,
        "phases": smem.phases,
        "reachable": smem.reachable,
        "tmem": cta.tmem.flat,
        "barriers": barriers.words,
        "ended": barriers.ended,
        "arrivals": barriers.arrivals,
        "pool": cta.bank.pool,
        "has_cluster_arrivals": cta.cluster.berth.arrivals,
    }
    for name, array in arrays.items():
        row[ROW[name]] = array.ctypes.data
    row[ROW["end"]] = smem.end
    row[ROW["num_warps"]] = cta.grid.num_warps
    return row


def rows_of(cta: Cta) -> Words:
    """Return the addresses of the rows of a CTA's cluster, by rank."""
    berth = cta.cluster.berth
    if berth.rows is None:
        berth.rows = np.array([row_of(other).ctypes.data for other in cta.cluster.ctas], np.uint64)
    rows: Words = berth.rows
    return rows


class Blocks:
    """The blocks of a CTA's warps, one behind the other, as `machines`. `tables` are the run's."""

    def __init__(self, cta: Cta, tables: Tables) -> None:
        count = cta.grid.num_warps
        self._words = np.zeros((count, BLOCK_WORDS), np.uint64)
        words: dict[str, Any] = {
            "row": row_of(cta).ctypes.data,
            "rows": rows_of(cta).ctypes.data,
            "rank": cta.rank,
            "num_ctas": len(cta.cluster.ctas),
            "warp": np.arange(count),
            "is_lenient": int(cta.grid.options.tmem_lane_window == "local"),
            "carry": cta.bank.carry.ctypes.data + np.arange(count) * cta.bank.carry.strides[0],
            "plans": tables.plans.ctypes.data,
        }
        for name, value in words.items():
            self._words[:, BLOCK[name]] = value
        self._first = self._words.copy()
        first, flat = self._words.ctypes.data, self._words.reshape(-1).data
        step = 8 * BLOCK_WORDS
        self.machines = [
            Machine(tables, first + k * step, flat[k * BLOCK_WORDS : (k + 1) * BLOCK_WORDS])
            for k in range(count)
        ]
        self.renew(cta)

    def renew(self, cta: Cta) -> None:
        """Make them as new ones are, for a CTA with the same bank."""
        for other in cta.cluster.ctas:
            row_of(other)
        self._words[:] = self._first


class Machine:
    """The block of one warp: where it lies, and `at`, its words."""

    __slots__ = ("address", "at", "tables")

    def __init__(self, tables: Tables, address: int, at: Any) -> None:
        self.tables = tables
        self.address = address
        self.at = at

    @property
    def missed(self) -> int:
        """Return which kind of plan the code that has just left was missing, 0 for none."""
        return int(self.at[BLOCK["missed"]])

    def learn(self, warp: Warp) -> bool:
        """Make the plan that was missing for the warp; say whether there is one now."""
        kind = self.missed
        self.at[BLOCK["missed"]] = 0
        key = self.at[BLOCK["key"] : BLOCK["key"] + KEY_WORDS]
        return self.tables.learn(warp, kind, key.tolist())
