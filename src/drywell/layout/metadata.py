"""Where the metadata of a sparse A lies in the registers of a warp, for `mma.sp`.

Each 4-bit code stands for one chunk of a row. Quad g of the lanes holds the codes of rows g and g + 8; one,
two or four of its lanes contribute, and the sparsity selector says which.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drywell.layout.arrays import IntArray, frozen

ROWS = 16


def num_selectors(num_chunks: int) -> int:
    """Return how many values the sparsity selector of `mma.sp` has when a row has `num_chunks` chunks.

    >>> [num_selectors(n) for n in (4, 8, 16)]
    [4, 2, 1]
    """
    return 16 // num_chunks


@lru_cache(maxsize=16)
def sparse_metadata(num_chunks: int, selector: int, bits: int) -> tuple[IntArray, IntArray]:
    """Return (lane, shift), each [16, num_chunks]: the lane whose register holds a code, and its lowest bit.

    With elements of 16 or 32 bits a lane holds four chunks of both rows, row g in its low half; with
    narrower ones (`bits` 8 or 4) eight chunks of one row, row g in even lanes. MEASURED (H200, every shape).

    >>> lane, shift = sparse_metadata(8, 1, 16)
    >>> lane[9].tolist(), shift[9].tolist()
    ([6, 6, 6, 6, 7, 7, 7, 7], [16, 20, 24, 28, 16, 20, 24, 28])
    >>> lane, shift = sparse_metadata(16, 0, 8)
    >>> lane[9].tolist(), shift[9, :8].tolist()
    ([5, 5, 5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7], [0, 4, 8, 12, 16, 20, 24, 28])
    """
    row, chunk = np.arange(ROWS)[:, None], np.arange(num_chunks)[None, :]
    first = 4 * (row % 8) + selector * (num_chunks // 4)
    if bits >= 16:
        return frozen(first + chunk // 4), frozen(16 * (row // 8) + 4 * (chunk % 4))
    return frozen(first + 2 * (chunk // 8) + row // 8), frozen(4 * (chunk % 8) + 0 * row)
