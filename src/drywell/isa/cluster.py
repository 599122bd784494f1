"""clusterlaunchcontrol: taking over the work of clusters that have not started. It binds; nothing executes
it yet."""

from __future__ import annotations

from typing import Any

from drywell.isa.declare import Mods, Op, instruction
from drywell.isa.operand import SHARED

_REF = "parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-"


def _missing(i: Mods) -> str | None:
    return "cluster launch control is not executed yet: every CTA of the grid is started by the launch itself"


_COMMON: dict[str, Any] = {
    "order_free": True,
    "unit": "async",
    "lane": False,
    "since": (8, 6),
    "unsupported": _missing,
}


@instruction(
    "clusterlaunchcontrol.try_cancel.async{.space}.completion{.multicast}.b128 [a], [mbar];",
    space="shared::cta",
    completion="mbarrier::complete_tx::bytes",
    multicast="multicast::cluster::all",
    types={"a": SHARED, "mbar": SHARED},
    proxy="async",
    completes_by="mbarrier",
    ref=_REF + "try-cancel",
    **_COMMON,
)
def clusterlaunchcontrol_try_cancel(m: Any, i: Mods, a: Any, mbar: Any) -> None:
    """Ask for a cluster that has not started; the answer of 16 bytes comes to shared memory with
    complete_tx(16).

    Undefined after a failure has been seen, and with multicast when a CTA of the cluster has exited.
    """
    m.fault("UNSUPPORTED", str(_missing(i)))


@instruction(
    "clusterlaunchcontrol.query_cancel.what.pred.b128 d, a;",
    what="is_canceled",
    types={"d": Op("pred", accepts="r"), "a": Op("b128", accepts="r")},
    ref=_REF + "query-cancel",
    **_COMMON,
)
@instruction(
    "clusterlaunchcontrol.query_cancel.what.v4.b32.b128 d, a;",
    what="get_first_ctaid",
    types={"d": Op("b32", count=4, accepts="r_"), "a": Op("b128", accepts="r")},
    ref=_REF + "query-cancel",
    **_COMMON,
)
@instruction(
    "clusterlaunchcontrol.query_cancel.what.b32.b128 d, a;",
    what="get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z",
    types={"d": Op("b32", accepts="r"), "a": Op("b128", accepts="r")},
    ref=_REF + "query-cancel",
    **_COMMON,
)
def clusterlaunchcontrol_query_cancel(m: Any, i: Mods, a: Any) -> None:
    """Read from an answer whether a cluster was taken over, and the first CTA of it (undefined when not)."""
    m.fault("UNSUPPORTED", str(_missing(i)))
