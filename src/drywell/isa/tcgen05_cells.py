"""How alloc, ld, st, wait and commit act on the machine.

A load or store is one asynchronous operation of its warp: a load reads the cells when it performs and
delivers the registers then, a store takes the registers at issue and writes the cells when it performs.
Both are checked at issue, and again by the machine when they perform. Source: PTX ISA 9.7.16.7, 9.7.16.8,
9.7.16.12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Order, Role, Work
from drywell.base.record import record
from drywell.isa.multicast import ranks_named
from drywell.isa.tcgen05_flow import load_flow, store_flow
from drywell.layout.arrays import IntArray, frozen
from drywell.layout.fragment import SHAPES, Window, cols_touched, fragment, num_registers
from drywell.layout.tmem import PARTITION_LANES, advance, decode
from drywell.machine.outcome import Deferred, Wait, WaitReason
from drywell.machine.tmem import POISON
from drywell.machine.windows import OFFSET_MASK, space_of
from drywell.numerics.comparison import absolute, maximum, minimum

_COMMITTED = Order("release", "cluster")
"""SPEC: a commit's arrive is a release at cluster scope. Source: PTX ISA 9.7.16.12."""

if TYPE_CHECKING:
    from drywell.machine.queue import AsyncOp
    from drywell.machine.warp import Warp

_LOW = np.uint32(0xFFFF)
_HIGH = np.uint32(0xFFFF_0000)
_HIGH_POISON = np.uint32(POISON) & _HIGH

Cells = NDArray[np.uint32]


# what a warp-collective instruction asks of its lanes


def uniform(m: Warp, values: Any, what: str) -> int:
    """Return the one value of a warp-collective operand; fault ALIGNED-DIVERGENT when lanes are missing or
    disagree.
    """
    m.require_all(what.rpartition(" of ")[2])
    first = int(values[0])
    if (values != values[0]).any():
        lane = int(np.flatnonzero(values != values[0])[0])
        m.fault(
            "ALIGNED-DIVERGENT",
            f"{what} is 0x{first:x} in lane 0 and 0x{int(values[lane]):x} in lane {lane}: the lanes"
            " of a warp must agree",
            hint="compute it from values that are the same in the whole warp",
            lanes=(0, lane),
        )
    return first


def shared_address(m: Warp, address: int, is_generic: bool, what: str) -> int:
    """Return the shared-window address that `address` means; fault WRONG-SPACE for a generic one outside
    the window.
    """
    if is_generic and space_of(address) != "shared":
        m.fault(
            "WRONG-SPACE",
            f"{what}: generic address 0x{address:x} lies in {space_of(address)} memory, shared memory"
            " is needed",
            hint="convert a shared address with cvta, or name the state space",
        )
    if not is_generic and address >> 32:
        m.fault(
            "SHARED-WINDOW",
            f"{what}: 0x{address:x} is no shared-window address (it may be generic)",
            hint="leave the state space out, or convert the address with cvta.to.shared",
        )
    return address & 0xFFFF_FFFF


# allocation


def allocate(m: Warp, dst: Any, columns: Any, is_generic: bool, cta_group: int = 1) -> Wait | None:
    """Allocate columns for the CTA, or with `cta_group` 2 for its pair, and store their address at `dst`,
    waiting for room, permit and peer.
    """
    num_cols = uniform(m, columns, "nCols of tcgen05.alloc")
    given = uniform(m, dst, "the destination address of tcgen05.alloc")
    address = shared_address(m, given, is_generic, "the destination of tcgen05.alloc")
    if address % 4:
        m.fault(
            "MISALIGNED",
            f"tcgen05.alloc stores 4 bytes at shared address 0x{address:08x}, which is no multiple of 4",
        )
    memory, offset = m.shared_target(address)
    memory.view(offset, 4, True)

    def store(base: int) -> None:
        m.put_slot(address, np.array([base], "<u4").view(np.uint8))

    return m.sm.tmem.alloc(m, store, num_cols, cta_group, address & OFFSET_MASK)


