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


_DOUBLE_INF = np.uint64(0x7FF << 52)
_DOUBLE_MAGNITUDE = np.uint64((1 << 63) - 1)

_ORDERED = ("u32", "s32", "u64", "s64", "f16", "bf16")
_REDUCED: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f32.ftz", "tf32", "tf32.ftz", "f64"),
    "min": _ORDERED,
    "max": _ORDERED,
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("u32", "s32", "u64")),
}


def reduces(op: str, elemtype: str) -> bool:
    """Say whether the TMA unit has an operation on a tensor map's element type.

    MEASURED (H200): any other pair is an illegal instruction.
    """
    return elemtype in _REDUCED[op]


def combine(
    op: str, type_name: str, old: Bytes, new: Bytes, is_global: bool = True, ftz: bool = True
) -> Bytes:
    """Return the bytes, of `old`'s shape, that `op` (add min max inc dec and or xor) of a type leaves.

    `type_name` is a PTX type or a tensor map's element type; rows hold whole elements. In global
    memory sums of f32 flush subnormals (SPEC), unless `ftz` is off, and those of f64 treat NaNs in a way of
    their own. Integer sums wrap. ValueError for and, or, xor, inc, dec of floats.
    """
    base = type_name.split(".")[0].removesuffix("x2")
    base = "f32" if base == "tf32" else base
    x, y = np.ascontiguousarray(old), np.ascontiguousarray(new)
    if base in _FLOATS:
        out = _float(op, base, x, y, is_global, ftz)
    else:
        dtype = f"<{_WIDTHS[base[0]]}{int(base[1:]) // 8}"
        out = _INTEGER[op](x.view(dtype), y.view(dtype))
    return np.ascontiguousarray(out).view(np.uint8).reshape(old.shape)


def _float(op: str, fmt: str, old: Bytes, new: Bytes, is_global: bool, ftz: bool) -> Words:
    dtype = {"f16": "<u2", "bf16": "<u2", "f32": "<u4", "f64": "<u8"}[fmt]
    x, y = old.view(dtype), new.view(dtype)
    if op == "add" and fmt == "f64":
        return _sum_of_doubles(x, y, is_global)
    if op == "add":
        return add(fmt, x, y, ftz=ftz and is_global and fmt == "f32")
    if op == "min":
        return minimum(fmt, x, y)
    if op == "max":
        return maximum(fmt, x, y)
    raise ValueError(f"{op} of {fmt}: floats reduce by add, min and max only")


def _sum_of_doubles(old: Words, new: Words, is_global: bool) -> Words:
    """Return sums of f64. MEASURED (H200): in global memory a NaN comes out as it went in, a signalling one
    too, that of the operand before that of memory; in shared memory memory's comes first, made quiet.
    """
    if not is_global:
        return add("f64", new, old)
    out = add("f64", old, new)
    for operand in (old, new):
        out = np.where((operand & _DOUBLE_MAGNITUDE) > _DOUBLE_INF, operand, out)
    return out
