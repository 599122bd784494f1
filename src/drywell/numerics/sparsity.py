"""The metadata of a sparse A: which logical elements of K the stored ones are.

A is stored with half of its K. Each 4-bit code stands for one chunk of logical elements and names the kept
ones; the rest take no part in the product, whatever B holds there. SPEC: PTX ISA 9.7.16.10.8 "Sparse
matrices".
MEASURED: that unselected elements, NaN and Inf among them, take no part; B200, by sf-tensor/tcgen05.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drywell.base.record import record
from drywell.numerics.formats import BoolArray, IntArray


@record
class SparseRule:
    """How one kind reads its codes.

    A chunk of `chunk` logical elements has half as many stored ones. `kept` gives, for each of the 16 codes,
    the positions in the chunk in the order stored; empty where the code is undefined.
    """

    chunk: int
    kept: tuple[tuple[int, ...], ...]

    @property
    def stored(self) -> int:
        """Count the stored elements of a chunk."""
        return self.chunk // 2

    def is_legal(self, code: int) -> bool:
        """Say whether the code is defined."""
        return bool(self.kept[code])


_TWO_OF_FOUR = (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)  # (i1 << 2) | i0; 6 stores element 2 before element 1


def _pairs(width: int) -> tuple[tuple[int, ...], ...]:
    """Return what each code keeps when its two fields name positions of `width` neighbours each."""
    kept: list[tuple[int, ...]] = [()] * 16
    for code in _TWO_OF_FOUR:
        places = (code & 3, code >> 2)
        kept[code] = tuple(width * place + i for place in places for i in range(width))
    return tuple(kept)


_ONE_OF_TWO = SparseRule(2, tuple((0,) if code == 0x4 else (1,) if code == 0xE else () for code in range(16)))
_HALF_OF_FOUR = SparseRule(4, _pairs(1))
_HALF_OF_EIGHT = SparseRule(8, _pairs(2))

SPARSE_RULES: MappingProxyType[str, SparseRule] = MappingProxyType(
    {
        "tf32": _ONE_OF_TWO,
        **dict.fromkeys(("f16", "f8f6f4", "i8", "mxf8f6f4"), _HALF_OF_FOUR),
        **dict.fromkeys(("mxf4", "mxf4nvf4"), _HALF_OF_EIGHT),
    }
)
"""The rule of every kind of `tcgen05.mma.sp`."""


@record
class IllegalCode:
    """An undefined metadata code: row of A, chunk along K, and the code."""

    row: int
    chunk: int
    code: int


@record(eq=False)
class Selection:
    """What metadata selects.

    `index` [M, K stored] is the logical k of each stored element, -1 in a chunk whose code is undefined;
    `live` [M, K logical] says which logical elements are selected. ASSUMED: the elements of an undefined
    chunk take no part; `illegal` lists those chunks, in order.
    """

    index: IntArray
    live: BoolArray
    illegal: tuple[IllegalCode, ...]

    @property
    def num_products(self) -> int:
        """Count the products of one column of B: M * K stored when all codes are legal."""
        return int(np.count_nonzero(self.live))


def select(kind: str, codes: ArrayLike) -> Selection:
    """Decode metadata [M, chunks], one 4-bit code an entry, for `tcgen05.mma.sp` of `kind`.

    >>> s = select("f16", [[0x4, 0xE]])
    >>> s.index.tolist(), s.live[0].astype(int).tolist()
    ([[0, 1, 6, 7]], [1, 1, 0, 0, 0, 0, 1, 1])
    >>> select("tf32", [[0xE, 0x5]]).illegal
    (IllegalCode(row=0, chunk=1, code=5),)
    """
    if kind not in SPARSE_RULES:
        raise ValueError(f"kind::{kind} has no sparse form; those that have are {', '.join(SPARSE_RULES)}")
    rule = SPARSE_RULES[kind]
    code = np.asarray(codes)
    if code.ndim != 2 or (code.size and not 0 <= int(code.min()) <= int(code.max()) < 16):
        raise ValueError(f"metadata is {code.shape}; needed are rows and chunks of 4-bit codes")
    table = np.array([kept or (-1,) * rule.stored for kept in rule.kept])
    place = table[code]  # [M, chunks, stored]
    legal = place[..., 0] >= 0
    base = np.arange(code.shape[1])[:, None] * rule.chunk
    index = np.where(legal[..., None], place + base, -1)
    mask = np.array([[i in kept for i in range(rule.chunk)] for kept in rule.kept])
    illegal = tuple(IllegalCode(int(m), int(c), int(code[m, c])) for m, c in np.argwhere(~legal))
    shape = (code.shape[0], -1)
    return Selection(index.reshape(shape), mask[code].reshape(shape), illegal)


def expand(stored: ArrayLike, selection: Selection) -> NDArray[Any]:
    """Return A [M, K logical] with the stored codes [M, K stored] at their places and 0 elsewhere.

    Hand the result to a multiplication together with `selection.live`: a 0 alone would still meet an Inf in
    B.

    >>> expand([[7, 5]], select("f16", [[0x9]])).tolist()
    [[0, 7, 5, 0]]
    """
    codes = np.asarray(stored)
    if codes.shape != selection.index.shape:
        raise ValueError(f"A is {codes.shape}, the metadata selects {selection.index.shape} stored elements")
    num_rows, num_k = selection.live.shape
    full = np.zeros((num_rows, num_k + 1), codes.dtype)  # the last column takes what is not selected
    full[np.arange(num_rows)[:, None], selection.index] = codes
    return full[:, :num_k]
