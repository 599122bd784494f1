"""`tensor_map()`: describe a tensor to the TMA unit in the array's own order."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from drywell.base.errors import LaunchError
from drywell.host.arrays import DTYPES, HostArray, host_array
from drywell.machine.im2col import MODES
from drywell.machine.tensor_map import (
    ELEMENT_TYPES,
    MAX_RANK,
    SWIZZLE_SPANS,
    TensorMap,
    encode,
    problems,
)

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
        placed = replace(self.tensor, global_address=address)
        _refuse(placed)
        return encode(placed)


_OWN_NAMES = {
    "global_dim": "shape",
    "global_stride": "strides",
    "box_dim": "box",
    "element_stride": "element_strides",
}
_FIELD = re.compile(rf"({'|'.join(_OWN_NAMES)})\[(\d)\]")
_OWN_WORDS = {
    "global_address": "the address of the array,",
    "global_stride": "strides",
    "element_stride": "element_strides",
    "fill_mode": "oob_fill",
    "fill mode": "oob_fill",
    "interleave_layout": "interleave",
}
_WORD = re.compile(rf"\b({'|'.join(_OWN_WORDS)})\b")


def _refuse(tensor: TensorMap) -> None:
    """Raise LaunchError with all that the driver would refuse, in the words and the order of `tensor_map`."""
    wrong = problems(tensor)
    if not wrong:
        return

    def own(match: re.Match[str]) -> str:
        field, index = match[1], int(match[2])
        if field == "box_dim" and tensor.mode != "tile":
            return ("channels_per_pixel", "pixels_per_column")[index]
        last = len(getattr(tensor, field)) - 1
        return f"{_OWN_NAMES[field]}[{last - index}]"

    text = _FIELD.sub(own, "; ".join(wrong))
    raise LaunchError(f"tensor map: {_WORD.sub(lambda word: _OWN_WORDS[word[0]], text)}")


def _whole(name: str, values: Sequence[int]) -> tuple[int, ...]:
    """Return whole numbers as Python's; LaunchError names what holds something else."""
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError:
        raise LaunchError(f"tensor map: {name} {values!r} must hold whole numbers") from None


def _element(array: HostArray, dtype: str | None, fp4_padded: bool) -> str:
    name = "b4x16_p64" if fp4_padded else dtype or array.dtype
    name = _BY_FORMAT.get(name, name)
    if name not in ELEMENT_TYPES:
        raise LaunchError(
            f"tensor map: '{name}' is not an element type of the TMA unit; use one of "
            f"{', '.join(ELEMENT_TYPES)}"
        )
    return name


