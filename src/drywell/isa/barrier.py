"""Barriers of threads: bar, barrier, bar.warp.sync, barrier.cluster.

A warp takes part with all its lanes that have not exited; lanes that come one after the other are gathered
first.
Barriers never wait for asynchronous operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Order
from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.gathering import gather
from drywell.isa.rules import when
from drywell.machine.outcome import Wait

_NUMBER = Op("u32", range=(0, 15))
_COUNT = Op("u32", range=(0, 0xFFFFFFE0), multiple_of=32)
_ARRIVALS = Op("u32", range=(32, 0xFFFFFFE0), multiple_of=32)
_PREDICATE = Op("pred", accepts="rip")
_REF = "parallel-synchronization-and-communication-instructions-bar"
_SYNC: dict[str, TypeRule] = {"a": _NUMBER, "b": _COUNT}
_ARRIVE: dict[str, TypeRule] = {"a": _NUMBER, "b": _ARRIVALS}
_RED: dict[str, TypeRule] = {
    "d": lambda i: Op(str(i["type"]), accepts="r"),
    "a": _NUMBER,
    "b": _COUNT,
    "c": _PREDICATE,
}
_RED_TYPES = [when("op", "popc", type="u32"), when("op", "and or", type="pred")]


def _uniform(m: Any, what: str, values: Any) -> int | None:
    """Return the one value all active lanes have; lanes that disagree on a barrier are a fault."""
    if values is None:
        return None
    if (values == values[0]).all():
        return int(values[0])
    found = {int(values[lane]) for lane in m.lanes()}
    if len(found) > 1:
        m.fault(
            "NBAR-MISUSE",
            f"the lanes of the warp give different {what}: {sorted(found)}",
            "a warp arrives at a barrier as one: give all its lanes the same operand",
        )
    return found.pop()


@instruction("bar.sync a{, b};", types=_SYNC, order_free=True, unit="barrier", ref=_REF)
@instruction("bar.cta.sync a{, b};", types=_SYNC, order_free=True, unit="barrier", ref=_REF)
@instruction("barrier.sync{.aligned} a{, b};", types=_SYNC, order_free=True, unit="barrier", ref=_REF)
@instruction("barrier.cta.sync{.aligned} a{, b};", types=_SYNC, order_free=True, unit="barrier", ref=_REF)
def bar_sync(m: Any, i: Mods, a: Any, b: Any) -> Wait | None:
    """Arrive at a named barrier of the CTA and wait until all participants have.

    Misuse (two counts on one barrier, a warp arriving twice, red mixed in) is undefined and here a fault.
    """
    number, count = _uniform(m, "barrier numbers", a), _uniform(m, "thread counts", b)
    is_aligned = i.get("aligned", "as bar.sync is") is not None
    waiting: Wait | None = m.cta.barriers.sync(m, number, count, is_aligned)
    return waiting


@instruction("bar.arrive a, b;", types=_ARRIVE, order_free=True, unit="barrier", ref=_REF)
@instruction("bar.cta.arrive a, b;", types=_ARRIVE, order_free=True, unit="barrier", ref=_REF)
@instruction("barrier.arrive{.aligned} a, b;", types=_ARRIVE, order_free=True, unit="barrier", ref=_REF)
@instruction("barrier.cta.arrive{.aligned} a, b;", types=_ARRIVE, order_free=True, unit="barrier", ref=_REF)
def bar_arrive(m: Any, i: Mods, a: Any, b: Any) -> None:
    """Arrive at a named barrier of the CTA and go on. Misuse as for bar.sync."""
    m.cta.barriers.arrive(m, _uniform(m, "barrier numbers", a), _uniform(m, "thread counts", b))


def _lanes_of(value: Any, op: str | None) -> NDArray[Any]:
    return np.full(32, value, np.uint32 if op == "popc" else np.bool_)


@instruction(
    "bar.red.op.type d, a{, b}, c;",
    op="popc and or",
    type="u32 pred",
    types=_RED,
    checks=_RED_TYPES,
    order_free=True,
    unit="barrier",
    lane=False,
    ref=_REF,
)
@instruction(
    "bar.cta.red.op.type d, a{, b}, c;",
    op="popc and or",
    type="u32 pred",
    types=_RED,
    checks=_RED_TYPES,
    order_free=True,
    unit="barrier",
    lane=False,
    ref=_REF,
)
@instruction(
    "barrier.red.op{.aligned}.type d, a{, b}, c;",
    op="popc and or",
    type="u32 pred",
    types=_RED,
    checks=_RED_TYPES,
    order_free=True,
    unit="barrier",
    lane=False,
    ref=_REF,
)
@instruction(
    "barrier.cta.red.op{.aligned}.type d, a{, b}, c;",
    op="popc and or",
    type="u32 pred",
    types=_RED,
    checks=_RED_TYPES,
    order_free=True,
    unit="barrier",
    lane=False,
    ref=_REF,
)
def bar_red(m: Any, i: Mods, a: Any, b: Any, c: Any) -> Any:
    """Wait at a named barrier and return the count, conjunction or disjunction of all participants'
    predicates.

    Misuse as for bar.sync.
    """
    op = i["op"]
    number, count = _uniform(m, "barrier numbers", a), _uniform(m, "thread counts", b)
    result = m.cta.barriers.red(m, number, count, op, c)
    if isinstance(result, Wait):
        waited = result
        return Wait(waited.ready, lambda: _lanes_of(waited.then(), op), waited.reason)
    return _lanes_of(result, op)


def _nothing(values: tuple[NDArray[Any], ...], members: NDArray[np.bool_], lane: int) -> tuple[()]:
    return ()


@instruction(
    "bar.warp.sync membermask;",
    types={"membermask": "u32"},
    order_free=True,
    unit="barrier",
    ref="parallel-synchronization-and-communication-instructions-bar-warp-sync",
)
def bar_warp_sync(m: Any, i: Mods, membermask: Any) -> Any:
    """Wait until every lane named in the mask has come. A lane outside its own mask is undefined and here
    a fault."""
    return gather(m, membermask, (), _nothing, (), key=None)


_CLUSTER = "parallel-synchronization-and-communication-instructions-barrier-cluster"


@instruction(
    "barrier.cluster.arrive{.sem}{.aligned};",
    sem="release relaxed",
    order_free=True,
    unit="barrier",
    since=(7, 8),
    ref=_CLUSTER,
)
def barrier_cluster_arrive(m: Any, i: Mods) -> None:
    """Arrive at the cluster's barrier and go on. Arriving twice without a wait between is undefined, here
    a fault."""
    m.cluster.barrier.arrive(m, Order(i["sem"] or "release", "cluster"))


@instruction(
    "barrier.cluster.wait{.sem}{.aligned};",
    sem="acquire",
    order_free=True,
    unit="barrier",
    since=(7, 8),
    ref=_CLUSTER,
)
def barrier_cluster_wait(m: Any, i: Mods) -> Any:
    """Wait until every thread of the cluster that has not exited has arrived. Waiting without arriving is
    a fault."""
    return m.cluster.barrier.wait(m)
