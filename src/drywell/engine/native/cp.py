"""`tcgen05.cp` natively: chunks of shared memory into rows of Tensor Memory, by a plan per descriptor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drywell.base.errors import DrywellError
from drywell.engine.native.ir import I1, I8, I32, I64, PTR, Function, Value
from drywell.engine.native.mbarrier import block_of, changed
from drywell.engine.native.plans import Words, find, miss
from drywell.engine.native.state import block_word, row_pointer, row_word, tmem_word
from drywell.engine.native.table import Emit, Native, Unit, call, form, lane_value
from drywell.engine.native.tma import need_one_lane
from drywell.engine.native.tmem import owned
from drywell.engine.native.waiting import perform_waiting
from drywell.isa.tcgen05 import cta_group
from drywell.isa.tcgen05_copy import COL_ALIGN, chunks_of
from drywell.isa.tcgen05_tile import MatmulProblem
from drywell.layout.cp import CP_SHAPES, destination_lanes
from drywell.layout.operand import CHUNK_BYTES
from drywell.layout.tmem import NUM_COLS, NUM_LANES
from drywell.machine.smem import RESERVED_BYTES
from drywell.program import operands as ops

if TYPE_CHECKING:
    from drywell.machine.warp import Warp

_SHAPES = tuple(CP_SHAPES)
_NAMES = ("shape", "word")
PLAN = {
    name: k
    for k, name in enumerate(
        (*_NAMES, "lowest", "end", "most", "num_cols", "num_rows", "num_copies", "chunks", "lanes")
    )
}
"""The words of a plan: shape and descriptor; the bytes of shared memory that it reads, the last lane at which
it may start, its columns, rows and copies; the addresses of the chunks' offsets and of the rows' lanes."""

OPERANDS = (*_NAMES, "group")
"""The words that a plan is missed for."""


@dataclass(frozen=True, slots=True)
class Made:
    """A plan, by its key, and what it needs kept."""

    key: int
    words: Words
    kept: Any


def plan_of(warp: Warp, key: list[int]) -> Made | None:
    """Return the plan of a shape and a descriptor; None when the interpreter would not copy with it."""
    number, word, group = key[:3]
    shape, multicast = _SHAPES[number]
    try:
        chunks = chunks_of(word, shape, multicast)
    except (DrywellError, MatmulProblem):
        return None
    peer = warp.cta.peer
    if group > 1 and peer is not None and peer.has_started and not peer.has_exited:
        peer.smem.reachable[0] = 1
    cp = CP_SHAPES[shape, multicast]
    offsets = np.ascontiguousarray(chunks, np.int32)
    lanes = np.ascontiguousarray(destination_lanes(shape, multicast), np.int32)
    given = {
        "shape": number,
        "word": word,
        "lowest": int(chunks.min()),
        "end": int(chunks.max()) + CHUNK_BYTES,
        "most": NUM_LANES - cp.span_lanes,
        "num_cols": cp.num_cols,
        "num_rows": cp.num_rows,
        "num_copies": len(lanes),
        "chunks": offsets.ctypes.data,
        "lanes": lanes.ctypes.data,
    }
    plan = np.zeros(len(PLAN), np.uint64)
    for name, value in given.items():
        plan[PLAN[name]] = value
    return Made((word * len(_SHAPES) + number) & (1 << 64) - 1 | 1 << 63, plan, (offsets, lanes))


_CP = "drywell.native.tcgen05.cp"


def _function() -> Function:
    f = Function(_CP, I32, {"context": PTR, "mask": I32} | dict.fromkeys((*OPERANDS, "taddr"), I64))
    need_one_lane(f)
    block = block_of(f)
    row = block_word(f, block, "row").as_pointer()
    perform_waiting(f, block)
    plan = _plan(f, block)
    lane, col = f["taddr"] >> 16 & 0xFFFF, f["taddr"] & 0xFFFF
    f.need(lane.is_("ule", f.load(I64, plan, PLAN["most"])))
    f.need((col & COL_ALIGN - 1).is_("eq", 0))
    is_pair = f["group"].is_("ugt", 1)
    rows = f.slot("[2 x ptr]")
    f.store(row, rows, 0)
    with f.when(is_pair):
        peer = block_word(f, block, "rank") ^ 1
        f.need(peer.is_("ult", block_word(f, block, "num_ctas")))
        other = f.load(PTR, block_word(f, block, "rows").as_pointer(), peer)
        with f.when(f.load(I8, row_pointer(f, other, "reachable")).is_("eq", 0)):
            miss(f, block, "copy", tuple(f[name] for name in OPERANDS))
        f.store(other, rows, 1)
    count = f.choose(is_pair, f.of(I64, 2), 1)
    for is_check in (True, False):
        with f.loop(count) as k:
            one = f.load(PTR, rows, k)
            if is_check:
                _check(f, plan, one, col)
            else:
                _copy(f, plan, one, lane, col)
    changed(f)
    f.give(1)
    return f


def _plan(f: Function, block: Value) -> Value:
    """Return the plan for the operands; leave when there is none, noting it."""
    key = f["word"] * len(_SHAPES) + f["shape"] | 1 << 63
    found = find(f, block, "copy", key)
    with f.when(found.is_("eq", 0)):
        miss(f, block, "copy", tuple(f[name] for name in OPERANDS))
    plan = found.as_pointer()
    for name in _NAMES:
        f.need(f.load(I64, plan, PLAN[name]).is_("eq", f[name]))
    return plan


def _check(f: Function, plan: Value, row: Value, col: Value) -> None:
    """Leave unless the source lies in the CTA's shared memory and the columns are the CTA's."""
    f.need(f.load(I64, plan, PLAN["lowest"]).is_("uge", RESERVED_BYTES))
    f.need(f.load(I64, plan, PLAN["end"]).is_("ule", row_word(f, row, "end")))
    owned(f, row, col, f.load(I64, plan, PLAN["num_cols"]))


def _copy(f: Function, plan: Value, row: Value, lane: Value, col: Value) -> None:
    """Copy the chunks of every row to all its lanes."""
    data = row_pointer(f, row, "data")
    cells, written = (tmem_word(f, row, name).as_pointer() for name in ("cells", "written"))
    num_rows, num_chunks = f.load(I64, plan, PLAN["num_rows"]), f.load(I64, plan, PLAN["num_cols"]) >> 2
    chunks, lanes = f.load(PTR, plan, PLAN["chunks"]), f.load(PTR, plan, PLAN["lanes"])
    with f.loop(f.load(I64, plan, PLAN["num_copies"])) as copy, f.loop(num_rows) as number:
        to = lane + f.load(I32, lanes, copy * num_rows + number).zext(I64)
        with f.loop(num_chunks) as k:
            offset = f.load(I32, chunks, number * num_chunks + k).zext(I64)
            cell = to * NUM_COLS + col + (k << 2)
            chunk = f.load("<4 x i32>", f.at(data, offset), align=1)
            f.store(chunk, f.at(cells, cell, I32), align=4)
            f.intrinsic("memset.p0.i64", "void", f.at(written, cell), f.of(I8, 1), f.of(I64, 4), f.of(I1, 0))


def functions() -> tuple[Function, ...]:
    """Return the function of `tcgen05.cp`."""
    return (_function(),)


@form("tcgen05_cp")
def _cp(instruction: ops.Bound) -> Emit | None:
    return _emit if instruction.mods["source"] is None else None


def _emit(unit: Unit, instruction: ops.Bound) -> Native:
    mods = instruction.mods
    shape = _SHAPES.index((str(mods["shape"]), str(mods["multicast"] or "")))
    taddr, word = (unit.read(*p) for p in zip(instruction.sources, instruction.source_types, strict=True))
    done = call(
        unit,
        _CP,
        (I64, str(shape)),
        lane_value(unit, word, 64),
        (I64, str(int(cta_group(mods) or 1))),
        lane_value(unit, taddr, 64),
    )
    return Native(done)