def free(m: Warp, taddr: Any, columns: Any) -> None:
    """Give columns back."""
    num_cols = uniform(m, columns, "nCols of tcgen05.dealloc")
    m.sm.tmem.dealloc(m, uniform(m, taddr, "the address of tcgen05.dealloc"), num_cols)


def relinquish(m: Warp) -> None:
    """Give up the CTA's right to allocate."""
    m.require_all("tcgen05.relinquish_alloc_permit")
    m.sm.tmem.relinquish(m)


# load and store


@lru_cache(maxsize=256)
def _pattern(shape: str, num: int, packed: bool) -> tuple[IntArray, IntArray]:
    """Return (lane, column) of every register, [registers, 32], relative to the window the thread uses."""
    f = fragment(shape, num, packed)
    return frozen(f.lane.T), frozen(f.col.T)


class _Footprint:
    """The cells that one ld or st of a warp touches: absolute lanes and columns, [registers, 32]."""

    __slots__ = ("col", "first_col", "first_lane", "lane", "num", "packed", "shape", "span_cols")

    def __init__(
        self, m: Warp, verb: str, shape: str, num: int, packed: bool, taddr: int, split: int
    ) -> None:
        self.shape, self.num, self.packed = shape, num, packed
        self.span_cols = cols_touched(shape, num, packed)
        self.lane, self.col = _pattern(shape, num, packed)
        what = f"tcgen05.{verb}.{shape}.x{num}"
        self.first_lane, self.first_col = _base(m, what, shape, taddr, self.span_cols)
        if SHAPES[shape].num_windows == 2:
            lane, col = _base(m, what, shape, advance(taddr, split), self.span_cols)
            self._check_windows(m, what, verb, lane, col)
            upper = np.arange(PARTITION_LANES) >= PARTITION_LANES // 2
            self.lane = self.lane + np.where(upper, lane, self.first_lane)
            self.col = self.col + np.where(upper, col, self.first_col)
        else:
            self.lane = self.lane + self.first_lane
            self.col = self.col + self.first_col

    def _check_windows(self, m: Warp, what: str, verb: str, lane: int, col: int) -> None:
        """Fault TMEM-RACE when the two windows of a store share a cell. ASSUMED: no source says which
        thread wins.
        """
        rows = SHAPES[self.shape].num_rows
        first = Window(self.first_lane, self.first_col, rows, self.span_cols)
        second = Window(lane, col, rows, self.span_cols)
        if verb == "st" and first.overlaps(second):
            m.fault(
                "TMEM-RACE",
                f"{what}: its two windows {first} and {second} share cells, and nothing says which"
                " thread's value stays",
                hint="choose an immHalfSplitoff that keeps them apart",
            )

    @property
    def columns(self) -> range:
        """Return the columns from the first that is touched to the last."""
        return range(int(self.col.min()), int(self.col.max()) + 1)

    @property
    def is_block(self) -> bool:
        """Whether register r of thread l is cell (first lane + l, first column + r)."""
        return self.shape == "32x32b" and not self.packed


def _base(m: Warp, what: str, shape: str, taddr: int, num_cols: int) -> tuple[int, int]:
    """Return the first lane and column of a window, checked: lane window, lane alignment, columns,
    ownership.

    ASSUMED: lanes must start at 0 of the warp's 32, or 16 for shapes of 16 lanes; no rule of the manual
    covers others.
    """
    tmem = m.sm.tmem
    lane = tmem.lane_of(m, taddr)
    rows = SHAPES[shape].num_rows
    if lane % rows:
        field = decode(taddr)[0]
        counted = "" if field == lane else f" (lane field {field}, counted from the first of warp {m.index})"
        m.fault(
            "TMEM-LANE-WINDOW",
            f"{what} at 0x{taddr:08x} starts at lane {lane}{counted}; its {rows} lanes must start at a"
            f" multiple of {rows}",
            hint=f"use a lane field of {lane - lane % rows}",
        )
    col = decode(taddr)[1]
    tmem.check(m, col, num_cols, what)
    return lane, col


