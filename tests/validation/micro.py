"""The single-instruction and single-CTA measurements, and what the closed forms say of each."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from drywell.arch.tensor_pipe import Operands, mma_interval_cycles, mma_latency_cycles, mma_overhead_cycles
from drywell.arch.timing import Timing
from drywell.plan.stream import stream_step_cycles

DATA = Path(__file__).parent / "data"
GHZ = 1.965
"""The clock with which the measurements' authors turned cycles into time."""


@dataclass(frozen=True, slots=True)
class Mma:
    """One measured tcgen05.mma: M and N of the instruction, chain length (1 for latency), cycles of each."""

    M: int
    N: int
    cta_group: int
    operands: Operands
    block_scaled: bool
    depth: int
    cycles: float

    def predicted(self, t: Timing) -> float:
        """Return the latency of one, or the cycles of each of a chain that ends with a wait."""
        form = (self.M, self.cta_group, self.operands, self.block_scaled)
        if self.depth == 1:
            M, group, operands, scaled = form
            return mma_latency_cycles(t, M, self.N, group, operands, scaled)
        interval = mma_interval_cycles(t, self.M, self.N, self.cta_group, self.operands)
        return interval + mma_overhead_cycles(t, *form) / self.depth


@dataclass(frozen=True, slots=True)
class Loop:
    """One measured main loop: tile, stages, bytes of an element, cycles of a K step."""

    tile: tuple[int, int, int]
    stages: int
    element_bytes: int
    cycles: float

    def predicted(self, t: Timing) -> float:
        """Return the cycles of a K step."""
        return stream_step_cycles(t, self.tile, self.stages, self.element_bytes)


def latencies() -> tuple[Mma, ...]:
    """Read umma_latency.csv."""
    return tuple(_mma(line, 1, line["MedianCycles"]) for line in _lines("umma_latency.csv"))


def throughputs() -> tuple[Mma, ...]:
    """Read umma_throughput.csv."""
    return tuple(
        _mma(line, int(line["PipelineDepth"]), line["CyclesPerMMA"]) for line in _lines("umma_throughput.csv")
    )


def loops() -> tuple[Loop, ...]:
    """Read the rows of cutlass_mainloop.csv that were built and have two stages or more."""
    return tuple(
        Loop(
            (int(line["TILE_M"]), int(line["TILE_N"]), int(line["TILE_K"])),
            int(line["STAGES"]),
            {"BF16": 2, "FP8_E4M3": 1}[line["dtype"]],
            float(line["time_ms"]) * GHZ * 1e6 * int(line["TILE_K"]) / int(line["K"]),
        )
        for line in _lines("cutlass_mainloop.csv")
        if int(line["STAGES"]) >= 2
    )


def failed_builds() -> int:
    """Count the configurations of cutlass_mainloop.csv that could not be built."""
    text = (DATA / "cutlass_mainloop.csv").read_text(encoding="utf-8")
    return sum(line.startswith("# BUILD_FAILED") for line in text.splitlines())


def _mma(line: dict[str, str], depth: int, cycles: str) -> Mma:
    """Make one row of either umma file."""
    return Mma(
        int(line["M"]),
        int(line["N"]),
        int(line["CTAGroup"]),
        cast(Operands, line["ABLayout"]),
        line["Format"].startswith("MX"),
        depth,
        float(cycles),
    )


def _lines(name: str) -> list[dict[str, str]]:
    """Read a CSV file without its comments."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))
