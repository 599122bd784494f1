"""What shares the tensor pipe with `mma`: cp (SMEM to TMEM), shift, and commit, which signals that all of
it is done.

One thread issues each; operations of one thread perform in issue order. Source: PTX ISA 9.7.16.9,
9.7.16.12; tried with ptxas 13.0.88.
"""

from __future__ import annotations

from typing import Any

from drywell.isa.declare import Mods, Op, instruction
from drywell.isa.rules import when
from drywell.isa.tcgen05 import ARCH_TARGETS, GROUPS, SINCE, TARGETS, cta_group
from drywell.isa.tcgen05_cells import signal_when_done
from drywell.isa.tcgen05_copy import copy, shift

_TADDR = Op("addr32", accepts="r")


@instruction(
    "tcgen05.cp.cta_group.shape{.multicast}{.b8x16.source} [taddr], sdesc;",
    cta_group=GROUPS,
    shape="128x256b 128x128b 4x256b 64x128b 32x128b",
    multicast="warpx2::02_13 warpx2::01_23 warpx4",
    source="b6x16_p32 b4x16_p64",
    types={"taddr": _TADDR, "sdesc": "u64"},
    unit="tensor",
    proxy="async",
    completes_by="commit",
    order_free=True,
    checks=[
        when("shape", "128x256b 128x128b 4x256b", multicast="-"),
        when("shape", "64x128b", multicast="warpx2::02_13 warpx2::01_23"),
        when("shape", "32x128b", multicast="warpx4"),
    ],
    targets=TARGETS,
    since=SINCE,
    ref="tcgen05-data-movement-instructions-tcgen05-cp",
)
def tcgen05_cp(m: Any, i: Mods, taddr: Any, sdesc: Any) -> None:
    """Copy a matrix from SMEM to TMEM, to several partitions if asked, widening 4- or 6-bit elements to
    bytes if asked.
    """
    group = int(cta_group(i) or 1)
    copy(m, str(i["shape"]), str(i["multicast"] or ""), i["source"], group, taddr, sdesc)


@instruction(
    "tcgen05.shift.cta_group.down [taddr];",
    cta_group=GROUPS,
    types={"taddr": _TADDR},
    unit="tensor",
    proxy="tensor",
    completes_by="commit",
    order_free=True,
    targets=ARCH_TARGETS,
    since=SINCE,
    ref="tcgen05-data-movement-instructions-tcgen05-shift",
)
def tcgen05_shift(m: Any, i: Mods, taddr: Any) -> None:
    """Move the rows of a 32-lane partition down by one, over 8 columns."""
    shift(m, int(cta_group(i) or 1), taddr)


_COMMIT_REF = "tcgen05-commit"


@instruction(
    "tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}.b64 [mbar];",
    cta_group=GROUPS,
    types={"mbar": "addr"},
    unit="tensor",
    order_free=True,
    arrives=True,
    targets=TARGETS,
    since=SINCE,
    ref=_COMMIT_REF,
)
def tcgen05_commit(m: Any, i: Mods, mbar: Any) -> None:
    """Arrive on an mbarrier once, when every earlier mma, cp and shift of the executing thread has
    performed.
    """
    signal_when_done(m, int(cta_group(i) or 1), mbar, None, is_generic=i["shared::cluster"] is None)


@instruction(
    "tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}.multicast::cluster.b64 [mbar],"
    " ctaMask;",
    cta_group=GROUPS,
    types={"mbar": "addr", "ctaMask": Op("u16", accepts="r")},
    unit="tensor",
    order_free=True,
    arrives=True,
    targets=TARGETS,
    since=SINCE,
    ref=_COMMIT_REF,
)
def tcgen05_commit_multicast(m: Any, i: Mods, mbar: Any, cta_mask: Any) -> None:
    """Commit with an arrive at the same SMEM offset in every CTA of `ctaMask`, a bit for each rank of the
    cluster.
    """
    group, is_generic = int(cta_group(i) or 1), i["shared::cluster"] is None
    signal_when_done(m, group, mbar, cta_mask, is_generic)
