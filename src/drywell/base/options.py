"""The choices of one run, frozen, and handed down as one value."""

from __future__ import annotations

from typing import Literal

from drywell.base.record import record


@record
class Options:
    """How to run. `schedule` is eager, lazy, timed or seeded (with `seed`); `sms` = None models as many SMs
    as the grid needs; `workers` are the processes that may share the work, None as many as are worth it.

    The switches after `max_instructions` are the open hardware questions of DEVIATIONS.md, each with its
    default.
    """

    gpu: str = "b200"
    schedule: Literal["eager", "lazy", "seeded", "timed"] = "eager"
    seed: int = 0
    sms: int | None = None
    workers: int | None = None
    numerics: Literal["exact", "fast"] = "exact"
    engine: Literal["auto", "jit", "interpreter"] = "auto"
    max_instructions: int = 10**9
    tmem_lane_window: Literal["error", "local"] = "local"
    tmem_fresh: Literal["poison", "zero"] = "poison"
    tmem_base: Literal["lowest", "random"] = "lowest"
    unpack_high_half: Literal["poison", "zero", "preserve"] = "poison"
    narrow_in_byte: Literal["middle", "low"] = "middle"
    shift_scope: Literal["partition", "all"] = "partition"
    ashift_keeps: Literal["partition", "last"] = "partition"
    zero_products_in_window: bool = False
    padded_complete_tx: Literal["data", "slots"] = "data"
    scaled_d_flushes: bool = False
    zero_blocks: Literal["in_window", "out_of_window"] = "in_window"
    d_sets_window: Literal["above_scales", "above_products"] = "above_scales"
    nvf4_group: Literal["16", "4"] = "16"
    drops_tiny_groups: bool = False
    zero_products: Literal["keep_d", "align_d"] = "keep_d"
    zero_scales_in_window: bool = False


DEFAULT = Options()
