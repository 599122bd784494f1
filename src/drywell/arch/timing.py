"""How long things take on one GPU: the table `[timing]` of its TOML file as one frozen value."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from drywell.arch.gpu import load, read
from drywell.base.record import record

TimingTag = Literal["SPEC", "MEASURED", "FITTED", "ASSUMED"]


@record
class TimingFact:
    """One duration or rate of a GPU: its unit, where it is from and how far it can be trusted."""

    name: str
    value: float
    unit: str
    tag: TimingTag
    confidence: Literal["high", "medium", "low"]
    source: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value:g} {self.unit} [{self.tag}, {self.confidence}] {self.source}"


@record
class Timing:
    """The durations and rates of one GPU, in the unit each name ends in; `facts` gives the source of each.

    Cycles are those of the SM's clock; ns belong to clocks that do not follow it.

    Example:
        >>> timing("b200").mma_latency_m128_ss_cycles
        136.0
    """

    mma_cols_per_cycle: float
    mma_pair_m128_cols_per_cycle: float
    mma_pair_m128_smem_extra_cycles: float
    mma_pair_m256_smem_extra_cycles: float
    mma_pair_m128_ts_floor_cycles: float
    mma_latency_m64_ss_cycles: float
    mma_latency_m128_ss_cycles: float
    mma_latency_ts_cycles: float
    mma_latency_pair_m128_ss_cycles: float
    mma_latency_pair_m128_ts_cycles: float
    mma_latency_pair_m256_ss_cycles: float
    mma_latency_pair_m256_ts_cycles: float
    mma_latency_block_scaled_cycles: float
    scale_copy_bytes_per_cycle: float
    smem_bytes_per_cycle: float
    tmem_read_bytes_per_cycle_per_warp: float
    tmem_load_wait_cycles: float
    commit_cycles: float
    wake_cycles: float
    tma_row_cycles: float
    tma_narrow_row_cycles: float
    tma_latency_ns: float
    dram_extra_latency_ns: float
    stream_latency_cycles: float
    stream_row_cycles: float
    stream_byte_cycles: float
    stream_transfer_cycles: float
    stream_wide_b_cycles: float
    stream_issue_cycles: float
    stream_issue_row_cycles: float
    fma_lanes_per_cycle: float
    alu_lanes_per_cycle: float
    mufu_lanes_per_cycle: float
    shuffle_lanes_per_cycle: float
    alu_latency_cycles: float
    clock_read_cycles: float
    special_register_cycles: float
    uniform_move_cycles: float
    predicate_to_jump_cycles: float
    jump_cycles: float
    jump_taken_cycles: float
    yield_cycles: float
    mufu_latency_cycles: float
    smem_load_cycles: float
    gmem_load_cycles: float
    l1_bytes: float
    l1_lines_per_cycle: float
    store_bytes_per_cycle: float
    store_queue_bytes: float
    l1_load_cycles: float
    store_read_cycles: float
    copy_issue_cycles: float
    mbarrier_init_cycles: float
    mbarrier_fence_cycles: float
    mbarrier_arrive_cycles: float
    mbarrier_test_cycles: float
    named_barrier_cycles: float
    cluster_barrier_cycles: float
    fence_cycles: float
    tmem_alloc_cycles: float
    tmem_alloc_pair_cycles: float
    tmem_store_cycles: float
    tmem_store_col_cycles: float
    tma_issue_cycles: float
    l2_tb_per_s: float
    l2_mb: float
    dram_tb_per_s: float
    queue_norm: float
    clock_full_ghz: float
    clock_full_sustained_ghz: float
    clock_l2_share: float
    clock_dram_share: float
    cta_setup_ns: float
    cta_gap_ns: float
    first_load_ns: float
    tile_handover_ns: float
    epilogue_subtile_cycles: float
    store_drain_cycles: float
    launch_stream_us: float
    launch_alone_us: float
    launch_host_us: float
    spread: float
    facts: tuple[TimingFact, ...]

    def fact(self, name: str) -> TimingFact:
        """Return the fact behind the number called `name`; KeyError when there is none."""
        for fact in self.facts:
            if fact.name == name:
                return fact
        raise KeyError(name)


@cache
def timing(name: str) -> Timing:
    """Load the durations and rates of the GPU called `name`; LaunchError lists the GPUs when it is unknown.

    Example:
        >>> timing("b300").smem_bytes_per_cycle
        128.0
    """
    load(name)
    table = read(name)
    entries: dict[str, Any] = {}
    if "based_on" in table:
        entries |= read(table["based_on"])["timing"]
    entries |= table["timing"]
    facts = tuple(TimingFact(key, **entry) for key, entry in entries.items())
    return Timing(facts=facts, **{fact.name: fact.value for fact in facts})
