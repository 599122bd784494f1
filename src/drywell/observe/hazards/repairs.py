"""Repairs: the edits that hints propose, and what they write."""

from __future__ import annotations

from typing import Final

from drywell.base.diagnostic import Edit
from drywell.base.span import Span

WAIT_LD: Final = "tcgen05.wait::ld.sync.aligned"
WAIT_ST: Final = "tcgen05.wait::st.sync.aligned"
FENCE_AFTER: Final = "tcgen05.fence::after_thread_sync"
FENCE_BEFORE: Final = "tcgen05.fence::before_thread_sync"
BARRIER: Final = "bar.sync 0"
WARP_BARRIER: Final = "bar.warp.sync -1"
CLUSTER_BARRIER: Final = "barrier.cluster.arrive.aligned + barrier.cluster.wait.aligned"
INIT_FENCE: Final = "fence.mbarrier_init.release.cluster"
READ_WAIT: Final = "cp.async.bulk.commit_group + cp.async.bulk.wait_group.read 0"
WRITE_WAIT: Final = "cp.async.bulk.commit_group + cp.async.bulk.wait_group 0"

_RELEASES: Final[tuple[tuple[str, str], ...]] = (
    (".relaxed.cta", ".release.cluster"),
    (".release.cta", ".release.cluster"),
    (".relaxed.cluster", ".release.cluster"),
    ("cluster.arrive.relaxed", "cluster.arrive.release"),
    ("mbarrier.arrive.shared", "mbarrier.arrive.release.cluster.shared"),
    ("mbarrier.arrive.expect_tx.shared", "mbarrier.arrive.expect_tx.release.cluster.shared"),
)
"""How an arrive is written that orders less than .release.cluster, and how it is made to order that."""


def behind(span: Span, text: str, is_guarded: bool = False) -> Edit:
    """Return the edit that puts instructions behind one."""
    return Edit("behind", span, text, is_guarded=is_guarded)


def before(span: Span, text: str) -> Edit:
    """Return the edit that puts instructions before one."""
    return Edit("before", span, text)


def meeting(span: Span, text: str = BARRIER) -> Edit:
    """Return the edit that puts a barrier before an instruction, where all come by."""
    return Edit("meet", span, text)


def proxy_fence(space: str, span: Span) -> Edit:
    """Return the edit that puts a fence to the async proxy behind an access to `space`."""
    return behind(span, f"fence.proxy.async.{'global' if space == 'global' else 'shared::cta'}")


def releasing(span: Span) -> tuple[Edit, ...]:
    """Return the edits of which one makes an arrive a `.release.cluster`."""
    return tuple(Edit("replace", span, new, old) for old, new in _RELEASES)


def arriving(span: Span) -> tuple[Edit, ...]:
    """Return the edits of which one lets an expect_tx arrive too."""
    return tuple(
        Edit(
            "replace",
            span,
            f"mbarrier.arrive.expect_tx{space}.b64 _,",
            f"mbarrier.expect_tx{order}{space}.b64",
        )
        for order in (".relaxed.cta", ".relaxed.cluster")
        for space in (".shared::cta", "")
    )
