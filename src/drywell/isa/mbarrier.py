"""mbarriers in shared memory: their life, arrivals, transaction counts and waits.

Executed by several lanes, an instruction acts once per lane, lowest lane first. The rules of the 64-bit
object are `machine.mbarrier`'s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.events import Order
from drywell.isa.declare import Mods, Op, TypeRule, instruction
from drywell.isa.operand import mbarrier
from drywell.isa.place import shared_address
from drywell.machine.mbarrier import pending_count
from drywell.machine.outcome import Wait

_REF = "parallel-synchronization-and-communication-instructions-mbarrier-"
_LOCAL = "shared shared::cta"
_ANYWHERE = f"{_LOCAL} shared::cluster"
_U32 = Op("u32")
_COUNT = Op("u32", range=(1, 2**63 - 1))
_PARITY = Op("u32", range=(0, 1))


def _barriers(m: Any, i: Mods, a: Any) -> list[tuple[int, Any]]:
    """Return (lane, handle) of each active lane; only `.shared::cluster` forms reach another CTA's
    barrier."""
    space, order = i["space"], Order(i.get("sem") or "release", i.get("scope") or "cta")
    is_remote = space == "shared::cluster"
    return [
        (lane, m.mbarrier(shared_address(m, space, a, lane), is_remote, lane, order)) for lane in m.lanes()
    ]


def _state(i: Mods) -> Op:
    """Return the destination of an arrive: nothing comes back from another CTA's barrier."""
    return Op("u64", accepts="_" if i["space"] == "shared::cluster" else "r_")


@instruction(
    "mbarrier.init{.space}.b64 [a], count;",
    space=_LOCAL,
    types={"a": mbarrier, "count": _U32},
    order_free=True,
    unit="mbarrier",
    since=(7, 0),
    ref=_REF + "init",
)
def mbarrier_init(m: Any, i: Mods, a: Any, count: Any) -> None:
    """Make an mbarrier that expects `count` arrivals a phase, 1 to 2^20 - 1.

    Undefined on a live object; other counts are undefined, here the fault MBAR-COUNT.
    """
    for lane, barrier in _barriers(m, i, a):
        barrier.init(int(count[lane]))


@instruction(
    "mbarrier.inval{.space}.b64 [a];",
    space=_LOCAL,
    types={"a": mbarrier},
    order_free=True,
    unit="mbarrier",
    since=(7, 0),
    ref=_REF + "inval",
)
def mbarrier_inval(m: Any, i: Mods, a: Any) -> None:
    """End an mbarrier's life, so that its memory may serve something else. Undefined while somebody waits
    on it."""
    for _, barrier in _barriers(m, i, a):
        barrier.inval()


@instruction(
    "mbarrier.expect_tx{.sem.scope}{.space}.b64 [a], tx;",
    sem="relaxed",
    scope="cta cluster",
    space=_ANYWHERE,
    types={"a": mbarrier, "tx": _U32},
    order_free=True,
    unit="mbarrier",
    since=(8, 0),
    ref=_REF + "expect-tx",
)
def mbarrier_expect_tx(m: Any, i: Mods, a: Any, tx: Any) -> None:
    """Let the current phase expect `tx` more bytes, at most 2^20 - 1; it can end the phase when bytes ran
    ahead."""
    for lane, barrier in _barriers(m, i, a):
        barrier.expect_tx(int(tx[lane]))


@instruction(
    "mbarrier.complete_tx{.sem.scope}{.space}.b64 [a], tx;",
    sem="relaxed",
    scope="cta cluster",
    space=_ANYWHERE,
    types={"a": mbarrier, "tx": _U32},
    order_free=True,
    unit="mbarrier",
    arrives=True,
    since=(8, 0),
    ref=_REF + "complete-tx",
)
def mbarrier_complete_tx(m: Any, i: Mods, a: Any, tx: Any) -> None:
    """Count `tx` bytes as arrived without moving any."""
    for lane, barrier in _barriers(m, i, a):
        barrier.complete_tx(int(tx[lane]))


_ARRIVE_SLOTS: dict[str, Any] = {
    "sem": "release relaxed",
    "scope": "cta cluster",
    "space": _ANYWHERE,
    "order_free": True,
    "unit": "mbarrier",
    "arrives": True,
    "since": (8, 0),
    "writes": "state",
}
_NO_COMPLETE_SLOTS: dict[str, Any] = {
    **_ARRIVE_SLOTS,
    "sem": "release",
    "scope": "cta",
    "space": _LOCAL,
    "since": (7, 0),
}
_ARRIVE: dict[str, TypeRule] = {"state": _state, "a": mbarrier, "count": _COUNT}
_EXPECT: dict[str, TypeRule] = {"state": _state, "a": mbarrier, "tx": _U32}


