"""`tensor_map()`: describe a tensor to the TMA unit in the array's own order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drywell.base.errors import LaunchError, UnsupportedError
from drywell.host.arrays import DTYPES, HostArray, host_array
from drywell.machine.tensor_map import ELEMENT_TYPES, SWIZZLE_SPANS, TensorMap, encode, problems

_BY_FORMAT = {
    "e4m3": "u8",
    "e5m2": "u8",
    "ue8m0": "u8",
    "ue4m3": "u8",
    "e3m2": "u8",
    "e2m3": "u8",
    "e2m1": "u8",
    "s8": "u8",
    "s16": "u16",
}


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """A tensor map waiting for its array's device address; made by `tensor_map`, passed as an argument of a
    launch.
    """

    array: HostArray
    tensor: TensorMap

    def encode(self, address: int) -> bytes:
        """Return the 128 bytes for the array at `address`; LaunchError when the map cannot be."""
        placed = _at(self.tensor, address)
        wrong = problems(placed)
        if wrong:
            raise LaunchError("tensor map: " + "; ".join(wrong))
        return encode(placed)


def _at(tensor: TensorMap, address: int) -> TensorMap:
    return TensorMap(
        address,
        tensor.elemtype,
        tensor.global_dim,
        tensor.global_stride,
        tensor.box_dim,
        tensor.element_stride,
        tensor.interleave_layout,
        tensor.swizzle,
        tensor.fill_mode,
        tensor.l2_promotion,
    )


def _element(array: HostArray, dtype: str | None) -> str:
    name = dtype or array.dtype
    name = _BY_FORMAT.get(name, name)
    if name not in ELEMENT_TYPES:
        raise LaunchError(
            f"tensor map: '{name}' is not an element type of the TMA unit; use one of "
            f"{', '.join(ELEMENT_TYPES)}"
        )
    return name


def _strides(
    shape: tuple[int, ...], strides: Sequence[int] | None, array: HostArray, itemsize: int
) -> tuple[int, ...]:
    if strides is not None:
        if len(strides) != len(shape):
            raise LaunchError(f"tensor map: {len(strides)} strides for a shape of {len(shape)} dimensions")
        return tuple(int(s) for s in strides)
    if shape == array.shape:
        return array.strides
    out = [itemsize]
    for extent in shape[:0:-1]:
        out.append(out[-1] * extent)
    return tuple(out[::-1])


def tensor_map(
    a: Any,
    box: Sequence[int] = (),
    swizzle: str = "none",
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    element_strides: Sequence[int] | None = None,
    interleave: str = "none",
    oob_fill: str = "zero",
    l2_promotion: str | None = None,
    fp4_padded: bool = False,
    mode: str = "tile",
    **im2col: Any,
) -> TensorMapArgument:
    """Describe an array to the TMA unit; `shape`, `box`, `element_strides` are in the array's own order,
    `strides` in bytes.

    `swizzle` is none, 32B, 64B, 128B or one of the 128B atoms; `oob_fill` zero or nan. `l2_promotion` is a
    hint and changes nothing here. Raises LaunchError for what cuTensorMapEncodeTiled would refuse,
    UnsupportedError for im2col and padded types.

    >>> import numpy as np
    >>> tensor_map(np.zeros((256, 128), np.float16), box=(128, 64), swizzle="128B").tensor.box_dim
    (64, 128)
    """
    if mode != "tile" or im2col:
        raise UnsupportedError(f"tensor_map mode '{mode}' is not supported yet; only 'tile' is")
    if fp4_padded:
        raise UnsupportedError("tensor_map(fp4_padded=True) is not supported yet")
    array = a if isinstance(a, HostArray) else host_array(a)
    element = _element(array, dtype)
    itemsize = DTYPES[array.dtype].itemsize if dtype is None else max(1, ELEMENT_TYPES[element].bits // 8)
    dims = tuple(int(s) for s in (shape if shape is not None else array.shape))
    steps = _strides(dims, strides, array, itemsize)
    box_dims = tuple(int(b) for b in box)
    if len(box_dims) != len(dims):
        raise LaunchError(
            f"tensor map: box {box_dims} has {len(box_dims)} dimensions, the tensor {len(dims)}"
        )
    if steps[-1] != itemsize:
        raise LaunchError(
            f"tensor map: the last dimension has a stride of {steps[-1]} bytes, the TMA unit needs "
            f"{itemsize} (contiguous)"
        )
    traversal = tuple(int(e) for e in element_strides) if element_strides is not None else (1,) * len(dims)
    if swizzle not in SWIZZLE_SPANS:
        raise LaunchError(
            f"tensor map: swizzle '{swizzle}' is unknown; use one of {', '.join(SWIZZLE_SPANS)}"
        )
    tensor = TensorMap(
        0,
        element,
        dims[::-1],
        steps[-2::-1],
        box_dims[::-1],
        traversal[::-1],
        interleave,
        swizzle,
        oob_fill,
        l2_promotion or "none",
    )
    wrong = problems(tensor)
    if wrong:
        raise LaunchError("tensor map: " + "; ".join(wrong))
    return TensorMapArgument(array, tensor)
