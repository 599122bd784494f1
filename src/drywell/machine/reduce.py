"""Elementwise reductions of memory: what `op` of a type leaves where `old` was and `new` comes.

Source: PTX ISA, cp.reduce.async.bulk and red: operations and types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.machine.lanes import Bytes
from drywell.numerics.comparison import maximum, minimum
from drywell.numerics.softfloat import add

Words = NDArray[Any]

_WIDTHS = {"b": "u", "u": "u", "s": "i"}
_FLOATS = ("f16", "bf16", "f32", "f64")

_INTEGER: dict[str, Callable[[Words, Words], Words]] = {
    "add": lambda old, new: old + new,
    "min": np.minimum,
    "max": np.maximum,
    "inc": lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1)),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def combine(op: str, type_name: str, old: Bytes, new: Bytes, ftz: bool = True) -> Bytes:
    """Return the bytes, of `old`'s shape, that `op` (add min max inc dec and or xor) of a type leaves.

    `type_name` is a PTX type or a tensor map's element type; rows hold whole elements. `ftz` makes sums
    of f32 flush subnormals, as they do in global memory (SPEC). Integer sums wrap. ValueError for and,
    or, xor, inc, dec of floats.
    """
    base = type_name.split(".")[0].removesuffix("x2")
    base = "f32" if base == "tf32" else base
    x, y = np.ascontiguousarray(old), np.ascontiguousarray(new)
    if base in _FLOATS:
        out = _float(op, base, x, y, ftz)
    else:
        dtype = f"<{_WIDTHS[base[0]]}{int(base[1:]) // 8}"
        out = _INTEGER[op](x.view(dtype), y.view(dtype))
    return np.ascontiguousarray(out).view(np.uint8).reshape(old.shape)


def _float(op: str, fmt: str, old: Bytes, new: Bytes, ftz: bool) -> Words:
    dtype = {"f16": "<u2", "bf16": "<u2", "f32": "<u4", "f64": "<u8"}[fmt]
    x, y = old.view(dtype), new.view(dtype)
    if op == "add":
        return add(fmt, x, y, ftz=ftz and fmt == "f32")
    if op == "min":
        return minimum(fmt, x, y)
    if op == "max":
        return maximum(fmt, x, y)
    raise ValueError(f"{op} of {fmt}: floats reduce by add, min and max only")
