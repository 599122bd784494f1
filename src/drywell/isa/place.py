"""Where an address operand of a unit instruction points: its shared-window address, lane by lane."""

from __future__ import annotations

from typing import Any

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


def is_cluster(space: str | None) -> bool:
    """Say whether a form with this state space reaches the shared memory of other CTAs."""
    return space in (None, "shared::cluster")