def _dims(array: HostArray, shape: Sequence[int] | None, element: str) -> tuple[int, ...]:
    """Return the sizes in elements: those given, or the array's, whose bytes hold packed elements."""
    dims = array.shape if shape is None else _whole("shape", shape)
    if not 1 <= len(dims) <= MAX_RANK:
        raise LaunchError(
            f"tensor map: a shape of {len(dims)} dimensions was given, {dims}; 1 to {MAX_RANK} are possible"
        )
    if shape is not None or not ELEMENT_TYPES[element].is_packed:
        return dims
    row_bits = array.shape[-1] * DTYPES[array.dtype].itemsize * 8
    return (*array.shape[:-1], row_bits // ELEMENT_TYPES[element].bits)


def _strides(
    dims: tuple[int, ...], strides: Sequence[int] | None, array: HostArray, element: str
) -> tuple[int, ...]:
    """Return the strides in bytes of all dimensions but the last, which must be contiguous."""
    bits = ELEMENT_TYPES[element].bits
    if strides is None and dims != _dims(array, None, element):
        if not array.is_contiguous:
            raise LaunchError(
                f"tensor map: shape {dims} over an array of shape {array.shape} whose rows do not lie one"
                " behind the other needs strides"
            )
        out = [dims[-1] * bits // 8]
        for extent in dims[-2:0:-1]:
            out.append(out[-1] * extent)
        return tuple(out[len(dims) - 2 :: -1]) if len(dims) > 1 else ()
    steps = array.strides if strides is None else _whole("strides", strides)
    if len(steps) != len(dims):
        raise LaunchError(f"tensor map: {len(steps)} strides for a shape of {len(dims)} dimensions")
    itemsize = DTYPES[array.dtype].itemsize if ELEMENT_TYPES[element].is_packed else max(1, bits // 8)
    if steps[-1] != itemsize and dims[-1] > 1 and 0 not in dims:
        raise LaunchError(
            f"tensor map: the last dimension has a stride of {steps[-1]} bytes, the TMA unit needs "
            f"{itemsize} (contiguous)"
        )
    return steps[:-1]


def _columns(
    mode: str,
    box: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    channels: int | None,
    pixels: int | None,
) -> dict[str, Any]:
    """Return what a map for im2col has in place of a box."""
    if mode not in MODES:
        raise LaunchError(f"tensor map: there is no mode '{mode}'; use one of {', '.join(MODES)}")
    if mode == "tile":
        if lower or upper or channels is not None or pixels is not None:
            raise LaunchError(
                "tensor map: lower_corner, upper_corner, channels_per_pixel and pixels_per_column belong"
                ' to mode="im2col"'
            )
        return {"box_dim": _whole("box", box)[::-1]}
    if box or channels is None or pixels is None:
        raise LaunchError(
            f"tensor map: mode {mode} takes lower_corner, upper_corner, channels_per_pixel and"
            " pixels_per_column, and no box"
        )
    return {
        "box_dim": _whole("channels_per_pixel, pixels_per_column", (channels, pixels)),
        "lower_corner": _whole("lower_corner", lower)[::-1],
        "upper_corner": _whole("upper_corner", upper)[::-1],
    }


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
    lower_corner: Sequence[int] = (),
    upper_corner: Sequence[int] = (),
    channels_per_pixel: int | None = None,
    pixels_per_column: int | None = None,
) -> TensorMapArgument:
    """Describe an array to the TMA unit; `shape`, `box`, `element_strides` are in the array's own order,
    `strides` in bytes.

    `swizzle` is none, 32B, 64B, 128B or one of the 128B atoms; `oob_fill` zero or nan. `l2_promotion` is a
    hint and changes nothing here. `dtype` may be a packed type (b4x16, b4x16_p64, b6x16_p32), whose shape
    and box count elements while the array holds their bytes; `fp4_padded` is b4x16_p64. gather4 and
    scatter4 take a map with box (1, columns). `mode` im2col (or im2col::w) takes the corners in the
    array's order (D, H, W as far as there are; W alone) and the two sizes in place of `box`.
    Raises LaunchError for what cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col would refuse.

    >>> import numpy as np
    >>> tensor_map(np.zeros((256, 128), np.float16), box=(128, 64), swizzle="128B").tensor.box_dim
    (64, 128)
    """
    how = dict(locals())
    argument = described(how.pop("a"), **how)
    _refuse(argument.tensor)
    return argument


def described(
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
    lower_corner: Sequence[int] = (),
    upper_corner: Sequence[int] = (),
    channels_per_pixel: int | None = None,
    pixels_per_column: int | None = None,
) -> TensorMapArgument:
    """Describe an array as `tensor_map` does, without asking whether the driver would take the map.

    LaunchError only for what cannot be put into a map's fields at all.
    """
    array = a if isinstance(a, HostArray) else host_array(a)
    element = _element(array, dtype, fp4_padded)
    dims = _dims(array, shape, element)
    columns = _columns(mode, box, lower_corner, upper_corner, channels_per_pixel, pixels_per_column)
    if mode == "tile" and len(columns["box_dim"]) != len(dims):
        raise LaunchError(f"tensor map: box {tuple(box)} has {len(box)} dimensions, the tensor {len(dims)}")
    steps = _strides(dims, strides, array, element)
    traversal = (1,) * len(dims) if element_strides is None else _whole("element_strides", element_strides)
    if swizzle not in SWIZZLE_SPANS:
        known = ", ".join(SWIZZLE_SPANS)
        raise LaunchError(f"tensor map: swizzle '{swizzle}' is unknown; use one of {known}")
    tensor = TensorMap(
        global_address=0,
        elemtype=element,
        global_dim=dims[::-1],
        global_stride=steps[::-1],
        element_stride=traversal[::-1],
        interleave_layout=interleave,
        swizzle=swizzle,
        fill_mode=oob_fill,
        l2_promotion=l2_promotion or "none",
        mode=mode,
        **columns,
    )
    return TensorMapArgument(array, tensor)
