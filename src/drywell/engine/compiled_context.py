"""What compiled code of one warp knows besides its registers: the words of `context_words.CONTEXT`.

They hold addresses of the machine's own buffers, none of which moves while a kernel runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.engine.context_words import CONTEXT, CONTEXT_WORDS, WINDOW_FIELDS
from drywell.engine.native.state import Blocks
from drywell.isa.warp import election_of
from drywell.machine.gmem import PLACE_ALIGN, GlobalMemory
from drywell.machine.lanes import LANES
from drywell.machine.local import LaneMemory
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.special import is_of_cta, value_in
from drywell.machine.windows import CALL_PARAMS, GLOBAL_BASE

if TYPE_CHECKING:
    from drywell.engine.compiled_layout import Layout
    from drywell.engine.native.learn import Tables
    from drywell.engine.native.state import Machine
    from drywell.machine.grid import Cta, Grid
    from drywell.machine.warp import Warp

Words = NDArray[np.int64]


def range_ends(gmem: GlobalMemory) -> NDArray[np.uint64]:
    """Return, per granule of 512 bytes, the offset at which the array lying there ends (0 where none lies).

    >>> gmem = GlobalMemory()
    >>> _ = gmem.place("A", 600)
    >>> range_ends(gmem)[:3]
    array([600, 600,   0], dtype=uint64)
    """
    ends = np.zeros(-(-gmem.buffer.data.size // PLACE_ALIGN), np.uint64)
    for array in gmem.arrays:
        first, last = array.address - GLOBAL_BASE, array.end - GLOBAL_BASE
        ends[first // PLACE_ALIGN : -(-last // PLACE_ALIGN)] = last
    return ends


def _set_window(
    words: Any,
    window: str,
    data: NDArray[np.uint8],
    base: int,
    low: int,
    high: int,
    ends: NDArray[np.uint64] | None = None,
    pitch: int = 0,
) -> None:
    """Map the addresses from `base + low` to `base + high` to `data`; `words` may have a column per warp."""
    first = CONTEXT[f"{window}_{WINDOW_FIELDS[0]}"]
    table = 0 if ends is None else ends.ctypes.data
    for k, word in enumerate((data.ctypes.data, base, low, high, table, pitch), first):
        words[k] = word


class GridContext:
    """The words that are the same for all warps of a grid, and the contexts of the warps of its CTAs."""

    def __init__(self, grid: Grid) -> None:
        gmem, params = grid.gmem, grid.params
        self.words: Words = np.zeros(CONTEXT_WORDS, np.int64)
        self.words[CONTEXT["election"]] = election_of(grid.options)
        self._ends = range_ends(gmem)
        _set_window(self.words, "global", gmem.buffer.data, GLOBAL_BASE, 0, gmem.buffer.data.size, self._ends)
        _set_window(self.words, "kernel_params", params.buffer.data, 0, 0, params.nbytes)
        for memory in (LaneMemory("local", 0), LaneMemory("param", 0, CALL_PARAMS)):
            _set_own_window(self.words, memory)

    def context(self, warp: Warp, layout: Layout, tables: Tables | None = None) -> WarpContext:
        """Return the context of a warp; with `tables` for compiled code that has native instructions. Those
        of all warps of a CTA are made at once, and remade for the CTA that has its bank next.
        """
        bank = warp.cta.bank
        if bank.contexts is None:
            bank.contexts = CtaContexts(self.words, warp.cta, layout, tables)
        elif bank.contexts.cta is not warp.cta:
            bank.contexts.renew(warp.cta)
        context: WarpContext = bank.contexts.contexts[warp.index]
        if warp.has_lane_memories:
            for own in warp.lane_memories:
                _set_own_window(context.at, own)
        return context


class CtaContexts:
    """The contexts of the warps of one CTA: of the one that has a bank now. `executed` is what they count."""

    def __init__(self, common: Words, cta: Cta, layout: Layout, tables: Tables | None) -> None:
        count, bank = len(cta.warps), cta.bank
        steps = np.arange(count)
        self.cta = cta
        own = [(k, name) for k, name in enumerate(layout.specials) if is_of_cta(name)]
        values = np.zeros((len(own), LANES), np.uint32)
        self._own = [(name, value) for (_, name), value in zip(own, values, strict=True)]
        self._specials = _special_addresses(cta, layout)
        for (k, _), value in zip(own, values, strict=True):
            self._specials[:, k] = value.ctypes.data
        self.executed = counts = cta.grid.memory.zeros(np.int64, 2, count, layout.num_places)
        self._blocks = None if tables is None else Blocks(cta, tables)
        machines = [None] * count if self._blocks is None else self._blocks.machines
        self._words = words = np.empty((count, CONTEXT_WORDS), np.int64)
        words[:] = common
        _set_window(words.T, "shared", cta.smem.data, 0, RESERVED_BYTES, cta.smem.end)
        columns: dict[str, Any] = {
            "shared_base": [cta.smem.base] * count,
            "registers": bank.registers.ctypes.data + steps * bank.registers.strides[0],
            "runs": counts.ctypes.data + steps * counts.strides[1],
            "passed": counts.ctypes.data + counts.strides[0] + steps * counts.strides[1],
            "specials": self._specials.ctypes.data + steps * self._specials.strides[0],
            "machine": [0 if machine is None else machine.address for machine in machines],
        }
        for name, column in columns.items():
            words[:, CONTEXT[name]] = column
        self._first = words.copy()
        first, flat = words.ctypes.data, words.reshape(-1).data
        self.contexts = [
            WarpContext(
                first + k * words.strides[0],
                flat[k * CONTEXT_WORDS : (k + 1) * CONTEXT_WORDS],
                counts[0, k],
                counts[1, k],
                machine,
            )
            for k, machine in enumerate(machines)
        ]
        self.renew(cta)

    def set_first(self) -> None:
        """Let the words be as they are now when they are those of another CTA."""
        self._first = self._words.copy()

    def renew(self, cta: Cta) -> None:
        """Make them as new ones are, for a CTA with the same bank."""
        self.cta = cta
        self._words[:] = self._first
        self.executed.fill(0)
        for name, value in self._own:
            value.fill(value_in(cta, name))
        if self._blocks is not None:
            self._blocks.renew(cta)


def _special_addresses(cta: Cta, layout: Layout) -> NDArray[np.uint64]:
    """Return where the special registers of each warp lie that compiled code reads."""
    values = [[warp.special(name) for name in layout.specials] for warp in cta.warps]
    addresses = [value.ctypes.data for row in values for value in row]
    return np.array(addresses, np.uint64).reshape(len(cta.warps), len(layout.specials))


def _set_own_window(words: Any, own: LaneMemory) -> None:
    """Map what a warp's lanes have for themselves."""
    window = "local" if own.space == "local" else "call_params"
    _set_window(words, window, own.buffer.data, own.origin, 0, own.nbytes, pitch=own.pitch)


class WarpContext:
    """The words of one warp. `at` reads and writes them fast. What is counted by place is in `runs` (of each
    instruction at which a stretch begins that is always executed as a whole) and `passed` (guarded
    instructions passed over). `machine` is what native machine instructions know, `block` its words, None
    where there are none.
    """

    __slots__ = ("address", "at", "block", "machine", "passed", "runs")

    def __init__(self, address: int, at: Any, runs: Words, passed: Words, machine: Machine | None) -> None:
        self.address = address
        self.at = at
        self.runs = runs
        self.passed = passed
        self.machine = machine
        self.block: Any = None if machine is None else machine.at

    def forget_counts(self) -> None:
        """Count from 0 again."""
        self.runs[:] = 0
        self.passed[:] = 0
