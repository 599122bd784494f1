"""Tensor maps as the driver encodes them: what Drywell's own encoder and decoder are held to.

Source: CUDA driver API reference 13.0, Tensor Map Object Management.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from drywell.host.tensor_maps import described
from drywell.machine.tensor_map import MAP_ALIGN, MAP_BYTES, TensorMap
from oracle.hardware.cuda import Device

_INTERLEAVES = ("none", "16B", "32B")
_SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
_PROMOTIONS = ("none", "64B", "128B", "256B")
_FILLS = ("zero", "nan")
_WIDE_MODES = {"im2col::w": 0}


def described_map(array: NDArray[Any], how: dict[str, Any]) -> TensorMap:
    """Return the fields of a map; nothing asks here whether it is allowed, that is the driver's to say."""
    return described(array, **how).tensor


def encoded(device: Device, tensor: TensorMap, address: int) -> bytes:
    """Return the 128 bytes for a tensor at an address; CudaError when the driver refuses."""
    buffer = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGN)
    start = ctypes.addressof(buffer)
    place = -(-start // MAP_ALIGN) * MAP_ALIGN
    name, shape = _shape(tensor)
    head = (
        ctypes.c_void_p(place),
        ctypes.c_int(tensor.element.driver_code),
        ctypes.c_uint(len(tensor.global_dim)),
        ctypes.c_void_p(address),
        _array(ctypes.c_uint64, tensor.global_dim),
        _array(ctypes.c_uint64, tensor.global_stride),
    )
    interleave, swizzle, promotion, fill = (
        ctypes.c_int(table.index(value))
        for table, value in (
            (_INTERLEAVES, tensor.interleave_layout),
            (_SWIZZLES, tensor.swizzle),
            (_PROMOTIONS, tensor.l2_promotion),
            (_FILLS, tensor.fill_mode),
        )
    )
    wide = (ctypes.c_int(_WIDE_MODES[tensor.mode]),) if tensor.mode in _WIDE_MODES else ()
    steps = _array(ctypes.c_uint32, tensor.element_stride)
    device.call(name, *head, *shape, steps, interleave, *wide, swizzle, promotion, fill)
    return ctypes.string_at(place, MAP_BYTES)


def _shape(tensor: TensorMap) -> tuple[str, tuple[Any, ...]]:
    """Return the function that encodes a map and its arguments between the strides and the steps."""
    if tensor.mode == "tile":
        return "cuTensorMapEncodeTiled", (_array(ctypes.c_uint32, tensor.box_dim),)
    channels, pixels = (ctypes.c_uint32(n) for n in tensor.box_dim)
    if tensor.mode in _WIDE_MODES:
        corners = (ctypes.c_int(tensor.lower_corner[0]), ctypes.c_int(tensor.upper_corner[0]))
        return "cuTensorMapEncodeIm2colWide", (*corners, channels, pixels)
    corners = tuple(_array(ctypes.c_int, c) for c in (tensor.lower_corner, tensor.upper_corner))
    return "cuTensorMapEncodeIm2col", (*corners, channels, pixels)


def _array(kind: Any, values: Sequence[int]) -> Any:
    """Return an array for the driver; of one element at least, for a rank of 1 has no strides."""
    return (kind * max(len(values), 1))(*values)
