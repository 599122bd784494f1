"""What the `tcgen05` families share: the targets that have them, and the CTA group of an instruction."""

from __future__ import annotations

from drywell.isa.declare import Mods
from drywell.isa.targets import DATA_CENTER_BLACKWELL

TARGETS = DATA_CENTER_BLACKWELL
"""SPEC: targets with tcgen05. Source: PTX ISA 9.7.16 "Target ISA Notes"; each tried with ptxas 13.0.88
(sm_101* is sm_110* of older PTX).
"""

ARCH_TARGETS = ("sm_100a", "sm_101a", "sm_103a", "sm_110a")
"""SPEC: of them the ones for one chip alone, which also have `shift`, `scale_vec::` and sparse mxf4.
Source: as TARGETS.
"""

INTEGER_TARGETS = ("sm_100a", "sm_101a", "sm_110a")
"""SPEC: targets with `kind::i8`; sm_103a and every family target refuse it. Source: as TARGETS."""

REDUCING_TARGETS = ("sm_101a", "sm_101f", "sm_103a", "sm_103f", "sm_110a", "sm_110f")
"""SPEC: targets with `tcgen05.ld.red`, from `.version` 8.8 on; sm_100a and sm_100f refuse it. Source: as
TARGETS.
"""

SINCE = (8, 6)

GROUPS = "cta_group::1 cta_group::2"


def cta_group(i: Mods) -> int | None:
    """Return the CTA group an instruction names (1 or 2), None for the ones that name none (ld, st, wait,
    fence).

    SPEC: all tcgen05 instructions of a kernel name the same one. Source: PTX ISA 9.7.16.5; ptxas 13.0
    enforces it per kernel.
    """
    word = i.get("cta_group")
    return None if word is None else int(word.removeprefix("cta_group::"))