def _arrived(m: Any, i: Mods, a: Any, amount: Any, method: str, **options: bool) -> NDArray[np.uint64]:
    """Arrive lane by lane with `method` of the handle; return the states before."""
    out = np.zeros(32, np.uint64)
    for lane, barrier in _barriers(m, i, a):
        given = (int(amount[lane]),) if amount is not None else ()
        out[lane] = getattr(barrier, method)(*given, **options)
    return out


@instruction(
    "mbarrier.arrive{.sem.scope}{.space}.b64 state, [a]{, count};",
    types=_ARRIVE,
    ref=_REF + "arrive",
    **_ARRIVE_SLOTS,
)
def mbarrier_arrive(m: Any, i: Mods, a: Any, count: Any) -> Any:
    """Take `count` (default 1) off the pending arrivals and return the state before. More than are pending
    is a fault."""
    return _arrived(m, i, a, count, "arrive")


@instruction(
    "mbarrier.arrive.expect_tx{.sem.scope}{.space}.b64 state, [a], tx;",
    types=_EXPECT,
    ref=_REF + "arrive",
    **_ARRIVE_SLOTS,
)
def mbarrier_arrive_expect_tx(m: Any, i: Mods, a: Any, tx: Any) -> Any:
    """Expect `tx` more bytes and arrive once, in one step; return the state before."""
    return _arrived(m, i, a, tx, "arrive_expect_tx")


@instruction(
    "mbarrier.arrive.noComplete{.sem.scope}{.space}.b64 state, [a], count;",
    types=_ARRIVE,
    ref=_REF + "arrive",
    **_NO_COMPLETE_SLOTS,
)
def mbarrier_arrive_no_complete(m: Any, i: Mods, a: Any, count: Any) -> Any:
    """Arrive without ending the phase and return the state before. Undefined, here a fault, when it would
    end it."""
    return _arrived(m, i, a, count, "arrive", no_complete=True)


@instruction(
    "mbarrier.arrive_drop{.sem.scope}{.space}.b64 state, [a]{, count};",
    types=_ARRIVE,
    ref=_REF + "arrive-drop",
    **_ARRIVE_SLOTS,
)
def mbarrier_arrive_drop(m: Any, i: Mods, a: Any, count: Any) -> Any:
    """Expect `count` (default 1) fewer arrivals from the next phase on, then arrive; return the state
    before."""
    return _arrived(m, i, a, count, "arrive_drop")


@instruction(
    "mbarrier.arrive_drop.expect_tx{.sem.scope}{.space}.b64 state, [a], tx;",
    types=_EXPECT,
    ref=_REF + "arrive-drop",
    **_ARRIVE_SLOTS,
)
def mbarrier_arrive_drop_expect_tx(m: Any, i: Mods, a: Any, tx: Any) -> Any:
    """Expect one arrival fewer from the next phase on and `tx` more bytes in this one, then arrive."""
    out = np.zeros(32, np.uint64)
    for lane, barrier in _barriers(m, i, a):
        out[lane] = barrier.arrive_drop(1, int(tx[lane]))
    return out


@instruction(
    "mbarrier.arrive_drop.noComplete{.sem.scope}{.space}.b64 state, [a], count;",
    types=_ARRIVE,
    ref=_REF + "arrive-drop",
    **_NO_COMPLETE_SLOTS,
)
def mbarrier_arrive_drop_no_complete(m: Any, i: Mods, a: Any, count: Any) -> Any:
    """Expect fewer arrivals and arrive without ending the phase. Undefined, here a fault, when it would
    end it."""
    return _arrived(m, i, a, count, "arrive_drop", no_complete=True)


_WAIT_SLOTS: dict[str, Any] = {
    "sem": "acquire relaxed",
    "scope": "cta cluster",
    "space": _LOCAL,
    "order_free": True,
    "unit": "mbarrier",
    "waits": True,
    "since": (7, 0),
    "writes": "p",
    "ref": _REF + "test-wait-try-wait",
}
_BY_STATE: dict[str, TypeRule] = {"p": Op("pred", accepts="r"), "a": mbarrier, "state": "u64"}
_BY_PARITY: dict[str, TypeRule] = {"p": Op("pred", accepts="r"), "a": mbarrier, "parity": _PARITY}
_LIMIT: dict[str, TypeRule] = {"limit": _U32}

Waiters = list[tuple[int, Any, int]]


def _waiters(m: Any, i: Mods, a: Any, parity: Any) -> Waiters:
    return [(lane, barrier, int(parity[lane]) & 1) for lane, barrier in _barriers(m, i, a)]


def _parity_of(state: Any) -> Any:
    """Return the parity of the phase that a state records: its top bit."""
    return np.asarray(state, np.uint64) >> np.uint64(63)


