"""One thread for NumPy's BLAS while a kernel runs.

The products of a tensor core are small: threads that share one of them wait for each other longer than they
work, most of all beside other workers. A launch uses as many cores as it has workers.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

_SPELLINGS = (
    ("scipy_openblas_", "64_"),
    ("scipy_openblas_", ""),
    ("openblas_", "64_"),
    ("openblas_", ""),
)
"""Prefix and suffix of OpenBLAS's functions: NumPy's wheels rename them, distributions do not."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let NumPy's BLAS use one thread inside the block. It does as it likes if it is not OpenBLAS."""
    get, put = _functions()
    before = get()
    if before == 1:
        yield
        return
    put(1)
    try:
        yield
    finally:
        put(before)


@lru_cache(maxsize=1)
def _functions() -> tuple[Callable[[], int], Callable[[int], object]]:
    """Return what tells and what sets the number of threads."""
    place = sys.modules["numpy._core._multiarray_umath"].__file__
    library = ctypes.CDLL(place)
    for prefix, suffix in _SPELLINGS:
        get = getattr(library, f"{prefix}get_num_threads{suffix}", None)
        put = getattr(library, f"{prefix}set_num_threads{suffix}", None)
        if get is not None and put is not None:
            return get, put
    return lambda: 1, lambda _: None