@record
class Reduction:
    """What `ld.red` makes of the registers of a thread: `op` min or max of `type` f32, u32 or s32."""

    op: str
    type: str
    is_absolute: bool
    keeps_nan: bool

    def of(self, registers: list[Cells]) -> Cells:
        """Return the reduction over the registers, one value for each lane."""
        if self.type != "f32":
            signed = np.stack(registers).view(np.int32 if self.type == "s32" else np.uint32)
            return np.asarray(signed.min(0) if self.op == "min" else signed.max(0)).view(np.uint32)
        words = [absolute("f32", word) for word in registers] if self.is_absolute else registers
        choose = minimum if self.op == "min" else maximum
        result = words[0]
        for word in words[1:]:
            result = choose("f32", result, word, nan=self.keeps_nan)
        return np.asarray(result, np.uint32)


def load(
    m: Warp, shape: str, num: int, packed: bool, taddr: Any, split: Any, reduction: Reduction | None = None
) -> Deferred:
    """Issue a tcgen05.ld, or ld.red with a `reduction`; the registers come when it performs."""
    what = f"ld{'.red' if reduction else ''}.{shape}.x{num}"
    base = uniform(m, taddr, f"the address of tcgen05.{what}")
    cells = _Footprint(m, "ld", shape, num, packed, base, 0 if isinstance(split, int) else int(split[0]))

    def read() -> Any:
        registers = _read(m, cells)
        if m.grid.observers:
            _note_unwritten(m, cells, reduction is not None)
        return registers if reduction is None else (registers, reduction.of(registers))

    op = m.start("tmem_ld", what, read, work=_work("ld", shape, num, packed))
    op.columns = cells.columns
    if m.grid.observers:
        op.flows = (load_flow(m.cta.linear, cells, reduction is not None),)
    _await(m, op)
    return Deferred(op)


def _work(role: Role, shape: str, num: int, packed: bool) -> Work:
    element = "16b" if packed else "32b"
    return Work(role, kind=shape, registers=num_registers(shape, num), element=element)


def _read(m: Warp, cells: _Footprint) -> list[Cells]:
    """Return one uint32[32] per register."""
    tmem = m.sm.tmem
    if cells.is_block:
        view = tmem.block(m, cells.first_lane, PARTITION_LANES, cells.first_col, cells.num)
        return list(np.ascontiguousarray(view.T))
    values = tmem.read(m, cells.lane, cells.col)
    if cells.packed:
        high = tmem.read(m, cells.lane, cells.col + 1)
        values = (values & _LOW) | (high << np.uint32(16))
    return list(values)


def _note_unwritten(m: Warp, cells: _Footprint, has_reduction: bool) -> None:
    """Note which registers of the load that is performing come from cells nobody has written, and which
    from cells that hold 16 bits.
    """
    written, halves = m.sm.tmem.written, m.sm.tmem.halves
    op = m.grid.pending.performing
    found = ~written[cells.lane, cells.col]
    if cells.packed:
        found |= ~written[cells.lane, cells.col + 1]
    if op is not None and found.any():
        op.unwritten = np.vstack([found, found.any(0)]) if has_reduction else found
    if op is not None and halves is not None and not cells.packed and not has_reduction:
        op.halves = halves[cells.lane, cells.col]


def store(
    m: Warp, shape: str, num: int, packed: bool, taddr: Any, split: Any, registers: tuple[Any, ...]
) -> None:
    """Issue a tcgen05.st; the registers are read now."""
    what = f"st.{shape}.x{num}"
    base = uniform(m, taddr, f"the address of tcgen05.{what}")
    cells = _Footprint(m, "st", shape, num, packed, base, 0 if isinstance(split, int) else int(split[0]))
    values = np.stack(registers).astype(np.uint32, copy=False)
    op = m.start("tmem_st", what, lambda: _write(m, cells, values), work=_work("st", shape, num, packed))
    op.columns = cells.columns
    if m.grid.observers:
        op.flows = (store_flow(m.cta.linear, cells),)
    _await(m, op)


