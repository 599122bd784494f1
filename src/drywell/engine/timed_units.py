"""The units of an SM as queues in time, and when asynchronous work takes effect. Times are SM cycles.

Every duration is a number of `arch.timing`, which has its source; docs/design/clock.md says what is modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drywell.arch.tensor_pipe import Operands, mma_interval_cycles, mma_latency_cycles
from drywell.arch.timing import Timing
from drywell.base.errors import DrywellError
from drywell.base.record import record
from drywell.engine.native.clock_words import (
    GRAIN_BYTES,
    LINE,
    LINE_BYTES,
    LOADED,
    MEMORY,
    PORTS,
    SECTOR_BYTES,
    STORED,
    SUB_PARTITIONS,
)
from drywell.machine.queue import AsyncOp, Traffic
from drywell.machine.windows import GLOBAL_BASE

LANE_BYTES = 4 * 32
"""The bytes of one 32-bit register of a warp."""

_COLUMN_BYTES = 4 * 128
"""The bytes of a column of Tensor Memory."""

_CELLS_PER_CYCLE = 256
"""Cells of D that a tensor pipe serves in a cycle at its peak: 128 rows, two columns. MEASURED: published
umma_throughput.csv of SemiAnalysisAI/microbench-blackwell.
"""

ROW_BYTES, NARROW_ROW_BYTES = 128, 16
"""The longest row that the copy engine moves in one request, and what counts as a short one."""


class Port:
    """A resource that serves one after the other: `free` is when it is next."""

    __slots__ = ("free",)

    def __init__(self) -> None:
        self.free = 0.0

    def take(self, now: float, cycles: float) -> float:
        """Occupy it for some cycles, from `now` or when it is free; return when that begins."""
        begin = max(now, self.free)
        self.free = begin + cycles
        return begin


class SmUnits:
    """The ports of one SM; lists have one for each sub-partition, `ports` are those that instructions take
    (`native.clock_words`), `lines` those of L1. `landed` is when the newest work of the tensor pipe takes
    effect, `has_loaded` says whether a tensor copy has come here.
    """

    def __init__(self, num_lines: int) -> None:
        self.ports = np.zeros(PORTS)
        self.lines = np.zeros((num_lines, len(LINE)), np.int64)
        self.tensor = Port()
        self.tma = Port()
        self.tmem_read = [Port() for _ in range(SUB_PARTITIONS)]
        self.tmem_write = [Port() for _ in range(SUB_PARTITIONS)]
        self.landed = 0.0
        self.has_loaded = False


_ONE_ROW = Traffic(1, ROW_BYTES)


@record
class Flight:
    """One asynchronous operation: on `unit` from `begin` to `end`, its stages perform at `moments`."""

    unit: str
    begin: float
    end: float
    moments: tuple[float, ...]


class Units:
    """All SMs and what they share: L2 and DRAM. `ghz` is the SM clock, `share` how much of both goes to the
    SMs that are driven, 0 to 1.

    What has been done so far: `flops` of the tensor pipes, the `full_cycles` that they take at their peak,
    all SMs added up; `copied_bytes` loaded by copies. `words` are of memory (`clock_words.MEMORY`), `times`
    the same as times.
    """

    def __init__(self, t: Timing, ghz: float, share: float = 1.0) -> None:
        self.t = t
        self.ghz = ghz
        self.flops = 0.0
        self.full_cycles = 0.0
        self.copied_bytes = 0.0
        self._sms: dict[int, SmUnits] = {}
        self._known: set[Any] = set()
        self._touched = np.zeros(0, np.uint8)
        self.words = np.zeros(len(MEMORY), np.int64)
        self.times: Any = self.words.view(np.float64)
        values = {
            "line": 1 / t.l1_lines_per_cycle,
            "store_sector": SECTOR_BYTES / t.store_bytes_per_cycle,
            "store_queue": t.store_queue_bytes / t.store_bytes_per_cycle,
            "l2_sector": SECTOR_BYTES * ghz / (share * t.l2_tb_per_s * 1000),
            "dram_sector": SECTOR_BYTES * ghz / (share * t.dram_tb_per_s * 1000),
            "far": t.dram_extra_latency_ns * ghz,
            "miss": -1.0,
        }
        for name, value in values.items():
            self.times[MEMORY[name]] = value

    @property
    def loaded_bytes(self) -> float:
        """Return the bytes that copies and threads have loaded from L2."""
        return float(self.words[MEMORY["loaded"]])

    def cover(self, num_bytes: int) -> None:
        """Say how many bytes of global memory there are."""
        self._touched = np.zeros(-(-num_bytes // GRAIN_BYTES) + 1, np.uint8)
        self.words[MEMORY["touched"]] = self._touched.ctypes.data
        self.words[MEMORY["num_bytes"]] = num_bytes

    def move(self, unit: str, num_bytes: float, now: float) -> float:
        """Move bytes through L2 or DRAM from `now` on, or when it is free; return when they are through."""
        times, taken = self.times, num_bytes / SECTOR_BYTES * self.times[MEMORY[f"{unit}_sector"]]
        times[MEMORY[f"{unit}_used"]] += taken
        times[MEMORY[unit]] = end = max(now, times[MEMORY[unit]]) + taken
        return float(end)

    def sm(self, index: int) -> SmUnits:
        """Return the units of an SM."""
        found = self._sms.get(index)
        if found is None:
            found = self._sms[index] = SmUnits(int(self.t.l1_bytes) // LINE_BYTES)
        return found

    def fly(self, op: AsyncOp, now: float) -> Flight:
        """Put an operation that is issued at `now` on its unit."""
        match op.unit:
            case "tensor":
                return self._tensor(op, now)
            case "tmem_ld" | "tmem_st":
                return self._tensor_memory(op, now)
            case "tma" | "bulk":
                return self._copy(op, now)
        done = now + self.t.gmem_load_cycles
        return Flight(op.unit, now, now, (done,) * len(op.stages))

    # ---------------------------------------------------------------- the tensor pipe
    def _tensor(self, op: AsyncOp, now: float) -> Flight:
        work, here = op.work, self.sm(op.warp.sm.index)
        if work.role == "commit":
            done = (max(here.landed, now) if op.queue else now) + self.t.commit_cycles
            return Flight("commit", now, now, (done,) * len(op.stages))
        if work.role == "mma":
            cycles, latency = self._product(op)
        else:
            cycles = len(op.columns) * _COLUMN_BYTES / self.t.scale_copy_bytes_per_cycle
            latency = cycles
        begin = max(unit.tensor.free for unit in self._members(op))
        begin = max(begin, now)
        for unit in self._members(op):
            unit.tensor.take(begin, cycles)
        here.landed = max(here.landed, begin + latency)
        return Flight("tensor", begin, begin + cycles, (here.landed,) * len(op.stages))

    def _product(self, op: AsyncOp) -> tuple[float, float]:
        """Return the cycles that an mma has the pipe, and those until its result stands.

        The measured latency covers commit, wake-up and the instructions between the two readings of the
        clock, which have their own time here: the first reading, and the jump behind the wait.
        """
        t, work = self.t, op.work
        M, N, K = work.shape
        self.flops += 2.0 * M * N * K
        self.full_cycles += M * N / _CELLS_PER_CYCLE
        operands: Operands = "TS" if any(name == "A" for name, _, _ in work.operands) else "SS"
        interval = mma_interval_cycles(t, M, N, work.cta_group, operands)
        whole = mma_latency_cycles(t, M, N, work.cta_group, operands, work.kind.startswith("mx"))
        return interval, whole - t.commit_cycles - t.wake_cycles - t.clock_read_cycles - t.jump_cycles

    def _members(self, op: AsyncOp) -> Sequence[SmUnits]:
        """Return the units of the SMs that a tcgen05 operation keeps busy."""
        cta = op.warp.cta
        ctas = (cta,) if op.work.cta_group == 1 or cta.peer is None else (cta, cta.peer)
        return [self.sm(member.sm.index) for member in ctas]

    # ---------------------------------------------------------------- Tensor Memory
    def _tensor_memory(self, op: AsyncOp, now: float) -> Flight:
        t, here, sub = self.t, self.sm(op.warp.sm.index), op.warp.index % SUB_PARTITIONS
        registers = op.work.registers
        if op.unit == "tmem_ld":
            cycles = registers * LANE_BYTES / t.tmem_read_bytes_per_cycle_per_warp
            begin = here.tmem_read[sub].take(now, cycles)
            return Flight("tmem_read", begin, begin + cycles, (begin + cycles + t.tmem_load_wait_cycles,))
        cycles = registers * t.tmem_store_col_cycles
        begin = here.tmem_write[sub].take(now, cycles)
        return Flight("tmem_write", begin, begin + cycles, (begin + cycles + t.tmem_store_cycles,))

    # ---------------------------------------------------------------- copies
    def _copy(self, op: AsyncOp, now: float) -> Flight:
        """Put a copy on the copy engine of its SM, then on L2 and, for what nobody has touched, on DRAM."""
        t, here = self.t, self.sm(op.warp.sm.index)
        traffic = traffic_of(op)
        rows, row_bytes = traffic.rows, traffic.row_bytes
        row_cycles = t.tma_narrow_row_cycles if row_bytes <= NARROW_ROW_BYTES else t.tma_row_cycles
        requests = rows * -(-row_bytes // ROW_BYTES)
        cycles = max(requests * row_cycles, t.tma_issue_cycles)
        begin = here.tma.take(now, cycles)
        num_bytes = rows * row_bytes
        end = max(begin + cycles, self.move("l2", num_bytes, begin))
        if op.work.role in ("store", "reduce"):
            self.move("dram", self.touch(traffic, STORED), begin)
            moments = (end,) * (len(op.stages) - 1) + (end + t.store_drain_cycles,)
            return Flight("tma", begin, begin + cycles, moments)
        wait_ns = t.tma_latency_ns
        self.words[MEMORY["loaded"]] += num_bytes
        self.copied_bytes += num_bytes
        fetched = self.fetched(op, traffic)
        if fetched:
            self.words[MEMORY["fetched"]] += fetched
            end = max(end, self.move("dram", fetched, begin))
            wait_ns += t.dram_extra_latency_ns
        if not here.has_loaded:
            here.has_loaded = True
            wait_ns += t.first_load_ns
        return Flight("tma", begin, begin + cycles, (end + wait_ns * self.ghz,) * len(op.stages))

    def fetched(self, op: AsyncOp, traffic: Traffic) -> int:
        """Return how many bytes of a load come from DRAM: those that nobody has touched."""
        return self.touch(traffic, LOADED)

    def touch(self, traffic: Traffic, done: int) -> int:
        """Note what a copy has `LOADED` or `STORED` in L2; return the bytes that DRAM moves for that."""
        if (traffic.key, done) in self._known:
            return 0
        self._known.add((traffic.key, done))
        starts, length = traffic.spans()
        if not len(starts):
            return 0
        first, last = ((starts + far - GLOBAL_BASE) // GRAIN_BYTES for far in (0, length - 1))
        each = np.arange(int((last - first).max()) + 1)
        grains = np.unique(np.minimum(first[:, None] + each, last[:, None]))
        fresh = grains[self._touched[grains] & (done | STORED) == 0]
        self._touched[fresh] |= done
        return len(fresh) * GRAIN_BYTES


def traffic_of(op: AsyncOp) -> Traffic:
    """Return what a copy moves. One that will fault counts as one row: the fault comes when it performs."""
    if op.traffic is None:
        return _ONE_ROW
    grid = op.warp.grid
    observers, grid.observers = grid.observers, []
    try:
        return op.traffic()
    except DrywellError:
        return _ONE_ROW
    finally:
        grid.observers = observers
