"""The SM clock under load: it falls in a straight line with the use of the tensor pipe, of L2 and of DRAM."""

from __future__ import annotations

from drywell.arch import Gpu
from drywell.arch.timing import Timing

_REFERENCE_BYTES = 64.0
"""Loads per cycle of MMA at which `clock_l2_share` adds nothing: a 256x256 tile of a pair in bf16."""


def load_on_clock(t: Timing, use: float, bytes_per_mma_cycle: float, dram_use: float) -> float:
    """Return the load that the clock falls with: 1 is a tensor pipe that never pauses. `use` is the pipe's,
    `dram_use` DRAM's, 0 to 1; the bytes are those loaded for each cycle of the pipe of one SM.

    >>> from drywell.arch.timing import timing
    >>> round(load_on_clock(timing("b200"), 1.0, 64.0, 0.0), 3)
    1.0
    """
    l2 = t.clock_l2_share * (bytes_per_mma_cycle / _REFERENCE_BYTES - 1)
    return use * (1 + l2) + t.clock_dram_share * dram_use


def clock_under(t: Timing, gpu: Gpu, load: float, sustained: bool) -> float:
    """Return the SM clock in GHz; `sustained` says that the load has lasted for half a second or longer.

    >>> from drywell.arch import load
    >>> from drywell.arch.timing import timing
    >>> clock_under(timing("b200"), load("b200"), 0.0, sustained=False)
    1.965
    """
    most = gpu.boost_clock_mhz / 1000
    full = t.clock_full_sustained_ghz if sustained else t.clock_full_ghz
    return most - (most - full) * load
