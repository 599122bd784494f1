"""Swizzles as XOR functions on absolute SMEM byte addresses: CuTe's form, TMA's modes, the
descriptor's modes.

SPEC: every mode XORs some address bits with bits taken from the 128-byte row index. It acts on the
absolute address, so a tile that does not start on the pattern's period sees the pattern shifted.
Source: PTX ISA 5.5.7 "Swizzling modes"; CuTe `Swizzle<B, M, S>` (public CUTLASS sources); 128B row
order measured on an H200.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from drywell.base.record import record

Address = TypeVar("Address", int, NDArray[np.int64])


@record
class Swizzle:
    """CuTe's `Swizzle<B, M, S>`: XOR the `num_bits` bits from `base` up with those `shift` places
    above them; a negative `shift` XORs those above with the ones from `base` up.

    >>> Swizzle(3, 4, 3).apply(0x80)
    144
    """

    num_bits: int
    base: int
    shift: int

    def apply(self, address: Address) -> Address:
        """Return the swizzled address; an int or an int64 array. Applying twice gives the address
        back.
        """
        mask = ((1 << self.num_bits) - 1) << self.base
        if self.shift < 0:
            return address ^ ((address & mask) << -self.shift)
        return address ^ ((address >> self.shift) & mask)

    @property
    def period_bytes(self) -> int:
        """Bytes after which the pattern repeats (1 when it does nothing)."""
        return 1 << (self.num_bits + self.base + abs(self.shift)) if self.num_bits else 1

    def __str__(self) -> str:
        return f"Swizzle<{self.num_bits},{self.base},{self.shift}>"


@record
class SwizzleMode:
    """A named mode: the row width it works on, and the XORs it makes (all read the unswizzled
    address).
    """

    name: str
    span_bytes: int
    terms: tuple[Swizzle, ...]

    def apply(self, address: Address) -> Address:
        """Return the swizzled absolute byte address (int or int64 array).

        >>> hex(SWIZZLE_MODES["128B"].apply(0x690))
        '0x6c0'
        """
        for term in self.terms:
            address = term.apply(address)
        return address

    @property
    def period_bytes(self) -> int:
        """Bytes after which the pattern repeats, which is also the alignment a tile's start needs
        (16 for none).
        """
        return max((term.period_bytes for term in self.terms), default=16)

    @property
    def atom_bytes(self) -> int:
        """Bytes that stay together and in order under the mode."""
        return min((1 << term.base for term in self.terms), default=16)


def _modes() -> dict[str, SwizzleMode]:
    """Build the table of TMA's swizzle modes; each term copies row bits 7.. onto the bits named in
    its comment.
    """
    return {
        mode.name: mode
        for mode in (
            SwizzleMode("none", 16, ()),
            SwizzleMode("32B", 32, (Swizzle(1, 4, 3),)),  # bit 4 ^= bit 7
            SwizzleMode("64B", 64, (Swizzle(2, 4, 3),)),  # bits 5:4 ^= bits 8:7
            SwizzleMode("128B", 128, (Swizzle(3, 4, 3),)),  # bits 6:4 ^= bits 9:7
            SwizzleMode("128B_ATOM_32B", 128, (Swizzle(2, 5, 2),)),  # bits 6:5 ^= bits 8:7
            # ASSUMED: the halves of each 16 bytes swap on odd rows; the manual does not say which parity.
            SwizzleMode("128B_ATOM_32B_FLIP_8B", 128, (Swizzle(2, 5, 2), Swizzle(1, 3, 4))),
            SwizzleMode("128B_ATOM_64B", 128, (Swizzle(1, 6, 1),)),  # bit 6 ^= bit 7
            SwizzleMode("96B", 96, (Swizzle(1, 4, 3),)),  # bit 4 ^= bit 7; sm_103a, tensormap.replace only
        )
    }


SWIZZLE_MODES: dict[str, SwizzleMode] = _modes()

DESCRIPTOR_MODES: dict[int, SwizzleMode] = {
    0: SWIZZLE_MODES["none"],
    1: SWIZZLE_MODES["128B_ATOM_32B"],
    2: SWIZZLE_MODES["128B"],
    4: SWIZZLE_MODES["64B"],
    6: SWIZZLE_MODES["32B"],
}
"""Code in bits 61-63 of a SMEM descriptor to mode. SPEC: 3, 5 and 7 are no mode. Source: PTX ISA
9.7.16.4, Table 40.
"""

TENSOR_MAP_MODES: tuple[str, ...] = (
    "none",
    "32B",
    "64B",
    "128B",
    "128B_ATOM_32B",
    "128B_ATOM_32B_FLIP_8B",
    "128B_ATOM_64B",
)
"""Mode names in the order of CUtensorMapSwizzle, 0..6. Source: CUDA driver API, enum
CUtensorMapSwizzle.
"""
