"""Tensor Memory of one SM: its cells, who owns which columns, and the allocator.

SPEC: 128 lanes x 512 columns of 32-bit cells, handed out in granules of 32 columns. The allocator follows
the code that ptxas 13.0 emits: a 16-bit granule map per SM, and per CTA what it owns and which granules
are bases.
Source: PTX ISA 9.7.16 (tcgen05 memory management); SASS of ptxas 13.0.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import UnsupportedError
from drywell.base.events import TmemAllocated
from drywell.base.options import Options
from drywell.layout.tmem import (
    ALLOC_COLS,
    GRANULE_COLS,
    NUM_COLS,
    NUM_LANES,
    NUM_PARTITIONS,
    PARTITION_LANES,
    decode,
    local_lane,
)
from drywell.machine.outcome import Wait, WaitReason

if TYPE_CHECKING:
    from drywell.machine.grid import Cta
    from drywell.machine.warp import Warp

NUM_GRANULES = NUM_COLS // GRANULE_COLS
NO_ADDRESS = 0xFFFF_FFFF
POISON = 0x7FFF_7FFF
"""What a fresh cell holds: a NaN as f32, tf32, f16, bf16, e4m3 and e5m2 alike."""

Cells = NDArray[np.uint32]
Index = NDArray[np.integer[Any]]


class TmemHolding:
    """What one CTA holds: `mine` and `starts` are granule masks, `sizes` the columns of each base granule."""

    __slots__ = ("allocators", "is_used", "last_cols", "mine", "relinquished", "sizes", "starts")

    def __init__(self) -> None:
        self.mine = 0
        self.starts = 0
        self.sizes: dict[int, int] = {}
        self.allocators: dict[int, int] = {}
        self.relinquished = False
        self.last_cols = NUM_COLS
        self.is_used = False


class TensorMemory:
    """The Tensor Memory of SM `sm`: `cells` uint32[128, 512], `written` bool[128, 512], `sm_map` the
    granules taken.

    `permit` is the CTA that has allocated and not yet relinquished; nobody else on the SM allocates
    meanwhile.
    """

    def __init__(self, sm: int, options: Options) -> None:
        self.sm = sm
        self.options = options
        self.cells: Cells = np.zeros((NUM_LANES, NUM_COLS), np.uint32)
        self.written = np.zeros((NUM_LANES, NUM_COLS), np.bool_)
        self.sm_map = 0
        self.permit: Cta | None = None
        self._random = random.Random(options.seed * 1_000_003 + sm)

    # allocation

    def alloc(self, m: Warp, store: Callable[[int], None], num_cols: int, cta_group: int = 1) -> Wait | None:
        """Allocate `num_cols` columns for the CTA of `m` and `store` the address; waits for columns and
        permit.

        Faults: ALLOC-SIZE, ALLOC-GROW, ALLOC-AFTER-RELINQUISH (0xFFFFFFFF is stored first, as ptxas
        13.0's code does).
        """
        self._check_group(m, cta_group)
        holding = m.cta.tmem
        if num_cols not in ALLOC_COLS:
            m.fault(
                "ALLOC-SIZE",
                f"tcgen05.alloc of {num_cols} columns: it must be {_one_of(ALLOC_COLS)}",
                hint="round up to the next power of two of at least 32",
            )
        if holding.relinquished:
            store(NO_ADDRESS)
            m.fault(
                "ALLOC-AFTER-RELINQUISH",
                f"tcgen05.alloc of {num_cols} columns after the CTA gave up its allocation permit;"
                f" 0x{NO_ADDRESS:X} is stored",
                hint="allocate everything before tcgen05.relinquish_alloc_permit",
            )
        if num_cols > holding.last_cols:
            m.fault(
                "ALLOC-GROW",
                f"tcgen05.alloc of {num_cols} columns after one of {holding.last_cols}: sizes must not grow",
                hint="allocate the largest block first",
            )

        def take() -> None:
            base = self._take(m, num_cols)
            store(base)

        if self._can_take(m.cta, num_cols):
            take()
            return None
        reason = WaitReason("tmem_alloc", lambda: self._why(m.cta, num_cols))
        return Wait(lambda: self._can_take(m.cta, num_cols), take, reason)

    def _check_group(self, m: Warp, cta_group: int) -> None:
        if cta_group != 1:
            raise UnsupportedError(
                "tcgen05 allocation with .cta_group::2 (CTA pairs) is not modelled yet", m.span
            )

    def _bases(self, num_cols: int) -> list[int]:
        """Return the base granules where `num_cols` are free, aligned to their own size, lowest first.

        ASSUMED: natural alignment and lowest-first search; `options.tmem_base` = random picks among the
        aligned ones.
        """
        k = num_cols // GRANULE_COLS
        return [g for g in range(0, NUM_GRANULES, k) if not self.sm_map & ((1 << k) - 1) << g]

    def _can_take(self, cta: Cta, num_cols: int) -> bool:
        return self.permit in (None, cta) and bool(self._bases(num_cols))

    def _take(self, m: Warp, num_cols: int) -> int:
        """Mark and return the address of a free block; its cells are fresh."""
        bases = self._bases(num_cols)
        granule = self._random.choice(bases) if self.options.tmem_base == "random" else bases[0]
        mask = _granule_mask(granule, num_cols)
        holding = m.cta.tmem
        self.sm_map |= mask
        holding.mine |= mask
        holding.starts |= 1 << granule
        holding.sizes[granule] = num_cols
        holding.allocators[granule] = m.index
        holding.last_cols = num_cols
        holding.is_used = True
        self.permit = m.cta
        col = granule * GRANULE_COLS
        self.cells[:, col : col + num_cols] = POISON if self.options.tmem_fresh == "poison" else 0
        self.written[:, col : col + num_cols] = self.options.tmem_fresh == "zero"
        self._tell(m, col, num_cols, False)
        return col

    def dealloc(self, m: Warp, taddr: int, num_cols: int, cta_group: int = 1) -> None:
        """Free the block at `taddr`; lane bits and the column within a granule do not count.

        Faults: FREE-SIZE, ALLOC-DOUBLE-FREE, FREE-NOT-BASE.
        """
        self._check_group(m, cta_group)
        holding = m.cta.tmem
        granule = (taddr & 0xFFFF) // GRANULE_COLS
        what = f"tcgen05.dealloc of {num_cols} columns at 0x{taddr:08x}"
        if num_cols not in ALLOC_COLS:
            m.fault("FREE-SIZE", f"{what}: the number of columns must be {_one_of(ALLOC_COLS)}")
        mask = _granule_mask(granule, num_cols)
        if holding.mine & mask != mask:
            m.fault(
                "ALLOC-DOUBLE-FREE",
                f"{what}: {self._not_mine(m.cta, mask)} (trap: unallocated columns being dealloced)",
            )
        if not holding.starts >> granule & 1:
            m.fault(
                "FREE-NOT-BASE",
                f"{what}: no tcgen05.alloc returned that column; {_holds(holding)}"
                " (trap: column being dealloced was not returned by alloc)",
                hint="pass the address that tcgen05.alloc stored",
            )
        if holding.sizes[granule] != num_cols:
            m.fault(
                "FREE-SIZE", f"{what}: that allocation has {holding.sizes[granule]} columns; free all of them"
            )
        self.sm_map &= ~mask
        holding.mine &= ~mask
        holding.starts &= ~(1 << granule)
        del holding.sizes[granule], holding.allocators[granule]
        self._tell(m, granule * GRANULE_COLS, num_cols, True)

    def relinquish(self, m: Warp, cta_group: int = 1) -> None:
        """Give up the right to allocate: other CTAs of the SM may now."""
        self._check_group(m, cta_group)
        m.cta.tmem.relinquished = True
        m.cta.tmem.is_used = True
        if self.permit is m.cta:
            self.permit = None
        m.changed()

    def cta_exits(self, cta: Cta) -> str:
        """Take back the permit of a CTA that ends; return what it leaks ('' for nothing). Leaked columns
        stay taken.
        """
        if self.permit is cta:
            self.permit = None
        if not cta.tmem.mine:
            return ""
        return f"the CTA exits and {_holds(cta.tmem)} of Tensor Memory"

    def _tell(self, m: Warp, col: int, num_cols: int, is_free: bool) -> None:
        m.changed()
        if m.grid.observers:
            m.grid.emit(TmemAllocated(m.agent(), self.sm, col, num_cols, is_free, m.place()))

    def _why(self, cta: Cta, num_cols: int) -> str:
        """Say what an allocation waits for."""
        if self.permit not in (None, cta) and self.permit is not None:
            holder = ",".join(map(str, self.permit.index))
            return (
                f"the allocation permit, to take {num_cols} columns of Tensor Memory: CTA {holder} on the"
                " same SM must relinquish it or exit"
            )
        free = (NUM_GRANULES - self.sm_map.bit_count()) * GRANULE_COLS
        owners = "; ".join(
            f"CTA {','.join(map(str, other.index))} {_holds(other.tmem)}"
            for other in cta.sm.ctas
            if other.tmem.mine
        )
        return f"{num_cols} columns of Tensor Memory: {free} of {NUM_COLS} are free on the SM; {owners}"

    def _not_mine(self, cta: Cta, mask: int) -> str:
        col = ((mask & ~cta.tmem.mine) & -(mask & ~cta.tmem.mine)).bit_length() - 1
        return f"column {col * GRANULE_COLS} is not allocated to the CTA, which {_holds(cta.tmem)}"

    # access

    def lane_of(self, m: Warp, taddr: int) -> int:
        """Return the first lane that `taddr` means in a tcgen05.ld or st of warp `m`.

        An address outside the warp's 32 lanes is the fault TMEM-LANE-WINDOW, or local with that option.
        """
        lane = decode(taddr)[0]
        partition = m.index % NUM_PARTITIONS
        if lane // PARTITION_LANES != partition and self.options.tmem_lane_window == "local":
            return local_lane(taddr, m.index)
        first = partition * PARTITION_LANES
        if lane // PARTITION_LANES != partition:
            m.fault(
                "TMEM-LANE-WINDOW",
                f"address 0x{taddr:08x} names lane {lane}, and warp {m.index} reaches lanes {first} to"
                f" {first + PARTITION_LANES - 1} only (warp index modulo 4)",
                hint=f"use a lane field of {first}",
            )
        return lane

    def check(self, m: Warp, col: int, num_cols: int, what: str = "access") -> None:
        """Fault TMEM-COL-OOB or TMEM-NO-ALLOC unless the CTA of `m` owns columns col .. col + num_cols -
        1.
        """
        cols = f"columns {col} to {col + num_cols - 1}" if num_cols != 1 else f"column {col}"
        if col < 0 or col + num_cols > NUM_COLS:
            m.fault("TMEM-COL-OOB", f"{what} of {cols}: Tensor Memory has columns 0 to {NUM_COLS - 1}")
        first = col // GRANULE_COLS
        last = (col + num_cols - 1) // GRANULE_COLS
        mask = (1 << last + 1) - (1 << first)
        holding = m.cta.tmem
        if holding.mine & mask == mask:
            return
        if holding.mine >> first & 1:
            m.fault(
                "TMEM-COL-OOB",
                f"{what} of {cols} runs past what the CTA has allocated: it {_holds(holding)}",
                hint="allocate more columns, or start lower",
            )
        m.fault(
            "TMEM-NO-ALLOC",
            f"{what} of {cols}, which the CTA has not allocated: it {_holds(holding)}",
            hint="use the address that tcgen05.alloc stored, and free only after the last access",
        )

    def block(
        self, m: Warp, lane: int, num_lanes: int, col: int, num_cols: int, write: bool = False
    ) -> Cells:
        """Return cells [lane, lane+num_lanes) x [col, col+num_cols) as a view, checked and recorded.

        With `write` they count as written. Fault TMEM-LANE-OOB for lanes beyond 127, else as `check`.
        """
        self._check_lanes(m, lane, lane + num_lanes - 1, write)
        self.check(m, col, num_cols, "write" if write else "read")
        where = np.s_[lane : lane + num_lanes, col : col + num_cols]
        if write:
            self.written[where] = True
            m.changed()
        if m.grid.observers:
            lanes = np.arange(lane, lane + num_lanes, dtype=np.int64)
            m.record("tmem", lanes << 16 | col, num_cols, write, "tensor", np.ones(num_lanes, np.bool_))
        return self.cells[where]

    def read(self, m: Warp, lanes: Index, cols: Index) -> Cells:
        """Return the cells at (lanes, cols), arrays that broadcast together; checked and recorded."""
        self._touch(m, lanes, cols, False)
        return self.cells[lanes, cols]

    def write(self, m: Warp, lanes: Index, cols: Index, values: Cells) -> None:
        """Set the cells at (lanes, cols) to `values`; checked and recorded, and marked as written."""
        self._touch(m, lanes, cols, True)
        self.cells[lanes, cols] = values
        self.written[lanes, cols] = True
        m.changed()

    def is_written(self, lanes: Index | slice, cols: Index | slice) -> bool:
        """Say whether every one of these cells has been written since it was allocated."""
        return bool(self.written[lanes, cols].all())

    def poison(self, lanes: Index, cols: Index) -> None:
        """Make cells fresh again (what an instruction leaves undefined)."""
        self.cells[lanes, cols] = POISON
        self.written[lanes, cols] = False

    def _touch(self, m: Warp, lanes: Index, cols: Index, is_write: bool) -> None:
        what = "write" if is_write else "read"
        self._check_lanes(m, int(lanes.min()), int(lanes.max()), is_write)
        low, high = int(cols.min()), int(cols.max())
        self.check(m, low, high - low + 1, what)
        if m.grid.observers:
            words = np.unique(np.asarray(lanes, np.int64) << 16 | np.asarray(cols, np.int64))
            m.record("tmem", words, 1, is_write, "tensor", np.ones(words.size, np.bool_))

    def _check_lanes(self, m: Warp, low: int, high: int, is_write: bool) -> None:
        if low < 0 or high >= NUM_LANES:
            verb = "write" if is_write else "read"
            m.fault(
                "TMEM-LANE-OOB",
                f"{verb} of lanes {low} to {high}: Tensor Memory has lanes 0 to {NUM_LANES - 1}",
            )


def _granule_mask(granule: int, num_cols: int) -> int:
    return ((1 << num_cols // GRANULE_COLS) - 1) << granule


def _one_of(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:-1])) + f" or {sizes[-1]}"


def _holds(holding: TmemHolding) -> str:
    """Return 'holds columns 0 to 127' or 'holds none'."""
    if not holding.mine:
        return "holds no columns"
    blocks = [f"{g * GRANULE_COLS} to {g * GRANULE_COLS + n - 1}" for g, n in sorted(holding.sizes.items())]
    return "holds columns " + " and ".join(blocks)
