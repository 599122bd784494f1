"""What a warp instruction costs: which pipe it takes for how long, and when its result can be read."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.arch.timing import Timing
from drywell.base.record import record
from drywell.engine.native.clock_words import BANK_BYTES, SUB_PARTITIONS
from drywell.machine.lanes import LANES
from drywell.program import operands as ops
from drywell.program.link import Executable


@record
class Cost:
    """What an instruction costs, in cycles: `pipe` of its sub-partition (none: '') is taken for `cycles`; its
    result can be read `latency` after the issue; the warp goes on after `blocks`. `address` is the register
    and the offset of the bytes it touches in shared memory, `size` at each, when it does. A wait of it goes
    on `wakes` after what ended it. `may_release` says that others may wait for it, `settles` that what stands
    before it is over before it is issued.
    """

    pipe: str = ""
    cycles: float = 0.0
    latency: float = 1.0
    blocks: float = 1.0
    wakes: float = 0.0
    address: tuple[int, int] | None = None
    size: int = 4
    may_release: bool = False
    settles: bool = False


END = Cost(may_release=True)
"""The end of a function."""


class Costs:
    """The costs of the places of an executable, each found when it is first asked for."""

    def __init__(self, executable: Executable, t: Timing) -> None:
        self.t = t
        self._places: list[tuple[Any, int] | None] = []
        self._found: dict[int, Cost] = {}
        for linked in executable.functions:
            self._places += [
                None if isinstance(bound, ops.Unknown) else (bound, linked.register_base)
                for bound in linked.function.code
            ]
            self._places.append(None)

    def of(self, pc: int) -> Cost:
        """Return the cost of the instruction at a place."""
        found = self._found.get(pc)
        if found is None:
            place = self._places[pc]
            found = self._found[pc] = END if place is None else self._cost(*place)
        return found

    def _cost(self, bound: Any, register_base: int) -> Cost:
        t, declaration = self.t, bound.declaration
        lanes = {
            "fma": t.fma_lanes_per_cycle, "alu": t.alu_lanes_per_cycle, "mufu": t.mufu_lanes_per_cycle,
            "warp": t.shuffle_lanes_per_cycle, "matrix": t.shuffle_lanes_per_cycle,
        }  # fmt: skip
        unit = declaration.unit
        latency = {"mufu": t.mufu_latency_cycles, "warp": t.smem_load_cycles, "matrix": t.smem_load_cycles}
        if unit in lanes:
            cycles = LANES * SUB_PARTITIONS / lanes[unit]
            releases = unit == "warp"
            return Cost(unit, cycles, latency.get(unit, t.alu_latency_cycles), may_release=releases)
        if unit in ("mem", "smem"):
            return self._memory(bound, register_base)
        blocks = self._blocks(declaration, bound.mods)
        result = t.mbarrier_test_cycles if declaration.waits else t.mbarrier_arrive_cycles
        latency_cycles = result if unit == "mbarrier" else blocks
        wakes = t.wake_cycles if unit == "mbarrier" else blocks if blocks > 1.0 else 0.0
        settles = unit in ("fence", "barrier", "mbarrier", "sync")
        return Cost(latency=latency_cycles, blocks=blocks, wakes=wakes, may_release=True, settles=settles)

    def _blocks(self, declaration: Any, mods: Any) -> float:
        """Return how long a machine instruction holds up its warp."""
        t = self.t
        match declaration.name:
            case "mbarrier_init":
                return t.mbarrier_init_cycles
            case "tcgen05_alloc":
                is_pair = str(mods["cta_group"]) == "cta_group::2"
                return t.tmem_alloc_pair_cycles if is_pair else t.tmem_alloc_cycles
            case "fence" if mods.get("mbarrier_init"):
                return t.mbarrier_fence_cycles
        if declaration.unit == "barrier":
            return _barrier_cycles(t, declaration.opcode)
        return t.fence_cycles if declaration.unit == "fence" else 1.0

    def _memory(self, bound: Any, register_base: int) -> Cost:
        """Return the cost of a load, store or atomic: by its space, as far as the text says it."""
        t = self.t
        space = str(bound.mods["space"] or "") if "space" in bound.mods else ""
        if space.startswith(("param", "const")):
            return Cost("alu", 1.0, t.alu_latency_cycles)
        address = _address(bound, register_base)
        size = _bytes_of(bound)
        if space.startswith("shared"):
            return Cost("smem", 0.0, t.smem_load_cycles, address=address, size=size)
        latency = t.smem_load_cycles if space == "local" else t.gmem_load_cycles
        return Cost("lsu", size * LANES / t.smem_bytes_per_cycle, latency, size=size)


def _barrier_cycles(t: Timing, opcode: str) -> float:
    """Return how long a barrier takes whoever comes last; to arrive alone takes an issue."""
    if "arrive" in opcode or "warp" in opcode:
        return 1.0
    return t.cluster_barrier_cycles if "cluster" in opcode else t.named_barrier_cycles


def _bytes_of(bound: Any) -> int:
    """Return the bytes that a lane moves, by the modifiers of an instruction."""
    words = [str(bound.mods[name]) for name in ("type", "vec") if bound.mods.get(name)]
    digits = "".join(ch for ch in (words[0] if words else "b32") if ch.isdigit()) or "32"
    count = int(words[1][1:]) if len(words) > 1 else 1
    return max(int(digits) // 8, 1) * count


def _address(bound: Any, register_base: int) -> tuple[int, int] | None:
    """Return the register and the offset of the addresses of an instruction; None when a symbol gives it,
    which is one address for all lanes.
    """
    for operand in bound.sources:
        if isinstance(operand, ops.Memory) and isinstance(operand.base, ops.Register):
            return operand.base.index + register_base, operand.offset
    return None


@lru_cache(maxsize=1)
def _wavefronts() -> Any:
    from drywell.engine.native import runtime
    from drywell.engine.native.clock import WAVEFRONTS

    types = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *types)(runtime.find(WAVEFRONTS))


def wavefronts(addresses: NDArray[Any], size: int) -> int:
    """Return how many cycles the banks need for an access of `size` bytes by each of the lanes at
    `addresses`: lanes of one word share it, words of one bank follow each other.

    >>> import numpy as np
    >>> lanes = np.arange(32)
    >>> [wavefronts(lanes * step, 4) for step in (4, 8, 128, 0)], wavefronts(lanes * 16, 16)
    ([1, 2, 32, 1], 4)
    """
    words = np.asarray(addresses).astype(np.int64) // BANK_BYTES
    return int(_wavefronts()(words.ctypes.data, len(words), size))
