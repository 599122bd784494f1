"""What compiled code of one warp knows besides its registers: the words of `llvm_memory.CONTEXT`.

They hold addresses of the machine's own buffers, none of which moves while a kernel runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drywell.engine.llvm_memory import CONTEXT, CONTEXT_WORDS, WINDOW_FIELDS
from drywell.machine.gmem import PLACE_ALIGN, GlobalMemory
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.windows import GLOBAL_BASE

if TYPE_CHECKING:
    from drywell.engine.compiled_layout import Layout
    from drywell.engine.native.state import Machine
    from drywell.machine.grid import Grid
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
    words: Words,
    window: str,
    data: NDArray[np.uint8],
    base: int,
    low: int,
    high: int,
    ends: NDArray[np.uint64] | None = None,
    pitch: int = 0,
) -> None:
    """Map the addresses from `base + low` to `base + high` to `data`."""
    first = CONTEXT[f"{window}_{WINDOW_FIELDS[0]}"]
    table = 0 if ends is None else ends.ctypes.data
    words[first : first + len(WINDOW_FIELDS)] = (data.ctypes.data, base, low, high, table, pitch)


class GridContext:
    """The words that are the same for all warps of a grid."""

    def __init__(self, grid: Grid) -> None:
        gmem, params = grid.gmem, grid.params
        self.words: Words = np.zeros(CONTEXT_WORDS, np.int64)
        self._ends = range_ends(gmem)
        _set_window(self.words, "global", gmem.buffer.data, GLOBAL_BASE, 0, gmem.buffer.data.size, self._ends)
        _set_window(self.words, "kernel_params", params.buffer.data, 0, 0, params.nbytes)


class WarpContext:
    """The words of one warp. `at` reads and writes them fast. What is counted by place is in `runs` (of each
    instruction at which a stretch begins that is always executed as a whole) and `passed` (guarded
    instructions passed over). `machine` is what native machine instructions know, `block` its words, None
    where there are none.
    """

    __slots__ = ("_kept", "address", "at", "block", "machine", "passed", "runs", "words")

    def __init__(
        self, warp: Warp, common: GridContext, layout: Layout, machine: Machine | None = None
    ) -> None:
        words = self.words = common.words.copy()
        smem = warp.cta.smem
        _set_window(words, "shared", smem.data, smem.base, RESERVED_BYTES, smem.end)
        for window, own in (("call_params", warp.call_params), ("local", warp.local)):
            _set_window(words, window, own.buffer.data, own.origin, 0, own.nbytes, pitch=own.pitch)
        self.runs = np.zeros(layout.num_places, np.int64)
        self.passed = np.zeros(layout.num_places, np.int64)
        specials = [np.ascontiguousarray(warp.special(name)) for name in layout.specials]
        table = np.array([s.ctypes.data for s in specials], np.uint64)
        self._kept: Any = specials, table
        arrays: dict[str, NDArray[Any]] = {
            "registers": warp.registers,
            "runs": self.runs,
            "passed": self.passed,
            "specials": table,
        }
        for name, array in arrays.items():
            words[CONTEXT[name]] = array.ctypes.data
        self.machine = machine
        self.block: Any = None if machine is None else memoryview(machine.block)  # type: ignore[arg-type]
        if machine is not None:
            words[CONTEXT["machine"]] = machine.address
        self.address: int = words.ctypes.data
        self.at: Any = memoryview(words)  # type: ignore[arg-type]

    def forget_counts(self) -> None:
        """Count from 0 again."""
        self.runs[:] = 0
        self.passed[:] = 0