def _is_over(waiters: Waiters) -> NDArray[np.bool_]:
    """Return per lane whether the phase it waits for is over."""
    out = np.zeros(32, np.bool_)
    for lane, barrier, parity in waiters:
        out[lane] = barrier.test_parity(parity)
    return out


def _test(i: Mods, waiters: Waiters) -> NDArray[np.bool_]:
    """Return per lane whether the phase it waits for is over, as the lane's result."""
    over = _is_over(waiters)
    order = Order(i["sem"] or "acquire", i["scope"] or "cta")
    for (_, parity), (barrier, mask) in _distinct(waiters, over).items():
        barrier.passed(parity, mask, order)
    return over


def _distinct(waiters: Waiters, among: NDArray[np.bool_]) -> dict[tuple[int, int], tuple[Any, Any]]:
    """Return (address, parity) -> (handle, lanes) over the lanes of `among`."""
    found: dict[tuple[int, int], tuple[Any, Any]] = {}
    for lane, barrier, parity in waiters:
        if among[lane]:
            found.setdefault((barrier.address, parity), (barrier, np.zeros(32, np.bool_)))[1][lane] = True
    return found


def _try(m: Any, i: Mods, a: Any, parities: Any) -> Any:
    """Wait until a lane's phase is over; lanes whose phase is not get False, as after a time-out."""
    if not m.grid.observers:
        lane = m.one_lane()
        differs = (a != a[lane]) | (parities != parities[lane])
        if not (differs & m.mask).any():
            return _try_as_one(m, i, a, int(parities[lane]) & 1)
    waiters = _waiters(m, i, a, parities)
    if _is_over(waiters).any():
        return _test(i, waiters)
    _, barrier, parity = waiters[0]
    distinct = list({(w[1].address, w[2]): w for w in waiters}.values())
    reason = barrier.reason(parity, True)
    return Wait(lambda: bool(_is_over(distinct).any()), lambda: _test(i, waiters), reason)


def _try_as_one(m: Any, i: Mods, a: Any, parity: int) -> Any:
    """Wait for one phase with all lanes, which nobody observes."""
    barrier, mask = m.mbarrier(shared_address(m, i["space"], a, m.one_lane())), m.mask.copy()

    def over() -> NDArray[np.bool_]:
        return mask & barrier.test_parity(parity)

    if barrier.test_parity(parity):
        return over()
    return Wait(lambda: barrier.test_parity(parity), over, barrier.reason(parity, True))


@instruction("mbarrier.test_wait{.sem.scope}{.space}.b64 p, [a], state;", types=_BY_STATE, **_WAIT_SLOTS)
def mbarrier_test_wait(m: Any, i: Mods, a: Any, state: Any) -> Any:
    """Say whether the phase that a state records is over. Undefined for a state older than the phase
    before."""
    return _test(i, _waiters(m, i, a, _parity_of(state)))


@instruction(
    "mbarrier.test_wait.parity{.sem.scope}{.space}.b64 p, [a], parity;", types=_BY_PARITY, **_WAIT_SLOTS
)
def mbarrier_test_wait_parity(m: Any, i: Mods, a: Any, parity: Any) -> Any:
    """Say whether the phase of this parity, the current one or the one before, is over."""
    return _test(i, _waiters(m, i, a, parity))


@instruction(
    "mbarrier.try_wait{.sem.scope}{.space}.b64 p, [a], state{, limit};",
    types={**_BY_STATE, **_LIMIT},
    **{**_WAIT_SLOTS, "since": (7, 8)},
)
def mbarrier_try_wait(m: Any, i: Mods, a: Any, state: Any, limit: Any) -> Any:
    """Wait, within limits, for the end of the phase that a state records, and say whether it came."""
    return _try(m, i, a, _parity_of(state))


@instruction(
    "mbarrier.try_wait.parity{.sem.scope}{.space}.b64 p, [a], parity{, limit};",
    types={**_BY_PARITY, **_LIMIT},
    **{**_WAIT_SLOTS, "since": (7, 8)},
)
def mbarrier_try_wait_parity(m: Any, i: Mods, a: Any, parity: Any, limit: Any) -> Any:
    """Wait, within limits, for the end of the phase of this parity, and say whether it came."""
    return _try(m, i, a, parity)


@instruction(
    "mbarrier.pending_count.b64 d, state;",
    types={"d": Op("u32", accepts="r"), "state": "u64"},
    order_free=True,
    unit="mbarrier",
    since=(7, 0),
    ref=_REF + "pending-count",
)
def mbarrier_pending_count(m: Any, i: Mods, state: Any) -> Any:
    """Return the pending arrivals that a state records. Undefined but for states of a noComplete arrive."""
    return np.array([pending_count(int(s)) for s in state], np.uint32)
