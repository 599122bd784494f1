"""Where the arrays of a launch lie in global memory: in argument order, and what overlaps on the host
overlaps there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import LaunchError
from drywell.host.arrays import HostArray, bytes_between, host_array
from drywell.machine.gmem import PLACE_ALIGN, GlobalMemory

_MORE = 1 << 14
"""Bytes for what is placed besides arrays: tensor maps, variables of the module."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes [low, high) of the host that arrays of a launch span without a gap; `arrays` keep them alive."""

    low: int
    high: int
    arrays: tuple[HostArray, ...]

    @property
    def memory(self) -> NDArray[np.uint8]:
        """Return the bytes, writable if one of the arrays is."""
        if len(self.arrays) == 1:
            return self.arrays[0].memory
        return bytes_between(self.arrays, self.low, self.high, all(a.is_read_only for a in self.arrays))


def stretches(arrays: Iterable[HostArray]) -> tuple[Stretch, ...]:
    """Return the stretches of the host that arrays span, those that overlap as one.

    Two views into one matrix (its left and its right half, say) share their rows: a copy of each would lose
    writes.
    """
    out: list[Stretch] = []
    for array in sorted(arrays, key=lambda a: a.identity):
        low, nbytes = array.identity
        if out and nbytes and low < out[-1].high:
            last = out[-1]
            out[-1] = Stretch(last.low, max(last.high, low + nbytes), (*last.arrays, array))
        else:
            out.append(Stretch(low, low + nbytes, (array,)))
    return tuple(out)


class Placement:
    """Places the arrays of a launch in global memory, each once, in the order of their first use.

    `arrays` are all that will be asked for, `names` theirs in messages, by the id of what the caller passed.
    """

    def __init__(
        self,
        gmem: GlobalMemory,
        num_ctas: int,
        names: dict[int, str] | None = None,
        arrays: Iterable[HostArray] = (),
    ) -> None:
        self.gmem = gmem
        self.num_ctas = num_ctas
        self.names = names or {}
        found = stretches(arrays)
        self._stretches = {a.identity: s for s in found for a in s.arrays}
        gmem.reserve(sum(s.high - s.low + PLACE_ALIGN for s in found) + _MORE)
        self._placed: dict[int, tuple[str, int, NDArray[np.uint8]]] = {}

    def address(self, value: Any, default: str) -> int:
        """Return the device address of an array's first element, placing the array at its first use."""
        array = value if isinstance(value, HostArray) else host_array(value)
        low, nbytes = array.identity
        stretch = self._stretches.get(array.identity) or Stretch(low, low + nbytes, (array,))
        if stretch.low not in self._placed:
            name = self.names.get(id(value), default)
            self._placed[stretch.low] = (name, self.gmem.place(name, stretch.memory), stretch.memory)
        return self._placed[stretch.low][1] + low - stretch.low + array.offset

    def scratch(self, nbytes: int, name: str) -> int:
        """Return the address of zeroed scratch memory of `nbytes` for each CTA."""
        return self.gmem.place(name, nbytes * self.num_ctas)

    def refuse_lost_writes(self) -> None:
        """Raise LaunchError when the kernel has written to an array that is read-only on the host."""
        for name, address, memory in self._placed.values():
            if not memory.flags.writeable and not np.array_equal(
                self.gmem.view(address, memory.nbytes), memory
            ):
                raise LaunchError(
                    f"{name} is a read-only array and the kernel wrote to it; nothing was copied back\n"
                    "  hint: pass a writable array, such as array.copy()"
                )
