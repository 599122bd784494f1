"""A streaming multiprocessor: what CTAs that are resident on it share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drywell.machine.lanes import LANES
from drywell.machine.smem import RESERVED_BYTES
from drywell.machine.tmem import TensorMemory

if TYPE_CHECKING:
    from drywell.machine.grid import Cta, Grid


class Sm:
    """One SM: its Tensor Memory and the CTAs resident on it; `collectors` are what the buffers of its
    tensor core keep, `keeps[0]` says whether one keeps something.
    """

    def __init__(self, grid: Grid, index: int) -> None:
        self.grid = grid
        self.index: int = index
        self.ctas: list[Cta] = []
        self.collectors: dict[str, Any] = {}
        self.keeps = grid.keeps[index : index + 1]
        self._tmem: TensorMemory | None = None

    @property
    def tmem(self) -> TensorMemory:
        """Return the SM's Tensor Memory (made when first asked for)."""
        if self._tmem is None:
            grid, words = self.grid, self.grid.tmem_words[self.index]
            self._tmem = TensorMemory(
                self.index, grid.options, grid.memory, self.ctas, grid.spare_tmem, words
            )
        return self._tmem

    @property
    def tmem_words(self) -> int:
        """Return where the words of its Tensor Memory lie, with cells of an SM that needs them no more; 0
        where there are none yet.
        """
        if self._tmem is None and not self.grid.spare_tmem:
            return 0
        if self.grid.spare_tmem:
            self.tmem.furnish()
        return self.grid.tmem_words_at + self.index * self.grid.tmem_words.strides[0]

    def leave(self, cta: Cta) -> None:
        """Let a CTA go that has exited. The cells of an idle SM that nobody looks at are for others."""
        self.ctas.remove(cta)
        is_seen = self.grid.observers or len(self.grid.pending)
        if not self.ctas and self._tmem is not None and not is_seen:
            self._tmem.hand_on()

    @property
    def cta_smem_bytes(self) -> int:
        """Return the bytes of shared memory that one CTA takes."""
        grain = self.grid.gpu.smem_granule_bytes
        return -(-(self.grid.kernel.smem_bytes + RESERVED_BYTES) // grain) * grain

    def needs(self) -> tuple[tuple[str, int, int], ...]:
        """Return, per resource, its name, what one CTA takes and what an SM has."""
        gpu, kernel, warps = self.grid.gpu, self.grid.kernel, self.grid.num_warps
        per_warp = (kernel.max_registers or 0) * LANES
        per_warp = -(-per_warp // gpu.register_granule_per_warp) * gpu.register_granule_per_warp
        return (
            ("CTA slots", 1, gpu.max_ctas_per_sm),
            ("warps", warps, gpu.max_warps_per_sm),
            ("bytes of shared memory", self.cta_smem_bytes, gpu.smem_bytes_per_sm),
            ("registers", per_warp * warps, gpu.registers_per_sm),
        )

    def capacity(self) -> int:
        """Return how many CTAs fit at once."""
        return min(have // need for _, need, have in self.needs() if need)
