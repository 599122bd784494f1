"""Arrays of NumPy, torch (CPU) and DLPack as bytes that a kernel reads and writes in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import LaunchError

_BY_DTYPE: dict[str, str] = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "int8": "s8",
    "int16": "s16",
    "int32": "s32",
    "int64": "s64",
    "bool": "u8",
}
DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "ue8m0": np.dtype(np.uint8),
    "ue4m3": np.dtype(np.uint8),
    "e3m2": np.dtype(np.uint8),
    "e2m3": np.dtype(np.uint8),
    "e2m1": np.dtype(np.uint8),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
}


@dataclass(frozen=True, slots=True)
class HostArray:
    """An array a kernel may touch: `memory` are the bytes it spans (a writable view), `offset` where its
    first element lies in them.

    `shape` counts elements, `strides` are bytes; `dtype` is the format's name ("bf16").
    """

    memory: NDArray[np.uint8]
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_read_only: bool

    @property
    def is_contiguous(self) -> bool:
        """Say whether its elements lie one behind the other in the order of its indices."""
        step = DTYPES[self.dtype].itemsize
        for extent, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            if extent > 1 and stride != step:
                return False
            step *= extent
        return True

    @property
    def identity(self) -> tuple[int, int]:
        """Return (first byte, bytes) of the memory on the host: two arguments with one identity are one
        array to the kernel.
        """
        return (self.memory.__array_interface__["data"][0], self.memory.nbytes)


def is_array(value: Any) -> bool:
    """Tell whether `host_array` would look for an array in the value; NumPy's numbers are none."""
    if isinstance(value, np.generic):
        return False
    return hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")


_DLPACK_CPU = 1
_TORCH_ONLY = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")


def _as_numpy(value: Any) -> NDArray[Any]:
    """Return the memory of a foreign array as NumPy's, without copying."""
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] != _DLPACK_CPU:
        device = getattr(value, "device", None) or f"of DLPack type {int(value.__dlpack_device__()[0])}"
        raise LaunchError(
            f"an array on device '{device}' was given: Drywell runs on the CPU, pass a CPU tensor"
        )
    if value.__class__.__module__.startswith("torch"):
        name = str(value.dtype).removeprefix("torch.")
        value = value.detach()
        if name in _TORCH_ONLY:
            import torch

            words = value.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy()
            return words.view(np.dtype(getattr(ml_dtypes, name)))
    if not hasattr(value, "__dlpack__"):
        return np.asarray(value)
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = type(value).__name__
        raise LaunchError(
            f"NumPy cannot take this {kind} over: {error}\n  hint: pass a NumPy view of its bytes"
        ) from None


def _format(array: NDArray[Any], dtype: str | None) -> str:
    """Return the name of the elements' format, `dtype` when it is one of the same size."""
    name = dtype or _BY_DTYPE.get(array.dtype.name)
    if name is None:
        raise LaunchError(
            f"arrays of dtype '{array.dtype}' are not taken; use one of {', '.join(sorted(set(_BY_DTYPE)))}"
        )
    if not array.dtype.isnative:
        raise LaunchError(
            f"arrays of dtype '{array.dtype}' are not taken: their bytes are in the order of another machine"
            "\n  hint: pass array.astype(array.dtype.newbyteorder('='))"
        )
    wanted = DTYPES.get(name)
    if wanted is None or wanted.itemsize != array.dtype.itemsize:
        size = f"of {wanted.itemsize} bytes" if wanted is not None else "unknown"
        raise LaunchError(
            f"an array of dtype '{array.dtype}' cannot hold '{name}': its elements have"
            f" {array.dtype.itemsize} bytes, the format is {size}"
        )
    return name


def host_array(value: Any, dtype: str | None = None) -> HostArray:
    """Return the bytes behind a NumPy array, a CPU torch tensor or a DLPack object, without copying.

    `dtype` names the format when NumPy has no dtype for it ("e2m1" in a uint8 array). Raises LaunchError for
    element types no format names, and for arrays on another device.
    """
    array = value if isinstance(value, np.ndarray) else _as_numpy(value)
    name = _format(array, dtype)
    is_read_only = not array.flags.writeable
    first = array.__array_interface__["data"][0]
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (first, first)
    memory = bytes_between(array, low, high, is_read_only) if array.size else np.zeros(0, np.uint8)
    return HostArray(memory, first - low, name, array.shape, array.strides, is_read_only)


class _Span:
    """Bytes of the host as NumPy asks for them."""

    def __init__(self, owner: Any, low: int, high: int, is_read_only: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (high - low,),
            "typestr": "|u1",
            "data": (low, is_read_only),
            "strides": None,
        }


def bytes_between(owner: Any, low: int, high: int, is_read_only: bool) -> NDArray[np.uint8]:
    """Return a uint8 view of the host's addresses [low, high), which `owner` keeps alive."""

    return np.asarray(_Span(owner, low, high, is_read_only))
