"""The array type of this room, and the one way its cached index arrays are made safe to share."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]
ByteArray: TypeAlias = NDArray[np.uint8]


def frozen(array: NDArray[np.integer]) -> IntArray:
    """Return `array` as a read-only, contiguous int64 array, so that a cache can hand it out many
    times.
    """
    out = np.ascontiguousarray(array, dtype=np.int64)
    if out is array:
        out = out.copy()
    out.setflags(write=False)
    return out
