"""The same tile on Hopper, whose accumulator lies in registers, and on Blackwell, where it lies in Tensor
Memory.

On Hopper `wgmma` gives each of a warpgroup's 128 threads M x N / 128 registers of an M x N accumulator. The
warpgroups that multiply share the register file with one that copies, so more of them have fewer registers
each.
"""

from __future__ import annotations

from drywell.base.record import record
from drywell.plan.columns import accumulator, allocated_cols

REGISTER_FILE = 65536
"""SPEC: 32-bit registers of an SM of compute capability 9.0. Source: CUDA C++ Programming Guide, technical
specifications per compute capability.
"""
MOST_REGISTERS = 255
"""SPEC: registers of a thread. Source: as above."""
COPY_REGISTERS = 24
"""SPEC: the fewest that `setmaxnreg` leaves the warpgroup that copies. Source: PTX ISA, setmaxnreg."""
WORKING_REGISTERS = 26
"""MEASURED: what a thread takes beside its accumulator. Source: ptxas 13.0.88 -v for sm_90a, a loop over
wgmma.m64n256k16 with 128 registers of accumulator and their stores takes 154; that of 256 spills.
"""

_STEP = 8
_WARPGROUP_THREADS = 128
_WGMMA_M = 64
_SHARES = (1, 2, 3, 4)


@record
class Share:
    """An accumulator in the registers of `warpgroups` that multiply: `registers` of each thread hold it, of
    the `limit` that a thread can have; `spilled` are beyond it, with what a thread takes besides.
    """

    warpgroups: int
    registers: int
    limit: int

    @property
    def spilled(self) -> int:
        """Registers of a thread that find no place, 0 when all do."""
        return max(0, self.registers + WORKING_REGISTERS - self.limit)


@record
class HopperComparison:
    """A tile of `accumulators` accumulators, M x N in f32: in the registers of 1, 2, ... warpgroups, and as
    `cols` columns of Tensor Memory, where it takes no register.
    """

    M: int
    N: int
    accumulators: int
    shares: tuple[Share, ...]
    cols: int

    @property
    def allocated(self) -> int | None:
        """The columns that are allocated for it, None when there are not so many."""
        return allocated_cols(self.cols)

    @property
    def fits_hopper(self) -> bool:
        """Tell whether some number of warpgroups holds it without spilling."""
        return any(not share.spilled for share in self.shares)

    @property
    def text(self) -> str:
        """The comparison in lines of text."""
        count = f"{self.accumulators} x " if self.accumulators > 1 else ""
        lines = [f"accumulator {count}{self.M}x{self.N} f32"]
        for s in self.shares:
            groups = f"{s.warpgroups} warpgroup{'s' if s.warpgroups > 1 else ''}"
            end = f"{s.spilled} spill" if s.spilled else "fits"
            need = f"{s.registers} + {WORKING_REGISTERS} of {s.limit} registers a thread"
            lines.append(f"  Hopper, {groups}: {need}: {end}")
        has = f"{self.allocated} allocated" if self.allocated else "512 is all there is"
        lines.append(f"  Blackwell: 0 registers, {self.cols} columns of Tensor Memory, {has}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def thread_registers(warpgroups: int) -> int:
    """Return the registers of a thread when `warpgroups` multiply and one more copies.

    All threads start with the same share of the file; `setmaxnreg` then gives what the copying warpgroup
    leaves to the others. FlashAttention 3 has the same 240 and 160.
    Source: PTX ISA, setmaxnreg; Dao-AILab/flash-attention hopper/flash_fwd_kernel_sm90.h.

    >>> [thread_registers(n) for n in (1, 2, 3, 4)]
    [255, 240, 160, 112]
    """
    groups = warpgroups + 1
    start = REGISTER_FILE // (groups * _WARPGROUP_THREADS) // _STEP * _STEP
    rest = start * groups - COPY_REGISTERS
    return min(MOST_REGISTERS, rest // warpgroups // _STEP * _STEP)


def compare_with_hopper(M: int, N: int, accumulators: int = 1) -> HopperComparison:
    """Compare where `accumulators` accumulators of M x N in f32 lie on Hopper and on Blackwell.

    M is 64 or a multiple of 128, N what one instruction has. Rows go to warpgroups in blocks of 64.

    >>> print(compare_with_hopper(128, 256, 2))
    accumulator 2 x 128x256 f32
      Hopper, 1 warpgroup: 512 + 26 of 255 registers a thread: 283 spill
      Hopper, 2 warpgroups: 256 + 26 of 240 registers a thread: 42 spill
      Hopper, 4 warpgroups: 128 + 26 of 112 registers a thread: 42 spill
      Blackwell: 0 registers, 512 columns of Tensor Memory, 512 allocated
    """
    blocks = accumulators * M // _WGMMA_M
    shares = tuple(
        Share(n, accumulators * M * N // (n * _WARPGROUP_THREADS), thread_registers(n))
        for n in _SHARES
        if blocks % n == 0
    )
    cols = accumulators * accumulator("D", M, N).cols
    return HopperComparison(M, N, accumulators, shares, cols)
