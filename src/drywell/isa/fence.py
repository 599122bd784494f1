"""Fences: membar, fence and its proxy forms, griddepcontrol.

The machine makes every access visible at once and in program order, so a fence has nothing to do when a
kernel runs but to tell the observers: what it orders, and what its absence leaves unordered, is for the
checker to say.
"""

from __future__ import annotations

from typing import Any

from drywell.base.events import FenceKind, Order
from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.rules import when

_REF = "parallel-synchronization-and-communication-instructions-membar-fence"
_SCOPES = "cta cluster gpu sys"
_LEVELS = {"cta": "cta", "gl": "gpu", "sys": "sys"}


@instruction("membar.level;", level="cta gl sys", order_free=True, unit="fence", ref=_REF)
@instruction("membar.proxy.kind;", kind="alias", order_free=True, unit="fence", since=(7, 5), ref=_REF)
def membar(m: Any, i: Mods) -> None:
    """Order this thread's earlier accesses before its later ones, as fence.sc does."""
    if i.get("level"):
        m.fenced("memory", Order("sc", _LEVELS[str(i["level"])]))


@instruction(
    "fence{.sem}.scope;",
    sem="sc acq_rel acquire release",
    scope=_SCOPES,
    order_free=True,
    unit="fence",
    since=(6, 0),
    ref=_REF,
)
@instruction(
    "fence.sem.restrict.scope;",
    sem="acquire release",
    restrict="sync_restrict::shared::cta sync_restrict::shared::cluster",
    scope="cluster",
    checks=[
        when("sem", "acquire", restrict="sync_restrict::shared::cluster"),
        when("sem", "release", restrict="sync_restrict::shared::cta"),
    ],
    order_free=True,
    unit="fence",
    since=(8, 6),
    ref=_REF,
)
@instruction(
    "fence.mbarrier_init.sem.scope;",
    mbarrier_init="mbarrier_init",
    sem="release",
    scope="cluster",
    order_free=True,
    unit="fence",
    since=(8, 0),
    ref=_REF,
)
def fence(m: Any, i: Mods) -> None:
    """Order this thread's earlier accesses before its later ones, in the generic proxy and within a scope.

    `.mbarrier_init` orders only earlier mbarrier.init. Other proxies need fence.proxy.
    """
    kind: FenceKind = "mbarrier_init" if i.get("mbarrier_init") else "memory"
    m.fenced(kind, Order(i["sem"] or "sc", str(i["scope"])), "shared" if i.get("restrict") else "")


_MAP: dict[str, TypeRule] = {"a": "addri", "size": Op("u32", accepts="i", range=(128, 128))}


@instruction("fence.proxy.kind;", kind="alias async", order_free=True, unit="fence", since=(7, 5), ref=_REF)
@instruction(
    "fence.proxy.kind.space;",
    kind="async",
    space="global shared::cta shared::cluster",
    order_free=True,
    unit="fence",
    since=(8, 0),
    ref=_REF,
)
@instruction(
    "fence.proxy.kind.sem.restrict.scope;",
    kind="async::generic",
    sem="acquire release",
    restrict="sync_restrict::shared::cta sync_restrict::shared::cluster",
    scope="cluster",
    checks=[
        when("sem", "acquire", restrict="sync_restrict::shared::cluster"),
        when("sem", "release", restrict="sync_restrict::shared::cta"),
    ],
    order_free=True,
    unit="fence",
    since=(8, 6),
    ref=_REF,
)
@instruction(
    "fence.proxy.kind.sem.scope;",
    kind="tensormap::generic",
    sem="release",
    scope=_SCOPES,
    order_free=True,
    unit="fence",
    since=(8, 3),
    ref=_REF,
)
def fence_proxy(m: Any, i: Mods) -> None:
    """Order accesses of one proxy before those of another: generic and async, or generic and tensormap."""
    space = str(i.get("space") or i.get("restrict") or "")
    if i["kind"] == "tensormap::generic":
        m.fenced("tensormap.release", Order("release", str(i["scope"])))
    elif i["kind"] != "alias":
        m.fenced("proxy.async", space="global" if space == "global" else "shared" if space else "")


@instruction(
    "fence.proxy.kind.sem.scope [a], size;",
    kind="tensormap::generic",
    sem="acquire",
    scope=_SCOPES,
    types=_MAP,
    order_free=True,
    unit="fence",
    proxy="tensormap",
    since=(8, 3),
    ref=_REF,
)
def fence_proxy_tensormap_acquire(m: Any, i: Mods, a: Any, size: Any) -> None:
    """Let later uses of the tensor map at the address, in global memory, see what was released to its
    proxy."""
    m.fenced("tensormap.acquire", Order("acquire", str(i["scope"])), address=int(a[m.one_lane()]))


@instruction(
    "griddepcontrol.action;",
    action="launch_dependents wait",
    unit="fence",
    since=(7, 8),
    order_free=True,
    ref="parallel-synchronization-and-communication-instructions-griddepcontrol",
)
def griddepcontrol(m: Any, i: Mods) -> None:
    """Let dependent grids start, or wait for the grids this one depends on; a launch here runs alone, with
    none."""
