"""Tensor Memory of one SM: its cells, who owns which columns, and the allocator.

SPEC: 128 lanes x 512 columns of 32-bit cells, handed out in granules of 32 columns. The allocator follows
the code that ptxas 13.0 emits: a 16-bit granule map per SM, and per CTA what it owns and which granules
are bases.
Source: PTX ISA 9.7.16 (tcgen05 memory management); SASS of ptxas 13.0.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import ColumnsMissing, Relinquished, Remarked, TmemAllocated, TmemAwaited
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
from drywell.machine.own_memory import OwnMemory
from drywell.machine.tmem_pair import Ask, alloc_half
from drywell.machine.tmem_words import NUM_GRANULES, OF_SM, TmemHolding, granule_mask

if TYPE_CHECKING:
    from drywell.machine.grid import Cta
    from drywell.machine.warp import Warp

NO_ADDRESS = 0xFFFF_FFFF
POISON = 0x7FFF_7FFF
"""What a fresh cell holds: a NaN as f32, tf32, f16, bf16, e4m3 and e5m2 alike."""

Cells = NDArray[np.uint32]


class Planes(NamedTuple):
    """The cells of a Tensor Memory, which of them are written, and where both lie."""

    cells: Cells
    written: NDArray[np.bool_]
    addresses: tuple[int, int]


def _new_planes(memory: OwnMemory) -> Planes:
    cells = memory.zeros(np.uint32, NUM_LANES, NUM_COLS)
    written = memory.zeros(np.bool_, NUM_LANES, NUM_COLS)
    return Planes(cells, written, (cells.ctypes.data, written.ctypes.data))


_NO_PLANES = Planes(np.zeros((0, 0), np.uint32), np.zeros((0, 0), np.bool_), (0, 0))
Index = NDArray[np.integer[Any]]


def words_of_sms(options: Options, count: int) -> NDArray[np.uint64]:
    """Return the words of so many SMs (`OF_SM`), a row each, before anybody has come."""
    words = np.zeros((count, len(OF_SM)), np.uint64)
    words[:, OF_SM["fill"]] = POISON if options.tmem_fresh == "poison" else 0
    words[:, OF_SM["flag"]] = options.tmem_fresh == "zero"
    words[:, OF_SM["is_plain"]] = options.tmem_base != "random"
    return words


class TensorMemory:
    """The Tensor Memory of SM `sm`: `cells` uint32[128, 512], `written` bool[128, 512], `halves` which cells
    hold 16 bits only (None: none does), `sm_map` the granules taken.

    `permit` is the CTA that has allocated and not yet relinquished; nobody else on the SM allocates
    meanwhile. `spare` are cells of SMs that need them no more, `words` its own of `words_of_sms`.
    """

    def __init__(
        self,
        sm: int,
        options: Options,
        memory: OwnMemory,
        residents: Sequence[Cta] = (),
        spare: list[Planes] | None = None,
        words: NDArray[np.uint64] | None = None,
    ) -> None:
        self.sm = sm
        self.options = options
        self.words = words_of_sms(options, 1)[0] if words is None else words
        self._at = self.words.data
        self._residents = residents
        self._memory = memory
        self._spare: list[Planes] = [] if spare is None else spare
        self._planes = _NO_PLANES
        self.furnish()
        self.halves: NDArray[np.bool_] | None = None

    @property
    def cells(self) -> Cells:
        """Return its cells."""
        return self._planes.cells

    @property
    def written(self) -> NDArray[np.bool_]:
        """Return which cells are written."""
        return self._planes.written

    @property
    def sm_map(self) -> int:
        """Return the granules taken, a bit each."""
        granules: int = self._at[OF_SM["map"]]
        return granules

    @sm_map.setter
    def sm_map(self, granules: int) -> None:
        self._at[OF_SM["map"]] = granules

    @property
    def permit(self) -> Cta | None:
        """Return the CTA that alone may allocate."""
        number = self._at[OF_SM["permit"]]
        return next((cta for cta in self._residents if cta.linear + 1 == number), None) if number else None

    @permit.setter
    def permit(self, cta: Cta | None) -> None:
        self._at[OF_SM["permit"]] = 0 if cta is None else cta.linear + 1

    @cached_property
    def _random(self) -> random.Random:
        return random.Random(self.options.seed * 1_000_003 + self.sm)

    def furnish(self) -> None:
        """Have cells, those that another SM has no use for where there are such."""
        if self._planes is _NO_PLANES:
            self._planes = self._spare.pop() if self._spare else _new_planes(self._memory)
            self._at[OF_SM["cells"]], self._at[OF_SM["written"]] = self._planes.addresses

    def hand_on(self) -> None:
        """Let another SM have the cells, if no column is taken."""
        if not self.sm_map and self._planes is not _NO_PLANES:
            self._spare.append(self._planes)
            self._planes = _NO_PLANES
            self._at[OF_SM["cells"]] = 0

    # allocation

    def alloc(
        self, m: Warp, store: Callable[[int], None], num_cols: int, cta_group: int = 1, offset: int = 0
    ) -> Wait | None:
        """Allocate `num_cols` columns for the CTA of `m` and `store` the address; waits for columns and
        permit.

        With `cta_group` 2 it is the half of an allocation of the CTA pair, which also waits for the peer;
        `offset` is where in shared memory the address goes. Faults: ALLOC-SIZE, ALLOC-GROW,
        ALLOC-AFTER-RELINQUISH (0xFFFFFFFF is stored first, as ptxas 13.0's code does), PAIR-NO-PEER,
        PAIR-ALLOC-MISMATCH, PEER-EXIT-EARLY.
        """
        self._check_alloc(m, store, num_cols)
        if cta_group == 2:
            return alloc_half(m, Ask(m, num_cols, offset, store))

        def take() -> None:
            store(self.take(m, self.choose(self.bases(num_cols)), num_cols))

        if self._can_take(m.cta, num_cols):
            take()
            return None
        self.tell_waiting(m, num_cols)
        reason = WaitReason("tmem_alloc", lambda: self._why(m.cta, num_cols))
        return Wait(lambda: self._can_take(m.cta, num_cols), take, reason)

    def _check_alloc(self, m: Warp, store: Callable[[int], None], num_cols: int) -> None:
        """Fault unless the CTA may ask for so many columns now."""
        holding = m.cta.tmem
        if num_cols not in ALLOC_COLS:
            m.fault(
                "ALLOC-SIZE",
                f"tcgen05.alloc of {num_cols} columns: it must be {_one_of(ALLOC_COLS)}",
                hint="round up to the next power of two of at least 32",
            )
        if holding["relinquished"]:
            store(NO_ADDRESS)
            m.fault(
                "ALLOC-AFTER-RELINQUISH",
                f"tcgen05.alloc of {num_cols} columns after the CTA gave up its allocation permit;"
                f" 0x{NO_ADDRESS:X} is stored",
                hint="allocate everything before tcgen05.relinquish_alloc_permit",
            )
        last = holding["last_cols"]
        if num_cols > last:
            m.fault(
                "ALLOC-GROW",
                f"tcgen05.alloc of {num_cols} columns after one of {last}: sizes must not grow",
                hint="allocate the largest block first",
            )

    def bases(self, num_cols: int) -> list[int]:
        """Return the base granules where `num_cols` are free, aligned to their own size, lowest first.

        ASSUMED: natural alignment and lowest-first search; `options.tmem_base` = random picks among the
        aligned ones.
        """
        k = num_cols // GRANULE_COLS
        return [g for g in range(0, NUM_GRANULES, k) if not self.sm_map & ((1 << k) - 1) << g]

    def choose(self, bases: list[int]) -> int:
        """Return the base granule to take."""
        return self._random.choice(bases) if self.options.tmem_base == "random" else bases[0]

    def _can_take(self, cta: Cta, num_cols: int) -> bool:
        return self.permit in (None, cta) and bool(self.bases(num_cols))

    def take(self, m: Warp, granule: int, num_cols: int, cta_group: int = 1) -> int:
        """Mark the free block at `granule` as the CTA's and return its address; its cells are fresh."""
        holding = m.cta.tmem
        self.furnish()
        self.sm_map |= granule_mask(granule, num_cols)
        for name in ("cells", "written"):
            holding[name] = int(self.words[OF_SM[name]])
        holding["sm"] = self.words.ctypes.data
        holding.add(granule, num_cols)
        self.permit = m.cta
        col = granule * GRANULE_COLS
        self.cells[:, col : col + num_cols] = POISON if self.options.tmem_fresh == "poison" else 0
        self.written[:, col : col + num_cols] = self.options.tmem_fresh == "zero"
        self._tell(m, col, num_cols, False, cta_group)
        return col

    def dealloc(self, m: Warp, taddr: int, num_cols: int) -> None:
        """Free the block at `taddr`; lane bits and the column within a granule do not count.

        A block of a CTA pair is freed by each CTA for itself (as the code of ptxas 13.0 does), not before
        the peer has its address. Faults: FREE-SIZE, ALLOC-DOUBLE-FREE, FREE-NOT-BASE, PAIR-DEALLOC-EARLY.
        """
        holding = m.cta.tmem
        granule = (taddr & 0xFFFF) // GRANULE_COLS
        what = f"tcgen05.dealloc of {num_cols} columns at 0x{taddr:08x}"
        if num_cols not in ALLOC_COLS:
            m.fault("FREE-SIZE", f"{what}: the number of columns must be {_one_of(ALLOC_COLS)}")
        mask = granule_mask(granule, num_cols)
        if holding.mine & mask != mask:
            m.fault(
                "ALLOC-DOUBLE-FREE",
                f"{what}: {self._not_mine(m.cta, mask)} (trap: unallocated columns being dealloced)",
            )
        if not holding["starts"] >> granule & 1:
            m.fault(
                "FREE-NOT-BASE",
                f"{what}: no tcgen05.alloc returned that column; {_holds(holding)}"
                " (trap: column being dealloced was not returned by alloc)",
                hint="pass the address that tcgen05.alloc stored",
            )
        size = holding.sizes[granule]
        if size != num_cols:
            m.fault("FREE-SIZE", f"{what}: that allocation has {size} columns; free all of them")
        is_pair = granule in holding.pairs
        self._check_pair(m, granule, what)
        self.sm_map &= ~mask
        holding.drop(granule, num_cols)
        self._tell(m, granule * GRANULE_COLS, num_cols, True, 2 if is_pair else 1)

    def _check_pair(self, m: Warp, granule: int, what: str) -> None:
        """Fault PAIR-DEALLOC-EARLY when the peer still waits in the allocation that is freed."""
        pair = m.cta.tmem.pairs.pop(granule, None)
        if pair is not None and (m.cta.rank & 1 ^ 1) not in pair.passed:
            m.fault(
                "PAIR-DEALLOC-EARLY",
                f"{what}, while the other CTA of the pair has not come past the tcgen05.alloc of these"
                " columns yet",
                hint="put a cluster barrier between the allocation and the first dealloc",
            )

    def relinquish(self, m: Warp) -> None:
        """Give up the right to allocate: other CTAs of the SM may now. Each CTA of a pair does for
        itself.
        """
        m.cta.tmem["relinquished"] = m.cta.tmem["is_used"] = 1
        if self.permit is m.cta:
            self.permit = None
        m.changed()
        if m.grid.observers:
            m.grid.emit(Relinquished(m.agent(), m.place()))

    def cta_exits(self, cta: Cta) -> str:
        """Take back the permit of a CTA that ends; return what it leaks ('' for nothing). Leaked columns
        stay taken.
        """
        if self._at[OF_SM["permit"]] == cta.linear + 1:
            self.permit = None
        if not cta.tmem.mine:
            return ""
        return f"the CTA exits and {_holds(cta.tmem)} of Tensor Memory"

    def _tell(self, m: Warp, col: int, num_cols: int, is_free: bool, cta_group: int) -> None:
        m.changed()
        if m.grid.observers:
            m.grid.emit(TmemAllocated(m.agent(), self.sm, col, num_cols, is_free, m.place(), cta_group))

    def tell_waiting(self, m: Warp, num_cols: int) -> None:
        """Tell the observers that an allocation of `num_cols` columns has to wait, when it has to on this
        SM.
        """
        if not m.grid.observers or self._can_take(m.cta, num_cols):
            return
        is_denied = self.permit not in (None, m.cta)
        permit = self.permit.linear if is_denied and self.permit is not None else -1
        holders = () if self.bases(num_cols) else tuple(c.linear for c in m.sm.ctas if c.tmem.mine)
        m.grid.emit(TmemAwaited(m.agent(), self.sm, num_cols, permit, holders, m.place()))

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
        if lane // PARTITION_LANES == partition:
            return lane
        first = partition * PARTITION_LANES
        detail = (
            f"address 0x{taddr:08x} names lane {lane}, and warp {m.index} reaches lanes {first} to"
            f" {first + PARTITION_LANES - 1} only (warp index modulo 4)"
        )
        hint = f"use a lane field of {first}"
        if self.options.tmem_lane_window == "error":
            m.fault("TMEM-LANE-WINDOW", detail, hint=hint)
        if m.grid.observers and lane >= PARTITION_LANES:  # lanes counted from 0 in every warp are a custom
            m.grid.emit(Remarked(m.agent(), "TMEM-LANE-WINDOW", detail, hint, m.place()))
        return local_lane(taddr, m.index)

    def check(self, m: Warp, col: int, num_cols: int, what: str = "access") -> None:
        """Fault TMEM-COL-OOB or TMEM-NO-ALLOC unless the CTA of `m` owns columns col .. col + num_cols -
        1.

        Ownership counts when an operation is issued (there the checks stand that ptxas inserts on request):
        one that performs after its CTA has freed the columns still touches them.
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
        performing = m.grid.pending.performing
        if performing is not None and performing.warp.cta is m.cta:
            return
        if holding.mine >> first & 1:
            m.fault(
                "TMEM-COL-OOB",
                f"{what} of {cols} runs past what the CTA has allocated: it {_holds(holding)}",
                hint="allocate more columns, or start lower",
            )
        if m.grid.observers:
            m.grid.emit(ColumnsMissing(m.agent(), self.sm, col, num_cols, m.place()))
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
            if self.halves is not None:
                self.halves[where] = False
            m.changed()
        if m.grid.observers:
            lanes = np.arange(lane, lane + num_lanes, dtype=np.int64)
            m.record("tmem", lanes << 16 | col, num_cols, write, "tensor", home=m.cta.linear)
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
        if self.halves is not None:
            self.halves[lanes, cols] = False
        m.changed()

    def note_halves(self, m: Warp, lanes: Index | slice, cols: Index | slice) -> None:
        """Note, when somebody listens, that only the low half of these cells has been written."""
        if m.grid.observers:
            if self.halves is None:
                self.halves = np.zeros_like(self.written)
            self.halves[lanes, cols] = True

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
            m.record("tmem", words, 1, is_write, "tensor", home=m.cta.linear)

    def _check_lanes(self, m: Warp, low: int, high: int, is_write: bool) -> None:
        if low < 0 or high >= NUM_LANES:
            verb = "write" if is_write else "read"
            m.fault(
                "TMEM-LANE-OOB",
                f"{verb} of lanes {low} to {high}: Tensor Memory has lanes 0 to {NUM_LANES - 1}",
            )


def _one_of(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:-1])) + f" or {sizes[-1]}"


def _holds(holding: TmemHolding) -> str:
    """Return 'holds columns 0 to 127' or 'holds none'."""
    if not holding.mine:
        return "holds no columns"
    blocks = [f"{g * GRANULE_COLS} to {g * GRANULE_COLS + n - 1}" for g, n in sorted(holding.sizes.items())]
    return "holds columns " + " and ".join(blocks)
