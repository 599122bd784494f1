"""Groups of PTX targets that several families share. SPEC: PTX ISA, the target notes of each instruction."""

from __future__ import annotations

DATA_CENTER_BLACKWELL = (
    "sm_100a", "sm_100f", "sm_101a", "sm_101f", "sm_103a", "sm_103f", "sm_110a", "sm_110f",
)  # fmt: skip
"""What has Tensor Memory, and what came with it."""

HOPPER_AND_LATER = ("sm_90a", *DATA_CENTER_BLACKWELL, "sm_120a", "sm_120f", "sm_121a", "sm_121f")
"""Targets with setmaxnreg and tensormap.replace."""
