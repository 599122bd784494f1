"""What a warp instruction costs: which pipe it takes for how long, and when its result can be read."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.arch.timing import Timing
from drywell.base.record import record
from drywell.engine.native.clock_words import BANK_BYTES, SUB_PARTITIONS
from drywell.engine.threaded import CLOCKS
from drywell.machine.lanes import LANES
from drywell.program import operands as ops
from drywell.program.link import Executable


@record
class Cost:
    """What an instruction costs, in cycles: `pipe` of its sub-partition (none: '') is taken for `cycles`; its
    result can be read `latency` after the issue (`hit`, when the line is in L1, where it `caches`); the
    warp goes on after `blocks`, after `leaps` more when that is elsewhere. `address` is the register and the
    offset of the bytes it touches in shared or global memory, `size` at each. A wait of it goes on `wakes`
    after what ended it. `may_release` says that others may wait for it, `frees` that those of other clusters
    may, for Tensor Memory.

    ptxas moves instructions, but only between two that begin a `block`. Those that `move` take their operands
    as early as in the block these are there. One without a pipe, or that begins a block, is issued when all
    before it have had their operands, and `lead` after its own; one that `rewrites` registers when the stores
    before it have read theirs, which takes `reads`; one that `ends` a warp when its loads are back. An access
    beyond the SM `lands`: the launch ends when all have. Before one with `yields`, lanes that are not the
    whole warp give way to the others for so long.
    """

    pipe: str = ""
    cycles: float = 0.0
    latency: float = 1.0
    blocks: float = 1.0
    wakes: float = 0.0
    address: tuple[int, int] | None = None
    size: int = 4
    may_release: bool = False
    frees: bool = False
    hit: float = 0.0
    reads: float = 0.0
    leaps: float = 0.0
    lead: float = 0.0
    yields: float = 0.0
    is_global: bool = False
    caches: bool = False
    stores: bool = False
    lands: bool = False
    ends: bool = False
    moves: bool = False
    block: bool = False
    rewrites: bool = False


_FREEING = "tcgen05_dealloc", "tcgen05_relinquish_alloc_permit"
"""The instructions after which another cluster may have Tensor Memory."""

_LOADS = "ld", "ldu"
_ACCESSES = *_LOADS, "st", "atom", "atom_cas", "red"
"""What moves data between registers and global memory; what does not load it, writes it."""

END = Cost(may_release=True, block=True, rewrites=True)
"""The end of a function."""


class Costs:
    """The costs of the places of an executable, each found when it is first asked for."""

    def __init__(self, executable: Executable, t: Timing) -> None:
        self.t = t
        self._places: list[tuple[Any, int] | None] = []
        self._found: dict[int, Cost] = {}
        self._heads: set[int] = set()
        self._ends: set[int] = set()
        for linked in executable.functions:
            self._heads |= {len(self._places) + head for head in _heads(linked.function.code)}
            self._places += [
                None if isinstance(bound, ops.Unknown) else (bound, linked.register_base)
                for bound in linked.function.code
            ]
            self._places.append(None)
            self._ends |= {linked.pc_base + at for at in _ends(linked.function, executable.entry)}

    def of(self, pc: int) -> Cost:
        """Return the cost of the instruction at a place."""
        found = self._found.get(pc)
        if found is None:
            place = self._places[pc]
            found = END if place is None else self._cost(*place)
            if pc in self._heads:
                found = replace(found, yields=self.t.yield_cycles)
            if pc in self._ends:
                found = replace(found, ends=True)
            self._found[pc] = found
        return found

    def _cost(self, bound: Any, register_base: int) -> Cost:
        t, declaration = self.t, bound.declaration
        lanes = {
            "fma": t.fma_lanes_per_cycle, "alu": t.alu_lanes_per_cycle, "mufu": t.mufu_lanes_per_cycle,
            "warp": t.shuffle_lanes_per_cycle, "matrix": t.shuffle_lanes_per_cycle,
        }  # fmt: skip
        unit = declaration.unit
        slow = {"mufu": t.mufu_latency_cycles, "warp": t.smem_load_cycles, "matrix": t.smem_load_cycles}
        if unit in lanes:
            cycles = LANES * SUB_PARTITIONS / lanes[unit]
            if any(name.startswith(CLOCKS) for name in ops.specials(bound)):
                latency, blocks = t.alu_latency_cycles, t.clock_read_cycles
                return Cost(unit, cycles, latency, blocks, block=True, rewrites=True)
            result = t.special_register_cycles if _is_moved_from_afar(bound) else t.alu_latency_cycles
            result *= 2 if _is_wide_sum(bound) else 1
            moves, releases = unit in ("alu", "fma"), unit == "warp"
            return Cost(unit, cycles, slow.get(unit, result), may_release=releases, moves=moves)
        if unit in ("mem", "smem"):
            return self._memory(bound, register_base)
        if unit == "control":
            return Cost(
                blocks=t.jump_cycles,
                leaps=t.jump_taken_cycles - t.jump_cycles,
                lead=t.predicate_to_jump_cycles - t.alu_latency_cycles,
                may_release=True,
                block=True,
                rewrites=True,
            )
        if unit in ("async", "tensor"):
            blocks = t.copy_issue_cycles if unit == "async" else 1.0
            lead = t.uniform_move_cycles - t.alu_latency_cycles
            return Cost(latency=blocks, blocks=blocks, lead=lead, may_release=True)
        blocks = self._blocks(declaration, bound.mods)
        result = t.mbarrier_test_cycles if declaration.waits else t.mbarrier_arrive_cycles
        latency_cycles = result if unit == "mbarrier" else blocks
        wakes = t.wake_cycles if unit == "mbarrier" else blocks if blocks > 1.0 else 0.0
        frees = declaration.name in _FREEING
        return Cost(
            latency=latency_cycles, blocks=blocks, wakes=wakes, may_release=True, frees=frees, block=True
        )

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
        t, name = self.t, bound.declaration.name
        space = str(bound.mods["space"] or "") if "space" in bound.mods else ""
        if space.startswith(("param", "const")):
            return Cost("alu", 1.0, t.alu_latency_cycles)
        address = _address(bound, register_base)
        size = _bytes_of(bound)
        if space.startswith("shared"):
            return Cost("smem", 0.0, t.smem_load_cycles, address=address, size=size)
        latency = t.smem_load_cycles if space == "local" else t.gmem_load_cycles
        cost = Cost("lsu", size * LANES / t.smem_bytes_per_cycle, latency, size=size, lands=space != "local")
        if space == "local" or name not in _ACCESSES or address is None:
            return cost
        stores, caches = name not in _LOADS, name in ("ld", "st") and _is_cached(bound.mods)
        return replace(
            cost, address=address, hit=t.l1_load_cycles, is_global=True, caches=caches,
            stores=stores, reads=t.store_read_cycles if name == "st" else 0.0,
        )  # fmt: skip


def _heads(code: Any) -> set[int]:
    """Return where ptxas lets other threads of a warp go first: at the head of the innermost loop around each
    wait for an mbarrier (its own, which begins with it, not counted), in a function that frees Tensor Memory.
    """
    known = [(at, bound) for at, bound in enumerate(code) if not isinstance(bound, ops.Unknown)]
    if not any(bound.declaration.name == "tcgen05_dealloc" for _, bound in known):
        return set()
    targets = [(at, each.pc) for at, bound in known for each in bound.sources if isinstance(each, ops.Target)]
    loops = [(end - head, head, end) for end, head in targets if head <= end]
    waits = [at for at, bound in known if bound.declaration.unit == "mbarrier" and bound.declaration.waits]
    around = [[loop for loop in loops if loop[1] < wait <= loop[2]] for wait in waits]
    return {min(found)[1] for found in around if found}


def _ends(function: Any, entry: Any) -> set[int]:
    """Return where lanes end: at `exit`; in the entry at `ret`, and behind its last instruction."""
    opcodes = {"exit", "ret"} if function is entry else {"exit"}
    known = [(at, bound) for at, bound in enumerate(function.code) if not isinstance(bound, ops.Unknown)]
    found = {at for at, bound in known if bound.declaration.opcode in opcodes}
    return found | {len(function.code)} if function is entry else found


def _is_cached(mods: Any) -> bool:
    """Say whether an access of global memory finds its line in L1, and leaves it there."""
    is_weak = str(mods["sem"] or "weak") == "weak" and not mods["mmio"]
    is_elsewhere = str(mods["cop"]) in ("cg", "cv", "wt") or "no_allocate" in str(mods["l1"])
    return is_weak and not is_elsewhere


def _is_wide_sum(bound: Any) -> bool:
    """Say whether an instruction adds 64 bits: two of machine code, of which one waits for the other."""
    return bound.declaration.name in ("add", "sub") and str(bound.mods["type"]) in ("u64", "s64")


def _is_moved_from_afar(bound: Any) -> bool:
    """Say whether an instruction moves a special register, or the address of a variable in shared memory, of
    which one holds where the window of the CTA lies.
    """
    is_shared = any(symbol.space == "shared" for symbol in ops.symbols(bound))
    return bound.declaration.name == "mov" and (is_shared or bool(ops.specials(bound)))


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
    from drywell.engine.native.clock_memory import WAVEFRONTS

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
