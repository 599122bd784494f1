"""Where an address operand of a unit instruction points: its shared-window address, lane by lane."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from drywell.base.events import WEAK, Order
from drywell.isa.declare import Mods
from drywell.machine.windows import from_generic, space_of


def shared_address(m: Any, space: str | None, address: Any, lane: int) -> int:
    """Return the shared-window address that `lane` gives; without a `space` it is generic and must lie in
    shared memory.

    A symbol gives its window address in either case. Fault WRONG-SPACE for a generic address elsewhere.
    """
    value = int(address[lane])
    if space is not None or address.dtype.itemsize == 4:
        return value & 0xFFFF_FFFF
    found = space_of(value)
    if found != "shared":
        m.fault(
            "WRONG-SPACE",
            f"the address 0x{value:x} lies in {found} memory, this operand must lie in shared memory",
            "use cvta.shared, or the .shared::cta form with a 32-bit address",
            lanes=(lane,),
        )
    return from_generic("shared", value)


def order_of(i: Mods, default: str = "weak") -> Order:
    """Return the memory order that the modifiers `sem` and `scope` name.

    SPEC: without `.sem` an access is weak and an atomic relaxed; without `.scope` an atomic's is gpu, and a
    volatile access counts as relaxed with scope sys. Source: PTX ISA, memory consistency model; atom.
    """
    return _order(i.get("sem") or default, i.get("scope"))


@lru_cache(maxsize=64)
def _order(sem: Any, scope: Any) -> Order:
    if sem == "weak":
        return WEAK
    return Order(sem, scope or ("sys" if sem == "volatile" else "gpu"))


def is_cluster(space: str | None) -> bool:
    """Say whether a form with this state space reaches the shared memory of other CTAs."""
    return space in (None, "shared::cluster")
