"""The generic address space: which window an address falls in.

ASSUMED: where the windows lie is ours; PTX only says that shared, local and parameter windows exist.
MEASURED: a shared-window address is `rank << 24 | offset` in every CTA (H200, four-CTA cluster).
"""

from __future__ import annotations

GLOBAL_BASE = 0x7000_0000_0000
PARAM_BASE = 0x7FFC_0000_0000
LOCAL_BASE = 0x7FFD_0000_0000
SHARED_BASE = 0x7FFE_0000_0000
WINDOW_BYTES = 1 << 32

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1

CALL_PARAMS = 0x1_0000
"""Param-space offsets from here on are the warp's own call parameters, below it the kernel's."""

_WINDOWS = {PARAM_BASE >> 32: "param", LOCAL_BASE >> 32: "local", SHARED_BASE >> 32: "shared"}


def space_of(address: int) -> str:
    """Return the state space a generic address lies in: shared, local, param or global.

    >>> space_of(SHARED_BASE + 0x400), space_of(GLOBAL_BASE)
    ('shared', 'global')
    """
    return _WINDOWS.get(address >> 32, "global")


def to_generic(space: str, address: int) -> int:
    """Return the generic address of `address` in `space`; global and const addresses are generic already.

    >>> hex(to_generic("shared", 0x400))
    '0x7ffe00000400'
    """
    return _base(space) + address


def from_generic(space: str, address: int) -> int:
    """Return the address within `space` of a generic one (modulo the window, as the hardware subtracts)."""
    base = _base(space)
    return (address - base) & 0xFFFF_FFFF if base else address


def _base(space: str) -> int:
    """Return where the window of `space` starts (0 for the spaces that are generic themselves)."""
    head = space.partition("::")[0]
    return {"shared": SHARED_BASE, "local": LOCAL_BASE, "param": PARAM_BASE}.get(head, 0)
