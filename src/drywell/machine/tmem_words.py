"""The words of Tensor Memory that compiled code knows too: what one CTA holds of it, and what an SM has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drywell.layout.tmem import GRANULE_COLS, NUM_COLS

if TYPE_CHECKING:
    from drywell.machine.tmem_pair import PairRequest

NUM_GRANULES = NUM_COLS // GRANULE_COLS


def _numbered(words: str) -> dict[str, int]:
    return {name: k for k, name in enumerate(words.split())}


HOLDING = _numbered("mine cells written starts last_cols relinquished is_used is_paired sm cta sizes")
"""The words of what a CTA holds, which compiled code knows too: `mine` and `starts` are granule masks; where
the SM's cells and flags lie, once something is held; the columns of its last allocation, whether it has given
up its right to allocate, has done anything with Tensor Memory, and has had columns of a pair; where the words
of its SM lie (0: nowhere yet), its own number and 1; from `sizes` on the columns of each base granule."""

OF_SM = _numbered("map permit cells written fill flag is_plain")
"""The words of an SM: the granules taken, the number of the CTA that has the permit and 1 (0: none), where
cells and flags lie (0: nowhere yet), what a fresh cell and its flag are, whether the lowest free columns are
taken."""


class TmemHolding:
    """What one CTA holds, as the words `flat` (`HOLDING`); `pairs` is the allocation of the CTA pair that a
    base granule came from.
    """

    __slots__ = ("_at", "flat", "pairs")

    def __init__(self) -> None:
        self.flat = np.zeros(HOLDING["sizes"] + NUM_GRANULES, np.uint64)
        self._at = self.flat.data
        self.renew()

    def renew(self) -> None:
        """Hold nothing, for another CTA."""
        self.flat.fill(0)
        self["last_cols"] = NUM_COLS
        self.pairs: dict[int, PairRequest] = {}

    def __getitem__(self, name: str) -> int:
        word: int = self._at[HOLDING[name]]
        return word

    def __setitem__(self, name: str, value: int) -> None:
        self._at[HOLDING[name]] = value

    @property
    def mine(self) -> int:
        """Return the granules held, a bit each."""
        return self["mine"]

    @property
    def sizes(self) -> dict[int, int]:
        """Return the columns of each base granule."""
        starts, first = self["starts"], HOLDING["sizes"]
        return {g: int(self.flat[first + g]) for g in range(NUM_GRANULES) if starts >> g & 1}

    def add(self, granule: int, num_cols: int) -> None:
        """Take note of columns that are the CTA's from now on."""
        self["mine"] |= granule_mask(granule, num_cols)
        self["starts"] |= 1 << granule
        self["last_cols"], self["is_used"] = num_cols, 1
        self.flat[HOLDING["sizes"] + granule] = num_cols

    def drop(self, granule: int, num_cols: int) -> None:
        """Take note of columns that are the CTA's no more."""
        self["mine"] &= ~granule_mask(granule, num_cols)
        self["starts"] &= ~(1 << granule)

    def is_of_pair(self, granule: int, request: PairRequest) -> None:
        """Note the allocation of a pair that a base granule came from."""
        self.pairs[granule], self["is_paired"] = request, 1


def granule_mask(granule: int, num_cols: int) -> int:
    """Return the bits of columns that begin at a granule."""
    return ((1 << num_cols // GRANULE_COLS) - 1) << granule
