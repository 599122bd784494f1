"""Global memory: named arrays in one arena at a fixed base, so that addresses are the same in every run."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import KernelFault
from drywell.base.record import record
from drywell.machine.lanes import Bytes, LaneBuffer, Mask, Offsets, active_values, lane_list
from drywell.machine.shared_memory import shared_bytes
from drywell.machine.windows import GLOBAL_BASE

PLACE_ALIGN = 512
_FAR_BYTES = 1 << 30
_FIRST_CAPACITY = 1 << 16


@record
class GlobalArray:
    """One array of global memory; `source` is the caller's array, written back after the run (None:
    scratch); `is_constant` says that it is a variable of the const space.
    """

    name: str
    address: int
    nbytes: int
    source: NDArray[Any] | None = None
    is_constant: bool = False

    @property
    def end(self) -> int:
        """Return the first address behind it."""
        return self.address + self.nbytes


class GlobalMemory:
    """The arena at 0x7000_0000_0000. Arrays are placed in order, each on the next multiple of 512.
    `is_shared` says that room yet to be made is to be memory that processes to come share.

    >>> gmem = GlobalMemory()
    >>> hex(gmem.place("A", 100)), hex(gmem.place("B", np.zeros(4, np.float32)))
    ('0x700000000000', '0x700000000200')
    >>> gmem.describe(0x7000_0000_0204)
    'B+0x4'
    """

    def __init__(self, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._arrays: list[GlobalArray] = []
        self._starts: list[int] = []
        self._used = 0
        self._lies_shared = False
        self.buffer = LaneBuffer(np.zeros(_FIRST_CAPACITY, np.uint8))

    @property
    def arrays(self) -> tuple[GlobalArray, ...]:
        """Return what has been placed, in order of address."""
        return tuple(self._arrays)

    def place(self, name: str, content: int | NDArray[Any], is_constant: bool = False) -> int:
        """Place an array (its bytes are copied in) or `content` zero bytes under `name`; return its
        address.
        """
        source = None if isinstance(content, int) else content
        nbytes = content if isinstance(content, int) else content.nbytes
        start = self._used
        self._used = -(-(start + nbytes) // PLACE_ALIGN) * PLACE_ALIGN
        if nbytes == 0:
            self._used += PLACE_ALIGN
        self._grow(self._used)
        if source is not None and nbytes:
            raw = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
            self.buffer.data[start : start + nbytes] = raw
        elif self._lies_shared:  # which holds anything, private memory zeros
            self.buffer.data[start : start + nbytes] = 0
        array = GlobalArray(name, GLOBAL_BASE + start, nbytes, source, is_constant)
        self._arrays.append(array)
        self._starts.append(array.address)
        return array.address

    def reserve(self, nbytes: int) -> None:
        """Make room for arrays of so many bytes in all, so that placing them moves nothing."""
        if nbytes > self.buffer.data.size:
            self._move(-(-nbytes // PLACE_ALIGN) * PLACE_ALIGN)

    def share(self) -> bool:
        """Let the arena lie in memory that processes to come share; say whether there is room for that."""
        self.is_shared = True
        if not self._lies_shared:
            self._move(self.buffer.data.size)
        return self._lies_shared

    def _grow(self, nbytes: int) -> None:
        """Make the arena at least `nbytes` long."""
        capacity = self.buffer.data.size
        while capacity < nbytes:
            capacity *= 2
        if capacity > self.buffer.data.size:
            self._move(capacity)

    def _move(self, capacity: int) -> None:
        """Make the arena so long; its contents move, its addresses do not."""
        shared = shared_bytes(capacity) if self.is_shared else None
        data = np.zeros(capacity, np.uint8) if shared is None else shared
        data[: self.buffer.data.size] = self.buffer.data
        self.buffer, self._lies_shared = LaneBuffer(data), shared is not None

    def restore(self) -> None:
        """Give every placed array the bytes again that it was placed with."""
        for array in self._arrays:
            raw = 0 if array.source is None else np.ascontiguousarray(array.source).reshape(-1).view(np.uint8)
            self.content(array)[:] = raw

    def write_back(self) -> None:
        """Copy every placed array's bytes back into the caller's array, where that may be written."""
        for array in self._arrays:
            source = array.source
            if source is not None and source.flags.writeable and array.nbytes:
                raw = self.content(array)
                source[...] = raw.view(source.dtype).reshape(source.shape)

    @property
    def sources(self) -> tuple[NDArray[Any], ...]:
        """Return the callers' arrays."""
        return tuple([array.source for array in self._arrays if array.source is not None])

    def content(self, array: GlobalArray) -> Bytes:
        """Return the bytes of one array (a view)."""
        start = array.address - GLOBAL_BASE
        return self.buffer.data[start : start + array.nbytes]

    def find(self, address: int) -> GlobalArray | None:
        """Return the array that `address` lies in, or None."""
        i = bisect_right(self._starts, address) - 1
        return self._arrays[i] if i >= 0 and address < self._arrays[i].end else None

    def describe(self, address: int) -> str:
        """Name an address as array + offset; the nearest array below it when it lies in none."""
        i = bisect_right(self._starts, address) - 1
        if i < 0 or address - self._arrays[i].end >= _FAR_BYTES:
            return f"0x{address:x}"
        array = self._arrays[i]
        return f"{array.name}+0x{address - array.address:x}"

    def holds(self, address: int, size: int) -> bool:
        """Say whether all of [address, address + size) lies in one array."""
        array = self.find(address)
        return array is not None and address + size <= array.end

    def offsets(self, addresses: NDArray[Any], mask: Mask, size: int, align: int, is_write: bool) -> Offsets:
        """Check each active lane's access of `size` bytes and return its arena offset (int64[32]).

        Faults: MISALIGNED, GMEM-OOB; each names the array, the offset and the lanes.
        """
        active = active_values(addresses, mask)
        if active:
            array = self.find(min(active))
            if (array is None or max(active) + size > array.end) and not all(
                self.holds(a, size) for a in active
            ):
                self._fault_bounds(addresses, mask, size, is_write)
            if align > 1 and any(a & (align - 1) for a in active):
                self._fault_alignment(addresses, mask, size, align, is_write)
        return (addresses.astype(np.uint64) - np.uint64(GLOBAL_BASE)).view(np.int64)

    def view(self, address: int, size: int, is_write: bool = False) -> Bytes:
        """Return `size` bytes at `address` as a view; fault GMEM-OOB when they do not lie in one array."""
        if not self.holds(address, size):
            raise KernelFault("GMEM-OOB", self.explain(address, size, is_write))
        start = address - GLOBAL_BASE
        return self.buffer.data[start : start + size]

    def explain(self, address: int, size: int, is_write: bool) -> str:
        """Say in a sentence why an access of `size` bytes at `address` is out of bounds."""
        verb = "write" if is_write else "read"
        what = f"{verb} of {size} byte{'s' if size != 1 else ''}"
        i = bisect_right(self._starts, address) - 1
        if i < 0 or address - self._arrays[i].end >= _FAR_BYTES:
            if self._starts and i < 0 and 0 < self._starts[0] - address <= _FAR_BYTES:
                first = self._arrays[0]
                return f"{what} at 0x{address:x} begins {first.address - address} bytes before {first.name}"
            return f"{what}: address 0x{address:x} lies in no array"
        array = self._arrays[i]
        place = f"{array.name}+0x{address - array.address:x}"
        if address >= array.end:
            far = f"is {address - array.end} bytes past"
        else:
            far = f"runs {address + size - array.end} bytes past"
        return f"{what} at {place} {far} the end of {array.name} (0x{array.nbytes:x} bytes)"

    def _fault_bounds(self, addresses: NDArray[Any], mask: Mask, size: int, is_write: bool) -> None:
        """Raise GMEM-OOB for the lanes that miss."""
        bad = np.array(
            [on and not self.holds(a, size) for a, on in zip(addresses.tolist(), mask, strict=True)]
        )
        lanes = lane_list(bad)
        fault = KernelFault(
            "GMEM-OOB", self.explain(int(addresses[lanes[0]]), size, is_write) + _of_lanes(lanes)
        )
        fault.lanes = lanes
        raise fault

    def _fault_alignment(
        self, addresses: NDArray[Any], mask: Mask, size: int, align: int, is_write: bool
    ) -> None:
        """Raise MISALIGNED for the lanes whose address is no multiple of `align`."""
        lanes = lane_list(mask & ((addresses % align) != 0))
        address = int(addresses[lanes[0]])
        raise misaligned(self.describe(address), address, size, align, is_write, lanes)


def misaligned(
    place: str, address: int, size: int, align: int, is_write: bool, lanes: tuple[int, ...]
) -> KernelFault:
    """Return the fault of an access at `place` whose address is no multiple of `align`."""
    verb = "write" if is_write else "read"
    fault = KernelFault(
        "MISALIGNED",
        f"{verb} of {size} bytes at {place} (0x{address:x}) is not aligned to {align} bytes"
        f"{_of_lanes(lanes)}",
        hint=f"make the address a multiple of {align}, or use narrower accesses",
    )
    fault.lanes = lanes
    return fault


def _of_lanes(lanes: tuple[int, ...]) -> str:
    """Return ' (lane 3)' or ' (lane 3 and 7 more)'."""
    if len(lanes) == 1:
        return f" (lane {lanes[0]})"
    return f" (lane {lanes[0]} and {len(lanes) - 1} more)"
