"""Compile a region and run it on a warp's own registers and memory.

The machine's flat buffers are used where they lie: nothing is copied in or out. LLVM's
IR passes do not run unless asked for: they take as long as the rest and gain a fifth in a hot loop.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import process_time
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numpy.typing import NDArray

from drywell.engine import llvm_runtime
from drywell.engine.llvm_memory import CONTEXT, CONTEXT_WORDS, MISALIGNED, WINDOW_FIELDS
from drywell.engine.llvm_region import NAME, Region, Status, write_region
from drywell.engine.llvm_text import LANES, Module
from drywell.machine.gmem import PLACE_ALIGN, GlobalMemory
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.warp import Warp
from drywell.machine.windows import GLOBAL_BASE
from drywell.program.link import Executable

UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Fault:
    """The access that stopped a region: the index of its instruction, its lanes, all lanes' addresses."""

    is_misaligned: bool
    place: int
    lanes: tuple[int, ...]
    addresses: tuple[int, ...]


class Context:
    """What compiled code knows besides registers: fuel, fault, special registers and the windows of
    memory; see `llvm_memory`.

    It holds addresses of the machine's buffers, and must be made anew when one of them has moved
    (global memory does when it grows).
    """

    def __init__(self) -> None:
        self.words: NDArray[np.uint64] = np.zeros(CONTEXT_WORDS, np.uint64)
        self._kept: dict[str, Any] = {}
        self["fuel"] = UNLIMITED

    def __setitem__(self, name: str, value: int) -> None:
        self.words[CONTEXT[name]] = value & (2**64 - 1)

    def __getitem__(self, name: str) -> int:
        return int(self.words[CONTEXT[name]])

    def set_window(
        self,
        window: str,
        data: NDArray[np.uint8],
        base: int,
        low: int,
        high: int,
        ends: NDArray[np.uint64] | None = None,
        pitch: int = 0,
    ) -> None:
        """Map the addresses from `base + low` to `base + high` to `data`; the fields are those of
        `llvm_memory`.
        """
        self._kept[window] = data, ends
        values = (data.ctypes.data, base, low, high, 0 if ends is None else ends.ctypes.data, pitch)
        for field, value in zip(WINDOW_FIELDS, values, strict=True):
            self[f"{window}_{field}"] = value

    def set_specials(self, values: Iterable[NDArray[Any]]) -> None:
        """Give the special registers that a region reads, in its order."""
        arrays = [np.ascontiguousarray(v) for v in values]
        table = np.array([a.ctypes.data for a in arrays], np.uint64)
        self._kept["specials"] = arrays, table
        self["specials"] = table.ctypes.data

    @property
    def fault(self) -> Fault | None:
        """Return the fault that stopped the code, if one did."""
        kind = self["fault"]
        if not kind:
            return None
        lanes = tuple(k for k in range(LANES) if self["fault_lanes"] >> k & 1)
        first = CONTEXT["fault_addresses"]
        return Fault(
            kind == MISALIGNED, self["fault_place"], lanes, tuple(self.words[first : first + LANES].tolist())
        )


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


def context_of(warp: Warp) -> Context:
    """Return the context of a warp: its windows onto the machine's memory as it lies now."""
    context = Context()
    gmem, smem, params = warp.grid.gmem, warp.cta.smem, warp.grid.params
    ends = range_ends(gmem)
    context.set_window("global", gmem.buffer.data, GLOBAL_BASE, 0, gmem.buffer.data.size, ends)
    context.set_window("shared", smem.data, smem.base, RESERVED_BYTES, smem.end)
    context.set_window("kernel_params", params.buffer.data, 0, 0, params.nbytes)
    for window, own in (("call_params", warp.call_params), ("local", warp.local)):
        context.set_window(window, own.buffer.data, own.origin, 0, own.nbytes, pitch=own.pitch)
    return context


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled region: `specials` are the special registers it reads, `is_native` says that nothing
    calls back into Python.

    `seconds` are CPU seconds to write, parse and compile it.
    """

    region: Region
    specials: tuple[str, ...]
    is_native: bool
    seconds: dict[str, float]
    function: Any
    engine: Any

    def run(self, registers: NDArray[np.uint8], context: Context) -> Status:
        """Run the region on a warp's register buffer; all 32 lanes are active. The context holds the
        fault, if it stopped for one.
        """
        return Status(self.function(registers.ctypes.data, context.words.ctypes.data))

    def run_warp(self, warp: Warp, context: Context) -> Status:
        """Run the region for a warp whose 32 lanes are all active."""
        context.set_specials(warp.special(name) for name in self.specials)
        return self.run(warp.registers, context)


@lru_cache(maxsize=1)
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


def _machine(level: int) -> Any:
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return _target().create_target_machine(
        cpu=cpu, features=features, opt=level, jit=True, codemodel="jitdefault"
    )


def compile_module(
    module: Module, name: str, num_pointers: int, optimise: int = 0
) -> tuple[Any, Any, dict[str, float]]:
    """Compile a module; return its function `name` of so many pointers, what must be kept alive for it,
    and CPU seconds by phase.

    `optimise` 0 runs no IR passes, 1 to 3 LLVM's pipeline of that level.
    """
    begun = process_time()
    machine = _machine(max(optimise, 1))
    llvm_runtime.install(module.runtime.values())
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    times = {"parse": process_time() - begun}
    if optimise:
        tuning = llvm.create_pipeline_tuning_options(speed_level=optimise)
        tuning.loop_vectorization = tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(parsed, builder)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    times["compile"] = process_time() - begun - times["parse"]
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * num_pointers)
    return prototype(engine.get_function_address(name)), engine, times


def compile_region(
    region: Region, executable: Executable, addresses: Mapping[str, int], optimise: int = 0
) -> Compiled:
    """Compile a region of an executable whose global and const variables lie at `addresses`.

    Raises UnsupportedError for an instruction that cannot stand in a region.
    """
    begun = process_time()
    text = write_region(region, executable, addresses)
    written = process_time() - begun
    function, engine, times = compile_module(text.module, NAME, 2, optimise)
    return Compiled(region, text.specials, text.is_native, {"write": written, **times}, function, engine)
