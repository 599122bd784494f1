"""What an mbarrier hands over, as data, and sets of memory as bit masks: shared memory by words of 4 bytes,
Tensor Memory by column and quarter of the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from drywell.base.events import Access
from drywell.base.span import Span
from drywell.layout.tmem import NUM_COLS
from drywell.machine.windows import OFFSET_MASK

Dim3 = tuple[int, int, int]
Mask = dict[tuple[str, int], int]
"""Memory: for each space (shared or tmem) and CTA whose it is, a bit for each place."""
WORD_BYTES = 4
QUARTERS, QUARTER_LANES = 4, 32


@dataclass(frozen=True, slots=True)
class Actor:
    """Warps of one CTA that do the same to a barrier (`what`), and where in the text."""

    what: str
    cta: Dim3
    warps: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Storage:
    """Neighbouring memory of CTA `cta`: `size` bytes of shared memory from `name` on, or columns of Tensor
    Memory (`size` of them), written as the literature does.
    """

    space: str
    cta: Dim3
    name: str
    first: int
    size: int


@dataclass(frozen=True, slots=True)
class FreeAgain:
    """The earliest moment at which storage may be written again: when a phase of `barrier` of CTA `cta`
    ends, by what happens at `span`.
    """

    barrier: str
    cta: Dim3
    what: str
    span: Span


@dataclass(frozen=True, slots=True)
class Handover:
    """One mbarrier of CTA `cta` from its init on.

    `arrivals_expected` are those of one phase; `arrivals_seen`, `bytes_expected` and `bytes_completed` those
    of the whole run, `open_arrivals` those of the phase that was still open. `gives` is storage whose data
    its waiters may read, `frees` storage that they may write again. `free_again` is when that is: for data, a
    phase of another barrier (None when none was seen to release it), else its own.
    """

    cta: Dim3
    name: str
    offset: int
    init_count: int
    init: Span
    producers: tuple[Actor, ...]
    consumers: tuple[Actor, ...]
    arrivals_expected: int
    arrivals_seen: int
    open_arrivals: int
    bytes_expected: int
    bytes_completed: int
    num_phases: int
    gives: tuple[Storage, ...]
    frees: tuple[Storage, ...]
    free_again: FreeAgain | None = None

    @property
    def protects(self) -> tuple[Storage, ...]:
        """Return the storage that it stands for."""
        return self.gives or self.frees

    def freed_by(self, barrier: Handover) -> Handover:
        """Return it with the moment its storage is free again: when a phase of `barrier` ends."""
        last = barrier.producers[-1] if barrier.producers else None
        if last is None:
            return self
        return replace(self, free_again=FreeAgain(barrier.name, barrier.cta, last.what, last.spans[0]))


def mask_of(access: Access) -> Mask:
    """Return what an access of shared or Tensor Memory touches."""
    where = np.asarray(access.addresses).astype(np.int64).reshape(-1)
    if access.space == "tmem":
        first = (where >> 16) // QUARTER_LANES * NUM_COLS + (where & 0xFFFF)
        size = access.size
    else:
        offset = where & OFFSET_MASK
        first = offset // WORD_BYTES
        size = int((offset + access.size - 1).max() // WORD_BYTES - first[offset.argmax()] + 1)
    return {(access.space, access.home): _bits(np.unique(first), size)}


def _bits(first: np.ndarray, size: int) -> int:
    if first.size == 1:
        return ((1 << size) - 1) << int(first[0])
    low = int(first[0])
    flags = np.zeros(int(first[-1]) - low + size, np.bool_)
    for step in range(size):
        flags[first - low + step] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little") << low


def merge(into: Mask, more: Mask) -> None:
    """Add memory to a set of it."""
    for key, bits in more.items():
        into[key] = into.get(key, 0) | bits


def joint(a: Mask, b: Mask) -> Mask:
    """Return the memory that is in both."""
    return {key: bits for key in a.keys() & b.keys() if (bits := a[key] & b[key])}


def num_places(a: Mask) -> int:
    """Return how many words and columns a set has."""
    return sum(bits.bit_count() for bits in a.values())


def is_touching(a: Mask, b: Mask) -> bool:
    """Say whether two sets have memory in common."""
    return any(a[key] & b[key] for key in a.keys() & b.keys())


def storages(
    mask: Mask, name_of: Callable[[int], str], index_of: Callable[[int], Dim3]
) -> tuple[Storage, ...]:
    """Return memory as neighbouring stretches, in order of their places."""
    out: list[Storage] = []
    for (space, home), bits in sorted(mask.items()):
        cta = index_of(home)
        if space == "tmem":
            out += _columns(bits, cta)
            continue
        for first, size in _runs(bits):
            offset = first * WORD_BYTES
            out.append(Storage(space, cta, name_of(offset), offset, size * WORD_BYTES))
    return tuple(out)


def _columns(bits: int, cta: Dim3) -> list[Storage]:
    """Return columns; neighbouring quarters of the lanes with the same ones are one stretch."""
    each = [bits >> quarter * NUM_COLS & (1 << NUM_COLS) - 1 for quarter in range(QUARTERS)]
    out: list[Storage] = []
    start = 0
    for quarter in range(1, QUARTERS + 1):
        if quarter < QUARTERS and each[quarter] == each[start]:
            continue
        lanes = f"lane {start * QUARTER_LANES}:{quarter * QUARTER_LANES}"
        for first, size in _runs(each[start]):
            out.append(Storage("tmem", cta, f"tmem[{lanes}, col {first}:{first + size}]", first, size))
        start = quarter
    return out


def _runs(bits: int) -> list[tuple[int, int]]:
    """Return (first bit, length) of each run of ones."""
    out: list[tuple[int, int]] = []
    at = 0
    while bits:
        skip = (bits & -bits).bit_length() - 1
        bits >>= skip
        length = ((bits + 1) & -(bits + 1)).bit_length() - 1
        out.append((at + skip, length))
        bits >>= length
        at += skip + length
    return out
