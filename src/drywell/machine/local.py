"""Memory that each lane has for itself: local memory and the parameters of calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import KernelFault
from drywell.machine.gmem import misaligned
from drywell.machine.lanes import LANE_IDS, LANES, Bytes, LaneBuffer, Mask, Offsets, active_values, lane_list

_GRAIN = 32
_NOTHING = LaneBuffer(np.zeros(0, np.uint8))


class LaneMemory:
    """`nbytes` of `space` per lane, lane after lane in one flat buffer; addresses are offsets from
    `origin`.
    """

    __slots__ = ("buffer", "nbytes", "origin", "pitch", "space")

    def __init__(self, space: str, nbytes: int, origin: int = 0) -> None:
        self.space = space
        self.origin = origin
        self.nbytes = 0
        self.pitch = 0
        self.buffer = _NOTHING
        self.grow(nbytes)

    def grow(self, nbytes: int) -> None:
        """Make it at least `nbytes` per lane; contents stay, new bytes are zero."""
        if nbytes <= self.nbytes:
            return
        old = self.rows
        self.nbytes = nbytes
        self.pitch = -(-nbytes // _GRAIN) * _GRAIN
        data = np.zeros(LANES * self.pitch, np.uint8)
        data.reshape(LANES, self.pitch)[:, : old.shape[1]] = old
        self.buffer = LaneBuffer(data)

    @property
    def rows(self) -> Bytes:
        """Return the bytes as uint8[32, pitch] (a view)."""
        return self.buffer.data.reshape(LANES, self.pitch)

    def offsets(self, addresses: NDArray[Any], mask: Mask, size: int, align: int, is_write: bool) -> Offsets:
        """Check each active lane's access and return its offset in the flat buffer; faults LOCAL-OOB,
        MISALIGNED.
        """
        active = active_values(addresses, mask)
        low, high = self.origin, self.origin + self.nbytes - size
        if active and (min(active) < low or max(active) > high):
            self._fault_bounds(addresses, mask, size, is_write)
        if align > 1 and any(a & (align - 1) for a in active):
            lanes = lane_list(mask & (addresses % align != 0))
            address = int(addresses[lanes[0]])
            raise misaligned(f"{self.space} offset", address, size, align, is_write, lanes)
        return addresses.astype(np.int64) + (LANE_IDS * self.pitch - self.origin)

    def _fault_bounds(self, addresses: NDArray[Any], mask: Mask, size: int, is_write: bool) -> None:
        """Raise LOCAL-OOB for the lanes that miss."""
        at = addresses.astype(np.int64) - self.origin
        lanes = lane_list(mask & ((at < 0) | (at + size > self.nbytes)))
        verb = "write" if is_write else "read"
        fault = KernelFault(
            "LOCAL-OOB",
            f"{verb} of {size} bytes at {self.space} offset 0x{int(addresses[lanes[0]]):x} is outside the"
            f" lane's 0x{self.nbytes:x} bytes of {self.space} memory (lane {lanes[0]})",
        )
        fault.lanes = lanes
        raise fault


class ParamMemory:
    """The kernel's parameter block: read only, the same for all lanes; addresses are offsets into it."""

    __slots__ = ("buffer", "nbytes")

    def __init__(self, content: bytes) -> None:
        self.nbytes = len(content)
        data = np.zeros(-(-len(content) // _GRAIN) * _GRAIN, np.uint8)
        data[: len(content)] = np.frombuffer(content, np.uint8)
        self.buffer = LaneBuffer(data)

    def offsets(self, addresses: NDArray[Any], mask: Mask, size: int, align: int, is_write: bool) -> Offsets:
        """Check each active lane's read and return its offset; faults PARAM-OOB, PARAM-WRITE, MISALIGNED."""
        active = active_values(addresses, mask)
        if is_write and active:
            raise KernelFault(
                "PARAM-WRITE",
                f"write at kernel parameter offset 0x{active[0]:x}: the parameters are read only",
            )
        if active and max(active) + size > self.nbytes:
            bad = lane_list(mask & (addresses.astype(np.int64) + size > self.nbytes))
            fault = KernelFault("PARAM-OOB", self._past(int(addresses[bad[0]]), size))
            fault.lanes = bad
            raise fault
        if align > 1 and any(a & (align - 1) for a in active):
            odd = lane_list(mask & (addresses % align != 0))
            raise misaligned("kernel parameter offset", int(addresses[odd[0]]), size, align, False, odd)
        return addresses.astype(np.int64)

    def _past(self, offset: int, size: int) -> str:
        return (
            f"read of {size} bytes at kernel parameter offset 0x{offset:x} runs past the"
            f" 0x{self.nbytes:x} bytes of parameters"
        )

    def view(self, offset: int, size: int) -> Bytes:
        """Return `size` bytes at `offset`; fault PARAM-OOB past the end."""
        if offset < 0 or offset + size > self.nbytes:
            raise KernelFault("PARAM-OOB", self._past(offset, size))
        return self.buffer.data[offset : offset + size]