def _write(m: Warp, cells: _Footprint, values: Cells) -> None:
    tmem = m.sm.tmem
    if cells.is_block:
        tmem.block(m, cells.first_lane, PARTITION_LANES, cells.first_col, cells.num, write=True)[...] = (
            values.T
        )
        return
    if not cells.packed:
        tmem.write(m, cells.lane, cells.col, values)
        return
    for step, half in ((0, values & _LOW), (1, values >> np.uint32(16))):
        col = cells.col + step
        tmem.write(m, cells.lane, col, half | high_half(m, tmem.cells[cells.lane, col]))
        tmem.note_halves(m, cells.lane, col)


def high_half(m: Warp, old: Cells) -> Cells:
    """Return what stands in bits 31-16 of a cell after a 16-bit value was put into it, given the `old` cell.

    ASSUMED: undefined, so poison; no source says whether it is cleared or kept (option `unpack_high_half`).
    """
    choice = m.grid.options.unpack_high_half
    if choice == "preserve":
        return np.asarray(old & _HIGH, np.uint32)
    return np.full_like(old, _HIGH_POISON if choice == "poison" else 0)


def _await(m: Warp, op: AsyncOp) -> None:
    """Note an operation for the next wait; of those that are done only observers need to know."""
    if not m.grid.observers:
        m.unwaited = [other for other in m.unwaited if not other.done]
    m.unwaited.append(op)


def wait(m: Warp, unit: str) -> Wait | None:
    """Block until the warp's earlier operations of `unit` (tmem_ld or tmem_st) have performed."""
    name = unit.removeprefix("tmem_")
    m.require_all(f"tcgen05.wait::{name}")
    mine = [op for op in m.unwaited if op.unit == unit]
    m.unwaited = [op for op in m.unwaited if op.unit != unit]

    def seen() -> None:
        m.retired(mine)

    if all(op.done for op in mine):
        seen()
        return None

    def text() -> str:
        left = [op for op in mine if not op.done]
        return (
            f"{len(left)} tcgen05.{name} of the warp, the first at {left[0].span}"
            if left
            else f"tcgen05.{name}"
        )

    return Wait(lambda: all(op.done for op in mine), seen, WaitReason("operations", text))


# the tensor pipe


def tensor_queue(m: Warp) -> tuple[str, int]:
    """Return the key of the queue in which the tensor pipe of the warp's SM performs mma, cp, shift and
    commit, in issue order.
    """
    return ("tensor", m.sm.index)


def signal_when_done(m: Warp, group: int, mbar: Any, cta_mask: Any, is_generic: bool) -> None:
    """Issue a tcgen05.commit for each executing thread: one arrive when its earlier mma, cp and shift have
    performed.

    SPEC: it tracks the executing thread's operations only, and with none outstanding it arrives promptly:
    then it waits in no queue.
    """
    for lane in m.lanes():
        address = shared_address(m, int(mbar[lane]), is_generic, "the mbarrier of tcgen05.commit")
        ranks = None
        if cta_mask is not None:
            ranks = ranks_named(m, int(cta_mask[lane]), lane, "tcgen05.commit", "COMMIT-MASK")
        is_tracking = any(
            op.warp is m and op.unit == "tensor" and op.lanes == (lane,) for op in m.grid.pending
        )
        queue = tensor_queue(m) if is_tracking else None
        m.start(
            "tensor",
            "commit",
            *_arrivals(m, address, ranks),
            queue=queue,
            work=Work("commit", cta_group=group),
            lanes=(lane,),
        )


def _arrivals(m: Warp, address: int, ranks: tuple[int, ...] | None) -> tuple[Callable[[], Any], ...]:
    """Return the stages of a commit: one arrive, or one for each CTA of `ranks`, each at its own moment."""
    if ranks is None:
        return (lambda: m.mbarrier(address, cluster=True, order=_COMMITTED).arrive(1),)
    offset = address & OFFSET_MASK
    return tuple(partial(_arrive_at, m, rank, offset) for rank in ranks)


def _arrive_at(m: Warp, rank: int, offset: int) -> None:
    m.mbarrier_at(rank, offset, _COMMITTED).arrive(1)
